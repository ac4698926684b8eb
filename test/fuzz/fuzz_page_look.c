/*
 * Any bytes as looks at pages and as what call stacks have resident: what is read is written and
 * read again as the same. Any text as lines of /proc/PID/maps: an area has a beginning before its
 * end.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proc/page_reader.h"
#include "trace/store/page_look.h"
#include "trace/store/resident_stacks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void looks(struct view bytes)
{
    struct page_looks first, again;
    struct buf one = {0}, two = {0};
    struct err e = {0};
    if (page_looks_decode(&first, bytes, &e) != 0)
        return;
    page_looks_encode(&first, &one);
    if (one.failed || page_looks_decode(&again, buf_view(&one), &e) != 0)
        abort();
    page_looks_encode(&again, &two);
    if (!view_equal(buf_view(&one), buf_view(&two)))
        abort();
    for (size_t i = 0; i < first.list.len; i++) {
        const struct page_look *l = &first.list.at[i];
        size_t hint = 0;
        for (size_t k = 0; k < l->areas.len; k++)
            (void)page_look_at(l, l->areas.at[k].start, &hint);
    }
    page_looks_release(&first);
    page_looks_release(&again);
    buf_release(&one);
    buf_release(&two);
}

static void stacks(struct view bytes)
{
    struct resident_stacks r;
    struct buf one = {0};
    struct err e = {0};
    if (resident_stacks_decode(&r, bytes, &e) != 0)
        return;
    resident_stacks_encode(&r, &one);
    if (!one.failed && !view_equal(buf_view(&one), bytes))
        abort();
    resident_stacks_release(&r);
    buf_release(&one);
}

static void lines(struct view text)
{
    struct look_area a, before;
    bool any = false;
    for (size_t at = 0; at < text.len;) {
        const char *end = memchr(text.p + at, '\n', text.len - at);
        size_t n = end ? (size_t)(end - text.p) - at : text.len - at;
        if (page_reader_area((struct view){text.p + at, n}, any ? &before : NULL, &a)) {
            if (a.start >= a.end || a.kind >= AREA_KINDS)
                abort();
            before = a;
            any = true;
        }
        at += n + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view all = {(const char *)data, size};
    looks(all);
    stacks(all);
    lines(all);
    return 0;
}
