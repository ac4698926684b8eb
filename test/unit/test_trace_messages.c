/* Messages, and which threads a trace lists, from events to the records of a saved trace. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "trace/filter/rekey.h"
#include "trace/ingest/ingest.h"
#include "trace/save/save.h"

struct saved {
    VEC(struct view) strings;
    VEC(struct rec_message) messages;
    VEC(struct rec_thread) threads;
    VEC(uint64_t) links; /* message keys of all threads, each list closed by 0 */
    VEC(struct rec_pair) names;
    VEC(uint64_t) locals;
    VEC(struct rec_memory_event) memory;
};

struct fixture {
    struct trace t;
    struct ingest in;
    struct saved s;
    struct err e;
};

static void fixture_init(struct fixture *f)
{
    struct trace_options options = {.resident_budget = 1 << 20};
    memset(f, 0, sizeof *f);
    assert_int_equal(trace_init(&f->t, &options, &f->e), 0);
    assert_int_equal(ingest_init(&f->in, &f->t, &f->e), 0);
}

static void fixture_release(struct fixture *f)
{
    vec_release(&f->s.strings);
    vec_release(&f->s.messages);
    vec_release(&f->s.threads);
    vec_release(&f->s.links);
    vec_release(&f->s.names);
    vec_release(&f->s.locals);
    vec_release(&f->s.memory);
    ingest_release(&f->in);
    trace_release(&f->t);
}

static void put(struct fixture *f, const struct event *ev)
{
    if (f->in.sink.event(f->in.sink.ctx, ev, &f->e) != 0)
        fail_msg("%s", f->e.text);
}

static void put_message(struct fixture *f, uint64_t thread, int64_t time, const char *text)
{
    struct event ev = {.kind = EVENT_MESSAGE, .thread = thread, .time = time};
    ev.message.text = view_of(text);
    ev.message.color = 0xFFFFFF;
    ev.message.severity = 2;
    put(f, &ev);
}

static int keep(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct saved *s = ctx;
    (void)e;
    switch (type) {
    case REC_STRING:
        assert_true(vec_push(&s->strings, ((const struct rec_string *)recs)->text));
        break;
    case REC_THREAD_NAME:
        for (size_t i = 0; i < n; i++)
            assert_true(vec_push(&s->names, ((const struct rec_pair *)recs)[i]));
        break;
    case REC_LOCAL_THREAD:
        assert_true(vec_push(&s->locals, ((const struct rec_id *)recs)->id));
        break;
    case REC_MEMORY_EVENT:
        for (size_t i = 0; i < n; i++)
            assert_true(vec_push(&s->memory, ((const struct rec_memory_event *)recs)[i]));
        break;
    case REC_MESSAGE:
        assert_true(vec_push(&s->messages, *(const struct rec_message *)recs));
        break;
    case REC_THREAD:
        assert_true(vec_push(&s->threads, *(const struct rec_thread *)recs));
        break;
    case REC_THREAD_MESSAGE:
        assert_true(vec_push(&s->links, ((const struct rec_id *)recs)->id));
        break;
    case REC_SWITCH_SAMPLES: /* follows a thread's messages */
        assert_true(vec_push(&s->links, 0));
        break;
    default:
        break;
    }
    return 0;
}

static void save(struct fixture *f)
{
    struct record_sink sink = {&f->s, keep};
    assert_int_equal(ingest_finish(&f->in, &f->e), 0);
    if (trace_save(&f->t, &sink, &f->e) != 0)
        fail_msg("%s", f->e.text);
}

static void assert_message(struct fixture *f, size_t i, int64_t time, const char *text)
{
    assert_true(i < f->s.messages.len);
    const struct rec_message *m = &f->s.messages.at[i];
    assert_int_equal(m->time, time);
    assert_int_equal(m->text.flags, STRING_REF_INDEX);
    assert_true(view_equal(f->s.strings.at[m->text.value], view_of(text)));
}

static const struct rec_message *message_of_key(struct fixture *f, uint64_t key)
{
    for (size_t i = 0; i < f->s.messages.len; i++) {
        if (f->s.messages.at[i].key == key)
            return &f->s.messages.at[i];
    }
    fail_msg("a thread has a message that is not in the list");
    return NULL;
}

static void messages_keep_all_they_say(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    uint64_t frame = 0x1000;
    uint32_t stack;
    bool fresh;
    assert_int_equal(f.in.sink.callstack(f.in.sink.ctx, &frame, 1, &stack, &fresh, &f.e), 0);
    put_message(&f, 1, 10, "plain");
    struct event ev = {.kind = EVENT_MESSAGE, .thread = 2, .time = 20, .callstack = stack};
    ev.message.literal = 0xabc0;
    ev.message.color = 0x123456;
    ev.message.source = 1;
    ev.message.severity = 5;
    put(&f, &ev);
    save(&f);
    assert_int_equal(f.s.messages.len, 2);
    assert_message(&f, 0, 10, "plain");
    assert_int_equal(f.s.messages.at[0].color, 0xFFFFFFFF);
    assert_int_equal(f.s.messages.at[0].severity, 2);
    const struct rec_message *m = &f.s.messages.at[1];
    assert_int_equal(m->text.flags, STRING_REF_POINTER);
    assert_int_equal(m->text.value, 0xabc0);
    assert_int_equal(m->color, 0xFF563412);
    assert_int_equal(m->callstack, stack);
    assert_int_equal(m->source, 1);
    assert_int_equal(m->severity, 5);
    assert_int_equal(f.t.facts.last_time, 20);
    assert_int_equal(f.s.links.len, 4);
    assert_int_equal(f.s.links.at[0], f.s.messages.at[0].key);
    assert_int_equal(f.s.links.at[2], f.s.messages.at[1].key);
    fixture_release(&f);
}

/* As the official server inserts them: before the first that is not earlier. */
static void equal_times_put_the_newest_first(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    static const struct {
        int64_t time;
        const char *text;
    } in[] = {{5, "a"}, {9, "b"}, {5, "c"}, {9, "d"}, {5, "e"}, {-3, "f"}},
      out[] = {{-3, "f"}, {5, "e"}, {5, "c"}, {5, "a"}, {9, "d"}, {9, "b"}};
    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++)
        put_message(&f, 1, in[i].time, in[i].text);
    save(&f);
    assert_int_equal(f.s.messages.len, sizeof out / sizeof out[0]);
    for (size_t i = 0; i < sizeof out / sizeof out[0]; i++) {
        assert_message(&f, i, out[i].time, out[i].text);
        assert_int_equal(f.s.links.at[i], f.s.messages.at[i].key);
    }
    fixture_release(&f);
}

/* More than are sorted in memory, from three threads, one of which is in order. */
static uint64_t number_of(uint64_t key)
{
    assert_int_equal((key - MESSAGE_KEYS_BEGIN) % MESSAGE_KEY_STEP, 0);
    return (key - MESSAGE_KEYS_BEGIN) / MESSAGE_KEY_STEP;
}

static void many_messages_are_sorted(void **state)
{
    (void)state;
    enum { COUNT = 450000 };
    struct fixture f;
    fixture_init(&f);
    uint64_t random = 1;
    for (int64_t i = 0; i < COUNT; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        bool steady = i % 3 == 0;
        put_message(&f, 1 + (uint64_t)(i % 3), steady ? i : (int64_t)(random >> 40), "x");
    }
    assert_true(f.t.spool.fd >= 0);
    save(&f);
    assert_int_equal(f.s.messages.len, COUNT);
    assert_int_equal(f.s.links.len, COUNT + 3);
    int64_t *times = calloc(COUNT, sizeof *times);
    assert_non_null(times);
    for (size_t i = 0; i < COUNT; i++) {
        const struct rec_message *m = &f.s.messages.at[i];
        assert_in_range(number_of(m->key), 0, COUNT - 1);
        times[number_of(m->key)] = m->time;
        assert_true(i == 0 || m->time > m[-1].time ||
                    (m->time == m[-1].time && m->key < m[-1].key));
    }
    for (size_t i = 1; i < f.s.links.len; i++) {
        uint64_t key = f.s.links.at[i], before = f.s.links.at[i - 1];
        if (!key || !before)
            continue;
        uint64_t at = number_of(key), last = number_of(before);
        assert_int_equal(at % 3, last % 3); /* of one thread */
        assert_true(times[at] > times[last] || (times[at] == times[last] && at < last));
    }
    free(times);
    fixture_release(&f);
}

/* ---- memory faults */

static void put_memory(struct fixture *f, enum event_kind kind, uint64_t thread, int64_t time,
                       uint64_t ptr)
{
    struct event ev = {.kind = kind, .thread = thread, .time = time};
    ev.mem.ptr = ptr;
    ev.mem.size = 16;
    put(f, &ev);
}

static void memory_faults_are_sorted_in(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    for (int64_t i = 0; i < 4; i++) {
        put_memory(&f, EVENT_MEM_ALLOC, 1, 10 * i, 0x1000);
        put_memory(&f, EVENT_MEM_FREE, 1, 10 * i + 5, 0x1000);
    }
    put_message(&f, 1, 30, "before");
    put_memory(&f, EVENT_MEM_FREE, 2, 50, 0xdead0);
    put_message(&f, 1, 70, "after");
    save(&f);
    assert_int_equal(f.s.messages.len, 3);
    assert_message(&f, 0, 30, "before");
    assert_message(&f, 1, 50, "tidemark: free of unknown address 0xdead0 in pool default");
    assert_message(&f, 2, 70, "after");
    assert_int_equal(f.s.messages.at[1].severity, 3);
    assert_int_equal(f.s.messages.at[1].color, 0xFF4040FF);
    assert_int_equal(f.s.threads.len, 2);
    assert_int_equal(message_of_key(&f, f.s.links.at[3])->time, 50);
    fixture_release(&f);
}

static void expected_unknown_frees_list_no_thread(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    f.in.unknown_frees_expected = true;
    put_memory(&f, EVENT_MEM_FREE, 2, 50, 0xdead0);
    put_memory(&f, EVENT_MEM_ALLOC, 1, 60, 0x1000);
    put_memory(&f, EVENT_MEM_FREE, 3, 70, 0x1000);
    save(&f);
    assert_int_equal(f.s.threads.len, 2);
    assert_int_equal(f.s.threads.at[0].id, 1);
    assert_int_equal(f.s.threads.at[1].id, 3);
    fixture_release(&f);
}

/* Zones list a thread, but only later events give it its place in the table of local threads. */
static void local_threads_have_their_order(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    struct event ev = {.kind = EVENT_ZONE_BEGIN, .thread = 5, .time = 1};
    put(&f, &ev);
    ev.thread = 4;
    put(&f, &ev);
    put_message(&f, 3, 2, "third");
    put_memory(&f, EVENT_MEM_ALLOC, 2, 3, 0x1000);
    put_memory(&f, EVENT_MEM_FREE, 4, 4, 0x1000);
    save(&f);
    static const uint64_t locals[] = {0, 3, 2, 4, 5}, listed[] = {5, 4, 3, 2};
    assert_int_equal(f.s.locals.len, 5);
    assert_memory_equal(f.s.locals.at, locals, sizeof locals);
    assert_int_equal(f.s.threads.len, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(f.s.threads.at[i].id, listed[i]);
    assert_int_equal(f.s.memory.len, 1);
    assert_int_equal(locals[f.s.memory.at[0].thread_alloc], 2);
    assert_int_equal(locals[f.s.memory.at[0].thread_free], 4);
    fixture_release(&f);
}

/* ---- threads and fibers */

static void put_fiber(struct fixture *f, enum event_kind kind, uint64_t fiber, uint64_t key,
                      uint64_t thread, int32_t hint)
{
    struct event ev = {.kind = kind, .thread = fiber, .time = 100};
    ev.fiber.fiber = key;
    ev.fiber.thread = thread;
    ev.fiber.group_hint = hint;
    put(f, &ev);
}

static void put_name(struct fixture *f, enum event_kind kind, uint64_t key, const char *text)
{
    struct event ev = {.kind = kind};
    ev.name.key = key;
    ev.name.text = view_of(text);
    put(f, &ev);
}

static void fibers_are_threads(void **state)
{
    (void)state;
    const uint64_t one = UINT64_C(1) << 32, two = one + 1;
    struct fixture f;
    fixture_init(&f);
    put_name(&f, EVENT_FIBER_NAME, 0xf2, "too early"); /* nobody knows that fiber yet */
    put_fiber(&f, EVENT_FIBER_ENTER, one, 0xf1, 7, 3);
    put_message(&f, one, 110, "from a fiber");
    put_fiber(&f, EVENT_FIBER_LEAVE, one, 0xf1, 7, 0);
    put_fiber(&f, EVENT_FIBER_LEAVE, 7, 0, 7, 0); /* there is none any more */
    put_fiber(&f, EVENT_FIBER_ENTER, two, 0xf2, 8, 4);
    put_fiber(&f, EVENT_FIBER_ENTER, one, 0xf1, 8, 9); /* the first group hint stands */
    put_name(&f, EVENT_FIBER_NAME, 0xf1, "fiber one");
    put_name(&f, EVENT_THREAD_NAME, 7, "thread seven");
    put_name(&f, EVENT_THREAD_NAME, 9, "never seen");
    save(&f);
    static const struct {
        uint64_t id;
        int32_t hint;
    } want[] = {{UINT64_C(1) << 32, 3}, {7, 0}, {(UINT64_C(1) << 32) + 1, 4}, {8, 0}};
    assert_int_equal(f.s.threads.len, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(f.s.threads.at[i].id, want[i].id);
        assert_int_equal(f.s.threads.at[i].group_hint, want[i].hint);
        assert_int_equal(f.s.threads.at[i].is_fiber, want[i].id >> 32 != 0);
    }
    assert_int_equal(f.s.links.at[0], f.s.messages.at[0].key);
    assert_int_equal(f.s.names.len, 3);
    assert_int_equal(f.s.names.at[0].key, one);
    assert_true(view_equal(f.s.strings.at[f.s.names.at[0].value - 1], view_of("fiber one")));
    struct view leaves = trace_fact(&f.t, "fiber_leaves_without_fiber", 0);
    assert_true(view_equal(leaves, view_of("1")));
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_keep_all_they_say),
        cmocka_unit_test(equal_times_put_the_newest_first),
        cmocka_unit_test(many_messages_are_sorted),
        cmocka_unit_test(memory_faults_are_sorted_in),
        cmocka_unit_test(expected_unknown_frees_list_no_thread),
        cmocka_unit_test(local_threads_have_their_order),
        cmocka_unit_test(fibers_are_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
