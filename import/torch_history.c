#include "import/torch_history.h"

#include "base/order.h"

/* Addresses and sizes have at most 62 and 47 bits. */
#define ADDRESS_MAX ((uint64_t)1 << 62)
#define SIZE_MAX_BYTES (((uint64_t)1 << 47) - 1)

void torch_device_release(struct torch_device *d)
{
    vec_release(&d->segments);
    vec_release(&d->blocks);
    vec_release(&d->early);
}

static bool is_usable(const struct torch_item *item)
{
    return item->address < ADDRESS_MAX && item->size <= SIZE_MAX_BYTES;
}

static struct torch_item item_of(const struct torch_reader *r, const struct torch_fields *f)
{
    struct torch_item item = {.frames = f->at[TORCH_FRAMES], .pool_id = f->at[TORCH_POOL_ID]};
    if (!value_signed(&r->arena, f->at[TORCH_STREAM], &item.stream))
        item.stream = 0;
    return item;
}

/* ---- segments */

/* Old snapshots have a block's call stack and size in a list of its uses, newest first. */
static int legacy_use(struct torch_reader *r, const struct torch_fields *f, struct torch_item *item,
                      struct err *e)
{
    struct value_walk walk = {0};
    struct torch_fields use;
    uint64_t first;
    int status = value_walk_begin(&walk, &r->arena, f->at[TORCH_HISTORY], e);
    if (status == 0 && value_walk_next(&walk, &first)) {
        status = torch_fields_read(r, first, &use, e);
        if (status > 0) {
            item->frames = use.at[TORCH_FRAMES];
            torch_number(r, &use, TORCH_REAL_SIZE, &item->size);
        }
    }
    value_walk_release(&walk);
    return status < 0 ? -1 : 0;
}

static int put_block(struct torch_device *d, struct torch_reader *r, const struct torch_fields *f,
                     const struct torch_item *segment, uint64_t at, struct err *e)
{
    uint64_t size;
    struct view state = torch_text(r, f, TORCH_STATE);
    struct torch_holding block = {.state = STATE_ALLOCATED, .item = *segment};
    if (!torch_number(r, f, TORCH_SIZE, &size)) {
        d->unusable++;
        return 0;
    }
    if (!view_equal(state, view_of("active_allocated"))) {
        block.state = STATE_PENDING;
        if (!view_equal(state, view_of("active_pending_free")) &&
            !view_equal(state, view_of("active_awaiting_free"))) {
            d->free_largest = size > d->free_largest ? size : d->free_largest;
            return 0;
        }
    }
    block.item.frames = f->at[TORCH_FRAMES];
    if (!torch_number(r, f, TORCH_ADDRESS, &block.item.address))
        block.item.address = at;
    if (!torch_number(r, f, TORCH_REQUESTED_SIZE, &block.item.size))
        block.item.size = size;
    if (value_kind(f->at[TORCH_HISTORY]) == VALUE_LIST && legacy_use(r, f, &block.item, e) != 0)
        return -1;
    d->used += size;
    if (!is_usable(&block.item)) {
        d->unusable++;
        return 0;
    }
    return vec_push(&d->blocks, block) ? 0 : err_no_memory(e, "the snapshot's blocks");
}

static int put_blocks(struct torch_device *d, struct torch_reader *r, uint64_t list,
                      const struct torch_item *segment, struct err *e)
{
    struct value_walk walk = {0};
    struct torch_fields f;
    uint64_t block, size, at = segment->address;
    int status = value_walk_begin(&walk, &r->arena, list, e);
    while (status >= 0 && value_walk_next(&walk, &block)) {
        status = torch_fields_read(r, block, &f, e);
        d->unusable += status == 0;
        if (status > 0)
            status = put_block(d, r, &f, segment, at, e);
        if (torch_number(r, &f, TORCH_SIZE, &size))
            at += size;
    }
    value_walk_release(&walk);
    return status < 0 ? -1 : 0;
}

int torch_segment_read(struct torch_device *d, struct torch_reader *r,
                       const struct torch_fields *fields, struct err *e)
{
    struct torch_segment segment = {.item = item_of(r, fields)};
    uint64_t expandable;
    if (!torch_number(r, fields, TORCH_ADDRESS, &segment.item.address) ||
        !torch_number(r, fields, TORCH_TOTAL_SIZE, &segment.item.size) || !is_usable(&segment.item))
        return 0;
    segment.expandable = torch_number(r, fields, TORCH_EXPANDABLE, &expandable) && expandable;
    d->reserved += segment.item.size;
    if (!vec_push(&d->segments, segment))
        return err_no_memory(e, "the snapshot's blocks");
    return put_blocks(d, r, fields->at[TORCH_BLOCKS], &segment.item, e) == 0 ? 1 : -1;
}

static int by_address(const void *a, const void *b)
{
    const struct torch_segment *one = a, *other = b;
    return (one->item.address > other->item.address) - (one->item.address < other->item.address);
}

const struct torch_segment *torch_segment_at(const struct torch_device *d, uint64_t address)
{
    size_t low = 0;
    BISECT(low, d->segments.len, at, d->segments.at[at].item.address <= address);
    const struct torch_segment *s = low ? &d->segments.at[low - 1] : NULL;
    return s && address - s->item.address < s->item.size ? s : NULL;
}

/* ---- entries */

static enum torch_action action_of(struct view name)
{
    static const char *const names[ACTION_OTHER] = {
        [ACTION_ALLOC] = "alloc",
        [ACTION_FREE_REQUESTED] = "free_requested",
        [ACTION_FREE_COMPLETED] = "free_completed",
        [ACTION_SEGMENT_ALLOC] = "segment_alloc",
        [ACTION_SEGMENT_FREE] = "segment_free",
        [ACTION_SEGMENT_MAP] = "segment_map",
        [ACTION_SEGMENT_UNMAP] = "segment_unmap",
        [ACTION_OOM] = "oom",
        [ACTION_SNAPSHOT] = "snapshot",
    };
    for (enum torch_action a = 0; a < ACTION_OTHER; a++) {
        if (view_equal(name, view_of(names[a])))
            return a;
    }
    return ACTION_OTHER;
}

int torch_entry_read(struct torch_reader *r, uint64_t dict, struct torch_entry *entry,
                     struct err *e)
{
    struct torch_fields f;
    int status = torch_fields_read(r, dict, &f, e);
    if (status <= 0)
        return status;
    struct view action = torch_text(r, &f, TORCH_ACTION);
    if (action.len == 0)
        return 0;
    *entry = (struct torch_entry){.action = action_of(action), .item = item_of(r, &f)};
    entry->timed = torch_number(r, &f, TORCH_TIME, &entry->time);
    if (entry->action == ACTION_OTHER || entry->action == ACTION_SNAPSHOT)
        return 1;
    bool is_oom = entry->action == ACTION_OOM;
    return torch_number(r, &f, is_oom ? TORCH_DEVICE_FREE : TORCH_ADDRESS, &entry->item.address) &&
                   torch_number(r, &f, TORCH_SIZE, &entry->item.size) && is_usable(&entry->item)
               ? 1
               : 0;
}

/* ---- the beginning of the history */

/* The program freed the block, and the allocator did not yet. */
#define FREED UINT64_MAX

struct torch_scan {
    struct torch_device *device;
    struct map blocks;   /* address → the allocation's frames, or FREED */
    struct map segments; /* address → 1 */
    VEC(struct torch_entry) mappings;
};

static int put_early(struct torch_device *d, enum torch_state state, const struct torch_item *item,
                     uint64_t frames, struct err *e)
{
    struct torch_holding early = {.state = state, .item = *item};
    early.item.frames = frames;
    return vec_push(&d->early, early) ? 0 : err_no_memory(e, "the snapshot's blocks");
}

static int note_state(struct map *m, uint64_t address, uint64_t state, struct err *e)
{
    uint64_t *known = map_add(m, address, NULL);
    if (!known)
        return err_no_memory(e, "the snapshot's blocks");
    *known = state;
    return 0;
}

static int scan_request(struct torch_scan *s, const struct torch_item *item, struct err *e)
{
    struct torch_device *d = s->device;
    const uint64_t *allocated_by = map_find(&s->blocks, item->address);
    d->has_requests = true;
    if (!allocated_by && put_early(d, STATE_ALLOCATED, item, VALUE_NONE, e) != 0)
        return -1;
    /* Without call stacks of frees, PyTorch records those of the allocations again. */
    if (allocated_by && *allocated_by != FREED && *allocated_by != item->frames)
        d->has_free_stacks = true;
    return note_state(&s->blocks, item->address, FREED, e);
}

static int scan_entry(struct torch_scan *s, const struct torch_entry *entry, struct err *e)
{
    struct torch_device *d = s->device;
    const struct torch_item *item = &entry->item;
    switch (entry->action) {
    case ACTION_ALLOC:
        return note_state(&s->blocks, item->address, item->frames, e);
    case ACTION_FREE_REQUESTED:
        return scan_request(s, item, e);
    case ACTION_FREE_COMPLETED:
        d->completions++;
        if (!map_find(&s->blocks, item->address) &&
            put_early(d, STATE_PENDING, item, VALUE_NONE, e) != 0)
            return -1;
        map_remove(&s->blocks, item->address);
        return 0;
    case ACTION_SEGMENT_ALLOC:
        return note_state(&s->segments, item->address, 1, e);
    case ACTION_SEGMENT_FREE:
        if (!map_find(&s->segments, item->address) &&
            put_early(d, STATE_RESERVED, item, VALUE_NONE, e) != 0)
            return -1;
        map_remove(&s->segments, item->address);
        return 0;
    case ACTION_SEGMENT_MAP:
    case ACTION_SEGMENT_UNMAP:
        return vec_push(&s->mappings, *entry) ? 0 : err_no_memory(e, "the snapshot's blocks");
    default:
        return 0;
    }
}

static int scan_history(struct torch_scan *s, struct torch_reader *r, struct err *e)
{
    struct torch_device *d = s->device;
    struct value_walk walk = {0};
    struct torch_entry entry;
    uint64_t dict;
    int status = value_walk_begin(&walk, &r->arena, d->history, e);
    while (status >= 0 && value_walk_next(&walk, &dict)) {
        status = torch_entry_read(r, dict, &entry, e);
        if (status <= 0)
            continue;
        d->entries++;
        if (entry.timed && entry.time) {
            d->last_time = entry.time > d->last_time ? entry.time : d->last_time;
            if (!d->first_time || entry.time < d->first_time)
                d->first_time = entry.time;
        }
        status = scan_entry(s, &entry, e);
    }
    value_walk_release(&walk);
    return status < 0 ? -1 : 0;
}

/* Blocks and segments of the snapshot that the history did not see being allocated. */
static int add_unseen(struct torch_scan *s, struct err *e)
{
    struct torch_device *d = s->device;
    for (size_t i = 0; i < d->segments.len; i++) {
        const struct torch_segment *segment = &d->segments.at[i];
        if (!segment->expandable && !map_find(&s->segments, segment->item.address) &&
            put_early(d, STATE_RESERVED, &segment->item, segment->item.frames, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < d->blocks.len; i++) {
        const struct torch_holding *b = &d->blocks.at[i];
        const uint64_t *seen = map_find(&s->blocks, b->item.address);
        bool freed = seen && *seen == FREED && !d->completions;
        if ((!seen || freed) && put_early(d, b->state, &b->item, b->item.frames, e) != 0)
            return -1;
    }
    return 0;
}

/*
 * Expandable segments are mapped and unmapped in parts of any size. What was mapped at the
 * beginning is what is mapped at the end, with the history undone from its end.
 */
static int undo_mappings(struct torch_scan *s, struct err *e)
{
    struct torch_device *d = s->device;
    struct address_ranges mapped = {0};
    int status = 0;
    for (size_t i = 0; i < d->segments.len && status == 0; i++) {
        const struct torch_item *item = &d->segments.at[i].item;
        const struct address_range range = {item->address, item->address + item->size, i};
        if (d->segments.at[i].expandable)
            status = address_ranges_add(&mapped, range, e);
    }
    for (size_t i = s->mappings.len; i-- > 0 && status == 0;) {
        const struct torch_item *item = &s->mappings.at[i].item;
        const struct address_range range = {item->address, item->address + item->size,
                                            d->segments.len + i};
        status = s->mappings.at[i].action == ACTION_SEGMENT_MAP
                     ? address_ranges_cut(&mapped, range.start, range.end, e)
                     : address_ranges_add(&mapped, range, e);
    }
    for (size_t i = 0; i < mapped.list.len && status == 0; i++) {
        const struct address_range *range = &mapped.list.at[i];
        size_t owner = range->owner;
        bool is_segment = owner < d->segments.len;
        struct torch_item item = {.frames = VALUE_NONE};
        if (is_segment)
            item = d->segments.at[owner].item;
        else if (owner - d->segments.len < s->mappings.len)
            item = s->mappings.at[owner - d->segments.len].item;
        item.address = range->start;
        item.size = range->end - range->start;
        status = put_early(d, STATE_MAPPED, &item, is_segment ? item.frames : VALUE_NONE, e);
    }
    address_ranges_release(&mapped);
    return status;
}

int torch_device_begin(struct torch_device *d, struct torch_reader *r, struct err *e)
{
    struct torch_scan s = {.device = d};
    if (d->segments.len)
        qsort(d->segments.at, d->segments.len, sizeof *d->segments.at, by_address);
    int status = scan_history(&s, r, e);
    if (status == 0)
        status = add_unseen(&s, e);
    if (status == 0)
        status = undo_mappings(&s, e);
    /*
     * If requests were not recorded (skip_actions), completions are the frees. A single one may be
     * that of a request just before the history.
     */
    bool skipped = !d->has_requests && d->completions > 1;
    for (size_t i = 0; i < d->early.len && skipped; i++) {
        struct torch_holding *early = &d->early.at[i];
        if (early->state == STATE_PENDING && value_kind(early->item.frames) == VALUE_OTHER)
            early->state = STATE_ALLOCATED;
    }
    map_release(&s.blocks);
    map_release(&s.segments);
    vec_release(&s.mappings);
    return status;
}
