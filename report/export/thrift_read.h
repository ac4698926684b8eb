#pragma once

/*
 * Reads Thrift's compact protocol (thrift.h), as far as Parquet's metadata needs it, from untrusted
 * bytes. Whatever is wrong sets `short_read` of the cursor, which the caller checks once at the
 * end; from then on all reads give zeroes and structs end.
 */

#include "base/cursor.h"
#include "base/view.h"
#include "report/export/thrift.h"

/* Zero-initialise before the first field of a struct. */
struct thrift_field {
    int number;
    unsigned type; /* TYPE_… of the protocol */
};

/* The next field of a struct; false at its end. */
bool thrift_read_field(struct cursor *c, struct thrift_field *f);

uint64_t thrift_read_varint(struct cursor *c);

/* The value of a field of any integer type but i8; fails if the field has another type. */
int64_t thrift_read_integer(struct cursor *c, const struct thrift_field *f);
struct view thrift_read_binary(struct cursor *c, const struct thrift_field *f);

/* The number of elements of a list of this type, at most the bytes left. */
uint32_t thrift_read_list(struct cursor *c, const struct thrift_field *f, enum thrift_type type);

/* Begins the struct of a field. False if the field has another type. */
bool thrift_read_struct(struct cursor *c, const struct thrift_field *f);

/* Skips the value of a field. Nesting beyond THRIFT_DEPTH fails. */
void thrift_skip(struct cursor *c, const struct thrift_field *f);
