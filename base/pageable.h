#ifndef TIDEMARK_BASE_PAGEABLE_H
#define TIDEMARK_BASE_PAGEABLE_H

/*
 * Memory for tables that must stay addressable and whose size a file decides: from the heap up to a
 * budget, beyond it mapped from an unlinked temporary file, so that the kernel can write it out
 * instead of ending the process. The file's space is reserved before it is mapped: a full disk is
 * an error of the allocation, not a signal. Where space cannot be reserved, allocations fail.
 *
 * All functions take NULL for `p`: then they are those of the heap. Mappings are shared with
 * processes that are forked later: for tables that only one process changes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"

struct pageable_region {
    void *at;
    size_t size;    /* bytes, whole pages */
    uint64_t place; /* in the file */
};

struct pageable {
    const char *dir; /* of tempfile_dir, the owner's; NULL: nothing is pageable */
    int fd;          /* -1 until needed */
    uint64_t end;
    size_t budget; /* bytes from the heap */
    int64_t heap;  /* bytes taken from there; negative when older ones were freed */
    VEC(struct pageable_region) regions;
    struct err why; /* the file's error, when an allocation failed for it; else code 0 */
};

/* `dir` outlives `p`. */
void pageable_init(struct pageable *p, const char *dir, size_t budget);

/* Unmaps what is left; what came from the heap must have been freed. Zero-initialised will do. */
void pageable_release(struct pageable *p);

/* NULL when neither memory nor file has room. The zeroed one is all zeros. */
void *pageable_zeroed(struct pageable *p, size_t size);

/* As realloc: `old` may be NULL, `old_size` is what it was asked for. */
void *pageable_resize(struct pageable *p, void *old, size_t old_size, size_t size);

void pageable_free(struct pageable *p, void *at, size_t size);

/* Makes of "out of memory", which callers report, the file's error if that is what it was. */
void pageable_explain(const struct pageable *p, struct err *e);

bool pageable_grow_raw(struct pageable *p, void **data, size_t *cap, size_t need, size_t size);

/* vec_reserve, vec_push and vec_release with it: a vector is used with these alone. */
#define pageable_reserve(p, v, n)                                                                  \
    ((n) <= (v)->cap || pageable_grow_raw((p), (void **)&(v)->at, &(v)->cap, (n), sizeof *(v)->at))
#define pageable_push(p, v, ...)                                                                   \
    (pageable_reserve((p), (v), (v)->len + 1) ? ((v)->at[(v)->len++] = (__VA_ARGS__), true) : false)
#define pageable_vec_release(p, v)                                                                 \
    (pageable_free((p), (v)->at, (v)->cap * sizeof *(v)->at), (v)->at = NULL, (v)->len = 0,        \
     (v)->cap = 0)

#endif
