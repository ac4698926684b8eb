#pragma once

/*
 * A compact log of the steps of a stream, for the figures by group: for each step the call stack,
 * the size, and whether a new nanosecond begins. Steps are written and read in portions of up to
 * LOG_RUN. Each step of a portion has as many whole bytes as its largest numbers need together, so
 * packing and unpacking is one store and one load per step. Data beyond the budget of a spool goes
 * to its file.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/spool.h"
#include "base/vec.h"

#define LOG_RUN 256u /* steps */

#define LOG_LATER 1u /* later than the previous step: a new nanosecond */
#define LOG_FREE 2u

/* Steps as parallel arrays. Call stacks have 24 bits, sizes 48. */
struct log_steps {
    uint32_t what[LOG_RUN]; /* call stack << 2 | LOG_FREE | LOG_LATER */
    uint64_t size[LOG_RUN];
    uint32_t n;
    /* set by the writer: all bits that are set in any */
    uint32_t any_what;
    uint64_t any_size;
};

struct log_chunk {
    uint8_t *bytes; /* NULL: in the spool's file */
    size_t len;
    uint64_t place;
};

struct stream_log {
    struct spool *spool;          /* its budget is for the log only */
    VEC(struct log_chunk) chunks; /* the last one is being filled */
    size_t resident;              /* the first chunk in memory */
    uint64_t len;                 /* steps */
};

/* `spool` must outlive the log. */
void stream_log_init(struct stream_log *l, struct spool *spool);
void stream_log_release(struct stream_log *l);

/* Appends up to LOG_RUN steps, and empties `s`. -1 with `e` if memory or disk is short. */
int stream_log_put(struct stream_log *l, struct log_steps *s, struct err *e);

/* A position between two portions. */
struct log_place {
    size_t chunk;
    size_t at; /* offset in it */
};

/* The end of the log. */
struct log_place stream_log_end(const struct stream_log *l);

/* Reads the steps between two positions. Several readers may run at the same time. */
struct log_reader {
    const struct stream_log *log;
    struct log_place next, end;
    uint8_t *buffer;  /* for a chunk in the file */
    size_t in_buffer; /* its number + 1 */
};

void log_reader_init(struct log_reader *r, const struct stream_log *l, struct log_place from,
                     struct log_place to);
void log_reader_release(struct log_reader *r);

/* Reads the next portion, without any_…. `n` is 0 at the end. -1 with `e`. */
int log_reader_next(struct log_reader *r, struct log_steps *s, struct err *e);
