#pragma once

/*
 * Checks of the references in records and of their counts (trace/file/limits.h). Reader and writer
 * make the same checks, so every saved trace can be read. Some tables come after the records that
 * refer to them. For those, the largest index is kept with its position and checked when the
 * table's length is known.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/file/file_version.h"
#include "trace/file/record.h"

/* The position of a batch of records, for error texts. */
struct record_place {
    enum record_type type;
    uint64_t number; /* of the batch's first record in its list, counted from 1 */
    uint64_t total;  /* length of the list */
    uint64_t offset; /* of the batch in the uncompressed stream */
    size_t size;     /* bytes per record; 0 when they vary (the batch then has one record) */
};

enum late_table { LATE_STRING, LATE_CALLSTACK, LATE_IMAGE, LATE_TABLE_COUNT };

struct late_index {
    uint64_t max; /* largest index used, from 1; 0: none */
    struct record_place place;
};

struct checks {
    const struct file_layout *layout;
    uint64_t topology_nodes;
    uint64_t strings;
    uint64_t local_threads, external_threads;
    uint64_t expands, payloads; /* numbers of source locations */
    uint64_t lock_threads;
    uint64_t extras;
    struct late_index late[LATE_TABLE_COUNT];
    /*
     * Sums of hashed keys: equal sums mean, without a table, that both lists hold the same
     * messages.
     */
    uint64_t message_sum, thread_message_sum;
};

/*
 * Checks `n` records of a type at `place`. Returns -1 with location and cause in `e` if a reference
 * is out of bounds.
 */
int check_records(struct checks *k, const struct record_place *place, const void *recs, size_t n,
                  struct err *e);

/* False for a type that needs no checks. */
bool check_wanted(enum record_type type);

/* Fills `e` with ERR_INPUT for record `i` of a batch: "memory event 7 of 9, offset 5 …: <text>". */
int check_failed(const struct record_place *place, size_t i, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
