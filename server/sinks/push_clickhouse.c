#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/export/fleet_sql.h"
#include "server/net/web_post.h"
#include "server/sinks/push.h"

#define DATABASE "tidemark"
#define PLAIN "text/plain; charset=utf-8"

/* Limit of buffered bytes: ClickHouse prefers few large inserts. */
#define WAITING_MOST ((size_t)16 << 20)

struct clickhouse {
    struct web_post *web;
    char *url, *database;
    struct buf waiting[FLEET_TABLE_COUNT]; /* rows */
    size_t before[FLEET_TABLE_COUNT];      /* bytes of these that belong to complete traces */
    size_t total;
    struct buf text, answer, scratch;
};

static int say(struct clickhouse *c, struct err *e)
{
    if (c->text.failed)
        return err_no_memory(e, "a statement");
    return web_post_send(c->web, NULL, NULL, PLAIN, c->text.data, c->text.len, &c->answer, e);
}

static int send_rows(struct clickhouse *c, unsigned table, struct err *e)
{
    struct buf *rows = &c->waiting[table];
    if (rows->len == 0)
        return 0;
    buf_clear(&c->text);
    fleet_sql_insert(&c->text, c->database, table);
    if (c->text.failed)
        return err_no_memory(e, "a statement");
    if (web_post_send(c->web, "query", buf_str(&c->text), PLAIN, rows->data, rows->len, &c->answer,
                      e) != 0)
        return err_prefix(e, "%s", fleet_table(table)->name);
    c->total -= rows->len;
    c->before[table] = 0;
    buf_clear(rows);
    return 0;
}

/* `traces` last, so that all rows of a listed trace exist. */
static int finish(void *ctx, struct err *e)
{
    struct clickhouse *c = ctx;
    for (unsigned i = FLEET_TABLE_TRACES + 1; i < FLEET_TABLE_COUNT; i++) {
        if (send_rows(c, i, e) != 0)
            return -1;
    }
    return send_rows(c, FLEET_TABLE_TRACES, e);
}

static int put_row(void *ctx, const struct fleet_trace *trace, unsigned table,
                   const struct cell *cells, struct err *e)
{
    struct clickhouse *c = ctx;
    struct buf *rows = &c->waiting[table];
    size_t len = rows->len;
    fleet_sql_row(rows, trace->day, table, cells, &c->scratch);
    if (rows->failed)
        return err_no_memory(e, "rows");
    c->total += rows->len - len;
    return c->total < WAITING_MOST ? 0 : finish(c, e);
}

static int end(void *ctx, struct err *e)
{
    struct clickhouse *c = ctx;
    (void)e;
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++)
        c->before[i] = c->waiting[i].len;
    return 0;
}

/* Rows that were sent already stay; no row of `traces` refers to them. */
static void drop(void *ctx)
{
    struct clickhouse *c = ctx;
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++) {
        c->total -= c->waiting[i].len - c->before[i];
        c->waiting[i].len = c->before[i];
        c->waiting[i].failed = false;
    }
}

static int has(void *ctx, const char *trace, enum push_there *there, struct err *e)
{
    struct clickhouse *c = ctx;
    buf_clear(&c->text);
    buf_printf(&c->text, "SELECT count() FROM %s.%s WHERE trace = '%s' FORMAT TabSeparated",
               c->database, fleet_table(FLEET_TABLE_TRACES)->name, trace);
    if (say(c, e) != 0)
        return -1;
    *there = strtoull(buf_str(&c->answer), NULL, 10) > 0 ? PUSH_THERE : PUSH_NOT_THERE;
    return 0;
}

static void release(void *ctx)
{
    struct clickhouse *c = ctx;
    web_post_close(c->web);
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++)
        buf_release(&c->waiting[i]);
    buf_release(&c->text);
    buf_release(&c->answer);
    buf_release(&c->scratch);
    free(c->url);
    free(c->database);
    free(c);
}

/* Splits off "/DATABASE". */
static int take_address(struct clickhouse *c, const char *url, struct err *e)
{
    const char *host = strstr(url, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;
    const char *name = path && path[1] ? path + 1 : DATABASE;
    c->url = path ? strndup(url, (size_t)(path - url)) : strdup(url);
    c->database = strdup(name);
    if (!c->url || !c->database)
        return err_no_memory(e, "an address");
    if (!fleet_sql_is_name(c->database))
        return err_set(e, ERR_USAGE, "'%s' is no name of a database", c->database);
    return 0;
}

static int create_tables(struct clickhouse *c, const bool wanted[FLEET_TABLE_COUNT], struct err *e)
{
    buf_clear(&c->text);
    buf_printf(&c->text, "CREATE DATABASE IF NOT EXISTS %s", c->database);
    if (say(c, e) != 0)
        return -1;
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++) {
        if (!wanted[i])
            continue;
        buf_clear(&c->text);
        fleet_sql_definition(&c->text, c->database, i);
        if (say(c, e) != 0)
            return -1;
    }
    return 0;
}

int push_clickhouse_open(struct push_sink *s, const char *url, bool create,
                         const bool wanted[FLEET_TABLE_COUNT], struct err *e)
{
    struct clickhouse *c = calloc(1, sizeof *c);
    if (!c)
        return err_no_memory(e, "a connection");
    if (take_address(c, url, e) == 0)
        c->web = web_post_open(c->url, getenv("CLICKHOUSE_USER"), getenv("CLICKHOUSE_PASSWORD"), e);
    if (c->web && (!create || create_tables(c, wanted, e) == 0)) {
        *s = (struct push_sink){c, has, put_row, end, drop, finish, release};
        return 0;
    }
    release(c);
    return -1;
}

int push_clickhouse_definitions(const bool wanted[FLEET_TABLE_COUNT], struct err *e)
{
    struct buf text = {0};
    buf_puts(&text, "CREATE DATABASE IF NOT EXISTS " DATABASE ";\n");
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++) {
        if (!wanted[i])
            continue;
        fleet_sql_definition(&text, DATABASE, i);
        buf_puts(&text, ";\n");
    }
    int status = text.failed ? err_no_memory(e, "statements") : 0;
    if (status == 0 && (fwrite(text.data, 1, text.len, stdout) < text.len || fflush(stdout) != 0))
        status = err_errno(e, ERR_OUTPUT, "cannot write the statements");
    buf_release(&text);
    return status;
}
