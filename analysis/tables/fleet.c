#include "analysis/tables/fleet.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/tables/table_cells.h"
#include "trace/file/file_version.h"
#include "trace/ingest/carry.h"

/* ---- the tables */

#define COLUMN(ENUMERATOR, NAME, TYPE, NULLABLE) {NAME, CELL_##TYPE, NULLABLE},
#define FLEET_COLUMNS(ENUMERATOR, COLUMNS, NAME)                                                   \
    static const struct table_column columns_of_##ENUMERATOR[] = {FLEET_KEY(COLUMN)                \
                                                                      COLUMNS(COLUMN)};            \
    _Static_assert(sizeof columns_of_##ENUMERATOR / sizeof *columns_of_##ENUMERATOR <=             \
                       TABLE_WIDTH_MAX,                                                            \
                   NAME);
#define COPIED_COLUMNS(ENUMERATOR, COLUMNS, NAME, KEY) FLEET_COLUMNS(ENUMERATOR, COLUMNS, NAME)
FLEET_OWN_TABLES(FLEET_COLUMNS)
TABLES(COPIED_COLUMNS)
#undef COLUMN

#define WIDTH(ENUMERATOR)                                                                          \
    (unsigned)(sizeof columns_of_##ENUMERATOR / sizeof *columns_of_##ENUMERATOR)

/* Offsets of the tables of tables.h. */
enum {
#define TABLE(ENUMERATOR, COLUMNS, NAME, KEY)                                                      \
    FLEET_##ENUMERATOR = FLEET_TABLES_OF_ALL + (ENUMERATOR),
    TABLES(TABLE)
#undef TABLE
};

static const struct table tables[FLEET_TABLE_COUNT] = {
#define FLEET_TABLE(ENUMERATOR, COLUMNS, NAME)                                                     \
    [ENUMERATOR] = {NAME, columns_of_##ENUMERATOR, WIDTH(ENUMERATOR), FLEET_KEY_WIDTH},
    FLEET_OWN_TABLES(FLEET_TABLE)
#undef FLEET_TABLE
#define TABLE(ENUMERATOR, COLUMNS, NAME, KEY)                                                      \
    [FLEET_##ENUMERATOR] = {NAME, columns_of_##ENUMERATOR, WIDTH(ENUMERATOR), FLEET_KEY_WIDTH},
        TABLES(TABLE)
#undef TABLE
};

const struct table *fleet_table(unsigned id)
{
    return &tables[id];
}

bool fleet_table_find(const char *name, unsigned *id)
{
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++) {
        if (strcmp(tables[i].name, name) == 0) {
            *id = i;
            return true;
        }
    }
    return false;
}

bool fleet_table_is_usual(unsigned id)
{
    static const bool usual[TABLE_COUNT] = {
        [TABLE_OF_FACTS] = true,       [TABLE_OF_THREADS] = true,
        [TABLE_OF_POOLS] = true,       [TABLE_OF_USAGE] = true,
        [TABLE_OF_ALLOCATIONS] = true, [TABLE_OF_TOTALS] = true,
        [TABLE_OF_RESIDENT] = true,    [TABLE_OF_SITES] = true,
        [TABLE_OF_CALLSTACKS] = true,  [TABLE_OF_CALLSTACK_FRAMES] = true,
        [TABLE_OF_FRAMES] = true,      [TABLE_OF_FRAME_FUNCTIONS] = true,
    };
    return id < FLEET_TABLES_OF_ALL || usual[id - FLEET_TABLES_OF_ALL];
}

/* ---- pending rows */

/* A text in `kept`. */
struct place {
    size_t at, len;
    bool null;
};

struct kept_site {
    struct place name, function, file, image;
    struct cell line;
};

/* Figures of a call stack in a pool, later of a site in a pool. */
struct kept_totals {
    uint64_t pool;      /* row of `pools` */
    uint64_t callstack; /* 0: none */
    uint64_t figures[FLEET_SITE_TOTALS_WIDTH - FLEET_SITE_ALLOCATIONS];
};

struct fleet {
    const struct tables_source *source;
    const struct fleet_sink *sink;
    struct fleet_trace *trace;
    const struct trace *t; /* while it exists */
    bool begun;
    uint64_t rows[FLEET_TABLE_COUNT];
    struct buf kept;
    VEC(struct place) pools;         /* names */
    VEC(struct kept_site) sites;     /* by row */
    VEC(uint64_t) site_of_callstack; /* rows of sites */
    VEC(struct kept_totals) totals;
    struct cell traces[FLEET_TRACES_WIDTH]; /* the trace's own row; its texts in `kept` */
    struct place program, host, version;
};

#define LAST_SECOND UINT64_C(253402300799) /* of the year 9999 */

static struct place keep(struct fleet *f, const struct cell *c)
{
    struct place p = {f->kept.len, c->null ? 0 : c->text.len, c->null};
    if (!c->null)
        buf_put(&f->kept, c->text.p, c->text.len);
    return p;
}

static struct cell kept_cell(const struct fleet *f, const struct place *p)
{
    struct view text = {p->len ? (const char *)f->kept.data + p->at : "", p->len};
    return p->null ? cell_none() : cell_text(text);
}

/* The header comes before all rows, so the time of capture is known. */
static void begin(struct fleet *f)
{
    uint64_t captured = f->t->facts.capture_time;
    time_t at = (time_t)captured;
    struct tm day;
    f->begun = true;
    if (captured > LAST_SECOND || !gmtime_r(&at, &day) ||
        strftime(f->trace->day, sizeof f->trace->day, "%Y-%m-%d", &day) == 0)
        memcpy(f->trace->day, "1970-01-01", sizeof f->trace->day);
}

/* `cells` must have room for the key at its start. */
static int put(struct fleet *f, unsigned table, struct cell *cells, struct err *e)
{
    if (!f->begun)
        begin(f);
    cells[FLEET_TRACE] = cell_text(view_of(f->trace->id));
    cells[FLEET_ROW] = cell_count(++f->rows[table]);
    return f->sink->row(f->sink->ctx, f->trace, table, cells, e);
}

/* ---- sites with their names */

static bool keep_totals(struct fleet *f, const struct cell *cells)
{
    static const unsigned from[] = {
        TOTALS_ALLOCATIONS, TOTALS_TOTAL_BYTES,         TOTALS_LIVE_ALLOCATIONS,
        TOTALS_LIVE_BYTES,  TOTALS_AT_PEAK_ALLOCATIONS, TOTALS_AT_PEAK_BYTES,
        TOTALS_TEMPORARY};
    struct kept_totals k = {.pool = cells[TOTALS_POOL].count,
                            .callstack =
                                cells[TOTALS_CALLSTACK].null ? 0 : cells[TOTALS_CALLSTACK].count};
    _Static_assert(sizeof k.figures / sizeof *k.figures == sizeof from / sizeof *from, "figures");
    for (unsigned i = 0; i < sizeof from / sizeof *from; i++)
        k.figures[i] = cells[from[i]].count;
    return vec_push(&f->totals, k);
}

static bool keep_site(struct fleet *f, const struct cell *cells)
{
    struct kept_site s = {.name = keep(f, &cells[SITE_NAME]),
                          .function = keep(f, &cells[SITE_FUNCTION]),
                          .file = keep(f, &cells[SITE_FILE]),
                          .image = keep(f, &cells[SITE_IMAGE]),
                          .line = cells[SITE_LINE]};
    return vec_push(&f->sites, s);
}

static int keep_row(struct fleet *f, enum table_id table, const struct cell *cells, struct err *e)
{
    bool kept = true;
    if (table == TABLE_OF_POOLS)
        kept = vec_push(&f->pools, keep(f, &cells[POOL_NAME]));
    else if (table == TABLE_OF_TOTALS)
        kept = keep_totals(f, cells);
    else if (table == TABLE_OF_SITES)
        kept = keep_site(f, cells);
    else if (table == TABLE_OF_CALLSTACKS)
        kept = vec_push(&f->site_of_callstack, cells[CALLSTACK_SITE].count);
    return kept && !f->kept.failed ? 0 : err_no_memory(e, "sites");
}

/* Row 1 of sites is that of allocations without a call stack. */
static uint64_t site_of(const struct fleet *f, uint64_t callstack)
{
    return callstack ? f->site_of_callstack.at[callstack - 1] : 1;
}

/* Adds up the rows of one site and pool; pools have few digits, sites 32 bits. */
static int join_totals(struct fleet *f, struct err *e)
{
    struct map rows = {0};
    size_t joined = 0;
    int status = 0;
    for (size_t i = 0; i < f->totals.len && status == 0; i++) {
        struct kept_totals *k = &f->totals.at[i];
        bool fresh;
        uint64_t *at = map_add(&rows, k->pool << 32 | site_of(f, k->callstack), &fresh);
        if (!at) {
            status = err_no_memory(e, "sites");
        } else if (fresh) {
            *at = joined;
            f->totals.at[joined++] = *k;
        } else {
            struct kept_totals *sum = &f->totals.at[*at];
            for (unsigned n = 0; n < sizeof k->figures / sizeof *k->figures; n++)
                sum->figures[n] += k->figures[n];
        }
    }
    f->totals.len = joined;
    map_release(&rows);
    return status;
}

static int put_site_totals(struct fleet *f, struct err *e)
{
    struct cell cells[FLEET_SITE_TOTALS_WIDTH];
    if (join_totals(f, e) != 0)
        return -1;
    for (size_t i = 0; i < f->totals.len; i++) {
        const struct kept_totals *k = &f->totals.at[i];
        const struct kept_site *s = &f->sites.at[site_of(f, k->callstack) - 1];
        cells[FLEET_SITE_POOL] = kept_cell(f, &f->pools.at[k->pool - 1]);
        cells[FLEET_SITE_NAME] = kept_cell(f, &s->name);
        cells[FLEET_SITE_FUNCTION] = kept_cell(f, &s->function);
        cells[FLEET_SITE_FILE] = kept_cell(f, &s->file);
        cells[FLEET_SITE_LINE] = s->line;
        cells[FLEET_SITE_IMAGE] = kept_cell(f, &s->image);
        for (unsigned n = 0; n < sizeof k->figures / sizeof *k->figures; n++)
            cells[FLEET_SITE_ALLOCATIONS + n] = cell_count(k->figures[n]);
        if (put(f, FLEET_TABLE_SITE_TOTALS, cells, e) != 0)
            return -1;
    }
    return 0;
}

/* ---- the trace itself */

/* The store no longer exists when the trace's row is put. */
static int keep_trace(struct fleet *f, struct err *e)
{
    const struct trace *t = f->t;
    const struct trace_facts *facts = &t->facts;
    char text[FILE_VERSION_TEXT_SIZE];
    struct cell *c = f->traces;
    struct cell program = cell_text(strings_get(&t->strings, facts->program));
    struct cell host = cell_nonempty(strings_get(&t->strings, facts->host_info));
    struct cell version = cell_text(view_of(file_version_text(facts->file_version, text)));
    bool continued = view_equal(trace_fact(t, "end", 0), view_of(PART_CONTINUED));
    f->program = keep(f, &program);
    f->host = keep(f, &host);
    f->version = keep(f, &version);
    c[FLEET_TRACES_SCHEMA] = cell_text(view_of(FLEET_SCHEMA));
    c[FLEET_TRACES_FILE] = cell_text(view_of(f->trace->file));
    c[FLEET_TRACES_FILE_BYTES] = cell_count(f->trace->file_bytes);
    c[FLEET_TRACES_PID] = cell_nonzero(facts->pid);
    c[FLEET_TRACES_CAPTURED] = cell_integer((int64_t)facts->capture_time);
    c[FLEET_TRACES_DURATION] = cell_integer(facts->last_time);
    c[FLEET_TRACES_COMPLETE] = cell_bool(!continued && !trace_fact(t, "incomplete", 0).p);
    return f->kept.failed ? err_no_memory(e, "facts") : 0;
}

static int put_trace(struct fleet *f, struct err *e)
{
    struct cell *c = f->traces;
    c[FLEET_TRACES_FILE_VERSION] = kept_cell(f, &f->version);
    c[FLEET_TRACES_PROGRAM] = kept_cell(f, &f->program);
    c[FLEET_TRACES_HOST] = kept_cell(f, &f->host);
    return put(f, FLEET_TABLE_TRACES, c, e);
}

static int put_labels(struct fleet *f, struct err *e)
{
    struct cell cells[FLEET_LABELS_WIDTH];
    for (size_t i = 0; i < f->trace->label_count; i++) {
        cells[FLEET_LABELS_NAME] = cell_text(view_of(f->trace->labels[i].name));
        cells[FLEET_LABELS_VALUE] = cell_text(view_of(f->trace->labels[i].value));
        if (put(f, FLEET_TABLE_LABELS, cells, e) != 0)
            return -1;
    }
    return 0;
}

/* ---- all of them */

static int load(void *ctx, struct trace *t, const struct trace_load_options *options, struct err *e)
{
    struct fleet *f = ctx;
    f->t = t;
    if (f->source->load(f->source->ctx, t, options, e) != 0)
        return -1;
    if (!f->begun)
        begin(f);
    return keep_trace(f, e);
}

static int take_row(void *ctx, enum table_id table, const struct cell *cells, struct err *e)
{
    struct fleet *f = ctx;
    struct cell with_key[TABLE_WIDTH_MAX];
    if (f->sink->wanted[FLEET_TABLE_SITE_TOTALS] && keep_row(f, table, cells, e) != 0)
        return -1;
    if (!f->sink->wanted[FLEET_TABLES_OF_ALL + table])
        return 0;
    memcpy(with_key + FLEET_KEY_WIDTH, cells, table_get(table)->width * sizeof *cells);
    return put(f, FLEET_TABLES_OF_ALL + table, with_key, e);
}

static int put_rows(struct fleet *f, struct err *e)
{
    const struct tables_source source = {f, load, f->source->resident_budget};
    struct table_sink sink = {
        .ctx = f, .row = take_row, .points = f->sink->points, .only = f->sink->only};
    memcpy(sink.wanted, f->sink->wanted + FLEET_TABLES_OF_ALL, sizeof sink.wanted);
    if (f->sink->wanted[FLEET_TABLE_SITE_TOTALS])
        sink.wanted[TABLE_OF_POOLS] = sink.wanted[TABLE_OF_TOTALS] = sink.wanted[TABLE_OF_SITES] =
            sink.wanted[TABLE_OF_CALLSTACKS] = true;
    return tables_export(&source, &sink, NULL, e);
}

int fleet_export(const struct tables_source *source, struct fleet_trace *trace,
                 const struct fleet_sink *sink, struct err *e)
{
    struct fleet f = {.source = source, .sink = sink, .trace = trace};
    int status = put_rows(&f, e);
    if (status == 0 && sink->wanted[FLEET_TABLE_SITE_TOTALS])
        status = put_site_totals(&f, e);
    if (status == 0 && sink->wanted[FLEET_TABLE_LABELS])
        status = put_labels(&f, e);
    if (status == 0)
        status = put_trace(&f, e);
    vec_release(&f.totals);
    vec_release(&f.site_of_callstack);
    vec_release(&f.sites);
    vec_release(&f.pools);
    buf_release(&f.kept);
    return status;
}
