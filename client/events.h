#ifndef TIDEMARK_CLIENT_EVENTS_H
#define TIDEMARK_CLIENT_EVENTS_H

/*
 * What hooks say has happened. All keep errno, and do nothing when this process does not record.
 * A free is said before the real call, an allocation after it.
 */

#include <stddef.h>

#include "client/record_write.h"
#include "client/state.h"

void event_alloc(const void *address, size_t size, unsigned how, const struct origin *origin);

/* A call gave no block, for want of memory: it is counted. Leaves errno alone. */
__attribute__((cold)) void event_failed(void);

/* What became of a free. */
enum event_free {
    EVENT_FREE_NOTHING = 0, /* the block is known not to be recorded */
    EVENT_FREE_SKIPPED,     /* it was skipped, and so was its free */
    EVENT_FREE_RECORDED,
};

enum event_free event_free(const void *address, unsigned how, const struct origin *origin);

/* The realloc failed that freed the block in this way. */
void event_put_back(const void *address, enum event_free as);

/*
 * True while an operator (struct label) is going on that called what has this stack pointer. An
 * exception may have left it without a word: then its return address is gone from the stack.
 */
static inline bool event_label_holds(uint64_t sp)
{
    const struct label *label = &tls.label;
    return client_unlikely(label->frame != NULL) && sp < label->origin.sp &&
           *label->frame == label->origin.pc;
}

/* True when this process records. A child of fork meets the collector by asking. */
bool event_is_on(void);

/* Of blocks of other pools than the heap: whether the allocation, the free, is to be recorded. */
bool event_takes(uint32_t pool, uint64_t address, uint64_t size);
bool event_frees(uint32_t pool, uint64_t address);

/* Adds to the header what this thread left out by wish. */
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

/* A mapping, with the number of its call stack (see maps.h). False: it is not recorded. */
bool event_map(uint64_t address, uint64_t size, unsigned how, uint32_t stack);
void event_unmap(uint64_t address, unsigned how);

/* A child process: REC_FORK or REC_SPAWN. */
void event_child(enum rec_kind kind, pid_t pid, const char *path);

/* exec is about to be called, or has failed. */
void event_exec(const char *path);
void event_exec_failed(void);

/* dlclose has returned. */
void event_unload(void);

#endif
