/*
 * What a range keeps, against a plain description of it that has the whole trace at hand: made-up
 * traces of every layout and all fixtures, cut at many places. And that all numbers of the result
 * are those of what it holds.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "trace_sample.h"
#include "trace_test.h"
#include "trace_whole.h"

/* A trace, and what of it is to be described: all, or what lies in a range. */
struct scene {
    struct whole trace;
    bool all;
    int64_t begin, end;
    VEC(uint64_t) messages; /* keys of those described */
    bool on_demand;
    struct buf text;
};

static bool at(const struct scene *s, int64_t t)
{
    return s->all || (s->begin <= t && t < s->end);
}

static bool during(const struct scene *s, int64_t from, int64_t to)
{
    return s->all || (from < s->end && (to < 0 || to >= s->begin));
}

/* Records of a type that follow position i, until another type comes. */
static size_t run_of(const struct scene *s, size_t i, enum record_type type)
{
    size_t n = 0;
    while (i + n < s->trace.list.len && s->trace.list.at[i + n].type == type)
        n++;
    return n;
}

#define SAY(...) buf_printf(&s->text, __VA_ARGS__)
typedef long long ll;

static void describe_frames(struct scene *s, size_t i)
{
    const struct rec_frame_set *set = WHOLE(frame_set, &s->trace, i);
    size_t n = set->n ? run_of(s, i + 1, REC_FRAME) : 0, said = 0;
    size_t always = set->name != 0 ? 0 : s->on_demand ? 3 : 2;
    for (size_t k = 0; k < n; k++) {
        const struct rec_frame *f = WHOLE(frame, &s->trace, i + 1 + k);
        const struct rec_frame *next = k + 1 < n ? f + 0 : NULL;
        int64_t end = f->end;
        if (set->continuous) {
            next = k + 1 < n ? WHOLE(frame, &s->trace, i + 2 + k) : NULL;
            end = next ? next->start : INT64_MAX;
        }
        bool kept = s->all || k < always;
        if (set->continuous) {
            bool closes = f->start >= s->end && (k > always || set->name == 0) &&
                          (k <= always || WHOLE(frame, &s->trace, i + k)->start < s->end);
            kept |= (f->start < s->end && end > s->begin) || closes;
        } else {
            kept |= during(s, f->start, end);
        }
        if (!kept)
            continue;
        if (said++ == 0)
            SAY("frame set %llx\n", (ll)set->name);
        SAY("frame %lld %lld image ", (ll)f->start, (ll)f->end);
        size_t image = f->image < 0 ? SIZE_MAX : whole_find(&s->trace, REC_FRAME_IMAGE, f->image);
        if (image != SIZE_MAX) {
            const struct whole_record *r = &s->trace.list.at[image];
            SAY("%zu %02x%02x", r->text_len, (uint8_t)r->text[0],
                (uint8_t)r->text[r->text_len - 1]);
        }
        SAY("\n");
    }
    if (said == 0 && set->name == 0)
        SAY("frame set 0\n");
}

static void describe_plot(struct scene *s, size_t i)
{
    const struct rec_plot *p = WHOLE(plot, &s->trace, i);
    size_t n = p->n ? run_of(s, i + 1, REC_PLOT_POINT) : 0, before = SIZE_MAX;
    double min = 0, max = 0;
    size_t said = 0;
    for (size_t k = 0; k < n; k++) {
        const struct rec_plot_point *q = WHOLE(plot_point, &s->trace, i + 1 + k);
        if (!s->all && q->time < s->begin &&
            (before == SIZE_MAX || q->time >= WHOLE(plot_point, &s->trace, i + 1 + before)->time))
            before = k;
    }
    for (size_t k = 0; k < n; k++) {
        const struct rec_plot_point *q = WHOLE(plot_point, &s->trace, i + 1 + k);
        if (k != before && !at(s, q->time))
            continue;
        if (said == 0)
            SAY("plot %llx\n", (ll)p->name);
        min = said == 0 || q->value < min ? q->value : min;
        max = said == 0 || q->value > max ? q->value : max;
        said++;
        SAY("point %lld %.17g\n", (ll)q->time, q->value);
    }
    if (said > 0 && s->all)
        SAY("from %.17g to %.17g\n", p->min, p->max);
    else if (said > 0)
        SAY("from %.17g to %.17g\n", min, max);
}

static void describe_pool(struct scene *s, size_t i)
{
    const struct rec_pool *p = WHOLE(pool, &s->trace, i);
    size_t n = p->events ? run_of(s, i + 1, REC_MEMORY_EVENT) : 0;
    struct rec_pool sum = {0};
    struct rec_pool_end e = {.low = UINT64_MAX};
    SAY("pool %llx\n", (ll)p->key);
    for (size_t k = 0; k < n; k++) {
        const struct rec_memory_event *m = WHOLE(memory_event, &s->trace, i + 1 + k);
        if (!during(s, m->time_alloc, m->time_free))
            continue;
        SAY("block %llx %llu %lld %lld %u %u %u %u\n", (ll)m->ptr, (ll)m->size, (ll)m->time_alloc,
            (ll)m->time_free, m->callstack_alloc, m->callstack_free, m->thread_alloc,
            m->thread_free);
        sum.events++;
        sum.active += m->time_free < 0;
        sum.frees += m->time_free >= 0;
        e.usage += m->time_free < 0 ? m->size : 0;
        e.low = m->ptr < e.low ? m->ptr : e.low;
        e.high = m->ptr + m->size > e.high ? m->ptr + m->size : e.high;
    }
    if (s->all) {
        sum = *p;
        e = *WHOLE(pool_end, &s->trace, i + 1 + n);
    }
    SAY("holds %llu active %llu frees %llu, %llx to %llx, %llu\n", (ll)sum.events, (ll)sum.active,
        (ll)sum.frees, (ll)e.low, (ll)e.high, (ll)e.usage);
}

static void describe_switches(struct scene *s, size_t i)
{
    const struct rec_id_count *t = WHOLE(id_count, &s->trace, i);
    size_t n = t->n ? run_of(s, i + 1, REC_CONTEXT_SWITCH) : 0, said = 0;
    for (size_t k = 0; k < n; k++) {
        const struct rec_context_switch *c = WHOLE(context_switch, &s->trace, i + 1 + k);
        if (!during(s, c->wakeup < c->start ? c->wakeup : c->start, c->end))
            continue;
        if (said++ == 0)
            SAY("switches of %llx\n", (ll)t->id);
        SAY("%lld %lld %lld\n", (ll)c->wakeup, (ll)c->start, (ll)c->end);
    }
}

static void describe_hw(struct scene *s, size_t i)
{
    size_t said = 0, j = i + 1;
    for (size_t list = 0; list < 6; list++) {
        size_t n = WHOLE(count, &s->trace, j++)->n;
        for (size_t k = 0; k < n; k++, j++) {
            if (!at(s, WHOLE(time, &s->trace, j)->time))
                continue;
            if (said++ == 0)
                SAY("hardware samples of %llx\n", (ll)WHOLE(id, &s->trace, i)->id);
            SAY("%zu: %lld\n", list, (ll)WHOLE(time, &s->trace, j)->time);
        }
    }
}

/* Describes the zone at i and those in it, as long as anything of it is kept. Returns its end. */
static size_t describe_zone(struct scene *s, size_t i, unsigned depth, bool *kept)
{
    bool gpu = s->trace.list.at[i].type == REC_GPU_ZONE_BEGIN;
    const struct rec_zone_begin z = *WHOLE(zone_begin, &s->trace, i);
    const struct rec_gpu_zone_begin g = *WHOLE(gpu_zone_begin, &s->trace, i);
    uint64_t n = gpu ? g.n : z.n;
    size_t text = s->text.len, j = i + 1;
    bool inner = false;
    SAY("%*s", (int)(gpu ? depth + 1 : depth), "");
    if (gpu)
        SAY("gpu zone %lld %lld %d", (ll)g.cpu_start, (ll)g.gpu_start, g.srcloc);
    else
        SAY("zone %lld %d %u", (ll)z.start, z.srcloc, z.extra);
    SAY("\n");
    for (uint64_t k = 0; k < n; k++) {
        bool child = false;
        j = describe_zone(s, j, depth + 1, &child);
        inner |= child;
    }
    if (gpu) {
        const struct rec_gpu_zone_end *end = WHOLE(gpu_zone_end, &s->trace, j);
        int64_t last = end->cpu_end > end->gpu_end ? end->cpu_end : end->gpu_end;
        int64_t first = g.cpu_start < g.gpu_start ? g.cpu_start : g.gpu_start;
        *kept = inner || at(s, g.cpu_start) || at(s, g.gpu_start) || during(s, first, last);
        SAY("%*send %lld %lld\n", (int)depth, "", (ll)end->cpu_end, (ll)end->gpu_end);
    } else {
        int64_t end = WHOLE(zone_end, &s->trace, j)->end;
        *kept = inner || at(s, z.start) || during(s, z.start, end);
        SAY("%*send %lld\n", (int)depth, "", (ll)end);
    }
    if (!*kept)
        s->text.len = text;
    return j + 1;
}

static void describe_message(struct scene *s, const struct rec_message *m)
{
    if (!at(s, m->time))
        return;
    SAY("message %lld %llx\n", (ll)m->time, (ll)m->key);
    assert_true(vec_push(&s->messages, m->key));
}

static void describe_thread_message(struct scene *s, uint64_t key)
{
    bool there = s->all;
    for (size_t k = 0; k < s->messages.len && !there; k++)
        there = s->messages.at[k] == key;
    if (there)
        SAY("of the thread %llx\n", (ll)key);
}

/* ---- threads on processors */

struct on_cpu {
    int64_t start;
    size_t order; /* in the file */
    int cpu;
};

static int by_start(const void *a, const void *b)
{
    const struct on_cpu *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static unsigned migrations(const struct on_cpu *runs, size_t n)
{
    unsigned moves = 0;
    for (size_t i = 1; i < n; i++)
        moves += runs[i].cpu != runs[i - 1].cpu;
    return moves;
}

/* What the processors' switches of [begin, end) make up of the thread. */
static struct rec_cpu_thread on_processors(const struct whole *w, uint64_t tid, int64_t begin,
                                           int64_t end)
{
    struct rec_cpu_thread sum = {.tid = tid};
    VEC(struct on_cpu) runs = {0};
    size_t number = 0, at = SIZE_MAX;
    int cpu = -1;
    for (size_t i = 0; i < w->list.len; i++) {
        if (w->list.at[i].type == REC_EXTERNAL_THREAD) {
            if (at == SIZE_MAX && WHOLE(id, w, i)->id == tid)
                at = number;
            number++;
        }
        cpu += w->list.at[i].type == REC_CPU_SWITCH_LIST;
        const struct rec_cpu_switch *s = WHOLE(cpu_switch, w, i);
        if (w->list.at[i].type != REC_CPU_SWITCH || s->thread != at || s->start >= end ||
            (s->end >= 0 && s->end < begin))
            continue;
        assert_true(vec_push(&runs, (struct on_cpu){s->start, i, cpu}));
        if (s->end == -1)
            continue;
        int64_t from = s->start < begin ? begin : s->start, to = s->end > end ? end : s->end;
        sum.running_regions++;
        sum.running_time += to > from || begin == INT64_MIN ? to - from : 0;
    }
    if (runs.len > 0)
        qsort(runs.at, runs.len, sizeof *runs.at, by_start);
    sum.migrations = migrations(runs.at, runs.len);
    vec_release(&runs);
    return sum;
}

static void describe_cpu_thread(struct scene *s, const struct rec_cpu_thread *thread)
{
    struct rec_cpu_thread t = *thread;
    struct rec_cpu_thread all = on_processors(&s->trace, t.tid, INT64_MIN, INT64_MAX);
    bool known = all.running_regions == t.running_regions && all.running_time == t.running_time;
    if (!s->all && known) {
        t = on_processors(&s->trace, t.tid, s->begin, s->end);
        if (t.running_regions == 0 && t.migrations == 0)
            return;
    }
    SAY("ran %llx %lld %u %u\n", (ll)t.tid, (ll)t.running_time, t.running_regions, t.migrations);
}

/* The records whose place in a list is all that counts. */
static void describe_plain(struct scene *s, size_t i)
{
    const struct rec_section *section = WHOLE(section, &s->trace, i);
    const struct rec_cpu_switch *cpu = WHOLE(cpu_switch, &s->trace, i);
    const struct rec_lock_event *lock = WHOLE(lock_event, &s->trace, i);
    const struct rec_sample *sample = WHOLE(sample, &s->trace, i);
    switch (s->trace.list.at[i].type) {
    case REC_SECTION:
        if (during(s, section->start, section->end))
            SAY("section %lld %lld\n", (ll)section->start, (ll)section->end);
        break;
    case REC_LOCK:
        SAY("lock %u\n", WHOLE(lock, &s->trace, i)->id);
        break;
    case REC_LOCK_EVENT:
        if (s->all || lock->time < s->end)
            SAY("lock %lld %d\n", (ll)lock->time, lock->event);
        break;
    case REC_SWITCH_SAMPLE:
    case REC_SAMPLE:
        if (at(s, sample->time))
            SAY("sample %lld %u\n", (ll)sample->time, sample->callstack);
        break;
    case REC_CPU_SWITCH_LIST:
        SAY("processor\n");
        break;
    case REC_CPU_SWITCH:
        if (during(s, cpu->start, cpu->end))
            SAY("on %lld %lld %u\n", (ll)cpu->start, (ll)cpu->end, cpu->thread);
        break;
    case REC_THREAD:
        SAY("thread %llx\n", (ll)WHOLE(thread, &s->trace, i)->id);
        break;
    case REC_GPU_THREAD:
        SAY("gpu thread %llx\n", (ll)WHOLE(gpu_thread, &s->trace, i)->id);
        break;
    case REC_SYMBOL:
        SAY("symbol %llx\n", (ll)WHOLE(symbol, &s->trace, i)->address);
        break;
    case REC_STRING:
        SAY("string %zu\n", s->trace.list.at[i].text_len);
        break;
    default:
        break;
    }
}

static void describe(struct scene *s)
{
    bool kept;
    for (size_t i = 0; i < s->trace.list.len; i++) {
        switch (s->trace.list.at[i].type) {
        case REC_HEADER:
            s->on_demand = WHOLE(header, &s->trace, i)->on_demand != 0;
            break;
        case REC_FRAME_SET:
            describe_frames(s, i);
            break;
        case REC_PLOT:
            describe_plot(s, i);
            break;
        case REC_POOL:
            describe_pool(s, i);
            break;
        case REC_MESSAGE:
            describe_message(s, WHOLE(message, &s->trace, i));
            break;
        case REC_THREAD_MESSAGE:
            describe_thread_message(s, WHOLE(id, &s->trace, i)->id);
            break;
        case REC_ZONE_BEGIN:
        case REC_GPU_ZONE_BEGIN:
            i = describe_zone(s, i, 1, &kept) - 1;
            break;
        case REC_CONTEXT_SWITCH_THREAD:
            describe_switches(s, i);
            break;
        case REC_HW_SAMPLE:
            describe_hw(s, i);
            break;
        case REC_CPU_THREAD:
            describe_cpu_thread(s, WHOLE(cpu_thread, &s->trace, i));
            break;
        default:
            describe_plain(s, i);
        }
    }
}

/* ---- numbers */

/* The zones between positions, and how many of them have children. */
static void count_zones(const struct whole *w, enum record_type type, size_t from, size_t to,
                        uint64_t *zones, uint64_t *parents)
{
    *zones = 0;
    *parents = 0;
    for (size_t i = from; i < to; i++) {
        if (w->list.at[i].type != type)
            continue;
        ++*zones;
        *parents += type == REC_ZONE_BEGIN ? WHOLE(zone_begin, w, i)->n > 0
                                           : WHOLE(gpu_zone_begin, w, i)->n > 0;
    }
}

static void check_zone_stats(const struct whole *w, enum record_type stats, enum record_type type)
{
    for (size_t i = 0; i < w->list.len; i++) {
        uint64_t n = 0;
        if (w->list.at[i].type != stats)
            continue;
        int16_t srcloc = WHOLE(zone_stat, w, i)->srcloc;
        for (size_t j = i; j < w->list.len; j++) {
            if (w->list.at[j].type == type)
                n += srcloc == (type == REC_ZONE_BEGIN ? WHOLE(zone_begin, w, j)->srcloc
                                                       : WHOLE(gpu_zone_begin, w, j)->srcloc);
        }
        assert_int_equal(WHOLE(zone_stat, w, i)->n, n);
    }
}

static void check_totals(const struct whole *w, enum record_type totals, enum record_type type,
                         enum record_type owner)
{
    uint64_t zones, parents;
    size_t i = whole_find(w, totals, 0);
    count_zones(w, type, 0, w->list.len, &zones, &parents);
    assert_int_equal(WHOLE(threads, w, i)->zones, zones);
    assert_int_equal(WHOLE(threads, w, i)->child_lists, parents);
    for (size_t n = 0; (i = whole_find(w, owner, n)) != SIZE_MAX; n++) {
        size_t next = whole_find(w, owner, n + 1);
        count_zones(w, type, i, next == SIZE_MAX ? w->list.len : next, &zones, &parents);
        assert_int_equal(owner == REC_THREAD ? WHOLE(thread, w, i)->zones
                                             : WHOLE(gpu_context, w, i)->zones,
                         zones);
    }
}

static void check_numbers(const struct whole *w)
{
    check_zone_stats(w, REC_ZONE_STAT, REC_ZONE_BEGIN);
    check_zone_stats(w, REC_GPU_ZONE_STAT, REC_GPU_ZONE_BEGIN);
    check_totals(w, REC_THREADS, REC_ZONE_BEGIN, REC_THREAD);
    check_totals(w, REC_GPU_CONTEXTS, REC_GPU_ZONE_BEGIN, REC_GPU_CONTEXT);
    assert_int_equal(WHOLE(pools, w, whole_find(w, REC_POOLS, 0))->events,
                     whole_count(w, REC_MEMORY_EVENT));
    assert_int_equal(WHOLE(count, w, whole_find(w, REC_CPU_SWITCH_LISTS, 0))->n,
                     whole_count(w, REC_CPU_SWITCH));
    for (size_t n = 0, i; (i = whole_find(w, REC_THREAD, n)) != SIZE_MAX; n++) {
        size_t samples = whole_find(w, REC_SAMPLES, n);
        assert_true(WHOLE(thread, w, i)->kernel_samples <= WHOLE(count, w, samples)->n);
    }
}

/* ---- cases */

static void cut(const struct buf *inner, const struct whole *whole, int64_t begin, int64_t end)
{
    struct buf out = {0};
    struct err e = {0};
    struct scene want = {.trace = *whole, .begin = begin, .end = end}, got = {.all = true};
    const struct rewrite_options options = {.has_range = true, .range = {begin, end, NULL}};
    if (whole_rewrite(inner, &options, &out, NULL, &e) != 0)
        fail_msg("%lld:%lld: %s", (ll)begin, (ll)end, e.text);
    whole_read(&out, &got.trace);
    describe(&want);
    describe(&got);
    if (want.text.len != got.text.len ||
        memcmp(want.text.data, got.text.data, want.text.len) != 0) {
        size_t i = 0;
        while (i < want.text.len && i < got.text.len && want.text.data[i] == got.text.data[i])
            i++;
        size_t from = i < 200 ? 0 : i - 200;
        fail_msg("%lld:%lld\nwanted …%.300s\ngot …%.300s", (ll)begin, (ll)end,
                 buf_str(&want.text) + from, buf_str(&got.text) + from);
    }
    check_numbers(&got.trace);
    whole_release(&got.trace);
    vec_release(&want.messages);
    vec_release(&got.messages);
    buf_release(&want.text);
    buf_release(&got.text);
    buf_release(&out);
}

/*
 * The made-up traces have no base frame set, threads with other messages than the trace, and totals
 * of processors that nothing made up.
 */
struct mended {
    struct record_sink next;
    bool based;
    struct rec_cpu_thread totals[16]; /* of the first external threads */
    size_t externals, totals_used;
    VEC(uint64_t) keys;
    size_t used;
};

static int mend_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct mended *m = ctx;
    if (type == REC_FRAME_SET && !m->based) {
        struct rec_frame_set set = *(const struct rec_frame_set *)recs;
        set.name = 0;
        set.continuous = 1;
        m->based = true;
        return record_put(&m->next, type, &set, n, e);
    }
    if (type == REC_EXTERNAL_THREAD && m->externals < 16)
        m->totals[m->externals++].tid = ((const struct rec_id *)recs)->id;
    const struct rec_cpu_switch *on = recs;
    if (type == REC_CPU_SWITCH && on->thread < m->externals && on->end != -1) {
        m->totals[on->thread].running_regions++;
        m->totals[on->thread].running_time += on->end - on->start;
    }
    if (type == REC_CPU_THREAD && m->totals_used < m->externals)
        return record_put(&m->next, type, &m->totals[m->totals_used++], 1, e);
    if (type == REC_MESSAGE)
        assert_true(vec_push(&m->keys, ((const struct rec_message *)recs)->key));
    if (type == REC_THREAD_MESSAGE && m->keys.len > 0) {
        struct rec_id id = {m->keys.at[m->used++ % m->keys.len]};
        return record_put(&m->next, type, &id, n, e);
    }
    return record_put(&m->next, type, recs, n, e);
}

static void make_trace(const struct file_layout *layout, uint64_t seed, struct buf *out)
{
    static struct sample sample;
    struct err e = {0};
    struct trace_writer *w;
    struct block_sink blocks = {.ctx = out, .put = put_block_to_buf};
    sample_init(&sample, layout, seed);
    sample.brief = true;
    assert_int_equal(trace_writer_open_inner(&w, layout, blocks, &e), 0);
    struct mended mended = {.next = trace_writer_sink(w)};
    const struct record_sink sink = {&mended, mend_put};
    if (sample_trace(&sample, &sink, &e) != 0 || trace_writer_finish(w, NULL, &e) != 0)
        fail_msg("made-up trace: %s", e.text);
    trace_writer_free(w);
    vec_release(&mended.keys);
}

static void test_made_up_traces(void **state)
{
    (void)state;
    unsigned layouts;
    const struct file_layout *all = file_layout_all(&layouts);
    uint64_t random = 1;
    for (unsigned i = 0; i < layouts * 4; i++) {
        struct buf inner = {0};
        struct whole whole = {0};
        make_trace(&all[i % layouts], i + 1, &inner);
        whole_read(&inner, &whole);
        for (unsigned k = 0; k < 12; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            int64_t begin = (int64_t)(random >> 33) % (k % 3 == 0 ? 2000 : 60000);
            int64_t length = 1 + (int64_t)(random >> 17 & 0x3fff) % (k % 2 ? 300 : 16000);
            cut(&inner, &whole, begin, begin + length);
        }
        whole_release(&whole);
        buf_release(&inner);
    }
}

static void test_fixtures(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRACE_FIXTURES; i++) {
        struct buf inner = {0};
        struct whole whole = {0};
        whole_fixture(trace_fixtures[i], &inner);
        whole_read(&inner, &whole);
        int64_t last = WHOLE(header, &whole, 0)->last_time;
        cut(&inner, &whole, last / 3, last / 2);
        cut(&inner, &whole, last / 2 - 1000, last / 2 + 1000);
        cut(&inner, &whole, INT64_MIN, last / 50);
        cut(&inner, &whole, last + 1, INT64_MAX);
        whole_release(&whole);
        buf_release(&inner);
    }
}

/* A range around everything leaves the stream as it is, but for sums that official tools add up
 * in another order and zone statistics that they keep of zones that are gone. */
static void test_everything(void **state)
{
    (void)state;
    struct buf inner = {0}, once = {0}, twice = {0};
    struct err e = {0};
    const struct rewrite_options options = {.has_range = true,
                                            .range = {INT64_MIN, INT64_MAX, NULL}};
    whole_fixture("fixtures/traces/v0.14.0/allscen_sys.tracy", &inner);
    assert_int_equal(whole_rewrite(&inner, &options, &once, NULL, &e), 0);
    assert_int_equal(once.len, inner.len);
    assert_int_equal(whole_rewrite(&once, &options, &twice, NULL, &e), 0);
    assert_bytes_equal(&once, &twice);
    buf_release(&inner);
    buf_release(&once);
    buf_release(&twice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_up_traces),
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
