#pragma once

/*
 * The type of a block's elements, from the name of an allocator or container function in its call
 * stack:
 *
 *     std::__new_allocator<game::Item>::allocate(unsigned long, void const*)      game::Item
 *     std::allocator_traits<std::allocator<std::_Rb_tree_node<int> > >::allocate  int
 *     std::__detail::_MakeUniq<A>::__single_object std::make_unique<A>()          A
 *     <alloc::boxed::Box<demo::Item>>::new                                        demo::Item
 *     alloc::raw_vec::RawVec<u8>::grow_one                                        u8
 *
 * Only functions that allocate elements of one type are known. Others, and names without a type
 * (legacy names of Rust: `Box<T>::new`), give no type. Nodes of the standard containers, and the
 * control blocks that std::make_shared and Rust's Rc and Arc put beside a value, count as their
 * contents.
 *
 * Sources: headers of libstdc++ 6 to 15 and libc++ 7 to 20, Rust's library/alloc up to 1.95.
 */

#include "base/buf.h"
#include "base/view.h"

enum element_evidence {
    ELEMENT_NONE,
    ELEMENT_SURE,   /* everything that this function allocates is of this type */
    ELEMENT_DIRECT, /* … if it called the allocator directly: functions passed to it may allocate,
                       too */
    ELEMENT_IN_LINE, /* the same, if inlined functions are visible: with a source line */
};

/* Whether arguments in a function's name are "_": those of merged functions differ. */
bool element_type_is_merged(struct view function);

/* Appends the type to `out` if there is one. `function`: demangled, as in a trace. */
enum element_evidence element_type(struct view function, struct buf *out);
