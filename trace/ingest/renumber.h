#pragma once

/*
 * Tracks which elements of a store's tables are still needed, and their positions after the others
 * are removed, for the tables whose numbers the file bounds. A snapshot with a renumbering first
 * writes nothing and marks every referenced element. The second pass leaves out the unmarked ones
 * and uses the numbers of the smaller tables (base/snapshot.h, trace/ingest/store_snapshot.h). The
 * store does not change.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/snapshot.h"
#include "trace/store/store.h"

enum renumber_table {
    RENUMBER_STRINGS,
    RENUMBER_CALLSTACKS,
    RENUMBER_NODES, /* nodes of call stacks; the root stays first */
    RENUMBER_THREADS,
    RENUMBER_LOCATIONS,
    RENUMBER_PAYLOADS, /* locations sent with their zones */
    RENUMBER_TABLES,
};

struct renumbering {
    bool noting;
    struct {
        uint32_t *to; /* by position: 0 not needed, else 1 + new position; marking: 1 needed */
        uint32_t len;
        uint32_t kept; /* set when marking is complete */
    } tables[RENUMBER_TABLES];
};

/* Prepares for a store; marks only the elements that every trace has. */
int renumbering_init(struct renumbering *r, const struct trace *t, struct err *e);
void renumbering_release(struct renumbering *r);

/*
 * Call it when all elements are marked: assigns the new positions, and marks the nodes of the
 * needed call stacks.
 */
void renumbering_settle(struct renumbering *r, const struct trace *t);

/*
 * The new position of an element; while marking, marks it as needed. Without a renumbering, the
 * same position.
 */
static inline uint32_t renumber(struct snapshot *s, enum renumber_table table, uint32_t place)
{
    if (!s->renumbering)
        return place;
    uint32_t *to = &s->renumbering->tables[table].to[place];
    if (s->renumbering->noting)
        *to = 1;
    return *to ? *to - 1 : 0;
}

/* The same for numbers that count from 1; 0 is none. */
static inline uint32_t renumber_from_1(struct snapshot *s, enum renumber_table table,
                                       uint32_t number)
{
    return number ? renumber(s, table, number - 1) + 1 : 0;
}

static inline bool renumber_notes(const struct snapshot *s)
{
    return s->renumbering && s->renumbering->noting;
}

/* Whether an element is to be written. */
static inline bool renumber_keeps(const struct snapshot *s, enum renumber_table table, size_t place)
{
    return !s->renumbering || s->renumbering->tables[table].to[place] != 0;
}

/* How many of a table's first `n` elements are written. */
size_t renumber_kept(const struct snapshot *s, enum renumber_table table, size_t n);
