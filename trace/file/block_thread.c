#include "trace/file/block_thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* A block and its encoded form. */
struct place {
    size_t len;
    size_t first, end; /* range of memory events */
    bool encoded;      /* guarded by the lock; the block's holder owns the rest */
    size_t size;
    uint8_t *out;
    uint8_t bytes[BLOCK_SIZE];
};

struct lane {
    struct block_thread *all;
    unsigned number; /* of the lane's thread */
    pthread_t thread;
};

struct block_thread {
    struct block_work work;
    bool running; /* false: block_thread_sink does the work itself */
    unsigned threads;
    struct lane lanes[BLOCK_THREAD_LANES];
    pthread_mutex_t lock;
    pthread_cond_t came, went;
    /* guarded by the lock; threads own blocks written … put, the others are free */
    uint64_t put, written;
    bool writing; /* a thread is writing */
    bool last;    /* no more blocks will come */
    bool failed;  /* drop blocks, after the error in `err` or a release without finish */
    struct err err;
    /* owned by the producer */
    size_t first, end;
    uint8_t *room; /* for `out` of all places */
    struct place places[BLOCK_THREAD_DEPTH];
};

static struct place *place_of(struct block_thread *t, uint64_t block)
{
    return &t->places[block % BLOCK_THREAD_DEPTH];
}

/* ---- the threads; these functions hold the lock */

static void fail(struct block_thread *t, const struct err *e)
{
    if (!t->failed)
        t->err = *e;
    t->failed = true;
    pthread_cond_broadcast(&t->came);
    pthread_cond_signal(&t->went);
}

/* Writes encoded blocks in order, unless another thread is writing; that one will see them. */
static void write_on(struct block_thread *t)
{
    struct err e = {0};
    if (t->writing)
        return;
    t->writing = true;
    while (t->written < t->put && place_of(t, t->written)->encoded && !t->failed) {
        struct place *p = place_of(t, t->written);
        pthread_mutex_unlock(&t->lock);
        int status = t->work.append(t->work.ctx, p->out, p->size, &e);
        pthread_mutex_lock(&t->lock);
        p->encoded = false;
        if (status != 0) {
            fail(t, &e);
            break;
        }
        t->written++;
        pthread_cond_signal(&t->went);
    }
    t->writing = false;
}

static int encode(struct block_thread *t, uint64_t block, struct place *p, struct err *e)
{
    const struct stream_block b = {p->bytes, p->len, p->first, p->end};
    return t->work.encode(t->work.ctx, (unsigned)(block % t->work.lanes), &b, p->out, &p->size, e);
}

/* Waits for a block. False when none will come. */
static bool wait_for(struct block_thread *t, uint64_t block)
{
    while (t->put <= block && !t->last && !t->failed)
        pthread_cond_wait(&t->came, &t->lock);
    return t->put > block && !t->failed;
}

/*
 * Lanes are assigned to threads round robin, as blocks are to lanes, so a lane always has the same
 * thread.
 */
static void *run_lane(void *arg)
{
    const struct lane *lane = arg;
    struct block_thread *t = lane->all;
    struct err e = {0};
    pthread_mutex_lock(&t->lock);
    for (uint64_t i = 0; wait_for(t, i); i++) {
        if (i % t->work.lanes % t->threads != lane->number)
            continue;
        struct place *p = place_of(t, i);
        pthread_mutex_unlock(&t->lock);
        int status = encode(t, i, p, &e);
        pthread_mutex_lock(&t->lock);
        if (status != 0) {
            fail(t, &e);
            break;
        }
        p->encoded = true;
        write_on(t);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* ---- beginning and end */

static void end(struct block_thread *t, bool drop)
{
    pthread_mutex_lock(&t->lock);
    t->last = true;
    t->failed |= drop;
    pthread_cond_broadcast(&t->came);
    pthread_mutex_unlock(&t->lock);
    for (unsigned i = 0; i < t->threads; i++)
        pthread_join(t->lanes[i].thread, NULL);
    t->running = false;
    t->threads = 0;
}

/* The new threads block all signals: the program's own threads handle them. */
static bool start(struct block_thread *t)
{
    sigset_t all, before;
    unsigned n = t->work.lanes < BLOCK_THREAD_LANES ? t->work.lanes : BLOCK_THREAD_LANES;
    bool started = true;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    /* Threads read the thread count only when the first block arrives. */
    for (unsigned i = 0; i < n && started; i++) {
        t->lanes[i] = (struct lane){.all = t, .number = i};
        started = pthread_create(&t->lanes[i].thread, NULL, run_lane, &t->lanes[i]) == 0;
        t->threads += started;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!started)
        end(t, false);
    return started;
}

int block_thread_open(struct block_thread **out, struct block_work work, struct err *e)
{
    struct block_thread *t = calloc(1, sizeof *t);
    *out = t;
    if (t)
        t->room = malloc(BLOCK_THREAD_DEPTH * work.room);
    if (!t || !t->room) {
        free(t);
        *out = NULL;
        return err_no_memory(e, "the output of a trace");
    }
    t->work = work;
    for (unsigned i = 0; i < BLOCK_THREAD_DEPTH; i++)
        t->places[i].out = t->room + i * work.room;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->came, NULL);
    pthread_cond_init(&t->went, NULL);
    t->running = start(t);
    return 0;
}

int block_thread_finish(struct block_thread *t, struct err *e)
{
    if (t->running)
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
    if (t->running)
        end(t, true);
    pthread_cond_destroy(&t->went);
    pthread_cond_destroy(&t->came);
    pthread_mutex_destroy(&t->lock);
    free(t->room);
    free(t);
}

/* ---- the producer */

static void put_events(void *ctx, size_t first, size_t end)
{
    struct block_thread *t = ctx;
    t->first = first;
    t->end = end;
}

/* Waits for a free place. False when the work has failed. */
static bool wait_for_room(struct block_thread *t)
{
    pthread_mutex_lock(&t->lock);
    while (t->put - t->written == BLOCK_THREAD_DEPTH && !t->failed)
        pthread_cond_wait(&t->went, &t->lock);
    bool room = !t->failed;
    pthread_mutex_unlock(&t->lock);
    return room;
}

/* Encodes and writes without a thread. */
static int put_now(struct block_thread *t, struct place *p, struct err *e)
{
    if (encode(t, t->put, p, e) != 0 || t->work.append(t->work.ctx, p->out, p->size, e) != 0) {
        fail(t, e);
        return -1;
    }
    t->put++;
    t->written++;
    return 0;
}

static int put_block(void *ctx, const uint8_t *block, size_t len, struct err *e)
{
    struct block_thread *t = ctx;
    if (!wait_for_room(t)) {
        *e = t->err;
        return -1;
    }
    /* Free, and no thread uses it: only this function adds blocks. */
    struct place *p = place_of(t, t->put);
    memcpy(p->bytes, block, len);
    p->len = len;
    p->first = t->first;
    p->end = t->end;
    t->first = t->end = 0;
    if (!t->running)
        return put_now(t, p, e);
    pthread_mutex_lock(&t->lock);
    t->put++;
    pthread_cond_broadcast(&t->came);
    pthread_mutex_unlock(&t->lock);
    return 0;
}

struct block_sink block_thread_sink(struct block_thread *t)
{
    return (struct block_sink){.ctx = t, .put = put_block, .events = put_events};
}
