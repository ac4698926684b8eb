#include "trace/store/page_look.h"

#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"

#define WORDS (LOOK_CHUNK_PAGES / 64)
#define PAGE_BITS_LEAST 12u
#define PAGE_BITS_MOST 16u
/* Of address space: that of five levels of page tables. */
#define ADDRESS_BITS 57u
/* What a chunk and an area take at least, in bytes. */
#define AREA_LEAST 6u
#define CHUNK_LEAST 2u
/* Decoded, a chunk takes 136 bytes of as few as two: so many are 256 MiB. */
#define CHUNKS_MOST ((uint64_t)2 << 20)

const char *look_reason_name(enum look_reason reason)
{
    static const char *const names[LOOK_REASONS] = {[LOOK_AT_EXIT] = "at exit",
                                                    [LOOK_AT_END] = "at the recording's end",
                                                    [LOOK_AT_PEAK] = "at the highest RSS so far",
                                                    [LOOK_AT_TIME] = "at a chosen time",
                                                    [LOOK_ASKED] = "on request",
                                                    [LOOK_AT_LIMIT] = "near the end of its memory"};
    return reason < LOOK_REASONS ? names[reason] : "";
}

void page_look_release(struct page_look *l)
{
    vec_release(&l->areas);
    vec_release(&l->chunks);
}

void page_looks_release(struct page_looks *l)
{
    for (size_t i = 0; i < l->list.len; i++)
        page_look_release(&l->list.at[i]);
    vec_release(&l->list);
}

static int compare_looks(const void *a, const void *b)
{
    const struct page_look *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

bool page_looks_keep(struct page_looks *l, struct page_look *look)
{
    bool all = look->reason == LOOK_AT_TIME || look->reason == LOOK_ASKED;
    for (size_t i = 0; i < l->list.len && !all; i++) {
        if (l->list.at[i].reason == look->reason) {
            page_look_release(&l->list.at[i]);
            l->list.at[i] = *look;
            return true;
        }
    }
    if (vec_push(&l->list, *look))
        return true;
    page_look_release(look);
    return false;
}

void page_looks_sort(struct page_looks *l)
{
    if (l->list.len)
        qsort(l->list.at, l->list.len, sizeof *l->list.at, compare_looks);
}

/* ---- pages */

size_t page_look_area(const struct page_look *l, uint64_t address)
{
    size_t low = 0, high = l->areas.len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->areas.at[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t page_look_chunk(const struct page_look *l, uint64_t address, size_t *hint)
{
    uint64_t number = address / l->page / LOOK_CHUNK_PAGES;
    size_t low = 0, high = l->chunks.len;
    for (size_t i = *hint; i < high && i < *hint + 2; i++) {
        if (l->chunks.at[i].number == number)
            return *hint = i;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->chunks.at[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    *hint = low;
    return low < l->chunks.len && l->chunks.at[low].number == number ? low : l->chunks.len;
}

enum page_state page_look_at(const struct page_look *l, uint64_t address, size_t *hint)
{
    uint64_t page = address / l->page;
    size_t chunk = page_look_chunk(l, address, hint);
    unsigned word = page % LOOK_CHUNK_PAGES / 64, bit = page % 64;
    if (chunk == l->chunks.len)
        return PAGE_ABSENT;
    const struct look_chunk *c = &l->chunks.at[chunk];
    bool present = c->present[word] >> bit & 1, otherwise = c->otherwise[word] >> bit & 1;
    return present ? (otherwise ? PAGE_UNSURE : PAGE_PRESENT)
                   : (otherwise ? PAGE_SWAPPED : PAGE_ABSENT);
}

bool page_look_set(struct page_look *l, uint64_t address, enum page_state state)
{
    uint64_t page = address / l->page, number = page / LOOK_CHUNK_PAGES;
    unsigned word = page % LOOK_CHUNK_PAGES / 64, bit = page % 64;
    if (state == PAGE_ABSENT)
        return true;
    if ((l->chunks.len == 0 || l->chunks.at[l->chunks.len - 1].number != number) &&
        !vec_push(&l->chunks, (struct look_chunk){.number = number}))
        return false;
    struct look_chunk *c = &l->chunks.at[l->chunks.len - 1];
    c->present[word] |= (uint64_t)(state != PAGE_SWAPPED) << bit;
    c->otherwise[word] |= (uint64_t)(state != PAGE_PRESENT) << bit;
    return true;
}

/* ---- to bytes */

static void put(struct buf *out, uint64_t n)
{
    while (n >= 0x80) {
        buf_u8(out, (uint8_t)(n | 0x80));
        n >>= 7;
    }
    buf_u8(out, (uint8_t)n);
}

static bool is_all_present(const struct look_chunk *c)
{
    for (size_t i = 0; i < WORDS; i++) {
        if (~c->present[i] || c->otherwise[i])
            return false;
    }
    return true;
}

static void put_look(const struct page_look *l, struct buf *out)
{
    uint64_t at = 0;
    put(out, l->reason);
    put(out, (uint64_t)l->begin);
    put(out, (uint64_t)(l->end - l->begin));
    put(out, (uint64_t)__builtin_ctz(l->page));
    put(out, l->rss);
    put(out, l->huge);
    put(out, l->areas.len);
    put(out, l->chunks.len);
    for (size_t i = 0; i < l->areas.len; i++) {
        const struct look_area *a = &l->areas.at[i];
        put(out, (a->start - at) / l->page);
        put(out, (a->end - a->start) / l->page);
        put(out, (uint64_t)a->kind * 2 + a->unread);
        put(out, a->present);
        put(out, a->swapped);
        put(out, a->unsure);
        at = a->end;
    }
    at = 0;
    for (size_t i = 0; i < l->chunks.len; i++) {
        const struct look_chunk *c = &l->chunks.at[i];
        put(out, c->number - at);
        buf_u8(out, is_all_present(c));
        for (size_t k = 0; k < WORDS && !is_all_present(c); k++)
            buf_u64(out, c->present[k]);
        for (size_t k = 0; k < WORDS && !is_all_present(c); k++)
            buf_u64(out, c->otherwise[k]);
        at = c->number;
    }
}

void page_looks_encode(const struct page_looks *l, struct buf *out)
{
    put(out, l->list.len);
    for (size_t i = 0; i < l->list.len; i++)
        put_look(&l->list.at[i], out);
}

/* ---- from bytes */

struct decoder {
    struct cursor c;
    const char *wrong; /* NULL: nothing so far */
};

static bool fail(struct decoder *d, const char *what)
{
    d->wrong = d->wrong ? d->wrong : what;
    return false;
}

static uint64_t number(struct decoder *d)
{
    uint64_t n = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte = cursor_u8(&d->c);
        if (shift == 63 && byte > 1)
            break;
        n |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return n;
    }
    fail(d, "a number of more than 64 bits");
    return 0;
}

/* A count of elements that take at least `least` bytes each. */
static uint64_t count(struct decoder *d, size_t least)
{
    uint64_t n = number(d);
    if (n > cursor_left(&d->c) / least)
        fail(d, "more elements than bytes");
    return d->wrong ? 0 : n;
}

static bool take_area(struct decoder *d, struct page_look *l, uint64_t *at)
{
    const uint64_t pages_most = (UINT64_C(1) << ADDRESS_BITS) / l->page;
    uint64_t skip = number(d), pages = number(d), kind = number(d);
    struct look_area a = {.present = number(d)};
    a.swapped = number(d);
    a.unsure = number(d);
    if (skip > pages_most || pages > pages_most || *at + skip + pages > pages_most)
        return fail(d, "an area beyond the address space");
    if (kind / 2 >= AREA_KINDS)
        return fail(d, "an area of an unknown kind");
    if (a.present > pages || a.swapped > pages - a.present ||
        a.unsure > pages - a.present - a.swapped)
        return fail(d, "an area with more pages than it has room for");
    a.kind = (enum area_kind)(kind / 2);
    a.unread = kind % 2;
    a.start = (*at + skip) * l->page;
    a.end = a.start + pages * l->page;
    *at += skip + pages;
    return vec_push(&l->areas, a) || fail(d, "memory is short");
}

static bool take_chunk(struct decoder *d, struct page_look *l, uint64_t *at)
{
    const uint64_t most = (UINT64_C(1) << ADDRESS_BITS) / l->page / LOOK_CHUNK_PAGES;
    uint64_t skip = number(d);
    uint8_t all = cursor_u8(&d->c);
    struct look_chunk c = {0};
    if (skip > most || *at + skip >= most || (skip == 0 && l->chunks.len))
        return fail(d, "a chunk out of order or beyond the address space");
    if (all > 1)
        return fail(d, "a chunk of an unknown kind");
    for (size_t i = 0; i < WORDS; i++)
        c.present[i] = all ? UINT64_MAX : cursor_u64(&d->c);
    for (size_t i = 0; i < WORDS && !all; i++)
        c.otherwise[i] = cursor_u64(&d->c);
    c.number = *at += skip;
    return vec_push(&l->chunks, c) || fail(d, "memory is short");
}

static bool take_look(struct decoder *d, struct page_look *l)
{
    uint64_t reason = number(d), at = 0;
    l->begin = (int64_t)number(d);
    uint64_t took = number(d), bits = number(d);
    l->rss = number(d);
    l->huge = number(d);
    uint64_t areas = count(d, AREA_LEAST), chunks = count(d, CHUNK_LEAST);
    if (reason >= LOOK_REASONS || bits < PAGE_BITS_LEAST || bits > PAGE_BITS_MOST ||
        took > INT64_MAX || __builtin_add_overflow(l->begin, (int64_t)took, &l->end))
        return fail(d, "an invalid look");
    if (chunks > CHUNKS_MOST)
        return fail(d, "too many pages");
    l->reason = (enum look_reason)reason;
    l->page = UINT32_C(1) << bits;
    for (uint64_t i = 0; i < areas && !d->wrong && !d->c.short_read; i++)
        (void)take_area(d, l, &at);
    at = 0;
    for (uint64_t i = 0; i < chunks && !d->wrong && !d->c.short_read; i++)
        (void)take_chunk(d, l, &at);
    return !d->wrong && !d->c.short_read;
}

int page_looks_decode(struct page_looks *l, struct view bytes, struct err *e)
{
    struct decoder d = {.c = cursor_over(bytes.p, bytes.len)};
    *l = (struct page_looks){0};
    uint64_t looks = number(&d);
    if (looks > LOOKS_MOST)
        fail(&d, "too many looks");
    for (uint64_t i = 0; i < looks && !d.wrong && !d.c.short_read; i++) {
        struct page_look one = {.page = UINT32_C(1) << PAGE_BITS_LEAST};
        if (take_look(&d, &one) && vec_push(&l->list, one))
            continue;
        page_look_release(&one);
        fail(&d, d.c.short_read ? "it ends too early" : "memory is short");
    }
    if (!d.wrong && (d.c.short_read || cursor_left(&d.c)))
        fail(&d, d.c.short_read ? "it ends too early" : "bytes after its end");
    if (!d.wrong)
        return 0;
    page_looks_release(l);
    return err_set(e, ERR_INPUT, "the pages beside the trace: %s (offset %zu)", d.wrong,
                   cursor_offset(&d.c));
}
