#include "analysis/questions/figure_parts.h"

#include <stdio.h>
#include <stdlib.h>

#include "analysis/figures/figures_only.h"
#include "analysis/questions/histograms.h"
#include "analysis/questions/patterns.h"
#include "analysis/questions/stack_steps.h"
#include "analysis/questions/step_curve.h"

int figure_parts_begin(struct trace *t, struct err *e)
{
    static const struct figures_part *const parts[PART_COUNT] = {[PART_CURVE] = &step_curve_part,
                                                                 [PART_SIZES] = &histograms_part,
                                                                 [PART_STACKS] = &stack_steps_part,
                                                                 [PART_PATTERNS] = &patterns_part};
    return figures_only_begin(t, parts, PART_COUNT, e);
}

/* Not an address of a client's name. */
#define PLOT_NAMES (UINT64_C(0xf16) << 52)

static int name_plot(struct trace *t, const struct pool *pool, uint64_t name, struct err *e)
{
    static const struct plot_config bytes = {.format = PLOT_MEMORY, .show_steps = 1, .fill = 1};
    char room[32], text[300];
    struct view of = trace_pool_name(t, pool, room);
    int len = snprintf(text, sizeof text, "memory of pool %.*s (highest in each step)",
                       of.len > 200 ? 200 : (int)of.len, of.p);
    uint32_t number = strings_intern(&t->strings, (struct view){text, (size_t)len}, e);
    return number && strings_bind(&t->strings, name, number, e) == 0 &&
                   plots_name(&t->plots, name, number, e) == 0
               ? plots_configure(&t->plots, name, &bytes, e)
               : -1;
}

static int plot_curve(struct trace *t, uint32_t pool, struct step_curve *c, struct err *e)
{
    const uint64_t name = PLOT_NAMES + pool;
    struct view bytes;
    if (figures_only_part(t, pool, PART_CURVE, &bytes, e) != 0)
        return -1;
    if (bytes.len == 0)
        return 0;
    if (step_curve_decode(c, bytes, e) != 0 || name_plot(t, t->memory.pools.at[pool], name, e) != 0)
        return -1;
    while (c->count > FIGURE_PLOT_POINTS)
        step_curve_coarsen(c, c->shift + 1);
    for (size_t i = 0; i < c->count; i++) {
        const struct timeline_bucket *b = &c->at[i];
        if (plots_value(&t->plots, name, b->high_time, (double)b->high, e) != 0)
            return -1;
    }
    return 0;
}

int figure_parts_note(struct trace *t, struct err *e)
{
    if (!t->memory.only.append)
        return 0;
    struct step_curve *c = malloc(sizeof *c);
    if (!c)
        return err_no_memory(e, "the use over time");
    int status = figures_only_note(t, e);
    for (uint32_t i = 0; i < t->memory.pools.len && status == 0; i++)
        status = plot_curve(t, i, c, e);
    free(c);
    return status;
}
