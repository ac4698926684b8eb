/*
 * The event stream: the daemon's state, once a second. A reader of changes gets the full state
 * once, then only the number of each unchanged client: with a thousand clients 600 KB shrink to 5.
 *
 * The last event is stored once for all readers; all are offered the same event. A reader that
 * did not take one is out of step and gets the full state again.
 */

#include <xxhash.h>

#include "base/map.h"
#include "report/write/json_value.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_http.h"

#define PUSH_NS 1000000000LL
#define STREAMS_MAX 32u

/* An event in both forms. */
struct told {
    struct http_event whole, changes;
    VEC(struct told_client) told;
};

static bool was_told(const struct daemon_http *h, size_t *at, const struct told_client *now)
{
    /* Both lists are sorted by number. */
    while (*at < h->told.len && h->told.at[*at].number < now->number)
        ++*at;
    return *at < h->told.len && h->told.at[*at].number == now->number &&
           h->told.at[*at].hash == now->hash;
}

/* `at`: index of the search in the last event's clients. */
static bool put_client(const struct daemon *d, struct told *ev, const struct capture *one,
                       size_t *at)
{
    size_t begin = ev->whole.text.len;
    struct told_client now = {.number = one->number};
    if (!json_put(&ev->whole.text, daemon_client_json(d, one), JSON_COMPACT) ||
        ev->whole.text.failed)
        return false;
    const uint8_t *text = ev->whole.text.data + begin;
    /* The seed is random per process, so that a client cannot construct a collision. */
    now.hash = XXH3_64bits_withSeed(text, ev->whole.text.len - begin, map_hash(0));
    if (was_told(&d->http, at, &now))
        buf_printf(&ev->changes.text, "%u", now.number);
    else
        buf_put(&ev->changes.text, text, ev->whole.text.len - begin);
    return vec_push(&ev->told, now);
}

static bool put_clients(const struct daemon *d, struct told *ev)
{
    size_t at = 0;
    for (size_t i = 0; i < d->captures.list.len; i++) {
        if (i) {
            buf_puts(&ev->whole.text, ",");
            buf_puts(&ev->changes.text, ",");
        }
        if (!put_client(d, ev, d->captures.list.at[i], &at))
            return false;
    }
    return true;
}

/* The object `head`, with the clients as its last member, which put_clients fills. */
static void put_head(struct buf *out, const char *type, const struct buf *head)
{
    buf_printf(out, "event: %s\ndata: ", type);
    buf_put(out, head->data, head->len - 1);
    buf_puts(out, ",\"clients\":[");
}

/* False when memory is short: no event is sent then. */
static bool compose(const struct daemon *d, struct told *ev)
{
    struct buf head = {0};
    bool done = json_put(&head, daemon_self_json(d), JSON_COMPACT) && !head.failed && head.len > 2;
    if (done) {
        put_head(&ev->whole.text, "status", &head);
        put_head(&ev->changes.text, "changes", &head);
        done = put_clients(d, ev);
        buf_puts(&ev->whole.text, "]}\n\n");
        buf_puts(&ev->changes.text, "]}\n\n");
    }
    buf_release(&head);
    return done && !ev->whole.text.failed && !ev->changes.text.failed;
}

/* Stores it as the last event. */
static void take_over(struct daemon_http *h, struct told *ev)
{
    vec_release(&h->told);
    h->told.at = ev->told.at;
    h->told.len = ev->told.len;
    h->told.cap = ev->told.cap;
    ev->told.at = NULL;
}

static void release_event(struct http_event *e)
{
    buf_release(&e->text);
    buf_release(&e->packed);
}

void daemon_stream_turn(struct daemon *d, long long now)
{
    struct told ev = {0};
    if (d->http.streams.len == 0 || now - d->http.pushed < PUSH_NS)
        return;
    d->http.pushed = now;
    if (compose(d, &ev)) {
        for (size_t i = 0; i < d->http.streams.len; i++) {
            struct event_stream *s = &d->http.streams.at[i];
            struct http_event *event = s->in_step ? &ev.changes : &ev.whole;
            s->in_step = http_push(s->exchange, event) && s->changes;
        }
        take_over(&d->http, &ev);
    }
    release_event(&ev.whole);
    release_event(&ev.changes);
    vec_release(&ev.told);
}

void daemon_stream_begin(struct daemon *d, struct http_exchange *x)
{
    struct event_stream stream = {.exchange = x, .changes = http_has_argument(x, "changes")};
    if (d->http.streams.len >= STREAMS_MAX)
        http_refuse(x, 503, "too many listen already");
    else if (!vec_push(&d->http.streams, stream))
        http_refuse(x, 500, "out of memory");
    else
        http_stream(x);
    d->http.pushed = 0; /* it gets the state at once */
}

void daemon_stream_over(struct daemon *d, const struct http_exchange *x)
{
    for (size_t i = 0; i < d->http.streams.len; i++) {
        if (d->http.streams.at[i].exchange == x)
            d->http.streams.at[i--] = d->http.streams.at[--d->http.streams.len];
    }
}

void daemon_stream_release(struct daemon *d)
{
    vec_release(&d->http.streams);
    vec_release(&d->http.told);
}
