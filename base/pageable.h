#pragma once

/*
 * Memory for tables that must stay addressable and whose size a file determines. Up to a budget it
 * comes from the heap, beyond it from a mapped, unlinked temporary file, so that the kernel can
 * write pages out instead of killing the process. File space is reserved before it is mapped: a
 * full disk fails the allocation and raises no signal. Where space cannot be reserved, allocations
 * fail.
 *
 * All functions accept NULL for `p` and then use the heap. Mappings are shared with forked
 * processes, so only one process may change such a table.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"

struct pageable_region {
    void *at;
    size_t size;    /* bytes, a multiple of the page size */
    uint64_t place; /* in the file */
};

struct pageable {
    const char *dir; /* as for tempfile_dir, owned by the caller; NULL: heap only */
    int fd;          /* opened on first use; -1 before */
    uint64_t end;
    size_t budget; /* bytes from the heap */
    int64_t heap;  /* heap bytes in use; negative when older allocations were freed */
    size_t least;  /* size of the smallest region so far, as requested */
    VEC(struct pageable_region) regions;
    struct err why; /* the file error that made an allocation fail; else code 0 */
};

/* `dir` must outlive `p`. */
void pageable_init(struct pageable *p, const char *dir, size_t budget);

/*
 * Unmaps all remaining regions. Heap allocations must have been freed. Accepts a zero-initialised
 * `p`.
 */
void pageable_release(struct pageable *p);

/* Return NULL when neither memory nor the file has room. pageable_zeroed fills with zeros. */
void *pageable_zeroed(struct pageable *p, size_t size);

/* Like realloc: `old` may be NULL; `old_size` is the size last requested for it. */
void *pageable_resize(struct pageable *p, void *old, size_t old_size, size_t size);

void pageable_free(struct pageable *p, void *at, size_t size);

/* Replaces the "out of memory" in `e` by the file's error when that was the cause. */
void pageable_explain(const struct pageable *p, struct err *e);

bool pageable_grow_raw(struct pageable *p, void **data, size_t *cap, size_t need, size_t size);

/* Counterparts of vec_reserve, vec_push and vec_release. Use only these on a pageable vector. */
#define pageable_reserve(p, v, n)                                                                  \
    ((n) <= (v)->cap || pageable_grow_raw((p), (void **)&(v)->at, &(v)->cap, (n), sizeof *(v)->at))
#define pageable_push(p, v, ...)                                                                   \
    (pageable_reserve((p), (v), (v)->len + 1) ? ((v)->at[(v)->len++] = (__VA_ARGS__), true) : false)
#define pageable_vec_release(p, v)                                                                 \
    (pageable_free((p), (v)->at, (v)->cap * sizeof *(v)->at), (v)->at = NULL, (v)->len = 0,        \
     (v)->cap = 0)
