#ifndef TIDEMARK_ANALYSIS_NAMES_ELEMENT_TYPE_H
#define TIDEMARK_ANALYSIS_NAMES_ELEMENT_TYPE_H

/*
 * What a block is made of, told by a function of an allocator or a container in its call stack:
 *
 *     std::__new_allocator<game::Item>::allocate(unsigned long, void const*)      game::Item
 *     std::allocator_traits<std::allocator<std::_Rb_tree_node<int> > >::allocate  int
 *     std::__detail::_MakeUniq<A>::__single_object std::make_unique<A>()          A
 *     <alloc::boxed::Box<demo::Item>>::new                                        demo::Item
 *     alloc::raw_vec::RawVec<u8>::grow_one                                        u8
 *
 * Only functions that allocate elements of one type and nothing else are known; of others, and of
 * names without a type (legacy names of Rust: `Box<T>::new`), nothing is said. Nodes of the
 * standard containers, and the control blocks that std::make_shared and Rust's Rc and Arc put
 * beside a value, count as what is in them.
 *
 * Sources: headers of libstdc++ 6 to 15 and libc++ 7 to 20, Rust's library/alloc up to 1.95.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/view.h"

enum element_evidence {
    ELEMENT_NONE,
    ELEMENT_SURE,   /* whatever this function allocates is of this type */
    ELEMENT_DIRECT, /* … if it called the allocator itself: functions that it was given may, too */
    ELEMENT_IN_LINE, /* the same, where inlined functions are told apart: with a source line */
};

/* Appends the type to `out` unless there is none. `function`: as a trace has it, demangled. */
enum element_evidence element_type(struct view function, struct buf *out);

#endif
