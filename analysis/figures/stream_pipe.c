#include "analysis/figures/stream_pipe.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

/* Portions: one is filled, one is counted, the others are queued. */
#define PORTIONS 4u

struct stream_pipe {
    struct stream_pipe_kind kind;
    void *ctx;
    bool running; /* else portions are counted when they are put */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t came, went;
    /* under the lock; portions counted … put belong to the thread, the others to the producer */
    uint64_t put, counted;
    bool stop;
    bool failed; /* with `err`: nothing more is counted */
    struct err err;
    char *portions;
};

static void *portion_at(const struct stream_pipe *p, uint64_t number)
{
    return p->portions + number % PORTIONS * p->kind.size;
}

/* ---- the thread */

/* Waits for a portion; NULL at the end. */
static void *next_portion(struct stream_pipe *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->put == p->counted && !p->stop)
        pthread_cond_wait(&p->came, &p->lock);
    void *next = p->stop ? NULL : portion_at(p, p->counted);
    pthread_mutex_unlock(&p->lock);
    return next;
}

static void *count_portions(void *arg)
{
    struct stream_pipe *p = arg;
    bool failed = false;
    for (void *next; (next = next_portion(p));) {
        struct err e = {0};
        bool fails = !failed && p->kind.take(p->ctx, next, &e) != 0;
        pthread_mutex_lock(&p->lock);
        if (fails) {
            p->failed = failed = true;
            p->err = e;
        }
        p->counted++;
        pthread_cond_signal(&p->went);
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

/* ---- the producer */

int stream_pipe_open(struct stream_pipe **out, const struct stream_pipe_kind *kind, void *ctx,
                     struct err *e)
{
    struct stream_pipe *p = calloc(1, sizeof *p);
    *out = p;
    if (p)
        p->portions = calloc(PORTIONS, kind->size);
    if (!p || !p->portions) {
        free(p);
        *out = NULL;
        return err_no_memory(e, "steps on their way");
    }
    p->kind = *kind;
    p->ctx = ctx;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->came, NULL);
    pthread_cond_init(&p->went, NULL);
    return 0;
}

/* Signals are for the main thread. */
void stream_pipe_start(struct stream_pipe *p)
{
    sigset_t all, before;
    sigfillset(&all);
    if (p->running || pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return;
    p->running = pthread_create(&p->thread, NULL, count_portions, p) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void *stream_pipe_room(struct stream_pipe *p)
{
    return portion_at(p, p->put);
}

static int result(const struct stream_pipe *p, struct err *e)
{
    if (p->failed && e)
        *e = p->err;
    return p->failed ? -1 : 0;
}

int stream_pipe_put(struct stream_pipe *p, struct err *e)
{
    if (!p->running)
        return p->kind.take(p->ctx, stream_pipe_room(p), e);
    pthread_mutex_lock(&p->lock);
    p->put++;
    pthread_cond_signal(&p->came);
    while (p->put - p->counted == PORTIONS)
        pthread_cond_wait(&p->went, &p->lock);
    int status = result(p, e);
    pthread_mutex_unlock(&p->lock);
    return status;
}

int stream_pipe_drain(struct stream_pipe *p, struct err *e)
{
    pthread_mutex_lock(&p->lock);
    while (p->put != p->counted)
        pthread_cond_wait(&p->went, &p->lock);
    int status = result(p, e);
    pthread_mutex_unlock(&p->lock);
    return status;
}

void stream_pipe_close(struct stream_pipe *p)
{
    if (!p)
        return;
    if (p->running) {
        pthread_mutex_lock(&p->lock);
        p->stop = true;
        pthread_cond_signal(&p->came);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->thread, NULL);
    }
    for (unsigned i = 0; i < PORTIONS && p->kind.release; i++)
        p->kind.release(portion_at(p, i));
    free(p->portions);
    pthread_cond_destroy(&p->came);
    pthread_cond_destroy(&p->went);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
