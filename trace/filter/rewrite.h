#pragma once

/*
 * Runs a trace through all filters into a writer, in this order:
 *
 *     reader → strip → pools → range → symbolize → reframe → source_cache → image_dict
 *            → rekey (of what is stripped) → convert → writer
 *
 * Pools and range change counts that precede the counted records. Each needs an additional pass
 * through the filters before it. The next four filters share one additional pass, after strip.
 * Without any of these, the trace is read once.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "trace/file/reader.h"
#include "trace/file/writer.h"
#include "trace/filter/convert.h"
#include "trace/filter/pools.h"
#include "trace/filter/range.h"
#include "trace/filter/reframe.h"
#include "trace/filter/source_cache.h"
#include "trace/filter/symbolize.h"

/*
 * Reads the whole trace from the start into `sink`; `wanted` as in struct trace_read_options.
 * `pass` counts from 0; there is more than one only for options with rewrite_passes > 1.
 */
struct rewrite_source {
    void *ctx;
    int (*read)(void *ctx, unsigned pass, const struct record_sink *sink, const bool *wanted,
                struct trace_info *info, struct err *e);
};

struct rewrite_options {
    const char *strip; /* letters of trace/filter/strip.h, or NULL */
    struct pools_options pools;
    bool has_range;
    struct range_options range;
    struct symbolize_options symbols;
    /* Names frames with symbolize_answer, when symbols.resolve is set. */
    int (*resolve)(void *ctx, struct symbolize *s, struct err *e);
    void *resolve_ctx;
    /* Renames frames; NULL: no such filter. Not together with `symbols`. */
    int (*rename)(void *ctx, struct reframe *r, struct err *e);
    void *rename_ctx;
    bool cache_sources;
    bool image_dict;
    struct convert_options convert;
};

struct rewrite_outcome {
    struct trace_info info; /* of the last pass */
    struct buf losses;      /* see convert_losses; released by the caller */
    uint64_t stripped;      /* memory allocations dropped by strip */
    uint64_t frames;        /* frames of the trace, with symbols.reset or resolve */
    struct source_cache_found sources;
    size_t dict_size;
};

/* How many times the trace is read. */
unsigned rewrite_passes(const struct rewrite_options *options);

/* Returns 0, or -1 with `e`. The caller finishes the writer. */
int rewrite_trace(const struct rewrite_source *source, const struct rewrite_options *options,
                  struct trace_writer *writer, struct rewrite_outcome *outcome, struct err *e);
