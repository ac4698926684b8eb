#ifndef TIDEMARK_TRACE_FILTER_SOURCE_CACHE_H
#define TIDEMARK_TRACE_FILTER_SOURCE_CACHE_H

/*
 * A filter that adds source files to a trace: those that its source locations and symbols name (of
 * a trace without symbols, as `run` makes them, those that frames of call stacks name), that it
 * does not hold yet, that are there under that name on this machine, and that were last changed
 * before the program was built (before the capture, when that is not known). Source:
 * `Worker::CacheSourceFiles` and `SourceFileValid` in server/TracyWorker.cpp @ v0.9.1 … v0.14.0.
 *
 * The trace is read twice: the first time to see what is named. Memory follows the strings of the
 * trace; files are read one at a time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/file/record.h"

/* Larger files are left out. */
#define SOURCE_CACHE_FILE_MAX ((uint64_t)16 << 20)

struct source_cache;

struct source_cache_found {
    uint64_t files, too_large;
    uint64_t absent; /* no regular files of this machine */
    uint64_t newer;  /* changed since the program was built, or was captured */
    uint64_t held;   /* in the trace already */
};

int source_cache_open(struct source_cache **out, struct err *e);
void source_cache_free(struct source_cache *s);

/* First pass. */
struct record_sink source_cache_collect_sink(struct source_cache *s);

/* Sets in `wanted` (REC_TYPE_COUNT flags) the types that the first pass needs. */
void source_cache_wanted(bool *wanted);

/* Between the passes: looks for the files. */
int source_cache_scan(struct source_cache *s, struct source_cache_found *found, struct err *e);

/* Second pass. `next` is copied. ERR_INPUT when a file that was found cannot be read. */
struct record_sink source_cache_sink(struct source_cache *s, const struct record_sink *next);

#endif
