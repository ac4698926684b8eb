#pragma once

/*
 * A filter that gives call stack frames new names, files and lines, and more functions for inlined
 * calls. Strings precede the frames, so the trace is read twice. After the first pass the caller
 * renames frames in the book (trace/store/frame_book.h); the second pass writes the book's
 * contents.
 *
 * Memory grows with the strings, distinct frames and symbols of the trace, not with its events,
 * plus 2 MiB for the call stacks of samples.
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

/*
 * Unnamed symbols of the trace's symbol list: addresses in the client, each the first byte of a
 * function. A symbol without an answer stays unchanged.
 */
struct reframe_symbol {
    uint64_t address;
    uint32_t image; /* string numbers */
    uint32_t name, file, line;
    bool changed;
};
size_t reframe_symbol_count(const struct reframe *r);
struct reframe_symbol *reframe_symbol(struct reframe *r, size_t i);

/* Sets "tidemark.symbols=TEXT" in the trace's application info and replaces earlier ones. */
int reframe_set_fact(struct reframe *r, const char *text, struct err *e);

/* Second pass. `next` is copied. */
struct record_sink reframe_sink(struct reframe *r, const struct record_sink *next);
