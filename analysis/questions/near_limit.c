#include "analysis/questions/near_limit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/names/frames.h"
#include "analysis/questions/growth.h"
#include "base/format.h"
#include "trace/store/kernel_plot.h"

#define FACT "near_limit"
#define NEAR 0.9
#define FAR 0.8
#define SITES_NAMED 3u

/* ---- readings */

struct search {
    const struct plots *plots;
    struct near_limit *found; /* limit 0: nothing so far */
    double use;               /* of the reading at `time` */
    int64_t time;
    int64_t far; /* time of the last reading with less than 80 %; -1: none */
};

/* Use and limit of a reading have the same time; the use comes first. */
static int take_point(void *ctx, const struct plot_point *p, struct err *e)
{
    struct search *s = ctx;
    uint64_t which = s->plots->list.at[p->plot].name;
    double limit = p->value;
    (void)e;
    if (which == MEMORY_PLOT_KEY(MEMORY_CGROUP_USE)) {
        s->use = p->value;
        s->time = p->time;
    }
    if (which != MEMORY_PLOT_KEY(MEMORY_CGROUP_LIMIT) || s->time != p->time || limit < 1 ||
        limit >= 0x1p60 || s->use < 0 || s->use >= 0x1p60)
        return 0;
    if (s->use < FAR * limit)
        s->far = p->time;
    else if (s->use >= NEAR * limit && s->use >= (double)s->found->use)
        *s->found = (struct near_limit){
            .from = s->far, .to = p->time, .use = (uint64_t)s->use, .limit = (uint64_t)limit};
    return 0;
}

/* ---- growth */

static void put_sites(struct buf *out, const struct growth *g)
{
    char bytes[FORMAT_SIZE];
    size_t named = 0;
    struct buf name = {0};
    for (size_t i = 0; i < g->rows.len && named < SITES_NAMED; i++) {
        const struct growth_row *r = &g->rows.at[i];
        if (r->bytes_after <= r->bytes_before)
            break;
        buf_clear(&name);
        if (r->no_callstack)
            buf_puts(&name, "blocks without call stack");
        else
            frame_short_name(&name, &r->frame);
        frame_source(&name, &r->frame);
        buf_printf(out, "%s %s at ", named++ ? "," : ":",
                   format_bytes(bytes, r->bytes_after - r->bytes_before));
        format_terminal(out, buf_view(&name));
        out->failed |= name.failed;
    }
    buf_release(&name);
}

static void put_growth(struct buf *out, const struct growth *g)
{
    char bytes[FORMAT_SIZE];
    if (g->bytes_after > g->bytes_before)
        buf_printf(out, "live blocks grew by %s",
                   format_bytes(bytes, g->bytes_after - g->bytes_before));
    else
        buf_puts(out, "live blocks did not grow");
    put_sites(out, g);
}

static int add_fact(struct trace *t, const struct near_limit *n, struct err *e)
{
    const struct selection_options all = {0};
    struct selection s;
    struct growth g;
    struct buf words = {0};
    if (selection_init(&s, t, &all, e) != 0)
        return -1;
    int status = growth_build(&g, &s, NULL, n->from, n->to, e);
    if (status == 0) {
        put_growth(&words, &g);
        status = words.failed ? err_no_memory(e, "what grew")
                              : trace_add_fact(t, e, FACT,
                                               "%" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %s",
                                               n->from, n->to, n->use, n->limit, buf_str(&words));
        growth_release(&g);
    }
    buf_release(&words);
    selection_release(&s);
    return status;
}

int near_limit_note(struct trace *t, struct err *e)
{
    struct near_limit found = {0};
    struct search s = {.plots = &t->plots, .found = &found, .far = -1};
    if (plots_each(&t->plots, take_point, &s, e) != 0)
        return -1;
    if (!found.limit)
        return 0;
    if (trace_fact(t, "oom_kills", 0).p && t->facts.last_time > found.to)
        found.to = t->facts.last_time;
    return add_fact(t, &found, e);
}

/* ---- the fact */

bool near_limit_read(const struct trace *t, struct near_limit *n)
{
    char text[128] = {0};
    struct view fact = trace_fact(t, FACT, 0);
    int at = 0;
    if (!fact.p || trace_fact(t, FACT, 1).p)
        return false;
    memcpy(text, fact.p, fact.len < sizeof text - 1 ? fact.len : sizeof text - 1);
    if (sscanf(text, "%" SCNd64 " %" SCNd64 " %" SCNu64 " %" SCNu64 " %n", &n->from, &n->to,
               &n->use, &n->limit, &at) != 4 ||
        !at || n->to < 0)
        return false;
    n->growth = (struct view){fact.p + at, fact.len - (size_t)at};
    return true;
}

void near_limit_words(struct buf *out, const struct near_limit *n)
{
    char use[FORMAT_SIZE], limit[FORMAT_SIZE], from[FORMAT_SIZE], to[FORMAT_SIZE];
    buf_printf(out, "limit: the cgroup used %s of %s by %s, ", format_bytes(use, n->use),
               format_bytes(limit, n->limit), format_duration(to, n->to));
    if (n->from < 0)
        buf_puts(out, "80 % or more from the beginning; ");
    else
        buf_printf(out, "less than 80 %% until %s; then ", format_duration(from, n->from));
    format_terminal(out, n->growth);
}
