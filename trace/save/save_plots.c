/* Plots. */

#include <string.h>

#include "trace/save/save_lists.h"

/* Plots whose name is unknown come last. */
static void order_plots(struct list_save *save)
{
    const struct plots *p = &save->s->t->plots;
    for (size_t i = 0; i < p->order.len; i++)
        save->order[save->n++] = p->order.at[i];
    for (uint32_t i = 0; i < p->list.len; i++) {
        if (!p->list.at[i].listed && p->list.at[i].into == i)
            save->order[save->n++] = i;
    }
}

static int begin_plot(void *ctx, uint32_t list, struct err *e)
{
    (void)e;
    const struct list_save *save = ctx;
    const struct plot *p = &save->s->t->plots.list.at[save->order[list]];
    struct rec_plot r = {.type = p->type,
                         .format = p->format,
                         .show_steps = p->show_steps,
                         .fill = p->fill,
                         .color = p->color,
                         .name = p->name,
                         .min = p->min,
                         .max = p->max,
                         .sum = p->sum,
                         .n = p->count};
    return put(save->s, REC_PLOT, &r);
}

static int fill_point(struct list_save *save, void *rec, const struct group_item *item,
                      struct err *e)
{
    struct rec_plot_point *r = rec;
    (void)save, (void)e;
    r->time = item->time;
    memcpy(&r->value, &item->value, sizeof r->value);
    return 0;
}

static int group_points(struct list_save *save, struct grouper *g, struct err *e)
{
    struct plots *p = &save->s->t->plots;
    struct column_walk w = column_walk(&p->points);
    int status = 0;
    for (const struct plot_point *point; (point = column_walk_next(&w, &status, e));) {
        uint32_t plot = p->list.at[point->plot].into;
        struct group_item item = {.time = point->time, .list = save->lists[plot]};
        memcpy(&item.value, &point->value, sizeof item.value);
        status = grouper_add(g, item, p->list.at[plot].disorder, e);
    }
    return status;
}

int save_plots(struct saver *s)
{
    static const struct list_kind kind = {REC_PLOTS,    REC_PLOT_POINT, order_plots,
                                          group_points, begin_plot,     fill_point};
    struct list_save save = {.s = s, .kind = &kind};
    int status = save_lists(&save, s->t->plots.list.len, s->t->plots.points.len);
    list_save_release(&save);
    return status;
}
