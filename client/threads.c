#include "client/threads.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/api.h"
#include "client/chunks.h"
#include "client/events.h"
#include "client/got.h"
#include "client/kernel_map.h"
#include "client/python/python.h"
#include "client/quiet.h"
#include "client/real.h"
#include "client/record_write.h"
#include "client/sampling.h"

#define LAST_ROUND 4u      /* of the destructors, PTHREAD_DESTRUCTOR_ITERATIONS */
#define WORTH_KEEPING 2048 /* free bytes that make a chunk worth continuing by another thread */
#define SLAB 262144u       /* bytes of thread structs allocated at once */
#define PATIENCE_MS 1000u  /* timeout for threads that are in hooks */

__thread struct tls tls __attribute__((tls_model("initial-exec")));

/* Callers block signals first, so that a handler never waits for its own thread. */
static void lock(void)
{
    while (atomic_exchange_explicit(&state.lock, 1, memory_order_acquire))
        (void)sched_yield();
}

static void unlock(void)
{
    atomic_store_explicit(&state.lock, 0, memory_order_release);
}

/* ---- threads that use the recording */

/* Registers the thread, so that its end is noticed and other threads know it until then. */
static void meet(void)
{
    if (tls.is_known || tls.ended)
        return;
    if (!state.has_key || pthread_setspecific(state.key, &state) != 0) {
        state.unknown_threads = true;
        return;
    }
    lock();
    if (!tls.is_known) { /* by a hook within that call */
        tls.is_known = true;
        tls.previous = NULL;
        tls.next = state.known;
        if (tls.next)
            tls.next->previous = &tls;
        state.known = &tls;
    }
    unlock();
}

/* A child of fork that has not connected has its parent's list, whose pointers are invalid. */
static void part(void)
{
    struct quiet q;
    if (!tls.is_known || getpid() != state.pid)
        return;
    quiet_begin(&q);
    lock();
    if (tls.previous)
        tls.previous->next = tls.next;
    else
        state.known = tls.next;
    if (tls.next)
        tls.next->previous = tls.previous;
    tls.is_known = false;
    unlock();
    quiet_end(&q);
}

static bool is_anyone_in_a_hook(void)
{
    bool any = false;
    lock();
    for (const struct tls *t = state.known; t && !any; t = t->next)
        any = *(const volatile uint64_t *)&t->entered || *(const volatile uint32_t *)&t->depth;
    unlock();
    return any;
}

/*
 * Hooks set their mark and then check whether the recording goes on (events.c); this function does
 * it in the reverse order. So after the barrier, which runs in all threads, every thread in a hook
 * is seen.
 */
bool threads_wait(void)
{
    const struct timespec a_moment = {0, 1000000};
    if (state.unknown_threads || !state.expedited ||
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) != 0)
        return false;
    for (unsigned i = 0; i < PATIENCE_MS; i++) {
        if (!is_anyone_in_a_hook())
            return true;
        (void)syscall(SYS_nanosleep, &a_moment, NULL);
    }
    return false;
}

/*
 * Runs in each round of a thread's data destructors and returns the thread's chunk in the last one,
 * since other destructors may still free memory.
 */
static void at_thread_end(void *unused)
{
    (void)unused;
    if (++tls.rounds < LAST_ROUND && pthread_setspecific(state.key, &state) == 0)
        return;
    part();
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
    quiet_begin(&q);
    meet();
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

/* Call it within an event. */
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
 * Whether dlopen is still running: then this call is below its caller's frames, and its return
 * address is still on the stack. (On stacks of handlers and coroutines this cannot be known.)
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
        memset(t, 0, offsetof(struct thread, walk.frames));
        if (!tls.number) {
            tls.number = atomic_fetch_add(&state.thread_count, 1) + 1;
            atomic_store_explicit(&state.header->threads, tls.number, memory_order_relaxed);
        }
        t->number = tls.number - 1;
        t->tid = (int32_t)syscall(SYS_gettid);
        for (unsigned i = 0; i < CLIENT_LEVELS; i++)
            t->writers[i].units = 1;
        tls.thread = t;
        meet();
    }
    quiet_end(&q);
    return t;
}

/* Leaves the chunk to another thread, or closes it. */
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
    t->walk.count = t->walk.item_count = t->walk.activation_count = 0;
    t->walk.items_cut = false;
    t->walk.last = (struct walk_mixed){0};
    python_stack_changed(&t->walk);
    memset(t->known, 0, sizeof t->known);
    tls.depth = 0;
    tls.entered = 0;
    quiet_end(&q);
}

static void forget(struct tls *of)
{
    of->thread = NULL;
    of->number = 0;
    of->depth = 0;
    of->entered = 0;
    of->zones = of->zones_dropped = 0;
    of->loading.thread = NULL;
    of->paused = of->others = of->asked = 0;
    of->paused_bytes = 0;
}

void threads_forget(void)
{
    atomic_store(&state.lock, 0);
    state.waiting = NULL;
    state.resting_count = 0;
    atomic_store(&state.thread_count, 0);
    tls.next = tls.previous = NULL;
    state.known = tls.is_known ? &tls : NULL;
    forget(&tls);
}

static void leave_chunks(struct thread *t)
{
    for (unsigned i = 0; i < CLIENT_LEVELS; i++) {
        struct rec_chunk *chunk = t->writers[i].chunk;
        t->writers[i] = (struct writer){.chunk = NULL};
        if (chunk)
            system_unmap(chunk, chunks_bytes(chunk));
    }
}

void threads_leave(void)
{
    lock();
    for (struct tls *of = state.known; of; of = of->next) {
        struct thread *t = of->thread ? of->thread : of->loading.thread;
        if (t) {
            leave_chunks(t);
            t->next = state.waiting;
            state.waiting = t;
        }
        forget(of);
        of->small = 0;
        of->drawn = false;
        of->skip = of->distant = 0;
    }
    for (unsigned i = 0; i < state.resting_count; i++)
        system_unmap(state.resting[i].chunk, chunks_bytes(state.resting[i].chunk));
    state.resting_count = 0;
    atomic_store(&state.thread_count, 0);
    unlock();
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

/* Many threads with large chunks would exceed the limit. */
static void fit_size(struct writer *w)
{
    uint64_t bound = state.header->options.file_bytes / REC_UNIT;
    uint64_t threads = atomic_load_explicit(&state.thread_count, memory_order_relaxed);
    while (bound && w->units > 1 && w->units * threads > bound / 2)
        w->units /= 2;
}

/* Continues a chunk that another thread left. */
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

/* A closed chunk can be read and its space freed. */
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
