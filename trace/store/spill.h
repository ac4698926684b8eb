#pragma once

/*
 * Sorts a list of records by time in bounded memory: sorted runs that exceed memory go to an
 * unlinked temporary file, packed (base/pack.h), and are merged at the end. Records of equal time
 * keep their order. A record is any struct that begins with its int64_t time and has no more than
 * SPILL_RECORD_MAX bytes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pack.h"
#include "base/vec.h"

#define SPILL_RECORD_MAX ((size_t)8 * PACK_FIELDS_MAX)

struct spill_run {
    uint64_t offset; /* in the temporary file */
    uint64_t n;
};

struct spill {
    size_t size;     /* bytes per record */
    size_t capacity; /* most records kept in memory */
    size_t block;    /* records packed at a time */
    struct pack_layout layout;
    const char *dir;
    uint8_t *buf;
    size_t n;
    uint8_t *packed; /* room for a block; NULL before the first use */
    int fd;          /* opened on first use; -1 before */
    uint64_t end;
    VEC(struct spill_run) runs;
    int64_t last;   /* time of the last record of the last run */
    bool unordered; /* a run begins before its predecessor ends */
};

/* 48 MiB for a buffer, and as much again while it is sorted. */
#define SPILL_BYTES ((size_t)48 << 20)

/*
 * `size`: bytes per record. `capacity`: records kept in memory; 0: as many as fit SPILL_BYTES.
 * `dir`: folder of the temporary file; NULL: $TMPDIR, else /var/tmp. The string must outlive the
 * spill.
 */
void spill_init(struct spill *s, size_t size, size_t capacity, const char *dir);
void spill_release(struct spill *s);

int spill_add(struct spill *s, const void *recs, size_t n, struct err *e);

typedef int spill_put(void *ctx, const void *recs, size_t n, struct err *e);

/* Delivers all records in order of time and empties the spill for reuse. */
int spill_drain(struct spill *s, spill_put *put, void *ctx, struct err *e);
