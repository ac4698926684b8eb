#pragma once

/*
 * The strings of a file and the targets of client pointers, collected from its records by filters
 * that need names. Memory grows with the strings of the trace, not with its events.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "trace/file/record.h"
#include "trace/store/strings.h"

struct name_table {
    struct pageable pageable; /* allocator of the tables below */
    struct strings strings;   /* numbers as in the file */
    struct map keys;          /* a string's key in the file → its number */
    uint64_t greatest;        /* largest key */
    uint64_t new_keys;        /* new keys assigned */
};

/* `t` must not move. */
void name_table_init(struct name_table *t);
void name_table_release(struct name_table *t);

/* Sets in `wanted` (REC_TYPE_COUNT flags) the types that name_table_put uses. */
void name_table_wanted(bool *wanted);

/* Takes strings and string pointers; other types are ignored. */
int name_table_put(struct name_table *t, enum record_type type, const void *recs, size_t n,
                   struct err *e);

/* The text of a reference; empty for none and for unknown ones. */
struct view name_table_text(const struct name_table *t, const struct rec_string_ref *ref);

/* An unused string key; call it after all strings of the file were put. 0 with `e` on an error. */
uint64_t name_table_new_key(struct name_table *t, struct err *e);
