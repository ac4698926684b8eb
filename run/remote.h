#pragma once

/*
 * Calls functions in another process, in one of its threads, through ptrace(2).
 *
 * The thread must hold no lock that the function may need: malloc's and the dynamic linker's. A
 * thread is safe if it waits in a system call that neither of them makes, or runs code of neither
 * of them, and is not in a signal handler, which may have interrupted them. The call runs on a
 * separate stack with all signals blocked. Then the thread continues with its old registers, and
 * the kernel restarts a system call that it waited in. The other threads keep running. x86-64 only.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct remote;

/*
 * Stops a thread of the process at a safe point; waits a few seconds for one. `restorer` is the C
 * library's return from signal handlers, `syscall` the address of a system call instruction;
 * `is_unsafe` returns whether an address is code of an allocator or of the dynamic linker.
 */
struct remote_plan {
    pid_t pid;
    uint64_t restorer, syscall;
    bool (*is_unsafe)(void *ctx, uint64_t address);
    void *ctx;
};

int remote_stop(struct remote **out, const struct remote_plan *plan, struct err *e);

/* Restores the thread and lets it continue. `r` may be NULL. */
void remote_let_go(struct remote *r);

/*
 * Calls function(text, number); `text` may be NULL. *result is its return value. Waits up to half a
 * minute; ERR_OUTPUT when it has not returned by then, because another thread holds a lock.
 */
int remote_call(struct remote *r, uint64_t function, const char *text, uint64_t number,
                uint64_t *result, struct err *e);

/*
 * Stops a thread without calling a function in it. False when it does not stop or cannot be traced.
 * It stays stopped until remote_thread_leave.
 */
bool remote_thread_stop(pid_t tid);
void remote_thread_leave(pid_t tid);
