#pragma once

/* Parses the output of addr2line as it arrives through the pipe (see symbols/addr2line.h). */

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "symbols/addr2line.h"

struct addr2line_answer {
    const uint64_t *addresses; /* the addresses passed to the tool */
    size_t n;
    size_t first; /* the caller's index of addresses[0] */
    addr2line_put *put;
    void *ctx;
    /* Parser state: */
    size_t next; /* entries are complete up to this one */
    enum { ANSWER_ADDRESS, ANSWER_FUNCTION, ANSWER_PLACE } expects;
    struct buf function, line;
};

/* Parses the next bytes, split anywhere, and puts the entries that they complete. */
int addr2line_answer_feed(struct addr2line_answer *a, const char *bytes, size_t n, struct err *e);
void addr2line_answer_release(struct addr2line_answer *a);
