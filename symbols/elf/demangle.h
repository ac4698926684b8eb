#pragma once

/*
 * Demangles linkage names of C++ (Itanium), Rust (legacy and v0) and D through libiberty, and those
 * of Microsoft's compiler (symbols/pdb/msvc_names.h). Names are untrusted; results longer than
 * DEMANGLED_MAX bytes are refused.
 */

#include <stdbool.h>

#include "base/buf.h"

#define DEMANGLED_MAX ((size_t)1 << 16)
#define MANGLED_MAX ((size_t)1 << 16)

/*
 * Appends the demangled `name` to `out`. False, with nothing appended, if it is not mangled, or too
 * long in either form; the caller then uses the name as is.
 */
bool demangle(const char *name, struct buf *out);
