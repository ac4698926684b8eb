#include "cli/selftest/selftest_client.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "protocol/answers.h"

#define ALLOCATIONS 4000u
#define LIFETIME 64u /* allocations before a block is freed */
#define LEAK_EVERY 50u
#define ZONE_EVERY 4u
#define PLOT_EVERY 10u
#define FRAME_EVERY 40u
#define MESSAGE_EVERY 100u
#define THREADS 2u
#define STEP_NS 1000 /* between two events */

/* Client addresses of what servers query. */
#define CODE UINT64_C(0x555500000000)
#define HEAP UINT64_C(0x7f0000000000)
#define TEXTS UINT64_C(0x555600000000) /* a pointer to each of `texts` */
#define THREAD_IDS 1000u

#define FILE_NAME "selftest.cpp"
#define STACK_DEPTH 3u /* a site and its two callers */

enum { TEXT_DEFAULT_POOL, TEXT_POOL, TEXT_PLOT, TEXT_COUNT };
static const char *const texts[TEXT_COUNT] = {"default", "selftest.gpu", "selftest plot"};

static uint64_t text_key(unsigned text)
{
    return text == TEXT_DEFAULT_POOL ? 0 : TEXTS + UINT64_C(32) * text;
}

/* Functions: the sites, then their two callers. */
static uint64_t symbol_of(unsigned function)
{
    return CODE + UINT64_C(64) * function;
}

static uint64_t frame_of(unsigned function)
{
    return symbol_of(function) + 17;
}

static unsigned function_of(uint64_t address)
{
    return address < CODE ? UINT32_MAX : (unsigned)((address - CODE) / 64);
}

static unsigned line_of(unsigned function)
{
    return 10 + function;
}

static void name_function(unsigned function, char out[40])
{
    snprintf(out, 40, "selftest::%s_%u()", function < SELFTEST_SITES ? "site" : "caller", function);
}

/* ---- the data it sends */

struct play {
    struct selftest_client *client;
    int64_t time;
    uint64_t size[ALLOCATIONS];
    struct err *e;
};

static int put(struct play *p, struct event ev)
{
    ev.time = p->time += STEP_NS;
    return client_stream_event(p->client->stream, &ev, p->e);
}

static unsigned site_of(unsigned i)
{
    return i % SELFTEST_SITES;
}

static unsigned pool_of(unsigned site)
{
    return site % 4 == 3 ? TEXT_POOL : TEXT_DEFAULT_POOL;
}

static struct event memory_event_of(enum event_kind kind, unsigned i, uint64_t size)
{
    return (struct event){.kind = kind,
                          .thread = THREAD_IDS + i % THREADS,
                          .callstack = site_of(i) + 1,
                          .mem = {text_key(pool_of(site_of(i))), HEAP + UINT64_C(4096) * i, size}};
}

static int put_allocation(struct play *p, unsigned i)
{
    struct selftest_site *site = &p->client->truth.sites[site_of(i)];
    struct selftest_pool *pool = &p->client->truth.pools[site->pool];
    uint64_t size = p->size[i] = 16 + i * 7919u % 3000;
    site->allocations++;
    site->bytes += size;
    pool->allocations++;
    pool->total_bytes += size;
    pool->live_bytes += size;
    if (pool->peak_bytes < pool->live_bytes)
        pool->peak_bytes = pool->live_bytes;
    return put(p, memory_event_of(EVENT_MEM_ALLOC, i, size));
}

static int put_free(struct play *p, unsigned i)
{
    struct selftest_pool *pool = &p->client->truth.pools[pool_of(site_of(i))];
    pool->frees++;
    pool->live_bytes -= p->size[i];
    return put(p, memory_event_of(EVENT_MEM_FREE, i, 0));
}

static int put_zone(struct play *p, unsigned i)
{
    const struct event_location at = {.name = view_of("selftest zone"),
                                      .function = view_of("play"),
                                      .file = view_of(FILE_NAME),
                                      .line = 7};
    p->client->truth.zones++;
    if (put(p, (struct event){.kind = EVENT_ZONE_BEGIN,
                              .thread = THREAD_IDS + i % THREADS,
                              .zone = {.payload = &at}}) != 0 ||
        put_allocation(p, i) != 0)
        return -1;
    return put(p, (struct event){.kind = EVENT_ZONE_END, .thread = THREAD_IDS + i % THREADS});
}

static int put_others(struct play *p, unsigned i)
{
    struct selftest_truth *t = &p->client->truth;
    if (i % PLOT_EVERY == 0) {
        t->plot_points++;
        if (put(p, (struct event){.kind = EVENT_PLOT,
                                  .thread = THREAD_IDS,
                                  .plot = {text_key(TEXT_PLOT), i}}) != 0)
            return -1;
    }
    if (i % FRAME_EVERY == 0) {
        t->frame_marks++;
        if (put(p, (struct event){.kind = EVENT_FRAME_MARK}) != 0)
            return -1;
    }
    if (i % MESSAGE_EVERY != 0)
        return 0;
    t->messages++;
    return put(
        p, (struct event){
               .kind = EVENT_MESSAGE,
               .thread = THREAD_IDS,
               .message = {.text = view_of("selftest message"), .color = 0xFFFFFF, .severity = 2}});
}

static int play(struct play *p)
{
    for (unsigned site = 0; site < SELFTEST_SITES; site++) {
        const uint64_t frames[STACK_DEPTH] = {frame_of(site), frame_of(SELFTEST_SITES),
                                              frame_of(SELFTEST_SITES + 1)};
        if (client_stream_callstack(p->client->stream, site + 1, frames, STACK_DEPTH, p->e) != 0)
            return -1;
    }
    for (unsigned i = 0; i < ALLOCATIONS; i++) {
        bool frees = i >= LIFETIME && (i - LIFETIME) % LEAK_EVERY != 0;
        if ((i % ZONE_EVERY == 0 ? put_zone(p, i) : put_allocation(p, i)) != 0 ||
            (frees && put_free(p, i - LIFETIME) != 0) || put_others(p, i) != 0)
            return -1;
    }
    return client_stream_end(p->client->stream, p->time, p->e);
}

/* ---- its answers */

static bool welcome(void *ctx, struct welcome *w)
{
    (void)ctx;
    w->epoch = (uint64_t)time(NULL);
    w->pid = (uint64_t)getpid();
    snprintf(w->program_name, sizeof w->program_name, "selftest");
    snprintf(w->host_info, sizeof w->host_info, "tidemark selftest");
    return true;
}

static int answer_function_at(struct encoder *enc, uint64_t address, struct err *e)
{
    char name[40];
    unsigned function = function_of(address);
    name_function(function, name);
    struct answer_function f = {.name = view_of(name),
                                .file = view_of(FILE_NAME),
                                .line = line_of(function),
                                .symbol = symbol_of(function),
                                .symbol_len = 64};
    return answer_frame(enc, address, view_of("selftest"), &f, 1, e);
}

static int asked(void *ctx, enum query_kind kind, uint64_t key, uint32_t extra, struct err *e)
{
    const struct selftest_client *c = ctx;
    struct encoder *enc = offer_replies(c->offer);
    struct view text = view_of("selftest");
    (void)extra;
    switch (kind) {
    case QUERY_STRING:
    case QUERY_PLOT_NAME:
        for (unsigned i = 1; i < TEXT_COUNT; i++)
            text = key == text_key(i) ? view_of(texts[i]) : text;
        return answer_text(enc, kind, key, text, e);
    case QUERY_THREAD:
    case QUERY_FRAME_NAME:
    case QUERY_FIBER_NAME:
    case QUERY_EXTERNAL_NAME:
        return answer_text(enc, kind, key, text, e);
    case QUERY_CALLSTACK_FRAME:
        return answer_function_at(enc, key, e);
    case QUERY_SYMBOL:
        return answer_symbol(enc, key, view_of(FILE_NAME), line_of(function_of(key)), e);
    default:
        return answer_nothing(enc, kind, key, e);
    }
}

/* ---- life cycle */

static void name_truth(struct selftest_truth *t)
{
    t->threads = THREADS;
    for (unsigned i = 0; i < SELFTEST_POOLS; i++)
        t->pools[i].name = texts[i];
    for (unsigned i = 0; i < SELFTEST_SITES; i++) {
        struct selftest_site *s = &t->sites[i];
        name_function(i, s->function);
        s->line = line_of(i);
        s->pool = pool_of(i);
    }
}

int selftest_client_open(struct selftest_client *c, uint32_t protocol, const char *spool,
                         struct err *e)
{
    struct play p = {.client = c, .e = e};
    const struct offer_options options = {.version = wire_version_find(protocol),
                                          .any_port = true,
                                          .spool = spool,
                                          .ctx = c,
                                          .welcome = welcome,
                                          .asked = asked};
    *c = (struct selftest_client){0};
    name_truth(&c->truth);
    if (!options.version)
        return err_set(e, ERR_USAGE, "no client speaks protocol %u", protocol);
    c->offer = offer_new(&options, e);
    if (!c->offer || offer_listen(c->offer, e) != 0)
        return -1;
    c->stream = client_stream_new(options.version);
    if (!c->stream)
        return err_no_memory(e, "the client");
    if (play(&p) != 0)
        return -1;
    const struct buf *out = client_stream_output(c->stream);
    if (out->failed)
        return err_no_memory(e, "the client");
    offer_set_program(c->offer, "selftest", (uint64_t)getpid());
    if (offer_append(c->offer, out->data, out->len, e) != 0)
        return -1;
    offer_end(c->offer);
    return 0;
}

void selftest_client_release(struct selftest_client *c)
{
    client_stream_free(c->stream);
    offer_free(c->offer);
}

int selftest_client_step(struct selftest_client *c, int ms, struct err *e)
{
    struct pollfd fds[OFFER_POLLS];
    (void)poll(fds, offer_poll(c->offer, fds), ms);
    return offer_step(c->offer, e);
}
