/* What the handlers of all items share: errors, slots, threads. */

#include "protocol/decoder_state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

int decoder_fail(struct decoder *d, const char *fmt, ...)
{
    char cause[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(cause, sizeof cause, fmt, ap);
    va_end(ap);
    unsigned id = *d->item;
    return err_set(d->err, ERR_INPUT,
                   "protocol %" PRIu32 ", frame %" PRIu64 ", offset %" PRIu64
                   " of the decompressed stream, item %u (%s): %s%s",
                   d->version->protocol, d->stats.frames + 1,
                   d->stats.bytes + (uint64_t)(d->item - d->frame), id,
                   id < d->item_count ? d->version->info[id].name : "unknown", cause,
                   d->version->facts.development
                       ? "; or the client speaks another layout of this unreleased protocol number"
                       : "");
}

int slot_fill(struct decoder *d, struct slot *slot, const char *what, struct view tail)
{
    if (slot->full)
        return decoder_fail(d, "the %s before it was not used by any item", what);
    slot->full = true;
    slot->bytes = tail;
    return 0;
}

int slot_take(struct decoder *d, struct slot *slot, const char *what, struct view *bytes)
{
    if (!slot->full)
        return decoder_fail(d, "no %s came before it", what);
    slot->full = false;
    *bytes = slot->bytes;
    return 0;
}

/* The index + 1 of a new thread or fiber; 0 after an error. */
static size_t add_thread(struct decoder *d, uint64_t id, uint64_t fiber_key)
{
    if (d->states.len >= DECODER_THREADS_MAX) {
        decoder_fail(d, "more than %zu threads and fibers", DECODER_THREADS_MAX);
        return 0;
    }
    const struct thread_state state = {.id = id, .fiber_key = fiber_key};
    if (!pageable_push(d->pageable, &d->states, state)) {
        err_no_memory(d->err, "the client's threads");
        return 0;
    }
    return d->states.len;
}

struct thread_state *decoder_thread_state(struct decoder *d, struct map *map, uint64_t key,
                                          uint64_t id, uint64_t fiber_key)
{
    uint64_t *at = map_add(map, key, NULL);
    if (!at) {
        err_no_memory(d->err, "the client's threads");
        return NULL;
    }
    if (*at == 0)
        *at = add_thread(d, id, fiber_key);
    return *at ? &d->states.at[*at - 1] : NULL;
}

struct thread_state *decoder_os_thread(struct decoder *d, uint32_t id)
{
    if (decoder_note_thread(d, id) < 0)
        return NULL;
    return decoder_thread_state(d, &d->threads, id, id, 0);
}

struct thread_state *decoder_current(struct decoder *d)
{
    if (!d->context_at) {
        struct thread_state *t = decoder_os_thread(d, (uint32_t)d->context);
        if (!t)
            return NULL;
        d->context_at = (size_t)(t - d->states.at) + 1;
    }
    struct thread_state *t = &d->states.at[d->context_at - 1];
    return t->fiber ? &d->states.at[t->fiber - 1] : t;
}

uint64_t decoder_memory_owner(struct decoder *d, uint32_t thread)
{
    const uint64_t *at = d->fiber_memory && d->fiber_count ? map_find(&d->threads, thread) : NULL;
    size_t fiber = at ? d->states.at[*at - 1].fiber : 0;
    return fiber ? d->states.at[fiber - 1].id : thread;
}
