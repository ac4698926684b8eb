#include "trace/store/plots.h"

#include <math.h>

static const struct pack_layout point_layout = {
    .element = sizeof(struct plot_point),
    .count = 4,
    .fields = {{0, 8, PACK_STEP},    /* time */
               {8, 8, PACK_OFFSET},  /* value */
               {16, 4, PACK_OFFSET}, /* plot */
               {20, 4, PACK_OFFSET}},
};

void plots_init(struct plots *p, struct spool *spool)
{
    *p = (struct plots){0};
    column_init(&p->points, spool, &point_layout, false);
}

void plots_release(struct plots *p)
{
    column_release(&p->points);
    vec_release(&p->list);
    vec_release(&p->order);
    map_release(&p->numbers);
    map_release(&p->told);
    map_release(&p->by_text);
    map_release(&p->power);
    *p = (struct plots){0};
}

/* ---- points */

static int add_point(struct plots *p, uint32_t number, int64_t time, double value, struct err *e)
{
    if (!isfinite(value))
        return 0;
    struct plot_point *point = column_append(&p->points, e);
    if (!point)
        return -1;
    *point = (struct plot_point){.time = time, .value = value, .plot = number};
    struct plot *plot = &p->list.at[number];
    if (plot->count == 0) {
        plot->min = plot->max = plot->sum = value;
    } else {
        plot->disorder |= time < plot->newest;
        plot->min = fmin(plot->min, value);
        plot->max = fmax(plot->max, value);
        plot->sum += value;
    }
    plot->newest = time;
    plot->latest = value;
    plot->count++;
    return 0;
}

/* ---- plots of the program */

static int plot_new(struct plots *p, const struct plot *plot, uint32_t *number, struct err *e)
{
    if (p->list.len >= UINT32_MAX - 1)
        return err_set(e, ERR_INPUT, "too many plots");
    *number = (uint32_t)p->list.len;
    if (!vec_push(&p->list, *plot))
        return err_no_memory(e, "plots");
    p->list.at[*number].into = *number;
    return 0;
}

static int plot_list(struct plots *p, uint32_t number, struct err *e)
{
    if (!vec_push(&p->order, number))
        return err_no_memory(e, "plots");
    p->list.at[number].listed = true;
    return 0;
}

/*
 * Handles a plot's name: the plot gets its position in the file, or is merged into the plot of that
 * name.
 */
static int plot_told(struct plots *p, uint32_t number, uint32_t text, struct err *e)
{
    bool fresh;
    /* A plot that is made up here stays apart from one to which the client gave its name. */
    if (p->list.at[number].name >> 62 == 3)
        return plot_list(p, number, e);
    uint64_t *first = map_add(&p->by_text, text, &fresh);
    if (!first)
        return err_no_memory(e, "plots");
    if (fresh) {
        *first = number;
        return plot_list(p, number, e);
    }
    struct plot *plot = &p->list.at[number], *to = &p->list.at[*first];
    plot->into = (uint32_t)*first;
    if (plot->count == 0)
        return 0;
    to->disorder = true; /* the points of the two plots interleave */
    to->newest = to->count && to->newest > plot->newest ? to->newest : plot->newest;
    to->min = to->count ? fmin(to->min, plot->min) : plot->min;
    to->max = to->count ? fmax(to->max, plot->max) : plot->max;
    to->sum = to->count ? to->sum + plot->sum : plot->sum;
    to->count += plot->count;
    return 0;
}

static int plot_of(struct plots *p, uint64_t name, uint32_t *number, struct err *e)
{
    const uint64_t *known = map_find(&p->numbers, name);
    if (!known) {
        const struct plot plot = {.name = name, .type = PLOT_USER, .fill = true};
        uint64_t *place;
        if (plot_new(p, &plot, number, e) != 0)
            return -1;
        if (!(place = map_add(&p->numbers, name, NULL)))
            return err_no_memory(e, "plots");
        *place = *number;
        const uint64_t *text = map_find(&p->told, name);
        if (text && plot_told(p, *number, (uint32_t)*text, e) != 0)
            return -1;
    } else {
        *number = (uint32_t)*known;
    }
    *number = p->list.at[*number].into;
    return 0;
}

int plots_value(struct plots *p, uint64_t name, int64_t time, double value, struct err *e)
{
    uint32_t number;
    if (!isfinite(value))
        return 0; /* creates no plot either */
    if (plot_of(p, name, &number, e) != 0)
        return -1;
    return add_point(p, number, time, value, e);
}

int plots_configure(struct plots *p, uint64_t name, const struct plot_config *config, struct err *e)
{
    uint32_t number;
    if (plot_of(p, name, &number, e) != 0)
        return -1;
    struct plot *plot = &p->list.at[number];
    plot->format = config->format;
    plot->show_steps = config->show_steps;
    plot->fill = config->fill;
    plot->color = config->color;
    return 0;
}

int plots_name(struct plots *p, uint64_t name, uint32_t text, struct err *e)
{
    bool fresh;
    uint64_t *told = map_add(&p->told, name, &fresh);
    if (!told)
        return err_no_memory(e, "plots");
    if (!fresh)
        return 0;
    *told = text;
    const uint64_t *number = map_find(&p->numbers, name);
    return number ? plot_told(p, (uint32_t)*number, text, e) : 0;
}

/* ---- plots of the system */

int plots_system_time(struct plots *p, int64_t time, double percent, struct err *e)
{
    if (!p->system) {
        const struct plot plot = {
            .type = PLOT_SYSTEM_TIME, .format = PLOT_PERCENTAGE, .fill = true};
        uint32_t number;
        if (plot_new(p, &plot, &number, e) != 0 || plot_list(p, number, e) != 0)
            return -1;
        p->system = number + 1;
    }
    return add_point(p, p->system - 1, time, percent, e);
}

int plots_power(struct plots *p, uint64_t name, int64_t time, int64_t clock, uint64_t energy,
                bool *counted, struct err *e)
{
    bool fresh;
    uint64_t *place = map_add(&p->power, name, &fresh);
    *counted = place && !fresh;
    if (!place)
        return err_no_memory(e, "plots");
    if (fresh) {
        const struct plot plot = {
            .name = name, .type = PLOT_POWER, .format = PLOT_WATT, .fill = true};
        uint32_t number;
        if (plot_new(p, &plot, &number, e) != 0 || plot_list(p, number, e) != 0)
            return -1;
        *place = number;
        p->list.at[number].reported = clock;
        return 0;
    }
    struct plot *plot = &p->list.at[*place];
    int64_t since = (int64_t)((uint64_t)clock - (uint64_t)plot->reported);
    plot->reported = clock;
    /*
     * Power from microjoules and nanoseconds. Two reports at the same time give no power and no
     * point.
     */
    return add_point(p, (uint32_t)*place, time, (double)energy * 1000. / (double)since, e);
}

int plots_each(struct plots *p, plots_taker *take, void *ctx, struct err *e)
{
    struct column_walk w = column_walk(&p->points);
    int status = 0;
    for (const struct plot_point *point; (point = column_walk_next(&w, &status, e));)
        status = take(ctx, point, e);
    return status;
}

double plots_latest(const struct plots *p, uint64_t name)
{
    const uint64_t *number = map_find(&p->numbers, name);
    return number ? p->list.at[*number].latest : 0;
}

void plots_carry(struct plots *p)
{
    column_clear(&p->points);
    for (size_t i = 0; i < p->list.len; i++) {
        struct plot *plot = &p->list.at[i];
        plot->count = 0;
        plot->disorder = false;
        plot->min = plot->max = plot->sum = 0;
    }
}
