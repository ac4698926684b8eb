#ifndef TIDEMARK_TRACE_FILTER_REFRAME_H
#define TIDEMARK_TRACE_FILTER_REFRAME_H

/*
 * A filter that gives the call stack frames of a trace other names, files and lines, and more
 * functions where calls were inlined. Strings stand before the frames, so the trace is read twice:
 * the first time to see what there is; then the caller renames frames in the book
 * (trace/store/frame_book.h); the second time what it says is written.
 *
 * Memory follows the strings, distinct frames and symbols of the trace, not its events, with 2 MiB
 * for the call stacks of samples.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/file/record.h"
#include "trace/store/frame_book.h"

struct reframe;

int reframe_open(struct reframe **out, struct err *e);
void reframe_free(struct reframe *r);

/* First pass. */
struct record_sink reframe_collect_sink(struct reframe *r);

/* Sets in `wanted` (REC_TYPE_COUNT flags) the types that the first pass needs. */
void reframe_wanted(bool *wanted);

/* Between the passes. */
struct frame_book *reframe_book(struct reframe *r);

/* The client's program name. */
struct view reframe_program(const struct reframe *r);

/*
 * Symbols of the trace's own list that nobody named: addresses in the client, each the first byte
 * of a function. A symbol without an answer stays as it is.
 */
struct reframe_symbol {
    uint64_t address;
    uint32_t image; /* string numbers */
    uint32_t name, file, line;
    bool changed;
};
size_t reframe_symbol_count(const struct reframe *r);
struct reframe_symbol *reframe_symbol(struct reframe *r, size_t i);

/* Has "tidemark.symbols=TEXT" in the trace's application info, in place of earlier ones. */
int reframe_set_fact(struct reframe *r, const char *text, struct err *e);

/* Second pass. `next` is copied. */
struct record_sink reframe_sink(struct reframe *r, const struct record_sink *next);

#endif
