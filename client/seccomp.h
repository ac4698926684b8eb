#pragma once

/*
 * Programs that restrict their system calls with a seccomp(2) filter. Recording needs some calls
 * that such a program does not make, and many filters kill the process for them, as OpenSSH's does.
 */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

/* A filter's verdict on a call: SECCOMP_RET_KILL_PROCESS, …. The kernel has accepted the filter. */
uint32_t sandbox_verdict(const struct sock_fprog *filter, const struct seccomp_data *call);

/* Whether a filter kills the program for a call that recording needs. */
bool sandbox_ends_us(const struct sock_fprog *filter);

/* Whether a filter forbids reading a thread's name: some report such a call to the user. */
bool sandbox_hides_names(const struct sock_fprog *filter);
