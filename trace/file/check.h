#ifndef TIDEMARK_TRACE_FILE_CHECK_H
#define TIDEMARK_TRACE_FILE_CHECK_H

/*
 * The checks of what records point to, and of their numbers (trace/file/limits.h), which reader and
 * writer make: what is saved can be read. Some tables come after what points into them; of those
 * the largest index is remembered with its place and judged when the table's length is known.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/file/file_version.h"
#include "trace/file/record.h"

/* Where a batch of records stands, for error texts. */
struct record_place {
    enum record_type type;
    uint64_t number; /* of the batch's first record in its list, from 1 */
    uint64_t total;  /* length of the list */
    uint64_t offset; /* in the uncompressed stream */
    size_t size;     /* bytes of a record; 0 when they vary (and the batch has one) */
};

enum late_table { LATE_STRING, LATE_CALLSTACK, LATE_IMAGE, LATE_TABLE_COUNT };

struct late_index {
    uint64_t max; /* the largest used, from 1; 0: none */
    struct record_place place;
};

struct checks {
    const struct file_layout *layout;
    uint64_t topology_nodes;
    uint64_t strings;
    uint64_t local_threads, external_threads;
    uint64_t expands, payloads; /* source locations */
    uint64_t lock_threads;
    uint64_t extras;
    struct late_index late[LATE_TABLE_COUNT];
    /* The sums of hashed keys tell, without a table, whether both lists hold the same messages. */
    uint64_t message_sum, thread_message_sum;
};

/*
 * Checks `n` records of a type at `place`. -1 with the place and the cause in `e` when one points
 * nowhere.
 */
int check_records(struct checks *k, const struct record_place *place, const void *recs, size_t n,
                  struct err *e);

/* False for a type of which nothing is to be checked. */
bool check_wanted(enum record_type type);

/* Fills `e`, ERR_INPUT, for the record `i` of a batch: "memory event 7 of 9, offset 5 …: <text>".
 */
int check_failed(const struct record_place *place, size_t i, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
