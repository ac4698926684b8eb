#include "trace/store/samples.h"

#include <stdlib.h>
#include <string.h>

#include "trace/store/spill.h"

/* Records of a sort kept in memory; there are two sorts at a time. */
#define SORTED_IN_MEMORY ((size_t)1 << 18)

/* ---- initialisation and release */

struct arrived_sample {
    int64_t time;
    uint32_t callstack;
    uint16_t thread;
    uint8_t at_switch;
} __attribute__((packed));

static const struct pack_layout arrived_layout = {
    .element = sizeof(struct arrived_sample),
    .count = 4,
    .fields = {{0, 8, PACK_STEP}, {8, 4, PACK_OFFSET}, {12, 2, PACK_OFFSET}, {14, 1, PACK_OFFSET}},
};

static const struct pack_layout sorted_layout = {
    .element = sizeof(struct sample),
    .count = 2,
    .fields = {{0, 8, PACK_STEP}, {8, 4, PACK_OFFSET}},
};

struct hw_time {
    int64_t time;
    uint32_t address; /* index in hw */
    uint8_t counter;
} __attribute__((packed));

static const struct pack_layout hw_layout = {
    .element = sizeof(struct hw_time),
    .count = 3,
    .fields = {{0, 8, PACK_STEP}, {8, 4, PACK_OFFSET}, {12, 1, PACK_OFFSET}},
};

void samples_init(struct samples *s, struct spool *spool)
{
    *s = (struct samples){.spool = spool};
    column_init(&s->arrived, spool, &arrived_layout, false);
    column_init(&s->sorted, spool, &sorted_layout, false);
    column_init(&s->hw_times, spool, &hw_layout, false);
}

void samples_release(struct samples *s)
{
    vec_release(&s->threads);
    column_release(&s->arrived);
    column_release(&s->sorted);
    vec_release(&s->hw);
    map_release(&s->hw_numbers);
    column_release(&s->hw_times);
    *s = (struct samples){0};
}

void samples_clear(struct samples *s)
{
    bool combine = s->combine;
    struct spool *spool = s->spool;
    samples_release(s);
    samples_init(s, spool);
    s->combine = combine;
}

/* ---- adding call stack samples */

static struct sample_thread *thread_at(struct samples *s, uint16_t number, struct err *e)
{
    while (s->threads.len <= number) {
        if (!vec_push(&s->threads, (struct sample_thread){.last_time = INT64_MIN})) {
            err_no_memory(e, "samples");
            return NULL;
        }
    }
    return &s->threads.at[number];
}

struct sample_thread samples_of(const struct samples *s, uint16_t thread)
{
    return s->finished && thread < s->threads.len ? s->threads.at[thread]
                                                  : (struct sample_thread){0};
}

static int append(struct samples *s, struct sample_thread *t, const struct arrived_sample *one,
                  struct err *e)
{
    struct arrived_sample *at = column_append(&s->arrived, e);
    if (!at)
        return -1;
    *at = *one;
    s->disorder |= one->time <= t->last_time;
    if (one->time > t->last_time)
        t->last_time = one->time;
    s->finished = false;
    return 0;
}

/* Joins two call stacks, `inner` first, and interns the result in `stacks`. */
static int join_stacks(struct callstacks *stacks, uint32_t inner, uint32_t outer, uint32_t *joined,
                       struct err *e)
{
    const struct callstack *parts[2] = {callstacks_get(stacks, inner),
                                        callstacks_get(stacks, outer)};
    if (!parts[0] || !parts[1])
        return err_set(e, ERR_INPUT, "a sample has a call stack that is not there");
    size_t room = (size_t)parts[0]->len + parts[1]->len, n = 0;
    uint64_t *frames = malloc((room + 1) * sizeof *frames);
    if (!frames)
        return err_no_memory(e, "samples");
    for (unsigned i = 0; i < 2; i++) {
        for (uint32_t node = parts[i]->node; node && n < UINT16_MAX;
             node = stacks->nodes.at[node].parent)
            frames[n++] = stacks->frames.at[stacks->nodes.at[node].frame].id;
    }
    bool fresh;
    int status = callstacks_intern(stacks, frames, (uint32_t)n, joined, &fresh, e);
    free(frames);
    return status;
}

/*
 * The client sends each sample in two parts. The first one is held back until the second one or a
 * sample of another time arrives.
 */
static int add_half(struct samples *s, struct sample_thread *t, struct arrived_sample *one,
                    struct callstacks *stacks, struct err *e)
{
    if (t->held_time == one->time) {
        uint32_t both;
        t->held_time = 0;
        if (join_stacks(stacks, t->held_callstack, one->callstack, &both, e) != 0)
            return -1;
        one->callstack = both;
        return append(s, t, one, e);
    }
    struct arrived_sample held = *one;
    held.time = t->held_time;
    held.callstack = t->held_callstack;
    t->held_time = one->time;
    t->held_callstack = one->callstack;
    return held.time ? append(s, t, &held, e) : 0;
}

int samples_add(struct samples *s, uint16_t thread, int64_t time, uint32_t callstack,
                bool at_switch, struct callstacks *stacks, struct err *e)
{
    struct sample_thread *t = thread_at(s, thread, e);
    struct arrived_sample one = {time, callstack, thread, at_switch};
    if (!t)
        return -1;
    if (s->combine && !at_switch && time != 0)
        return add_half(s, t, &one, stacks, e);
    return append(s, t, &one, e);
}

/* ---- sorting */

struct sorted_sample {
    int64_t key; /* sort key of the spill: the time, or the list */
    struct arrived_sample sample;
};

/* In the file each thread has its switch samples, then all its samples. */
static int64_t list_of(const struct arrived_sample *s, bool switches)
{
    return (int64_t)s->thread * 2 + !switches;
}

struct finish {
    struct samples *s;
    struct callstacks *stacks;
    struct spill lists;
    struct sorted_sample in; /* the latest sample, until a sample with another time follows */
    bool has;
};

/* Adds a sample to its lists. */
static int add_to_lists(struct finish *f, const struct arrived_sample *sample, struct err *e)
{
    for (int switches = sample->at_switch; switches >= 0; switches--) {
        struct sorted_sample one = {list_of(sample, switches), *sample};
        if (spill_add(&f->lists, &one, 1, e) != 0)
            return -1;
    }
    return 0;
}

static int put_in_lists(void *ctx, const void *recs, size_t n, struct err *e)
{
    const struct sorted_sample *r = recs;
    for (size_t i = 0; i < n; i++) {
        if (add_to_lists(ctx, &r[i].sample, e) != 0)
            return -1;
    }
    return 0;
}

/*
 * Reads all samples in order of arrival, into `times` for sorting, or, if that is NULL, to their
 * lists.
 */
static int read_arrived(struct finish *f, struct spill *times, struct err *e)
{
    struct column_walk w = column_walk(&f->s->arrived);
    int status = 0;
    for (const struct arrived_sample *r; (r = column_walk_next(&w, &status, e));) {
        struct sorted_sample one = {r->time, *r};
        status = times ? spill_add(times, &one, 1, e) : add_to_lists(f, r, e);
    }
    return status;
}

static bool is_kernel(const struct callstacks *stacks, uint32_t callstack)
{
    const struct callstack *c = callstacks_get(stacks, callstack);
    uint64_t id = stacks->frames.at[stacks->nodes.at[c->node].frame].id;
    return !(id & FRAME_ID_CUSTOM) && frame_address(id) >> 63;
}

static int put_newest(struct finish *f, struct err *e)
{
    if (!f->has)
        return 0;
    const struct arrived_sample *in = &f->in.sample;
    struct sample_thread *t = &f->s->threads.at[in->thread];
    uint64_t *count = f->in.key & 1 ? &t->samples : &t->switch_samples;
    struct sample *out = column_append(&f->s->sorted, e);
    if (!out)
        return -1;
    *out = (struct sample){in->time, in->callstack};
    (*count)++;
    f->has = false;
    return 0;
}

static int take_sorted(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct finish *f = ctx;
    const struct sorted_sample *r = recs;
    for (size_t i = 0; i < n; i++) {
        const struct arrived_sample *one = &r[i].sample;
        bool all = r[i].key & 1;
        if (all && f->has && f->in.key == r[i].key && one->time != 0 &&
            one->time == f->in.sample.time) {
            uint32_t inner = f->in.sample.callstack, both;
            if (join_stacks(f->stacks, inner, one->callstack, &both, e) != 0)
                return -1;
            f->in.sample.callstack = both;
            continue;
        }
        if (put_newest(f, e) != 0)
            return -1;
        f->in = r[i];
        f->has = true;
        if (all)
            f->s->threads.at[one->thread].kernel += is_kernel(f->stacks, one->callstack);
    }
    return 0;
}

int samples_finish(struct samples *s, struct callstacks *stacks, const char *dir, struct err *e)
{
    struct finish f = {.s = s, .stacks = stacks};
    struct spill times;
    int status;
    column_clear(&s->sorted);
    for (size_t i = 0; i < s->threads.len; i++)
        s->threads.at[i].samples = s->threads.at[i].switch_samples = s->threads.at[i].kernel = 0;
    spill_init(&times, sizeof(struct sorted_sample), SORTED_IN_MEMORY, dir);
    spill_init(&f.lists, sizeof(struct sorted_sample), SORTED_IN_MEMORY, dir);
    status = read_arrived(&f, s->disorder ? &times : NULL, e);
    if (status == 0)
        status = spill_drain(&times, put_in_lists, &f, e);
    spill_release(&times);
    if (status == 0)
        status = spill_drain(&f.lists, take_sorted, &f, e);
    if (status == 0)
        status = put_newest(&f, e);
    spill_release(&f.lists);
    uint64_t first = 0;
    for (size_t i = 0; i < s->threads.len; i++) {
        s->threads.at[i].first = first;
        first += s->threads.at[i].switch_samples + s->threads.at[i].samples;
    }
    s->finished = status == 0;
    return status;
}

/* ---- hardware samples */

int samples_add_hw(struct samples *s, uint64_t ip, unsigned counter, int64_t time, struct err *e)
{
    bool fresh = false;
    uint64_t *number = map_find(&s->hw_numbers, ip);
    if (!number && s->hw.len >= HW_ADDRESSES_MAX) {
        s->hw_overflow++;
        return 0;
    }
    if (!number && !(number = map_add(&s->hw_numbers, ip, &fresh)))
        return err_no_memory(e, "samples");
    if (fresh) {
        *number = s->hw.len;
        if (!vec_push(&s->hw, (struct hw_address){.ip = ip}))
            return err_no_memory(e, "samples");
    }
    struct hw_time *at = column_append(&s->hw_times, e);
    if (!at)
        return -1;
    *at = (struct hw_time){time, (uint32_t)*number, (uint8_t)counter};
    s->hw.at[*number].counts[counter]++;
    return 0;
}

struct sorted_hw {
    int64_t key;
    struct hw_time hw;
};

struct hw_walk {
    struct samples *s;
    const struct hw_sink *to;
    struct spill *next;
    const uint32_t *order;  /* indices of addresses, ascending by address */
    const uint32_t *places; /* the inverse of `order` */
    size_t lists;           /* lists begun so far, over all addresses */
};

/* Begins all lists up to number `list`; an address has six. */
static int begin_lists(struct hw_walk *w, size_t list, struct err *e)
{
    for (; w->lists <= list; w->lists++) {
        const struct hw_address *hw = &w->s->hw.at[w->order[w->lists / HW_COUNTERS]];
        unsigned counter = (unsigned)(w->lists % HW_COUNTERS);
        if ((counter == 0 && w->to->address(w->to->ctx, hw, e) != 0) ||
            w->to->list(w->to->ctx, hw->counts[counter], e) != 0)
            return -1;
    }
    return 0;
}

static int by_list(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct hw_walk *w = ctx;
    const struct sorted_hw *r = recs;
    for (size_t i = 0; i < n; i++) {
        struct sorted_hw one = {(int64_t)w->places[r[i].hw.address] * HW_COUNTERS + r[i].hw.counter,
                                r[i].hw};
        if (spill_add(w->next, &one, 1, e) != 0)
            return -1;
    }
    return 0;
}

static int put_hw(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct hw_walk *w = ctx;
    const struct sorted_hw *r = recs;
    for (size_t i = 0; i < n; i++) {
        if (begin_lists(w, (size_t)r[i].key, e) != 0 ||
            w->to->time(w->to->ctx, r[i].hw.time, e) != 0)
            return -1;
    }
    return 0;
}

static int add_hw(struct column *c, struct spill *to, struct err *e)
{
    struct column_walk w = column_walk(c);
    int status = 0;
    for (const struct hw_time *r; (r = column_walk_next(&w, &status, e));) {
        struct sorted_hw one = {r->time, *r};
        status = spill_add(to, &one, 1, e);
    }
    return status;
}

static int compare_addresses(const void *a, const void *b, void *ctx)
{
    const struct samples *s = ctx;
    uint64_t x = s->hw.at[*(const uint32_t *)a].ip;
    uint64_t y = s->hw.at[*(const uint32_t *)b].ip;
    return x < y ? -1 : x > y;
}

static int walk_hw(struct hw_walk *w, const char *dir, struct err *e)
{
    struct spill times, lists;
    spill_init(&times, sizeof(struct sorted_hw), SORTED_IN_MEMORY, dir);
    spill_init(&lists, sizeof(struct sorted_hw), SORTED_IN_MEMORY, dir);
    w->next = &lists;
    int status = add_hw(&w->s->hw_times, &times, e);
    if (status == 0)
        status = spill_drain(&times, by_list, w, e);
    w->next = NULL;
    spill_release(&times);
    if (status == 0)
        status = spill_drain(&lists, put_hw, w, e);
    spill_release(&lists);
    return status == 0 ? begin_lists(w, w->s->hw.len * HW_COUNTERS - 1, e) : -1;
}

int samples_walk_hw(struct samples *s, const char *dir, const struct hw_sink *to, struct err *e)
{
    if (s->hw.len == 0)
        return 0;
    uint32_t *order = malloc(s->hw.len * sizeof *order);
    uint32_t *places = malloc(s->hw.len * sizeof *places);
    struct hw_walk w = {.s = s, .to = to, .order = order, .places = places};
    int status = order && places ? 0 : err_no_memory(e, "samples");
    for (size_t i = 0; status == 0 && i < s->hw.len; i++)
        order[i] = (uint32_t)i;
    if (status == 0) {
        qsort_r(order, s->hw.len, sizeof *order, compare_addresses, s);
        for (size_t i = 0; i < s->hw.len; i++)
            places[order[i]] = (uint32_t)i;
        status = walk_hw(&w, dir, e);
    }
    free(order);
    free(places);
    return status;
}
