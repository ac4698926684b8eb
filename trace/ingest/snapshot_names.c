/*
 * Strings, threads and call stacks of a snapshot: the tables that all other data refers to by
 * number.
 */

#include "trace/ingest/store_snapshot.h"

#define STACK_FRAMES_MAX 65536u /* more than two of the client's stacks have */

void snapshot_string(struct snapshot *s, const struct trace *t, uint32_t *number)
{
    uint32_t n = renumber_from_1(s, RENUMBER_STRINGS, s->loading ? 0 : *number);
    snapshot_u32(s, s->loading ? number : &n);
    snapshot_index(s, *number, t->strings.list.len + 1, "a string");
}

void snapshot_callstack_id(struct snapshot *s, const struct trace *t, uint32_t *id)
{
    uint32_t n = renumber_from_1(s, RENUMBER_CALLSTACKS, s->loading ? 0 : *id);
    snapshot_u32(s, s->loading ? id : &n);
    snapshot_index(s, *id, t->callstacks.list.len + 1, "a call stack");
}

void snapshot_thread_number(struct snapshot *s, const struct trace *t, uint16_t *number)
{
    uint16_t n = s->loading ? 0 : (uint16_t)renumber(s, RENUMBER_THREADS, *number);
    snapshot_u16(s, s->loading ? number : &n);
    snapshot_index(s, *number, t->threads.list.len, "a thread");
}

void snapshot_location(struct snapshot *s, const struct trace *t, int16_t *number)
{
    int16_t n = s->loading ? 0 : *number;
    if (n > 0 && n != LOCATION_NONE)
        n = (int16_t)(renumber(s, RENUMBER_LOCATIONS, (uint32_t)n - 1) + 1);
    else if (n < 0)
        n = (int16_t)(-1 - (int32_t)renumber(s, RENUMBER_PAYLOADS, (uint32_t)(-1 - n)));
    snapshot_i16(s, s->loading ? number : &n);
    if (*number > 0 && *number != LOCATION_NONE)
        snapshot_index(s, (uint64_t)*number - 1, t->locations.len, "a source location");
    else if (*number < 0)
        snapshot_index(s, (uint64_t)(-1 - *number), t->location_payloads.len, "a source location");
}

/* ---- maps */

static void put_slot(struct snapshot *s, struct map_slot slot, enum snapshot_map_of of)
{
    switch (of) {
    case MAP_TO_STRING:
        slot.value = renumber_from_1(s, RENUMBER_STRINGS, (uint32_t)slot.value);
        break;
    case MAP_FROM_STRING:
        slot.key = renumber_from_1(s, RENUMBER_STRINGS, (uint32_t)slot.key);
        break;
    case MAP_FROM_TWO_STRINGS: {
        uint64_t first = renumber_from_1(s, RENUMBER_STRINGS, (uint32_t)(slot.key >> 32));
        slot.key = first << 32 | renumber_from_1(s, RENUMBER_STRINGS, (uint32_t)slot.key);
        break;
    }
    }
    snapshot_u64(s, &slot.key);
    snapshot_u64(s, &slot.value);
}

void snapshot_string_map(struct snapshot *s, const struct trace *t, struct map *m,
                         enum snapshot_map_of of, uint64_t n, const char *what)
{
    size_t iter = 0;
    if (!s->loading) {
        (void)snapshot_count(s, m->count, SIZE_MAX);
        for (const struct map_slot *slot; !s->failed && (slot = map_next(m, &iter));)
            put_slot(s, *slot, of);
        return;
    }
    const uint64_t strings = t->strings.list.len + 1;
    if (of == MAP_TO_STRING)
        snapshot_map(s, m, 0, strings - 1, what);
    else
        snapshot_map_into(s, m, n, what);
    for (const struct map_slot *slot; of != MAP_TO_STRING && (slot = map_next(m, &iter));) {
        bool two = of == MAP_FROM_TWO_STRINGS;
        snapshot_index(s, two ? slot->key >> 32 : 0, strings, what);
        snapshot_index(s, two ? (uint32_t)slot->key : slot->key, strings, what);
    }
}

/* ---- strings and threads */

static void save_strings(struct snapshot *s, const struct strings *strings)
{
    (void)snapshot_count(s, renumber_kept(s, RENUMBER_STRINGS, strings->list.len), STRINGS_MAX);
    for (size_t i = 0; i < strings->list.len && !s->failed; i++) {
        struct view v = strings->list.at[i];
        if (!renumber_notes(s) && renumber_keeps(s, RENUMBER_STRINGS, i))
            snapshot_put_text(s, v.p, v.len);
    }
}

static void load_strings(struct snapshot *s, struct strings *strings)
{
    size_t n = snapshot_count(s, 0, STRINGS_MAX);
    struct buf text = {0};
    strings_clear(strings);
    for (size_t i = 0; i < n && !s->failed; i++) {
        snapshot_buf(s, &text, CLIENT_TEXT_MAX);
        struct view v = {(const char *)text.data, text.len};
        s->failed |= !s->failed && strings_restore(strings, v, s->e) == 0;
    }
    buf_release(&text);
}

/* The stand-in for elements beyond the limit; a smaller table may not need it. */
static uint32_t other_of(struct snapshot *s, enum renumber_table table, uint32_t other)
{
    if (renumber_notes(s) || !other || !renumber_keeps(s, table, other - 1))
        return 0;
    return renumber_from_1(s, table, other);
}

static void snapshot_strings(struct snapshot *s, struct trace *t)
{
    struct strings *strings = &t->strings;
    if (s->loading)
        load_strings(s, strings);
    else
        save_strings(s, strings);
    snapshot_string_map(s, t, &strings->by_pointer, MAP_TO_STRING, 0, "a string");
    uint32_t other = s->loading ? 0 : other_of(s, RENUMBER_STRINGS, strings->other);
    uint64_t overflow = s->renumbering ? 0 : strings->overflow;
    snapshot_u32(s, s->loading ? &strings->other : &other);
    snapshot_u64(s, s->loading ? &strings->overflow : &overflow);
    snapshot_index(s, strings->other, strings->list.len + 1, "a string");
}

static void snapshot_thread(struct snapshot *s, const struct trace *t, struct trace_thread *one)
{
    snapshot_u64(s, &one->id);
    snapshot_string(s, t, &one->name);
    snapshot_bool(s, &one->is_fiber);
    snapshot_bool(s, &one->listed);
    snapshot_bool(s, &one->local);
    snapshot_i32(s, &one->group_hint);
}

/* Whether a thread without a position has facts that the client may not send again. */
static bool is_known(const struct trace_thread *one)
{
    return one->name || one->group_hint;
}

/* Saves the threads that have a position; their names are always needed. */
static void save_listed_threads(struct snapshot *s, struct trace *t)
{
    struct trace_threads *th = &t->threads;
    (void)snapshot_count(s, renumber_kept(s, RENUMBER_THREADS, th->list.len), THREADS_MAX);
    for (size_t i = 0; i < th->list.len && !s->failed; i++) {
        if (renumber_notes(s) || renumber_keeps(s, RENUMBER_THREADS, i))
            snapshot_thread(s, t, &th->list.at[i]);
    }
}

static void save_thread_numbers(struct snapshot *s, const uint16_t *numbers, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        kept += renumber_keeps(s, RENUMBER_THREADS, numbers[i]);
    (void)snapshot_count(s, kept, THREADS_MAX);
    for (size_t i = 0; i < n && !renumber_notes(s) && !s->failed; i++) {
        uint16_t number = numbers[i];
        if (!renumber_keeps(s, RENUMBER_THREADS, number))
            continue;
        number = (uint16_t)renumber(s, RENUMBER_THREADS, number);
        snapshot_u16(s, &number);
    }
}

/*
 * Saves the facts about threads without a position: earlier ones, and those that lose theirs now.
 */
static void save_known_threads(struct snapshot *s, struct trace *t)
{
    struct trace_threads *th = &t->threads;
    size_t n = 0;
    for (int writing = 0; writing < 2; writing++) {
        for (size_t i = 0; i < th->known.len && !s->failed; i++) {
            if (map_find(&th->numbers, th->known.at[i].id))
                continue;
            n += !writing;
            if (writing)
                snapshot_thread(s, t, &th->known.at[i]);
        }
        for (size_t i = 0; i < th->list.len && !s->failed; i++) {
            struct trace_thread one = th->list.at[i];
            if (renumber_keeps(s, RENUMBER_THREADS, i) || !is_known(&one) ||
                !map_find(&th->numbers, one.id))
                continue;
            one.listed = one.local = false;
            n += !writing;
            if (writing)
                snapshot_thread(s, t, &one);
        }
        if (!writing)
            (void)snapshot_count(s, n, SIZE_MAX);
    }
}

/* By id; leaves out the stand-in for threads without a position. */
static void save_numbers(struct snapshot *s, const struct map *numbers)
{
    size_t kept = 0, iter = 0;
    for (const struct map_slot *slot; (slot = map_next(numbers, &iter));)
        kept += renumber_keeps(s, RENUMBER_THREADS, slot->value);
    (void)snapshot_count(s, kept, THREADS_MAX);
    iter = 0;
    for (const struct map_slot *slot; !renumber_notes(s) && (slot = map_next(numbers, &iter));) {
        uint64_t id = slot->key, number = slot->value;
        if (!renumber_keeps(s, RENUMBER_THREADS, number))
            continue;
        number = renumber(s, RENUMBER_THREADS, (uint32_t)number);
        snapshot_u64(s, &id);
        snapshot_u64(s, &number);
    }
}

static void save_threads(struct snapshot *s, struct trace *t)
{
    struct trace_threads *th = &t->threads;
    uint64_t overflow = s->renumbering ? 0 : th->overflow;
    save_listed_threads(s, t);
    save_thread_numbers(s, th->order.at, th->order.len);
    save_thread_numbers(s, th->locals.at, th->locals.len);
    save_numbers(s, &th->numbers);
    snapshot_u64(s, &overflow);
    save_known_threads(s, t);
}

static void load_threads(struct snapshot *s, struct trace *t)
{
    struct trace_threads *th = &t->threads;
    SNAPSHOT_EACH(s, &th->list, i, THREADS_MAX)
    snapshot_thread(s, t, &th->list.at[i]);
    SNAPSHOT_EACH(s, &th->order, i, THREADS_MAX)
    snapshot_thread_number(s, t, &th->order.at[i]);
    SNAPSHOT_EACH(s, &th->locals, i, THREADS_MAX)
    snapshot_thread_number(s, t, &th->locals.at[i]);
    snapshot_map_into(s, &th->numbers, th->list.len, "a thread");
    snapshot_u64(s, &th->overflow);
    SNAPSHOT_EACH(s, &th->known, i, UINT32_MAX)
    {
        snapshot_thread(s, t, &th->known.at[i]);
        uint64_t *number = map_add(&th->known_numbers, th->known.at[i].id, NULL);
        if (number)
            *number = i;
        else
            snapshot_no_memory(s);
    }
    if (th->list.len == 0 || th->list.at[0].id != 0)
        snapshot_refuse(s, "the first thread");
    th->last_id = 0;
    th->last_number = 0;
}

void snapshot_names(struct snapshot *s, struct trace *t)
{
    snapshot_strings(s, t);
    if (s->loading)
        load_threads(s, t);
    else
        save_threads(s, t);
}

/* ---- call stacks */

static void snapshot_frames(struct snapshot *s, struct trace *t)
{
    struct callstacks *c = &t->callstacks;
    SNAPSHOT_EACH(s, &c->inlines, i, UINT32_MAX)
    {
        struct rec_inline_frame *one = &c->inlines.at[i];
        snapshot_string(s, t, &one->function);
        snapshot_string(s, t, &one->file);
        snapshot_u32(s, &one->line);
        snapshot_u64(s, &one->symbol);
    }
    size_t n = snapshot_count(s, c->frames.len, UINT32_MAX - 2);
    for (size_t i = 0; i < n && !s->failed; i++) {
        struct frame f = s->loading ? (struct frame){0} : c->frames.at[i];
        snapshot_u64(s, &f.id);
        snapshot_string(s, t, &f.image);
        snapshot_u32(s, &f.first);
        snapshot_u32(s, &f.n);
        if (!s->loading || s->failed)
            continue;
        if (f.n > UINT8_MAX || (uint64_t)f.first + f.n > c->inlines.len ||
            callstacks_find_frame(c, f.id))
            snapshot_refuse(s, "a frame of a call stack");
        else if (callstacks_frame(c, f.id) != i)
            snapshot_no_memory(s);
        else
            c->frames.at[i] = f;
    }
}

/* The number of frames down to each node. */
struct depths {
    VEC(uint32_t) of;
};

/* Reads the tree: each node's parent precedes it. */
static void load_nodes(struct snapshot *s, struct callstacks *c, size_t n, struct depths *d)
{
    for (size_t i = 0; i < n && !s->failed; i++) {
        struct callstack_node node = {0};
        uint32_t depth = 0;
        if (i > 0) {
            snapshot_u32(s, &node.parent);
            snapshot_u32(s, &node.frame);
            snapshot_index(s, node.parent, i, "a node of a call stack");
            snapshot_index(s, node.frame, c->frames.len, "a node of a call stack");
            if (s->failed)
                return;
            depth = d->of.at[node.parent] + 1;
            s->failed = callstacks_restore_node(c, &node, s->e) != 0;
        }
        if (depth > STACK_FRAMES_MAX)
            snapshot_refuse(s, "a call stack is too deep");
        else if (!vec_push(&d->of, depth))
            snapshot_no_memory(s);
    }
}

static void load_stacks(struct snapshot *s, struct callstacks *c, const struct depths *d)
{
    size_t n = snapshot_count(s, 0, CALLSTACKS_MAX);
    for (size_t i = 0; i < n && !s->failed; i++) {
        struct callstack one = {0};
        snapshot_u32(s, &one.node);
        snapshot_index(s, one.node, d->of.len, "a call stack");
        if (s->failed || !d->of.at)
            return;
        one.len = d->of.at[one.node];
        s->failed = callstacks_restore(c, &one, i + 1 != c->other, s->e) != 0;
    }
}

static void load_tree(struct snapshot *s, struct callstacks *c)
{
    size_t n = snapshot_count(s, 0, UINT32_MAX);
    struct depths d = {0};
    snapshot_u32(s, &c->other);
    if (n == 0)
        snapshot_refuse(s, "there are no call stacks");
    load_nodes(s, c, n, &d);
    load_stacks(s, c, &d);
    vec_release(&d.of);
    snapshot_index(s, c->other, c->list.len + 1, "a call stack");
}

static void save_tree(struct snapshot *s, struct callstacks *c)
{
    uint32_t other = other_of(s, RENUMBER_CALLSTACKS, c->other);
    if (renumber_notes(s))
        return;
    (void)snapshot_count(s, renumber_kept(s, RENUMBER_NODES, c->nodes.len), UINT32_MAX);
    snapshot_u32(s, &other);
    for (size_t i = 1; i < c->nodes.len && !s->failed; i++) {
        if (!renumber_keeps(s, RENUMBER_NODES, i))
            continue;
        uint32_t parent = renumber(s, RENUMBER_NODES, c->nodes.at[i].parent);
        snapshot_u32(s, &parent);
        snapshot_u32(s, &c->nodes.at[i].frame);
    }
    (void)snapshot_count(s, renumber_kept(s, RENUMBER_CALLSTACKS, c->list.len), CALLSTACKS_MAX);
    for (size_t i = 0; i < c->list.len && !s->failed; i++) {
        if (!renumber_keeps(s, RENUMBER_CALLSTACKS, i))
            continue;
        uint32_t node = renumber(s, RENUMBER_NODES, c->list.at[i].node);
        snapshot_u32(s, &node);
    }
}

void snapshot_callstacks(struct snapshot *s, struct trace *t)
{
    struct callstacks *c = &t->callstacks;
    uint64_t overflow = s->renumbering ? 0 : c->overflow;
    snapshot_frames(s, t);
    if (s->loading)
        load_tree(s, c);
    else
        save_tree(s, c);
    snapshot_u64(s, s->loading ? &c->overflow : &overflow);
}
