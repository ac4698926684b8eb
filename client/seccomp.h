#ifndef TIDEMARK_CLIENT_SECCOMP_H
#define TIDEMARK_CLIENT_SECCOMP_H

/*
 * Programs that forbid themselves system calls, with a filter that the kernel asks (seccomp(2)). We
 * need some that such a program does not, and many filters end who makes another: OpenSSH's do.
 */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

/* What a filter, which the kernel has accepted, says to a call: SECCOMP_RET_KILL_PROCESS, … */
uint32_t sandbox_verdict(const struct sock_fprog *filter, const struct seccomp_data *call);

/* Whether a filter ends the program for a call that recording needs. */
bool sandbox_ends_us(const struct sock_fprog *filter);

/* Whether one objects to asking for a thread's name: some tell the user of it. */
bool sandbox_hides_names(const struct sock_fprog *filter);

#endif
