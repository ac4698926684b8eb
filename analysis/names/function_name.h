#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/view.h"

#define FUNCTION_NAME_SIZE 256

/*
 * The bare qualified name in the function text of a frame: no return type, template arguments,
 * parameters, ABI tags or compiler suffixes.
 *
 *     void* containers::ring_push<Handoff>(Rng&, Handoff&&)   containers::ring_push
 *     std::vector<int, A<int> >::push_back(int&&)             std::vector::push_back
 *     f(int)::{lambda()#1}::operator()() const                f::{lambda()#1}::operator()
 *     <tracy_client::P<T> as GlobalAlloc>::alloc              tracy_client::P::alloc
 *     <alloc::boxed::Box<T>>::new::<U>            alloc::boxed::Box::new
 *     operator new[](unsigned long)                           operator new[]
 *     malloc@plt                                              malloc
 *     near f(int)+0x20                                        near f(int)+0x20
 *
 * Writes at most FUNCTION_NAME_SIZE - 1 bytes, a terminating NUL beyond them, and returns the
 * length. A longer name is cut. Texts that are no such declaration come out as they are.
 */
size_t function_name(struct view text, char out[FUNCTION_NAME_SIZE]);

/*
 * Whether the text is that of an unnamed function, "near NEIGHBOUR+0xOFFSET"
 * (symbols/symbolizer.c), of which nothing is known. `neighbour`, if not NULL, receives the name of
 * the function before it.
 */
bool function_is_unnamed(struct view text, struct view *neighbour);

#define FUNCTION_NAME_LONG 60u /* bytes */

/*
 * Appends a function's text for people. A C++ or Rust declaration longer than FUNCTION_NAME_LONG
 * becomes its bare name, with <…> for the template arguments of its classes:
 *
 *     void std::vector<A, std::allocator<A> >::_M_realloc_insert<A>(A*, A&&)
 *     std::vector<…>::_M_realloc_insert
 *
 * So does the neighbour of an unnamed function, in its text.
 *
 * Other texts, and those whose bare name does not fit FUNCTION_NAME_SIZE, come out as they are.
 */
void function_name_short(struct buf *out, struct view text);

/*
 * Appends a type's text for people. Of one longer than FUNCTION_NAME_LONG, arguments of templates
 * become <…>: those of arguments, and if it is still too long, its own.
 *
 *     std::map<Key, std::vector<Item, std::allocator<Item>>>    std::map<Key, std::vector<…>>
 */
void type_name_short(struct buf *out, struct view text);
