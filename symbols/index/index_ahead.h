#pragma once

/*
 * symbol_index_lookup in three steps, for look-ups of many addresses. Most of a look-up's time is
 * waiting for memory. Each step prefetches what the next one needs, which arrives while other
 * addresses are processed.
 */

#include "symbols/index/index.h"
#include "symbols/index/index_block.h"

struct symbol_index_place {
    struct block block;          /* of the address's unit */
    const struct block_row *row; /* NULL: none */
    uint32_t scope;              /* number + 1; 0: none */
    bool known;                  /* a unit that was read covers the address */
};

/* Valid until the index is extended. */
void symbol_index_find(struct symbol_index *x, uint64_t address, struct symbol_index_place *at);
void symbol_index_fetch(const struct symbol_index *x, const struct symbol_index_place *at);

/* As symbol_index_lookup. */
bool symbol_index_take(struct symbol_index *x, const struct symbol_index_place *at,
                       struct symbol_frame *frames, size_t max, size_t *n);
