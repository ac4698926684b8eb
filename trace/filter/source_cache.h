#pragma once

/*
 * A filter that adds source files to a trace: those that its source locations and symbols name, or,
 * in a trace without symbols as `run` makes them, those that frames of call stacks name. A file is
 * added if the trace lacks it, it exists under that path on this machine, and it was last changed
 * before the program was built (before the capture, if the build time is unknown). Source:
 * `Worker::CacheSourceFiles` and `SourceFileValid` in server/TracyWorker.cpp @ v0.9.1 … v0.14.0.
 *
 * The trace is read twice, the first time to collect paths. Memory grows with the strings of the
 * trace; files are read one at a time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/file/record.h"

/* Larger files are skipped. */
#define SOURCE_CACHE_FILE_MAX ((uint64_t)16 << 20)

struct source_cache;

struct source_cache_found {
    uint64_t files, too_large;
    uint64_t absent; /* not regular files on this machine */
    uint64_t newer;  /* changed after the program was built or captured */
    uint64_t held;   /* already in the trace */
};

int source_cache_open(struct source_cache **out, struct err *e);
void source_cache_free(struct source_cache *s);

/* First pass. */
struct record_sink source_cache_collect_sink(struct source_cache *s);

/* Sets in `wanted` (REC_TYPE_COUNT flags) the types that the first pass needs. */
void source_cache_wanted(bool *wanted);

/* Between the passes: searches for the files. */
int source_cache_scan(struct source_cache *s, struct source_cache_found *found, struct err *e);

/* Second pass. `next` is copied. ERR_INPUT when a file found earlier cannot be read. */
struct record_sink source_cache_sink(struct source_cache *s, const struct record_sink *next);
