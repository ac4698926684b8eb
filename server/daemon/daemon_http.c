/* The daemon's HTTP interface: routing, and answers from sessions. */

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_reader.h"
#include "base/monotonic.h"
#include "report/html/html_template.h"
#include "report/write/json_value.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_clients.h"
#include "server/daemon/daemon_events.h"
#include "server/daemon/daemon_http.h"
#include "server/daemon/dashboard.h"
#include "server/daemon/token.h"

#define API "/api/v1"
#define ANSWER_NS 30000000000LL /* timeout of a session's answer */
#define TOKEN_NS 1000000000LL
#define PENDING_MAX 256u
#define REPORTS_ASKED_MAX 4u /* of all clients: each is made by a process */
#define FRAME "/report"

/* ---- answers */

static void reply_json(struct http_exchange *x, unsigned status, json_t *value)
{
    struct buf text = {0};
    if (json_put(&text, value, JSON_COMPACT) && !text.failed)
        http_reply(x, status, "application/json", text.data, text.len);
    else
        http_refuse(x, 500, "out of memory");
    buf_release(&text);
}

static void reply_metrics(const struct daemon *d, struct http_exchange *x)
{
    struct buf text = {0};
    daemon_metrics(d, &text);
    if (text.failed)
        http_refuse(x, 500, "out of memory");
    else
        http_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", text.data, text.len);
    buf_release(&text);
}

static void reply_traces(const struct daemon *d, struct http_exchange *x)
{
    struct err e = {0};
    json_t *list = daemon_traces_json(d, &e);
    if (list)
        reply_json(x, 200, json_with(json_object(), "traces", list));
    else
        http_refuse(x, 500, e.text);
}

/* ---- clients */

static struct capture *find_client(const struct daemon *d, const char *digits, size_t len)
{
    char text[12];
    if (len == 0 || len >= sizeof text)
        return NULL;
    memcpy(text, digits, len);
    text[len] = 0;
    if (strspn(text, "0123456789") != len)
        return NULL;
    unsigned long number = strtoul(text, NULL, 10);
    for (size_t i = 0; i < d->captures.list.len; i++) {
        if (d->captures.list.at[i]->number == number)
            return d->captures.list.at[i];
    }
    return NULL;
}

static unsigned reports_asked(const struct daemon *d)
{
    unsigned n = 0;
    for (size_t i = 0; i < d->http.pending.len; i++)
        n += d->http.pending.at[i].report;
    return n;
}

/* take_answer answers later, when the session does. */
static void ask_session(struct daemon *d, struct http_exchange *x, struct capture *one,
                        enum monitor_question q)
{
    const char *text = monitor_question_name(q);
    struct pending p = {.exchange = x,
                        .client = one->number,
                        .report = q == MONITOR_REPORT,
                        .reference = ++d->http.reference,
                        .deadline = monotonic_ns() + ANSWER_NS};
    if (one->state != CAPTURE_RUNNING || !one->hello)
        http_refuse(x, 409, "the client is not being recorded");
    else if (d->http.pending.len >= PENDING_MAX ||
             (p.report && reports_asked(d) >= REPORTS_ASKED_MAX))
        http_refuse(x, 503, "too many questions wait for an answer");
    else if (!vec_push(&d->http.pending, p))
        http_refuse(x, 500, "out of memory");
    else if (channel_send(&one->channel, MONITOR_ASK, p.reference, text, strlen(text)) != 0)
        d->http.pending.len--, http_refuse(x, 503, "the session does not listen");
}

static void take_answer(void *ctx, struct capture *one, const struct channel_message *m)
{
    struct daemon *d = ctx;
    for (size_t i = 0; i < d->http.pending.len; i++) {
        struct pending p = d->http.pending.at[i];
        if (p.reference != m->reference || p.client != one->number)
            continue;
        d->http.pending.at[i] = d->http.pending.at[--d->http.pending.len];
        /* A compromised session may send anything: check at least that it is JSON. */
        json_t *said = NULL;
        if (m->type == MONITOR_ANSWER &&
            json_read((struct view){m->text, m->len}, true, &said) == JSON_READ)
            http_reply(p.exchange, 200, "application/json", m->text, m->len);
        else
            http_refuse(p.exchange, 502,
                        p.report ? "the report cannot be made now"
                                 : "the session has no answer to that");
        json_decref(said);
        return;
    }
}

static void act(struct http_exchange *x, struct capture *one, const char *what)
{
    if (one->state != CAPTURE_RUNNING) {
        http_refuse(x, 409, "the client is not being captured");
    } else if (strcmp(what, "stop") == 0) {
        if (!one->left_alone)
            one->left_alone = CAPTURE_STOPPED;
        captures_stop_one(one);
        reply_json(x, 202, json_with(json_object(), "stopping", json_true()));
    } else if (captures_save_now(one) == 0) {
        reply_json(x, 202, json_with(json_object(), "saving", json_true()));
    } else {
        http_refuse(x, 409, "the client is not being recorded yet");
    }
}

/* `rest`: "7", "7/tree", "7/stop". */
static void handle_client(struct daemon *d, struct http_exchange *x, const char *rest)
{
    size_t digits = strcspn(rest, "/");
    struct capture *one = find_client(d, rest, digits);
    const char *what = rest[digits] ? rest + digits + 1 : "";
    bool posts = strcmp(http_method(x), "POST") == 0;
    enum monitor_question q;
    if (!one)
        http_refuse(x, 404, "there is no such client");
    else if (posts && (strcmp(what, "stop") == 0 || strcmp(what, "save") == 0))
        act(x, one, what);
    else if (posts)
        http_refuse(x, 404, "that cannot be done with a client");
    else if (!rest[digits])
        reply_json(x, 200, daemon_client_json(d, one));
    else if (monitor_question_parse(what, strlen(what), &q))
        ask_session(d, x, one, q);
    else
        http_refuse(x, 404, "that cannot be asked of a client");
}

/* {"address": "127.0.0.1", "port": 8086} */
static void begin_client(struct daemon *d, struct http_exchange *x)
{
    size_t len;
    uint8_t ignored[16];
    struct err e = {0};
    const char *body = http_body(x, &len);
    json_t *said;
    (void)json_read((struct view){body, body ? len : 0}, false, &said);
    const char *address = json_string_value(json_object_get(said, "address"));
    json_int_t port = json_integer_value(json_object_get(said, "port"));
    if (!address || port < 1 || port > 65535 ||
        (inet_pton(AF_INET, address, ignored) != 1 && inet_pton(AF_INET6, address, ignored) != 1)) {
        http_refuse(x, 400, "an address in numbers and a port are needed");
    } else {
        const struct capture *one = daemon_capture(d, address, (uint16_t)port, &e);
        if (one)
            reply_json(x, 201, daemon_client_json(d, one));
        else
            http_refuse(x, 409, e.text);
    }
    json_decref(said);
}

/* ---- requests */

static bool is_open(void *ctx, const char *path)
{
    (void)ctx;
    return daemon_page_find(path) || strcmp(path, FRAME) == 0 || strcmp(path, "/healthz") == 0 ||
           strcmp(path, API "/login") == 0;
}

/* `rest`: "x.tracy", "x.tracy/report", "x.tracy/summary"; no trace has a slash in its name. */
static void handle_trace(struct daemon *d, struct http_exchange *x, const char *rest)
{
    const char *slash = strchr(rest, '/');
    char *name = slash ? strndup(rest, (size_t)(slash - rest)) : NULL;
    if (!slash)
        daemon_send_trace(d, x, rest);
    else if (!name)
        http_refuse(x, 500, "out of memory");
    else if (strcmp(slash, "/report") == 0)
        daemon_send_report(d, x, name, REPORT_PAGE);
    else if (strcmp(slash, "/summary") == 0)
        daemon_send_report(d, x, name, REPORT_SUMMARY);
    else
        http_refuse(x, 404, "that cannot be asked of a trace");
    free(name);
}

/* The report's page without data, which the dashboard gives to it. */
static void reply_frame(struct http_exchange *x)
{
    const struct page_template *t = &page_template;
    struct buf text = {0};
    buf_put(&text, t->head, t->head_len);
    buf_puts(&text, "null");
    buf_put(&text, t->tail, t->tail_len);
    if (!t->head_len)
        http_refuse(x, 500, "this program was built without the page");
    else if (text.failed)
        http_refuse(x, 500, "out of memory");
    else
        http_reply_frame(x, text.data, text.len);
    buf_release(&text);
}

static void handle_get(struct daemon *d, struct http_exchange *x, const char *path)
{
    static const char traces[] = API "/traces/";
    const struct daemon_page *page = daemon_page_find(path);
    if (page)
        http_reply(x, 200, page->type, page->begin, (size_t)(page->end - page->begin));
    else if (strcmp(path, FRAME) == 0)
        reply_frame(x);
    else if (strcmp(path, "/healthz") == 0)
        http_reply(x, 200, "application/json", "{\"status\":\"ok\"}\n", 16);
    else if (strcmp(path, "/metrics") == 0)
        reply_metrics(d, x);
    else if (strcmp(path, API "/status") == 0)
        reply_json(x, 200, daemon_status_json(d));
    else if (strcmp(path, API "/traces") == 0)
        reply_traces(d, x);
    else if (strncmp(path, traces, sizeof traces - 1) == 0)
        handle_trace(d, x, path + sizeof traces - 1);
    else if (strcmp(path, API "/events") == 0)
        daemon_stream_begin(d, x);
    else
        http_refuse(x, 404, "there is no such thing");
}

static void handle(void *ctx, struct http_exchange *x)
{
    static const char clients[] = API "/clients/";
    struct daemon *d = ctx;
    const char *path = http_path(x);
    bool gets = strcmp(http_method(x), "GET") == 0, posts = strcmp(http_method(x), "POST") == 0;
    if (!gets && !posts)
        http_refuse(x, 405, "GET and POST only");
    else if (strncmp(path, clients, sizeof clients - 1) == 0)
        handle_client(d, x, path + sizeof clients - 1);
    else if (gets)
        handle_get(d, x, path);
    else if (strcmp(path, API "/clients") == 0)
        begin_client(d, x);
    else if (strcmp(path, API "/login") == 0)
        http_login(x);
    else
        http_refuse(x, 404, "there is no such thing");
}

static void over(void *ctx, struct http_exchange *x)
{
    struct daemon *d = ctx;
    daemon_stream_over(d, x);
    for (size_t i = 0; i < d->http.pending.len; i++) {
        if (d->http.pending.at[i].exchange == x)
            d->http.pending.at[i--] = d->http.pending.at[--d->http.pending.len];
    }
    daemon_reports_over(d, x);
}

/* Refuses requests whose session ended or is busy saving. */
static void refuse_late(struct daemon *d, long long now)
{
    for (size_t i = 0; i < d->http.pending.len; i++) {
        struct pending p = d->http.pending.at[i];
        bool runs = false;
        for (size_t k = 0; k < d->captures.list.len; k++) {
            const struct capture *one = d->captures.list.at[k];
            runs = runs || (one->number == p.client && one->state == CAPTURE_RUNNING);
        }
        if (runs && now < p.deadline)
            continue;
        d->http.pending.at[i--] = d->http.pending.at[--d->http.pending.len];
        http_refuse(p.exchange, runs ? 504 : 409, "the session does not answer");
    }
}

int daemon_http_start(struct daemon *d, struct err *e)
{
    const struct http_options options = {.address = d->http.address,
                                         .listening = d->given.http >= 0 ? d->given.http : 0,
                                         .token = d->http.token,
                                         .open = is_open,
                                         .handle = handle,
                                         .over = over,
                                         .ctx = d};
    if (!d->http.address)
        return 0;
    d->http.dir = open(d->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (d->http.dir < 0)
        return err_errno(e, ERR_OUTPUT, "%s", d->dir);
    d->captures.answered = take_answer;
    d->captures.answered_ctx = d;
    d->http.server = http_start(&options, e);
    if (d->http.server)
        d->given.http = -1; /* owned by the server now */
    return d->http.server ? 0 : -1;
}

/* Reloads the token when its file changes, so that the daemon need not be restarted. */
static void look_at_token(struct daemon *d, long long now)
{
    struct daemon_http *h = &d->http;
    struct err e = {0};
    struct stat st;
    if (!h->token_at || now - h->token_looked < TOKEN_NS)
        return;
    h->token_looked = now;
    /* A pipe can be read only once. */
    if (stat(h->token_at + 1, &st) != 0 || !S_ISREG(st.st_mode) ||
        daemon_same_file(&st, &h->token_file))
        return;
    h->token_file = st;
    char *token = token_parse(h->token_at, &e);
    if (!token)
        daemon_log(d, LOG_WARNING, "token.refused", NULL, NULL,
                   "%s has no token any more, and the one before stays: %s", h->token_at + 1,
                   e.text);
    else if (strcmp(token, h->token) != 0 && http_set_token(h->server, token)) {
        free(h->token);
        h->token = token;
        daemon_log(d, LOG_INFO, "token.changed", NULL, NULL, "%s has another token",
                   h->token_at + 1);
        return;
    }
    free(token);
}

void daemon_http_turn(struct daemon *d)
{
    long long now = monotonic_ns();
    if (!d->http.server)
        return;
    refuse_late(d, now);
    look_at_token(d, now);
    daemon_stream_turn(d, now);
    daemon_reports_turn(d);
    http_turn(d->http.server);
}

void daemon_http_release(struct daemon *d)
{
    http_stop(d->http.server);
    d->http.server = NULL;
    daemon_stream_release(d);
    vec_release(&d->http.pending);
    free(d->http.token);
    if (d->http.dir >= 0)
        close(d->http.dir);
}
