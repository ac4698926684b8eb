/* GPU contexts and zones, from events to records: clocks, nesting, late and missing GPU times. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "trace/ingest/ingest.h"
#include "trace/save/save.h"

struct fixture {
    struct trace t;
    struct ingest in;
    struct err e;
    struct buf text; /* the GPU records that a save gives, one line each */
};

static void fixture_init(struct fixture *f, size_t budget)
{
    memset(f, 0, sizeof *f);
    struct trace_options options = {.resident_budget = budget};
    assert_int_equal(trace_init(&f->t, &options, &f->e), 0);
    assert_int_equal(ingest_init(&f->in, &f->t, &f->e), 0);
}

static void fixture_release(struct fixture *f)
{
    ingest_release(&f->in);
    trace_release(&f->t);
    buf_release(&f->text);
}

static void put(struct fixture *f, const struct event *ev)
{
    assert_int_equal(f->in.sink.event(f->in.sink.ctx, ev, &f->e), 0);
}

static int print_record(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    (void)e;
    (void)n;
    struct buf *out = ctx;
    if (type == REC_GPU_CONTEXTS) {
        const struct rec_threads *r = recs;
        buf_printf(out, "%" PRIu64 " zones %" PRIu64 " parents\n", r->zones, r->child_lists);
    } else if (type == REC_GPU_CONTEXT) {
        const struct rec_gpu_context *r = recs;
        buf_printf(out,
                   "context thread %" PRIu64 " type %u zones %" PRIu64 " overflow %" PRIu64 "%s\n",
                   r->thread, r->type, r->zones, r->overflow, r->name ? " named" : "");
    } else if (type == REC_GPU_THREAD) {
        const struct rec_gpu_thread *r = recs;
        buf_printf(out, "thread %" PRIu64 " roots %" PRIu64 "\n", r->id, r->n);
    } else if (type == REC_GPU_ZONE_BEGIN) {
        const struct rec_gpu_zone_begin *r = recs;
        buf_printf(out, "( %" PRId64 " %" PRId64 " at %d children %" PRIu64 "\n", r->cpu_start,
                   r->gpu_start, r->srcloc, r->n);
    } else if (type == REC_GPU_ZONE_END) {
        const struct rec_gpu_zone_end *r = recs;
        buf_printf(out, ") %" PRId64 " %" PRId64 " query %u\n", r->cpu_end, r->gpu_end,
                   r->query_id);
    } else if (type == REC_GPU_NOTE) {
        const struct rec_gpu_note *r = recs;
        buf_printf(out, "note %" PRId64 " = %g\n", r->id, r->value);
    } else if (type == REC_GPU_ZONE_STAT) {
        const struct rec_zone_stat *r = recs;
        buf_printf(out, "location %d: %" PRIu64 "\n", r->srcloc, r->n);
    }
    return 0;
}

static const char *saved(struct fixture *f)
{
    struct record_sink sink = {&f->text, print_record};
    f->text.len = 0;
    assert_int_equal(trace_save(&f->t, &sink, &f->e), 0);
    return buf_str(&f->text);
}

static void new_context(struct fixture *f, uint8_t number, uint32_t thread, uint8_t flags,
                        float period)
{
    struct event ev = {.kind = EVENT_GPU_CONTEXT, .thread = thread, .time = 1000};
    ev.gpu_context.context = number;
    ev.gpu_context.gpu_time = 100;
    ev.gpu_context.period = period;
    ev.gpu_context.flags = flags;
    ev.gpu_context.type = 2;
    put(f, &ev);
}

static void begin(struct fixture *f, uint8_t context, uint32_t thread, uint16_t query, int64_t time)
{
    struct event ev = {.kind = EVENT_GPU_ZONE_BEGIN, .thread = thread, .time = time};
    ev.gpu.context = context;
    ev.gpu.query = query;
    ev.gpu.srcloc = 0x5000 + query % 3;
    put(f, &ev);
}

static void end(struct fixture *f, uint8_t context, uint32_t thread, uint16_t query, int64_t time)
{
    struct event ev = {.kind = EVENT_GPU_ZONE_END, .thread = thread, .time = time};
    ev.gpu.context = context;
    ev.gpu.query = query;
    put(f, &ev);
}

static void gpu_time(struct fixture *f, uint8_t context, uint16_t query, int64_t ticks)
{
    struct event ev = {.kind = EVENT_GPU_TIME};
    ev.gpu.context = context;
    ev.gpu.query = query;
    ev.gpu.gpu_time = ticks;
    put(f, &ev);
}

static void times_come_late_and_in_any_order(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    new_context(&f, 3, 0, 0, 1.f);
    new_context(&f, 3, 0, 0, 1.f); /* an on-demand client can announce one twice */
    begin(&f, 3, 7, 0, 2000);
    begin(&f, 3, 7, 1, 2010);
    end(&f, 3, 7, 2, 2020);
    end(&f, 3, 7, 3, 2030);
    begin(&f, 3, 7, 4, 2040); /* neither ended nor measured */
    gpu_time(&f, 3, 2, 1170);
    gpu_time(&f, 3, 1, 1180); /* the second to come is the end */
    gpu_time(&f, 3, 0, 1150);
    assert_string_equal(saved(&f), "location 2: 1\n"
                                   "2 zones 1 parents\n"
                                   "context thread 0 type 2 zones 2 overflow 0\n"
                                   "thread 7 roots 2\n"
                                   "( 2000 2050 at 1 children 1\n"
                                   "( 2010 2070 at 2 children 0\n"
                                   ") 2020 2080 query 1\n"
                                   ") 2030 -1 query 0\n"
                                   "( 2040 -1 at 2 children 0\n"
                                   ") -1 -1 query 4\n");
    assert_int_equal(f.t.facts.last_time, 2080);
    fixture_release(&f);
}

static void clocks(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    new_context(&f, 0, 9, 1, 2.f); /* calibrated, 2 ns per tick, of one thread */
    begin(&f, 0, 5, 0, 2000);
    end(&f, 0, 5, 1, 2001);
    gpu_time(&f, 0, 0, 200); /* 200 ns after the context's start on both clocks */
    struct event ev = {.kind = EVENT_GPU_CALIBRATION, .time = 3000};
    ev.gpu.context = 0;
    ev.gpu.gpu_time = 600; /* 1000 ns later, which were 500 on the CPU */
    ev.gpu.cpu_delta = 500;
    put(&f, &ev);
    gpu_time(&f, 0, 1, 700);

    new_context(&f, 1, 0, 0, 1.f); /* a counter of 40 bits that wraps */
    begin(&f, 1, 5, 0, 4000);
    end(&f, 1, 5, 1, 4001);
    gpu_time(&f, 1, 0, (INT64_C(1) << 40) - 50);
    gpu_time(&f, 1, 1, 50);
    char expected[512];
    snprintf(expected, sizeof expected,
             "location 1: 2\n"
             "2 zones 0 parents\n"
             "context thread 9 type 2 zones 1 overflow 0\n"
             "thread 0 roots 1\n"
             "( 2000 1200 at 1 children 0\n"
             ") 2001 3100 query 0\n"
             "context thread 0 type 2 zones 1 overflow %" PRIu64 "\n"
             "thread 5 roots 1\n"
             "( 4000 %" PRId64 " at 1 children 0\n"
             ") 4001 %" PRId64 " query 0\n",
             UINT64_C(1) << 40, (INT64_C(1) << 40) + 850, (INT64_C(1) << 40) + 950);
    assert_string_equal(saved(&f), expected);
    fixture_release(&f);
}

static void annotations_keep_the_newest_value(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    new_context(&f, 0, 0, 0, 1.f);
    const struct {
        uint16_t query;
        int64_t id;
        double value;
    } notes[] = {{9, 5, 1}, {2, -5, 2}, {2, 5, 3}, {9, 5, 4}};
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++) {
        struct event ev = {.kind = EVENT_GPU_NOTE};
        ev.gpu.query = notes[i].query;
        ev.gpu.note = notes[i].id;
        ev.gpu.value = notes[i].value;
        put(&f, &ev);
    }
    struct event name = {.kind = EVENT_GPU_CONTEXT_NAME};
    name.gpu.text = view_of("queue");
    put(&f, &name);
    assert_string_equal(saved(&f), "0 zones 0 parents\n"
                                   "context thread 0 type 2 zones 0 overflow 0 named\n"
                                   "note -5 = 2\n"
                                   "note 5 = 3\n"
                                   "note 5 = 4\n");
    fixture_release(&f);
}

static void strays_are_counted(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    begin(&f, 4, 7, 0, 10); /* a context never told about */
    new_context(&f, 0, 0, 0, 1.f);
    end(&f, 0, 7, 0, 20);    /* no zone is open */
    gpu_time(&f, 0, 77, 30); /* measures nothing */
    struct event ev = {.kind = EVENT_GPU_CALIBRATION, .time = 3000};
    put(&f, &ev); /* a context that is not calibrated */
    assert_int_equal(ingest_finish(&f.in, &f.e), 0);
    struct view v = trace_fact(&f.t, "gpu_strays", 0);
    assert_int_equal(v.len, 1);
    assert_memory_equal(v.p, "4", 1);
    fixture_release(&f);
}

/* ---- the next part of a capture */

static int part_full(void *ctx, struct err *e)
{
    struct fixture *f = ctx;
    assert_string_equal(saved(f), "location 2: 1\n"
                                  "2 zones 1 parents\n"
                                  "context thread 0 type 2 zones 2 overflow 0\n"
                                  "thread 6 roots 1\n"
                                  "( 1500 -1 at 1 children 0\n"
                                  ") 1600 -1 query 40\n"
                                  "thread 7 roots 1\n"
                                  "( 2000 2000 at 2 children 2\n"
                                  "( 2010 -1 at 1 children 0\n"
                                  ") 2015 -1 query 1\n"
                                  "( 2020 -1 at 3 children 0\n"
                                  ") -1 -1 query 5\n"
                                  ") -1 -1 query 0\n"
                                  "thread 8 roots 1\n"
                                  "( 2030 2050 at 2 children 0\n"
                                  ") 2035 2060 query 6\n"
                                  "note 1 = 7\n"
                                  "note 1 = 8\n");
    (void)e;
    return 0;
}

static void note(struct fixture *f, uint16_t query, double value)
{
    struct event ev = {.kind = EVENT_GPU_NOTE};
    ev.gpu.query = query;
    ev.gpu.note = 1;
    ev.gpu.value = value;
    put(f, &ev);
}

/* What is open, and what the GPU has not told of yet, goes on in the next part. */
static void zones_go_on_in_the_next_part(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    new_context(&f, 0, 0, 0, 1.f);
    begin(&f, 0, 6, 40, 1500); /* ended, not measured */
    end(&f, 0, 6, 41, 1600);
    begin(&f, 0, 7, 0, 2000); /* open and begun on the GPU */
    begin(&f, 0, 7, 1, 2010); /* ended, not measured */
    end(&f, 0, 7, 2, 2015);
    begin(&f, 0, 7, 5, 2020); /* open, not measured */
    begin(&f, 0, 8, 6, 2030); /* complete */
    end(&f, 0, 8, 7, 2035);
    gpu_time(&f, 0, 0, 1100);
    gpu_time(&f, 0, 6, 1150);
    gpu_time(&f, 0, 7, 1160);
    note(&f, 5, 7);
    note(&f, 6, 8);
    f.in.time_limit = 10000;
    f.in.part_full = part_full;
    f.in.part_full_ctx = &f;
    begin(&f, 0, 7, 9, 50000);
    gpu_time(&f, 0, 1, 20000); /* before this part */
    gpu_time(&f, 0, 2, 49200);
    gpu_time(&f, 0, 5, 49300);
    gpu_time(&f, 0, 40, 49110);
    end(&f, 0, 7, 10, 50010);
    end(&f, 0, 7, 11, 50020);
    end(&f, 0, 7, 12, 50030);
    gpu_time(&f, 0, 12, 49500);
    note(&f, 9, 9);
    assert_string_equal(saved(&f), "location 1: 1\n"
                                   "location 2: 1\n"
                                   "4 zones 2 parents\n"
                                   "context thread 0 type 2 zones 4 overflow 0\n"
                                   "thread 6 roots 1\n"
                                   "( 0 10 at 1 children 0\n"
                                   ") 0 -1 query 40\n"
                                   "thread 7 roots 2\n"
                                   "( 0 0 at 1 children 0\n"
                                   ") 0 100 query 1\n"
                                   "( 0 0 at 2 children 1\n"
                                   "( 0 200 at 3 children 1\n"
                                   "( 0 -1 at 2 children 0\n"
                                   ") 10 -1 query 9\n"
                                   ") 20 -1 query 5\n"
                                   ") 30 400 query 0\n"
                                   "note 1 = 7\n"
                                   "note 1 = 9\n");
    fixture_release(&f);
}

/* ---- many zones, against a plain tree */

enum { ZONES = 300000, THREADS = 3, DEPTH = 40 };

struct plain_zone {
    int64_t cpu_start, cpu_end, gpu_start, gpu_end;
    int parent; /* -1: none */
    uint32_t children;
};

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *seed >> 33;
}

struct checker {
    const struct plain_zone *zones;
    const int *order[THREADS]; /* of each thread, as begun */
    int thread;
    size_t at;
    int stack[DEPTH + 1];
    int depth;
    uint64_t seen;
};

static int check_record(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    (void)n;
    (void)e;
    struct checker *c = ctx;
    if (type == REC_GPU_THREAD) {
        c->thread = (int)((const struct rec_gpu_thread *)recs)->id - 1;
        c->at = 0;
    } else if (type == REC_GPU_ZONE_BEGIN) {
        const struct rec_gpu_zone_begin *r = recs;
        int i = c->order[c->thread][c->at++];
        assert_int_equal(r->cpu_start, c->zones[i].cpu_start);
        assert_int_equal(r->gpu_start, c->zones[i].gpu_start);
        assert_int_equal(r->n, c->zones[i].children);
        assert_int_equal(c->zones[i].parent, c->depth ? c->stack[c->depth - 1] : -1);
        c->stack[c->depth++] = i;
        c->seen++;
    } else if (type == REC_GPU_ZONE_END) {
        const struct rec_gpu_zone_end *r = recs;
        const struct plain_zone *z = &c->zones[c->stack[--c->depth]];
        assert_int_equal(r->cpu_end, z->cpu_end);
        assert_int_equal(r->gpu_end, z->gpu_end);
    }
    return 0;
}

/* A budget so small that most columns are packed or on disk when their GPU times arrive. */
static void many_zones_stay_a_tree(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, (size_t)1 << 20);
    new_context(&f, 0, 0, 0, 1.f);
    struct plain_zone *zones = calloc(ZONES, sizeof *zones);
    int *order[THREADS], count[THREADS] = {0}, stack[THREADS][DEPTH], depth[THREADS] = {0};
    int *waiting = calloc(UINT16_MAX + 1, sizeof *waiting); /* query → zone */
    for (int i = 0; i < THREADS; i++)
        assert_non_null(order[i] = calloc(ZONES, sizeof(int)));
    uint64_t seed = 1;
    uint16_t query = 0, answered = 0;
    int64_t now = 1000;
    for (int made = 0; made < ZONES;) {
        int th = (int)(next_random(&seed) % THREADS);
        now += 1 + (int64_t)(next_random(&seed) % 50);
        bool open = depth[th] < DEPTH && (depth[th] == 0 || next_random(&seed) % 2);
        int i = open ? made++ : stack[th][depth[th] - 1];
        if (open) {
            zones[i] = (struct plain_zone){now, -1, -1, -1, -1, 0};
            if (depth[th]) {
                zones[i].parent = stack[th][depth[th] - 1];
                zones[zones[i].parent].children++;
            }
            order[th][count[th]++] = i;
            stack[th][depth[th]++] = i;
            begin(&f, 0, (uint32_t)th + 1, query, now);
        } else {
            depth[th]--;
            zones[i].cpu_end = now;
            end(&f, 0, (uint32_t)th + 1, query, now);
        }
        waiting[query++] = i;
        while ((uint16_t)(query - answered) > 60000) { /* far behind, in order */
            struct plain_zone *z = &zones[waiting[answered]];
            *(z->gpu_start < 0 ? &z->gpu_start : &z->gpu_end) = now + 900;
            gpu_time(&f, 0, answered++, now);
        }
    }
    struct checker c = {.zones = zones, .order = {order[0], order[1], order[2]}};
    struct record_sink sink = {&c, check_record};
    assert_int_equal(trace_save(&f.t, &sink, &f.e), 0);
    assert_int_equal(c.seen, ZONES);
    for (int i = 0; i < THREADS; i++)
        free(order[i]);
    free(waiting);
    free(zones);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_come_late_and_in_any_order),
        cmocka_unit_test(clocks),
        cmocka_unit_test(annotations_keep_the_newest_value),
        cmocka_unit_test(strays_are_counted),
        cmocka_unit_test(zones_go_on_in_the_next_part),
        cmocka_unit_test(many_zones_stay_a_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
