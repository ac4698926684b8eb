#include "analysis/csvexport/export.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/csvexport/gpu_list.h"
#include "analysis/names/names.h"
#include "analysis/tables/zone_texts.h"
#include "analysis/tables/zone_walk.h"
#include "trace/file/record_takers.h"

struct export
{
    struct export_options options;
    struct export_rows rows;
    struct names names;
    struct zone_groups groups;
    struct zone_walk walk;
    struct gpu_list gpu;
    struct zone_stats stats;
    struct zone_list list;
    struct zone_texts texts;
    struct plot_list plots;
    uint32_t thread; /* number of the thread of the current zones */
    int64_t last_time;
};

static int put_plot(void *ctx, uint64_t name, const struct listed_point *points, size_t n,
                    struct err *e)
{
    struct export *x = ctx;
    return x->rows.points(x->rows.ctx, names_pointer(&x->names, name), points, n, e);
}

struct export *export_open(const struct export_options *options, const struct export_rows *rows,
                           struct err *e)
{
    struct export *x = calloc(1, sizeof *x);
    if (!x) {
        err_no_memory(e, "an export");
        return NULL;
    }
    x->options = *options;
    x->options.plots &= options->kind == EXPORT_ZONES;
    x->rows = *rows;
    names_init(&x->names);
    zone_list_init(&x->list, options->spool_dir);
    zone_texts_init(&x->texts, options->spool_dir);
    const struct plot_sink sink = {x, put_plot};
    int percent = options->kind == EXPORT_ZONE_STATS ? options->percent : 0;
    if (zone_stats_init(&x->stats, percent, options->self, options->spool_dir, e) == 0 &&
        plot_list_init(&x->plots, &sink, options->spool_dir, e) == 0 &&
        gpu_list_init(&x->gpu, &x->groups, options->spool_dir, e) == 0)
        return x;
    export_free(x);
    return NULL;
}

void export_free(struct export *x)
{
    if (!x)
        return;
    names_release(&x->names);
    zone_groups_release(&x->groups);
    zone_walk_release(&x->walk);
    gpu_list_release(&x->gpu);
    zone_stats_release(&x->stats);
    zone_list_release(&x->list);
    zone_texts_release(&x->texts);
    plot_list_release(&x->plots);
    free(x);
}

enum record_type export_until(const struct export *x)
{
    switch (x->options.kind) {
    case EXPORT_ZONES:
        return x->options.plots ? REC_CALLSTACKS : REC_PLOTS;
    case EXPORT_ZONE_STATS:
        return REC_GPU_CONTEXTS;
    case EXPORT_GPU_ZONES:
        return REC_PLOTS;
    case EXPORT_MESSAGES:
        return REC_ZONE_EXTRAS;
    }
    return 0;
}

/* ---- rows */

static struct export_place place_of(const struct export *x, uint32_t rank)
{
    int16_t srcloc = (int16_t)x->groups.locations[rank];
    const struct rec_source_location *l = names_location(&x->names, srcloc);
    const struct rec_string_ref none = {0};
    return (struct export_place){rank, names_location_name(&x->names, l),
                                 names_ref(&x->names, l ? &l->file : &none), l ? l->line : 0};
}

static int begin_rows(struct export *x, uint64_t messages, struct err *e)
{
    return x->rows.begin(x->rows.ctx, messages, e);
}

static bool takes(struct export *x, int16_t srcloc)
{
    return zone_groups_takes(&x->groups, srcloc, &x->names, &x->options.filter);
}

static int put_stats(struct export *x, struct err *e)
{
    if (zone_stats_finish(&x->stats, e) != 0 || begin_rows(x, 0, e) != 0)
        return -1;
    for (uint32_t rank = 0; rank < x->groups.count; rank++) {
        int16_t srcloc = (int16_t)x->groups.locations[rank];
        const struct zone_figures *f = zone_stats_of(&x->stats, srcloc);
        if (f->total == 0 || !takes(x, srcloc))
            continue;
        struct export_place p = place_of(x, rank);
        if (x->rows.stat(x->rows.ctx, &p, f, x->last_time, e) != 0)
            return -1;
    }
    return 0;
}

struct row_walk {
    struct export *x;
    struct export_place place; /* of the previous row */
    bool any;
};

static int put_rows(void *ctx, const struct zone_row *rows, size_t n, struct err *e)
{
    struct row_walk *w = ctx;
    struct export *x = w->x;
    int status = 0;
    for (size_t i = 0; status == 0 && i < n; i++) {
        uint32_t rank = zone_row_rank(&rows[i]);
        if (!w->any || w->place.rank != rank)
            w->place = place_of(x, rank);
        w->any = true;
        struct view text = {0};
        if (rows[i].text)
            text = names_string(&x->names, rows[i].text);
        status = x->options.kind == EXPORT_GPU_ZONES
                     ? x->rows.gpu_zone(x->rows.ctx, &w->place, &rows[i], e)
                     : x->rows.zone(x->rows.ctx, &w->place, &rows[i], text, e);
    }
    return status;
}

static int put_list(struct export *x, struct err *e)
{
    struct row_walk w = {.x = x};
    if (begin_rows(x, 0, e) != 0 || zone_list_drain(&x->list, put_rows, &w, e) != 0)
        return -1;
    spill_release(&x->list.rows);
    return 0;
}

/* ---- records */

/* Official tools reserve room for all source locations, but not for those of GPU zones. */
TAKE_EACH(start_groups, struct export *x, count, r)
{
    size_t reserved =
        x->options.kind == EXPORT_GPU_ZONES ? 0 : x->names.expands.len + x->names.payloads.len;
    return zone_groups_init(&x->groups, reserved, e);
}

TAKE_EACH(take_header, struct export *x, header, r)
{
    x->last_time = r->last_time;
    return 0;
}

TAKE_EACH(list_location, struct export *x, zone_stat, r)
{
    return zone_groups_list(&x->groups, r->srcloc, e);
}

TAKE_EACH(add_text, struct export *x, zone_extra, r)
{
    return zone_texts_add(&x->texts, r->text, e);
}

TAKE_EACH(begin_thread, struct export *x, thread, r)
{
    return names_add_thread(&x->names, r->id, &x->thread, e);
}

TAKE_EACH(end_zone, struct export *x, zone_end, r)
{
    struct walked_zone z = zone_walk_end(&x->walk, r);
    if (x->options.kind == EXPORT_ZONE_STATS) {
        if (zone_stats_of(&x->stats, z.srcloc)->count == 0)
            zone_groups_rank_of(&x->groups, z.srcloc);
        return zone_stats_end(&x->stats, &z, e);
    }
    uint32_t rank = zone_groups_rank_of(&x->groups, z.srcloc);
    struct zone_row row = {.start = z.start, .span = z.end - z.start, .thread = x->thread};
    if (z.end < 0 || row.span <= 0 || !takes(x, z.srcloc))
        return 0;
    if (x->options.self)
        row.span = (int64_t)((uint64_t)row.span - (uint64_t)z.children);
    if (z.extra && zone_texts_get(&x->texts, z.extra, &row.text, e) != 0)
        return -1;
    return zone_list_add(&x->list, rank, z.number, &row, e);
}

TAKE_EACH(begin_zone, struct export *x, zone_begin, r)
{
    if (zone_walk_begin(&x->walk, r, e) != 0)
        return -1;
    if (x->options.kind != EXPORT_ZONE_STATS)
        return 0;
    struct walked_zone *z = &x->walk.open.at[x->walk.open.len - 1];
    return zone_stats_begin(&x->stats, r->srcloc, &z->number, e);
}

TAKE_EACH(begin_messages, struct export *x, count, r)
{
    return begin_rows(x, r->n, e);
}

TAKE_EACH(put_message, struct export *x, message, r)
{
    return x->rows.message(x->rows.ctx, names_ref(&x->names, &r->text), r->time, e);
}

/* GPU contexts follow the last zones of the processors. */
TAKE_EACH(reach_gpu, struct export *x, threads, r)
{
    return x->options.kind == EXPORT_ZONES ? put_list(x, e) : 0;
}

TAKE_EACH(begin_gpu_context, struct export *x, gpu_context, r)
{
    return gpu_list_context(&x->gpu, e);
}

TAKE_EACH(begin_gpu_thread, struct export *x, gpu_thread, r)
{
    return gpu_list_thread(&x->gpu, r, e);
}

TAKE_EACH(begin_gpu_zone, struct export *x, gpu_zone_begin, r)
{
    return gpu_list_begin(&x->gpu, r, e);
}

TAKE_EACH(end_gpu_zone, struct export *x, gpu_zone_end, r)
{
    return gpu_list_end(&x->gpu, r, e);
}

#define ONLY(KIND) (1u << EXPORT_##KIND)
#define BOTH (ONLY(ZONES) | ONLY(ZONE_STATS))

static const struct {
    record_taker *take;
    unsigned kinds; /* of the exports that need the records: a bit for each */
} rows[REC_TYPE_COUNT] = {
    [REC_HEADER] = {take_header, BOTH},
    [REC_ZONE_STATS] = {start_groups, BOTH},
    [REC_ZONE_STAT] = {list_location, BOTH},
    [REC_GPU_ZONE_STATS] = {start_groups, ONLY(GPU_ZONES)},
    [REC_GPU_ZONE_STAT] = {list_location, ONLY(GPU_ZONES)},
    [REC_MESSAGES] = {begin_messages, ONLY(MESSAGES)},
    [REC_MESSAGE] = {put_message, ONLY(MESSAGES)},
    [REC_ZONE_EXTRA] = {add_text, ONLY(ZONES)},
    [REC_THREAD] = {begin_thread, BOTH},
    [REC_ZONE_BEGIN] = {begin_zone, BOTH},
    [REC_ZONE_END] = {end_zone, BOTH},
    [REC_GPU_CONTEXTS] = {reach_gpu, ONLY(ZONES) | ONLY(GPU_ZONES)},
    [REC_GPU_CONTEXT] = {begin_gpu_context, ONLY(GPU_ZONES)},
    [REC_GPU_THREAD] = {begin_gpu_thread, ONLY(GPU_ZONES)},
    [REC_GPU_ZONE_BEGIN] = {begin_gpu_zone, ONLY(GPU_ZONES)},
    [REC_GPU_ZONE_END] = {end_gpu_zone, ONLY(GPU_ZONES)},
};

void export_wanted(const struct export *x, bool wanted[REC_TYPE_COUNT])
{
    for (unsigned i = 0; i < REC_TYPE_COUNT; i++)
        wanted[i] = rows[i].kinds >> x->options.kind & 1;
    names_wanted(wanted);
    if (x->options.plots)
        plot_list_wanted(wanted);
}

static int export_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct export *x = ctx;
    if (x->options.plots && plot_list_put(&x->plots, type, recs, n, e) != 0)
        return -1;
    record_taker *take = rows[type].take;
    return take ? take(x, recs, n, e) : names_put(&x->names, type, recs, n, e);
}

struct record_sink export_sink(struct export *x)
{
    return (struct record_sink){x, export_put};
}

int export_finish(struct export *x, struct err *e)
{
    switch (x->options.kind) {
    case EXPORT_ZONE_STATS:
        return put_stats(x, e);
    case EXPORT_ZONES:
        return x->options.plots ? plot_list_finish(&x->plots, e) : 0;
    case EXPORT_GPU_ZONES:
        if (gpu_list_finish(&x->gpu, &x->names, &x->options.filter, &x->list, e) != 0)
            return -1;
        return put_list(x, e);
    case EXPORT_MESSAGES:
        return 0;
    }
    return 0;
}
