#include "trace/file/read_ahead.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The container's state after a block was read. */
struct state {
    struct container_info info;
    struct container_mark mark;
};

struct waiting {
    ssize_t got; /* bytes; 0 at the end, -1 with `err` */
    struct err err;
    struct state state;
    uint8_t bytes[SOURCE_ROOM];
};

struct read_ahead {
    struct container_reader *from;
    struct byte_source source;
    bool running; /* false: blocks are read on demand */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t came, went;
    /* guarded by the lock; the consumer owns blocks taken … put, the thread the others */
    uint64_t put, taken;
    bool stop;
    /* owned by the consumer */
    struct state state;
    struct waiting blocks[READ_AHEAD_DEPTH];
};

static struct state state_of(struct container_reader *from)
{
    return (struct state){*container_reader_info(from), container_reader_mark(from)};
}

/* ---- the thread */

/* Waits for room; NULL when the consumer has stopped. */
static struct waiting *next_room(struct read_ahead *r)
{
    pthread_mutex_lock(&r->lock);
    while (r->put - r->taken == READ_AHEAD_DEPTH && !r->stop)
        pthread_cond_wait(&r->went, &r->lock);
    struct waiting *w = r->stop ? NULL : &r->blocks[r->put % READ_AHEAD_DEPTH];
    pthread_mutex_unlock(&r->lock);
    return w;
}

static void *read_blocks(void *arg)
{
    struct read_ahead *r = arg;
    ssize_t got = 1;
    for (struct waiting *w; got > 0 && (w = next_room(r));) {
        w->err = (struct err){0};
        got = w->got = r->source.read(r->source.ctx, w->bytes, sizeof w->bytes, &w->err);
        w->state = state_of(r->from);
        pthread_mutex_lock(&r->lock);
        r->put++;
        pthread_cond_signal(&r->came);
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

/* The new thread blocks all signals: the program's own threads handle them. */
static bool start(struct read_ahead *r)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool started = pthread_create(&r->thread, NULL, read_blocks, r) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* ---- the consumer */

int read_ahead_open(struct read_ahead **out, struct container_reader *from, struct err *e)
{
    struct read_ahead *r = malloc(sizeof *r);
    *out = r;
    if (!r)
        return err_no_memory(e, "the buffers of a trace file");
    r->from = from;
    r->source = container_reader_source(from);
    r->put = r->taken = 0;
    r->stop = false;
    r->state = state_of(from);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->came, NULL);
    pthread_cond_init(&r->went, NULL);
    r->running = start(r);
    return 0;
}

static ssize_t take_block(void *ctx, uint8_t *out, size_t room, struct err *e)
{
    struct read_ahead *r = ctx;
    if (!r->running) {
        ssize_t got = r->source.read(r->source.ctx, out, room, e);
        r->state = state_of(r->from);
        return got;
    }
    pthread_mutex_lock(&r->lock);
    while (r->put == r->taken)
        pthread_cond_wait(&r->came, &r->lock);
    pthread_mutex_unlock(&r->lock);
    const struct waiting *w = &r->blocks[r->taken % READ_AHEAD_DEPTH];
    ssize_t got = w->got;
    r->state = w->state;
    if (got <= 0) {
        /* The last result stays for repeated calls. */
        if (got < 0)
            *e = w->err;
        return got;
    }
    memcpy(out, w->bytes, (size_t)got);
    pthread_mutex_lock(&r->lock);
    r->taken++;
    pthread_cond_signal(&r->went);
    pthread_mutex_unlock(&r->lock);
    return got;
}

struct byte_source read_ahead_source(struct read_ahead *r)
{
    return (struct byte_source){.ctx = r, .read = take_block};
}

const struct container_info *read_ahead_info(const struct read_ahead *r)
{
    return &r->state.info;
}

struct container_mark read_ahead_mark(const struct read_ahead *r)
{
    return r->state.mark;
}

void read_ahead_free(struct read_ahead *r)
{
    if (!r)
        return;
    if (r->running) {
        pthread_mutex_lock(&r->lock);
        r->stop = true;
        pthread_cond_signal(&r->went);
        pthread_mutex_unlock(&r->lock);
        pthread_join(r->thread, NULL);
    }
    pthread_cond_destroy(&r->went);
    pthread_cond_destroy(&r->came);
    pthread_mutex_destroy(&r->lock);
    free(r);
}
