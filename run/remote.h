#pragma once

/*
 * Calls functions in another process, in one of its threads, through ptrace(2).
 *
 * The thread must hold no lock that the function may need: malloc's and the dynamic linker's. A
 * thread is safe if it waits in a system call that neither of them makes, or runs code of neither
 * of them, and is not in a signal handler, which may have interrupted them. The call runs on a
 * separate stack with all signals blocked. Then the thread continues with its old registers, and
 * the kernel restarts a system call that it waited in. The other threads keep running.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct remote;

/* ---- machines */

#define REMOTE_WORDS_MOST 40u

struct remote_code {
    uint8_t code[12];
    uint8_t size, instruction; /* `instruction`: offset of its system call */
};

/*
 * What differs between processors. Registers are those of NT_PRSTATUS, as words of 64 bits; members
 * without a comment are indices of them.
 */
struct remote_machine {
    struct remote_code restorer; /* how a signal handler returns */
    const char *restorer_in[3];  /* the file that has it: beginnings of names, then NULL */

    /*
     * The return address of a called function: a system call with its result as the first
     * argument, before which the thread stops, and an endless loop.
     */
    struct remote_code landing;
    uint8_t instruction_size; /* bytes of a system call instruction */
    uint8_t words;            /* how many registers there are */
    uint8_t pc, sp, frame, flags, number, result, arguments[6];
    uint8_t link;       /* of the return address; 0: it is on the stack */
    uint64_t flags_off; /* bits of `flags` that a call needs cleared */

    /*
     * Where the number of the system call is that the thread waits in: a register, which is
     * negative outside of system calls, or a register set. With a set, the kernel has moved a
     * thread that will repeat its system call back to the instruction, and the number is in
     * `number`.
     */
    uint8_t waiting;
    int number_set;

    uint8_t mode; /* its value must be mode_known, if that is not 0 */
    uint64_t mode_known;
    uint64_t address_bits; /* those of a return address on the stack; others are a signature */
    int state_sets[2];     /* for vectors: the first that the kernel has includes the other */
};

/* The processor that Tidemark was built for. */
extern const struct remote_machine remote_machine;

/* ---- calls */

/*
 * Stops a thread of the process at a safe point; waits a few seconds for one. `restorer` is the
 * address of remote_machine.restorer in the process; `is_unsafe` returns whether an address is code
 * of an allocator or of the dynamic linker.
 */
struct remote_plan {
    pid_t pid;
    uint64_t restorer;
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
