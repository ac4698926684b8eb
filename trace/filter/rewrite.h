#ifndef TIDEMARK_TRACE_FILTER_REWRITE_H
#define TIDEMARK_TRACE_FILTER_REWRITE_H

/*
 * A trace through all filters into a writer, in this order:
 *
 *     reader → strip → pools → range → symbolize → reframe → source_cache → image_dict
 *            → rekey (of what is stripped) → convert → writer
 *
 * Pools and range, which change numbers that stand before what they count, get a pass of their own
 * before, through the filters to their left; the next four share one, behind strip. Without any of
 * them the trace is read once.
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
 * Reads the whole trace from its beginning into `sink`; `wanted` as in struct trace_read_options.
 * `pass` counts from 0: more than one call comes only for options with rewrite_passes > 1.
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
    /* Names frames anew; NULL: no such filter. Not together with `symbols`. */
    int (*rename)(void *ctx, struct reframe *r, struct err *e);
    void *rename_ctx;
    bool cache_sources;
    bool image_dict;
    struct convert_options convert;
};

struct rewrite_outcome {
    struct trace_info info; /* of the last pass */
    struct buf losses;      /* see convert_losses; the caller's to release */
    uint64_t stripped;      /* memory allocations, by strip */
    uint64_t frames;        /* symbols.reset or resolve: of the trace */
    struct source_cache_found sources;
    size_t dict_size;
};

/* How often the trace will be read. */
unsigned rewrite_passes(const struct rewrite_options *options);

/* 0, or -1 with `e`. The writer is left to be finished by the caller. */
int rewrite_trace(const struct rewrite_source *source, const struct rewrite_options *options,
                  struct trace_writer *writer, struct rewrite_outcome *outcome, struct err *e);

#endif
