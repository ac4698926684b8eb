#include "naming/timed_frames.h"

#include <stdlib.h>

#include "trace/store/frame_name.h"

/* Frames of one address differ in these bits of their ids, above those of addresses and images. */
#define TAG_FIRST 0x1000u
#define TAG_LAST 0x3fffu
#define TAG_SHIFT 48

void timed_frames_release(struct timed_frames *f)
{
    vec_release(&f->list);
    vec_release(&f->changes);
}

static int compare_times(const void *a, const void *b)
{
    const struct timed_change *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->entry->number > y->entry->number) - (x->entry->number < y->entry->number);
}

int timed_frames_add(struct timed_frames *f, const struct perf_map *m, uint32_t frame,
                     uint64_t address, struct err *e)
{
    struct perf_search s;
    perf_map_search(m, address, &s);
    if (s.more || f->changes.len > UINT32_MAX - PERF_MAP_SEARCHED)
        return 0;
    const struct timed_frame added = {
        .frame = frame, .address = address, .first = (uint32_t)f->changes.len, .n = (uint32_t)s.n};
    for (size_t i = 0; i < s.n; i++) {
        const struct timed_change change = {
            .from = (int64_t)s.found[i]->from, .entry = s.found[i], .frame = UINT32_MAX};
        if (!vec_push(&f->changes, change))
            return err_no_memory(e, "names of generated code");
    }
    qsort(f->changes.at + added.first, added.n, sizeof *f->changes.at, compare_times);
    return vec_push(&f->list, added) ? 0 : err_no_memory(e, "names of generated code");
}

/* ---- call stacks by time */

/* The call stack that stands for another one, from one time to another. */
struct stand_in {
    int64_t from, until;
    uint32_t callstack; /* 0: not looked up yet */
};

struct splitting {
    struct timed_frames *frames;
    const struct perf_map *map;
    struct trace *trace;
    struct frame_book *book;
    uint32_t image;
    uint32_t *of_frame;         /* index in frames->list + 1, by frame number; 0: none */
    bool *nodes;                /* whether a node or one around it has such a frame */
    size_t frame_count, count;  /* of these two */
    struct stand_in *stand_ins; /* by number of the call stack - 1 */
    size_t stack_count;
    VEC(uint64_t) ids;
};

/* The change that holds at a time; the first one before all. */
static size_t change_at(const struct timed_change *changes, size_t n, int64_t time)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (changes[middle].from <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? low - 1 : 0;
}

/* The frame of an address's function alone: made once for each function. */
static int frame_of(struct splitting *s, const struct timed_frame *f, size_t i, uint32_t *frame,
                    struct err *e)
{
    struct callstacks *c = &s->trace->callstacks;
    struct timed_change *changes = s->frames->changes.at + f->first;
    struct rec_inline_frame in;
    for (size_t k = 0; k < f->n && changes[i].frame == UINT32_MAX; k++) {
        if (changes[k].frame != UINT32_MAX &&
            perf_map_same(s->map, changes[k].entry, changes[i].entry, f->address))
            changes[i].frame = changes[k].frame;
    }
    *frame = changes[i].frame;
    if (*frame != UINT32_MAX)
        return 0;
    uint64_t id = c->frames.at[f->frame].id & ((UINT64_C(1) << TAG_SHIFT) - 1), tag = TAG_FIRST;
    while (tag < TAG_LAST && callstacks_find_frame(c, id | tag << TAG_SHIFT))
        tag++;
    if ((*frame = callstacks_frame(c, id | tag << TAG_SHIFT)) == UINT32_MAX)
        return err_no_memory(e, "call stack frames");
    changes[i].frame = *frame;
    if (perf_map_inline(s->map, changes[i].entry, f->address, 0, s->trace, &in, e) != 0)
        return -1;
    return frame_book_rename(s->book, *frame, s->image, &in, 1, e);
}

/* Looks up what stands for a call stack at a time, and from when until when. */
static int look_up(struct splitting *s, uint32_t node, int64_t time, struct stand_in *to,
                   struct err *e)
{
    struct callstacks *c = &s->trace->callstacks;
    bool fresh;
    *to = (struct stand_in){INT64_MIN, INT64_MAX, 0};
    s->ids.len = 0;
    for (; node; node = c->nodes.at[node].parent) {
        uint32_t frame = c->nodes.at[node].frame;
        uint32_t number = frame < s->frame_count ? s->of_frame[frame] : 0;
        if (number) {
            const struct timed_frame *f = &s->frames->list.at[number - 1];
            const struct timed_change *changes = s->frames->changes.at + f->first;
            size_t i = change_at(changes, f->n, time);
            if (i > 0 && changes[i].from > to->from)
                to->from = changes[i].from;
            if (i + 1 < f->n && changes[i + 1].from < to->until)
                to->until = changes[i + 1].from;
            if (frame_of(s, f, i, &frame, e) != 0)
                return -1;
        }
        if (!vec_push(&s->ids, c->frames.at[frame].id))
            return err_no_memory(e, "call stacks");
    }
    return callstacks_intern(c, s->ids.at, (uint32_t)s->ids.len, &to->callstack, &fresh, e);
}

/* The call stack of an event at a time; 0 with `e` set on an error, or if there is none. */
static uint32_t stack_at(struct splitting *s, uint32_t callstack, int64_t time, struct err *e)
{
    if (callstack == 0 || callstack > s->stack_count)
        return callstack;
    uint32_t node = s->trace->callstacks.list.at[callstack - 1].node;
    if (node >= s->count || !s->nodes[node])
        return callstack;
    struct stand_in *to = &s->stand_ins[callstack - 1];
    if ((to->callstack == 0 || time < to->from || time >= to->until) &&
        look_up(s, node, time, to, e) != 0)
        return 0;
    return to->callstack;
}

static int take_event(void *ctx, struct memory_alloc *alloc, struct memory_free *freed,
                      struct err *e)
{
    struct splitting *s = ctx;
    int64_t end = memory_free_time(alloc, freed);
    alloc->callstack = stack_at(s, alloc->callstack, alloc->time, e);
    if (end != NEVER_FREED && e->code == 0)
        freed->callstack = stack_at(s, freed->callstack, end, e);
    return e->code ? -1 : 0;
}

static int take_live(void *ctx, struct live_block *block, struct err *e)
{
    block->callstack = stack_at(ctx, block->callstack, block->time, e);
    return e->code ? -1 : 0;
}

static int mark(struct splitting *s, struct err *e)
{
    const struct callstacks *c = &s->trace->callstacks;
    s->frame_count = c->frames.len;
    s->count = c->nodes.len;
    s->stack_count = c->list.len;
    s->of_frame = calloc(s->frame_count + 1, sizeof *s->of_frame);
    s->nodes = calloc(s->count + 1, sizeof *s->nodes);
    s->stand_ins = calloc(s->stack_count + 1, sizeof *s->stand_ins);
    if (!s->of_frame || !s->nodes || !s->stand_ins)
        return err_no_memory(e, "call stacks");
    for (size_t i = 0; i < s->frames->list.len; i++)
        s->of_frame[s->frames->list.at[i].frame] = (uint32_t)i + 1;
    /* A node follows its parent. */
    for (size_t i = 1; i < s->count; i++)
        s->nodes[i] = s->nodes[c->nodes.at[i].parent] || s->of_frame[c->nodes.at[i].frame];
    return 0;
}

int timed_frames_split(struct timed_frames *f, const struct perf_map *m, struct trace *t,
                       struct frame_book *book, uint64_t begin, struct err *e)
{
    struct splitting s = {.frames = f, .map = m, .trace = t, .book = book};
    if (f->list.len == 0 || t->memory.only.is)
        return 0;
    for (size_t i = 0; i < f->changes.len; i++)
        f->changes.at[i].from -= (int64_t)begin;
    s.image = strings_intern(&t->strings, view_of(FRAME_IMAGE_GENERATED), e);
    int status = s.image ? mark(&s, e) : -1;
    if (status == 0)
        status = memory_restack(&t->memory, take_event, take_live, &s, e);
    if (status == 0)
        f->split = f->list.len;
    free(s.of_frame);
    free(s.nodes);
    free(s.stand_ins);
    vec_release(&s.ids);
    return status;
}
