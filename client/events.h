#pragma once

/*
 * Events reported by hooks. All functions preserve errno, and do nothing when this process does not
 * record. A free is reported before the real call, an allocation after it.
 */

#include <stddef.h>

#include "client/record_write.h"
#include "client/state.h"
#include "client/unwind_machine.h"

void event_alloc(const void *address, size_t size, unsigned how, const struct origin *origin);

/* Counts a call of malloc_trim. */
void event_trimmed(bool released);

/* Counts a call that failed because memory was short. Preserves errno. */
__attribute__((cold)) void event_failed(void);

/* How a free was recorded. */
enum event_free {
    EVENT_FREE_NOTHING = 0, /* the block is known not to be recorded */
    EVENT_FREE_SKIPPED,     /* the block was skipped, and so was its free */
    EVENT_FREE_RECORDED,
};

enum event_free event_free(const void *address, unsigned how, const struct origin *origin);

/* The realloc that freed the block in this way has failed. */
void event_put_back(const void *address, enum event_free as);

/*
 * True while the operator (struct label) that made the call with this stack pointer is running. If
 * an exception has left it, its return address is gone from the stack.
 */
static inline bool event_label_holds(uint64_t sp)
{
    const struct label *label = &tls.label;
    return client_unlikely(label->frame != NULL) && sp < label->origin.sp &&
           machine_address(*label->frame) == label->origin.pc;
}

/* True when this process records. In a child of fork the first call connects to the collector. */
bool event_is_on(void);

/* For pools other than the heap: whether the allocation or free is to be recorded. */
bool event_takes(uint32_t pool, uint64_t address, uint64_t size);
bool event_frees(uint32_t pool, uint64_t address);

/* Adds what this thread has deliberately not recorded to the header. */
void event_count_left_out(void);

/* Within an event: false when there is no room for the allocation, which is then counted. */
bool event_has_room(struct thread *t, unsigned level, const struct block *block);

/*
 * Begins an event: `level` is 0, or 1 in a signal handler that interrupted a hook of this thread.
 * NULL: the event is lost. `event_leave` must follow in any case.
 */
struct thread *event_enter(unsigned *level, bool is_free, size_t size);
void event_leave(unsigned level);

/* The number of a call stack; 0: unknown. */
uint32_t event_stack(const struct origin *origin);

/* Records a mapping, with the number of its call stack (see maps.h). False: it is not recorded. */
bool event_map(uint64_t address, uint64_t size, unsigned how, uint32_t stack);
void event_unmap(uint64_t address, unsigned how);

/* Records a child process: REC_FORK or REC_SPAWN. */
void event_child(enum rec_kind kind, pid_t pid, const char *path);

/* exec is about to be called, or has failed. */
void event_exec(const char *path);
void event_exec_failed(void);

/* dlopen or dlclose has returned. */
void event_modules(void);
