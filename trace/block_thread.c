#include "trace/block_thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct waiting {
    size_t len;
    bool has_events;
    size_t first, end; /* memory events */
    uint8_t bytes[BLOCK_SIZE];
};

struct block_thread {
    struct block_sink to;
    bool running; /* else the sink is called by who puts */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t came, went;
    /* under the lock; blocks done … put are the thread's, the others are free */
    uint64_t put, done;
    bool last;   /* no more will come */
    bool failed; /* blocks are dropped, because of `err` or because it was given up */
    struct err err;
    /* of who puts */
    bool has_events;
    size_t first, end;
    struct waiting blocks[BLOCK_THREAD_DEPTH];
};

/* ---- the thread */

/* The next block; NULL when there is no more. */
static struct waiting *next(struct block_thread *t)
{
    pthread_mutex_lock(&t->lock);
    while (t->put == t->done && !t->last)
        pthread_cond_wait(&t->came, &t->lock);
    struct waiting *w = t->put > t->done ? &t->blocks[t->done % BLOCK_THREAD_DEPTH] : NULL;
    if (t->failed)
        w = NULL;
    pthread_mutex_unlock(&t->lock);
    return w;
}

static void *hand_over(void *arg)
{
    struct block_thread *t = arg;
    struct err e = {0};
    int status = 0;
    for (struct waiting *w; status == 0 && (w = next(t));) {
        if (w->has_events && t->to.events)
            t->to.events(t->to.ctx, w->first, w->end);
        status = t->to.put(t->to.ctx, w->bytes, w->len, &e);
        pthread_mutex_lock(&t->lock);
        t->done++;
        if (status != 0) {
            t->failed = true;
            t->err = e;
        }
        pthread_cond_signal(&t->went);
        pthread_mutex_unlock(&t->lock);
    }
    return NULL;
}

/* Signals are for the thread that began it all. */
static bool start(struct block_thread *t)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool started = pthread_create(&t->thread, NULL, hand_over, t) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* ---- who puts */

int block_thread_open(struct block_thread **out, struct block_sink to, struct err *e)
{
    struct block_thread *t = calloc(1, sizeof *t);
    *out = t;
    if (!t)
        return err_no_memory(e, "the output of a trace");
    t->to = to;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->came, NULL);
    pthread_cond_init(&t->went, NULL);
    t->running = start(t);
    return 0;
}

static void put_events(void *ctx, size_t first, size_t end)
{
    struct block_thread *t = ctx;
    if (!t->running) {
        if (t->to.events)
            t->to.events(t->to.ctx, first, end);
        return;
    }
    t->has_events = true;
    t->first = first;
    t->end = end;
}

/* Waits for room. False when the sink has failed. */
static bool wait_for_room(struct block_thread *t)
{
    pthread_mutex_lock(&t->lock);
    while (t->put - t->done == BLOCK_THREAD_DEPTH && !t->failed)
        pthread_cond_wait(&t->went, &t->lock);
    bool room = !t->failed;
    pthread_mutex_unlock(&t->lock);
    return room;
}

static int put_block(void *ctx, const uint8_t *block, size_t len, struct err *e)
{
    struct block_thread *t = ctx;
    if (!t->running)
        return t->to.put(t->to.ctx, block, len, e);
    if (!wait_for_room(t)) {
        *e = t->err;
        return -1;
    }
    /* Free, and nobody else's: only here are blocks added. */
    struct waiting *w = &t->blocks[t->put % BLOCK_THREAD_DEPTH];
    memcpy(w->bytes, block, len);
    w->len = len;
    w->has_events = t->has_events;
    w->first = t->first;
    w->end = t->end;
    t->has_events = false;
    pthread_mutex_lock(&t->lock);
    t->put++;
    pthread_cond_signal(&t->came);
    pthread_mutex_unlock(&t->lock);
    return 0;
}

struct block_sink block_thread_sink(struct block_thread *t)
{
    return (struct block_sink){.ctx = t, .put = put_block, .events = put_events};
}

static void end(struct block_thread *t, bool drop)
{
    if (!t->running)
        return;
    pthread_mutex_lock(&t->lock);
    t->last = true;
    t->failed |= drop;
    pthread_cond_signal(&t->came);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    t->running = false;
}

int block_thread_finish(struct block_thread *t, struct err *e)
{
    end(t, false);
    if (!t->failed)
        return 0;
    *e = t->err;
    return -1;
}

void block_thread_free(struct block_thread *t)
{
    if (!t)
        return;
    end(t, true);
    pthread_cond_destroy(&t->went);
    pthread_cond_destroy(&t->came);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
