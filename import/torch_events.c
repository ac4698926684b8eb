#include "import/torch_events.h"

#include <inttypes.h>

/* Keys of names, which are numbers that no client sends: see pool_number. */
#define POOL_KEYS ((uint64_t)1 << 40)
#define PRIVATE_POOLS_MAX ((uint64_t)1 << 16)

/* 100 years; no history is longer. */
#define MICROSECONDS_MAX ((uint64_t)100 * 366 * 86400 * 1000000)

#define RED 0xFF4040u
#define NO_COLOR 0xFFFFFFu

void torch_events_release(struct torch_events *t)
{
    torch_stacks_release(&t->stacks);
    map_release(&t->private_pools);
    map_release(&t->pools);
    map_release(&t->streams);
}

static int hand(struct torch_events *t, const struct event *ev, struct err *e)
{
    return t->in->sink.event(t->in->sink.ctx, ev, e);
}

/* ---- times */

void torch_events_at(struct torch_events *t, const struct torch_entry *entry)
{
    uint64_t after = entry->time - t->base;
    if (!t->base)
        return;
    if (!entry->timed || entry->time < t->base || after > MICROSECONDS_MAX || after < t->stamp)
        t->counts->notes[NOTE_ENTRY_TIMES]++;
    else
        t->stamp = after;
}

/* Stamps are in µs, or missing. Spacing events by a nanosecond keeps their order. */
static int64_t next_time(struct torch_events *t)
{
    int64_t stamp = (int64_t)t->stamp * 1000;
    t->time = t->time < stamp ? stamp : t->time + 1;
    return t->time;
}

/* ---- names */

static int put_name(struct torch_events *t, enum event_kind kind, uint64_t key, struct buf *name,
                    struct err *e)
{
    struct event ev = {.kind = kind};
    ev.name.key = key;
    ev.name.text = buf_view(name);
    int status = name->failed ? err_no_memory(e, "names") : hand(t, &ev, e);
    buf_release(name);
    return status;
}

/* The two numbers of a pool's id. False when it has none, and for the default pool (0, 0). */
static bool private_ids(const struct torch_events *t, uint64_t pool_id, int64_t ids[2])
{
    struct value_walk walk = {0};
    struct err e = {0};
    uint64_t item;
    ids[0] = ids[1] = 0;
    if (value_walk_begin(&walk, &t->reader->arena, pool_id, &e) == 0) {
        for (int i = 0; i < 2 && value_walk_next(&walk, &item); i++)
            value_signed(&t->reader->arena, item, &ids[i]);
    }
    value_walk_release(&walk);
    return ids[0] || ids[1];
}

bool torch_pool_is_private(const struct torch_events *t, uint64_t pool_id)
{
    int64_t ids[2];
    return private_ids(t, pool_id, ids);
}

static int name_pool(struct torch_events *t, unsigned gpu, enum torch_state state,
                     const int64_t ids[2], uint64_t key, struct err *e)
{
    static const char *const states[] = {[STATE_ALLOCATED] = "allocated",
                                         [STATE_PENDING] = "pending_free",
                                         [STATE_RESERVED] = "reserved",
                                         [STATE_MAPPED] = "reserved.expandable"};
    struct buf name = {0};
    buf_printf(&name, "gpu%u.%s", gpu, states[state]);
    if (ids[0] || ids[1])
        buf_printf(&name, ".private-%" PRId64 "-%" PRId64, ids[0], ids[1]);
    return put_name(t, EVENT_STRING, key, &name, e);
}

/* 0: no private pool. */
static int private_number(struct torch_events *t, uint64_t pool_id, int64_t ids[2],
                          uint64_t *number, struct err *e)
{
    bool fresh;
    *number = 0;
    if (!private_ids(t, pool_id, ids))
        return 0;
    uint64_t *known = map_add(&t->private_pools, (uint64_t)ids[0] << 32 ^ (uint64_t)ids[1], &fresh);
    if (!known)
        return err_no_memory(e, "pools");
    if (fresh)
        *known = t->private_pools.count;
    *number = *known;
    return *number < PRIVATE_POOLS_MAX
               ? 0
               : err_set(e, ERR_INPUT, "more than 65,535 private pools of memory");
}

int torch_pool(struct torch_events *t, unsigned gpu, enum torch_state state, uint64_t pool_id,
               uint64_t *key, struct err *e)
{
    int64_t ids[2];
    uint64_t number;
    bool fresh;
    if (private_number(t, pool_id, ids, &number, e) != 0)
        return -1;
    *key = POOL_KEYS | (uint64_t)gpu << 24 | (uint64_t)state << 20 | number << 4;
    if (!map_add(&t->pools, *key, &fresh))
        return err_no_memory(e, "pools");
    return fresh ? name_pool(t, gpu, state, ids, *key, e) : 0;
}

static int thread_of(struct torch_events *t, unsigned gpu, int64_t stream, uint64_t *thread,
                     struct err *e)
{
    struct buf name = {0};
    bool fresh;
    /* Streams are addresses of the driver, below 2^56. */
    uint64_t *known = map_add(&t->streams, (uint64_t)stream ^ (uint64_t)gpu << 56, &fresh);
    if (!known)
        return err_no_memory(e, "streams");
    if (fresh)
        *known = t->streams.count;
    *thread = *known;
    if (!fresh)
        return 0;
    buf_printf(&name, stream ? "gpu%u stream 0x%" PRIx64 : "gpu%u stream 0", gpu, (uint64_t)stream);
    return put_name(t, EVENT_THREAD_NAME, *thread, &name, e);
}

/* ---- events */

int torch_put_alloc(struct torch_events *t, unsigned gpu, uint64_t pool,
                    const struct torch_item *item, uint32_t callstack, struct err *e)
{
    struct memory_event ev = {.kind = EVENT_MEM_ALLOC,
                              .callstack = callstack,
                              .time = next_time(t),
                              .pool = pool,
                              .ptr = item->address,
                              .size = item->size};
    if (thread_of(t, gpu, item->stream, &ev.thread, e) != 0)
        return -1;
    t->counts->allocations++;
    return t->in->sink.memory(t->in->sink.ctx, &ev, 1, e);
}

int torch_put_free(struct torch_events *t, unsigned gpu, uint64_t pool,
                   const struct torch_item *item, uint64_t frames, struct err *e)
{
    struct memory_event ev = {
        .kind = EVENT_MEM_FREE, .time = next_time(t), .pool = pool, .ptr = item->address};
    if (thread_of(t, gpu, item->stream, &ev.thread, e) != 0 ||
        torch_stack(&t->stacks, t->reader, frames, &ev.callstack, e) != 0)
        return -1;
    t->counts->frees++;
    return t->in->sink.memory(t->in->sink.ctx, &ev, 1, e);
}

int torch_put_zone(struct torch_events *t, unsigned gpu, struct view name, struct err *e)
{
    const struct event_location location = {.function = name};
    struct event ev = {.kind = EVENT_ZONE_BEGIN, .time = next_time(t)};
    ev.zone.payload = &location;
    t->counts->zones++;
    return thread_of(t, gpu, 0, &ev.thread, e) == 0 ? hand(t, &ev, e) : -1;
}

int torch_end_zone(struct torch_events *t, unsigned gpu, struct err *e)
{
    struct event ev = {.kind = EVENT_ZONE_END, .time = next_time(t)};
    return thread_of(t, gpu, 0, &ev.thread, e) == 0 ? hand(t, &ev, e) : -1;
}

int torch_put_message(struct torch_events *t, unsigned gpu, const struct torch_item *item,
                      struct view text, uint8_t severity, struct err *e)
{
    struct event ev = {.kind = EVENT_MESSAGE, .time = next_time(t)};
    ev.message.text = text;
    ev.message.severity = severity;
    ev.message.color = severity > 2 ? RED : NO_COLOR;
    if (thread_of(t, gpu, item->stream, &ev.thread, e) != 0 ||
        torch_stack(&t->stacks, t->reader, item->frames, &ev.callstack, e) != 0)
        return -1;
    t->counts->messages++;
    return hand(t, &ev, e);
}
