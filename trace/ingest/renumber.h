#ifndef TIDEMARK_TRACE_INGEST_RENUMBER_H
#define TIDEMARK_TRACE_INGEST_RENUMBER_H

/*
 * Which elements of a store's tables are still needed, and where they stand when the others are
 * gone: of the tables whose numbers the file bounds. A snapshot that has a renumbering first writes
 * nothing and notes whatever something else refers to; then it leaves out the rest, and all numbers
 * are those of the smaller tables (base/snapshot.h, trace/ingest/store_snapshot.h). The store
 * itself stays as it is.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/snapshot.h"
#include "trace/store/store.h"

enum renumber_table {
    RENUMBER_STRINGS,
    RENUMBER_CALLSTACKS,
    RENUMBER_NODES, /* of call stacks; the root stays the first */
    RENUMBER_THREADS,
    RENUMBER_LOCATIONS,
    RENUMBER_PAYLOADS, /* locations that came with their zones */
    RENUMBER_TABLES,
};

struct renumbering {
    bool noting;
    struct {
        uint32_t *to; /* by place: 0 not needed; noting: 1 needed, then 1 + the new place */
        uint32_t len;
        uint32_t kept; /* known when all is noted */
    } tables[RENUMBER_TABLES];
};

/* For a store as it stands; notes nothing yet but what every trace has. */
int renumbering_init(struct renumbering *r, const struct trace *t, struct err *e);
void renumbering_release(struct renumbering *r);

/* All is noted: gives the new places, and the nodes that the needed call stacks consist of. */
void renumbering_settle(struct renumbering *r, const struct trace *t);

/* The new place of an element, or noted that it is needed. Without a renumbering the same. */
static inline uint32_t renumber(struct snapshot *s, enum renumber_table table, uint32_t place)
{
    if (!s->renumbering)
        return place;
    uint32_t *to = &s->renumbering->tables[table].to[place];
    if (s->renumbering->noting)
        *to = 1;
    return *to ? *to - 1 : 0;
}

/* The same for numbers that count from 1, 0 being none. */
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

/* How many of a table's first `n` elements are. */
size_t renumber_kept(const struct snapshot *s, enum renumber_table table, size_t n);

#endif
