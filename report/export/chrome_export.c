#include "report/export/chrome_export.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "report/write/emit.h"

/*
 * Viewers support thread ids of 32 bits. Larger ones, which fibers have, are replaced by numbers
 * from here on.
 */
#define THREAD_ID_MAX 2000000000u
#define PROCESS "\"pid\":1"

/* The name of an object that events refer to: a part of `texts`. */
struct name {
    size_t at, len;
};

struct chrome {
    struct emit emit;
    struct table_sink sink;
    bool any; /* an event was written */
    struct buf texts;
    VEC(struct name) names;
    struct map locations; /* source location, plot, pool → index in names */
    struct map plots;
    struct map pools;
    struct map threads; /* large ids → replacement numbers */
};

/* ---- parts of events */

static void begin_event(struct chrome *c, const char *head)
{
    emit_text(&c->emit, c->any ? ",\n{" PROCESS ",\"ph\":" : "{" PROCESS ",\"ph\":");
    emit_text(&c->emit, head);
    c->any = true;
}

static int end_event(struct chrome *c, const char *tail, struct err *e)
{
    emit_text(&c->emit, tail);
    return emit_check(&c->emit, e);
}

/* Microseconds with three decimals. */
static void put_time(struct chrome *c, const char *key, int64_t ns)
{
    uint64_t n = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    emit_text(&c->emit, key);
    emit_text(&c->emit, ns < 0 ? "-" : "");
    emit_number(&c->emit, n / 1000);
    buf_put(&c->emit.buf,
            (const char[]){'.', (char)('0' + n / 100 % 10), (char)('0' + n / 10 % 10),
                           (char)('0' + n % 10)},
            4);
}

static int put_thread(struct chrome *c, uint64_t id, struct err *e)
{
    uint64_t shown = id;
    if (id >= THREAD_ID_MAX) {
        bool fresh;
        uint64_t *number = map_add(&c->threads, id, &fresh);
        if (!number)
            return err_no_memory(e, "threads");
        if (fresh)
            *number = THREAD_ID_MAX + c->threads.count;
        shown = *number;
    }
    emit_text(&c->emit, ",\"tid\":");
    emit_number(&c->emit, shown);
    return 0;
}

/* ---- names */

static int keep_name(struct chrome *c, struct map *map, uint64_t key, const struct cell *text,
                     struct err *e)
{
    struct name name = {c->texts.len, text->null ? 0 : text->text.len};
    uint64_t *index = map_add(map, key, NULL);
    if (name.len > 0)
        buf_put(&c->texts, text->text.p, name.len);
    if (!index || c->texts.failed || !vec_push(&c->names, name))
        return err_no_memory(e, "names");
    *index = c->names.len - 1;
    return 0;
}

static struct view name_of(const struct chrome *c, const struct map *map, uint64_t key)
{
    const uint64_t *index = map_find(map, key);
    if (!index || c->names.at[*index].len == 0)
        return view_of("[unknown]");
    const struct name *n = &c->names.at[*index];
    return (struct view){(const char *)c->texts.data + n->at, n->len};
}

/* ---- rows */

static int put_zone(struct chrome *c, const struct cell *z, struct err *e)
{
    struct emit *w = &c->emit;
    uint64_t location = z[ZONE_LOCATION].null ? 0 : (uint64_t)z[ZONE_LOCATION].integer;
    begin_event(c, z[ZONE_END].null ? "\"B\",\"cat\":\"zone\",\"name\":"
                                    : "\"X\",\"cat\":\"zone\",\"name\":");
    emit_json(w, z[ZONE_NAME].null ? name_of(c, &c->locations, location) : z[ZONE_NAME].text);
    if (put_thread(c, z[ZONE_THREAD].count, e) != 0)
        return -1;
    put_time(c, ",\"ts\":", z[ZONE_START].integer);
    if (!z[ZONE_END].null)
        put_time(c, ",\"dur\":", z[ZONE_END].integer - z[ZONE_START].integer);
    if (!z[ZONE_TEXT].null) {
        emit_text(w, ",\"args\":{\"text\":");
        emit_json(w, z[ZONE_TEXT].text);
        emit_text(w, "}");
    }
    return end_event(c, "}", e);
}

static int put_message(struct chrome *c, const struct cell *m, struct err *e)
{
    begin_event(c, "\"i\",\"cat\":\"message\",\"name\":");
    emit_json(&c->emit, m[MESSAGE_TEXT].null ? view_of("") : m[MESSAGE_TEXT].text);
    if (!m[MESSAGE_THREAD].null && put_thread(c, m[MESSAGE_THREAD].count, e) != 0)
        return -1;
    put_time(c, ",\"ts\":", m[MESSAGE_TIME].integer);
    return end_event(c, m[MESSAGE_THREAD].null ? ",\"s\":\"p\"}" : ",\"s\":\"t\"}", e);
}

static int put_point(struct chrome *c, const struct cell *p, struct err *e)
{
    if (p[POINT_VALUE].null)
        return 0;
    begin_event(c, "\"C\",\"cat\":\"plot\",\"name\":");
    emit_json(&c->emit, name_of(c, &c->plots, p[POINT_PLOT].count));
    put_time(c, ",\"ts\":", p[POINT_TIME].integer);
    emit_text(&c->emit, ",\"args\":{\"value\":");
    emit_real(&c->emit, p[POINT_VALUE].real);
    return end_event(c, "}}", e);
}

static int put_counter(struct chrome *c, const struct cell *u, const char *what, unsigned value,
                       struct err *e)
{
    struct buf name = {0};
    struct view pool = name_of(c, &c->pools, u[USAGE_POOL].count);
    buf_puts(&name, what);
    buf_put(&name, pool.p, pool.len);
    begin_event(c, "\"C\",\"cat\":\"memory\",\"name\":");
    emit_json(&c->emit, (struct view){(const char *)name.data, name.len});
    buf_end(&name, &c->emit.buf.failed);
    put_time(c, ",\"ts\":", u[USAGE_TIME].integer);
    emit_text(&c->emit, ",\"args\":{\"value\":");
    emit_number(&c->emit, u[value].count);
    return end_event(c, "}}", e);
}

static int put_usage(struct chrome *c, const struct cell *u, struct err *e)
{
    if (put_counter(c, u, "live bytes: ", USAGE_BYTES, e) != 0)
        return -1;
    return put_counter(c, u, "live allocations: ", USAGE_ALLOCATIONS, e);
}

/* Each frame set is shown as a separate thread. */
static uint64_t thread_of_set(uint64_t set)
{
    return UINT64_MAX - set;
}

static int put_mark(struct chrome *c, const struct cell *m, struct err *e)
{
    begin_event(c, m[MARK_END].null ? "\"B\",\"cat\":\"frame\",\"name\":\"frame "
                                    : "\"X\",\"cat\":\"frame\",\"name\":\"frame ");
    emit_number(&c->emit, m[MARK_NUMBER].count);
    emit_text(&c->emit, "\"");
    if (put_thread(c, thread_of_set(m[MARK_SET].count), e) != 0)
        return -1;
    put_time(c, ",\"ts\":", m[MARK_START].integer);
    if (!m[MARK_END].null)
        put_time(c, ",\"dur\":", m[MARK_END].integer - m[MARK_START].integer);
    return end_event(c, "}", e);
}

static int put_thread_name(struct chrome *c, uint64_t id, const struct cell *name, struct err *e)
{
    if (name->null)
        return 0;
    begin_event(c, "\"M\",\"name\":\"thread_name\"");
    if (put_thread(c, id, e) != 0)
        return -1;
    emit_text(&c->emit, ",\"args\":{\"name\":");
    emit_json(&c->emit, name->text);
    return end_event(c, "}}", e);
}

static int put_fact(struct chrome *c, const struct cell *f, struct err *e)
{
    if (!view_equal(f[FACT_KEY].text, view_of("program")))
        return 0;
    begin_event(c, "\"M\",\"name\":\"process_name\",\"args\":{\"name\":");
    emit_json(&c->emit, f[FACT_VALUE].text);
    return end_event(c, "}}", e);
}

/* A zone with neither name nor location gets its function's name. */
static int keep_location(struct chrome *c, const struct cell *l, struct err *e)
{
    const struct cell *name = l[LOCATION_NAME].null ? &l[LOCATION_FUNCTION] : &l[LOCATION_NAME];
    return keep_name(c, &c->locations, (uint64_t)l[LOCATION_ID].integer, name, e);
}

static int put_row(void *ctx, enum table_id table, const struct cell *cells, struct err *e)
{
    struct chrome *c = ctx;
    switch (table) {
    case TABLE_OF_FACTS:
        return put_fact(c, cells, e);
    case TABLE_OF_THREADS:
        return put_thread_name(c, cells[THREAD_ID].count, &cells[THREAD_NAME], e);
    case TABLE_OF_SOURCE_LOCATIONS:
        return keep_location(c, cells, e);
    case TABLE_OF_ZONES:
        return put_zone(c, cells, e);
    case TABLE_OF_MESSAGES:
        return put_message(c, cells, e);
    case TABLE_OF_PLOTS:
        return keep_name(c, &c->plots, cells[PLOT_ID].count, &cells[PLOT_NAME], e);
    case TABLE_OF_PLOT_POINTS:
        return put_point(c, cells, e);
    case TABLE_OF_FRAME_SETS:
        return put_thread_name(c, thread_of_set(cells[FRAME_SET_ID].count), &cells[FRAME_SET_NAME],
                               e);
    case TABLE_OF_FRAME_MARKS:
        return put_mark(c, cells, e);
    case TABLE_OF_POOLS:
        return keep_name(c, &c->pools, cells[POOL_ID].count, &cells[POOL_NAME], e);
    case TABLE_OF_USAGE:
        return put_usage(c, cells, e);
    default:
        return 0;
    }
}

/* ---- entry points */

struct chrome *chrome_open(FILE *out, uint64_t points, struct err *e)
{
    static const enum table_id wanted[] = {
        TABLE_OF_FACTS,       TABLE_OF_THREADS,    TABLE_OF_SOURCE_LOCATIONS,
        TABLE_OF_ZONES,       TABLE_OF_MESSAGES,   TABLE_OF_PLOTS,
        TABLE_OF_PLOT_POINTS, TABLE_OF_FRAME_SETS, TABLE_OF_FRAME_MARKS,
        TABLE_OF_POOLS,       TABLE_OF_USAGE};
    struct chrome *c = calloc(1, sizeof *c);
    if (!c) {
        err_no_memory(e, "a trace");
        return NULL;
    }
    c->emit = (struct emit){.out = out, .what = "a trace"};
    c->sink = (struct table_sink){.ctx = c, .row = put_row, .points = points};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        c->sink.wanted[wanted[i]] = true;
    emit_text(&c->emit, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    return c;
}

void chrome_free(struct chrome *c)
{
    if (!c)
        return;
    emit_release(&c->emit);
    buf_release(&c->texts);
    vec_release(&c->names);
    map_release(&c->locations);
    map_release(&c->plots);
    map_release(&c->pools);
    map_release(&c->threads);
    free(c);
}

struct table_sink chrome_sink(struct chrome *c)
{
    return c->sink;
}

int chrome_finish(struct chrome *c, struct err *e)
{
    emit_text(&c->emit, "\n]}\n");
    return emit_finish(&c->emit, e);
}
