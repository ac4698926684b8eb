/* Memory events on their way through the container: found, compressed, and the same afterwards. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "trace/file/codec.h"
#include "trace/file/event_match.h"
#include "trace_test.h"

/* In these the sizes of zstd's search and ours are compared (trace/file/match_trial.h); ours wins.
 */
#define TRIED ((size_t)18 * BLOCK_SIZE)

#define EVENTS ((size_t)60000)
#define LEN (EVENTS * MEMORY_EVENT_SIZE)

static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x >> 11;
}

/* What programs do: addresses and call stacks that come back, small sizes, times that go on. */
static struct rec_memory_event *make_events(size_t n, uint64_t seed)
{
    struct rec_memory_event *events = calloc(n, sizeof *events);
    assert_non_null(events);
    uint64_t x = seed * 2654435761u + 88172645463325252u;
    int64_t time = 0;
    for (size_t i = 0; i < n; i++) {
        struct rec_memory_event *ev = &events[i];
        ev->ptr = 0x7f0000000000u + next_random(&x) % 30000 * 64;
        ev->callstack_alloc = (uint32_t)(next_random(&x) % 300 * 7);
        ev->callstack_free = ev->callstack_alloc + 1;
        ev->size = 1 + ev->callstack_alloc * 13;
        ev->time_alloc = time += (int64_t)(next_random(&x) % 200);
        ev->time_free = next_random(&x) % 10 ? time + (int64_t)(next_random(&x) % 100000) : -1;
        ev->thread_alloc = (uint16_t)(next_random(&x) % 3);
        ev->thread_free = (uint16_t)(next_random(&x) % 3);
    }
    return events;
}

/* ---- where the events are */

struct watch {
    const struct rec_memory_event *events;
    size_t told, seen; /* whole events in what was told */
    size_t first, end;
};

static void watch_events(void *ctx, size_t first, size_t end)
{
    struct watch *w = ctx;
    w->first = first;
    w->end = end;
    w->told++;
}

static int watch_put(void *ctx, const uint8_t *block, size_t len, struct err *e)
{
    (void)e;
    struct watch *w = ctx;
    assert_true(w->first <= w->end && w->end <= len);
    for (size_t i = w->first; i + MEMORY_EVENT_SIZE <= w->end; i += MEMORY_EVENT_SIZE) {
        /* An event that straddles two blocks is in neither. */
        while (load_u64(block + i) != w->events->ptr)
            w->events++;
        w->events++;
        w->seen++;
    }
    w->first = w->end = 0;
    return 0;
}

static void test_events_are_told(void **state)
{
    (void)state;
    struct rec_memory_event *events = make_events(EVENTS, 1);
    struct watch w = {.events = events};
    struct block_sink sink = {.ctx = &w, .put = watch_put, .events = watch_events};
    struct out_stream out;
    struct codec c;
    struct err e = {0};
    for (size_t i = 0; i < EVENTS; i++)
        events[i].ptr = i * 3 + 1;
    assert_int_equal(out_stream_init(&out, sink, &e), 0);
    assert_int_equal(codec_init(&c, file_layout_find(FILE_VERSION_MAX), &e), 0);
    static const size_t pools[] = {1, 0, 7000, 2, 5000, 47997};
    size_t done = 0;
    for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++) {
        struct rec_pool_end end = {.high = ~UINT64_C(0), .low = ~UINT64_C(0)};
        for (size_t n = 0; n < pools[i]; n += 500) {
            size_t part = pools[i] - n < 500 ? pools[i] - n : 500;
            codec_write(&c, REC_MEMORY_EVENT, events + done, part, &out);
            done += part;
        }
        for (unsigned k = 0; k < 17 * i; k++)
            codec_write(&c, REC_POOL_END, &end, 1, &out);
    }
    assert_int_equal(done, EVENTS);
    assert_int_equal(out_stream_finish(&out, &e), 0);
    /* Not told are those on a border, and a pool's last ones where another shares their block. */
    size_t not_told = w.told + sizeof pools / sizeof pools[0] * (BLOCK_SIZE / MEMORY_EVENT_SIZE);
    assert_in_range(w.seen, EVENTS - not_told, EVENTS);
    codec_release(&c);
    out_stream_release(&out);
    free(events);
}

/* ---- and what becomes of them */

/* The size of the container; `first` and `end` are told as the events of every block after TRIED.
 */
static uint64_t round_trip(const uint8_t *bytes, size_t len, unsigned streams, size_t first,
                           size_t end)
{
    const struct container_options options = {
        .method = METHOD_ZSTD, .level = CONTAINER_LEVEL_OWN_FAST, .streams = streams};
    struct container_writer *w;
    struct buf got = {0};
    struct err e = {0};
    int fd = memory_file("", 0);
    assert_int_equal(container_writer_open(&w, fd, &options, &e), 0);
    struct block_sink sink = container_writer_sink(w);
    for (size_t done = 0; done < len; done += BLOCK_SIZE) {
        size_t part = len - done < BLOCK_SIZE ? len - done : BLOCK_SIZE;
        size_t from = done < TRIED ? 0 : first, to = done < TRIED && end ? BLOCK_SIZE : end;
        size_t phase = (MEMORY_EVENT_SIZE - done % MEMORY_EVENT_SIZE) % MEMORY_EVENT_SIZE;
        if (from + phase < (to < part ? to : part))
            sink.events(sink.ctx, from + phase, to < part ? to : part);
        assert_int_equal(sink.put(sink.ctx, bytes + done, part, &e), 0);
    }
    assert_int_equal(container_writer_finish(w, &e), 0);
    uint64_t size = container_writer_bytes(w);
    container_writer_free(w);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    if (unpack(fd, &got, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(got.len, len);
    assert_memory_equal(got.data, bytes, len);
    buf_release(&got);
    close(fd);
    return size;
}

/* Two pools, the second of which begins `before` bytes before the end of a block. */
static void round_trip_pools(const struct rec_memory_event *events, size_t before)
{
    const size_t first = TRIED / MEMORY_EVENT_SIZE, then = 3000;
    const size_t gap = TRIED + BLOCK_SIZE - before - first * MEMORY_EVENT_SIZE;
    const struct container_options options = {
        .method = METHOD_ZSTD, .level = CONTAINER_LEVEL_OWN_FAST, .streams = 1};
    struct container_writer *w;
    struct buf got = {0}, want = {0};
    struct out_stream out[2];
    struct codec c;
    struct err e = {0};
    uint64_t x = 7;
    uint8_t *names = calloc(1, gap);
    assert_non_null(names);
    for (size_t i = 0; i < gap; i++) { /* what matches has many distances */
        size_t back = 1000 + i / 64 % 9 * 100;
        names[i] = i > 2000 && i / 32 % 2 ? names[i - back] : (uint8_t)next_random(&x);
    }
    int fd = memory_file("", 0);
    assert_int_equal(container_writer_open(&w, fd, &options, &e), 0);
    assert_int_equal(out_stream_init(&out[0], container_writer_sink(w), &e), 0);
    assert_int_equal(
        out_stream_init(&out[1], (struct block_sink){.ctx = &want, .put = put_block_to_buf}, &e),
        0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(codec_init(&c, file_layout_find(FILE_VERSION_MAX), &e), 0);
        codec_write(&c, REC_MEMORY_EVENT, events, first, &out[i]);
        out_stream_put(&out[i], names, gap);
        codec_write(&c, REC_MEMORY_EVENT, events + first, then, &out[i]);
        assert_int_equal(out_stream_finish(&out[i], &e), 0);
        codec_release(&c);
        out_stream_release(&out[i]);
    }
    assert_int_equal(container_writer_finish(w, &e), 0);
    container_writer_free(w);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    if (unpack(fd, &got, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(got.len, want.len);
    if (memcmp(got.data, want.data, got.len) != 0)
        fail_msg("a pool that begins %zu bytes before the end of a block is damaged", before);
    buf_release(&got);
    buf_release(&want);
    free(names);
    close(fd);
}

/* What zstd searches itself lies between blocks that are searched here. */
static void test_pools_begin_anywhere(void **state)
{
    (void)state;
    struct rec_memory_event *events = make_events(EVENTS, 4);
    for (size_t i = 0; i < EVENTS; i++) {
        /* Matches with the record before touch each other, and some are further away. */
        events[i].ptr = 0x7f0000001000u;
        events[i].thread_alloc = events[i].thread_free = 1;
        events[i].callstack_alloc %= 300;
        events[i].callstack_free = events[i].callstack_alloc + 1;
    }
    for (size_t before = 0; before < 400; before += 3)
        round_trip_pools(events, before);
    for (size_t before = 400; before < BLOCK_SIZE; before += 997)
        round_trip_pools(events, before);
    free(events);
}

static uint8_t *encode_events(uint64_t seed)
{
    struct rec_memory_event *events = make_events(EVENTS, seed);
    struct buf bytes = {0};
    struct out_stream out;
    struct codec c;
    struct err e = {0};
    assert_int_equal(
        out_stream_init(&out, (struct block_sink){.ctx = &bytes, .put = put_block_to_buf}, &e), 0);
    assert_int_equal(codec_init(&c, file_layout_find(FILE_VERSION_MAX), &e), 0);
    codec_write(&c, REC_MEMORY_EVENT, events, EVENTS, &out);
    assert_int_equal(out_stream_finish(&out, &e), 0);
    assert_int_equal(bytes.len, LEN);
    codec_release(&c);
    out_stream_release(&out);
    free(events);
    return bytes.data;
}

static void test_events_come_back(void **state)
{
    (void)state;
    uint8_t *bytes = encode_events(2);
    uint64_t plain = round_trip(bytes, LEN, 1, 0, 0);
    uint64_t told = round_trip(bytes, LEN, 1, 0, BLOCK_SIZE);
    assert_in_range(told, LEN / 10, plain - 1);
    for (size_t len = LEN - 50; len < LEN; len++)
        round_trip(bytes, len, 1, 0, BLOCK_SIZE);
    round_trip(bytes, LEN, 3, 0, BLOCK_SIZE);
    free(bytes);
}

/* Whatever is told about blocks, and whatever is in them, comes back as it was. */
static void test_what_is_told_may_be_wrong(void **state)
{
    (void)state;
    uint8_t *bytes = encode_events(3);
    uint64_t x = 5;
    for (unsigned i = 0; i < 40; i++) {
        size_t first = next_random(&x) % 100;
        round_trip(bytes, LEN, 1 + i % 3, first, BLOCK_SIZE - next_random(&x) % 12000);
        /* Stretches of one byte, and noise. */
        size_t at = TRIED + next_random(&x) % (LEN - TRIED - 9000);
        memset(bytes + at, (int)i, next_random(&x) % 9000);
        at = TRIED + next_random(&x) % (LEN - TRIED - 9000);
        for (size_t n = next_random(&x) % 9000; n > 0; n--)
            bytes[at + n] = (uint8_t)next_random(&x);
    }
    memset(bytes, 0, LEN);
    round_trip(bytes, LEN, 1, 0, BLOCK_SIZE);
    for (size_t i = 0; i < LEN; i++)
        bytes[i] = (uint8_t)next_random(&x);
    round_trip(bytes, LEN, 2, 0, BLOCK_SIZE);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_are_told),
        cmocka_unit_test(test_events_come_back),
        cmocka_unit_test(test_pools_begin_anywhere),
        cmocka_unit_test(test_what_is_told_may_be_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
