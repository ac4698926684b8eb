#include "client/events.h"

#include "client/maps.h"
#include "client/modules.h"
#include "client/record_write.h"
#include "client/sampling.h"
#include "client/skipped.h"
#include "client/start.h"
#include "client/threads.h"
#include "client/unwind.h"
#include "client/wanted.h"

#define LEFT_OUT_AT_ONCE 64u

/* True when the process records: a child of fork connects to the collector here. */
static __attribute__((noinline)) bool not_on(uint32_t on, bool is_free, size_t size)
{
    if (on == LIVE_STOPPED) {
        record_lost(REC_LOSS_SPACE, is_free, size);
        return false;
    }
    if (atomic_load_explicit(&state.phase, memory_order_relaxed) != PHASE_ON)
        return false;
    start_child();
    return atomic_load_explicit(&live.page.on, memory_order_relaxed) == LIVE_ON;
}

static inline bool is_on(bool is_free, size_t size)
{
    uint32_t on = atomic_load_explicit(&live.page.on, memory_order_relaxed);
    return client_likely(on == LIVE_ON) || not_on(on, is_free, size);
}

/* For a process that records. */
static inline bool is_paused(void)
{
    return client_unlikely(atomic_load_explicit(&state.header->control, memory_order_relaxed) !=
                           REC_CONTROL_GO);
}

/* Remembers a block that is not recorded, so that its free is ignored. */
static void skip(uint32_t pool, uint64_t address, uint64_t size)
{
    /* With a filter, the set of recorded heap blocks decides about frees. */
    if (pool != 0 || !state.filtered)
        skipped_add(pool, address, size);
}

/* Counts an allocation that is deliberately not recorded. */
static void count_left_out(uint64_t size, bool paused)
{
    if (atomic_load_explicit(&state.header->control, memory_order_relaxed) == REC_CONTROL_HOLD)
        return;
    if (client_unlikely(!tls.counts)) {
        tls.counts = true;
        threads_expect_end();
    }
    tls.paused += paused;
    tls.paused_bytes += paused ? size : 0;
    tls.others += !paused;
    if (tls.paused + tls.others >= LEFT_OUT_AT_ONCE)
        event_count_left_out();
}

/* For a process that records: whether a new block is deliberately not recorded. */
static inline bool is_left_out(uint64_t size)
{
    bool pause = is_paused();
    if (client_likely(!pause) && (client_likely(!state.by_thread) || wanted_thread()))
        return false;
    count_left_out(size, pause);
    return true;
}

static inline bool leaves_out(uint32_t pool, uint64_t address, uint64_t size)
{
    if (client_likely(!is_left_out(size)))
        return false;
    skip(pool, address, size);
    return true;
}

void event_count_left_out(void)
{
    struct rec_header *h = state.header;
    atomic_fetch_add_explicit(&h->paused_allocations, tls.paused, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->paused_bytes, tls.paused_bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->others, tls.others, memory_order_relaxed);
    tls.paused = tls.others = 0;
    tls.paused_bytes = 0;
}

/*
 * A signal handler that interrupted a hook has its frames below those of the hook's caller. A call
 * from the same height or above means that a handler jumped away and the hook never ends. (A
 * handler on an alternate stack is in other memory.)
 */
static inline bool was_left(uint64_t sp)
{
    const struct thread *t = tls.thread;
    return t && sp >= tls.entered && sp < t->stack_high && tls.entered >= t->stack_low;
}

/*
 * Begins an event of a caller with this stack pointer: `level` is 0, or 1 in a signal handler that
 * interrupted a hook of this thread. NULL: the event is lost. `leave` must follow in any case. A
 * single store marks the thread as being in a hook, so a handler sees it before or after.
 */
static inline struct thread *enter(uint64_t sp, unsigned *level, bool is_free, size_t size)
{
    if (client_unlikely(tls.entered != 0) && was_left(sp))
        threads_recover(tls.thread);
    *level = (tls.entered != 0) + tls.depth;
    if (client_likely(*level == 0))
        tls.entered = sp;
    else
        tls.depth++;
    client_barrier();
    if (client_unlikely(*level >= CLIENT_LEVELS)) {
        record_lost(REC_LOSS_NESTED, is_free, size);
        return NULL;
    }
    /* The thread that ends a recording waits only for threads that have set the mark above. */
    if (client_unlikely(atomic_load_explicit(&live.page.on, memory_order_relaxed) == LIVE_OFF))
        return NULL;
    struct thread *t = tls.thread;
    if (client_unlikely(!t)) {
        t = threads_attach();
        if (!t)
            record_lost(REC_LOSS_MEMORY, is_free, size);
    }
    return t;
}

/* For events whose caller is unknown: the hook's own frame is below this address. */
#define HERE ((uint64_t)(uintptr_t)__builtin_frame_address(0))

static inline void leave(unsigned level)
{
    /* In destructors of the last round no later one would return the chunk. */
    if (client_unlikely(tls.ended) && level == 0)
        threads_detach();
    client_barrier();
    if (client_likely(level == 0))
        tls.entered = 0;
    else
        tls.depth--;
}

/* Whether there is room for an allocation, now or after waiting for it. */
static __attribute__((noinline)) bool has_room(struct thread *t, unsigned level,
                                               const struct block *block)
{
    if (threads_may_add(t, level, THREADS_BLOCK)) {
        if (level == 0)
            record_loss(t);
        return true;
    }
    if (block->pool == 0 && state.filtered)
        (void)sampling_drops((const void *)(uintptr_t)block->address);
    skip(block->pool, block->address, block->size);
    record_dropped(t, block->pool, block->size);
    return false;
}

/* Removes a stale block from the set: its free was not seen. */
static inline void forget(uint32_t pool, uint64_t address)
{
    if (skipped_any())
        (void)skipped_remove(pool, address);
}

/* A call from within operator new or delete is attributed to that operator. */
static inline const struct origin *labelled(const struct origin *origin, unsigned *how)
{
    if (!event_label_holds(origin->sp))
        return origin;
    *how = tls.label.how;
    return &tls.label.origin;
}

/* Whether the operator delete that makes this call has recorded the free. */
static inline bool is_told(const struct origin *origin, const void *address)
{
    return client_unlikely(tls.label.frame != NULL) && tls.label.gone == address &&
           event_label_holds(origin->sp);
}

void event_alloc(const void *address, size_t size, unsigned how, const struct origin *origin)
{
    unsigned level;
    if (!is_on(false, size) || leaves_out(0, (uintptr_t)address, size) ||
        (state.filtered && !sampling_takes(address, size)))
        return;
    forget(0, (uintptr_t)address);
    struct block block = {0, (uintptr_t)address, size, how, 0};
    struct thread *t = enter(origin->sp, &level, false, size);
    if (client_likely(t != NULL)) {
        /* In an operator that does not use malloc, this may be the exception that it throws. */
        if (client_likely(!tls.label.own || tls.label.size == size)) {
            const struct origin *call = labelled(origin, &block.how);
            if (call != origin)
                tls.label.made = address;
            origin = call;
        }
        if (client_likely(!state.drops || has_room(t, level, &block))) {
            block.stack = client_likely(level == 0) ? unwind_stack(t, origin, true) : 0;
            record_alloc(t, level, &block);
        }
    }
    leave(level);
}

void event_failed(void)
{
    if (atomic_load_explicit(&live.page.on, memory_order_relaxed) == LIVE_ON)
        atomic_fetch_add_explicit(&state.header->failed_allocations, 1, memory_order_relaxed);
}

void event_trimmed(bool released)
{
    if (atomic_load_explicit(&live.page.on, memory_order_relaxed) != LIVE_ON)
        return;
    atomic_fetch_add_explicit(&state.header->trims, 1, memory_order_relaxed);
    if (!released)
        atomic_fetch_add_explicit(&state.header->trims_empty, 1, memory_order_relaxed);
}

enum event_free event_free(const void *address, unsigned how, const struct origin *origin)
{
    unsigned level;
    if (!is_on(true, 0) || is_told(origin, address) || (state.filtered && !sampling_drops(address)))
        return EVENT_FREE_NOTHING;
    if (skipped_any() && skipped_remove(0, (uintptr_t)address))
        return EVENT_FREE_SKIPPED;
    struct thread *t = enter(origin->sp, &level, true, 0);
    if (client_likely(t != NULL)) {
        origin = labelled(origin, &how);
        uint32_t stack = state.free_stacks && level == 0 ? unwind_stack(t, origin, false) : 0;
        record_free(t, level, &(struct block){0, (uintptr_t)address, 0, how, stack});
    }
    leave(level);
    return EVENT_FREE_RECORDED;
}

void event_put_back(const void *address, enum event_free as)
{
    unsigned level;
    if (as == EVENT_FREE_NOTHING || !is_on(false, 0))
        return;
    if (as == EVENT_FREE_SKIPPED) {
        skipped_add(0, (uintptr_t)address, 0);
        return;
    }
    if (state.filtered)
        sampling_keeps(address);
    struct thread *t = enter(HERE, &level, false, 0);
    if (t)
        record_put_back(t, level,
                        &(struct block){.address = (uintptr_t)address, .how = REC_HOW_REALLOC});
    leave(level);
}

struct thread *event_enter(unsigned *level, bool is_free, size_t size)
{
    return enter(HERE, level, is_free, size);
}

void event_leave(unsigned level)
{
    leave(level);
}

bool event_takes(uint32_t pool, uint64_t address, uint64_t size)
{
    if (leaves_out(pool, address, size))
        return false;
    forget(pool, address);
    return true;
}

bool event_frees(uint32_t pool, uint64_t address)
{
    return !skipped_any() || !skipped_remove(pool, address);
}

bool event_has_room(struct thread *t, unsigned level, const struct block *block)
{
    return !state.drops || has_room(t, level, block);
}

bool event_is_on(void)
{
    return is_on(true, 0);
}

uint32_t event_stack(const struct origin *origin)
{
    unsigned level;
    struct thread *t = enter(HERE, &level, true, 0);
    uint32_t stack = t && level == 0 ? unwind_stack(t, origin, true) : 0;
    leave(level);
    return stack;
}

bool event_map(uint64_t address, uint64_t size, unsigned how, uint32_t stack)
{
    unsigned level;
    if (is_left_out(size))
        return false;
    struct thread *t = enter(HERE, &level, false, size);
    bool room = t && (!state.drops || threads_may_add(t, level, THREADS_BLOCK));
    if (room)
        record_alloc(t, level, &(struct block){MAPS_POOL, address, size, how, stack});
    else if (t)
        record_dropped(t, MAPS_POOL, size);
    leave(level);
    return room;
}

void event_unmap(uint64_t address, unsigned how)
{
    unsigned level;
    struct thread *t = enter(HERE, &level, true, 0);
    if (t)
        record_free(t, level, &(struct block){MAPS_POOL, address, 0, how, 0});
    leave(level);
}

void event_child(enum rec_kind kind, pid_t pid, const char *path)
{
    unsigned level;
    if (!is_on(true, 0))
        return;
    if (!state.follow)
        atomic_fetch_add_explicit(&state.header->children, 1, memory_order_relaxed);
    struct thread *t = enter(HERE, &level, true, 0);
    if (t && level == 0)
        record_child(t, kind, pid, state.follow, path);
    leave(level);
}

void event_exec(const char *path)
{
    unsigned level;
    if (!is_on(true, 0))
        return;
    struct thread *t = enter(HERE, &level, true, 0);
    if (t && level == 0)
        record_child(t, REC_EXEC, 0, true, path);
    leave(level);
    atomic_store_explicit(&state.header->state, REC_STATE_EXEC, memory_order_release);
}

void event_exec_failed(void)
{
    uint32_t expected = REC_STATE_EXEC;
    if (is_on(true, 0))
        (void)atomic_compare_exchange_strong(&state.header->state, &expected, REC_STATE_RECORDING);
}

void event_modules(void)
{
    unsigned level;
    if (!is_on(true, 0))
        return;
    struct thread *t = enter(HERE, &level, true, 0);
    if (t && level == 0)
        modules_refresh(t, true);
    leave(level);
}
