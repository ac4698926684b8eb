#pragma once

/*
 * A filter that names call stack frames after the capture. A client built with
 * TRACY_SYMBOL_OFFLINE_RESOLVE sends its frames as "[unresolved]", with the image's name, and as
 * symbol address the offset in it. Strings precede the frames, so the trace is read twice, the
 * first time to collect the frames; then the caller resolves them.
 *
 * As in the official tool only names, files and lines of frames change; the list of symbols stays.
 * Source: update/src/OfflineSymbolResolver.cpp @ v0.11.0 … v0.14.0.
 *
 * Memory grows with the strings and the distinct frames of the trace, not with its events.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/file/record.h"

#define SYMBOLIZE_UNRESOLVED "[unresolved]"

struct symbolize;

struct symbolize_options {
    bool reset;   /* reset all frames to unresolved first */
    bool resolve; /* collect unresolved frames for the caller to answer */
};

int symbolize_open(struct symbolize **out, const struct symbolize_options *options, struct err *e);
void symbolize_free(struct symbolize *s);

/* First pass. */
struct record_sink symbolize_collect_sink(struct symbolize *s);

/* Sets in `wanted` (REC_TYPE_COUNT flags) the types that the first pass needs. */
void symbolize_wanted(bool *wanted);

/* Between the passes: images with unresolved frames, and the distinct offsets of those frames. */
size_t symbolize_images(const struct symbolize *s);
struct view symbolize_image(const struct symbolize *s, size_t image);
const uint64_t *symbolize_offsets(const struct symbolize *s, size_t image, size_t *n);

/* All frames of the trace, with each inlined function counted. */
uint64_t symbolize_frames(const struct symbolize *s);

/*
 * Names the frame at an offset, number `i` of symbolize_offsets. An empty `file` leaves file and
 * line unchanged. Frames without an answer stay unchanged.
 */
int symbolize_answer(struct symbolize *s, size_t image, size_t i, struct view name,
                     struct view file, uint32_t line, struct err *e);

/* Second pass. `next` is copied. */
struct record_sink symbolize_sink(struct symbolize *s, const struct record_sink *next);
