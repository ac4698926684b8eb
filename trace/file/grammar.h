#pragma once

/*
 * Defines which record may follow which. Reader and writer share this description of a file's
 * order. A file is a sequence of root records; a record that announces a count is followed by that
 * many records of the next deeper type. Pending records are kept on an explicit stack, so zones may
 * nest deeply.
 *
 * Source: the order of `Worker::Write` in server/TracyWorker.cpp @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/vec.h"
#include "trace/file/file_version.h"
#include "trace/file/limits.h"
#include "trace/file/record.h"

/* The number of pending records of a type that must come first. */
struct grammar_slot {
    enum record_type type;
    uint64_t total;
    uint64_t left;
};

struct grammar_follower {
    uint8_t type;
    uint16_t times; /* 0: the count in the record */
};

#define GRAMMAR_FOLLOWERS_MAX 4

/* The followers of a record type in one layout, last first. */
struct grammar_rule {
    uint8_t count;
    uint8_t n_width; /* bytes of the announced count: 8, 4, or 0 for none */
    uint16_t n_offset;
    struct grammar_follower follow[GRAMMAR_FOLLOWERS_MAX];
};

struct grammar {
    VEC(struct grammar_slot) stack;
    struct grammar_rule rules[REC_TYPE_COUNT];
};

/* Starts a file of that layout. */
int grammar_start(struct grammar *g, const struct file_layout *layout, struct err *e);
void grammar_release(struct grammar *g);

/* True for a type that never has followers. */
bool grammar_is_leaf(enum record_type type);

/* Drops finished slots. Returns the slot of the next records; NULL at the end of the file. */
static inline struct grammar_slot *grammar_next(struct grammar *g)
{
    while (g->stack.len > 0) {
        struct grammar_slot *top = &g->stack.at[g->stack.len - 1];
        if (top->left > 0)
            return top;
        g->stack.len--;
    }
    return NULL;
}

/* Fills `e` with the reason why grammar_enter refused. Returns -1. */
int grammar_refuse(const struct grammar *g, enum record_type type, uint64_t n, struct err *e);

/*
 * Called after a record of a type that is no leaf: makes its followers the next records. ERR_INPUT
 * for a count that no file can hold, or for zones nested too deeply.
 */
static inline int grammar_enter(struct grammar *g, enum record_type type, const void *rec,
                                struct err *e)
{
    const struct grammar_rule *rule = &g->rules[type];
    const uint8_t *at = (const uint8_t *)rec + rule->n_offset;
    uint64_t n = rule->n_width == 8 ? load_u64(at) : rule->n_width == 4 ? load_u32(at) : 0;
    if (n > GRAMMAR_LIST_MAX || g->stack.len > 2 * (size_t)GRAMMAR_DEPTH_MAX ||
        !vec_reserve(&g->stack, g->stack.len + rule->count))
        return grammar_refuse(g, type, n, e);
    for (unsigned i = 0; i < rule->count; i++) {
        uint64_t times = rule->follow[i].times ? rule->follow[i].times : n;
        if (times > 0)
            g->stack.at[g->stack.len++] =
                (struct grammar_slot){(enum record_type)rule->follow[i].type, times, times};
    }
    return 0;
}
