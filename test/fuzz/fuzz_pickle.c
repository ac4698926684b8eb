/* Pickles to packed values, all of which can be read. */

#include <stdlib.h>

#include "import/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A container that lists another many times would be walked very often. */
#define VISITS_MAX 100000u
#define DEPTH_MAX 200u

struct visitor {
    const struct value_arena *arena;
    unsigned visits;
    unsigned sum; /* of all bytes of texts */
};

static void visit(struct visitor *v, uint64_t value, unsigned depth);

static void visit_pairs(struct visitor *v, uint64_t dict, unsigned depth)
{
    struct value_pairs pairs;
    for (; value_pairs_of(v->arena, dict, &pairs); dict = pairs.before) {
        visit(v, pairs.keys, depth + 1);
        for (uint64_t i = 0; i < pairs.n && v->visits < VISITS_MAX; i++)
            visit(v, value_pairs_next(&pairs), depth + 1);
    }
}

static void visit_items(struct visitor *v, uint64_t list, unsigned depth)
{
    struct value_walk walk = {0};
    struct err e = {0};
    uint64_t item;
    if (value_walk_begin(&walk, v->arena, list, &e) != 0 && e.code != ERR_MEMORY)
        abort();
    while (v->visits < VISITS_MAX && value_walk_next(&walk, &item))
        visit(v, item, depth + 1);
    value_walk_release(&walk);
}

static void visit(struct visitor *v, uint64_t value, unsigned depth)
{
    uint64_t number;
    struct view text;
    if (depth == DEPTH_MAX || v->visits++ >= VISITS_MAX)
        return;
    switch (value_kind(value)) {
    case VALUE_OTHER:
    case VALUE_INT:
    case VALUE_WIDE:
        value_number(v->arena, value, &number);
        return;
    case VALUE_TEXT:
        text = value_view(v->arena, value);
        for (size_t i = 0; i < text.len; i++)
            v->sum += (uint8_t)text.p[i];
        return;
    case VALUE_LIST:
        visit_items(v, value, depth);
        return;
    case VALUE_DICT:
        visit_pairs(v, value, depth);
        return;
    default: /* a kind that the reader's memo has */
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct import_source s;
    struct value_arena arena = {0};
    struct pickle p;
    struct err e = {0};
    struct visitor v = {.arena = &arena};
    if (import_source_memory(&s, (struct view){(const char *)data, size}, &e) != 0)
        abort();
    if (pickle_read(&s, &arena, &p, &e) == 0)
        visit(&v, p.root, 0);
    else if (e.code == ERR_NONE || !e.text[0])
        abort();
    value_arena_release(&arena);
    import_source_close(&s);
    return 0;
}
