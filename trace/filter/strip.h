#pragma once

/*
 * A filter that drops kinds of data from a trace, by the letters of the official update tool's
 * `-s`: their lists become empty, all other data stays unchanged. Source: update/src/update.cpp and
 * the `eventMask` tests in server/TracyWorker.cpp @ v0.14.0.
 *
 *     l locks    m messages    p plots    M memory (one empty default pool stays, as in captures
 *     without allocations)    i frame images    c context switches    s samples
 *     C symbol code    S source files
 */

#include <stdbool.h>

#include "base/err.h"
#include "trace/file/record.h"

struct strip {
    struct record_sink next;
    bool locks, messages, plots, memory, images, switches, samples, symbol_code, source_files;
    uint64_t events; /* dropped memory allocations, by the count in the list of pools */
};

/* Initialises a filter that strips nothing. */
void strip_init(struct strip *s, const struct record_sink *next);

/* Adds a string of letters. ERR_USAGE for an unknown letter. */
int strip_add(struct strip *s, const char *letters, struct err *e);

/* Clears in `wanted` (REC_TYPE_COUNT flags) the types that the filter drops anyway. */
void strip_unwanted(const struct strip *s, bool *wanted);

struct record_sink strip_sink(struct strip *s);
