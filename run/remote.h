#ifndef TIDEMARK_RUN_REMOTE_H
#define TIDEMARK_RUN_REMOTE_H

/*
 * Calls of functions in another process, by one of its threads, through ptrace(2).
 *
 * The thread must be at a place where it holds no lock that the function may want: malloc's and the
 * dynamic linker's. So it is one that waits in a system call which neither of them makes, or that
 * runs code of neither of them, and that is in no signal handler, which may have interrupted them.
 * It gets a stack of its own for the call, all signals wait meanwhile, and then it goes on as if
 * nothing had been: registers as they were, a system call that it waited in begun anew by the
 * kernel. All other threads run all the time. x86-64 only.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct remote;

/*
 * Stops a thread of the process at such a place; waits a few seconds for one. `restorer` is where
 * the C library returns from signal handlers, `syscall` where any system call instruction lies;
 * `is_unsafe` tells of an address whether it is code of an allocator or of the dynamic linker.
 */
struct remote_plan {
    pid_t pid;
    uint64_t restorer, syscall;
    bool (*is_unsafe)(void *ctx, uint64_t address);
    void *ctx;
};

int remote_stop(struct remote **out, const struct remote_plan *plan, struct err *e);

/* Lets the thread go on as it was. `r` may be NULL. */
void remote_let_go(struct remote *r);

/*
 * function(text, number): `text` may be NULL. *result is what it returned. Waits up to half a
 * minute; ERR_OUTPUT when it is not back by then, because another thread holds a lock.
 */
int remote_call(struct remote *r, uint64_t function, const char *text, uint64_t number,
                uint64_t *result, struct err *e);

/*
 * Stops a thread that nothing is called in: false when it does not, and no debugger may have it.
 * Then it stays until remote_thread_leave.
 */
bool remote_thread_stop(pid_t tid);
void remote_thread_leave(pid_t tid);

#endif
