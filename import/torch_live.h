#pragma once

/* The live blocks or segments of a device, by address. */

#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "import/torch_history.h"

struct torch_block {
    uint64_t address, size;
    uint64_t pool; /* the ingest's key */
    enum torch_state state;
    bool used;     /* the entry has a block */
    bool expected; /* the snapshot has it, too */
    uint32_t next; /* unused entries: 1 + index of the next one, 0: none */
};

struct torch_live {
    struct map by_address; /* address → index */
    VEC(struct torch_block) list;
    uint32_t unused; /* as torch_block.next */
    uint64_t bytes;
};

void torch_live_release(struct torch_live *l);

/* The block at an address, or NULL. Valid until the next torch_live_add. */
struct torch_block *torch_live_find(const struct torch_live *l, uint64_t address);

/* Adds a block at an address that has none. */
int torch_live_add(struct torch_live *l, const struct torch_block *block, struct err *e);
void torch_live_remove(struct torch_live *l, struct torch_block *block);
