/* Which rows of a summary are shown, and in which order. */

#include <stdlib.h>
#include <string.h>

#include "analysis/figures/summary.h"

struct key {
    const char *name;
    size_t counter; /* offset in struct counter of the number to sort by */
};

static const struct key keys[] = {
    [SORT_SIZE] = {"size", offsetof(struct counter, bytes)},
    [SORT_COUNT] = {"count", offsetof(struct counter, count)},
    [SORT_LIVE] = {"live", offsetof(struct counter, live_bytes)},
    [SORT_PEAK] = {"peak", offsetof(struct counter, peak_bytes)},
    [SORT_AT_PEAK] = {"at-peak", offsetof(struct counter, at_peak_bytes)},
    [SORT_TEMPORARY] = {"temporary", offsetof(struct counter, temporary)},
    [SORT_NAME] = {"name", 0},
};

bool sort_key_parse(const char *text, enum sort_key *key)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(text, keys[i].name) == 0) {
            *key = (enum sort_key)i;
            return true;
        }
    }
    return false;
}

const char *sort_key_name(enum sort_key key)
{
    return keys[key].name;
}

/* By what is shown; pool and key make the order the same every time. */
static int compare_row_names(const struct summary_row *a, const struct summary_row *b)
{
    int order = view_compare(a->name, b->name);
    if (order == 0)
        order = view_compare(a->frame.function, b->frame.function);
    if (order == 0)
        order = view_compare(a->frame.file, b->frame.file);
    if (order == 0)
        order = (a->frame.line > b->frame.line) - (a->frame.line < b->frame.line);
    if (order == 0)
        order = view_compare(a->frame.image, b->frame.image);
    if (order == 0)
        order = (a->frame.address > b->frame.address) - (a->frame.address < b->frame.address);
    if (order == 0)
        order = (a->pool > b->pool) - (a->pool < b->pool);
    return order ? order : (a->key > b->key) - (a->key < b->key);
}

static uint64_t number_of(const struct summary_row *r, enum sort_key key)
{
    uint64_t n;
    memcpy(&n, (const char *)&r->figures + keys[key].counter, sizeof n);
    return n;
}

static int compare_rows(const void *a, const void *b, void *ctx)
{
    enum sort_key key = *(const enum sort_key *)ctx;
    if (key != SORT_NAME) {
        uint64_t x = number_of(a, key);
        uint64_t y = number_of(b, key);
        if (x != y)
            return x > y ? -1 : 1;
    }
    return compare_row_names(a, b);
}

void summary_select(struct row_list *rows, const struct summary_selection *by)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->len; i++) {
        const struct counter *c = &rows->at[i].figures;
        if (c->bytes >= by->min_size && c->count >= by->min_count)
            rows->at[kept++] = rows->at[i];
    }
    rows->filtered += rows->len - kept;
    rows->len = kept;
    enum sort_key key = by->sort;
    if (rows->len)
        qsort_r(rows->at, rows->len, sizeof *rows->at, compare_rows, &key);
    if (by->limit && rows->len > by->limit) {
        rows->cut += rows->len - by->limit;
        rows->len = by->limit;
    }
}
