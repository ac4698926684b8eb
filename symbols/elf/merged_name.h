#pragma once

/*
 * The name of code that several functions share. Compilers and linkers merge functions with the
 * same machine code; the symbols of all of them are at its address, and which one was called is
 * unknown. What differs in their names, arguments of templates mostly, becomes "_":
 *
 *     <alloc::raw_vec::RawVec<std::ffi::os_str::OsString>>::grow_one
 *     <alloc::raw_vec::RawVec<alloc::string::String>>::grow_one
 *     <alloc::raw_vec::RawVec<_>>::grow_one
 */

#include "base/buf.h"
#include "base/view.h"

/*
 * Appends to `out` a demangled name with "_" for each part in brackets that differs from `other`.
 * If the names differ outside of brackets, `name` stays with all its innermost template arguments
 * replaced. False with `out->failed` only.
 */
bool merged_name(struct view name, struct view other, struct buf *out);
