/* Saves and restores the decoder's state between two frames, for checkpoints. */

#include "protocol/decoder_state.h"

/* The most bytes of a slot or an answer: parts of frames. */
#define TEXT_MAX ((size_t)64 << 20)

static void snapshot_slot(struct snapshot *s, struct slot *slot)
{
    snapshot_bool(s, &slot->full);
    if (!slot->full || s->failed)
        return;
    snapshot_buf(s, &slot->kept, TEXT_MAX);
    slot->bytes = (struct view){(const char *)slot->kept.data, slot->kept.len};
}

static void snapshot_slots(struct snapshot *s, struct decoder *d)
{
    snapshot_slot(s, &d->single);
    snapshot_slot(s, &d->second);
    snapshot_slot(s, &d->location);
    snapshot_slot(s, &d->stack);
    snapshot_slot(s, &d->image);
    if (s->loading && d->stack.full &&
        (d->stack.bytes.len % 8 != 0 || d->stack.bytes.len / 8 > NATIVE_FRAMES_MAX))
        snapshot_refuse(s, "a call stack that waits");
}

static void snapshot_threads(struct snapshot *s, struct decoder *d, uint64_t callstacks)
{
    SNAPSHOT_EACH(s, &d->states, i, DECODER_THREADS_MAX)
    {
        struct thread_state *t = &d->states.at[i];
        snapshot_u64(s, &t->id);
        snapshot_u64(s, &t->zones);
        snapshot_u64(s, &t->fiber_key);
        snapshot_size(s, &t->fiber);
        snapshot_u32(s, &t->callstack);
        snapshot_index(s, t->callstack, callstacks + 1, "a thread's call stack");
    }
    for (size_t i = 0; i < d->states.len; i++)
        snapshot_index(s, d->states.at[i].fiber, d->states.len + 1, "a thread's fiber");
    snapshot_map(s, &d->threads, 1, d->states.len, "a thread");
    snapshot_map(s, &d->fibers, 1, d->states.len, "a fiber");
    snapshot_size(s, &d->fiber_count);
    snapshot_u64(s, &d->context);
    snapshot_size(s, &d->context_at);
    snapshot_index(s, d->context_at, d->states.len + 1, "a thread");
    snapshot_u64(s, &d->open_zones);
}

/* An incomplete frame answer. */
static void snapshot_reply(struct snapshot *s, struct frame_reply *r)
{
    uint32_t count = r->count, have = r->have;
    snapshot_bool(s, &r->open);
    if (!r->open || s->failed)
        return;
    snapshot_u64(s, &r->address);
    snapshot_u32(s, &count);
    snapshot_u32(s, &have);
    snapshot_bool(s, &r->deliver);
    snapshot_size(s, &r->image_len);
    snapshot_buf(s, &r->text, TEXT_MAX);
    if (count > UINT8_MAX || have >= count || r->image_len > r->text.len)
        snapshot_refuse(s, "an answer");
    if (s->failed)
        return;
    r->count = count;
    r->have = have;
    size_t left = r->text.len - r->image_len;
    for (unsigned i = 0; i < have && !s->failed; i++) {
        snapshot_size(s, &r->frames[i].function_len);
        snapshot_size(s, &r->frames[i].file_len);
        snapshot_u64(s, &r->frames[i].symbol);
        snapshot_u32(s, &r->frames[i].line);
        snapshot_u32(s, &r->frames[i].symbol_len);
        if (r->frames[i].function_len > left ||
            r->frames[i].file_len > left - r->frames[i].function_len) {
            snapshot_refuse(s, "an answer");
            return;
        }
        left -= r->frames[i].function_len + r->frames[i].file_len;
    }
    if (left)
        snapshot_refuse(s, "an answer");
}

static void snapshot_waiting(struct snapshot *s, struct decoder *d, uint64_t callstacks)
{
    uint32_t custom = d->custom_count;
    snapshot_bool(s, &d->has_pool);
    snapshot_u64(s, &d->pool);
    snapshot_bool(s, &d->has_custom);
    snapshot_u32(s, &custom);
    if (custom > CUSTOM_FRAMES_MAX)
        snapshot_refuse(s, "frames that wait");
    if (s->failed)
        return;
    d->custom_count = custom;
    for (unsigned i = 0; i < custom; i++)
        snapshot_u64(s, &d->custom[i]);
    snapshot_u32(s, &d->serial_stack);
    snapshot_index(s, d->serial_stack, callstacks + 1, "a call stack that waits");
    snapshot_reply(s, &d->reply);
}

static void snapshot_sources(struct snapshot *s, struct decoder *d)
{
    snapshot_map(s, &d->sources.texts, 0, UINT64_MAX, "a source file");
    snapshot_map(s, &d->sources.pointers, 0, UINT64_MAX, "a source file");
    SNAPSHOT_EACH(s, &d->sources.hashes, i, SOURCES_MAX)
    snapshot_u64(s, &d->sources.hashes.at[i]);
    snapshot_map(s, &d->code_sizes, 0, UINT32_MAX, "a symbol's size");
    snapshot_u64(s, &d->code_lines);
}

static void snapshot_stats(struct snapshot *s, struct decoder *d)
{
    snapshot_u64(s, &d->stats.frames);
    snapshot_u64(s, &d->stats.bytes);
    for (int i = 0; i < WIRE_KIND_COUNT; i++)
        snapshot_u64(s, &d->stats.kinds[i]);
    snapshot_u64(s, &d->stats.unasked);
    snapshot_u64(s, &d->stats.repeated);
    snapshot_u64(s, &d->stats.stale_callstacks);
    snapshot_u64(s, &d->stats.odd_metadata);
}

void decoder_each_callstack(struct decoder *d, void (*visit)(void *ctx, uint32_t *id), void *ctx)
{
    for (size_t i = 0; i < d->states.len; i++)
        visit(ctx, &d->states.at[i].callstack);
    visit(ctx, &d->serial_stack);
}

/* Leaves out the caches of queried names, which struct query knows, too. */
void decoder_snapshot(struct snapshot *s, struct decoder *d, uint64_t callstacks)
{
    snapshot_u64(s, &d->ref_thread);
    snapshot_u64(s, &d->ref_serial);
    snapshot_u64(s, &d->ref_ctx);
    snapshot_u64(s, &d->ref_gpu);
    snapshot_slots(s, d);
    snapshot_threads(s, d, callstacks);
    snapshot_waiting(s, d, callstacks);
    snapshot_sources(s, d);
    snapshot_bool(s, &d->terminated);
    snapshot_bool(s, &d->crashed);
    snapshot_stats(s, d);
}
