#ifndef TIDEMARK_ANALYSIS_NAMES_TYPE_TEXT_H
#define TIDEMARK_ANALYSIS_NAMES_TYPE_TEXT_H

/*
 * Demangled names of C++ and Rust taken apart: qualified names with their template arguments, and
 * types made short. For element_type.c only. Names come from traces and may be any bytes: what is
 * not understood is refused, and work grows with a name's length alone.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/view.h"

/* Longer names are refused. */
#define TYPE_TEXT_MAX ((size_t)1 << 16)

#define NAME_PARTS_MAX 16u

struct name_part {
    struct view name; /* without template arguments */
    struct view args; /* what stands between < and >; empty without */
};

/* A qualified name from the outside in: std, vector<…>, push_back. */
struct name_parts {
    struct name_part at[NAME_PARTS_MAX];
    unsigned n;
    struct view rest; /* what follows: parameters, `*`, `const&`; empty at the end of the text */
};

/*
 * Takes the name in a function's text apart: a return type before it is passed over, and it ends
 * at its parameters. Inline namespaces of the standard libraries (std::__1, std::__cxx11) are left
 * out. False when it is no such name, or that of something local to another function.
 */
bool name_parts_of_function(struct view text, struct name_parts *out);

/* The same for a type. It ends at what does not belong to the name. */
bool name_parts_of_type(struct view text, struct name_parts *out);

/* The names joined by `::`; 0 when they do not fit, else the length. */
size_t name_parts_join(const struct name_parts *parts, char *out, size_t size);

/* The argument of that number, from 0 on, without spaces around it; empty when there is none. */
struct view type_argument(struct view args, unsigned number);

/*
 * Appends a type as people write it: without inline namespaces, without arguments that are the
 * default (allocators, traits, comparisons), std::string by its short name, and with the spaces
 * that one compiler puts and the other does not made the same.
 */
void type_put_short(struct buf *out, struct view type);

#endif
