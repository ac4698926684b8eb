#include "base/order.h"

#include <stdlib.h>
#include <string.h>

/* A radix sort by 11-bit digits, lowest first. It skips digits that are the same in all keys. */
#define DIGIT_BITS 11u
#define DIGITS (1u << DIGIT_BITS)

static void order_by_digit(const struct keyed *from, struct keyed *to, size_t n, unsigned shift)
{
    size_t next[DIGITS] = {0}, at = 0;
    for (size_t i = 0; i < n; i++)
        next[from[i].key >> shift & (DIGITS - 1)]++;
    for (size_t d = 0; d < DIGITS; d++) {
        size_t count = next[d];
        next[d] = at;
        at += count;
    }
    for (size_t i = 0; i < n; i++)
        to[next[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
}

bool order_by_key(struct keyed *items, size_t n)
{
    uint64_t differs = 0;
    for (size_t i = 1; i < n; i++)
        differs |= items[i].key ^ items[0].key;
    if (!differs)
        return true;
    struct keyed *room = malloc(n * sizeof *room), *from = items, *to = room;
    if (!room)
        return false;
    for (unsigned shift = 0; shift < 64 && differs >> shift; shift += DIGIT_BITS) {
        if (!(differs >> shift & (DIGITS - 1)))
            continue;
        order_by_digit(from, to, n, shift);
        struct keyed *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != items)
        memcpy(items, from, n * sizeof *items);
    free(room);
    return true;
}
