#pragma once

/*
 * Thrift's compact protocol, as far as Parquet's metadata needs it, written to a buffer. After a
 * field that is a struct come the struct's own fields and thrift_end. Field numbers ascend within a
 * struct. Source: doc/specs/thrift-compact-protocol.md of github.com/apache/thrift. For report/
 * only.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/view.h"

#define THRIFT_DEPTH 8

struct thrift {
    struct buf *buf;
    unsigned depth;
    int last[THRIFT_DEPTH]; /* number of the last field of each open struct */
};

enum thrift_type {
    THRIFT_TRUE = 1,
    THRIFT_FALSE = 2,
    THRIFT_I8 = 3,
    THRIFT_I16 = 4,
    THRIFT_I32 = 5,
    THRIFT_I64 = 6,
    THRIFT_DOUBLE = 7,
    THRIFT_BINARY = 8,
    THRIFT_LIST = 9,
    THRIFT_STRUCT = 12,
};

/* Begins with the outermost struct open. */
static inline struct thrift thrift_begin(struct buf *buf)
{
    return (struct thrift){.buf = buf};
}

void thrift_bool(struct thrift *t, int field, bool value);
void thrift_i8(struct thrift *t, int field, int8_t value);
void thrift_i32(struct thrift *t, int field, int32_t value);
void thrift_i64(struct thrift *t, int field, int64_t value);
void thrift_binary(struct thrift *t, int field, struct view bytes);
void thrift_struct(struct thrift *t, int field);

/* Begins a list of `n` elements, which the thrift_element functions write. */
void thrift_list(struct thrift *t, int field, enum thrift_type type, uint32_t n);
void thrift_element_i32(struct thrift *t, int32_t value);
void thrift_element_binary(struct thrift *t, struct view bytes);
void thrift_element_struct(struct thrift *t);

/* Ends the innermost open struct: a field, an element or the outermost. */
void thrift_end(struct thrift *t);
