/* Strings, threads and call stacks of a snapshot: what everything else points to by number. */

#include "trace/snapshot.h"

#define STRING_BYTES_MAX ((size_t)16 << 20)
#define STACK_FRAMES_MAX 65536u /* more than two of the client's */

void snapshot_string(struct snapshot *s, const struct trace *t, uint32_t *number)
{
    snapshot_u32(s, number);
    snapshot_index(s, *number, t->strings.list.len + 1, "a string");
}

void snapshot_callstack_id(struct snapshot *s, const struct trace *t, uint32_t *id)
{
    snapshot_u32(s, id);
    snapshot_index(s, *id, t->callstacks.list.len + 1, "a call stack");
}

void snapshot_thread_number(struct snapshot *s, const struct trace *t, uint16_t *number)
{
    snapshot_u16(s, number);
    snapshot_index(s, *number, t->threads.list.len, "a thread");
}

static void snapshot_strings(struct snapshot *s, struct strings *strings)
{
    size_t n = snapshot_count(s, strings->list.len, STRINGS_MAX);
    struct buf text = {0};
    if (s->loading)
        strings_clear(strings);
    for (size_t i = 0; i < n && !s->failed; i++) {
        if (!s->loading) {
            struct view v = strings->list.at[i];
            snapshot_put_text(s, v.p, v.len);
            continue;
        }
        snapshot_buf(s, &text, STRING_BYTES_MAX);
        struct view v = {(const char *)text.data, text.len};
        s->failed |= !s->failed && strings_restore(strings, v, s->e) == 0;
    }
    buf_release(&text);
    snapshot_map(s, &strings->by_pointer, 0, strings->list.len, "a string");
    snapshot_u32(s, &strings->other);
    snapshot_index(s, strings->other, strings->list.len + 1, "a string");
    snapshot_u64(s, &strings->overflow);
}

static void snapshot_threads(struct snapshot *s, struct trace *t)
{
    struct trace_threads *th = &t->threads;
    SNAPSHOT_EACH(s, &th->list, i, THREADS_MAX)
    {
        struct trace_thread *one = &th->list.at[i];
        snapshot_u64(s, &one->id);
        snapshot_string(s, t, &one->name);
        snapshot_bool(s, &one->is_fiber);
        snapshot_bool(s, &one->listed);
        snapshot_bool(s, &one->local);
        snapshot_i32(s, &one->group_hint);
    }
    SNAPSHOT_EACH(s, &th->order, i, THREADS_MAX)
    snapshot_thread_number(s, t, &th->order.at[i]);
    SNAPSHOT_EACH(s, &th->locals, i, THREADS_MAX)
    snapshot_thread_number(s, t, &th->locals.at[i]);
    snapshot_map_into(s, &th->numbers, th->list.len, "a thread");
    snapshot_u64(s, &th->overflow);
    if (th->list.len == 0 || th->list.at[0].id != 0)
        snapshot_refuse(s, "the first thread");
    if (s->loading && !s->failed) {
        th->last_id = 0;
        th->last_number = 0;
    }
}

void snapshot_names(struct snapshot *s, struct trace *t)
{
    snapshot_strings(s, &t->strings);
    snapshot_threads(s, t);
}

/* ---- call stacks */

static void snapshot_frames(struct snapshot *s, struct trace *t)
{
    struct callstacks *c = &t->callstacks;
    SNAPSHOT_EACH(s, &c->inlines, i, UINT32_MAX)
    {
        struct frame_inline *one = &c->inlines.at[i];
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

/* Frames down to each node. */
struct depths {
    VEC(uint32_t) of;
};

/* The tree: each node below one that came before. */
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
    (void)snapshot_count(s, c->nodes.len, UINT32_MAX);
    snapshot_u32(s, &c->other);
    for (size_t i = 1; i < c->nodes.len && !s->failed; i++) {
        snapshot_u32(s, &c->nodes.at[i].parent);
        snapshot_u32(s, &c->nodes.at[i].frame);
    }
    (void)snapshot_count(s, c->list.len, CALLSTACKS_MAX);
    for (size_t i = 0; i < c->list.len && !s->failed; i++)
        snapshot_u32(s, &c->list.at[i].node);
}

void snapshot_callstacks(struct snapshot *s, struct trace *t)
{
    struct callstacks *c = &t->callstacks;
    snapshot_frames(s, t);
    if (s->loading)
        load_tree(s, c);
    else
        save_tree(s, c);
    snapshot_u64(s, &c->overflow);
}
