#pragma once

/*
 * Growable arrays of any element type. Declare a member as `VEC(struct thing) things;` and
 * zero-initialise it; elements are things.at[0 … things.len-1].
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define VEC(TYPE)                                                                                  \
    struct {                                                                                       \
        TYPE *at;                                                                                  \
        size_t len;                                                                                \
        size_t cap;                                                                                \
    }

/* Grows `*data` so that `need` elements of `size` bytes fit. False when memory is short. */
bool vec_grow_raw(void **data, size_t *cap, size_t need, size_t size);

/* Reserves room for `n` elements in all. False when memory is short (contents unchanged). */
#define vec_reserve(v, n)                                                                          \
    ((n) <= (v)->cap || vec_grow_raw((void **)&(v)->at, &(v)->cap, (n), sizeof *(v)->at))

/* Appends `value`. False when memory is short. */
#define vec_push(v, ...)                                                                           \
    (vec_reserve((v), (v)->len + 1) ? ((v)->at[(v)->len++] = (__VA_ARGS__), true) : false)

/* Narrows a copy of a vector, which no one releases, to `n` of its elements from `first` on. */
#define vec_part(v, first, n) ((v)->at = (v)->at ? (v)->at + (first) : NULL, (v)->len = (size_t)(n))

#define vec_release(v) (free((v)->at), (v)->at = NULL, (v)->len = 0, (v)->cap = 0)
