#include "client/threads.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/chunks.h"
#include "client/api.h"
#include "client/events.h"
#include "client/got.h"
#include "client/quiet.h"
#include "client/real.h"
#include "client/record_write.h"
#include "client/sampling.h"

#define LAST_ROUND 4u      /* of the destructors, PTHREAD_DESTRUCTOR_ITERATIONS */
#define WORTH_KEEPING 2048 /* bytes free in a chunk that another thread may go on with */
#define SLAB 65536u        /* bytes of the thread structs that are made at once */

__thread struct tls tls __attribute__((tls_model("initial-exec")));

/* Signals are blocked where this lock is taken, so nobody waits for a thread that waits for him. */
static void lock(void)
{
    while (atomic_exchange_explicit(&state.lock, 1, memory_order_acquire))
        (void)sched_yield();
}

static void unlock(void)
{
    atomic_store_explicit(&state.lock, 0, memory_order_release);
}

/*
 * Runs in each of the rounds in which a thread's data is destroyed and gives the thread's chunk
 * back in the last one, for destructors of others may still free memory.
 */
static void at_thread_end(void *unused)
{
    (void)unused;
    if (++tls.rounds < LAST_ROUND && pthread_setspecific(state.key, &state) == 0)
        return;
    if (!atomic_load_explicit(&live.page.on, memory_order_relaxed))
        return;
    threads_loaded();
    api_zone_close(&tls.main);
    if (!tls.thread) {
        sampling_count_small();
        event_count_left_out();
        return;
    }
    tls.depth++;
    client_barrier();
    threads_note_name(tls.thread);
    record_loss(tls.thread);
    event_count_left_out();
    record_thread_exit(tls.thread);
    sampling_count_small();
    tls.ended = true;
    threads_detach();
    client_barrier();
    tls.depth--;
}

void threads_begin(void)
{
    pthread_key_t key;
    state.has_key = pthread_key_create(&key, at_thread_end) == 0;
    state.key = key;
}

void threads_expect_end(void)
{
    struct quiet q;
    if (!state.has_key || tls.ended)
        return;
    quiet_begin(&q);
    (void)pthread_setspecific(state.key, &state);
    quiet_end(&q);
}

static struct thread *new_thread(void)
{
    lock();
    struct thread *t = state.waiting;
    if (t)
        state.waiting = t->next;
    unlock();
    if (t)
        return t;
    char *slab = chunks_memory(SLAB);
    if (!slab)
        return NULL;
    size_t size = (sizeof *t + 63) & ~(size_t)63;
    lock();
    for (size_t at = size; at + size <= SLAB; at += size) {
        struct thread *more = (struct thread *)(slab + at);
        more->next = state.waiting;
        state.waiting = more;
    }
    unlock();
    return (struct thread *)slab;
}

static bool is_own_stack(const struct thread *t, uint64_t address)
{
    return address >= t->stack_low && address < t->stack_high;
}

bool threads_load(const struct origin *origin, const struct own_zone *zone)
{
    struct thread *t = tls.thread;
    if (!t || !is_own_stack(t, origin->sp - 8))
        return false;
    tls.loading.origin = *origin;
    tls.loading.zone = *zone;
    tls.loading.thread = t;
    client_barrier();
    tls.thread = NULL;
    return true;
}

/* Within an event. */
static void end_loading(void)
{
    struct thread *t = tls.loading.thread;
    const struct own_zone *zone = &tls.loading.zone;
    tls.thread = t;
    client_barrier();
    tls.loading.thread = NULL;
    uint8_t *at = NULL;
    if (client_unlikely(real_is_late()))
        got_hook((state.pools & REC_POOLS_MMAP) != 0);
    if (zone->pid == state.pid && !tls.zones_dropped && tls.zones == zone->depth)
        at = record_begin(t);
    if (!at)
        return;
    record_end(t, REC_ZONE_END, at);
    tls.zones--;
}

void threads_loaded(void)
{
    if (!tls.loading.thread || tls.entered || tls.depth ||
        atomic_load_explicit(&live.page.on, memory_order_relaxed) != LIVE_ON)
        return;
    tls.depth++;
    client_barrier();
    end_loading();
    client_barrier();
    tls.depth--;
}

/*
 * What dlopen calls lies below its caller's frames, and its return address is still there. (Other
 * stacks are those of handlers and coroutines, where nobody knows.)
 */
static bool is_loading(void)
{
    const struct origin *origin = &tls.loading.origin;
    if (!tls.entered || !is_own_stack(tls.loading.thread, tls.entered))
        return tls.entered != 0;
    return tls.entered < origin->sp && *(const uint64_t *)(uintptr_t)(origin->sp - 8) == origin->pc;
}

struct thread *threads_attach(void)
{
    struct quiet q;
    if (tls.loading.thread) {
        struct thread *loading = tls.loading.thread;
        if (!is_loading())
            end_loading();
        return loading;
    }
    quiet_begin(&q);
    struct thread *t = tls.thread; /* a signal may have come first */
    if (!t)
        t = new_thread();
    if (t && !tls.thread) {
        memset(t, 0, sizeof *t);
        if (!tls.number) {
            tls.number = atomic_fetch_add(&state.thread_count, 1) + 1;
            atomic_store_explicit(&state.header->threads, tls.number, memory_order_relaxed);
        }
        t->number = tls.number - 1;
        t->tid = (int32_t)syscall(SYS_gettid);
        for (unsigned i = 0; i < CLIENT_LEVELS; i++)
            t->writers[i].units = 1;
        tls.thread = t;
        if (state.has_key && !tls.ended)
            (void)pthread_setspecific(state.key, &state);
    }
    quiet_end(&q);
    return t;
}

/* Leaves the chunk to the next thread, or for good. */
static void give_back(struct writer *w)
{
    struct rec_chunk *chunk = w->chunk;
    if (!chunk)
        return;
    bool kept = false;
    w->chunk = NULL;
    if (w->end - w->at >= WORTH_KEEPING) {
        atomic_store_explicit(&chunk->state, REC_CHUNK_RESTING, memory_order_release);
        lock();
        if (state.resting_count < CLIENT_RESTING) {
            state.resting[state.resting_count++] = (struct resting){chunk, w->stamp};
            kept = true;
        }
        unlock();
    }
    if (!kept)
        chunks_leave(chunk, REC_CHUNK_CLOSED);
    w->at = w->end = NULL;
}

void threads_detach(void)
{
    struct quiet q;
    quiet_begin(&q);
    struct thread *t = tls.thread;
    if (t) {
        for (unsigned i = 0; i < CLIENT_LEVELS; i++)
            give_back(&t->writers[i]);
        tls.thread = NULL;
        lock();
        t->next = state.waiting;
        state.waiting = t;
        unlock();
    }
    quiet_end(&q);
}

void threads_recover(struct thread *t)
{
    struct quiet q;
    quiet_begin(&q);
    for (unsigned i = 0; i < CLIENT_LEVELS; i++) {
        struct writer *w = &t->writers[i];
        struct rec_chunk *chunk = w->chunk;
        *w = (struct writer){.units = 1};
        if (!chunk)
            continue;
        atomic_store_explicit(&chunk->pending, REC_IDLE, memory_order_release);
        chunks_leave(chunk, REC_CHUNK_CLOSED);
    }
    t->walk.count = 0;
    memset(t->known, 0, sizeof t->known);
    tls.depth = 0;
    tls.entered = 0;
    quiet_end(&q);
}

void threads_forget(void)
{
    atomic_store(&state.lock, 0);
    state.waiting = NULL;
    state.resting_count = 0;
    atomic_store(&state.thread_count, 0);
    tls.thread = NULL;
    tls.number = 0;
    tls.depth = 0;
    tls.entered = 0;
    tls.zones = tls.zones_dropped = 0;
    tls.loading.thread = NULL;
    tls.paused = tls.others = tls.asked = 0;
    tls.paused_bytes = 0;
}

static void use_chunk(struct writer *w, struct rec_chunk *chunk, uint64_t stamp)
{
    w->chunk = chunk;
    w->at = (uint8_t *)(chunk + 1) + atomic_load_explicit(&chunk->committed, memory_order_relaxed);
    w->end = (uint8_t *)chunk + chunks_bytes(chunk);
    w->stamp = stamp;
    w->address = 0;
    w->reserve = state.drops && !chunks_fit(0);
}

/* Many threads with large chunks would hold more than the bound allows. */
static void fit_size(struct writer *w)
{
    uint64_t bound = state.header->options.file_bytes / REC_UNIT;
    uint64_t threads = atomic_load_explicit(&state.thread_count, memory_order_relaxed);
    while (bound && w->units > 1 && w->units * threads > bound / 2)
        w->units /= 2;
}

/* Goes on with a chunk that another thread left. */
static bool take_resting(struct thread *t, unsigned level)
{
    struct resting rest = {NULL, 0};
    lock();
    if (state.resting_count)
        rest = state.resting[--state.resting_count];
    unlock();
    if (!rest.chunk)
        return false;
    use_chunk(&t->writers[level], rest.chunk, rest.stamp);
    atomic_store_explicit(&rest.chunk->state, REC_CHUNK_OPEN, memory_order_release);
    record_owner(t, level);
    return true;
}

static bool take_new(struct thread *t, unsigned level)
{
    struct writer *w = &t->writers[level];
    fit_size(w);
    struct rec_chunk *chunk = chunks_take(REC_CHUNK_EVENTS, w->units);
    if (!chunk)
        return false;
    if (w->units < REC_CHUNK_UNITS)
        w->units *= 2;
    chunk->thread = t->number;
    chunk->tid = t->tid;
    chunk->level = level;
    use_chunk(w, chunk, chunk->base_stamp);
    chunks_publish(chunk);
    return true;
}

/* So that it can be read, and its space given back. */
static void close_chunk(struct writer *w)
{
    struct rec_chunk *old = w->chunk;
    w->chunk = NULL;
    w->at = w->end = NULL;
    if (old)
        chunks_leave(old, REC_CHUNK_CLOSED);
}

bool threads_may_add(struct thread *t, unsigned level, size_t need)
{
    struct writer *w = &t->writers[level];
    bool room = (size_t)(w->end - w->at) >= need;
    if (client_likely(room && !w->reserve))
        return true;
    if (!chunks_fit(room ? 0 : w->units)) {
        struct quiet q;
        if (!room && w->chunk) {
            quiet_begin(&q);
            close_chunk(w);
            quiet_end(&q);
        }
        return false;
    }
    w->reserve = false;
    return true;
}

bool threads_room_slow(struct thread *t, unsigned level, size_t need)
{
    struct writer *w = &t->writers[level];
    struct quiet q;
    bool fresh = !w->chunk;
    quiet_begin(&q);
    close_chunk(w);
    bool there = fresh && need < WORTH_KEEPING / 2 && take_resting(t, level);
    there = there || take_new(t, level);
    quiet_end(&q);
    if (there && level == 0 && need < REC_RECORD_MAX)
        threads_note_name(t);
    return there && (size_t)(w->end - w->at) >= need;
}

void threads_note_name(struct thread *t)
{
    char name[16] = "";
    int saved = errno;
    if (state.nameless)
        return;
    (void)prctl(PR_GET_NAME, name, 0, 0, 0);
    errno = saved;
    if (memcmp(name, t->name, sizeof name) == 0)
        return;
    memcpy(t->name, name, sizeof name);
    record_thread_name(t, name);
}
