#ifndef TIDEMARK_SYMBOLS_ELF_DEMANGLE_H
#define TIDEMARK_SYMBOLS_ELF_DEMANGLE_H

/*
 * Linkage names as people write them: C++ (Itanium), Rust (legacy and v0) and D, through libiberty.
 * Names come from files that may be anything: text longer than DEMANGLED_MAX bytes is not made.
 */

#include <stdbool.h>

#include "base/buf.h"

#define DEMANGLED_MAX ((size_t)1 << 16)
#define MANGLED_MAX ((size_t)1 << 16)

/*
 * Appends what `name` stands for to `out`. False, with nothing appended, when it is no mangled
 * name, or too long in either form: then it stands for itself.
 */
bool demangle(const char *name, struct buf *out);

#endif
