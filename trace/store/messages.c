#include "trace/store/messages.h"

#include <stdlib.h>

#include "trace/store/spill.h"

#define SORT_BYTES ((size_t)8 << 20) /* memory for each of the two passes */

static const struct pack_layout message_layout = {
    .element = sizeof(struct message),
    .count = 5,
    .fields = {{0, 8, PACK_STEP},    /* time */
               {8, 8, PACK_OFFSET},  /* text */
               {16, 4, PACK_OFFSET}, /* colour */
               {20, 4, PACK_OFFSET}, /* call stack */
               {24, 1, PACK_OFFSET}} /* kind */
};

static const struct pack_layout link_layout = {
    .element = sizeof(struct message_link),
    .count = 2,
    .fields = {{0, 8, PACK_STEP},  /* time */
               {8, 8, PACK_STEP}}, /* number */
};

void messages_init(struct messages *m, struct spool *spool)
{
    *m = (struct messages){.spool = spool, .last_time = INT64_MIN};
    column_init(&m->list, spool, &message_layout, false);
}

static void free_threads(struct messages *m)
{
    for (size_t i = 0; i < m->threads.len; i++) {
        if (m->threads.at[i])
            column_release(&m->threads.at[i]->links);
        free(m->threads.at[i]);
    }
    vec_release(&m->threads);
}

void messages_release(struct messages *m)
{
    if (!m->spool)
        return;
    free_threads(m);
    column_release(&m->list);
    *m = (struct messages){0};
}

void messages_clear(struct messages *m)
{
    free_threads(m);
    column_clear(&m->list);
    m->last_time = INT64_MIN;
    m->disorder = false;
}

/* The messages of a thread, created if it has none; NULL when memory is short. */
static struct message_thread *thread_of(struct messages *m, uint16_t thread, struct err *e)
{
    if (thread < m->threads.len && m->threads.at[thread])
        return m->threads.at[thread];
    if (!vec_reserve(&m->threads, thread + (size_t)1)) {
        err_no_memory(e, "messages");
        return NULL;
    }
    while (m->threads.len <= thread)
        m->threads.at[m->threads.len++] = NULL;
    struct message_thread *t = calloc(1, sizeof *t);
    if (!t) {
        err_no_memory(e, "messages");
        return NULL;
    }
    t->last_time = INT64_MIN;
    column_init(&t->links, m->spool, &link_layout, false);
    return m->threads.at[thread] = t;
}

/* Whether `time` is not after *last; sets *last to `time`. */
static bool step_back(int64_t *last, int64_t time)
{
    bool back = time <= *last;
    *last = time;
    return back;
}

int messages_add(struct messages *m, uint16_t thread, const struct message_in *in, struct err *e)
{
    struct message_thread *t = thread_of(m, thread, e);
    struct message *msg = t ? column_append(&m->list, e) : NULL;
    if (!msg)
        return -1;
    *msg = (struct message){
        .time = in->time,
        .text = in->text,
        .color = in->color,
        .callstack = in->callstack,
        .kind = (uint8_t)((in->source & 15) | (in->severity & 7) << 4 | (in->literal ? 128 : 0))};
    struct message_link *link = column_append(&t->links, e);
    if (!link) {
        column_drop_last(&m->list); /* every message belongs to a thread */
        return -1;
    }
    *link = (struct message_link){in->time, m->list.len - 1};
    m->disorder |= step_back(&m->last_time, in->time);
    t->disorder |= step_back(&t->last_time, in->time);
    return 0;
}

/* ---- sorting by time */

struct sorted_message {
    int64_t key;
    struct message msg;
    uint64_t number;
};

struct walk {
    struct spill by_time;
    message_put *put;           /* for all messages */
    message_link_put *put_link; /* or for a thread's */
    void *ctx;
};

static int hand_over(void *ctx, const void *recs, size_t n, struct err *e)
{
    const struct walk *w = ctx;
    const struct sorted_message *s = recs;
    for (size_t i = 0; i < n; i++) {
        if ((w->put ? w->put(w->ctx, &s[i].msg, s[i].number, e)
                    : w->put_link(w->ctx, s[i].number, e)) != 0)
            return -1;
    }
    return 0;
}

/* The second pass: its input is newest first, and equal times keep that order. */
static int sort_by_time(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct walk *w = ctx;
    const struct sorted_message *s = recs;
    for (size_t i = 0; i < n; i++) {
        struct sorted_message one = s[i];
        one.key = one.msg.time;
        if (spill_add(&w->by_time, &one, 1, e) != 0)
            return -1;
    }
    return 0;
}

/* The first pass: reads a column of messages or links into `newest_first`. */
static int read_all(struct column *c, bool links, struct spill *newest_first, struct err *e)
{
    struct column_walk w = column_walk(c);
    uint64_t at = 0;
    int status = 0;
    for (const void *p; (p = column_walk_next(&w, &status, e)); at++) {
        struct sorted_message one = {.key = -(int64_t)at, .number = at};
        if (links) {
            const struct message_link *l = p;
            one.msg.time = l->time;
            one.number = l->number;
        } else {
            one.msg = *(const struct message *)p;
        }
        status = spill_add(newest_first, &one, 1, e);
    }
    return status;
}

static int walk_sorted(struct messages *m, struct column *c, struct walk *w, struct err *e)
{
    struct spill newest_first;
    size_t capacity = SORT_BYTES / sizeof(struct sorted_message);
    if (c->len < capacity)
        capacity = (size_t)c->len;
    spill_init(&newest_first, sizeof(struct sorted_message), capacity, m->spool->dir);
    spill_init(&w->by_time, sizeof(struct sorted_message), capacity, m->spool->dir);
    int status = read_all(c, w->put_link != NULL, &newest_first, e);
    if (status == 0)
        status = spill_drain(&newest_first, sort_by_time, w, e);
    if (status == 0)
        status = spill_drain(&w->by_time, hand_over, w, e);
    spill_release(&newest_first);
    spill_release(&w->by_time);
    return status;
}

/* Delivers messages that arrived in order of time without sorting. */
static int walk_straight(struct column *c, const struct walk *w, struct err *e)
{
    struct column_walk all = column_walk(c);
    uint64_t at = 0;
    int status = 0;
    for (const void *p; (p = column_walk_next(&all, &status, e)); at++)
        status = w->put ? w->put(w->ctx, p, at, e)
                        : w->put_link(w->ctx, ((const struct message_link *)p)->number, e);
    return status;
}

int messages_walk(struct messages *m, message_put *put, void *ctx, struct err *e)
{
    struct walk w = {.put = put, .ctx = ctx};
    return m->disorder ? walk_sorted(m, &m->list, &w, e) : walk_straight(&m->list, &w, e);
}

int messages_walk_thread(struct messages *m, struct message_thread *t, message_link_put *put,
                         void *ctx, struct err *e)
{
    struct walk w = {.put_link = put, .ctx = ctx};
    return t->disorder ? walk_sorted(m, &t->links, &w, e) : walk_straight(&t->links, &w, e);
}
