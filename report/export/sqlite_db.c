#include "report/export/sqlite_db.h"

#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "report/export/sqlite_file.h"

/* Rows are inserted this many at a time: a statement costs as much as two rows. */
#define BATCH 64u
#define TEXTS_MOST ((size_t)1 << 20) /* bytes; a batch with longer texts ends early */

/* The rows of a table that wait to be inserted. */
struct row_batch {
    sqlite3_stmt *insert; /* of BATCH rows; NULL until needed */
    struct cell *cells;   /* of each text only its length */
    unsigned rows;
    struct buf texts; /* in the order of the cells */
    uint64_t count;   /* all rows of the table */
    bool renumbered;  /* the ids are not 1, 2, 3, …, which SQLite makes by itself, in less time */
};

struct sqlite_db {
    struct sqlite_file file;
    sqlite3 *db; /* NULL when closed */
    struct row_batch batches[TABLE_COUNT];
};

static const char before[] = "PRAGMA page_size = 8192;"
                             "PRAGMA journal_mode = OFF;"
                             "PRAGMA synchronous = OFF;"
                             "PRAGMA locking_mode = EXCLUSIVE;"
                             "PRAGMA cache_size = -65536;"
                             "PRAGMA encoding = 'UTF-8';"
                             "PRAGMA user_version = 1;"
                             "BEGIN;";

/*
 * The cache is also the size of the runs that SQLite sorts for an index: it merges linked lists,
 * which is fast only while they fit into the processor's cache. An index of all allocations costs
 * as much as the rows themselves, and more than several queries without it.
 */
static const char small_cache[] = "PRAGMA cache_size = -2048;";

/* Steps of SQLite's virtual machine for each row of a table, about, to make an index. */
#define STEPS_A_ROW 10u
#define STEPS_PARTIAL 3u /* if the index has few of the rows */
#define STEPS_A_TICK 4096

static const struct table_index {
    enum table_id table;
    unsigned steps;
    const char *sql;
} indices[] = {
    {TABLE_OF_USAGE, STEPS_A_ROW, "CREATE INDEX pool_usage_by_time ON pool_usage(pool, time_ns)"},
    {TABLE_OF_ALLOCATIONS, STEPS_PARTIAL,
     "CREATE INDEX allocations_live ON allocations(alloc_callstack, size) WHERE free_ns IS NULL"},
    {TABLE_OF_TOTALS, STEPS_A_ROW,
     "CREATE INDEX callstack_totals_by_callstack ON callstack_totals(callstack)"},
    {TABLE_OF_CALLSTACKS, STEPS_A_ROW, "CREATE INDEX callstacks_by_site ON callstacks(site)"},
    {TABLE_OF_CALLSTACK_FRAMES, STEPS_A_ROW,
     "CREATE INDEX callstack_frames_by_frame ON callstack_frames(frame)"},
    {TABLE_OF_FRAME_FUNCTIONS, STEPS_A_ROW,
     "CREATE INDEX frame_functions_by_name ON frame_functions(name)"},
    {TABLE_OF_ZONES, STEPS_A_ROW, "CREATE INDEX zones_by_thread ON zones(thread, start_ns)"},
    {TABLE_OF_ZONES, STEPS_A_ROW, "CREATE INDEX zones_by_location ON zones(source_location)"},
    {TABLE_OF_GPU_ZONES, STEPS_A_ROW,
     "CREATE INDEX gpu_zones_by_context ON gpu_zones(context, gpu_start_ns)"},
    {TABLE_OF_LOCK_EVENTS, STEPS_A_ROW,
     "CREATE INDEX lock_events_by_time ON lock_events(lock, time_ns)"},
    {TABLE_OF_SAMPLES, STEPS_A_ROW, "CREATE INDEX samples_by_thread ON samples(thread, time_ns)"},
    {TABLE_OF_MESSAGES, STEPS_A_ROW, "CREATE INDEX messages_by_time ON messages(time_ns)"},
    {TABLE_OF_PLOT_POINTS, STEPS_A_ROW,
     "CREATE INDEX plot_points_by_time ON plot_points(plot, time_ns)"},
};

static const char views[] =
    /* One row for each allocation not freed at the end. */
    "CREATE VIEW live_allocations AS SELECT * FROM allocations WHERE free_ns IS NULL;"
    /* Allocations with names. */
    "CREATE VIEW named_allocations AS SELECT a.id, p.name AS pool,"
    " printf('0x%x', a.address) AS address, a.size, a.alloc_ns, a.free_ns,"
    " a.free_ns - a.alloc_ns AS lifetime_ns, coalesce(t.name, a.alloc_thread) AS alloc_thread,"
    " coalesce(u.name, a.free_thread) AS free_thread,"
    " coalesce(s.name, '[no call stack]') AS site, s.file, s.line, a.alloc_callstack"
    " FROM allocations a JOIN pools p ON p.id = a.pool"
    " LEFT JOIN threads t ON t.id = a.alloc_thread LEFT JOIN threads u ON u.id = a.free_thread"
    " LEFT JOIN callstacks c ON c.id = a.alloc_callstack LEFT JOIN sites s ON s.id = c.site;"
    /* The rows of `tidemark report`. */
    "CREATE VIEW site_totals AS SELECT p.name AS pool,"
    " coalesce(s.name, '[no call stack]') AS site, s.file, s.line, s.image,"
    " sum(t.allocations) AS allocations, sum(t.total_bytes) AS total_bytes,"
    " sum(t.live_allocations) AS live_allocations, sum(t.live_bytes) AS live_bytes,"
    " sum(t.at_peak_allocations) AS at_peak_allocations,"
    " sum(t.at_peak_bytes) AS at_peak_bytes,"
    " sum(t.temporary_allocations) AS temporary_allocations,"
    " sum(t.temporary_bytes) AS temporary_bytes"
    " FROM callstack_totals t JOIN pools p ON p.id = t.pool"
    " LEFT JOIN callstacks c ON c.id = t.callstack LEFT JOIN sites s ON s.id = c.site"
    " GROUP BY t.pool, c.site;"
    /* Call stacks, one row per function. */
    "CREATE VIEW callstack_functions AS SELECT c.callstack, c.position,"
    " f.position AS inline_position, f.name, f.function, f.file, f.line, f.inlined,"
    " a.image, printf('0x%x', a.address) AS address"
    " FROM callstack_frames c JOIN frames a ON a.id = c.frame"
    " JOIN frame_functions f ON f.frame = c.frame;"
    /* Zones with names. */
    "CREATE VIEW named_zones AS SELECT z.id, coalesce(z.name, l.name, l.function) AS name,"
    " z.text, coalesce(t.name, z.thread) AS thread, l.function, l.file, l.line, z.depth,"
    " z.parent, z.start_ns, z.end_ns, z.end_ns - z.start_ns AS duration_ns"
    " FROM zones z LEFT JOIN source_locations l ON l.id = z.source_location"
    " LEFT JOIN threads t ON t.id = z.thread;";

static const char after[] = "COMMIT; PRAGMA analysis_limit = 1000; ANALYZE;";

static int execute(struct sqlite_db *d, const char *sql, struct err *e)
{
    return sqlite3_exec(d->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0
                                                                   : sqlite_file_failed(d->db, e);
}

/* ---- tables */

static const char *type_name(enum cell_type type)
{
    return type == CELL_TEXT ? "TEXT" : type == CELL_REAL ? "REAL" : "INTEGER";
}

/* A key of one whole number becomes the rowid; a key of two columns orders the table. */
static void put_definition(struct buf *b, const struct table *t)
{
    buf_printf(b, "CREATE TABLE %s (", t->name);
    for (unsigned i = 0; i < t->width; i++) {
        const struct table_column *c = &t->columns[i];
        buf_printf(b, "%s%s %s%s", i ? ", " : "", c->name, type_name(c->type),
                   t->key == 1 && i == 0 ? " PRIMARY KEY"
                   : c->nullable         ? ""
                                         : " NOT NULL");
    }
    if (t->key == 2)
        buf_printf(b, ", PRIMARY KEY (%s, %s)", t->columns[0].name, t->columns[1].name);
    buf_puts(b, t->key == 2 ? ") WITHOUT ROWID;" : ");");
}

static int create_tables(struct sqlite_db *d, struct err *e)
{
    struct buf sql = {0};
    for (unsigned i = 0; i < TABLE_COUNT; i++)
        put_definition(&sql, table_get((enum table_id)i));
    int status = sql.failed ? err_no_memory(e, "a database") : execute(d, buf_str(&sql), e);
    buf_release(&sql);
    return status;
}

struct sqlite_db *sqlite_db_open(int fd, struct err *e)
{
    struct sqlite_db *d = calloc(1, sizeof *d);
    if (!d) {
        err_no_memory(e, "a database");
        return NULL;
    }
    if (sqlite_file_open(&d->file, fd, &d->db, e) != 0) {
        free(d);
        return NULL;
    }
    if (execute(d, before, e) == 0 && create_tables(d, e) == 0)
        return d;
    sqlite_db_free(d);
    return NULL;
}

void sqlite_db_free(struct sqlite_db *d)
{
    if (!d)
        return;
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        sqlite3_finalize(d->batches[i].insert);
        free(d->batches[i].cells);
        buf_release(&d->batches[i].texts);
    }
    if (d->db)
        (void)sqlite_file_close(&d->file, d->db, NULL);
    free(d);
}

/* ---- rows */

static void keep_text(struct buf *b, struct view text)
{
    while (text.len > 0) {
        size_t n = strnlen(text.p, text.len);
        format_utf8(b, (struct view){text.p, n});
        if (n < text.len)
            buf_puts(b, "\xef\xbf\xbd");
        n += n < text.len;
        text = (struct view){text.p + n, text.len - n};
    }
}

static int bind_cell(sqlite3_stmt *s, int at, enum cell_type type, const struct cell *c,
                     const char **text)
{
    if (c->null)
        return sqlite3_bind_null(s, at);
    switch (type) {
    case CELL_INTEGER:
        return sqlite3_bind_int64(s, at, c->integer);
    case CELL_COUNT:
    case CELL_ADDRESS:
        return sqlite3_bind_int64(s, at, (int64_t)c->count);
    case CELL_REAL:
        return sqlite3_bind_double(s, at, c->real);
    case CELL_BOOL:
        return sqlite3_bind_int(s, at, c->truth);
    case CELL_TEXT:
        *text += c->text.len;
        return sqlite3_bind_text(s, at, *text - c->text.len, (int)c->text.len, SQLITE_STATIC);
    }
    return SQLITE_OK;
}

static sqlite3_stmt *prepare(struct sqlite_db *d, const struct table *t, unsigned rows,
                             struct err *e)
{
    struct buf sql = {0};
    sqlite3_stmt *s = NULL;
    buf_printf(&sql, "INSERT INTO %s VALUES ", t->name);
    for (unsigned i = 0; i < rows; i++) {
        for (unsigned k = 0; k < t->width; k++)
            buf_puts(&sql, k ? ",?" : i ? "),(?" : "(?");
    }
    buf_puts(&sql, ")");
    if (sql.failed)
        err_no_memory(e, "a database");
    else if (sqlite3_prepare_v3(d->db, buf_str(&sql), -1, SQLITE_PREPARE_PERSISTENT, &s, NULL) !=
             SQLITE_OK)
        sqlite_file_failed(d->db, e);
    buf_release(&sql);
    return s;
}

/* Inserts the waiting rows with a statement for as many. */
static int insert(struct sqlite_db *d, const struct table *t, struct row_batch *b, sqlite3_stmt *s,
                  struct err *e)
{
    const char *text = b->texts.len ? (const char *)b->texts.data : "";
    for (unsigned i = 0; i < b->rows * t->width; i++) {
        if (bind_cell(s, (int)i + 1, t->columns[i % t->width].type, &b->cells[i], &text) !=
            SQLITE_OK)
            return sqlite_file_failed(d->db, e);
    }
    int status = sqlite3_step(s) == SQLITE_DONE ? 0 : sqlite_file_failed(d->db, e);
    sqlite3_reset(s);
    b->rows = 0;
    buf_clear(&b->texts);
    return status;
}

static int end_batch(struct sqlite_db *d, enum table_id table, struct err *e)
{
    const struct table *t = table_get(table);
    struct row_batch *b = &d->batches[table];
    if (b->rows == BATCH) {
        if (!b->insert && !(b->insert = prepare(d, t, BATCH, e)))
            return -1;
        return insert(d, t, b, b->insert, e);
    }
    sqlite3_stmt *s = b->rows ? prepare(d, t, b->rows, e) : NULL;
    int status = s ? insert(d, t, b, s, e) : b->rows ? -1 : 0;
    sqlite3_finalize(s);
    return status;
}

static int put_row(void *ctx, enum table_id table, const struct cell *cells, struct err *e)
{
    struct sqlite_db *d = ctx;
    const struct table *t = table_get(table);
    struct row_batch *b = &d->batches[table];
    if (!b->cells && !(b->cells = calloc((size_t)BATCH * t->width, sizeof *b->cells)))
        return err_no_memory(e, "a database");
    struct cell *to = b->cells + (size_t)b->rows * t->width;
    memcpy(to, cells, t->width * sizeof *to);
    b->count++;
    b->renumbered |= t->key != 1 || cells[0].count != b->count;
    to[0].null |= !b->renumbered;
    for (unsigned i = 0; i < t->width; i++) {
        size_t begin = b->texts.len;
        if (t->columns[i].type != CELL_TEXT || to[i].null)
            continue;
        keep_text(&b->texts, to[i].text);
        to[i].text.len = b->texts.len - begin;
    }
    if (b->texts.failed)
        return err_no_memory(e, "a database");
    return ++b->rows == BATCH || b->texts.len > TEXTS_MOST ? end_batch(d, table, e) : 0;
}

struct table_sink sqlite_db_sink(struct sqlite_db *d)
{
    struct table_sink sink = {.ctx = d, .row = put_row};
    for (unsigned i = 0; i < TABLE_COUNT; i++)
        sink.wanted[i] = true;
    return sink;
}

/* ---- indices */

struct ticks {
    struct progress *progress;
    uint64_t steps;
};

static int tick(void *ctx)
{
    struct ticks *t = ctx;
    t->steps += STEPS_A_TICK;
    progress_show(t->progress, t->steps);
    return 0;
}

static int make_indices(struct sqlite_db *d, struct progress *p, struct err *e)
{
    struct ticks t = {.progress = p};
    uint64_t steps = 0;
    for (size_t i = 0; i < sizeof indices / sizeof *indices; i++)
        steps += indices[i].steps * d->batches[indices[i].table].count;
    progress_again(p);
    p->total = p->total ? steps : 0;
    sqlite3_progress_handler(d->db, STEPS_A_TICK, tick, &t);
    int status = execute(d, small_cache, e);
    for (size_t i = 0; i < sizeof indices / sizeof *indices && status == 0; i++)
        status = execute(d, indices[i].sql, e);
    sqlite3_progress_handler(d->db, 0, NULL, NULL);
    progress_clear(p);
    return status;
}

int sqlite_db_finish(struct sqlite_db *d, struct progress *p, struct err *e)
{
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        if (end_batch(d, (enum table_id)i, e) != 0)
            return -1;
        sqlite3_finalize(d->batches[i].insert);
        d->batches[i].insert = NULL;
    }
    if (make_indices(d, p, e) != 0 || execute(d, views, e) != 0 || execute(d, after, e) != 0)
        return -1;
    int status = sqlite_file_close(&d->file, d->db, e);
    d->db = NULL;
    return status;
}
