/* Events that go out as a client's stream come back as they were, whatever the protocol. */

#include "protocol_support.h"

#include "protocol/answers.h"
#include "protocol/client_stream.h"

#define NO_COLOR 0xFFFFFFu

static const uint64_t outer[] = {0x1111, 0x2222}, inner[] = {0x1001, 0x1111, 0x2222};

static struct event memory(enum event_kind kind, int64_t time, uint64_t pool, uint64_t ptr,
                           uint64_t size, uint32_t callstack)
{
    return (struct event){.kind = kind,
                          .callstack = callstack,
                          .thread = 7,
                          .time = time,
                          .mem = {.pool = pool, .ptr = ptr, .size = size}};
}

static struct client_stream *stream_of(const struct wire_version *v, struct err *e)
{
    struct client_stream *s = client_stream_new(v);
    assert_non_null(s);
    assert_int_equal(client_stream_callstack(s, 1, outer, 2, e), 0);
    assert_int_equal(client_stream_callstack(s, 3, inner, 3, e), 0);
    return s;
}

/* What a server makes of it, line by line. */
static void read_back(struct client_stream *s, uint32_t protocol, struct rig *r)
{
    struct err e = {0};
    struct frame_reader *frames = frame_reader_new();
    assert_int_equal(client_stream_commit(s, &e), 0);
    struct buf *out = client_stream_output(s);
    rig_init(r, protocol, NULL);
    r->log.keep_lines = true;
    assert_int_equal(rig_feed(r, frames, out->data, out->len, SIZE_MAX), 0);
    frame_reader_free(frames);
}

static void put(struct client_stream *s, struct event ev)
{
    struct err e = {0};
    assert_int_equal(client_stream_event(s, &ev, &e), 0);
}

static void expect_line(const struct rig *r, const char *part, bool there)
{
    struct buf copy = {0};
    buf_put(&copy, r->log.lines.data, r->log.lines.len);
    if ((strstr(buf_str(&copy), part) != NULL) != there)
        fail_msg("\"%s\" is%s in:\n%s", part, there ? " not" : "", buf_str(&copy));
    buf_release(&copy);
}

static void test_memory(void **state)
{
    (void)state;
    for (unsigned i = 0; i < wire_version_count; i++) {
        struct err e = {0};
        struct rig r;
        struct client_stream *s = stream_of(&wire_versions[i], &e);
        put(s, memory(EVENT_MEM_ALLOC, 10, 0, 0x5000, 100, 3));
        put(s, memory(EVENT_MEM_ALLOC, 5000000000, 0x99, 0x6000, 0xFFFFFFFFFFFF, 0));
        put(s, memory(EVENT_MEM_ALLOC, 5000000000, 0x99, 0x7000, 1, 1));
        put(s, memory(EVENT_MEM_FREE, 5000000001, 0x99, 0x6000, 0, 1));
        put(s, memory(EVENT_MEM_FREE, 5000000002, 0, 0x5000, 0, 0));
        /* Of a pool that nobody heard of, which official servers stumble over; then of one. */
        put(s, memory(EVENT_MEM_DISCARD, 5000000003, 0x77, 0, 0, 0));
        put(s, memory(EVENT_MEM_DISCARD, 5000000004, 0x99, 0, 0, 0));
        put(s, memory(EVENT_MEM_ALLOC, 5000000005, 0, 0x5000, 3, 1));
        read_back(s, wire_versions[i].protocol, &r);
        assert_int_equal(r.log.counts[EVENT_MEM_ALLOC], 4);
        assert_int_equal(r.log.counts[EVENT_MEM_FREE], 2);
        assert_int_equal(r.log.counts[EVENT_MEM_DISCARD], client_stream_has_discard(s));
        expect_line(&r, "t=5000000005", true);
        rig_release(&r);
        client_stream_free(s);
    }
}

static void test_everything_else(void **state)
{
    (void)state;
    static const struct event_location place = {.name = {"zone", 4},
                                                .function = {"f\0x", 3},
                                                .file = {"a.c", 3},
                                                .line = 9,
                                                .color = 0x123456};
    for (unsigned i = 0; i < wire_version_count; i++) {
        struct err e = {0};
        struct rig r;
        struct client_stream *s = stream_of(&wire_versions[i], &e);
        struct event zone = {.kind = EVENT_ZONE_BEGIN, .thread = 5, .time = 70000};
        zone.zone.payload = &place;
        put(s, zone);
        zone.callstack = 3;
        zone.time = 80000;
        put(s, zone);
        /* Of the innermost zone; servers give up at one for no zone. */
        struct event text = {.kind = EVENT_ZONE_TEXT, .thread = 5, .time = 80000};
        text.text = view_of("more of it");
        put(s, text);
        text.thread = 6;
        text.text = view_of("of nothing");
        put(s, text);
        put(s, (struct event){.kind = EVENT_ZONE_END, .thread = 5, .time = 90000});
        put(s, (struct event){.kind = EVENT_ZONE_END, .thread = 6, .time = 91000});
        struct event message = {.kind = EVENT_MESSAGE, .callstack = 1, .thread = 6, .time = 92000};
        message.message.color = NO_COLOR;
        message.message.severity = 2;
        message.message.text = view_of("plain");
        put(s, message);
        message.message.color = 0xFF2010;
        put(s, message);
        struct event info = {.kind = EVENT_APP_INFO, .time = 93000};
        info.text = view_of("about it");
        put(s, info);
        struct event plot = {.kind = EVENT_PLOT, .thread = 6, .time = 94000};
        plot.plot.name = 0x1234;
        plot.plot.value = 1.5;
        put(s, plot);
        assert_int_equal(client_stream_end(s, 99000, &e), 0);
        read_back(s, wire_versions[i].protocol, &r);
        assert_int_equal(r.log.counts[EVENT_ZONE_BEGIN], 2);
        assert_int_equal(r.log.counts[EVENT_ZONE_TEXT], 1);
        expect_line(&r, "\"more of it\"", true);
        expect_line(&r, "\"of nothing\"", false);
        assert_int_equal(r.log.counts[EVENT_ZONE_END], 2); /* the second by the stream's end */
        assert_int_equal(r.log.counts[EVENT_MESSAGE], 2);
        assert_int_equal(r.log.counts[EVENT_APP_INFO], 1);
        assert_int_equal(r.log.counts[EVENT_PLOT], 1);
        assert_int_equal(r.log.counts[EVENT_TERMINATE], 1);
        expect_line(&r, "t=99000", true);
        expect_line(&r, "t=91000", false);
        expect_line(&r, "\"plain\"", true);
        rig_release(&r);
        client_stream_free(s);
    }
}

/* A set of frames is of one kind, and its frames begin before they end. */
static void test_frames_that_servers_take(void **state)
{
    (void)state;
    static const struct {
        enum event_kind kind;
        uint64_t name;
    } steps[] = {{EVENT_FRAME_MARK, 0},  {EVENT_FRAME_MARK, 8},  {EVENT_FRAME_START, 8},
                 {EVENT_FRAME_END, 9},   {EVENT_FRAME_START, 9}, {EVENT_FRAME_START, 9},
                 {EVENT_FRAME_MARK, 9},  {EVENT_FRAME_END, 9},   {EVENT_FRAME_END, 9},
                 {EVENT_FRAME_START, 9}, {EVENT_FRAME_MARK, 0}};
    struct err e = {0};
    struct rig r;
    struct client_stream *s = stream_of(wire_version_find(82), &e);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct event ev = {.kind = steps[i].kind, .time = (int64_t)i};
        ev.frame_mark.name = steps[i].name;
        put(s, ev);
    }
    read_back(s, 82, &r);
    assert_int_equal(r.log.counts[EVENT_FRAME_MARK], 3);
    assert_int_equal(r.log.counts[EVENT_FRAME_START], 2);
    assert_int_equal(r.log.counts[EVENT_FRAME_END], 1);
    rig_release(&r);
    client_stream_free(s);
}

/* Frames that stand alone can be sent in any order, with others between. */
static void test_frames_stand_alone(void **state)
{
    (void)state;
    struct err e = {0};
    struct rig r;
    struct frame_reader *frames = frame_reader_new();
    struct encoder *answers = encoder_new(wire_version_find(82));
    struct client_stream *s = stream_of(wire_version_find(82), &e);
    static const struct answer_function functions[] = {
        {.name = {"inlined", 7}, .file = {"a.h", 3}, .line = 3, .symbol = 0x1000},
        {.name = {"outer", 5}, .file = {"a.c", 3}, .line = 4, .symbol = 0x1000}};
    encoder_set_independent(answers);
    rig_init(&r, 82, NULL);
    for (uint64_t i = 0; i < 20000; i++) {
        put(s, memory(EVENT_MEM_ALLOC, (int64_t)i, 0, 0x10000 + 16 * i, i, 3));
        struct buf *out = client_stream_output(s);
        if (out->len == 0)
            continue;
        assert_int_equal(rig_feed(&r, frames, out->data, out->len, SIZE_MAX), 0);
        buf_clear(out);
        assert_int_equal(answer_frame(answers, 0x1001 + i, view_of("image"), functions, 2, &e), 0);
        assert_int_equal(answer_symbol(answers, 0x1000 + i, view_of("a.c"), 1, &e), 0);
        assert_int_equal(answer_text(answers, QUERY_THREAD, 7 + i, view_of("name"), &e), 0);
        for (unsigned kind = 0; kind < QUERY_KIND_COUNT; kind++) {
            if (kind != QUERY_SOURCE_LOCATION)
                assert_int_equal(answer_nothing(answers, (enum query_kind)kind, 5, &e), 0);
        }
        assert_true(encoder_pending(answers));
        assert_int_equal(encoder_commit(answers, &e), 0);
        out = encoder_output(answers);
        assert_int_equal(rig_feed(&r, frames, out->data, out->len, SIZE_MAX), 0);
        buf_clear(out);
    }
    assert_true(r.log.counts[EVENT_CALLSTACK_FRAME] > 2);
    assert_int_equal(r.log.counts[EVENT_CALLSTACK_FRAME], r.log.counts[EVENT_SYMBOL]);
    assert_int_equal(r.log.counts[EVENT_CALLSTACK_FRAME], r.log.counts[EVENT_THREAD_NAME]);
    rig_release(&r);
    frame_reader_free(frames);
    encoder_free(answers);
    client_stream_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_everything_else),
        cmocka_unit_test(test_frames_that_servers_take),
        cmocka_unit_test(test_frames_stand_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
