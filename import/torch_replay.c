#include "import/torch_replay.h"

#include <inttypes.h>

#include "base/format.h"

void torch_replay_release(struct torch_replay *p)
{
    torch_live_release(&p->blocks);
    torch_live_release(&p->segments);
    address_ranges_release(&p->mapped);
    vec_release(&p->mappings);
    value_walk_release(&p->walk);
}

static unsigned gpu_of(const struct torch_replay *p)
{
    return p->device->number;
}

static struct import_counts *counts_of(const struct torch_replay *p)
{
    return p->to->counts;
}

/* ---- blocks and segments */

/* An entry's own pool, else that of the segment that is at its address when the snapshot is made.
 */
static uint64_t pool_id_of(const struct torch_replay *p, const struct torch_item *item)
{
    if (value_kind(item->pool_id) == VALUE_LIST)
        return item->pool_id;
    const struct torch_segment *s = torch_segment_at(p->device, item->address);
    if (s)
        return s->item.pool_id;
    counts_of(p)->notes[NOTE_UNKNOWN_POOLS] += p->device->has_private;
    return VALUE_NONE;
}

static int put_free(struct torch_replay *p, struct torch_live *live, struct torch_block *block,
                    const struct torch_item *by, struct err *e)
{
    struct torch_item item = *by;
    item.address = block->address;
    uint64_t pool = block->pool;
    torch_live_remove(live, block);
    uint64_t frames = p->device->has_free_stacks ? by->frames : VALUE_NONE;
    return torch_put_free(p->to, gpu_of(p), pool, &item, frames, e);
}

static int put_live(struct torch_replay *p, struct torch_live *live, enum torch_state state,
                    const struct torch_item *item, uint32_t callstack, struct err *e)
{
    struct torch_block block = {.address = item->address, .size = item->size, .state = state};
    struct torch_block *there = torch_live_find(live, item->address);
    struct torch_item by = *item;
    by.frames = VALUE_NONE;
    if (there) {
        counts_of(p)->notes[NOTE_MISSED_FREES]++;
        if (put_free(p, live, there, &by, e) != 0)
            return -1;
    }
    if (torch_pool(p->to, gpu_of(p), state, pool_id_of(p, item), &block.pool, e) != 0 ||
        torch_live_add(live, &block, e) != 0)
        return -1;
    return torch_put_alloc(p->to, gpu_of(p), block.pool, item, callstack, e);
}

static int put_alloc(struct torch_replay *p, struct torch_live *live, enum torch_state state,
                     const struct torch_item *item, struct err *e)
{
    uint32_t callstack;
    if (torch_stack(&p->to->stacks, p->to->reader, item->frames, &callstack, e) != 0)
        return -1;
    return put_live(p, live, state, item, callstack, e);
}

/* ---- mapped memory */

static int put_mapping(struct torch_replay *p, const struct torch_item *item, uint32_t callstack,
                       struct err *e)
{
    struct address_range range = {item->address, item->address + item->size, p->mappings.len};
    size_t at = address_ranges_at(&p->mapped, range.start);
    struct torch_mapping m = {.callstack = callstack, .stream = item->stream};
    if (item->size == 0 || (at < p->mapped.list.len && p->mapped.list.at[at].start < range.end)) {
        counts_of(p)->notes[NOTE_MAPPINGS]++;
        return 0;
    }
    if (torch_pool(p->to, gpu_of(p), STATE_MAPPED, pool_id_of(p, item), &m.pool, e) != 0 ||
        address_ranges_insert(&p->mapped, at, range, e) != 0)
        return -1;
    if (!vec_push(&p->mappings, m))
        return err_no_memory(e, "mapped memory");
    p->mapped_bytes += item->size;
    return torch_put_alloc(p->to, gpu_of(p), m.pool, item, callstack, e);
}

static int map_part(struct torch_replay *p, const struct torch_item *item, struct err *e)
{
    uint32_t callstack;
    return torch_stack(&p->to->stacks, p->to->reader, item->frames, &callstack, e) == 0
               ? put_mapping(p, item, callstack, e)
               : -1;
}

/* What remains of a range is a new block: a trace has no other way to shrink one. */
static int put_rest(struct torch_replay *p, const struct torch_mapping *m, uint64_t start,
                    uint64_t end, struct err *e)
{
    const struct torch_item rest = {.address = start, .size = end - start, .stream = m->stream};
    return start < end ? torch_put_alloc(p->to, gpu_of(p), m->pool, &rest, m->callstack, e) : 0;
}

static int unmap_part(struct torch_replay *p, const struct torch_item *item, struct err *e)
{
    uint64_t start = item->address, end = start + item->size;
    size_t first = address_ranges_at(&p->mapped, start);
    uint64_t cut = 0;
    for (size_t i = first; i < p->mapped.list.len && p->mapped.list.at[i].start < end; i++) {
        const struct address_range *range = &p->mapped.list.at[i];
        const struct torch_mapping m = p->mappings.at[range->owner];
        struct torch_item whole = *item;
        uint64_t from = range->start > start ? range->start : start;
        uint64_t to = range->end < end ? range->end : end;
        whole.address = range->start;
        cut += to - from;
        if (torch_put_free(p->to, gpu_of(p), m.pool, &whole, item->frames, e) != 0 ||
            put_rest(p, &m, range->start, from, e) != 0 || put_rest(p, &m, to, range->end, e) != 0)
            return -1;
    }
    counts_of(p)->notes[NOTE_MAPPINGS] += cut < item->size || item->size == 0;
    p->mapped_bytes -= cut;
    return address_ranges_cut(&p->mapped, start, end, e);
}

/* ---- entries */

static int read_next(struct torch_replay *p, struct err *e)
{
    uint64_t dict;
    int status = 0;
    while (status == 0 && value_walk_next(&p->walk, &dict)) {
        status = torch_entry_read(p->to->reader, dict, &p->next, e);
        counts_of(p)->notes[NOTE_ENTRIES] += status == 0;
    }
    p->more = status > 0;
    return status < 0 ? -1 : 0;
}

static int free_requested(struct torch_replay *p, const struct torch_item *item, struct err *e)
{
    struct torch_block *block = torch_live_find(&p->blocks, item->address);
    if (!block || block->state == STATE_PENDING) {
        counts_of(p)->notes[NOTE_UNKNOWN_FREES]++;
        return 0;
    }
    struct torch_item rest = *item;
    rest.size = block->size;
    if (put_free(p, &p->blocks, block, item, e) != 0)
        return -1;
    /* Nearly always the free is completed at once. */
    bool completed =
        p->more && p->next.action == ACTION_FREE_COMPLETED && p->next.item.address == item->address;
    if (completed)
        return read_next(p, e);
    return p->device->completions ? put_alloc(p, &p->blocks, STATE_PENDING, &rest, e) : 0;
}

static int free_completed(struct torch_replay *p, struct torch_live *live,
                          const struct torch_item *item, struct err *e)
{
    struct torch_block *block = torch_live_find(live, item->address);
    if (block)
        return put_free(p, live, block, item, e);
    counts_of(p)->notes[NOTE_UNKNOWN_FREES]++;
    return 0;
}

static int put_oom(struct torch_replay *p, const struct torch_item *item, struct err *e)
{
    char asked[FORMAT_SIZE], left[FORMAT_SIZE], reserved[FORMAT_SIZE], used[FORMAT_SIZE];
    struct buf text = {0};
    buf_printf(&text,
               "gpu%u: out of memory: %s asked for, %s free on the GPU; PyTorch has reserved %s, "
               "blocks use %s of it",
               gpu_of(p), format_bytes(asked, item->size), format_bytes(left, item->address),
               format_bytes(reserved, p->segments.bytes + p->mapped_bytes),
               format_bytes(used, p->blocks.bytes));
    int status = text.failed ? err_no_memory(e, "a message")
                             : torch_put_message(p->to, gpu_of(p), item, buf_view(&text), 4, e);
    buf_release(&text);
    return status;
}

static int put_snapshot(struct torch_replay *p, const struct torch_item *item, struct err *e)
{
    struct buf text = {0};
    buf_printf(&text, "gpu%u: snapshot", gpu_of(p));
    int status = text.failed ? err_no_memory(e, "a message")
                             : torch_put_message(p->to, gpu_of(p), item, buf_view(&text), 2, e);
    buf_release(&text);
    return status;
}

int torch_replay_step(struct torch_replay *p, struct err *e)
{
    const struct torch_entry entry = p->next;
    torch_events_at(p->to, &entry);
    if (read_next(p, e) != 0)
        return -1;
    switch (entry.action) {
    case ACTION_ALLOC:
        return put_alloc(p, &p->blocks, STATE_ALLOCATED, &entry.item, e);
    case ACTION_FREE_REQUESTED:
        return free_requested(p, &entry.item, e);
    case ACTION_FREE_COMPLETED:
        return free_completed(p, &p->blocks, &entry.item, e);
    case ACTION_SEGMENT_ALLOC:
        return put_alloc(p, &p->segments, STATE_RESERVED, &entry.item, e);
    case ACTION_SEGMENT_FREE:
        return free_completed(p, &p->segments, &entry.item, e);
    case ACTION_SEGMENT_MAP:
        return map_part(p, &entry.item, e);
    case ACTION_SEGMENT_UNMAP:
        return unmap_part(p, &entry.item, e);
    case ACTION_OOM:
        return put_oom(p, &entry.item, e);
    case ACTION_SNAPSHOT:
        return put_snapshot(p, &entry.item, e);
    default:
        counts_of(p)->notes[NOTE_ACTIONS]++;
        return 0;
    }
}

/* ---- beginning and end */

static int put_early(struct torch_replay *p, const struct torch_holding *early, struct err *e)
{
    uint32_t callstack;
    if (torch_stack(&p->to->stacks, p->to->reader, early->item.frames, &callstack, e) != 0 ||
        (!callstack && torch_stack_before(&p->to->stacks, &callstack, e) != 0))
        return -1;
    if (early->state == STATE_MAPPED)
        return put_mapping(p, &early->item, callstack, e);
    struct torch_live *live = early->state == STATE_RESERVED ? &p->segments : &p->blocks;
    if (early->state == STATE_ALLOCATED) {
        counts_of(p)->early++;
        counts_of(p)->early_bytes += early->item.size;
    }
    return put_live(p, live, early->state, &early->item, callstack, e);
}

int torch_replay_begin(struct torch_replay *p, struct torch_events *to,
                       const struct torch_device *device, struct err *e)
{
    p->to = to;
    p->device = device;
    for (size_t i = 0; i < device->early.len; i++) {
        if (put_early(p, &device->early.at[i], e) != 0)
            return -1;
    }
    if (value_walk_begin(&p->walk, &to->reader->arena, device->history, e) != 0)
        return -1;
    return read_next(p, e);
}

static int free_unexpected(struct torch_replay *p, struct torch_live *live, struct err *e)
{
    const struct torch_item by = {.frames = VALUE_NONE};
    for (size_t i = 0; i < live->list.len; i++) {
        struct torch_block *block = &live->list.at[i];
        if (!block->used || block->expected)
            continue;
        counts_of(p)->notes[NOTE_GONE]++;
        if (put_free(p, live, block, &by, e) != 0)
            return -1;
    }
    return 0;
}

static void expect(const struct torch_live *live, uint64_t address)
{
    struct torch_block *block = torch_live_find(live, address);
    if (block)
        block->expected = true;
}

int torch_replay_end(struct torch_replay *p, struct err *e)
{
    const struct torch_device *d = p->device;
    for (size_t i = 0; i < d->blocks.len; i++)
        expect(&p->blocks, d->blocks.at[i].item.address);
    for (size_t i = 0; i < d->segments.len; i++)
        expect(&p->segments, d->segments.at[i].item.address);
    return free_unexpected(p, &p->blocks, e) == 0 ? free_unexpected(p, &p->segments, e) : -1;
}
