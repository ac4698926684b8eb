#include "base/slab.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/prefault.h"

#define HUGE_PAGE ((size_t)2 << 20)
#define REGION (4 * HUGE_PAGE)
#define ALIGNMENT ((size_t)64)

void slab_release(struct slab *s)
{
    for (size_t i = 0; i < s->regions.len; i++)
        free(s->regions.at[i]);
    vec_release(&s->regions);
    vec_release(&s->vacant);
    *s = (struct slab){0};
}

static bool add_region(struct slab *s, size_t least)
{
    size_t bytes = least <= REGION ? REGION : (least + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    if (!vec_reserve(&s->regions, s->regions.len + 1))
        return false;
    char *region = aligned_alloc(HUGE_PAGE, bytes);
    if (!region)
        return false;
    (void)madvise(region, bytes, MADV_HUGEPAGE);
    s->regions.at[s->regions.len++] = region;
    s->next = region;
    s->left = bytes;
    return true;
}

static void *take_vacant(struct slab *s, size_t bytes)
{
    for (size_t i = 0; i < s->vacant.len; i++) {
        if (s->vacant.at[i].bytes != bytes)
            continue;
        void *buffer = s->vacant.at[i].at;
        s->vacant.at[i] = s->vacant.at[--s->vacant.len];
        return buffer;
    }
    return NULL;
}

void *slab_take(struct slab *s, size_t bytes)
{
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    /* Reserved here so that slab_give needs no memory. */
    if (!vec_reserve(&s->vacant, s->taken + s->vacant.len + 1))
        return NULL;
    void *buffer = take_vacant(s, bytes);
    if (!buffer) {
        if (s->left < bytes && !add_region(s, bytes))
            return NULL;
        buffer = s->next;
        s->next += bytes;
        s->left -= bytes;
        prefault(buffer, bytes);
    }
    s->taken++;
    return buffer;
}

void slab_give(struct slab *s, void *buffer, size_t bytes)
{
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    s->taken--;
    s->vacant.at[s->vacant.len++] = (struct slab_buffer){buffer, bytes};
}

void slab_trim(struct slab *s)
{
    const uintptr_t page = 4096;
    for (size_t i = 0; i < s->vacant.len; i++) {
        char *at = s->vacant.at[i].at;
        size_t bytes = s->vacant.at[i].bytes;
        size_t skip = (size_t)(-(uintptr_t)at & (page - 1));
        if (bytes >= skip + page) /* systems with larger pages reject the unaligned call */
            (void)madvise(at + skip, (bytes - skip) & ~(size_t)(page - 1), MADV_DONTNEED);
    }
}
