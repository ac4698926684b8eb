/* Conversion between file versions: what survives, what is counted as lost, what gets sorted. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "trace/filter/convert.h"
#include "trace_sample.h"
#include "trace_test.h"

static void expect_ok(int status, const char *what, const struct err *e)
{
    if (status != 0)
        fail_msg("%s: %s", what, e->text);
}

/* Facts of a trace that a sink has seen. */
struct facts {
    uint64_t counts[REC_TYPE_COUNT];
    uint64_t memory_hash;
    uint64_t severities, sources, groups, queries, wakeups, gpu_types[256], plot_types,
        plot_formats;
    uint64_t descriptions, dies, dies_in_package;
    bool unsorted_points, unsorted_samples;
    int64_t last_point, last_sample;
    struct rec_header header;
};

static void look_at(struct facts *f, enum record_type type, const void *rec)
{
    f->counts[type]++;
#define AS(STRUCT) ((const struct rec_##STRUCT *)rec)
    switch (type) {
    case REC_HEADER:
        f->header = *AS(header);
        break;
    case REC_PACKAGE:
        f->dies_in_package = AS(topology_node)->n;
        break;
    case REC_DIE:
        f->dies += f->dies_in_package > 1;
        break;
    case REC_SECTION_CATEGORY:
        f->descriptions += AS(section_category)->description != 0;
        break;
    case REC_MESSAGE:
        f->severities += AS(message)->severity != 2;
        f->sources += AS(message)->source != 0;
        break;
    case REC_THREAD:
        f->groups += AS(thread)->group_hint != 0;
        break;
    case REC_SWITCH_SAMPLES:
        f->last_sample = INT64_MIN;
        break;
    case REC_SWITCH_SAMPLE:
        f->unsorted_samples |= AS(sample)->time < f->last_sample;
        f->last_sample = AS(sample)->time;
        break;
    case REC_GPU_CONTEXT:
        f->gpu_types[AS(gpu_context)->type]++;
        break;
    case REC_GPU_ZONE_END:
        f->queries += AS(gpu_zone_end)->query_id != 0;
        break;
    case REC_PLOT:
        f->last_point = INT64_MIN;
        f->plot_types += AS(plot)->type > 2;
        f->plot_formats += AS(plot)->format > 2;
        break;
    case REC_PLOT_POINT:
        f->unsorted_points |= AS(plot_point)->time < f->last_point;
        f->last_point = AS(plot_point)->time;
        break;
    case REC_MEMORY_EVENT: {
        const struct rec_memory_event *m = AS(memory_event);
        const uint64_t fields[] = {m->ptr,
                                   m->size,
                                   (uint64_t)m->time_alloc,
                                   (uint64_t)m->time_free,
                                   m->callstack_alloc,
                                   m->callstack_free,
                                   m->thread_alloc,
                                   m->thread_free};
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
            f->memory_hash = (f->memory_hash ^ fields[i]) * 0x9e3779b97f4a7c15u;
        break;
    }
    case REC_CONTEXT_SWITCH:
        f->wakeups += AS(context_switch)->wakeup_cpu != AS(context_switch)->cpu;
        break;
    default:
        break;
    }
#undef AS
}

static int put_facts(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    (void)e;
    for (size_t i = 0; i < n; i++)
        look_at(ctx, type, (const uint8_t *)recs + i * record_size(type));
    return 0;
}

static void facts_of(const struct buf *inner, struct facts *f)
{
    struct trace_info info;
    struct err e = {0};
    struct record_sink sink = {f, put_facts};
    memset(f, 0, sizeof *f);
    expect_ok(read_inner_into(inner->data, inner->len, 65536, &sink, &info, &e), "facts", &e);
}

struct losses {
    uint64_t n[CONVERT_LOSS_COUNT];
    struct buf text;
};

static void losses_release(struct losses *l)
{
    buf_release(&l->text);
}

static uint64_t losses_sum(const struct losses *l)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < CONVERT_LOSS_COUNT; i++)
        sum += l->n[i];
    return sum;
}

static int convert(const struct buf *in, const struct file_layout *target, struct buf *out,
                   struct losses *losses, struct err *e)
{
    struct trace_writer *w;
    struct convert *c;
    struct trace_info info;
    struct block_sink blocks = {.ctx = out, .put = put_block_to_buf};
    const struct convert_options options = {.target = target, .spill_records = 16};
    memset(losses, 0, sizeof *losses);
    assert_int_equal(trace_writer_open_inner(&w, NULL, blocks, e), 0);
    struct record_sink to_writer = trace_writer_sink(w);
    assert_int_equal(convert_open(&c, &to_writer, &options, e), 0);
    struct record_sink to_convert = convert_sink(c);
    int status = read_inner_into(in->data, in->len, 65536, &to_convert, &info, e);
    if (status == 0)
        status = trace_writer_finish(w, NULL, e);
    for (unsigned i = 0; i < CONVERT_LOSS_COUNT; i++)
        losses->n[i] = convert_loss(c, i);
    convert_losses(c, &losses->text);
    convert_free(c);
    trace_writer_free(w);
    return status;
}

/* Passes records on, changing some of them. */
struct editor {
    const struct record_sink *next;
    void (*edit)(struct editor *ed, enum record_type type, void *rec);
    uint64_t n;
    unsigned extra; /* how many more records of that type: see table_full */
};

static int put_edited(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct editor *ed = ctx;
    union {
        uint64_t align;
        uint8_t bytes[256];
    } rec;
    assert_int_equal(n, 1);
    memcpy(&rec, recs, record_size(type));
    ed->edit(ed, type, &rec);
    if (record_put(ed->next, type, &rec, 1, e) != 0)
        return -1;
    for (; ed->extra > 0; ed->extra--) {
        if (record_put(ed->next, type, recs, 1, e) != 0)
            return -1;
    }
    return 0;
}

static void make_trace(const struct file_layout *layout, uint64_t seed,
                       void (*edit)(struct editor *, enum record_type, void *), struct buf *out)
{
    static struct sample sample;
    struct err e = {0};
    struct trace_writer *w;
    struct block_sink blocks = {.ctx = out, .put = put_block_to_buf};
    out->len = 0;
    sample_init(&sample, layout, seed);
    assert_int_equal(trace_writer_open_inner(&w, layout, blocks, &e), 0);
    struct record_sink to_writer = trace_writer_sink(w);
    struct editor editor = {.next = &to_writer, .edit = edit};
    struct record_sink to_editor = {&editor, put_edited};
    expect_ok(sample_trace(&sample, &to_editor, &e), "made-up trace", &e);
    expect_ok(trace_writer_finish(w, NULL, &e), "made-up trace", &e);
    trace_writer_free(w);
}

static void keep(struct editor *ed, enum record_type type, void *rec)
{
    (void)ed, (void)type, (void)rec;
}

/* No delay, which newer layouts lack, and only what the oldest release knows. */
static void known_to_all(struct editor *ed, enum record_type type, void *rec)
{
    (void)ed;
    if (type == REC_HEADER)
        ((struct rec_header *)rec)->delay = 0;
    if (type == REC_GPU_CONTEXT)
        ((struct rec_gpu_context *)rec)->type %= 6;
    if (type == REC_PLOT) {
        ((struct rec_plot *)rec)->type = 0;
        ((struct rec_plot *)rec)->format %= 3;
    }
}

/* ---- every pair of layouts */

static void test_up_and_back_loses_nothing(void **state)
{
    (void)state;
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    for (unsigned i = 0; i < n; i++) {
        struct buf first = {0};
        make_trace(&all[i], 1000 + i, known_to_all, &first);
        for (unsigned k = i; k < n; k++) {
            struct buf up = {0}, back = {0};
            struct losses losses;
            struct err e = {0};
            expect_ok(convert(&first, &all[k], &up, &losses, &e), "up", &e);
            assert_int_equal(losses_sum(&losses), 0);
            assert_int_equal(losses.text.len, 0);
            losses_release(&losses);
            expect_ok(convert(&up, &all[i], &back, &losses, &e), "back", &e);
            if (losses_sum(&losses) != 0)
                fail_msg("%x to %x and back: %s", all[i].version, all[k].version,
                         buf_str(&losses.text));
            losses_release(&losses);
            assert_bytes_equal(&back, &first);
            buf_release(&up);
            buf_release(&back);
        }
        buf_release(&first);
    }
}

static uint64_t above(const uint64_t *by_type, unsigned max)
{
    uint64_t n = 0;
    for (unsigned i = max + 1; i < 256; i++)
        n += by_type[i];
    return n;
}

/* What a target lacks is lost, all of it is counted, and nothing else. */
static void expect_losses(const struct losses *l, const struct facts *f,
                          const struct file_layout *from, const struct file_layout *to)
{
    bool sections = to->sections == SECTIONS_NONE;
    bool flat = to->sections == SECTIONS_FLAT && from->sections == SECTIONS_BY_CATEGORY;
    bool notes = from->gpu_notes && !to->gpu_notes;
    assert_int_equal(l->n[LOSS_DIE], to->dies ? 0 : f->dies);
    assert_int_equal(l->n[LOSS_SECTION], sections ? f->counts[REC_SECTION] : 0);
    assert_int_equal(l->n[LOSS_SECTION_CATEGORY], sections || flat ? f->descriptions : 0);
    assert_int_equal(l->n[LOSS_MESSAGE_SOURCE], to->message_meta ? 0 : f->sources);
    assert_int_equal(l->n[LOSS_MESSAGE_SEVERITY], to->message_meta ? 0 : f->severities);
    assert_int_equal(l->n[LOSS_GROUP_HINT], to->group_hint ? 0 : f->groups);
    assert_int_equal(l->n[LOSS_GPU_TYPE], above(f->gpu_types, to->gpu_type_max));
    assert_int_equal(l->n[LOSS_GPU_NOTE_NAME], notes ? f->counts[REC_GPU_NOTE_NAME] : 0);
    assert_int_equal(l->n[LOSS_GPU_NOTE], notes ? f->counts[REC_GPU_NOTE] : 0);
    assert_int_equal(l->n[LOSS_GPU_QUERY], notes ? f->queries : 0);
    assert_int_equal(l->n[LOSS_PLOT_TYPE], to->plot_type_max < 3 ? f->plot_types : 0);
    assert_int_equal(l->n[LOSS_PLOT_FORMAT], to->plot_format_max < 3 ? f->plot_formats : 0);
    assert_int_equal(l->n[LOSS_WAKEUP_CPU], to->wakeup_cpu ? 0 : f->wakeups);
    assert_int_equal(l->n[LOSS_DELAY], 0);
    assert_int_equal(l->n[LOSS_NO_LOCATION], 0);
    assert_int_equal(l->n[LOSS_HEADER_TEXT], 0);
    bool implied = (f->header.on_demand != 0) == (f->header.frame_offset != 0);
    assert_int_equal(l->n[LOSS_ON_DEMAND], !to->on_demand && !implied);
}

static void test_down_loses_what_is_said(void **state)
{
    (void)state;
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    for (unsigned i = 0; i < n; i++) {
        struct buf first = {0};
        static struct facts facts, after;
        make_trace(&all[i], 2000 + i, keep, &first);
        facts_of(&first, &facts);
        for (unsigned k = 0; k < i; k++) {
            struct buf down = {0}, up = {0}, again = {0};
            struct losses losses;
            struct err e = {0};
            expect_ok(convert(&first, &all[k], &down, &losses, &e), "down", &e);
            expect_losses(&losses, &facts, &all[i], &all[k]);
            assert_int_equal(losses_sum(&losses) > 0, losses.text.len > 0);
            losses_release(&losses);
            facts_of(&down, &after);
            assert_int_equal(after.memory_hash, facts.memory_hash);
            assert_int_equal(after.header.version, all[k].version);
            assert_int_equal(after.counts[REC_CPU], facts.counts[REC_CPU]);
            assert_int_equal(after.counts[REC_ZONE_BEGIN], facts.counts[REC_ZONE_BEGIN]);
            /* what is left survives the way up and down again */
            expect_ok(convert(&down, &all[i], &up, &losses, &e), "up", &e);
            losses_release(&losses);
            expect_ok(convert(&up, &all[k], &again, &losses, &e), "down again", &e);
            losses_release(&losses);
            assert_bytes_equal(&again, &down);
            buf_release(&down);
            buf_release(&up);
            buf_release(&again);
        }
        buf_release(&first);
    }
}

static void test_no_target_changes_nothing(void **state)
{
    (void)state;
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    for (unsigned i = 0; i < n; i++) {
        struct buf first = {0}, same = {0};
        struct losses losses;
        struct err e = {0};
        make_trace(&all[i], 3000 + i, keep, &first);
        expect_ok(convert(&first, NULL, &same, &losses, &e), "same", &e);
        assert_bytes_equal(&same, &first);
        assert_int_equal(losses_sum(&losses), 0);
        losses_release(&losses);
        buf_release(&first);
        buf_release(&same);
    }
}

/* ---- the corpus */

/* The delay has no place in newer files; it stands right behind the version in older ones. */
static void clear_delay(struct buf *inner)
{
    uint32_t version = FILE_VERSION(inner->data[5], inner->data[6], inner->data[7]);
    if (version < FILE_VERSION(0, 12, 3))
        memset(inner->data + 8, 0, 8);
}

static bool convert_fixture(const char *path, uint32_t version)
{
    struct buf inner = {0}, there = {0}, back = {0};
    static struct facts before, after;
    struct losses losses;
    struct err e = {0};
    const struct file_layout *target = file_layout_find(version);
    int fd = open_fixture(path);
    expect_ok(unpack(fd, &inner, &e), path, &e);
    close(fd);
    clear_delay(&inner);
    facts_of(&inner, &before);
    const struct file_layout *source = file_layout_find(before.header.version);
    expect_ok(convert(&inner, target, &there, &losses, &e), path, &e);
    expect_losses(&losses, &before, source, target);
    facts_of(&there, &after);
    assert_int_equal(after.memory_hash, before.memory_hash);
    assert_int_equal(after.counts[REC_PLOT_POINT], before.counts[REC_PLOT_POINT]);
    assert_int_equal(after.counts[REC_CALLSTACK], before.counts[REC_CALLSTACK]);
    if (target->sorted_plots && !source->sorted_plots)
        assert_false(after.unsorted_points);
    if (target->sorted_switches && !source->sorted_switches)
        assert_false(after.unsorted_samples);
    bool lossless = losses_sum(&losses) == 0 && before.unsorted_points == after.unsorted_points &&
                    before.unsorted_samples == after.unsorted_samples;
    losses_release(&losses);
    if (lossless) {
        expect_ok(convert(&there, source, &back, &losses, &e), path, &e);
        losses_release(&losses);
        assert_bytes_equal(&back, &inner);
    }
    buf_release(&inner);
    buf_release(&there);
    buf_release(&back);
    return lossless;
}

static void test_fixtures(void **state)
{
    (void)state;
    static const uint32_t releases[] = {FILE_VERSION(0, 9, 1),  FILE_VERSION(0, 10, 0),
                                        FILE_VERSION(0, 11, 1), FILE_VERSION(0, 12, 2),
                                        FILE_VERSION(0, 13, 1), FILE_VERSION(0, 14, 0)};
    unsigned lossless = 0;
    for (size_t i = 0; i < TRACE_FIXTURES; i++) {
        for (size_t k = 0; k < sizeof releases / sizeof releases[0]; k++)
            lossless += convert_fixture(trace_fixtures[i], releases[k]);
    }
    assert_true(lossless > 100);
}

/* ---- sorting */

static void shuffled(struct editor *ed, enum record_type type, void *rec)
{
    if (type == REC_PLOT_POINT) {
        struct rec_plot_point *p = rec;
        p->time = (int64_t)(ed->n * 7919 % 11);
        p->value = (double)ed->n++;
    }
    if (type == REC_SWITCH_SAMPLE) {
        struct rec_sample *s = rec;
        s->time = (int64_t)(ed->n++ * 7919 % 5);
    }
    if (type == REC_HEADER)
        ((struct rec_header *)rec)->delay = 0;
}

/* Checks that points of equal time keep their order (their values ascend in the source). */
struct point_order {
    struct rec_plot_point last;
    uint64_t points, equal;
};

static int put_points(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct point_order *o = ctx;
    const struct rec_plot_point *p = recs;
    (void)e;
    if (type == REC_PLOT)
        o->last = (struct rec_plot_point){INT64_MIN, -1};
    if (type != REC_PLOT_POINT)
        return 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(p[i].time >= o->last.time);
        if (p[i].time == o->last.time) {
            assert_true(p[i].value > o->last.value);
            o->equal++;
        }
        o->last = p[i];
        o->points++;
    }
    return 0;
}

static void test_promised_order_is_kept(void **state)
{
    (void)state;
    struct buf first = {0}, sorted = {0}, kept = {0};
    static struct facts facts;
    struct losses losses;
    struct err e = {0};
    struct trace_info info;
    struct point_order order = {0};
    struct record_sink to_order = {&order, put_points};
    make_trace(file_layout_find(FILE_VERSION(0, 13, 2)), 5, shuffled, &first);
    facts_of(&first, &facts);
    assert_true(facts.unsorted_points && facts.unsorted_samples);
    uint64_t points = facts.counts[REC_PLOT_POINT];
    expect_ok(convert(&first, file_layout_find(FILE_VERSION_MAX), &sorted, &losses, &e), "up", &e);
    losses_release(&losses);
    facts_of(&sorted, &facts);
    assert_false(facts.unsorted_points || facts.unsorted_samples);
    expect_ok(read_inner_into(sorted.data, sorted.len, 65536, &to_order, &info, &e), "order", &e);
    assert_int_equal(order.points, points);
    assert_true(order.equal > 0);
    /* 0.13.3 promises the order of plots only */
    sorted.len = 0;
    const struct file_layout *plots_only = file_layout_find(FILE_VERSION(0, 13, 3));
    expect_ok(convert(&first, plots_only, &sorted, &losses, &e), "up", &e);
    losses_release(&losses);
    facts_of(&sorted, &facts);
    assert_true(!facts.unsorted_points && facts.unsorted_samples);
    /* and who promises nothing gets them as they are */
    expect_ok(convert(&first, file_layout_find(FILE_VERSION(0, 12, 4)), &kept, &losses, &e), "down",
              &e);
    losses_release(&losses);
    facts_of(&kept, &facts);
    assert_true(facts.unsorted_points && facts.unsorted_samples);
    buf_release(&first);
    buf_release(&sorted);
    buf_release(&kept);
}

/* ---- source location "none" */

/* Zones and all else that may be without a location are; the table of locations is small. */
static void without_locations(struct editor *ed, enum record_type type, void *rec)
{
    (void)ed;
    if (type == REC_ZONE_BEGIN)
        ((struct rec_zone_begin *)rec)->srcloc = SOURCE_LOCATION_NONE;
    if (type == REC_GPU_ZONE_BEGIN)
        ((struct rec_gpu_zone_begin *)rec)->srcloc = SOURCE_LOCATION_NONE;
    if (type == REC_LOCK)
        ((struct rec_lock *)rec)->srcloc = SOURCE_LOCATION_NONE;
    if (type == REC_LOCK_EVENT)
        ((struct rec_lock_event *)rec)->srcloc = SOURCE_LOCATION_NONE;
}

/* The same with a full table, the only way it comes about, and listed in the GPU statistics. */
static void table_full(struct editor *ed, enum record_type type, void *rec)
{
    without_locations(ed, type, rec);
    if (type == REC_SOURCE_LOCATION_EXPANDS)
        ((struct rec_count *)rec)->n = SOURCE_LOCATION_NONE - 1;
    if (type == REC_SOURCE_LOCATION_EXPAND && ed->n++ == 0)
        ed->extra = SOURCE_LOCATION_NONE - 1 - SAMPLE_EXPANDS;
    if (type == REC_ZONE_STAT)
        ((struct rec_zone_stat *)rec)->srcloc = (int16_t)ed->n++;
    if (type == REC_GPU_ZONE_STATS)
        ed->n = 0;
    if (type == REC_GPU_ZONE_STAT) {
        ((struct rec_zone_stat *)rec)->srcloc = ed->n == 0 ? SOURCE_LOCATION_NONE : (int16_t)ed->n;
        ed->n++;
    }
}

struct located {
    int16_t becomes;
    uint64_t payloads, stats, gpu_stats, stats_of_it, gpu_stats_of_it, events;
};

static int put_located(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct located *l = ctx;
    (void)e;
    for (size_t i = 0; i < n; i++) {
        const void *rec = (const uint8_t *)recs + i * record_size(type);
        int16_t srcloc = l->becomes;
        if (type == REC_SOURCE_LOCATION_PAYLOADS)
            l->payloads = ((const struct rec_count *)rec)->n;
        if (type == REC_ZONE_STATS)
            l->stats = ((const struct rec_count *)rec)->n;
        if (type == REC_GPU_ZONE_STATS)
            l->gpu_stats = ((const struct rec_count *)rec)->n;
        if (type == REC_ZONE_STAT || type == REC_GPU_ZONE_STAT) {
            int16_t it = ((const struct rec_zone_stat *)rec)->srcloc;
            assert_int_not_equal(it, SOURCE_LOCATION_NONE);
            l->stats_of_it += type == REC_ZONE_STAT && it == l->becomes;
            l->gpu_stats_of_it += type == REC_GPU_ZONE_STAT && it == l->becomes;
        }
        if (type == REC_ZONE_BEGIN)
            srcloc = ((const struct rec_zone_begin *)rec)->srcloc;
        else if (type == REC_GPU_ZONE_BEGIN)
            srcloc = ((const struct rec_gpu_zone_begin *)rec)->srcloc;
        else if (type == REC_LOCK)
            srcloc = ((const struct rec_lock *)rec)->srcloc;
        else if (type == REC_LOCK_EVENT)
            srcloc = ((const struct rec_lock_event *)rec)->srcloc;
        else
            continue;
        assert_int_equal(srcloc, l->becomes);
        l->events++;
    }
    return 0;
}

static void located_in(const struct buf *inner, struct located *l, int16_t becomes)
{
    struct trace_info info;
    struct err e = {0};
    struct record_sink sink = {l, put_located};
    *l = (struct located){.becomes = becomes};
    expect_ok(read_inner_into(inner->data, inner->len, 65536, &sink, &info, &e), "located", &e);
}

static void test_no_location_in_a_small_table(void **state)
{
    (void)state;
    struct buf first = {0}, down = {0};
    struct losses losses;
    struct located located;
    struct err e = {0};
    make_trace(file_layout_find(FILE_VERSION(0, 13, 1)), 6, without_locations, &first);
    expect_ok(convert(&first, file_layout_find(FILE_VERSION(0, 11, 1)), &down, &losses, &e), "down",
              &e);
    located_in(&down, &located, -1);
    assert_int_equal(located.payloads, SAMPLE_PAYLOADS);
    assert_int_equal(located.events, losses.n[LOSS_NO_LOCATION]);
    assert_true(located.events > 10);
    assert_non_null(strstr(buf_str(&losses.text), "events marked as without a source location"));
    losses_release(&losses);
    buf_release(&first);
    buf_release(&down);
}

static void test_no_location_in_a_full_table(void **state)
{
    (void)state;
    struct buf first = {0}, down = {0};
    struct losses losses;
    struct located located;
    struct err e = {0};
    make_trace(file_layout_find(FILE_VERSION(0, 13, 1)), 6, table_full, &first);
    expect_ok(convert(&first, file_layout_find(FILE_VERSION(0, 11, 1)), &down, &losses, &e), "down",
              &e);
    located_in(&down, &located, -SAMPLE_PAYLOADS - 1);
    assert_int_equal(located.payloads, SAMPLE_PAYLOADS + 1);
    assert_int_equal(located.stats, SAMPLE_EXPANDS - 1 + SAMPLE_PAYLOADS + 1);
    assert_int_equal(located.stats_of_it, 1);
    assert_int_equal(located.gpu_stats, SAMPLE_EXPANDS - 1 + SAMPLE_PAYLOADS);
    assert_int_equal(located.gpu_stats_of_it, 1);
    assert_int_equal(located.events, losses.n[LOSS_NO_LOCATION]);
    losses_release(&losses);
    buf_release(&first);
    buf_release(&down);
}

static int feed(struct convert *c, enum record_type type, const void *rec, struct err *e)
{
    struct record_sink sink = convert_sink(c);
    return record_put(&sink, type, rec, 1, e);
}

static void test_no_location_and_no_table(void **state)
{
    (void)state;
    struct convert *c;
    struct err e = {0};
    struct record_sink nowhere = {NULL, put_nowhere};
    const struct convert_options options = {.target = file_layout_find(FILE_VERSION(0, 10, 0))};
    struct rec_header header = {.version = FILE_VERSION(0, 12, 0)};
    struct rec_count one = {1}, none = {0};
    struct rec_zone_begin zone = {.srcloc = SOURCE_LOCATION_NONE};
    assert_int_equal(convert_open(&c, &nowhere, &options, &e), 0);
    assert_int_equal(feed(c, REC_HEADER, &header, &e), 0);
    assert_int_equal(feed(c, REC_SOURCE_LOCATION_EXPANDS, &one, &e), 0);
    assert_int_equal(feed(c, REC_SOURCE_LOCATION_PAYLOADS, &none, &e), 0);
    assert_int_equal(feed(c, REC_ZONE_BEGIN, &zone, &e), -1);
    assert_non_null(strstr(e.text, "version 0.10.0 cannot hold that"));
    convert_free(c);
}

/* ---- the header and the text of losses */

struct header_seen {
    char text[2000];
    size_t len;
    uint32_t version;
};

static int put_header(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct header_seen *s = ctx;
    const struct rec_header *h = recs;
    (void)n, (void)e;
    assert_int_equal(type, REC_HEADER);
    s->len = h->host_info.len;
    memcpy(s->text, h->host_info.p, s->len);
    s->version = h->version;
    return 0;
}

static void test_long_header_texts_are_cut(void **state)
{
    (void)state;
    /* bytes of ASCII before a row of three-byte characters */
    static const size_t cases[] = {0, 1, 2, 2000};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[2100];
        struct convert *c;
        struct err e = {0};
        struct header_seen seen = {0};
        struct buf losses = {0};
        struct record_sink sink = {&seen, put_header};
        const struct convert_options options = {0};
        memset(text, 'a', sizeof text);
        for (size_t k = cases[i]; k + 3 <= sizeof text; k += 3)
            memcpy(text + k, "\xe2\x82\xac", 3);
        struct rec_header header = {.version = FILE_VERSION_MAX, .host_info = {text, 2000}};
        assert_int_equal(convert_open(&c, &sink, &options, &e), 0);
        assert_int_equal(feed(c, REC_HEADER, &header, &e), 0);
        assert_true(seen.len <= 1023 && seen.len > 1020);
        /* not inside a character */
        if (cases[i] < 1000)
            assert_int_equal((seen.len - cases[i]) % 3, 0);
        else
            assert_int_equal(seen.len, 1023);
        assert_memory_equal(seen.text, text, seen.len);
        assert_int_equal(convert_loss(c, LOSS_HEADER_TEXT), 1);
        convert_losses(c, &losses);
        assert_string_equal(buf_str(&losses), "1 header text over 1023 bytes");
        buf_release(&losses);
        convert_free(c);
    }
}

static void test_text_of_losses(void **state)
{
    (void)state;
    struct convert *c;
    struct err e = {0};
    struct buf text = {0};
    struct record_sink nowhere = {NULL, put_nowhere};
    const struct convert_options options = {.target = file_layout_find(FILE_VERSION(0, 12, 2))};
    struct rec_header header = {.version = FILE_VERSION_MAX};
    struct rec_gpu_note notes[12] = {{0}};
    struct rec_message message = {.severity = 4};
    assert_int_equal(convert_open(&c, &nowhere, &options, &e), 0);
    assert_int_equal(feed(c, REC_HEADER, &header, &e), 0);
    assert_int_equal(feed(c, REC_MESSAGE, &message, &e), 0);
    struct record_sink sink = convert_sink(c);
    assert_int_equal(record_put(&sink, REC_GPU_NOTE, notes, 12, &e), 0);
    convert_losses(c, &text);
    assert_string_equal(buf_str(&text), "1 message severity, 12 GPU annotation values");
    buf_release(&text);
    convert_free(c);
    convert_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_up_and_back_loses_nothing),
        cmocka_unit_test(test_down_loses_what_is_said),
        cmocka_unit_test(test_no_target_changes_nothing),
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_promised_order_is_kept),
        cmocka_unit_test(test_no_location_in_a_small_table),
        cmocka_unit_test(test_no_location_in_a_full_table),
        cmocka_unit_test(test_no_location_and_no_table),
        cmocka_unit_test(test_long_header_texts_are_cut),
        cmocka_unit_test(test_text_of_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
