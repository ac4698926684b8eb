/*
 * Rows of a fleet made from seeds, without traces: what `tidemark push` would add of the tables
 * that the questions of examples/fleet read. The same N gives the same rows.
 *
 *     fleet_rows SINK N [SITES]
 *
 * SINK is files=FOLDER, with a file for each table and day as `push --compact` leaves them, or
 * clickhouse=URL. N traces of a renderer, 1000 a day, in 20 builds that follow each other and on
 * three kinds of hosts; SITES (16) allocation sites of each. From build-13 on decode_texture keeps
 * three times as much, and on hosts with an l40 build_mesh leaks.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "analysis/tables/table_cells.h"
#include "base/print_error.h"
#include "server/sinks/push.h"
#include "server/sinks/table_output.h"

#define BUILDS 20u
#define RAISED_BY 13u
#define DAY_TRACES 1000u
#define DAY_SECONDS 86400
#define FIRST_DAY INT64_C(20454) /* 2026-01-01 */
#define LEAKING 2u               /* host */

enum { DECODE = 1, MESH = 2 };
static const char *const hosts[] = {"a100", "h100", "l40"};
static const char *const functions[] = {"parse_scene", "decode_texture", "build_mesh", "main"};

struct texts {
    char id[33], file[32], build[24], function[32], source[32];
};

struct made {
    struct push_sink sink;
    const char *folder; /* NULL: into the sink */
    struct table_output tables[FLEET_TABLE_COUNT];
    struct fleet_trace trace;
    uint64_t rows[FLEET_TABLE_COUNT];
    uint64_t all;
    unsigned pools;
};

static uint64_t chance(uint64_t seed)
{
    seed = (seed ^ seed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    seed = (seed ^ seed >> 27) * UINT64_C(0x94d049bb133111eb);
    return seed ^ seed >> 31;
}

static int open_day(struct made *m, unsigned table, struct err *e)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", m->folder, fleet_table(table)->name);
    (void)mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/day=%s", m->folder, fleet_table(table)->name, m->trace.day);
    (void)mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/day=%s/part-0.parquet", m->folder, fleet_table(table)->name,
             m->trace.day);
    return table_output_open(&m->tables[table], path, fleet_table(table), e);
}

static int put(struct made *m, unsigned table, struct cell *cells, struct err *e)
{
    cells[FLEET_TRACE] = cell_text(view_of(m->trace.id));
    cells[FLEET_ROW] = cell_count(++m->rows[table]);
    m->all++;
    if (!m->folder)
        return m->sink.row(m->sink.ctx, &m->trace, table, cells, e);
    if (!m->tables[table].rows && open_day(m, table, e) != 0)
        return -1;
    return parquet_row(m->tables[table].rows, cells, e);
}

static int end_day(struct made *m, struct err *e)
{
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++) {
        struct table_output *o = &m->tables[i];
        if (o->rows && (table_output_finish(o, e) != 0 || outfile_commit(&o->file, e) != 0))
            return -1;
        table_output_drop(o);
    }
    return 0;
}

static int put_label(struct made *m, const char *name, const char *value, struct err *e)
{
    struct cell cells[FLEET_LABELS_WIDTH];
    cells[FLEET_LABELS_NAME] = cell_text(view_of(name));
    cells[FLEET_LABELS_VALUE] = cell_text(view_of(value));
    return put(m, FLEET_TABLE_LABELS, cells, e);
}

/* The site's bytes at the peak; *live: those that stay. */
static uint64_t put_site(struct made *m, struct texts *t, unsigned site, unsigned build,
                         unsigned host, uint64_t seed, struct err *e)
{
    static const unsigned few = sizeof functions / sizeof *functions;
    struct cell cells[FLEET_SITE_TOTALS_WIDTH];
    uint64_t peak = 4096 * (1 + site % 7) + chance(seed + site) % 1024;
    uint64_t count = 40 + chance(seed + site + 100) % 400;
    uint64_t live = chance(seed + site + 200) % 8;
    if (site == DECODE)
        peak += 65536 * (build >= RAISED_BY ? 3 : 1);
    if (site == MESH && host == LEAKING)
        live += 200;
    snprintf(t->function, sizeof t->function, site < few ? "%s" : "%s_%u", functions[site % few],
             site);
    snprintf(t->source, sizeof t->source, "%.24s.cpp", t->function);
    cells[FLEET_SITE_POOL] = cell_text(view_of("default"));
    cells[FLEET_SITE_NAME] = cell_text(view_of(t->function));
    cells[FLEET_SITE_FUNCTION] = cell_text(view_of(t->function));
    cells[FLEET_SITE_FILE] = cell_text(view_of(t->source));
    cells[FLEET_SITE_LINE] = cell_count(site + 1);
    cells[FLEET_SITE_IMAGE] = cell_text(view_of("renderer"));
    cells[FLEET_SITE_ALLOCATIONS] = cell_count(count);
    cells[FLEET_SITE_TOTAL_BYTES] = cell_count(count * 512 + peak);
    cells[FLEET_SITE_LIVE_ALLOCATIONS] = cell_count(live);
    cells[FLEET_SITE_LIVE_BYTES] = cell_count(live * 512);
    cells[FLEET_SITE_AT_PEAK_ALLOCATIONS] = cell_count(peak / 512);
    cells[FLEET_SITE_AT_PEAK_BYTES] = cell_count(peak);
    cells[FLEET_SITE_TEMPORARY] = cell_count(chance(seed + site + 300) % 20);
    return put(m, FLEET_TABLE_SITE_TOTALS, cells, e) == 0 ? peak : 0;
}

static int put_pool(struct made *m, uint64_t peak, uint64_t seed, struct err *e)
{
    struct cell cells[TABLE_WIDTH_MAX];
    const struct table *t = fleet_table(m->pools);
    for (unsigned i = FLEET_KEY_WIDTH; i < t->width; i++)
        cells[i] = cell_count(chance(seed + i) % 10000);
    for (unsigned i = FLEET_KEY_WIDTH; i < t->width; i++) {
        if (strcmp(t->columns[i].name, "name") == 0)
            cells[i] = cell_text(view_of("default"));
        else if (strcmp(t->columns[i].name, "peak_bytes") == 0)
            cells[i] = cell_count(peak);
    }
    return put(m, m->pools, cells, e);
}

static int put_trace(struct made *m, const struct texts *t, int64_t captured, uint64_t seed,
                     struct err *e)
{
    struct cell cells[FLEET_TRACES_WIDTH];
    cells[FLEET_TRACES_SCHEMA] = cell_text(view_of(FLEET_SCHEMA));
    cells[FLEET_TRACES_FILE] = cell_text(view_of(t->file));
    cells[FLEET_TRACES_FILE_BYTES] = cell_count(20000 + chance(seed) % 20000);
    cells[FLEET_TRACES_FILE_VERSION] = cell_text(view_of("0.14.0"));
    cells[FLEET_TRACES_PROGRAM] = cell_text(view_of("renderer"));
    cells[FLEET_TRACES_HOST] = cell_none();
    cells[FLEET_TRACES_PID] = cell_count(chance(seed + 1) % 100000);
    cells[FLEET_TRACES_CAPTURED] = cell_integer(captured);
    cells[FLEET_TRACES_DURATION] = cell_integer((int64_t)(chance(seed + 2) % 1000000000));
    cells[FLEET_TRACES_COMPLETE] = cell_bool(true);
    return put(m, FLEET_TABLE_TRACES, cells, e);
}

static int make_trace(struct made *m, unsigned number, unsigned of, unsigned sites, struct err *e)
{
    struct texts t;
    uint64_t seed = chance(number + 1);
    unsigned build = (unsigned)((uint64_t)number * BUILDS / of);
    unsigned host = (unsigned)(seed % (sizeof hosts / sizeof *hosts));
    uint64_t peak = 0;
    time_t captured =
        (FIRST_DAY + number / DAY_TRACES) * DAY_SECONDS + (time_t)(number % DAY_TRACES) * 80;
    struct tm day;
    snprintf(t.id, sizeof t.id, "%016llx%016llx", (unsigned long long)seed,
             (unsigned long long)chance(~(uint64_t)number));
    snprintf(t.file, sizeof t.file, "%u.tracy", number);
    snprintf(t.build, sizeof t.build, "build-%02u", build);
    m->trace = (struct fleet_trace){.id = t.id, .file = t.file};
    (void)strftime(m->trace.day, sizeof m->trace.day, "%Y-%m-%d", gmtime_r(&captured, &day));
    memset(m->rows, 0, sizeof m->rows);
    for (unsigned site = 0; site < sites; site++) {
        uint64_t bytes = put_site(m, &t, site, build, host, seed, e);
        if (bytes == 0)
            return -1;
        peak += bytes;
    }
    if (put_pool(m, peak, seed, e) != 0 || put_label(m, "build", t.build, e) != 0 ||
        put_label(m, "host", hosts[host], e) != 0 || put_trace(m, &t, captured, seed, e) != 0)
        return -1;
    if (!m->folder)
        return m->sink.end(m->sink.ctx, e);
    return number % DAY_TRACES == DAY_TRACES - 1 ? end_day(m, e) : 0;
}

static int make_all(struct made *m, const char *url, unsigned n, unsigned sites, struct err *e)
{
    const bool wanted[FLEET_TABLE_COUNT] = {[FLEET_TABLE_TRACES] = true,
                                            [FLEET_TABLE_LABELS] = true,
                                            [FLEET_TABLE_SITE_TOTALS] = true,
                                            [FLEET_TABLES_OF_ALL + TABLE_OF_POOLS] = true};
    m->pools = FLEET_TABLES_OF_ALL + TABLE_OF_POOLS;
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++)
        m->tables[i] = (struct table_output)TABLE_OUTPUT_NONE;
    if (m->folder)
        (void)mkdir(m->folder, 0777);
    else if (push_clickhouse_open(&m->sink, url, true, wanted, e) != 0)
        return -1;
    int status = 0;
    for (unsigned i = 0; i < n && status == 0; i++)
        status = make_trace(m, i, n, sites, e);
    if (status == 0)
        status = m->folder ? end_day(m, e) : m->sink.finish(m->sink.ctx, e);
    if (!m->folder)
        m->sink.close(m->sink.ctx);
    return status;
}

int main(int argc, char **argv)
{
    static struct made m;
    const char *place = argc > 2 ? strchr(argv[1], '=') : NULL;
    struct err e = {0};
    unsigned long n = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    unsigned long sites = argc > 3 ? strtoul(argv[3], NULL, 10) : 16;
    bool files = place && strncmp(argv[1], "files=", 6) == 0;
    if (n < 1 || n > 100000000 || sites < 1 || sites > 10000 ||
        (!files && strncmp(argv[1], "clickhouse=", 11) != 0)) {
        fputs("usage: fleet_rows SINK N [SITES]\n", stderr);
        return 2;
    }
    m.folder = files ? place + 1 : NULL;
    if (make_all(&m, place + 1, (unsigned)n, (unsigned)sites, &e) != 0) {
        print_error(&e);
        return 1;
    }
    printf("%lu traces, %llu rows\n", n, (unsigned long long)m.all);
    return 0;
}
