/* Scheduling, samples, code and sources: events through the ingest to the records of a file. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "trace/ingest/ingest.h"
#include "trace/save/save.h"

struct fixture {
    struct trace t;
    struct ingest in;
    struct err e;
    /* what the save put */
    struct rec_context_switch switches[16];
    struct rec_id_count switch_threads[8];
    struct rec_cpu_switch cpu_switches[16];
    struct rec_cpu_thread cpu_threads[8];
    struct rec_external_name names[8];
    struct rec_sample samples[16], switch_samples[16];
    struct rec_thread threads[8];
    struct rec_symbols symbols;
    struct rec_pair pids[8];
    uint64_t hw_times, hw_address;
    char code[64], sources[256];
    size_t n[REC_TYPE_COUNT];
    int64_t last_time;
};

static int keep(void *ctx, enum record_type type, const void *recs, size_t count, struct err *e)
{
    struct fixture *f = ctx;
    (void)e;
#define KEEP(TYPE, FIELD)                                                                          \
    case TYPE:                                                                                     \
        assert_true(f->n[type] + count <= sizeof f->FIELD / sizeof f->FIELD[0]);                   \
        memcpy(f->FIELD + f->n[type], recs, count * sizeof f->FIELD[0]);                           \
        break
    switch (type) {
        KEEP(REC_CONTEXT_SWITCH, switches);
        KEEP(REC_CONTEXT_SWITCH_THREAD, switch_threads);
        KEEP(REC_CPU_SWITCH, cpu_switches);
        KEEP(REC_CPU_THREAD, cpu_threads);
        KEEP(REC_EXTERNAL_NAME, names);
        KEEP(REC_SAMPLE, samples);
        KEEP(REC_SWITCH_SAMPLE, switch_samples);
        KEEP(REC_THREAD, threads);
        KEEP(REC_TID_TO_PID, pids);
    case REC_SYMBOLS:
        f->symbols = *(const struct rec_symbols *)recs;
        break;
    case REC_HEADER:
        f->last_time = ((const struct rec_header *)recs)->last_time;
        break;
    case REC_HW_SAMPLE:
        f->hw_address = ((const struct rec_id *)recs)->id;
        break;
    case REC_SYMBOL_CODE: {
        const struct rec_symbol_code *r = recs;
        assert_true(r->bytes.len < sizeof f->code);
        memcpy(f->code, r->bytes.p, r->bytes.len);
        break;
    }
    case REC_SOURCE_FILE: {
        const struct rec_source_file *r = recs;
        strncat(f->sources, r->path.p, r->path.len);
        strncat(f->sources, "=", 2);
        strncat(f->sources, r->bytes.p, r->bytes.len);
        strncat(f->sources, ";", 2);
        break;
    }
    default:
        break;
    }
#undef KEEP
    f->n[type] += count;
    return 0;
}

static void setup(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    assert_int_equal(trace_init(&f->t, NULL, &f->e), 0);
    assert_int_equal(ingest_init(&f->in, &f->t, &f->e), 0);
}

static void save(struct fixture *f)
{
    struct record_sink sink = {f, keep};
    memset(f->n, 0, sizeof f->n);
    f->sources[0] = 0;
    assert_int_equal(ingest_finish(&f->in, &f->e), 0);
    if (trace_save(&f->t, &sink, &f->e) != 0)
        fail_msg("%s", f->e.text);
}

static void teardown(struct fixture *f)
{
    ingest_release(&f->in);
    trace_release(&f->t);
}

static void put(struct fixture *f, const struct event *ev)
{
    if (f->in.sink.event(f->in.sink.ctx, ev, &f->e) != 0)
        fail_msg("%s", f->e.text);
}

static void put_switch(struct fixture *f, int64_t time, uint32_t from, uint32_t to)
{
    struct event ev = {.kind = EVENT_CONTEXT_SWITCH, .time = time};
    ev.sched.old_thread = from;
    ev.sched.new_thread = to;
    ev.sched.cpu = 2;
    ev.sched.has_cpu = true;
    ev.sched.reason = 100;
    put(f, &ev);
}

static void put_sample(struct fixture *f, enum event_kind kind, uint64_t thread, int64_t time,
                       uint64_t frame)
{
    struct event ev = {.kind = kind, .thread = thread, .time = time};
    bool fresh;
    if (frame)
        assert_int_equal(
            f->in.sink.callstack(f->in.sink.ctx, &frame, 1, &ev.callstack, &fresh, &f->e), 0);
    put(f, &ev);
}

static void put_text(struct fixture *f, enum event_kind kind, uint64_t key, const char *text)
{
    struct event ev = {.kind = kind};
    ev.name.key = key;
    ev.name.text = view_of(text);
    put(f, &ev);
}

static void switches_of_threads_that_have_more(void **state)
{
    struct fixture f;
    (void)state;
    setup(&f);
    put_switch(&f, 10, 0, 7);
    put_switch(&f, 20, 7, 8);
    put_switch(&f, 50, 8, 7);
    put_sample(&f, EVENT_SAMPLE, 7, 15, 0x1000);
    put_text(&f, EVENT_EXTERNAL_NAME, 8, "program");
    put_text(&f, EVENT_EXTERNAL_THREAD_NAME, 99, "nobody");
    struct event pid = {.kind = EVENT_TID_TO_PID};
    pid.pair.key = 7;
    pid.pair.value = 70;
    put(&f, &pid);
    save(&f);
    /* Thread 8 has neither zones nor samples; its processor and totals stay. */
    assert_int_equal(f.n[REC_CONTEXT_SWITCH_THREAD], 1);
    assert_int_equal(f.switch_threads[0].id, 7);
    assert_int_equal(f.n[REC_CONTEXT_SWITCH], 2);
    assert_int_equal(f.switches[0].end, 20);
    assert_int_equal(f.switches[0].reason, 100);
    assert_int_equal(f.switches[1].end, -1);
    assert_int_equal(f.n[REC_CPU_SWITCH_LIST], 256);
    assert_int_equal(f.n[REC_CPU_SWITCH], 3);
    assert_int_equal(f.n[REC_EXTERNAL_THREAD], 3); /* 0, 7, 8 */
    assert_int_equal(f.cpu_switches[1].thread, 2);
    assert_int_equal(f.n[REC_CPU_THREAD], 2);
    assert_int_equal(f.cpu_threads[1].running_time, 30);
    assert_int_equal(f.n[REC_TID_TO_PID], 1);
    assert_int_equal(f.pids[0].value, 70);
    assert_int_equal(f.n[REC_EXTERNAL_NAME], 2);
    assert_int_equal(f.names[0].program_key, 0); /* nothing known */
    struct view thread = strings_get(&f.t.strings, (uint32_t)f.names[1].thread_key);
    assert_int_equal(thread.len, 3); /* "???", or readers would drop the program's name */
    assert_int_equal(f.last_time, 50);
    teardown(&f);
}

static void samples_by_thread(void **state)
{
    (void)state;
    for (int quiet = 0; quiet < 2; quiet++) {
        struct fixture f;
        setup(&f);
        f.in.samples_end_nothing = quiet;
        put_sample(&f, EVENT_SAMPLE, 7, 30, UINT64_C(0x3fffffff81000000));
        put_sample(&f, EVENT_SWITCH_SAMPLE, 8, 20, 0x1000);
        put_sample(&f, EVENT_SAMPLE, 7, 10, 0x1000);
        put_sample(&f, EVENT_SAMPLE, 7, 40, 0); /* without frames: nothing to keep */
        struct event hw = {.kind = EVENT_HW_SAMPLE, .time = 35};
        hw.hw.ip = 0x77;
        hw.hw.counter = 3;
        put(&f, &hw);
        save(&f);
        assert_int_equal(f.n[REC_THREAD], 2);
        assert_int_equal(f.threads[0].kernel_samples, 1);
        assert_int_equal(f.threads[1].kernel_samples, 0);
        assert_int_equal(f.n[REC_SAMPLE], 3);
        assert_int_equal(f.samples[0].time, 10);
        assert_int_equal(f.samples[1].time, 30);
        assert_int_equal(f.samples[2].time, 20);
        assert_int_equal(f.n[REC_SWITCH_SAMPLE], 1);
        assert_int_equal(f.n[REC_HW_SAMPLE_LIST], 6);
        assert_int_equal(f.n[REC_HW_SAMPLE_TIME], 1);
        assert_int_equal(f.hw_address, 0x77);
        assert_int_equal(f.last_time, quiet ? 1 : 40);
        teardown(&f);
    }
}

static void put_frame(struct fixture *f, uint64_t address, uint64_t symbol)
{
    struct event_inline one = {view_of("f"), view_of("a.c"), 1, symbol, 64};
    struct event ev = {.kind = EVENT_CALLSTACK_FRAME};
    ev.frames.address = address;
    ev.frames.image = view_of("image");
    ev.frames.n = 1;
    ev.frames.inlines = &one;
    put(f, &ev);
}

static void symbols_that_were_told_and_their_code(void **state)
{
    struct fixture f;
    (void)state;
    setup(&f);
    put_frame(&f, 0x1004, 0x1000);
    put_frame(&f, 0x2004, 0x2000);
    struct event told = {.kind = EVENT_SYMBOL};
    told.symbol.address = 0x2000;
    told.symbol.file = view_of("b.c");
    put(&f, &told);
    put_text(&f, EVENT_SYMBOL_CODE, 0x2000, "code");
    put_text(&f, EVENT_SYMBOL_CODE, 0x2000, "other"); /* the first stands */
    save(&f);
    assert_int_equal(f.symbols.n, 1);
    assert_int_equal(f.symbols.regular, 1);
    assert_int_equal(f.n[REC_SYMBOL], 1);
    assert_int_equal(f.n[REC_CODE_SYMBOL], 2);
    assert_int_equal(f.n[REC_SYMBOL_CODE], 1);
    assert_string_equal(f.code, "code");
    teardown(&f);
}

static void name_sources(struct fixture *f)
{
    static const char *const names[] = {"a.c", "b.c", "a.c", "d.c"};
    for (uint64_t i = 0; i < 4; i++)
        put_text(f, EVENT_SOURCE_NAME, i, names[i]);
}

static void sources_that_we_asked_for(void **state)
{
    struct fixture f;
    (void)state;
    setup(&f);
    name_sources(&f);
    put_text(&f, EVENT_SOURCE_CODE, EVENT_SOURCE_OURS | 1, "beta");
    put_text(&f, EVENT_SOURCE_CODE_MISSING, EVENT_SOURCE_OURS | 0, "");
    put_text(&f, EVENT_SOURCE_CODE, 3, "meant for another"); /* nobody knows which file */
    put_text(&f, EVENT_SOURCE_CODE, EVENT_SOURCE_OURS | 900, "no such number");
    save(&f);
    assert_string_equal(f.sources, "b.c=beta;");
    assert_int_equal(trace_fact(&f.t, "nameless_sources", 0).p[0], '2');
    teardown(&f);
}

/* Another server that had none of the files itself asked for all of them in this order. */
static void sources_in_a_recording(void **state)
{
    struct fixture f;
    (void)state;
    setup(&f);
    name_sources(&f);
    put_text(&f, EVENT_SOURCE_CODE, 2, "alpha");
    put_text(&f, EVENT_SOURCE_CODE, 0, "alpha again");
    put_text(&f, EVENT_SOURCE_CODE_MISSING, 1, "");
    put_text(&f, EVENT_SOURCE_CODE, 3, "delta");
    save(&f);
    assert_string_equal(f.sources, "a.c=alpha;d.c=delta;");
    assert_null(trace_fact(&f.t, "nameless_sources", 0).p);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(switches_of_threads_that_have_more),
        cmocka_unit_test(samples_by_thread),
        cmocka_unit_test(symbols_that_were_told_and_their_code),
        cmocka_unit_test(sources_that_we_asked_for),
        cmocka_unit_test(sources_in_a_recording),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
