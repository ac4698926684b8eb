#include "trace/store/sections.h"

#include <stdlib.h>

static const struct pack_layout section_layout = {
    .element = sizeof(struct section),
    .count = 4,
    .fields = {{0, 8, PACK_STEP}, {8, 4, PACK_OFFSET}, {12, 2, PACK_OFFSET}, {14, 2, PACK_OFFSET}},
};

static const struct pack_layout end_layout = {
    .element = sizeof(int64_t),
    .count = 1,
    .fields = {{0, 8, PACK_STEP}},
};

void sections_init(struct sections *s, struct spool *spool)
{
    *s = (struct sections){0};
    column_init(&s->list, spool, &section_layout, false);
    column_init(&s->ends, spool, &end_layout, true);
}

void sections_release(struct sections *s)
{
    column_release(&s->list);
    column_release(&s->ends);
    vec_release(&s->category);
    map_release(&s->categories);
    map_release(&s->open);
    map_release(&s->left);
    *s = (struct sections){0};
}

static struct section_category *category_of(struct sections *s, uint16_t category, struct err *e)
{
    bool fresh;
    uint64_t *place = map_add(&s->categories, category, &fresh);
    if (place && fresh) {
        if (!vec_push(&s->category, (struct section_category){.category = category})) {
            map_remove(&s->categories, category);
            place = NULL;
        } else {
            *place = s->category.len - 1;
        }
    }
    if (!place) {
        err_no_memory(e, "sections");
        return NULL;
    }
    return &s->category.at[*place];
}

int sections_describe(struct sections *s, uint16_t category, uint32_t text, struct err *e)
{
    struct section_category *c = category_of(s, category, e);
    if (!c)
        return -1;
    if (text)
        c->description = text;
    return 0;
}

static int section_append(struct sections *s, const struct section *section, int64_t end,
                          struct err *e)
{
    struct section_category *c = category_of(s, section->category, e);
    struct section *to = c ? column_append(&s->list, e) : NULL;
    if (!to)
        return -1;
    *to = *section;
    int64_t *to_end = column_append(&s->ends, e);
    if (!to_end) {
        column_drop_last(&s->list); /* keep the two columns in step */
        return -1;
    }
    *to_end = end;
    c->count++;
    return 0;
}

int sections_enter(struct sections *s, uint32_t id, uint16_t category, uint32_t text, int64_t time,
                   struct err *e)
{
    const struct section section = {.start = time, .text = text, .category = category};
    const uint64_t *left = map_find(&s->left, id);
    if (left) {
        int64_t end = (int64_t)*left;
        map_remove(&s->left, id);
        return section_append(s, &section, end, e);
    }
    bool fresh;
    uint64_t *open = map_add(&s->open, id, &fresh);
    if (!open)
        return err_no_memory(e, "sections");
    if (!fresh) {
        s->misfits++;
        return 0;
    }
    *open = s->list.len + 1;
    return section_append(s, &section, id ? -(int64_t)id : -1, e);
}

int sections_leave(struct sections *s, uint32_t id, int64_t time, struct err *e)
{
    const uint64_t *open = map_find(&s->open, id);
    if (open) {
        uint64_t index = *open - 1;
        map_remove(&s->open, id);
        return column_patch(&s->ends, index, &time, e);
    }
    bool fresh;
    uint64_t *left = map_add(&s->left, id, &fresh);
    if (!left)
        return err_no_memory(e, "sections");
    if (fresh)
        *left = (uint64_t)time;
    else
        s->misfits++;
    return 0;
}

/* ---- parts */

/*
 * An open section and its id's location: the map of open sections is by id, the list by position.
 */
struct open_section {
    uint64_t index;
    uint32_t id;
    struct section section;
};

static int compare_index(const void *a, const void *b)
{
    const struct open_section *x = a;
    const struct open_section *y = b;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Fills in the list's data of the open sections, which are in its order. */
static int read_open(struct sections *s, struct open_section *open, size_t n, struct err *e)
{
    struct column_reader r;
    column_reader_init(&r, &s->list);
    int status = 0;
    for (size_t i = 0; i < n && status == 0;) {
        uint64_t first = r.next;
        size_t run;
        const struct section *p = column_reader_next(&r, &run, e);
        if (!p)
            status = -1;
        for (; p && i < n && open[i].index < first + run; i++)
            open[i].section = p[open[i].index - first];
    }
    column_reader_release(&r);
    return status;
}

int sections_carry(struct sections *s, struct err *e)
{
    size_t n = 0, iter = 0;
    struct open_section *open = malloc((s->open.count + 1) * sizeof *open);
    if (!open)
        return err_no_memory(e, "sections");
    for (const struct map_slot *slot; (slot = map_next(&s->open, &iter));)
        open[n++] = (struct open_section){.index = slot->value - 1, .id = (uint32_t)slot->key};
    qsort(open, n, sizeof *open, compare_index);
    int status = read_open(s, open, n, e);
    column_clear(&s->list);
    column_clear(&s->ends);
    map_release(&s->open);
    map_release(&s->left);
    s->misfits = 0;
    for (size_t i = 0; i < s->category.len; i++)
        s->category.at[i].count = 0;
    for (size_t i = 0; i < n && status == 0; i++) {
        const struct section *o = &open[i].section;
        status = sections_enter(s, open[i].id, o->category, o->text, 0, e);
    }
    free(open);
    return status;
}
