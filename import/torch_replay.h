#pragma once

/* Replays a device's history: from what was there before it to the snapshot. */

#include "import/torch_events.h"
#include "import/torch_live.h"

struct torch_mapping {
    uint64_t pool; /* the ingest's key */
    uint32_t callstack;
    int64_t stream;
};

struct torch_replay {
    struct torch_events *to;
    const struct torch_device *device;
    struct torch_live blocks, segments;
    struct address_ranges mapped; /* a range's owner is an index in `mappings` */
    VEC(struct torch_mapping) mappings;
    uint64_t mapped_bytes;
    struct value_walk walk;
    struct torch_entry next; /* valid if `more` */
    bool more;
};

void torch_replay_release(struct torch_replay *p);

/* Puts what was there before the history, and goes to its first entry. */
int torch_replay_begin(struct torch_replay *p, struct torch_events *to,
                       const struct torch_device *device, struct err *e);

/* Replays the next entry. */
int torch_replay_step(struct torch_replay *p, struct err *e);

/* Frees what the history has and the snapshot has not. Call it if the file has segments. */
int torch_replay_end(struct torch_replay *p, struct err *e);
