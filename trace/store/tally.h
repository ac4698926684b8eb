#pragma once

/*
 * Numbers that a counting pass over a trace keeps for the writing pass: appended in file order and
 * taken in the same order. They are in a file-backed column (base/spool.h), so memory does not grow
 * with their number.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/spool.h"

struct tally {
    struct column column;
    struct column_reader reader;
    const uint64_t *at; /* read and not taken yet */
    size_t left;
};

/* Uses no memory before the first number. `spool` must outlive the tally. */
void tally_init(struct tally *t, struct spool *spool);
void tally_release(struct tally *t);

int tally_add(struct tally *t, uint64_t n, struct err *e);

/*
 * Takes the next number. -1 with ERR_INPUT when there is none: the input changed between the
 * passes.
 */
int tally_take(struct tally *t, uint64_t *n, struct err *e);
