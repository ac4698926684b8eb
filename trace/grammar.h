#ifndef TIDEMARK_TRACE_GRAMMAR_H
#define TIDEMARK_TRACE_GRAMMAR_H

/*
 * Which record may follow which: the one description of a file's order that reader and writer
 * share. A file is a row of root records; a record that announces a number is followed by that many
 * records of the next deeper type. What is still to come stands on an explicit stack, so zones may
 * nest deeply.
 *
 * Source: the order of `Worker::Write` in server/TracyWorker.cpp @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "trace/record.h"
#include "trace/version.h"

/* Zones deeper than this are refused; official releases crash between 20,000 and 200,000. */
#define GRAMMAR_DEPTH_MAX 250000u

/* So many records of a type are still to come before anything else. */
struct grammar_slot {
    enum record_type type;
    uint64_t total;
    uint64_t left;
};

struct grammar {
    const struct file_layout *layout;
    VEC(struct grammar_slot) stack;
};

/* Begins a file of that layout. */
int grammar_start(struct grammar *g, const struct file_layout *layout, struct err *e);
void grammar_release(struct grammar *g);

/* True for a type that is never followed by records of its own. */
bool grammar_is_leaf(enum record_type type);

/* Drops finished slots. Returns the one whose records come next, NULL at the end of the file. */
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

/*
 * After one record of a type that is no leaf: what it announces comes next. ERR_INPUT for a number
 * that no file can hold, or for zones nested too deeply.
 */
int grammar_enter(struct grammar *g, enum record_type type, const void *rec, struct err *e);

#endif
