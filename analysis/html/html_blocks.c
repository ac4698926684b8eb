#include "analysis/html/html_blocks.h"

#include <stdlib.h>

void page_blocks_release(struct page_blocks *b)
{
    vec_release(&b->list);
}

static bool is_less(const struct page_block *a, const struct page_block *b)
{
    bool lives[] = {a->freed == INT64_MAX, b->freed == INT64_MAX};
    if (lives[0] != lives[1])
        return lives[1];
    if (a->size != b->size)
        return a->size < b->size;
    return a->time != b->time ? a->time > b->time : a->ptr > b->ptr;
}

static void sink(struct page_blocks *b, size_t at)
{
    struct page_block *heap = b->list.at;
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < b->list.len; child++) {
            if (is_less(&heap[child], &heap[least]))
                least = child;
        }
        if (least == at)
            return;
        struct page_block moved = heap[at];
        heap[at] = heap[least];
        heap[least] = moved;
        at = least;
    }
}

int page_blocks_offer(struct page_blocks *b, const struct page_block *block, struct err *e)
{
    b->count++;
    if (b->list.len < b->max) {
        if (!vec_push(&b->list, *block))
            return err_no_memory(e, "blocks of the page");
        for (size_t i = b->list.len == b->max ? b->max / 2 : 0; i-- > 0;)
            sink(b, i);
    } else if (b->max && is_less(&b->list.at[0], block)) {
        b->list.at[0] = *block;
        sink(b, 0);
    }
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct page_block *x = a;
    const struct page_block *y = b;
    if (x->pool != y->pool)
        return x->pool < y->pool ? -1 : 1;
    if (x->ptr != y->ptr)
        return x->ptr < y->ptr ? -1 : 1;
    return (x->time > y->time) - (x->time < y->time);
}

void page_blocks_finish(struct page_blocks *b)
{
    if (b->list.len)
        qsort(b->list.at, b->list.len, sizeof *b->list.at, compare);
}
