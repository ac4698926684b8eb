/* Names of groupings and rows, filter and order of rows, release. */

#include <stdlib.h>
#include <string.h>

#include "analysis/figures/summary_parts.h"
#include "analysis/names/function_name.h"

/* ---- groupings */

static const char *const grouping_names[] = {
    [GROUP_SITE] = "site", [GROUP_FUNCTION] = "function", [GROUP_CALLSTACK] = "callstack",
    [GROUP_TYPE] = "type", [GROUP_POOL] = "pool",         [GROUP_THREAD] = "thread",
    [GROUP_ZONE] = "zone", [GROUP_FRAME] = "frame",
};

bool grouping_parse(const char *text, enum grouping *by)
{
    for (size_t i = 0; i < sizeof grouping_names / sizeof *grouping_names; i++) {
        if (strcmp(text, grouping_names[i]) == 0) {
            *by = (enum grouping)i;
            return true;
        }
    }
    return false;
}

const char *grouping_name(enum grouping by)
{
    return grouping_names[by];
}

/* ---- rows to show */

struct key {
    const char *name;
    size_t offset; /* in struct summary_row, of the number to sort by */
};

#define FIGURE(MEMBER) offsetof(struct summary_row, figures.MEMBER)

static const struct key keys[] = {
    [SORT_SIZE] = {"size", FIGURE(bytes)},
    [SORT_COUNT] = {"count", FIGURE(count)},
    [SORT_LIVE] = {"live", FIGURE(live_bytes)},
    [SORT_PEAK] = {"peak", FIGURE(peak_bytes)},
    [SORT_AT_PEAK] = {"at-peak", FIGURE(at_peak_bytes)},
    [SORT_TEMPORARY] = {"temporary", FIGURE(temporary)},
    [SORT_RESIDENT] = {"resident", offsetof(struct summary_row, resident_bytes)},
    [SORT_NAME] = {"name", 0},
};

const char *sort_key_name(enum sort_key key)
{
    return keys[key].name;
}

const char *summary_lacks_resident(const struct summary *s, bool of_rows)
{
    if (of_rows ? s->has_resident : s->has_look)
        return NULL;
    return s->selection.is_narrow ? "it is known of the whole trace only, or of pools"
           : s->has_look          ? "the trace was rewritten without what each site had"
                                  : "the trace has no look at the pages of its process";
}

int summary_check_sort(const struct summary *s, enum sort_key key, struct err *e)
{
    const char *why = key != SORT_RESIDENT ? NULL
                      : s->by && !grouping_has_resident(s->by)
                          ? "threads, zones and frames have none"
                          : summary_lacks_resident(s, true);
    return why ? err_set(e, ERR_USAGE,
                         "what was resident is unknown, so rows cannot be sorted by it: %s", why)
               : 0;
}

/* By display name; pool and key make the order unique. */
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
    memcpy(&n, (const char *)r + keys[key].offset, sizeof n);
    return n;
}

static int compare_rows(const void *a, const void *b, void *ctx)
{
    const enum sort_key order[] = {*(const enum sort_key *)ctx, SORT_SIZE};
    for (size_t i = 0; i < 2 && order[0] != SORT_NAME; i++) {
        uint64_t x = number_of(a, order[i]);
        uint64_t y = number_of(b, order[i]);
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

/* ---- names of rows, release */

struct view summary_keep(struct summary *s, struct view text)
{
    char *copy = malloc(text.len + 1);
    if (copy && !vec_push(&s->texts, copy)) {
        free(copy);
        copy = NULL;
    }
    if (!copy)
        return (struct view){NULL, 0};
    if (text.len)
        memcpy(copy, text.p, text.len);
    copy[text.len] = 0;
    return (struct view){copy, text.len};
}

struct skiplist summary_skiplist(const struct summary *s, const struct skiplist *skip)
{
    struct skiplist known = skip ? *skip : (struct skiplist){0};
    known.found = &s->wrappers;
    return known;
}

void summary_release(struct summary *s)
{
    for (size_t i = 0; i < s->texts.len; i++)
        free(s->texts.at[i]);
    vec_release(&s->texts);
    selection_release(&s->selection);
    vec_release(&s->pools);
    vec_release(&s->pool_keys);
    pageable_vec_release(s->pageable, &s->sites);
    pageable_vec_release(s->pageable, &s->groups);
    pageable_vec_release(s->pageable, &s->stacks);
    pageable_vec_release(s->pageable, &s->row_types);
    pageable_vec_release(s->pageable, &s->callers);
    pageable_vec_release(s->pageable, &s->zone_costs);
    vec_release(&s->frames);
    pageable_vec_release(s->pageable, &s->outliers);
    types_release(&s->types);
    vec_release(&s->faults);
    vec_release(&s->checks);
    wrapper_functions_release(&s->wrappers);
    buf_release(&s->verdict);
    buf_release(&s->answer);
    *s = (struct summary){0};
}

void summary_row_name(struct buf *out, const struct summary_row *r)
{
    if (r->name.len)
        buf_put(out, r->name.p, r->name.len);
    else if (r->no_callstack)
        buf_puts(out, "[no call stack]");
    else
        frame_name(out, &r->frame);
}

void summary_row_place(struct buf *out, const struct summary_row *r)
{
    if (r->name.len == 0 && !r->no_callstack)
        frame_short_name(out, &r->frame);
    else
        summary_row_name(out, r);
    frame_source(out, &r->frame);
}

void summary_row_type(struct buf *out, const struct summary *s, const struct summary_row *r)
{
    for (size_t i = 0; i < r->type_count; i++) {
        const struct summary_type *type = &s->row_types.at[r->first_type + i];
        if (type->name.len == 0)
            continue;
        type_name_short(out, type->name);
        if (r->type_count > 1)
            buf_printf(out, ", +%zu", r->type_count - 1);
        return;
    }
}
