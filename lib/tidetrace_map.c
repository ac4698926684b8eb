/* The map of live blocks. */

#include "analysis/questions/memory_map.h"

#include "lib/tidetrace_internal.h"
#include "report/memory_map_report.h"

#define LINES 32
#define LINES_MAX 100000
#define COLUMNS_MAX 1024
#define SAMPLES 8
#define SAMPLES_MAX 100000

LIB_RESULT(map, memory_map, map)

static int write_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                      struct err *e)
{
    static const struct map_report_options options = {.format = REPORT_JSON};
    const struct map_result *m = (const struct map_result *)r;
    (void)first;
    (void)count;
    return memory_map_write(&m->map, m->base.selection.trace, &options, out, e);
}

static int take_options(struct map_options *to, const struct tidetrace_map_options *o,
                        struct err *e)
{
    *to = (struct map_options){.columns = o->columns,
                               .lines = o->lines ? o->lines : LINES,
                               .samples = o->samples ? o->samples : SAMPLES};
    if (o->columns > COLUMNS_MAX || o->columns & (o->columns - 1) || to->lines > LINES_MAX ||
        to->samples > SAMPLES_MAX)
        return err_set(e, ERR_USAGE,
                       "a map has columns by a power of two up to %u, and not too many lines and "
                       "samples",
                       COLUMNS_MAX);
    return 0;
}

/* `at` is the time of the map; events before it are analysed, too. */
static int select_until(struct tidetrace_result *r, const struct tidetrace_selection *selection,
                        struct err *e)
{
    struct question *q = &r->question;
    if (question_init(q, r->traces[0], selection, NULL, e) != 0)
        return -1;
    selection_until(&q->only);
    return selection_init(&r->selection, &r->traces[0]->trace, &q->only, e);
}

static int build(struct tidetrace_result *base, const void *theirs, struct err *e)
{
    struct map_result *r = (struct map_result *)base;
    struct tidetrace_map_options o;
    struct map_options options;
    if (lib_take(&o, sizeof o, theirs, e) != 0 || take_options(&options, &o, e) != 0 ||
        select_until(base, o.selection, e) != 0)
        return -1;
    const struct selection_options *only = &r->base.question.only;
    options.begin = only->has_range && only->begin > 0 ? only->begin : 0;
    if (memory_map_build(&r->map, &r->base.selection, &options, e) != 0)
        return -1;
    uint64_t rows = 0;
    for (size_t i = 0; i < r->map.pools.len; i++)
        rows += r->map.pools.at[i].samples.len;
    r->base.rows = rows;
    return 0;
}

static int give_row(struct tidetrace_result *r, uint64_t row, void *to, struct err *e)
{
    const struct map_pool *p = ((const struct map_result *)r)->map.pools.at;
    for (; row >= p->samples.len; p++)
        row -= p->samples.len;
    const struct map_sample *s = &p->samples.at[row];
    const struct tidetrace_map_row out = {.pool = lib_text(p->name),
                                          .time = s->time,
                                          .blocks = s->blocks,
                                          .bytes = s->bytes,
                                          .covered_bytes = s->covered,
                                          .page_bytes = s->pages * MAP_PAGE,
                                          .holes = s->holes,
                                          .hole_bytes = s->hole_bytes,
                                          .largest_hole_bytes = s->largest_hole,
                                          .low_address = s->low,
                                          .high_address = s->high};
    return lib_give(to, &out, sizeof out, e);
}

LIB_QUESTION(map, tidetrace_map_options, map_row)
