#include "server/capture/monitor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/figures/summary.h"
#include "analysis/questions/tree.h"
#include "base/json_reader.h"
#include "base/monotonic.h"
#include "report/report.h"
#include "report/tree_report.h"
#include "report/write/json_value.h"

#define POOLS_TOLD 256u
#define SITES_TOLD 100u
#define TREE_DEPTH 48u
#define TREE_SHARE 0.002
#define END_WAIT_MS 5000 /* limit of the wait for a busy daemon */
#define LOOK_PAUSE 4LL   /* pause after a sweep, in multiples of its duration */
#define DOCUMENT_MAX (CHANNEL_TEXT_MAX / 2 - 256) /* bytes: two fit into one message */

static const char *const questions[MONITOR_QUESTIONS] = {
    [MONITOR_COUNTERS] = "counters", [MONITOR_HISTORY] = "history", [MONITOR_SITES] = "sites",
    [MONITOR_TREE] = "tree",         [MONITOR_MEMORY] = "memory",   [MONITOR_REPORT] = "report"};

bool monitor_question_parse(const char *text, size_t len, enum monitor_question *q)
{
    for (int i = 0; i < MONITOR_QUESTIONS; i++) {
        if (strlen(questions[i]) == len && memcmp(questions[i], text, len) == 0) {
            *q = (enum monitor_question)i;
            return true;
        }
    }
    return false;
}

const char *monitor_question_name(enum monitor_question q)
{
    return questions[q];
}

void monitor_init(struct monitor *m, int fd)
{
    *m = (struct monitor){.channel = {.fd = fd}, .page = {.fd = -1}};
}

void monitor_release(struct monitor *m)
{
    live_page_release(&m->page);
    channel_release(&m->channel);
    free(m->sites.text);
    free(m->tree.text);
    m->sites = m->tree = (struct monitor_answer){0};
}

/* Sends a document and releases the caller's reference. */
static void send_json(struct monitor *m, enum monitor_message type, uint64_t reference,
                      json_t *value)
{
    struct buf text = {0};
    if (json_put(&text, value, JSON_COMPACT) && !text.failed)
        (void)channel_send(&m->channel, type, reference, text.data, text.len);
    else
        (void)channel_send(&m->channel, MONITOR_NONE, reference, "out of memory", 13);
    buf_release(&text);
}

void monitor_hello(struct monitor *m, const struct connection *c, const char *output)
{
    if (m->channel.fd < 0)
        return;
    json_t *o = json_object();
    o = json_with(o, "program", json_text(view_of(c->welcome.program_name)));
    o = json_with(o, "host_info", json_text(view_of(c->welcome.host_info)));
    o = json_with(o, "pid", json_count(c->welcome.pid));
    o = json_with(o, "protocol", json_count(c->version->protocol));
    o = json_with(o, "on_demand", json_boolean(c->welcome.flags & WELCOME_ON_DEMAND));
    o = json_with(o, "output", json_text(view_of(output)));
    send_json(m, MONITOR_HELLO, 0, o);
}

void monitor_saved(struct monitor *m, const char *path, uint64_t bytes, bool last)
{
    if (m->channel.fd < 0)
        return;
    json_t *o = json_with(json_object(), "trace", json_text(view_of(path)));
    o = json_with(o, "bytes", json_count(bytes));
    send_json(m, MONITOR_SAVED, 0, json_with(o, "last", json_boolean(last)));
}

void monitor_tell_end(struct monitor *m, const struct monitor_end *end)
{
    if (m->channel.fd < 0 || m->told)
        return;
    m->told = true;
    json_t *o = json_with(json_object(), "end", json_integer(end->end));
    o = json_with(o, "refused", json_boolean(end->refused));
    o = json_with(o, "saved", json_boolean(end->saved));
    send_json(m, MONITOR_END, 0, o);
    channel_flush(&m->channel, END_WAIT_MS);
}

bool monitor_end_parse(const struct channel_message *m, struct monitor_end *end)
{
    json_t *said;
    (void)json_read((struct view){m->text, m->len}, false, &said);
    const json_t *number = json_object_get(said, "end");
    json_int_t value = json_integer_value(number);
    bool ok = json_is_integer(number) && value >= MONITOR_NEVER_BEGAN && value < SESSION_END_COUNT;
    if (ok)
        *end = (struct monitor_end){.end = (int)value,
                                    .refused = json_is_true(json_object_get(said, "refused")),
                                    .saved = json_is_true(json_object_get(said, "saved"))};
    json_decref(said);
    return ok;
}

/* ---- answers from counters */

static json_t *pool_json(const struct trace *t, const struct pool *p)
{
    char room[32];
    const struct pool_totals *now = &p->totals;
    const struct pool_sums sums = memory_pool_sums(p);
    json_t *o = json_object();
    o = json_with(o, "name", json_text(trace_pool_name(t, p, room)));
    o = json_with(o, "allocations", json_count(sums.allocations));
    o = json_with(o, "frees", json_count(sums.frees));
    o = json_with(o, "live_allocations", json_count(now->live));
    o = json_with(o, "live_bytes", json_count(now->live_bytes));
    o = json_with(o, "total_bytes", json_count(sums.total_bytes));
    return json_with(o, "faults", json_count(p->faults));
}

static json_t *pools_json(const struct trace *t)
{
    json_t *list = json_array();
    size_t n = t->memory.pools.len < POOLS_TOLD ? t->memory.pools.len : POOLS_TOLD;
    for (size_t i = 0; list && i < n; i++)
        list = json_add(list, pool_json(t, t->memory.pools.at[i]));
    return list;
}

static json_t *shape_json(const struct usage_record *u)
{
    uint8_t percent[USAGE_SHAPE];
    unsigned n = usage_record_shape(u, percent);
    json_t *list = json_array();
    for (unsigned i = 0; list && i < n; i++)
        list = json_add(list, json_integer(percent[i]));
    return list;
}

static json_t *counters_json(const struct monitor *m, const struct trace *t,
                             const struct session_progress *p, const struct memory_limit *limit)
{
    json_t *o = json_object();
    o = json_with(o, "seconds", json_real(p->seconds));
    o = json_with(o, "received_bytes", json_count(p->bytes_in));
    o = json_with(o, "bytes_per_second", json_real(p->bytes_per_second));
    o = json_with(o, "memory_events", json_count(p->memory_events));
    o = json_with(o, "live_allocations", json_count(p->live_allocations));
    o = json_with(o, "live_bytes", json_count(p->live_bytes));
    o = json_with(o, "peak_bytes", json_count(m->usage.peak));
    o = json_with(o, "peak_bytes_sampled", json_count(m->usage.peak)); /* its name in 0.1 */
    o = json_with(o, "shape", shape_json(&m->usage));
    o = json_with(o, "client_resident_bytes",
                  p->client_resident ? json_count(p->client_resident) : json_null());
    o = json_with(o, "client_time_ns", json_integer(p->last_time));
    o = json_with(o, "queries", json_count(p->queries));
    o = json_with(o, "resident_bytes", json_count(memory_anonymous() + limit->lent));
    o = json_with(o, "resident_limit", json_count(limit->bytes));
    o = json_with(o, "pools", pools_json(t));
    size_t pools = t->memory.pools.len;
    return json_with(o, "pools_left_out", json_count(pools > POOLS_TOLD ? pools - POOLS_TOLD : 0));
}

static json_t *point_json(const struct usage_record *u, const struct usage_sample *s)
{
    json_t *row = json_array();
    row = json_add(row, json_real(s->seconds));
    row = json_add(row, json_count(s->bytes));
    row = json_add(row, json_count(s->blocks));
    for (unsigned i = 0; row && i < u->pools; i++)
        row = json_add(row, json_count(s->pools[i]));
    return row;
}

static json_t *columns_json(const struct usage_record *u, const struct trace *t)
{
    char room[32];
    json_t *list = json_pack("[s,s,s]", "seconds", "live_bytes", "live_allocations");
    for (unsigned i = 0; list && i < u->pools; i++) {
        struct view name = trace_pool_name(t, t->memory.pools.at[i], room);
        list = json_add(list, json_text(name));
    }
    return list;
}

static json_t *history_json(const struct monitor *m, const struct trace *t)
{
    const struct usage_record *u = &m->usage;
    json_t *points = json_array();
    for (unsigned i = 0; points && i < u->count; i++)
        points = json_add(points, point_json(u, &u->points[i]));
    json_t *o = json_with(json_object(), "interval_seconds", json_real(u->interval));
    o = json_with(o, "columns", columns_json(u, t));
    return json_with(o, "points", points);
}

/* ---- answers that need a sweep of the store */

static int write_sites(struct trace *t, FILE *out, struct err *e)
{
    struct summary summary;
    const struct summary_options options = {.by = GROUP_SITE};
    const struct summary_selection selection = {.sort = SORT_LIVE, .limit = SITES_TOLD};
    const struct report_options report = {.format = REPORT_JSON, .sort = SORT_LIVE};
    if (summary_build(&summary, t, &options, e) != 0)
        return -1;
    summary_select(&summary.sites, &selection);
    int status = report_write(&summary, &report, out, e);
    summary_release(&summary);
    return status;
}

static int write_tree(struct trace *t, FILE *out, struct err *e)
{
    const struct selection_options all = {0};
    const struct tree_options options = {.by = TREE_FUNCTION, .sort = TREE_LIVE_BYTES};
    const struct tree_report_options report = {
        .format = REPORT_JSON, .depth = TREE_DEPTH, .min_share = TREE_SHARE};
    struct selection s;
    struct tree tree;
    if (selection_init(&s, t, &all, e) != 0)
        return -1;
    int status = tree_build(&tree, &s, &options, e);
    if (status == 0) {
        status = tree_write(&tree, &report, out, e);
        tree_release(&tree);
    }
    selection_release(&s);
    return status;
}

typedef int document_writer(struct trace *t, FILE *out, struct err *e);

/* The caller frees `fresh->text`. */
static int write_document(struct monitor_answer *fresh, document_writer *write, struct trace *t,
                          struct err *e)
{
    FILE *out = open_memstream(&fresh->text, &fresh->len);
    if (!out)
        return err_no_memory(e, "an answer");
    int status = write(t, out, e);
    if (fclose(out) != 0 && status == 0)
        status = err_no_memory(e, "an answer");
    if (status == 0 && fresh->len > DOCUMENT_MAX)
        status = err_set(e, ERR_OUTPUT, "the answer would be too long");
    return status;
}

/* On failure the last sweep's documents stay. */
static int look(struct monitor *m, struct trace *t, int64_t client_time, struct err *e)
{
    struct monitor_answer sites = {0};
    struct monitor_answer tree = {0};
    if (write_document(&sites, write_sites, t, e) != 0 ||
        write_document(&tree, write_tree, t, e) != 0) {
        free(sites.text);
        free(tree.text);
        return -1;
    }
    free(m->sites.text);
    free(m->tree.text);
    m->sites = sites;
    m->tree = tree;
    m->look_time = client_time;
    return 0;
}

static void send_memory(struct monitor *m, uint64_t reference)
{
    struct buf text = {0};
    buf_printf(&text, "{\"schema\":\"tidemark.memory/1\",\"client_time_ns\":%" PRId64,
               m->look_time);
    buf_printf(&text, ",\"sites\":%s,\"tree\":%s}", m->sites.text, m->tree.text);
    if (text.failed)
        (void)channel_send(&m->channel, MONITOR_NONE, reference, "out of memory", 13);
    else
        (void)channel_send(&m->channel, MONITOR_ANSWER, reference, text.data, text.len);
    buf_release(&text);
}

static void answer_slowly(struct monitor *m, enum monitor_question q, uint64_t reference,
                          struct trace *t, int64_t client_time)
{
    struct err e = {0};
    long long began = monotonic_ns();
    if (!m->sites.text || began >= m->next_look) {
        int status = look(m, t, client_time, &e);
        long long now = monotonic_ns();
        m->next_look = now + LOOK_PAUSE * (now - began);
        if (status != 0) {
            (void)channel_send(&m->channel, MONITOR_NONE, reference, e.text, strlen(e.text));
            return;
        }
    }
    const struct monitor_answer *one = q == MONITOR_SITES ? &m->sites : &m->tree;
    if (q == MONITOR_MEMORY)
        send_memory(m, reference);
    else
        (void)channel_send(&m->channel, MONITOR_ANSWER, reference, one->text, one->len);
}

/* ---- messages from the daemon */

static void take_limit(struct memory_limit *limit, struct trace *t,
                       const struct channel_message *told)
{
    char digits[24];
    if (told->len == 0 || told->len >= sizeof digits)
        return;
    memcpy(digits, told->text, told->len);
    digits[told->len] = 0;
    if (strspn(digits, "0123456789") == told->len)
        (void)memory_limit_change(limit, t, strtoull(digits, NULL, 10), TRACE_BUDGET, NULL);
}

static void take_question(struct monitor *m, const struct channel_message *asked, struct trace *t,
                          const struct session_progress *p, const struct memory_limit *limit)
{
    enum monitor_question q;
    if (!monitor_question_parse(asked->text, asked->len, &q))
        (void)channel_send(&m->channel, MONITOR_NONE, asked->reference, "no such question", 16);
    else if (q == MONITOR_COUNTERS)
        send_json(m, MONITOR_ANSWER, asked->reference, counters_json(m, t, p, limit));
    else if (q == MONITOR_HISTORY)
        send_json(m, MONITOR_ANSWER, asked->reference, history_json(m, t));
    else if (q == MONITOR_REPORT && !live_page_ask(&m->page, asked->reference))
        (void)channel_send(&m->channel, MONITOR_NONE, asked->reference, "out of memory", 13);
    else if (q != MONITOR_REPORT)
        answer_slowly(m, q, asked->reference, t, p->last_time);
}

void monitor_tick(struct monitor *m, struct trace *t, const struct session_progress *p,
                  struct memory_limit *limit)
{
    struct channel_message told;
    if (m->channel.fd < 0)
        return;
    usage_record_add(&m->usage, &t->memory, p->seconds);
    (void)channel_pump(&m->channel);
    while (channel_next(&m->channel, &told)) {
        if (told.type == MONITOR_LIMIT)
            take_limit(limit, t, &told);
        else if (told.type == MONITOR_TURN)
            m->turn = true;
        else if (told.type == MONITOR_ASK)
            take_question(m, &told, t, p, limit);
    }
    live_page_turn(&m->page, &m->channel, t, limit, p->last_time);
    if (p->last)
        send_json(m, MONITOR_ANSWER, 0, counters_json(m, t, p, limit));
}
