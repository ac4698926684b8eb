/* Plots and messages that correlate with memory use. */

#include "analysis/questions/related.h"

#include "lib/tidetrace_internal.h"
#include "report/related_report.h"

LIB_RESULT(related, related, related)

/* Rows are those of plots, then those of messages. A page may cross the border. */
static int write_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                      struct err *e)
{
    const struct related_result *m = (const struct related_result *)r;
    struct related part = m->related;
    uint64_t plots = part.plots.len;
    uint64_t end = first + count;
    uint64_t from = first < plots ? first : plots;
    uint64_t to = end < plots ? end : plots;
    if (from)
        part.plots.at += from;
    part.plots.len = (size_t)(to - from);
    if (first > plots)
        part.messages.at += first - plots;
    part.messages.len = (size_t)(count - (to - from));
    return related_write(&part, &m->base.selection, REPORT_JSON, 0, out, e);
}

static int build(struct tidetrace_result *base, const void *theirs, struct err *e)
{
    struct related_result *r = (struct related_result *)base;
    struct tidetrace *t = base->traces[0];
    struct tidetrace_related_options o;
    if (lib_take(&o, sizeof o, theirs, e) != 0)
        return -1;
    if (o.window < 0)
        return err_set(e, ERR_USAGE, "the window after a message is a time of 0 or more");
    if (!t->plots)
        return err_set(e, ERR_USAGE, "plots and messages were not loaded (TIDETRACE_OPEN_PLOTS)");
    if (result_select(&r->base, o.selection, NULL, e) != 0)
        return -1;
    const struct related_options options = {.window = o.window};
    if (related_build(&r->related, &r->base.selection, &t->beside, &options, e) != 0)
        return -1;
    r->base.rows = (uint64_t)r->related.plots.len + r->related.messages.len;
    return 0;
}

static struct tidetrace_related_row plot_row(const struct related_plot *p)
{
    return (struct tidetrace_related_row){.kind = TIDETRACE_RELATED_PLOT,
                                          .related = related_is_one(p->adjusted),
                                          .name = lib_text(p->name),
                                          .count = p->points,
                                          .used = p->n,
                                          .p = p->p,
                                          .p_adjusted = p->adjusted,
                                          .moved = p->moved,
                                          .spearman = p->spearman,
                                          .pearson = p->pearson};
}

static struct tidetrace_related_row message_row(const struct related_message *m)
{
    return (struct tidetrace_related_row){.kind = TIDETRACE_RELATED_MESSAGE,
                                          .related = related_is_one(m->adjusted),
                                          .name = lib_text(m->text),
                                          .count = m->count,
                                          .used = m->n,
                                          .p = m->p,
                                          .p_adjusted = m->adjusted,
                                          .steep = m->steep,
                                          .expected = m->expected,
                                          .rise = m->rise,
                                          .usual_rise = m->usual};
}

static int give_row(struct tidetrace_result *r, uint64_t row, void *to, struct err *e)
{
    const struct related_result *m = (const struct related_result *)r;
    const struct related *all = &m->related;
    bool is_plot = row < all->plots.len;
    const struct related_plot *plot = is_plot ? &all->plots.at[row] : NULL;
    const struct related_message *message =
        is_plot ? NULL : &all->messages.at[row - all->plots.len];
    struct tidetrace_related_row out = is_plot ? plot_row(plot) : message_row(message);
    out.pool = lib_text(m->base.selection.pools.at[is_plot ? plot->pool : message->pool].name);
    return lib_give(to, &out, sizeof out, e);
}

LIB_QUESTION(related, tidetrace_related_options, related_row)

static int give_head(struct tidetrace_result *r, struct tidetrace_related_head *to, struct err *e)
{
    if (r->type != &related_type)
        return err_set(e, ERR_USAGE, "this result is not about plots and messages");
    const struct related *m = &((const struct related_result *)r)->related;
    const struct tidetrace_related_head out = {.begin = m->begin,
                                               .end = m->end,
                                               .window = m->window,
                                               .plots = m->plots.len,
                                               .messages = m->messages.len,
                                               .steps = m->steps,
                                               .cells = m->cells,
                                               .threshold = RELATED_BELOW};
    return lib_give(to, &out, sizeof out, e);
}

int tidetrace_related_head(struct tidetrace_result *result, struct tidetrace_related_head *out,
                           struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    return call_end(&c, give_head(result, out, &c.err));
}
