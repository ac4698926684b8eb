#ifndef TIDEMARK_TEST_TRACE_TREE_H
#define TIDEMARK_TEST_TRACE_TREE_H

/*
 * A whole trace as a tree of records, for tests that change it: every record with the records that
 * follow it because it announces them. Include after cmocka.h.
 */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "trace/file/grammar.h"
#include "trace/file/record.h"

struct tree_node {
    enum record_type type;
    void *rec;
    VEC(uint32_t) children;
};

/* Node 0 is the file itself: no record, the root records are its children. */
struct tree {
    VEC(struct tree_node) nodes;
    VEC(void *) owned; /* what records point to */
    /* while it is built */
    struct grammar grammar;
    VEC(uint32_t) parents; /* of each slot on the grammar's stack */
};

static inline void *tree_own(struct tree *t, const void *bytes, size_t n)
{
    void *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    if (n > 0)
        memcpy(copy, bytes, n);
    assert_true(vec_push(&t->owned, copy));
    return copy;
}

static inline void tree_own_view(struct tree *t, struct view *v)
{
    v->p = tree_own(t, v->p, v->len);
}

/* Makes what a record points to the tree's own. */
static inline void tree_own_parts(struct tree *t, enum record_type type, void *rec)
{
    switch (type) {
    case REC_HEADER:
        tree_own_view(t, &((struct rec_header *)rec)->capture_name);
        tree_own_view(t, &((struct rec_header *)rec)->capture_program);
        tree_own_view(t, &((struct rec_header *)rec)->host_info);
        break;
    case REC_STRING:
        tree_own_view(t, &((struct rec_string *)rec)->text);
        break;
    case REC_CALLSTACK: {
        struct rec_callstack *r = rec;
        r->frames = tree_own(t, r->frames, r->len * sizeof *r->frames);
        break;
    }
    case REC_CALLSTACK_FRAME: {
        struct rec_callstack_frame *r = rec;
        r->inlines = tree_own(t, r->inlines, r->n * sizeof *r->inlines);
        break;
    }
    case REC_FRAME_IMAGE_DICT:
        tree_own_view(t, &((struct rec_blob *)rec)->bytes);
        break;
    case REC_FRAME_IMAGE:
        tree_own_view(t, &((struct rec_frame_image *)rec)->bytes);
        break;
    case REC_SYMBOL_CODE:
        tree_own_view(t, &((struct rec_symbol_code *)rec)->bytes);
        break;
    case REC_SOURCE_FILE:
        tree_own_view(t, &((struct rec_source_file *)rec)->path);
        tree_own_view(t, &((struct rec_source_file *)rec)->bytes);
        break;
    default:
        break;
    }
}

static inline void tree_add(struct tree *t, enum record_type type, const void *rec)
{
    struct err e = {0};
    if (t->nodes.len == 0) {
        assert_true(vec_push(&t->nodes, (struct tree_node){0}));
        const struct rec_header *header = rec;
        assert_int_equal(grammar_start(&t->grammar, file_layout_find(header->version), &e), 0);
    }
    struct grammar_slot *slot = grammar_next(&t->grammar);
    assert_non_null(slot);
    assert_int_equal(slot->type, type);
    size_t depth = t->grammar.stack.len;
    while (t->parents.len < depth) /* the root's slots */
        assert_true(vec_push(&t->parents, 0));
    uint32_t parent = t->parents.at[depth - 1];
    uint32_t number = (uint32_t)t->nodes.len;
    struct tree_node node = {.type = type, .rec = tree_own(t, rec, record_size(type))};
    tree_own_parts(t, type, node.rec);
    assert_true(vec_push(&t->nodes, node));
    assert_true(vec_push(&t->nodes.at[parent].children, number));
    slot->left--;
    if (grammar_is_leaf(type))
        return;
    t->parents.len = t->grammar.stack.len;
    assert_int_equal(grammar_enter(&t->grammar, type, node.rec, &e), 0);
    while (t->parents.len < t->grammar.stack.len)
        assert_true(vec_push(&t->parents, number));
}

static inline int tree_put(void *ctx, enum record_type type, const void *recs, size_t n,
                           struct err *e)
{
    (void)e;
    for (size_t i = 0; i < n; i++)
        tree_add(ctx, type, (const uint8_t *)recs + i * record_size(type));
    return 0;
}

/* A sink that builds the tree; zero-initialise `t` before. */
static inline struct record_sink tree_sink(struct tree *t)
{
    return (struct record_sink){t, tree_put};
}

static inline void tree_release(struct tree *t)
{
    for (size_t i = 0; i < t->nodes.len; i++)
        vec_release(&t->nodes.at[i].children);
    for (size_t i = 0; i < t->owned.len; i++)
        free(t->owned.at[i]);
    vec_release(&t->nodes);
    vec_release(&t->owned);
    vec_release(&t->parents);
    grammar_release(&t->grammar);
}

/* The records again, in the order of the tree. */
static inline int tree_emit(const struct tree *t, uint32_t number, const struct record_sink *sink,
                            struct err *e)
{
    const struct tree_node *node = &t->nodes.at[number];
    if (node->rec && record_put(sink, node->type, node->rec, 1, e) != 0)
        return -1;
    for (size_t i = 0; i < node->children.len; i++) {
        if (tree_emit(t, node->children.at[i], sink, e) != 0)
            return -1;
    }
    return 0;
}

/* The nodes of a type, in the order of the file; *n gets their number. */
static inline uint32_t *tree_nodes(const struct tree *t, enum record_type type, size_t *n)
{
    uint32_t *found = malloc((t->nodes.len + 1) * sizeof *found);
    assert_non_null(found);
    *n = 0;
    for (size_t i = 1; i < t->nodes.len; i++) {
        if (t->nodes.at[i].type == type)
            found[(*n)++] = (uint32_t)i;
    }
    return found;
}

#endif
