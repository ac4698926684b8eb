#include "run/run_offers.h"

#include <stdlib.h>

int run_offers_open(struct run_offers *o, const struct run_options *options,
                    struct run_traces *traces, const char *spool, struct err *e)
{
    o->options = options;
    o->traces = traces;
    o->spool = spool;
    return run_listen_open(&o->root, options, traces, spool, false, e);
}

int run_offers_start(struct run_offers *o, struct err *e)
{
    return run_listen_start(&o->root, e);
}

struct run_listen *run_offers_add(struct run_offers *o)
{
    struct err none = {0};
    if (!o->options || !o->options->listen || !o->options->follow_fork)
        return NULL;
    struct run_offered new = {.listen = calloc(1, sizeof *new.listen)};
    if (!new.listen)
        return NULL;
    if (run_listen_open(new.listen, o->options, o->traces, o->spool, true, &none) == 0 &&
        run_listen_start(new.listen, &none) == 0 && vec_push(&o->children, new))
        return new.listen;
    run_listen_release(new.listen);
    free(new.listen);
    return NULL;
}

static void drop(struct run_offers *o, size_t i)
{
    struct run_offered *c = &o->children.at[i];
    run_listen_release(c->listen);
    free(c->listen);
    run_record_free(c->record);
    collected_free(c->collected, c->keep);
    o->children.at[i] = o->children.at[--o->children.len];
}

void run_offers_leave(struct run_offers *o, struct run_listen *listen, struct run_record *record,
                      struct collected *collected, bool keep)
{
    for (size_t i = 0; i < o->children.len; i++) {
        struct run_offered *c = &o->children.at[i];
        if (c->listen != listen)
            continue;
        *c = (struct run_offered){listen, record, collected, keep};
        if (!run_listen_is_busy(listen))
            drop(o, i);
        return;
    }
}

void run_offers_wait(struct run_offers *o, const struct pollfd *others, size_t n, int timeout)
{
    size_t room = n + (o->children.len + 1) * OFFER_POLLS;
    o->polls.len = 0;
    if (!vec_reserve(&o->polls, room)) {
        (void)poll(NULL, 0, timeout);
        return;
    }
    for (size_t i = 0; i < n; i++)
        o->polls.at[o->polls.len++] = others[i];
    o->polls.len += run_listen_poll(&o->root, o->polls.at + o->polls.len);
    for (size_t i = 0; i < o->children.len; i++)
        o->polls.len += run_listen_poll(o->children.at[i].listen, o->polls.at + o->polls.len);
    (void)poll(o->polls.at, o->polls.len, timeout);
}

void run_offers_step(struct run_offers *o)
{
    run_listen_step(&o->root);
    for (size_t i = o->children.len; i-- > 0;) {
        run_listen_step(o->children.at[i].listen);
        if (o->children.at[i].record && !run_listen_is_busy(o->children.at[i].listen))
            drop(o, i);
    }
}

bool run_offers_is_busy(const struct run_offers *o)
{
    bool busy = run_listen_is_busy(&o->root);
    for (size_t i = 0; i < o->children.len; i++)
        busy |= run_listen_is_busy(o->children.at[i].listen);
    return busy;
}

void run_offers_close(struct run_offers *o)
{
    run_listen_close(&o->root);
    for (size_t i = 0; i < o->children.len; i++)
        run_listen_close(o->children.at[i].listen);
}

void run_offers_release(struct run_offers *o)
{
    run_listen_release(&o->root);
    while (o->children.len)
        drop(o, o->children.len - 1);
    vec_release(&o->children);
    vec_release(&o->polls);
}
