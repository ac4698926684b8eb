#include "analysis/questions/near_limit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/figures/summary_facts.h"
#include "analysis/names/frames.h"
#include "analysis/questions/growth.h"
#include "base/format.h"
#include "trace/store/limit_watch.h"

#define SITES_NAMED 3u

/* ---- readings */

struct search {
    const struct plots *plots;
    struct near_limit found;
    struct limit_watch watch;
    int64_t far;         /* time of the last reading far from the limit; -1: none */
    uint64_t use, limit; /* bytes, in the last reading with a limit; limit 0: none */
    double kills;        /* the last value */
    /* the reading so far, whose values have one time */
    uint32_t known;
    double value[MEMORY_VALUES];
    int64_t time;
};

/* A use near the limit is found rather than pressure, and of each the highest, the last of them. */
static void take_reading(struct search *s)
{
    if (!s->known)
        return;
    enum limit_state state = limit_watch_take(&s->watch, s->known, s->value, s->time);
    struct near_limit now = {.from = s->far, .to = s->time};
    s->known = 0;
    if (s->watch.limit >= 1) {
        s->use = (uint64_t)s->watch.use;
        s->limit = (uint64_t)s->watch.limit;
    }
    if (state == LIMIT_FAR)
        s->far = s->time;
    if (state != LIMIT_NEAR)
        return;
    if (limit_watch_is_full(&s->watch)) {
        now.use = (uint64_t)s->watch.use;
        now.limit = (uint64_t)s->watch.limit;
    } else {
        now.waited = (uint64_t)s->watch.waited;
    }
    if (now.limit ? now.use >= s->found.use : !s->found.limit && now.waited >= s->found.waited)
        s->found = now;
}

/* The use comes first of a reading, what processes wait last. */
static int take_point(void *ctx, const struct plot_point *p, struct err *e)
{
    struct search *s = ctx;
    uint64_t which = (s->plots->list.at[p->plot].name - MEMORY_PLOT_KEY(0)) / 16;
    (void)e;
    if (which == MEMORY_CGROUP_KILLS && p->value >= 0 && p->value < 0x1p32)
        s->kills = p->value;
    if (which != MEMORY_CGROUP_USE && which != MEMORY_CGROUP_FILE && which != MEMORY_CGROUP_LIMIT &&
        which != MEMORY_CGROUP_FULL && which != MEMORY_SYSTEM_FULL)
        return 0;
    if (p->time != s->time)
        take_reading(s);
    s->time = p->time;
    s->known |= UINT32_C(1) << which;
    s->value[which] = p->value;
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
                              : trace_add_fact(t, e, "near_limit",
                                               "%" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %s",
                                               n->from, n->to, n->limit ? n->use : n->waited,
                                               n->limit, buf_str(&words));
        growth_release(&g);
    }
    buf_release(&words);
    selection_release(&s);
    return status;
}

/* `run` has noted how its program ended. Of a client, only its connection is known. */
static int note_kills(struct trace *t, const struct search *s, struct err *e)
{
    if (s->kills < 1 || trace_fact(t, "oom_kills", 0).p ||
        !view_equal(trace_fact(t, "end", 0), view_of("the client vanished")))
        return 0;
    return trace_add_fact(t, e, "oom_kills", "%.0f limit %" PRIu64, s->kills, s->limit);
}

/* A program that grows fast is killed before a reading is near the limit. */
int near_limit_note(struct trace *t, struct err *e)
{
    struct search s = {.plots = &t->plots, .far = -1};
    if (plots_each(&t->plots, take_point, &s, e) != 0)
        return -1;
    take_reading(&s);
    if (note_kills(t, &s, e) != 0)
        return -1;
    bool killed = trace_fact(t, "oom_kills", 0).p;
    if (!s.found.limit && killed && s.limit)
        s.found = (struct near_limit){.from = s.far, .use = s.use, .limit = s.limit};
    if (!s.found.limit && !s.found.waited)
        return 0;
    if (killed && t->facts.last_time > s.found.to)
        s.found.to = t->facts.last_time;
    return add_fact(t, &s.found, e);
}
