#include "base/pageable.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/tempfile.h"

/* A process can have only some ten thousand mappings: smaller allocations stay on the heap. */
#define REGION_LEAST ((size_t)256 << 10)

void pageable_init(struct pageable *p, const char *dir, size_t budget)
{
    *p = (struct pageable){.fd = -1, .budget = budget, .dir = dir, .least = REGION_LEAST};
}

void pageable_release(struct pageable *p)
{
    for (size_t i = 0; i < p->regions.len; i++)
        munmap(p->regions.at[i].at, p->regions.at[i].size);
    vec_release(&p->regions);
    if (p->dir && p->fd >= 0)
        close(p->fd);
    *p = (struct pageable){.fd = -1};
}

/* Maps a new zeroed region. */
static void *map_region(struct pageable *p, size_t size)
{
    struct pageable_region r = {.place = p->end};
    size_t page = (size_t)getpagesize();
    if (size > SIZE_MAX - page)
        return NULL;
    r.size = (size + page - 1) / page * page;
    if (p->fd < 0)
        p->fd = tempfile_open(p->dir, &p->why);
    if (p->fd < 0)
        return NULL;
    if (fallocate(p->fd, 0, (off_t)r.place, (off_t)r.size) != 0) {
        err_errno(&p->why, ERR_OUTPUT, "cannot reserve %zu bytes of a temporary file in %s", r.size,
                  p->dir);
        return NULL;
    }
    r.at = mmap(NULL, r.size, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, (off_t)r.place);
    if (r.at == MAP_FAILED)
        return NULL;
    if (!vec_push(&p->regions, r)) {
        munmap(r.at, r.size);
        return NULL;
    }
    p->end += r.size;
    if (size < p->least)
        p->least = size;
    return r.at;
}

/* Unmaps the region at `at` and frees its space in the file. False when there is none. */
static bool unmap_region(struct pageable *p, void *at)
{
    for (size_t i = p->regions.len; i-- > 0;) {
        struct pageable_region *r = &p->regions.at[i];
        if (r->at != at)
            continue;
        munmap(r->at, r->size);
        (void)fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)r->place,
                        (off_t)r->size);
        *r = p->regions.at[--p->regions.len];
        return true;
    }
    return false;
}

static bool is_region(const struct pageable *p, const void *at)
{
    for (size_t i = p->regions.len; i-- > 0;) {
        if (p->regions.at[i].at == at)
            return true;
    }
    return false;
}

static bool fits_heap(const struct pageable *p, size_t size)
{
    return size < REGION_LEAST || p->heap + (int64_t)size <= (int64_t)p->budget;
}

void *pageable_zeroed(struct pageable *p, size_t size)
{
    void *at = p && !fits_heap(p, size) ? NULL : calloc(1, size ? size : 1);
    if (p && at)
        p->heap += (int64_t)size;
    return at || !p ? at : map_region(p, size);
}

void pageable_free(struct pageable *p, void *at, size_t size)
{
    if (p && size >= p->least && unmap_region(p, at))
        return;
    free(at);
    if (p && at)
        p->heap -= (int64_t)size;
}

void *pageable_resize(struct pageable *p, void *old, size_t old_size, size_t size)
{
    if (!p)
        return realloc(old, size);
    bool mapped = old_size >= p->least && is_region(p, old);
    if (!mapped && fits_heap(p, size < REGION_LEAST ? size : size - old_size)) {
        void *at = realloc(old, size);
        if (at) {
            p->heap += (int64_t)size - (int64_t)old_size;
            return at;
        }
    }
    void *at = map_region(p, size);
    if (!at)
        return NULL;
    if (old_size)
        memcpy(at, old, old_size < size ? old_size : size);
    pageable_free(p, old, old_size);
    return at;
}

void pageable_explain(const struct pageable *p, struct err *e)
{
    if (e && e->code == ERR_MEMORY && p->why.code)
        *e = p->why;
}

bool pageable_grow_raw(struct pageable *p, void **data, size_t *cap, size_t need, size_t size)
{
    size_t n = *cap ? *cap : 8;
    while (n < need) {
        if (n > SIZE_MAX / 2)
            return false;
        n *= 2;
    }
    void *at = n <= SIZE_MAX / size ? pageable_resize(p, *data, *cap * size, n * size) : NULL;
    if (!at)
        return false;
    *data = at;
    *cap = n;
    return true;
}
