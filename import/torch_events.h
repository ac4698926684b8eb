#pragma once

/*
 * Hands the ingest allocations, frees and messages of GPUs. Names: pools are gpuN.allocated,
 * gpuN.pending_free and gpuN.reserved, with .expandable and .private-A-B if that applies; a thread
 * is a stream of a GPU.
 */

#include "import/torch_history.h"
#include "import/torch_stacks.h"

struct torch_events {
    struct ingest *in;
    struct import_counts *counts;
    struct torch_reader *reader;
    struct torch_stacks stacks;
    struct map private_pools; /* their two ids → number */
    struct map pools;         /* keys that have a name */
    struct map streams;       /* GPU and stream → thread id */
    uint64_t base;            /* µs since 1970; time 0 of the trace */
    uint64_t stamp;           /* µs after it, of the last entry */
    int64_t time;             /* ns, of the last event */
};

void torch_events_release(struct torch_events *t);

/* Moves on to the time of an entry. */
void torch_events_at(struct torch_events *t, const struct torch_entry *entry);

/* The key of the pool of a GPU's blocks or segments in a state. */
int torch_pool(struct torch_events *t, unsigned gpu, enum torch_state state, uint64_t pool_id,
               uint64_t *key, struct err *e);

/* Whether a pool's id is that of a private pool. */
bool torch_pool_is_private(const struct torch_events *t, uint64_t pool_id);

int torch_put_alloc(struct torch_events *t, unsigned gpu, uint64_t pool,
                    const struct torch_item *item, uint32_t callstack, struct err *e);
/* `frames`: a list, or VALUE_NONE. */
int torch_put_free(struct torch_events *t, unsigned gpu, uint64_t pool,
                   const struct torch_item *item, uint64_t frames, struct err *e);

/* Begin a zone on the thread of a GPU's stream 0, and end the innermost one. */
int torch_put_zone(struct torch_events *t, unsigned gpu, struct view name, struct err *e);
int torch_end_zone(struct torch_events *t, unsigned gpu, struct err *e);

/* `severity` as in struct event. */
int torch_put_message(struct torch_events *t, unsigned gpu, const struct torch_item *item,
                      struct view text, uint8_t severity, struct err *e);
