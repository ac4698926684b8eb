#pragma once

/*
 * Parses demangled names of C++ and Rust: qualified names with their template arguments, and types,
 * which it shortens. For element_type.c only. Names come from traces and may be any bytes: unknown
 * syntax is rejected, and the work is linear in a name's length.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/view.h"

/* Longer names are rejected. */
#define TYPE_TEXT_MAX ((size_t)1 << 16)

#define NAME_PARTS_MAX 16u

struct name_part {
    struct view name; /* without template arguments */
    struct view args; /* the text between < and >; empty if there is none */
};

/* A qualified name from the outside in: std, vector<…>, push_back. */
struct name_parts {
    struct name_part at[NAME_PARTS_MAX];
    unsigned n;
    struct view rest; /* what follows: parameters, `*`, `const&`; empty at the end of the text */
};

/*
 * Parses the name in a function's text: a return type before it is skipped, and it ends at its
 * parameters. Inline namespaces of the standard libraries (std::__1, std::__cxx11) are left out.
 * False if it is no such name, or the name of something local to another function.
 */
bool name_parts_of_function(struct view text, struct name_parts *out);

/* The same for a type. Ends at the first character that does not belong to the name. */
bool name_parts_of_type(struct view text, struct name_parts *out);

/* The names joined by `::`. Returns the length, or 0 if they do not fit. */
size_t name_parts_join(const struct name_parts *parts, char *out, size_t size);

/* The argument of that number, from 0 on, without surrounding spaces; empty if there is none. */
struct view type_argument(struct view args, unsigned number);

/*
 * Appends a type in short form: without inline namespaces and default arguments (allocators,
 * traits, comparisons), with std::string by its short name, and with uniform spaces.
 */
void type_put_short(struct buf *out, struct view type);
