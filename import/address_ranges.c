#include "import/address_ranges.h"

#include <string.h>

#include "base/order.h"

#define RANGES_MAX ((size_t)1 << 16)

void address_ranges_release(struct address_ranges *r)
{
    vec_release(&r->list);
}

size_t address_ranges_at(const struct address_ranges *r, uint64_t address)
{
    size_t low = 0;
    BISECT(low, r->list.len, at, r->list.at[at].end <= address);
    return low;
}

int address_ranges_insert(struct address_ranges *r, size_t index, struct address_range range,
                          struct err *e)
{
    if (r->list.len == RANGES_MAX)
        return err_set(e, ERR_INPUT, "more than 65,536 ranges of memory are mapped");
    if (!vec_push(&r->list, range))
        return err_no_memory(e, "mapped memory");
    struct address_range *at = &r->list.at[index];
    memmove(at + 1, at, (r->list.len - 1 - index) * sizeof *at);
    *at = range;
    return 0;
}

void address_ranges_remove(struct address_ranges *r, size_t index)
{
    struct address_range *at = &r->list.at[index];
    memmove(at, at + 1, (--r->list.len - index) * sizeof *at);
}

int address_ranges_add(struct address_ranges *r, struct address_range range, struct err *e)
{
    size_t i = address_ranges_at(r, range.start);
    while (range.start < range.end) {
        struct address_range piece = range;
        bool meets = i < r->list.len && r->list.at[i].start < range.end;
        if (meets)
            piece.end = r->list.at[i].start;
        if (piece.start < piece.end && address_ranges_insert(r, i++, piece, e) != 0)
            return -1;
        if (!meets)
            return 0;
        range.start = r->list.at[i++].end;
    }
    return 0;
}

int address_ranges_cut(struct address_ranges *r, uint64_t start, uint64_t end, struct err *e)
{
    size_t i = address_ranges_at(r, start);
    while (i < r->list.len && r->list.at[i].start < end) {
        struct address_range *at = &r->list.at[i];
        struct address_range after = {end, at->end, at->owner};
        if (at->start < start && at->end > end) {
            at->end = start;
            return address_ranges_insert(r, i + 1, after, e);
        }
        if (at->start < start) {
            at->end = start;
            i++;
        } else if (at->end > end) {
            at->start = end;
            return 0;
        } else {
            address_ranges_remove(r, i);
        }
    }
    return 0;
}
