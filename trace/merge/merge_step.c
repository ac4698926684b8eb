#include "trace/merge/merge_step.h"

#include <errno.h>

static void take(sem_t *sem)
{
    while (sem_wait(sem) != 0 && errno == EINTR)
        ;
}

static void *run_reader(void *ctx)
{
    struct step *s = ctx;
    take(&s->go);
    s->status = s->stop ? -1 : s->run(s->ctx, s, &s->err);
    s->ended = true;
    sem_post(&s->back);
    return NULL;
}

int step_start(struct step *s, struct err *e)
{
    s->started = s->ended = s->stop = false;
    if (sem_init(&s->go, 0, 0) != 0)
        return err_errno(e, ERR_MEMORY, "memory or threads are short for a reader");
    if (sem_init(&s->back, 0, 0) != 0) {
        sem_destroy(&s->go);
        return err_errno(e, ERR_MEMORY, "memory or threads are short for a reader");
    }
    errno = pthread_create(&s->thread, NULL, run_reader, s);
    s->started = errno == 0;
    if (s->started)
        return 0;
    err_errno(e, ERR_MEMORY, "memory or threads are short for a reader");
    sem_destroy(&s->go);
    sem_destroy(&s->back);
    return -1;
}

int step_on(struct step *s, struct err *e)
{
    if (!s->ended) {
        sem_post(&s->go);
        take(&s->back);
    }
    if (!s->ended || s->status == 0)
        return 0;
    *e = s->err;
    return -1;
}

int step_wait(struct step *s, struct err *e)
{
    sem_post(&s->back);
    take(&s->go);
    return s->stop ? err_set(e, ERR_INPUT, "given up") : 0;
}

void step_end(struct step *s)
{
    if (!s->started)
        return;
    if (!s->ended) {
        s->stop = true;
        sem_post(&s->go);
    }
    pthread_join(s->thread, NULL);
    sem_destroy(&s->go);
    sem_destroy(&s->back);
    s->started = false;
}
