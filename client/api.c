/* Implements the functions of tidemark.h. */

#include "include/tidemark.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "client/api.h"
#include "client/chunks.h"
#include "client/encode.h"
#include "client/events.h"
#include "client/hooks/hooks.h"
#include "client/quiet.h"
#include "client/record_write.h"
#include "client/threads.h"
#include "client/unwind_machine.h"
#include "client/unwind.h"

#define POOL_FIRST 2u /* 0 is the heap, 1 that of mappings */
#define POOLS_MOST 1000u
#define NAME_MOST 200u

/*
 * Names of pools, by number. A name is written under the lock before the count is raised, so
 * readers need no lock. After fork the child keeps the names but has to record them anew.
 */
static struct {
    _Atomic uint32_t lock, count;
    _Atomic uint32_t recorded; /* by the process `pid` */
    pid_t pid;
    char (*names)[NAME_MOST];
} pools;

static uint32_t find_pool(const char *name, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        if (strncmp(pools.names[i], name, NAME_MOST - 1) == 0)
            return i;
    }
    return to;
}

static void record_names(struct thread *t)
{
    if (pools.pid != state.pid) {
        pools.pid = state.pid;
        pools.recorded = 0;
    }
    for (; pools.recorded < pools.count; pools.recorded++)
        record_pool(t, POOL_FIRST + pools.recorded, pools.names[pools.recorded]);
}

/* Call it with signals blocked. */
static uint32_t add_pool(const char *name)
{
    if (!pools.names)
        pools.names = chunks_memory(POOLS_MOST * sizeof *pools.names);
    if (!pools.names)
        return POOLS_MOST;
    uint32_t count = pools.count, at = find_pool(name, 0, count);
    if (at < count)
        return at;
    if (count == POOLS_MOST)
        return count - 1;
    memcpy(pools.names[at], name, strnlen(name, NAME_MOST - 1));
    atomic_store_explicit(&pools.count, count + 1, memory_order_release);
    return at;
}

static uint32_t api_pool(const char *name)
{
    unsigned level;
    if (!event_is_on())
        return 0;
    uint32_t count = atomic_load_explicit(&pools.count, memory_order_acquire);
    uint32_t at = find_pool(name, 0, count);
    if (at < count && pools.pid == state.pid)
        return POOL_FIRST + at;
    struct quiet q;
    quiet_begin(&q);
    while (atomic_exchange_explicit(&pools.lock, 1, memory_order_acquire))
        (void)sched_yield();
    at = add_pool(name);
    struct thread *t = event_enter(&level, true, 0);
    if (t && level == 0 && at < POOLS_MOST)
        record_names(t);
    event_leave(level);
    atomic_store_explicit(&pools.lock, 0, memory_order_release);
    quiet_end(&q);
    return at < POOLS_MOST ? POOL_FIRST + at : 0;
}

static void alloc(uint32_t pool, const void *address, size_t size, const struct origin *origin)
{
    unsigned level;
    if (!address || !event_is_on() || !event_takes(pool, (uintptr_t)address, size))
        return;
    struct block block = {pool, (uintptr_t)address, size, REC_HOW_API, 0};
    struct thread *t = event_enter(&level, false, size);
    if (t && event_has_room(t, level, &block)) {
        block.stack = level == 0 ? unwind_stack(t, origin, true) : 0;
        record_alloc(t, level, &block);
    }
    event_leave(level);
}

static void api_alloc(uint32_t pool, const void *address, size_t size)
{
    struct origin origin = ORIGIN_HERE();
    alloc(pool, address, size, &origin);
}

static void api_alloc_for(uint32_t pool, const void *address, size_t size, const void *frame)
{
    const uint64_t *words = frame;
    struct origin origin = {machine_address(words[1]), ORIGIN_NEAR((uintptr_t)(words + 2)),
                            words[0]};
    alloc(pool, address, size, &origin);
}

static void api_free(uint32_t pool, const void *address)
{
    unsigned level;
    if (!address || !event_is_on() || !event_frees(pool, (uintptr_t)address))
        return;
    struct thread *t = event_enter(&level, true, 0);
    if (t)
        record_free(t, level, &(struct block){pool, (uintptr_t)address, 0, REC_HOW_API, 0});
    event_leave(level);
}

void api_begin(struct thread *t)
{
    atomic_store(&pools.lock, 0);
    pools.recorded = 0;
    record_names(t);
}

/* ---- records with a length: from hooks at level 0 only */

/* Begins a record; NULL: nothing is to be written. `finish` must follow unless recording is off. */
static uint8_t *start(struct thread **t, unsigned *level)
{
    *t = event_enter(level, true, 0);
    if (*t && *level == 0)
        return record_begin(*t);
    if (*t)
        record_lost(REC_LOSS_NESTED, true, 0);
    return NULL;
}

/* As start, for records that may be dropped when the buffer is full. */
static uint8_t *start_note(struct thread **t, unsigned *level)
{
    *t = event_enter(level, true, 0);
    if (*t && *level == 0 && (!state.drops || threads_may_add(*t, 0, REC_RECORD_MAX)))
        return record_begin(*t);
    if (*t && *level == 0)
        atomic_fetch_add_explicit(&state.header->dropped_notes, 1, memory_order_relaxed);
    else if (*t)
        record_lost(REC_LOSS_NESTED, true, 0);
    return NULL;
}

static void finish(struct thread *t, unsigned level, enum rec_kind kind, uint8_t *end)
{
    if (end)
        record_end(t, kind, end);
    event_leave(level);
}

static uint8_t *put_text(uint8_t *at, const char *text)
{
    return encode_text(at, text ? text : "", text ? strnlen(text, TIDEMARK_TEXT_MAX) : 0);
}

static void api_discard(uint32_t pool)
{
    struct thread *t;
    unsigned level;
    if (!event_is_on())
        return;
    uint8_t *at = start(&t, &level);
    if (at)
        at = encode_number(encode_number(at, pool), 0);
    finish(t, level, REC_DISCARD, at);
}

/* Describes a zone, beside its name. */
struct place {
    const char *function, *file;
    uint32_t line, color, stack;
};

static void begin_zone(const char *name, const struct place *place)
{
    struct thread *t;
    unsigned level;
    if (tls.zones_dropped) {
        tls.zones_dropped++;
        atomic_fetch_add_explicit(&state.header->dropped_notes, 1, memory_order_relaxed);
        return;
    }
    uint8_t *at = start_note(&t, &level);
    if (!at) {
        tls.zones_dropped++;
    } else {
        tls.zones++;
        at = encode_number(at, place->line);
        at = encode_number(at, place->color);
        at = encode_number(at, place->stack);
        at = put_text(put_text(put_text(at, name), place->function), place->file);
    }
    finish(t, level, REC_ZONE_BEGIN, at);
}

static void api_zone_begin(const char *name, const char *function, const char *file, uint32_t line,
                           uint32_t color)
{
    const struct place place = {function, file, line, color, 0};
    if (event_is_on())
        begin_zone(name, &place);
}

static void api_zone_end(void)
{
    struct thread *t;
    unsigned level;
    if (!event_is_on())
        return;
    if (tls.zones_dropped) {
        tls.zones_dropped--;
        return;
    }
    uint8_t *at = start(&t, &level);
    if (at && tls.zones)
        tls.zones--;
    finish(t, level, REC_ZONE_END, at);
}

/* Adds the text of the zone being begun. */
static void say_text(const char *text)
{
    struct thread *t;
    unsigned level;
    uint8_t *at = start_note(&t, &level);
    finish(t, level, REC_ZONE_TEXT, at ? put_text(at, text) : NULL);
}

struct own_zone api_zone_open(const char *name, const char *text, uint32_t stack)
{
    const struct place place = {.function = name, .stack = stack};
    if (!event_is_on())
        return (struct own_zone){0, 0};
    begin_zone(name, &place);
    if (text && !tls.zones_dropped)
        say_text(text);
    return (struct own_zone){state.pid, tls.zones + tls.zones_dropped};
}

void api_zone_close(const struct own_zone *zone)
{
    /* With fewer zones, the program has ended more than it began, this one included. */
    if (zone->depth && zone->pid == state.pid && tls.zones + tls.zones_dropped <= zone->depth)
        api_zone_end();
}

static void api_frame(const char *name, uint32_t kind)
{
    struct thread *t;
    unsigned level;
    if (!event_is_on())
        return;
    uint8_t *at = start(&t, &level);
    if (at)
        at = put_text(encode_number(at, kind), name);
    finish(t, level, REC_FRAME, at);
}

static void api_plot(const char *name, double value)
{
    struct thread *t;
    unsigned level;
    if (!event_is_on())
        return;
    uint8_t *at = start_note(&t, &level);
    if (at) {
        memcpy(at, &value, sizeof value);
        at = put_text(at + sizeof value, name);
    }
    finish(t, level, REC_PLOT, at);
}

static void api_message(const char *text, uint32_t color)
{
    struct thread *t;
    unsigned level;
    if (!event_is_on())
        return;
    uint8_t *at = start_note(&t, &level);
    if (at)
        at = put_text(encode_number(encode_number(at, color), 0), text);
    finish(t, level, REC_MESSAGE, at);
}

static int api_recording(void)
{
    return event_is_on();
}

static void api_pause(int paused)
{
    struct thread *t;
    unsigned level;
    if (!event_is_on())
        return;
    uint32_t wish = paused ? REC_CONTROL_PAUSE : REC_CONTROL_GO;
    if (atomic_exchange_explicit(&state.header->control, wish, memory_order_relaxed) == wish)
        return;
    uint8_t *at = start(&t, &level);
    if (at)
        at = encode_number(at, paused != 0);
    finish(t, level, REC_PAUSE, at);
}

__attribute__((visibility("default"))) const struct tidemark_api tidemark_api_1 = {
    .size = sizeof tidemark_api_1,
    .pool = api_pool,
    .alloc = api_alloc,
    .free = api_free,
    .discard = api_discard,
    .zone_begin = api_zone_begin,
    .zone_end = api_zone_end,
    .frame = api_frame,
    .plot = api_plot,
    .message = api_message,
    .recording = api_recording,
    .pause = api_pause,
    .alloc_for = api_alloc_for,
};
