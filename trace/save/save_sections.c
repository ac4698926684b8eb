/* Sections. */

#include "trace/save/save_internal.h"

#include <stdlib.h>

#include "trace/store/grouper.h"

#define BATCH 512u

struct category_rank {
    uint16_t category;
    uint32_t number; /* position in the store */
};

struct section_save {
    struct saver *s;
    struct category_rank *order; /* by category, those with sections first */
    uint32_t *lists;             /* position in the store → in `order` */
    uint32_t used;               /* categories that have sections */
};

static int compare_categories(const void *a, const void *b)
{
    const struct category_rank *x = a;
    const struct category_rank *y = b;
    return x->category < y->category ? -1 : x->category > y->category;
}

static int order_categories(struct section_save *save)
{
    const struct sections *f = &save->s->t->sections;
    uint32_t n = (uint32_t)f->category.len, rest = n;
    save->order = malloc((n + 1) * sizeof *save->order);
    save->lists = malloc((n + 1) * sizeof *save->lists);
    if (!save->order || !save->lists)
        return err_no_memory(save->s->e, "saving");
    for (uint32_t i = 0; i < n; i++) {
        bool used = f->category.at[i].count > 0;
        save->order[used ? save->used++ : --rest] =
            (struct category_rank){f->category.at[i].category, i};
    }
    qsort(save->order, save->used, sizeof *save->order, compare_categories);
    for (uint32_t i = 0; i < n; i++)
        save->lists[save->order[i].number] = i;
    return 0;
}

static int begin_category(void *ctx, uint32_t list, struct err *e)
{
    (void)e;
    const struct section_save *save = ctx;
    const struct section_category *c = &save->s->t->sections.category.at[save->order[list].number];
    struct rec_section_list r = {.category = c->category, .n = c->count};
    return put(save->s, REC_SECTION_LIST, &r);
}

/* `value` is the end, `extra` the text. */
static int put_section_run(void *ctx, const struct group_item *items, size_t n, struct err *e)
{
    const struct section_save *save = ctx;
    struct rec_section batch[BATCH];
    for (size_t i = 0; i < n;) {
        size_t run = 0;
        for (; run < BATCH && i < n; run++, i++)
            batch[run] = (struct rec_section){
                .start = items[i].time, .end = (int64_t)items[i].value, .text = items[i].extra};
        if (record_put(save->s->sink, REC_SECTION, batch, run, e) != 0)
            return -1;
    }
    return 0;
}

static int group_sections(const struct section_save *save, struct grouper *g)
{
    struct sections *f = &save->s->t->sections;
    struct column_walk sections = column_walk(&f->list), ends = column_walk(&f->ends);
    struct err *e = save->s->e;
    int status = 0;
    for (struct column_two both; (both = column_walk_two(&sections, &ends, &status, e)).first;) {
        const struct section *section = both.first;
        const uint64_t *category = map_find(&f->categories, section->category);
        struct group_item item = {.time = section->start,
                                  .value = (uint64_t) * (const int64_t *)both.second,
                                  .list = save->lists[*category],
                                  .extra = section->text};
        status = grouper_add(g, item, false, e);
    }
    return status;
}

/* All categories, also those without sections, by number. */
static int put_categories(struct section_save *save)
{
    const struct sections *f = &save->s->t->sections;
    size_t n = f->category.len;
    if (put_count(save->s, REC_SECTION_CATEGORIES, n) != 0)
        return -1;
    qsort(save->order, n, sizeof *save->order, compare_categories);
    for (size_t i = 0; i < n; i++) {
        const struct section_category *c = &f->category.at[save->order[i].number];
        struct rec_section_category r = {.category = c->category, .description = c->description};
        if (put(save->s, REC_SECTION_CATEGORY, &r) != 0)
            return -1;
    }
    return 0;
}

int save_sections(struct saver *s)
{
    struct section_save save = {.s = s};
    const struct group_sink sink = {
        .ctx = &save, .begin = begin_category, .items = put_section_run};
    struct grouper g;
    grouper_init(&g, s->t->sections.list.len, &s->t->spool);
    int status = order_categories(&save);
    if (status == 0)
        status = put_count(s, REC_SECTION_LISTS, save.used);
    if (status == 0)
        status = group_sections(&save, &g);
    if (status == 0)
        status = grouper_drain(&g, save.used, &sink, s->e);
    if (status == 0)
        status = put_categories(&save);
    grouper_release(&g);
    free(save.order);
    free(save.lists);
    return status;
}
