/* Reader and writer over whole traces: the corpus, made-up traces of every layout, damaged ones. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "trace_sample.h"
#include "trace_test.h"

/* ---- what is read is what is written */

static void expect_ok(int status, const char *what, const struct err *e)
{
    if (status != 0)
        fail_msg("%s: %s", what, e->text);
}

static void rewrite_fixture(const char *path)
{
    struct err e = {0};
    struct buf before = {0}, after = {0};
    struct trace_info info;
    struct trace_writer *w;
    struct trace_write_stats stats;
    int fd = open_fixture(path), out = memory_file("", 0);
    expect_ok(unpack(fd, &before, &e), path, &e);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(trace_writer_open(&w, out, NULL, &e), 0);
    struct record_sink sink = trace_writer_sink(w);
    expect_ok(trace_read(fd, path, &sink, NULL, &info, &e), path, &e);
    expect_ok(trace_writer_finish(w, &stats, &e), path, &e);
    trace_writer_free(w);
    assert_int_equal(info.warning_count, 0);
    assert_int_equal(info.inner_bytes, before.len);
    assert_int_equal(stats.inner_bytes, before.len);
    assert_int_equal(stats.file_bytes, lseek(out, 0, SEEK_END));
    assert_int_equal(lseek(out, 0, SEEK_SET), 0);
    expect_ok(unpack(out, &after, &e), path, &e);
    assert_bytes_equal(&after, &before);
    buf_release(&before);
    buf_release(&after);
    close(fd);
    close(out);
}

static void test_fixtures_come_back_byte_for_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRACE_FIXTURES; i++)
        rewrite_fixture(trace_fixtures[i]);
}

static void make_trace(const struct file_layout *layout, uint64_t seed, struct buf *out)
{
    static struct sample sample;
    struct err e = {0};
    struct trace_writer *w;
    struct block_sink blocks = {.ctx = out, .put = put_block_to_buf};
    sample_init(&sample, layout, seed);
    assert_int_equal(trace_writer_open_inner(&w, layout, blocks, &e), 0);
    struct record_sink sink = trace_writer_sink(w);
    expect_ok(sample_trace(&sample, &sink, &e), "made-up trace", &e);
    expect_ok(trace_writer_finish(w, NULL, &e), "made-up trace", &e);
    trace_writer_free(w);
}

/* Reads an inner stream and writes it again. */
static int copy_trace(const struct buf *in, size_t piece, struct buf *out, struct trace_info *info,
                      struct err *e)
{
    struct trace_writer *w;
    struct block_sink blocks = {.ctx = out, .put = put_block_to_buf};
    assert_int_equal(trace_writer_open_inner(&w, NULL, blocks, e), 0);
    struct record_sink sink = trace_writer_sink(w);
    int status = read_inner_into(in->data, in->len, piece, &sink, info, e);
    if (status == 0)
        status = trace_writer_finish(w, NULL, e);
    trace_writer_free(w);
    return status;
}

static void test_made_up_traces_of_every_layout(void **state)
{
    (void)state;
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    static const size_t pieces[] = {SIZE_MAX, 65536, 1000, 7, 1};
    for (unsigned i = 0; i < n; i++) {
        for (uint64_t seed = 1; seed < 6; seed++) {
            struct buf first = {0}, second = {0};
            struct trace_info info;
            struct err e = {0};
            make_trace(&all[i], seed, &first);
            int status = copy_trace(&first, pieces[seed - 1], &second, &info, &e);
            expect_ok(status, "made-up trace", &e);
            assert_ptr_equal(info.layout, &all[i]);
            assert_int_equal(info.inner_bytes, first.len);
            assert_bytes_equal(&second, &first);
            buf_release(&first);
            buf_release(&second);
        }
    }
}

/* ---- what else is told */

static void test_parts_add_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRACE_FIXTURES; i++) {
        uint64_t counts[REC_TYPE_COUNT] = {0};
        struct record_sink sink = {counts, put_nowhere};
        struct trace_info info;
        struct err e = {0};
        int fd = open_fixture(trace_fixtures[i]);
        expect_ok(trace_read(fd, "x", &sink, NULL, &info, &e), trace_fixtures[i], &e);
        uint64_t sum = 0;
        for (unsigned part = 0; part < TRACE_PART_COUNT; part++) {
            assert_non_null(trace_part_name(part));
            sum += info.part_bytes[part];
        }
        assert_int_equal(sum, info.inner_bytes);
        assert_int_equal(info.container.inner_bytes, info.inner_bytes);
        assert_int_equal(info.container.file_bytes, lseek(fd, 0, SEEK_END));
        assert_int_equal(info.part_bytes[PART_MEMORY],
                         16 + 64 * counts[REC_POOL] + 42 * counts[REC_MEMORY_EVENT]);
        assert_int_equal(counts[REC_ZONE_BEGIN], counts[REC_ZONE_END]);
        assert_true(counts[REC_MEMORY_EVENT] > 100);
        close(fd);
    }
}

/* The numbers of fixtures/traces/v0.14.0/memscen are known from the program that made it. */
static void test_known_counts(void **state)
{
    (void)state;
    uint64_t counts[REC_TYPE_COUNT] = {0};
    struct record_sink sink = {counts, put_nowhere};
    struct trace_info info;
    struct err e = {0};
    int fd = open_fixture("fixtures/traces/v0.14.0/memscen.tracy");
    expect_ok(trace_read(fd, "x", &sink, NULL, &info, &e), "memscen", &e);
    assert_int_equal(info.version, FILE_VERSION(0, 14, 0));
    assert_int_equal(info.container.kind, CONTAINER_STREAMS);
    assert_int_equal(info.container.codec, CODEC_ZSTD);
    assert_int_equal(info.container.streams, 4);
    assert_int_equal(counts[REC_POOL], 3);
    assert_int_equal(counts[REC_MEMORY_EVENT], 9001);
    close(fd);
}

static void test_only_wanted_records_are_put(void **state)
{
    (void)state;
    uint64_t all[REC_TYPE_COUNT] = {0}, some[REC_TYPE_COUNT] = {0};
    bool wanted[REC_TYPE_COUNT] = {0};
    struct record_sink to_all = {all, put_nowhere}, to_some = {some, put_nowhere};
    const struct trace_read_options options = {.wanted = wanted};
    struct trace_info info;
    struct err e = {0};
    wanted[REC_MEMORY_EVENT] = wanted[REC_STRING] = wanted[REC_ZONE_BEGIN] = true;
    int fd = open_fixture("fixtures/traces/v0.12.2/allscen.tracy");
    expect_ok(trace_read(fd, "x", &to_all, NULL, &info, &e), "all", &e);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    expect_ok(trace_read(fd, "x", &to_some, &options, &info, &e), "some", &e);
    for (unsigned i = 0; i < REC_TYPE_COUNT; i++)
        assert_int_equal(some[i], wanted[i] ? all[i] : 0);
    assert_true(some[REC_ZONE_BEGIN] > 0);
    close(fd);
}

static int refuse(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    (void)ctx, (void)recs, (void)n;
    return type == REC_POOLS ? err_set(e, ERR_OUTPUT, "enough") : 0;
}

static void test_an_error_of_the_sink_is_passed_on(void **state)
{
    (void)state;
    struct record_sink sink = {NULL, refuse};
    struct trace_info info;
    struct err e = {0};
    int fd = open_fixture("fixtures/traces/v0.12.2/allscen.tracy");
    assert_int_equal(trace_read(fd, "name", &sink, NULL, &info, &e), -1);
    assert_int_equal(e.code, ERR_OUTPUT);
    assert_string_equal(e.text, "enough");
    close(fd);
}

static int stop_soon(void *ctx, uint64_t file_bytes, struct err *e)
{
    ++*(unsigned *)ctx;
    assert_true(file_bytes > 0);
    return *(unsigned *)ctx == 3 ? err_set(e, ERR_OUTPUT, "stopped") : 0;
}

static void test_progress_can_stop_it(void **state)
{
    (void)state;
    unsigned calls = 0;
    struct record_sink sink = {NULL, put_nowhere};
    const struct trace_read_options options = {.progress = stop_soon, .progress_ctx = &calls};
    struct trace_info info;
    struct err e = {0};
    int fd = open_fixture("fixtures/traces/v0.12.2/allscen.tracy");
    assert_int_equal(trace_read(fd, "name", &sink, &options, &info, &e), -1);
    assert_int_equal(calls, 3);
    assert_non_null(strstr(e.text, "stopped"));
    close(fd);
}

static void test_trailing_data_is_a_warning(void **state)
{
    (void)state;
    struct buf file = {0}, inner = {0};
    struct record_sink sink = {NULL, put_nowhere};
    struct trace_info info;
    struct err e = {0};
    int fd = open_fixture("fixtures/traces/v0.11.1/allscen.tracy");
    read_file(fd, &file);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    expect_ok(unpack(fd, &inner, &e), "allscen", &e);
    close(fd);
    buf_put(&file, "\0\0\0\0", 4);
    fd = memory_file(file.data, file.len);
    expect_ok(trace_read(fd, "x", &sink, NULL, &info, &e), "trailing", &e);
    assert_int_equal(info.warning_count, 1);
    char expected[TRACE_WARNING_SIZE];
    snprintf(expected, sizeof expected,
             "4 bytes of the file, from offset %zu on, are no part of the trace", file.len - 4);
    assert_string_equal(info.warnings[0], expected);
    assert_string_equal(info.behind, expected);
    close(fd);
    buf_put(&inner, "abc", 3);
    expect_ok(read_inner_into(inner.data, inner.len, SIZE_MAX, &sink, &info, &e), "inner", &e);
    assert_int_equal(info.warning_count, 1);
    assert_string_equal(info.warnings[0], "3 bytes after the end of the trace in its last block");
    assert_string_equal(info.behind, info.warnings[0]);
    buf_release(&file);
    buf_release(&inner);
}

/* ---- damage: indices */

/* Passes a made-up trace on with one record changed. */
struct change {
    enum record_type type;
    void (*apply)(void *rec);
    const char *text;
    bool done;
    const struct record_sink *next;
};

static int put_changed(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct change *c = ctx;
    union {
        uint64_t align;
        uint8_t bytes[256];
    } rec;
    if (c->done || type != c->type)
        return record_put(c->next, type, recs, n, e);
    memcpy(&rec, recs, record_size(type));
    c->apply(&rec);
    c->done = true;
    return record_put(c->next, type, &rec, n, e);
}

#define CHANGE(NAME, STRUCT, STATEMENT)                                                            \
    static void NAME(void *rec)                                                                    \
    {                                                                                              \
        struct rec_##STRUCT *r = rec;                                                              \
        STATEMENT;                                                                                 \
    }
CHANGE(crash_stack, crash, r->callstack = SAMPLE_CALLSTACKS + 1)
CHANGE(frame_image, frame, r->image = SAMPLE_IMAGES)
CHANGE(section_text, section, r->text = SAMPLE_STRINGS + 1)
CHANGE(category_text, section_category, r->description = 0xffffff)
CHANGE(location_file, source_location,
       r->file = ((struct rec_string_ref){SAMPLE_STRINGS, STRING_REF_INDEX}))
CHANGE(stat_location, zone_stat, r->srcloc = SAMPLE_EXPANDS)
CHANGE(stat_payload, zone_stat, r->srcloc = -SAMPLE_PAYLOADS - 1)
CHANGE(lock_name, lock, r->custom_name = SAMPLE_STRINGS + 1)
CHANGE(lock_location, lock, r->srcloc = 32766)
CHANGE(lock_event_location, lock_event, r->srcloc = INT16_MIN)
CHANGE(lock_event_thread, lock_event, r->thread = 64)
CHANGE(message_text, message, r->text = ((struct rec_string_ref){UINT64_MAX, STRING_REF_INDEX}))
CHANGE(message_stack, message, r->callstack = 0xffffff)
CHANGE(extra_name, zone_extra, r->name = SAMPLE_STRINGS + 1)
CHANGE(extra_stack, zone_extra, r->callstack = SAMPLE_CALLSTACKS + 1)
CHANGE(zone_extra, zone_begin, r->extra = SAMPLE_EXTRAS)
CHANGE(zone_location, zone_begin, r->srcloc = 32767)
CHANGE(sample_stack, sample, r->callstack = SAMPLE_CALLSTACKS + 7)
CHANGE(context_name, gpu_context, r->name = SAMPLE_STRINGS + 1)
CHANGE(gpu_thread, gpu_zone_begin, r->thread = SAMPLE_THREADS)
CHANGE(event_thread, memory_event, r->thread_alloc = SAMPLE_THREADS)
CHANGE(event_free_thread, memory_event, r->thread_free = 65535)
CHANGE(event_stack, memory_event, r->callstack_alloc = SAMPLE_CALLSTACKS + 3)
CHANGE(event_free_stack, memory_event, r->callstack_free = SAMPLE_CALLSTACKS + 4)
CHANGE(frame_name, callstack_frame,
       ((struct rec_inline_frame *)r->inlines)[0].function = SAMPLE_STRINGS + 1)
CHANGE(no_functions, callstack_frame, r->n = 0)
CHANGE(no_frames, callstack, r->len = 0)
CHANGE(info_text, string_ref, *r = ((struct rec_string_ref){SAMPLE_STRINGS, STRING_REF_INDEX}))
CHANGE(cpu_thread, cpu_switch, r->thread = SAMPLE_THREADS)
CHANGE(symbol_image, symbol, r->image = SAMPLE_STRINGS + 1)

static void test_indices_that_point_nowhere(void **state)
{
    (void)state;
    static const struct change changes[] = {
        {.type = REC_CRASH, crash_stack, "crash 1 of 1, offset "},
        {.type = REC_CRASH, crash_stack, ": callstack 34 of 33"},
        {.type = REC_FRAME, frame_image, ": frame image 4 of 3"},
        {.type = REC_SECTION, section_text, ": string 41 of 40"},
        {.type = REC_SECTION_CATEGORY, category_text, ": string 16777215 of 40"},
        {.type = REC_SOURCE_LOCATION, location_file, ": string 41 of 40"},
        {.type = REC_SOURCE_LOCATION_PAYLOAD, location_file, "payload 1 of 7, offset"},
        {.type = REC_ZONE_STAT, stat_location, ": source location 12 of 12"},
        {.type = REC_GPU_ZONE_STAT, stat_payload, ": allocated source location 8 of 7"},
        {.type = REC_LOCK, lock_name, ": string 41 of 40"},
        {.type = REC_LOCK, lock_location, ": source location 32766 of 12"},
        {.type = REC_LOCK_EVENT, lock_event_location, ": allocated source location 32768 of 7"},
        {.type = REC_LOCK_EVENT, lock_event_thread, ": lock thread 65 of "},
        {.type = REC_MESSAGE, message_text, ": string 0 of 40"},
        {.type = REC_MESSAGE, message_stack, ": callstack 16777215 of 33"},
        {.type = REC_ZONE_EXTRA, extra_name, ": string 41 of 40"},
        {.type = REC_ZONE_EXTRA, extra_stack, ": callstack 34 of 33"},
        {.type = REC_ZONE_BEGIN, zone_extra, ": zone extra 6 of 5"},
        {.type = REC_SAMPLE, sample_stack, ": callstack 40 of 33"},
        {.type = REC_SWITCH_SAMPLE, sample_stack, "switch sample 1 of "},
        {.type = REC_GPU_CONTEXT, context_name, ": string 41 of 40"},
        {.type = REC_GPU_ZONE_BEGIN, gpu_thread, ": thread 10 of 9"},
        {.type = REC_MEMORY_EVENT, event_thread, ": thread 10 of 9"},
        {.type = REC_MEMORY_EVENT, event_free_thread, ": thread 65536 of 9"},
        {.type = REC_MEMORY_EVENT, event_stack, "memory event 1 of "},
        {.type = REC_MEMORY_EVENT, event_stack, ": callstack 36 of 33"},
        {.type = REC_MEMORY_EVENT, event_free_stack, ": callstack 37 of 33"},
        {.type = REC_CALLSTACK, no_frames, ": a call stack without frames"},
        {.type = REC_CALLSTACK_FRAME, frame_name, ": string 41 of 40"},
        {.type = REC_CALLSTACK_FRAME, no_functions, ": a frame that stands for no function"},
        {.type = REC_APP_INFO, info_text, ": string 41 of 40"},
        {.type = REC_CPU_SWITCH, cpu_thread, ": external thread 10 of 9"},
        {.type = REC_SYMBOL, symbol_image, ": string 41 of 40"},
    };
    static struct sample sample;
    const struct file_layout *layout = file_layout_find(FILE_VERSION_MAX);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct change change = changes[i];
        struct buf inner = {0};
        struct trace_writer *w;
        struct trace_info info;
        struct err e = {0};
        struct block_sink blocks = {.ctx = &inner, .put = put_block_to_buf};
        struct record_sink nowhere = {NULL, put_nowhere};
        sample_init(&sample, layout, 3);
        assert_int_equal(trace_writer_open_inner(&w, layout, blocks, &e), 0);
        struct record_sink to_writer = trace_writer_sink(w);
        change.next = &to_writer;
        struct record_sink to_change = {&change, put_changed};
        expect_ok(sample_trace(&sample, &to_change, &e), "made-up trace", &e);
        assert_true(change.done);
        expect_ok(trace_writer_finish(w, NULL, &e), "made-up trace", &e);
        trace_writer_free(w);
        if (read_inner_into(inner.data, inner.len, SIZE_MAX, &nowhere, &info, &e) == 0)
            fail_msg("change %zu was accepted", i);
        assert_int_equal(e.code, ERR_INPUT);
        if (!strstr(e.text, change.text))
            fail_msg("change %zu: \"%s\" lacks \"%s\"", i, e.text, change.text);
        assert_non_null(strstr(e.text, "of the uncompressed stream: "));
        buf_release(&inner);
    }
}

/* 32767 means "none" from 0.11.2 on and is an index like any other before. */
static void test_source_location_none(void **state)
{
    (void)state;
    static struct sample sample;
    static const uint32_t versions[] = {FILE_VERSION(0, 11, 1), FILE_VERSION(0, 12, 0)};
    for (unsigned i = 0; i < 2; i++) {
        const struct file_layout *layout = file_layout_find(versions[i]);
        struct change change = {.type = REC_ZONE_BEGIN, .apply = zone_location};
        struct buf inner = {0};
        struct trace_writer *w;
        struct trace_info info;
        struct err e = {0};
        struct block_sink blocks = {.ctx = &inner, .put = put_block_to_buf};
        struct record_sink nowhere = {NULL, put_nowhere};
        sample_init(&sample, layout, 3);
        assert_int_equal(trace_writer_open_inner(&w, layout, blocks, &e), 0);
        struct record_sink to_writer = trace_writer_sink(w);
        change.next = &to_writer;
        struct record_sink to_change = {&change, put_changed};
        expect_ok(sample_trace(&sample, &to_change, &e), "made-up trace", &e);
        expect_ok(trace_writer_finish(w, NULL, &e), "made-up trace", &e);
        trace_writer_free(w);
        assert_int_equal(read_inner_into(inner.data, inner.len, SIZE_MAX, &nowhere, &info, &e),
                         i ? 0 : -1);
        buf_release(&inner);
    }
}

/* ---- damage: anything */

static void test_versions_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint8_t version[3];
        const char *text;
    } cases[] = {{{0, 14, 1}, "file version 0.14.1 is newer than this program knows"},
                 {{1, 0, 0}, "file version 1.0.0 is newer"},
                 {{0, 8, 9}, "file version 0.8.9 is too old (0.9.0 to 0.14.0 can be read)"},
                 {{0, 10, 1}, "file version 0.10.1 is no version that Tracy ever had"}};
    struct record_sink nowhere = {NULL, put_nowhere};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t bytes[100] = "tracy";
        struct trace_info info;
        struct err e = {0};
        memcpy(bytes + 5, cases[i].version, 3);
        assert_int_equal(read_inner_into(bytes, 100, SIZE_MAX, &nowhere, &info, &e), -1);
        if (!strstr(e.text, cases[i].text))
            fail_msg("%s", e.text);
    }
    struct trace_info info;
    struct err e = {0};
    assert_int_equal(read_inner_into("tracX\0\16\0 ", 9, 9, &nowhere, &info, &e), -1);
    assert_string_equal(e.text, "no Tracy trace inside the container");
    assert_int_equal(read_inner_into("tracy", 5, 9, &nowhere, &info, &e), -1);
    assert_string_equal(e.text, "no Tracy trace inside the container");
}

/* Cut anywhere, a trace is reported as truncated, with the place. */
static void test_truncation(void **state)
{
    (void)state;
    struct record_sink nowhere = {NULL, put_nowhere};
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    for (unsigned i = 0; i < n; i += 4) {
        struct buf inner = {0};
        make_trace(&all[i], 9 + i, &inner);
        for (size_t cut = 0; cut < inner.len; cut += 1 + cut / 100) {
            struct trace_info info;
            struct err e = {0};
            assert_int_equal(read_inner_into(inner.data, cut, SIZE_MAX, &nowhere, &info, &e), -1);
            assert_int_equal(e.code, ERR_INPUT);
            if (cut >= 8)
                assert_non_null(strstr(e.text, "truncated"));
        }
        buf_release(&inner);
    }
}

/* Whatever bits flip: an error, or a trace that can be written and read again. */
static void flip_bits(const struct buf *original, uint64_t seed)
{
    struct buf damaged = {0}, once = {0}, twice = {0};
    struct trace_info info;
    struct err e = {0};
    uint64_t x = seed * 2654435761u + 88172645463325252u;
    buf_put(&damaged, original->data, original->len);
    for (unsigned i = 0; i <= seed % 5; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        damaged.data[8 + (x >> 8) % (damaged.len - 8)] ^= (uint8_t)(1u << (x & 7));
    }
    if (copy_trace(&damaged, 65536, &once, &info, &e) == 0) {
        expect_ok(copy_trace(&once, 65536, &twice, &info, &e), "a rewritten trace", &e);
        assert_bytes_equal(&twice, &once);
    } else if (e.code == ERR_OUTPUT) {
        /* only what official readers refuse is left to the writer to refuse */
        assert_true(strstr(e.text, "header") || strstr(e.text, "source locations"));
    }
    buf_release(&damaged);
    buf_release(&once);
    buf_release(&twice);
}

static void test_flipped_bits(void **state)
{
    (void)state;
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    for (unsigned i = 0; i < n; i++) {
        struct buf inner = {0};
        make_trace(&all[i], 100 + i, &inner);
        for (uint64_t seed = 0; seed < 150; seed++)
            flip_bits(&inner, seed);
        buf_release(&inner);
    }
    for (size_t i = 0; i < TRACE_FIXTURES; i += 3) {
        struct buf inner = {0};
        struct err e = {0};
        int fd = open_fixture(trace_fixtures[i]);
        expect_ok(unpack(fd, &inner, &e), trace_fixtures[i], &e);
        close(fd);
        for (uint64_t seed = 0; seed < 20; seed++)
            flip_bits(&inner, seed);
        buf_release(&inner);
    }
}

/* The same through a container, so that the decoder's errors have the file's name. */
static void test_damage_inside_a_container(void **state)
{
    (void)state;
    struct buf inner = {0};
    struct err e = {0};
    struct container_writer *w;
    struct trace_info info;
    struct record_sink nowhere = {NULL, put_nowhere};
    const struct container_options options = container_options_default();
    make_trace(file_layout_find(FILE_VERSION(0, 13, 1)), 5, &inner);
    int fd = memory_file("", 0);
    assert_int_equal(container_writer_open(&w, fd, &options, &e), 0);
    struct block_sink sink = container_writer_sink(w);
    assert_int_equal(sink.put(sink.ctx, inner.data, 4321, &e), 0);
    assert_int_equal(container_writer_finish(w, &e), 0);
    container_writer_free(w);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(trace_read(fd, "some.tracy", &nowhere, NULL, &info, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    assert_int_equal(strncmp(e.text, "some.tracy: ", 12), 0);
    assert_non_null(strstr(e.text, "truncated"));
    assert_int_equal(info.version, FILE_VERSION(0, 13, 1));
    close(fd);
    buf_release(&inner);
}

/* ---- bounds */

/* The start of a trace up to the count of strings, all lists before it empty. */
static void put_start(struct buf *b)
{
    buf_put(b, "tracy\0\12\0", 8); /* 0.10.0 */
    uint8_t header[8 * 7 + 1 + 4 + 12 + 1 + 8 * 5] = {0};
    buf_put(b, header, sizeof header);
    uint8_t lists[8 + 28 + 8] = {0}; /* topology, crash, frames */
    buf_put(b, lists, sizeof lists);
}

static void expect_inner_error(const struct buf *b, const struct trace_read_options *options,
                               const char *text)
{
    struct memory_source m = {b->data, b->len, 0, SIZE_MAX};
    struct record_sink nowhere = {NULL, put_nowhere};
    struct trace_info info;
    struct err e = {0};
    struct byte_source source = {&m, read_memory_source};
    assert_int_equal(trace_read_inner(source, &nowhere, options, &info, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    if (!strstr(e.text, text))
        fail_msg("\"%s\" lacks \"%s\"", e.text, text);
}

static void test_impossible_counts(void **state)
{
    (void)state;
    struct buf b = {0};
    put_start(&b);
    buf_u64(&b, UINT64_MAX);
    expect_inner_error(&b, NULL, "announces 18446744073709551615 × string");
    b.len -= 8;
    buf_u64(&b, UINT32_MAX);
    expect_inner_error(&b, NULL,
                       "string 1 of 4294967295, offset 174 of the uncompressed stream: "
                       "the trace ends here, after 0 of 8 bytes: truncated");
    buf_release(&b);
}

static void test_long_records(void **state)
{
    (void)state;
    struct buf b = {0};
    const struct trace_read_options small = {.record_max = 1000};
    put_start(&b);
    buf_u64(&b, 1);
    buf_u64(&b, 7);
    buf_u64(&b, UINT64_MAX); /* length of the string */
    expect_inner_error(&b, NULL, "18446744073709551615 bytes long; at most 67108864 are taken");
    b.len -= 8;
    buf_u64(&b, 985);
    expect_inner_error(&b, &small, "1001 bytes long; at most 1000 are taken");
    b.len -= 8;
    buf_u64(&b, 984);
    expect_inner_error(&b, &small, "truncated");
    buf_release(&b);
}

/* A string much longer than the window makes it grow, as its bytes arrive. */
static void test_a_string_of_many_blocks(void **state)
{
    (void)state;
    static struct sample sample;
    struct buf inner = {0}, copy = {0}, text = {0};
    struct trace_info info;
    struct err e = {0};
    sample_init(&sample, file_layout_find(FILE_VERSION_MIN), 1);
    for (unsigned i = 0; i < 40; i++)
        buf_put(&text, sample.text, sizeof sample.text);
    put_start(&inner);
    buf_u64(&inner, 1);
    buf_u64(&inner, 7);
    buf_u64(&inner, text.len);
    buf_put(&inner, text.data, text.len);
    /* all further lists are empty, and what is too much is only warned of */
    for (unsigned i = 0; i < 500; i++)
        buf_u64(&inner, 0);
    expect_ok(copy_trace(&inner, 3000, &copy, &info, &e), "a long string", &e);
    assert_true(info.inner_bytes > text.len && info.inner_bytes < inner.len);
    inner.len = info.inner_bytes;
    assert_bytes_equal(&copy, &inner);
    buf_release(&inner);
    buf_release(&copy);
    buf_release(&text);
}

/* Zones nested `depth` deep in the one thread of a trace. */
static int nest(unsigned depth, struct err *e)
{
    static struct sample sample;
    const struct file_layout *layout = file_layout_find(FILE_VERSION_MAX);
    struct buf inner = {0};
    struct trace_info info;
    struct record_sink nowhere = {NULL, put_nowhere};
    struct buf deep = {0};
    sample_init(&sample, layout, 3);
    make_trace(layout, 3, &inner);
    expect_ok(read_inner_into(inner.data, inner.len, SIZE_MAX, &nowhere, &info, e), "trace", e);
    uint64_t start = 0;
    for (unsigned part = 0; part < PART_THREADS; part++)
        start += info.part_bytes[part];
    buf_put(&deep, inner.data, start);
    for (unsigned i = 0; i < 2; i++)
        buf_u64(&deep, 0);
    buf_u64(&deep, 1); /* one thread: id, zones, kernel samples, fiber, group */
    for (unsigned i = 0; i < 3; i++)
        buf_u64(&deep, 0);
    buf_u8(&deep, 0);
    buf_u32(&deep, 0);
    buf_u32(&deep, 1);
    for (unsigned i = 0; i < depth; i++) {
        buf_u16(&deep, 0);
        buf_u64(&deep, 1);
        buf_u32(&deep, 0);
        buf_u32(&deep, i + 1 < depth);
    }
    for (unsigned i = 0; i < depth; i++)
        buf_u64(&deep, 1);
    for (unsigned i = 0; i < 3; i++)
        buf_u64(&deep, 0);
    buf_put(&deep, inner.data + start + info.part_bytes[PART_THREADS],
            inner.len - start - info.part_bytes[PART_THREADS]);
    int status = read_inner_into(deep.data, deep.len, SIZE_MAX, &nowhere, &info, e);
    buf_release(&inner);
    buf_release(&deep);
    return status;
}

static void test_nesting(void **state)
{
    (void)state;
    struct err e = {0};
    expect_ok(nest(1, &e), "1 deep", &e);
    expect_ok(nest(100000, &e), "100000 deep", &e);
    assert_int_equal(nest(300000, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    assert_non_null(strstr(e.text, "zones nested more than 250000 deep"));
}

static void test_times_out_of_range(void **state)
{
    (void)state;
    struct buf b = {0};
    put_start(&b);
    b.len -= 8; /* one frame set of three frames instead of none */
    buf_u64(&b, 1);
    buf_u64(&b, 0);
    buf_u8(&b, 1);
    buf_u64(&b, 3);
    for (unsigned i = 0; i < 3; i++) {
        buf_u64(&b, (UINT64_C(1) << 46) + 1);
        buf_u32(&b, UINT32_MAX);
    }
    expect_inner_error(&b, NULL,
                       "frame 2 of 3, offset 195 of the uncompressed stream: a time that "
                       "does not fit 48 bits");
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures_come_back_byte_for_byte),
        cmocka_unit_test(test_made_up_traces_of_every_layout),
        cmocka_unit_test(test_parts_add_up),
        cmocka_unit_test(test_known_counts),
        cmocka_unit_test(test_only_wanted_records_are_put),
        cmocka_unit_test(test_an_error_of_the_sink_is_passed_on),
        cmocka_unit_test(test_progress_can_stop_it),
        cmocka_unit_test(test_trailing_data_is_a_warning),
        cmocka_unit_test(test_indices_that_point_nowhere),
        cmocka_unit_test(test_source_location_none),
        cmocka_unit_test(test_versions_that_are_refused),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_damage_inside_a_container),
        cmocka_unit_test(test_impossible_counts),
        cmocka_unit_test(test_long_records),
        cmocka_unit_test(test_a_string_of_many_blocks),
        cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_times_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
