/* Sections. */

#include <stdlib.h>

#include "trace/save/save_lists.h"

static int compare_categories(const void *a, const void *b, void *ctx)
{
    const struct sections *f = ctx;
    uint16_t x = f->category.at[*(const uint32_t *)a].category;
    uint16_t y = f->category.at[*(const uint32_t *)b].category;
    return x < y ? -1 : x > y;
}

/* By category; those without sections are behind the others, and no lists. */
static void order_categories(struct list_save *save)
{
    struct sections *f = &save->s->t->sections;
    uint32_t rest = (uint32_t)f->category.len;
    for (uint32_t i = 0; i < f->category.len; i++)
        save->order[f->category.at[i].count > 0 ? save->n++ : --rest] = i;
    qsort_r(save->order, save->n, sizeof *save->order, compare_categories, f);
}

static int begin_category(void *ctx, uint32_t list, struct err *e)
{
    (void)e;
    const struct list_save *save = ctx;
    const struct section_category *c = &save->s->t->sections.category.at[save->order[list]];
    struct rec_section_list r = {.category = c->category, .n = c->count};
    return put(save->s, REC_SECTION_LIST, &r);
}

/* `value` is the end, `extra` the text. */
static int fill_section(struct list_save *save, void *rec, const struct group_item *item,
                        struct err *e)
{
    (void)save, (void)e;
    *(struct rec_section *)rec =
        (struct rec_section){.start = item->time, .end = (int64_t)item->value, .text = item->extra};
    return 0;
}

static int group_sections(struct list_save *save, struct grouper *g, struct err *e)
{
    struct sections *f = &save->s->t->sections;
    struct column_walk sections = column_walk(&f->list), ends = column_walk(&f->ends);
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
static int put_categories(struct list_save *save)
{
    struct sections *f = &save->s->t->sections;
    size_t n = f->category.len;
    if (put_count(save->s, REC_SECTION_CATEGORIES, n) != 0)
        return -1;
    qsort_r(save->order, n, sizeof *save->order, compare_categories, f);
    for (size_t i = 0; i < n; i++) {
        const struct section_category *c = &f->category.at[save->order[i]];
        struct rec_section_category r = {.category = c->category, .description = c->description};
        if (put(save->s, REC_SECTION_CATEGORY, &r) != 0)
            return -1;
    }
    return 0;
}

int save_sections(struct saver *s)
{
    static const struct list_kind kind = {REC_SECTION_LISTS, REC_SECTION,    order_categories,
                                          group_sections,    begin_category, fill_section};
    struct list_save save = {.s = s, .kind = &kind};
    int status = save_lists(&save, s->t->sections.category.len, s->t->sections.list.len);
    if (status == 0)
        status = put_categories(&save);
    list_save_release(&save);
    return status;
}
