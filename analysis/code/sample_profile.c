#include "analysis/code/sample_profile.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "trace/file/record_takers.h"

/* ---- gathering */

static int add_sample(struct sample_input *in, uint32_t callstack, struct err *e)
{
    bool fresh;
    uint32_t thread = (uint32_t)in->threads.len - 1;
    uint64_t *number = map_add(&in->numbers, (uint64_t)thread << 32 | callstack, &fresh);
    if (!number)
        return err_no_memory(e, "samples");
    if (fresh) {
        *number = in->groups.len;
        struct sample_group group = {.thread = thread, .callstack = callstack};
        if (!vec_push(&in->groups, group))
            return err_no_memory(e, "samples");
    }
    in->groups.at[*number].count++;
    return 0;
}

TAKE_EACH(add_switch, struct sample_input *in, sample, s)
{
    uint64_t *timeless = NULL;
    if (s->time == 0 && (timeless = map_add(&in->timeless, s->callstack, NULL)))
        ++*timeless;
    if (!timeless && (s->time == 0 || !vec_push(&in->switches, s->time)))
        return err_no_memory(e, "samples");
    return 0;
}

static int compare_times(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;
    return (*x > *y) - (*x < *y);
}

/* Files before 0.13.6 may have them out of order. */
TAKE_EACH(sort_switches, struct sample_input *in, count, r)
{
    if (in->switches.len)
        qsort(in->switches.at, in->switches.len, sizeof *in->switches.at, compare_times);
    in->next_switch = 0;
    return 0;
}

/* Samples come in order of time; after one that does not, the search restarts. */
static bool is_switch(struct sample_input *in, int64_t time, uint32_t callstack)
{
    uint64_t *timeless = time == 0 ? map_find(&in->timeless, callstack) : NULL;
    if (timeless && *timeless)
        return (*timeless)--;
    if (in->next_switch && in->switches.at[in->next_switch - 1] >= time)
        in->next_switch = 0;
    while (in->next_switch < in->switches.len && in->switches.at[in->next_switch] < time)
        in->next_switch++;
    return in->next_switch < in->switches.len && in->switches.at[in->next_switch] == time;
}

TAKE_EACH(take_sample, struct sample_input *in, sample, s)
{
    if (in->threads.len == 0 || (in->has_range && (s->time < in->begin || s->time >= in->end)))
        return 0;
    if (!is_switch(in, s->time, s->callstack))
        return add_sample(in, s->callstack, e);
    in->switch_samples++;
    return 0;
}

TAKE_EACH(begin_thread, struct sample_input *in, thread, t)
{
    in->switches.len = in->next_switch = 0;
    map_release(&in->timeless);
    in->timeless = (struct map){0};
    return vec_push(&in->threads, t->id) ? 0 : err_no_memory(e, "samples");
}

static const record_takers takers = {
    [REC_THREAD] = begin_thread,
    [REC_SWITCH_SAMPLE] = add_switch,
    [REC_SAMPLES] = sort_switches,
    [REC_SAMPLE] = take_sample,
};

void sample_input_wanted(bool wanted[REC_TYPE_COUNT])
{
    records_wanted(takers, wanted);
}

int sample_input_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    return records_take(takers, ctx, type, recs, n, e);
}

void sample_input_release(struct sample_input *in)
{
    vec_release(&in->threads);
    vec_release(&in->groups);
    vec_release(&in->switches);
    map_release(&in->numbers);
    map_release(&in->timeless);
    *in = (struct sample_input){0};
}

/* ---- counting */

struct counting {
    struct sample_profile *p;
    const struct trace *trace;
    struct map rows; /* hash of a name and an image → index in p->functions */
    XXH64_hash_t seed;
    struct buf name;
};

static bool row_is(const struct sample_function_row *row, const struct frame_view *f)
{
    return view_equal(row->frame.function, f->function) && view_equal(row->frame.image, f->image) &&
           (f->function.len || row->frame.address == f->address);
}

/* The function's row, added if new; NULL if memory is short. */
static struct sample_function_row *row_of(struct counting *c, const struct frame_view *f)
{
    buf_clear(&c->name);
    frame_name(&c->name, f);
    buf_u8(&c->name, 0);
    buf_put(&c->name, f->image.p, f->image.len);
    uint64_t key = XXH3_64bits_withSeed(c->name.data, c->name.len, c->seed);
    for (; !c->name.failed; key++) {
        bool fresh;
        uint64_t *number = map_add(&c->rows, key, &fresh);
        if (!number)
            return NULL;
        if (!fresh && row_is(&c->p->functions.at[*number], f))
            return &c->p->functions.at[*number];
        if (!fresh)
            continue;
        struct sample_function_row row = {.frame = *f};
        *number = c->p->functions.len;
        return vec_push(&c->p->functions, row) ? &c->p->functions.at[*number] : NULL;
    }
    return NULL;
}

/* `mark` identifies the group, from 1. */
static int count_group(struct counting *c, const struct sample_group *g, uint32_t mark,
                       struct err *e)
{
    struct frame_view f;
    struct frame_walk walk = frame_walk_start(c->trace, g->callstack);
    bool innermost = true;
    while (frame_walk_next(&walk, &f)) {
        struct sample_function_row *row = row_of(c, &f);
        if (!row)
            return err_no_memory(e, "samples");
        row->self += innermost ? g->count : 0;
        if (row->last != mark)
            row->total += g->count;
        row->last = mark;
        innermost = false;
    }
    c->p->samples += g->count;
    c->p->stackless += innermost ? g->count : 0;
    return 0;
}

/* The index of an OS id; NULL if the trace does not list the thread. */
static const uint64_t *thread_of(const struct trace *t, uint64_t id)
{
    return map_find(&t->threads.numbers, id);
}

bool sample_group_is_selected(const struct sample_input *in, const struct sample_group *g,
                              const struct selection *s)
{
    const uint64_t *thread = thread_of(s->trace, in->threads.at[g->thread]);
    bool known = callstacks_get(&s->trace->callstacks, g->callstack);
    if (s->threads && (!thread || !s->threads[*thread]))
        return false;
    return !s->callstacks || s->callstacks[known ? g->callstack : 0];
}

static int count_all(struct counting *c, const struct sample_input *in, const struct selection *s,
                     struct err *e)
{
    for (size_t i = 0; i < in->threads.len; i++) {
        const struct trace *t = s->trace;
        const uint64_t *number = thread_of(t, in->threads.at[i]);
        struct sample_thread_row row = {.id = in->threads.at[i]};
        row.name = strings_get(&t->strings, number ? t->threads.list.at[*number].name : 0);
        if (!vec_push(&c->p->threads, row))
            return err_no_memory(e, "samples");
    }
    for (size_t i = 0; i < in->groups.len; i++) {
        const struct sample_group *g = &in->groups.at[i];
        if (!sample_group_is_selected(in, g, s))
            continue;
        if (count_group(c, g, (uint32_t)i + 1, e) != 0)
            return -1;
        c->p->threads.at[g->thread].samples += g->count;
    }
    return 0;
}

static int compare_threads(const void *a, const void *b)
{
    const struct sample_thread_row *x = a;
    const struct sample_thread_row *y = b;
    if (x->samples != y->samples)
        return x->samples > y->samples ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int compare_functions(const void *a, const void *b)
{
    const struct sample_function_row *x = a;
    const struct sample_function_row *y = b;
    if (x->self != y->self)
        return x->self > y->self ? -1 : 1;
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    int names = view_compare(x->frame.function, y->frame.function);
    return names ? names : view_compare(x->frame.image, y->frame.image);
}

int sample_profile_build(struct sample_profile *p, const struct sample_input *in,
                         const struct selection *s, struct err *e)
{
    *p = (struct sample_profile){.switch_samples = in->switch_samples};
    struct counting c = {.p = p, .trace = s->trace, .seed = map_hash(UINT64_C(0x73616d70))};
    int status = count_all(&c, in, s, e);
    map_release(&c.rows);
    buf_release(&c.name);
    if (status != 0) {
        sample_profile_release(p);
        return -1;
    }
    if (p->threads.len)
        qsort(p->threads.at, p->threads.len, sizeof *p->threads.at, compare_threads);
    while (p->threads.len && p->threads.at[p->threads.len - 1].samples == 0)
        p->threads.len--;
    if (p->functions.len)
        qsort(p->functions.at, p->functions.len, sizeof *p->functions.at, compare_functions);
    return 0;
}

void sample_profile_release(struct sample_profile *p)
{
    vec_release(&p->threads);
    vec_release(&p->functions);
    *p = (struct sample_profile){0};
}
