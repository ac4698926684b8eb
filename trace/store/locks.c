#include "trace/store/locks.h"

static const struct pack_layout event_layout = {
    .element = sizeof(struct lock_event),
    .count = 5,
    .fields = {{0, 8, PACK_STEP},
               {8, 4, PACK_OFFSET},
               {12, 1, PACK_OFFSET},
               {13, 1, PACK_OFFSET},
               {14, 2, PACK_OFFSET}},
};

static const struct pack_layout location_layout = {
    .element = sizeof(int16_t),
    .count = 1,
    .fields = {{0, 2, PACK_OFFSET}},
};

void locks_init(struct locks *l, struct spool *spool)
{
    *l = (struct locks){0};
    column_init(&l->events, spool, &event_layout, false);
    column_init(&l->locations, spool, &location_layout, true);
}

void locks_release(struct locks *l)
{
    for (size_t i = 0; i < l->list.len; i++)
        vec_release(&l->list.at[i].threads);
    vec_release(&l->list);
    map_release(&l->numbers);
    column_release(&l->events);
    column_release(&l->locations);
    *l = (struct locks){0};
}

int locks_announce(struct locks *l, uint32_t id, uint8_t type, int16_t location, int64_t time,
                   struct err *e)
{
    bool fresh;
    uint64_t *number = map_add(&l->numbers, id, &fresh);
    if (!number)
        return err_no_memory(e, "locks");
    if (!fresh)
        return 0;
    struct lock lock = {.id = id, .type = type, .location = location, .announced = time};
    *number = l->list.len;
    return vec_push(&l->list, lock) ? 0 : err_no_memory(e, "locks");
}

struct lock *locks_find(struct locks *l, uint32_t id)
{
    const uint64_t *number = map_find(&l->numbers, id);
    if (!number)
        l->unknown++;
    return number ? &l->list.at[*number] : NULL;
}

void locks_terminate(struct locks *l, uint32_t id, int64_t time)
{
    struct lock *lock = locks_find(l, id);
    if (lock) {
        lock->terminated = true;
        lock->ended = time;
    }
}

void locks_name(struct locks *l, uint32_t id, uint32_t text)
{
    struct lock *lock = locks_find(l, id);
    if (lock)
        lock->name = text;
}

static struct lock_thread *thread_of(struct lock *lock, uint64_t id)
{
    for (size_t i = 0; i < lock->threads.len; i++) {
        if (lock->threads.at[i].id == id)
            return &lock->threads.at[i];
    }
    return NULL;
}

static void thread_goes_on(struct lock_thread *t, enum lock_event_kind kind)
{
    switch (kind) {
    case LOCK_WAIT:
    case LOCK_WAIT_SHARED:
        t->waits = true;
        t->shared = kind == LOCK_WAIT_SHARED;
        break;
    case LOCK_OBTAIN:
    case LOCK_OBTAIN_SHARED:
        t->waits = false;
        t->shared = kind == LOCK_OBTAIN_SHARED;
        t->held++;
        break;
    case LOCK_RELEASE:
    case LOCK_RELEASE_SHARED:
        t->held -= t->held > 0;
        break;
    }
}

static int event_append(struct locks *l, const struct lock_event *ev, struct err *e)
{
    struct lock_event *to = column_append(&l->events, e);
    if (!to)
        return -1;
    *to = *ev;
    int16_t *location = column_append(&l->locations, e);
    if (!location) {
        column_drop_last(&l->events); /* keep the two columns in step */
        return -1;
    }
    *location = 0;
    return 0;
}

int locks_event(struct locks *l, struct lock *lock, enum lock_event_kind kind, uint64_t thread,
                int64_t time, struct err *e)
{
    struct lock_thread *t = thread_of(lock, thread);
    if (!t) {
        if (lock->threads.len >= LOCK_THREADS_MAX) {
            l->threads_over++;
            return 0;
        }
        if (!vec_push(&lock->threads, (struct lock_thread){.id = thread}))
            return err_no_memory(e, "locks");
        t = &lock->threads.at[lock->threads.len - 1];
    }
    const struct lock_event ev = {.time = time,
                                  .lock = (uint32_t)(lock - l->list.at),
                                  .thread = (uint8_t)(t - lock->threads.at),
                                  .kind = (uint8_t)kind};
    if (event_append(l, &ev, e) != 0)
        return -1;
    thread_goes_on(t, kind);
    if (kind != LOCK_RELEASE && kind != LOCK_RELEASE_SHARED)
        t->markable = l->events.len;
    if (kind == LOCK_OBTAIN)
        lock->holder = thread;
    lock->disorder |= lock->count > 0 && time < lock->newest;
    lock->newest = time;
    lock->count++;
    return 0;
}

int locks_mark(struct locks *l, uint32_t id, uint64_t thread, int16_t location, struct err *e)
{
    struct lock *lock = locks_find(l, id);
    const struct lock_thread *t = lock ? thread_of(lock, thread) : NULL;
    if (!t || !t->markable) {
        l->lone_marks += lock != NULL;
        return 0;
    }
    return column_patch(&l->locations, t->markable - 1, &location, e);
}

/* ---- parts */

#define HELD_AGAIN_MAX 64u /* deeper recursion is not a real program but hostile input */

/* Restores a thread's state at the end of the previous part. */
static int thread_again(struct locks *l, struct lock *lock, struct lock_thread was, struct err *e)
{
    for (uint32_t i = 0; i < was.held && i < HELD_AGAIN_MAX; i++) {
        if (locks_event(l, lock, was.shared ? LOCK_WAIT_SHARED : LOCK_WAIT, was.id, 0, e) != 0 ||
            locks_event(l, lock, was.shared ? LOCK_OBTAIN_SHARED : LOCK_OBTAIN, was.id, 0, e) != 0)
            return -1;
    }
    if (!was.waits)
        return 0;
    return locks_event(l, lock, was.shared ? LOCK_WAIT_SHARED : LOCK_WAIT, was.id, 0, e);
}

static int lock_again(struct locks *l, size_t number, struct err *e)
{
    struct lock *lock = &l->list.at[number];
    const struct lock was = *lock;
    lock->announced = 0;
    lock->count = 0;
    lock->disorder = false;
    lock->threads.len = 0;
    lock->threads.cap = 0;
    lock->threads.at = NULL;
    int status = 0;
    for (size_t i = 0; i < was.threads.len && status == 0; i++)
        status = thread_again(l, lock, was.threads.at[i], e);
    lock->holder = was.holder;
    free(was.threads.at);
    return status;
}

int locks_carry(struct locks *l, struct err *e)
{
    size_t kept = 0;
    column_clear(&l->events);
    column_clear(&l->locations);
    map_release(&l->numbers);
    l->unknown = l->threads_over = l->lone_marks = 0;
    for (size_t i = 0; i < l->list.len; i++) {
        if (l->list.at[i].terminated)
            vec_release(&l->list.at[i].threads);
        else
            l->list.at[kept++] = l->list.at[i];
    }
    l->list.len = kept;
    for (size_t i = 0; i < kept; i++) {
        uint64_t *number = map_add(&l->numbers, l->list.at[i].id, NULL);
        if (!number)
            return err_no_memory(e, "locks");
        *number = i;
        if (lock_again(l, i, e) != 0)
            return -1;
    }
    return 0;
}
