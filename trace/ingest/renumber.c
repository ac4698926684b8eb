#include "trace/ingest/renumber.h"

#include <stdlib.h>

int renumbering_init(struct renumbering *r, const struct trace *t, struct err *e)
{
    const size_t lengths[RENUMBER_TABLES] = {
        [RENUMBER_STRINGS] = t->strings.list.len,   [RENUMBER_CALLSTACKS] = t->callstacks.list.len,
        [RENUMBER_NODES] = t->callstacks.nodes.len, [RENUMBER_THREADS] = t->threads.list.len,
        [RENUMBER_LOCATIONS] = t->locations.len,    [RENUMBER_PAYLOADS] = t->location_payloads.len,
    };
    *r = (struct renumbering){.noting = true};
    for (int i = 0; i < RENUMBER_TABLES; i++) {
        r->tables[i].to = calloc(lengths[i] + 1, sizeof *r->tables[i].to);
        r->tables[i].len = (uint32_t)lengths[i];
        if (!r->tables[i].to) {
            renumbering_release(r);
            return err_no_memory(e, "the next part of the trace");
        }
    }
    r->tables[RENUMBER_NODES].to[0] = 1;
    r->tables[RENUMBER_THREADS].to[0] = 1;
    return 0;
}

void renumbering_release(struct renumbering *r)
{
    for (int i = 0; i < RENUMBER_TABLES; i++)
        free(r->tables[i].to);
    *r = (struct renumbering){0};
}

/* Marks each node of a call stack, up to one that was marked before. */
static void note_nodes(struct renumbering *r, const struct callstacks *c)
{
    uint32_t *nodes = r->tables[RENUMBER_NODES].to;
    for (size_t i = 0; i < c->list.len; i++) {
        if (!r->tables[RENUMBER_CALLSTACKS].to[i])
            continue;
        for (uint32_t at = c->list.at[i].node; !nodes[at]; at = c->nodes.at[at].parent)
            nodes[at] = 1;
    }
}

void renumbering_settle(struct renumbering *r, const struct trace *t)
{
    note_nodes(r, &t->callstacks);
    for (int i = 0; i < RENUMBER_TABLES; i++) {
        uint32_t *to = r->tables[i].to, kept = 0;
        for (uint32_t k = 0; k < r->tables[i].len; k++)
            to[k] = to[k] ? ++kept : 0;
        r->tables[i].kept = kept;
    }
    r->noting = false;
}

size_t renumber_kept(const struct snapshot *s, enum renumber_table table, size_t n)
{
    if (!s->renumbering)
        return n;
    if (n == s->renumbering->tables[table].len)
        return s->renumbering->tables[table].kept;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        kept += s->renumbering->tables[table].to[i] != 0;
    return kept;
}
