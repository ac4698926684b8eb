/* Plots. */

#include "trace/save/save_internal.h"

#include <stdlib.h>
#include <string.h>

#include "trace/store/grouper.h"

#define BATCH 512u

struct plot_save {
    struct saver *s;
    uint32_t *order; /* plot numbers, in file order */
    uint32_t *lists; /* plot number → position in `order` */
    uint32_t n;
};

/* Plots whose name is unknown come last. */
static int order_plots(struct plot_save *save)
{
    const struct plots *p = &save->s->t->plots;
    save->order = malloc((p->list.len + 1) * sizeof *save->order);
    save->lists = malloc((p->list.len + 1) * sizeof *save->lists);
    if (!save->order || !save->lists)
        return err_no_memory(save->s->e, "saving");
    for (size_t i = 0; i < p->order.len; i++)
        save->order[save->n++] = p->order.at[i];
    for (uint32_t i = 0; i < p->list.len; i++) {
        if (!p->list.at[i].listed && p->list.at[i].into == i)
            save->order[save->n++] = i;
    }
    for (uint32_t i = 0; i < save->n; i++)
        save->lists[save->order[i]] = i;
    return 0;
}

static int begin_plot(void *ctx, uint32_t list, struct err *e)
{
    (void)e;
    const struct plot_save *save = ctx;
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

static int put_points(void *ctx, const struct group_item *items, size_t n, struct err *e)
{
    const struct plot_save *save = ctx;
    struct rec_plot_point batch[BATCH];
    for (size_t i = 0; i < n;) {
        size_t run = 0;
        for (; run < BATCH && i < n; run++, i++) {
            batch[run].time = items[i].time;
            memcpy(&batch[run].value, &items[i].value, sizeof batch[run].value);
        }
        if (record_put(save->s->sink, REC_PLOT_POINT, batch, run, e) != 0)
            return -1;
    }
    return 0;
}

static int group_points(const struct plot_save *save, struct grouper *g)
{
    struct plots *p = &save->s->t->plots;
    struct column_walk w = column_walk(&p->points);
    struct err *e = save->s->e;
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
    struct plot_save save = {.s = s};
    const struct group_sink sink = {.ctx = &save, .begin = begin_plot, .items = put_points};
    struct grouper g;
    grouper_init(&g, s->t->plots.points.len, &s->t->spool);
    int status = order_plots(&save);
    if (status == 0)
        status = put_count(s, REC_PLOTS, save.n);
    if (status == 0)
        status = group_points(&save, &g);
    if (status == 0)
        status = grouper_drain(&g, save.n, &sink, s->e);
    grouper_release(&g);
    free(save.order);
    free(save.lists);
    return status;
}
