/* The map of live blocks. */

#include "analysis/questions/memory_map.h"

#include "lib/tidetrace_internal.h"
#include "report/memory_map_report.h"

#define LINES 32
#define LINES_MAX 100000
#define COLUMNS_MAX 1024
#define SAMPLES 8
#define SAMPLES_MAX 100000

struct map_result {
    struct selected_result of;
    struct memory_map map;
};

static int map_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                    struct err *e)
{
    static const struct map_report_options options = {.format = REPORT_JSON};
    const struct map_result *m = (const struct map_result *)r;
    (void)first;
    (void)count;
    return memory_map_write(&m->map, m->of.selection.trace, &options, out, e);
}

static void map_free(struct tidetrace_result *r)
{
    struct map_result *m = (struct map_result *)r;
    memory_map_release(&m->map);
    selection_release(&m->of.selection);
}

static const struct result_type map_type = {map_json, map_free};

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
static int select_until(struct map_result *r, struct tidetrace *t,
                        const struct tidetrace_selection *selection, struct err *e)
{
    struct question *q = &r->of.base.question;
    if (question_init(q, t, selection, NULL, 0, e) != 0)
        return -1;
    selection_until(&q->only);
    return selection_init(&r->of.selection, &t->trace, &q->only, e);
}

static int build(struct map_result *r, struct tidetrace *t,
                 const struct tidetrace_map_options *theirs, struct err *e)
{
    struct tidetrace_map_options o;
    struct map_options options;
    if (lib_take(&o, sizeof o, theirs, e) != 0 || take_options(&options, &o, e) != 0 ||
        select_until(r, t, o.selection, e) != 0)
        return -1;
    const struct selection_options *only = &r->of.base.question.only;
    options.begin = only->has_range && only->begin > 0 ? only->begin : 0;
    if (memory_map_build(&r->map, &r->of.selection, &options, e) != 0) {
        selection_release(&r->of.selection);
        return -1;
    }
    uint64_t rows = 0;
    for (size_t i = 0; i < r->map.pools.len; i++)
        rows += r->map.pools.at[i].samples.len;
    result_built(&r->of.base, rows);
    return 0;
}

int tidetrace_map(struct tidetrace *trace, const struct tidetrace_map_options *options,
                  struct tidetrace_result **result, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    *result = NULL;
    struct map_result *r = result_new(&map_type, sizeof *r, trace, &c.err);
    int status = r ? build(r, trace, options, &c.err) : -1;
    return call_end(&c, result_finish(r ? &r->of.base : NULL, status, result));
}

static int give_row(struct tidetrace_result *r, uint64_t row, struct tidetrace_map_row *to,
                    struct err *e)
{
    if (result_row(r, &map_type, row, e) != 0)
        return -1;
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

int tidetrace_map_row(struct tidetrace_result *result, uint64_t row, struct tidetrace_map_row *out,
                      struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    return call_end(&c, give_row(result, row, out, &c.err));
}
