#include "analysis/figures/summary_facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/figures/resident_fact.h"
#include "base/format.h"
#include "base/saturate.h"
#include "trace/store/kernel_plot.h"

#define DEVICE "CUDA device "

/* Copies the n-th fact with its NUL. False: there is none that fits. */
static bool copy_fact(const struct trace *t, const char *key, unsigned n, char *text, size_t size)
{
    struct view fact = trace_fact(t, key, n);
    if (!fact.p || fact.len >= size)
        return false;
    memcpy(text, fact.p, fact.len);
    text[fact.len] = 0;
    return true;
}

/* ---- GPU: segments */

bool gpu_segments_read(const struct trace *t, unsigned n, struct gpu_segments *s)
{
    char text[128];
    return copy_fact(t, "gpu_segments", n, text, sizeof text) &&
           sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &s->gpu,
                  &s->count, &s->reserved, &s->used, &s->largest) == 5;
}

void gpu_segments_words(struct buf *out, const struct gpu_segments *s)
{
    char count[FORMAT_SIZE], reserved[FORMAT_SIZE], left[FORMAT_SIZE], share[FORMAT_SIZE];
    char largest[FORMAT_SIZE];
    uint64_t rest = s->reserved > s->used ? s->reserved - s->used : 0;
    buf_printf(out,
               "gpu%" PRIu64 ": %s reserved %s; %s of it (%s) are free, in pieces of %s or less",
               s->gpu, format_counted(count, s->count, "segment"),
               format_bytes(reserved, s->reserved), format_bytes(left, rest),
               format_percent(share, rest, s->reserved), format_bytes(largest, s->largest));
}

/* ---- GPU: use */

struct search {
    const struct plots *plots;
    struct gpu_use *use;
};

/* The three values of a reading follow each other. Those of a file are any numbers. */
static int take_point(void *ctx, const struct plot_point *p, struct err *e)
{
    struct search *s = ctx;
    struct gpu_use *u = s->use;
    uint64_t name = s->plots->list.at[p->plot].name;
    (void)e;
    if (!(p->value >= 0 && p->value < 0x1p60))
        return 0;
    uint64_t bytes = (uint64_t)p->value;
    if (name == MEMORY_PLOT_KEY(MEMORY_GPU_PROCESS) && bytes >= u->reported)
        *u = (struct gpu_use){.known = true, .time = p->time, .reported = bytes};
    else if (name == MEMORY_PLOT_KEY(MEMORY_GPU_USED) && u->known && p->time == u->time)
        u->used = bytes;
    else if (name == MEMORY_PLOT_KEY(MEMORY_GPU_SIZE) && u->known && p->time == u->time)
        u->size = bytes;
    return 0;
}

static int take_step(void *ctx, const struct memory_op *op, struct err *e)
{
    struct gpu_use *u = ctx;
    (void)e;
    if (op->time > u->time)
        return 0;
    u->attributed = op->kind == MEMORY_ALLOC ? saturating_add(u->attributed, op->block.size)
                                             : saturating_sub(u->attributed, op->block.size);
    return 0;
}

bool gpu_is_device(struct view pool)
{
    const size_t len = sizeof DEVICE - 1;
    return pool.len > len && memcmp(pool.p, DEVICE, len) == 0;
}

int gpu_use_note(struct trace *t, struct err *e)
{
    struct gpu_use u = {0};
    struct search s = {.plots = &t->plots, .use = &u};
    const struct memory_observer to = {.ctx = &u, .op = take_step};
    char room[32];
    bool any = false;
    if (!trace_fact(t, "recorded", 0).p || t->memory.only.is)
        return 0;
    if (plots_each(&t->plots, take_point, &s, e) != 0)
        return -1;
    for (uint32_t i = 0; i < t->memory.pools.len; i++) {
        if (!gpu_is_device(trace_pool_name(t, t->memory.pools.at[i], room)))
            continue;
        any = true;
        if (u.known && memory_sweep(&t->memory, i, &to, e) != 0)
            return -1;
    }
    if (!u.known)
        return any ? trace_add_fact(t, e, "gpu_use", "unknown") : 0;
    return trace_add_fact(t, e, "gpu_use",
                          "%" PRId64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, u.time,
                          u.reported, u.attributed, u.used, u.size);
}

bool gpu_use_read(const struct trace *t, struct gpu_use *u)
{
    char text[128];
    *u = (struct gpu_use){0};
    if (trace_fact(t, "gpu_use", 1).p || !copy_fact(t, "gpu_use", 0, text, sizeof text))
        return false;
    if (strcmp(text, "unknown") == 0)
        return true;
    u->known = true;
    return sscanf(text, "%" SCNd64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &u->time,
                  &u->reported, &u->attributed, &u->used, &u->size) == 5 &&
           u->time >= 0;
}

void gpu_use_words(struct buf *out, const struct gpu_use *u)
{
    char time[FORMAT_SIZE], bytes[FORMAT_SIZE], rest[FORMAT_SIZE];
    if (!u->known) {
        buf_puts(out, "gpu: what the driver reports of the process is not known");
        return;
    }
    buf_printf(out, "gpu %s at %s as the driver reports: ", format_bytes(bytes, u->reported),
               format_duration(time, u->time));
    buf_printf(out, "attributed %s, ", format_bytes(bytes, u->attributed));
    if (u->attributed <= u->reported)
        buf_printf(out, "not attributed %s", format_bytes(rest, u->reported - u->attributed));
    else
        buf_printf(out, "%s more than that", format_bytes(rest, u->attributed - u->reported));
    buf_printf(out, "; all processes %s of %s", format_bytes(bytes, u->used),
               format_bytes(rest, u->size));
}

/* ---- near the limit */

static bool read_growth(const struct trace *t, struct near_limit *n)
{
    char text[128] = {0};
    struct view fact = trace_fact(t, "near_limit", 0);
    int at = 0;
    if (!fact.p || trace_fact(t, "near_limit", 1).p)
        return false;
    memcpy(text, fact.p, fact.len < sizeof text - 1 ? fact.len : sizeof text - 1);
    if (sscanf(text, "%" SCNd64 " %" SCNd64 " %" SCNu64 " %" SCNu64 " %n", &n->from, &n->to,
               &n->use, &n->limit, &at) != 4 ||
        !at || n->to < 0 || (!n->limit && n->use > 100))
        return false;
    n->waited = n->limit ? 0 : n->use;
    n->use = n->limit ? n->use : 0;
    n->growth = (struct view){fact.p + at, fact.len - (size_t)at};
    return true;
}

bool near_limit_read(const struct trace *t, struct near_limit *n)
{
    static const char until[] = " at recovery";
    const size_t cut = sizeof until - 1;
    struct view kills = trace_fact(t, "oom_kills", 0);
    *n = (struct near_limit){0};
    if (!read_growth(t, n))
        *n = (struct near_limit){.from = -1};
    if (!trace_fact(t, "oom_kills", 1).p)
        n->kills = trace_fact_number(t, "oom_kills");
    n->recovered =
        n->kills && kills.len > cut && memcmp(kills.p + kills.len - cut, until, cut) == 0;
    return n->growth.p || n->kills;
}

static void put_readings(struct buf *out, const struct near_limit *n)
{
    char use[FORMAT_SIZE], limit[FORMAT_SIZE], from[FORMAT_SIZE], to[FORMAT_SIZE];
    format_duration(to, n->to);
    if (n->limit)
        buf_printf(out, "the cgroup used %s of %s by %s, ", format_bytes(use, n->use),
                   format_bytes(limit, n->limit), to);
    else
        buf_printf(out, "tasks waited for memory for %u %% of a second by %s, ",
                   (unsigned)n->waited, to);
    if (n->from < 0)
        buf_printf(out, "%u %% or more from the beginning; ", n->limit ? 80 : 5);
    else
        buf_printf(out, "less than %u %% until %s; then ", n->limit ? 80 : 5,
                   format_duration(from, n->from));
    format_terminal(out, n->growth);
}

void near_limit_words(struct buf *out, const struct near_limit *n)
{
    char count[FORMAT_SIZE];
    buf_puts(out, "limit: ");
    if (n->growth.p)
        put_readings(out, n);
    if (n->kills)
        buf_printf(out, "%sthe OOM killer killed %s in the memory cgroup%s",
                   n->growth.p ? "; " : "", format_counted(count, n->kills, "program"),
                   n->recovered ? " between its first reading and the recovery" : "");
}

/* ---- all */

void summary_lines(struct buf *out, const struct trace *t)
{
    struct resident_shares shares;
    struct near_limit limit;
    struct gpu_use use;
    struct gpu_segments gpu;
    if (resident_fact_read(t, &shares)) {
        resident_words(out, &shares);
        buf_puts(out, "\n");
    }
    if (near_limit_read(t, &limit)) {
        near_limit_words(out, &limit);
        buf_puts(out, "\n");
    }
    if (gpu_use_read(t, &use)) {
        gpu_use_words(out, &use);
        buf_puts(out, "\n");
    }
    for (unsigned n = 0; gpu_segments_read(t, n, &gpu); n++) {
        gpu_segments_words(out, &gpu);
        buf_puts(out, "\n");
    }
}
