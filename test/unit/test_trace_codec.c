/* Every record type in every layout: what is written is what is read, byte for byte. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "trace/file/codec.h"
#include "trace_sample.h"
#include "trace_test.h"

/* A codec on each end of a buffer. */
struct ends {
    struct codec writer, reader;
    struct out_stream out;
    struct buf bytes;
    struct sample sample;
};

static void ends_init(struct ends *x, const struct file_layout *layout, uint64_t seed)
{
    struct err e;
    memset(x, 0, sizeof *x);
    assert_int_equal(codec_init(&x->writer, layout, &e), 0);
    assert_int_equal(codec_init(&x->reader, layout, &e), 0);
    struct block_sink sink = {.ctx = &x->bytes, .put = put_block_to_buf};
    assert_int_equal(out_stream_init(&x->out, sink, &e), 0);
    sample_init(&x->sample, layout, seed);
}

static void ends_release(struct ends *x)
{
    codec_release(&x->writer);
    codec_release(&x->reader);
    out_stream_release(&x->out);
    buf_release(&x->bytes);
}

/* Types whose records vary in size, which have what they view behind the struct. */
static bool views_equal(enum record_type type, const void *a, const void *b)
{
#define AS(STRUCT, P) ((const struct rec_##STRUCT *)(P))
    switch (type) {
    case REC_HEADER:
        return view_equal(AS(header, a)->capture_name, AS(header, b)->capture_name) &&
               view_equal(AS(header, a)->capture_program, AS(header, b)->capture_program) &&
               view_equal(AS(header, a)->host_info, AS(header, b)->host_info) &&
               AS(header, a)->delay == AS(header, b)->delay &&
               AS(header, a)->version == AS(header, b)->version &&
               AS(header, a)->on_demand == AS(header, b)->on_demand &&
               AS(header, a)->last_time == AS(header, b)->last_time &&
               AS(header, a)->executable_time == AS(header, b)->executable_time &&
               memcmp(AS(header, a)->cpu_manufacturer, AS(header, b)->cpu_manufacturer, 12) == 0;
    case REC_STRING:
        return AS(string, a)->key == AS(string, b)->key &&
               view_equal(AS(string, a)->text, AS(string, b)->text);
    case REC_CALLSTACK:
        return AS(callstack, a)->len == AS(callstack, b)->len &&
               memcmp(AS(callstack, a)->frames, AS(callstack, b)->frames,
                      AS(callstack, a)->len * sizeof(uint64_t)) == 0;
    case REC_CALLSTACK_FRAME:
        for (unsigned i = 0; i < AS(callstack_frame, a)->n; i++) {
            const struct rec_inline_frame *p = &AS(callstack_frame, a)->inlines[i];
            const struct rec_inline_frame *q = &AS(callstack_frame, b)->inlines[i];
            if (p->function != q->function || p->file != q->file || p->line != q->line ||
                p->symbol != q->symbol)
                return false;
        }
        return AS(callstack_frame, a)->frame == AS(callstack_frame, b)->frame &&
               AS(callstack_frame, a)->image == AS(callstack_frame, b)->image &&
               AS(callstack_frame, a)->n == AS(callstack_frame, b)->n;
    case REC_FRAME_IMAGE_DICT:
        return view_equal(AS(blob, a)->bytes, AS(blob, b)->bytes);
    case REC_FRAME_IMAGE:
        return AS(frame_image, a)->w == AS(frame_image, b)->w &&
               AS(frame_image, a)->h == AS(frame_image, b)->h &&
               AS(frame_image, a)->flip == AS(frame_image, b)->flip &&
               view_equal(AS(frame_image, a)->bytes, AS(frame_image, b)->bytes);
    case REC_SYMBOL_CODE:
        return AS(symbol_code, a)->address == AS(symbol_code, b)->address &&
               view_equal(AS(symbol_code, a)->bytes, AS(symbol_code, b)->bytes);
    case REC_SOURCE_FILE:
        return view_equal(AS(source_file, a)->path, AS(source_file, b)->path) &&
               view_equal(AS(source_file, a)->bytes, AS(source_file, b)->bytes);
    default:
        return false;
    }
#undef AS
}

/* One record through both ends. A record of varying size is tried with ever more bytes. */
static void round_trip(struct ends *x, enum record_type type, const void *rec)
{
    union {
        uint64_t align;
        uint8_t bytes[256];
    } got;
    struct err e;
    x->bytes.len = 0;
    codec_write(&x->writer, type, rec, 1, &x->out);
    assert_int_equal(out_stream_finish(&x->out, &e), 0);
    assert_false(x->writer.out_of_range);
    memset(&got, 0, sizeof got);
    size_t size = codec_size(&x->reader, type);
    if (size > 0) {
        assert_int_equal(x->bytes.len, size);
        codec_reader(type)(&x->reader, x->bytes.data, &got, 1);
        if (memcmp(&got, rec, record_size(type)) != 0)
            fail_msg("a %s does not survive", record_name(type));
    } else {
        uint64_t need = 0;
        size_t had = 0, took;
        while ((took = codec_read_varying(&x->reader, type, x->bytes.data, had, &got, &need)) ==
               0) {
            assert_true(need > had && need <= x->bytes.len);
            had = (size_t)need;
        }
        assert_int_equal(took, x->bytes.len);
        if (!views_equal(type, rec, &got))
            fail_msg("a %s does not survive", record_name(type));
    }
    assert_false(x->reader.out_of_range);
}

static void every_type(const struct file_layout *layout, bool extremes, uint64_t seed)
{
    static struct ends x;
    union {
        uint64_t align;
        uint8_t bytes[256];
    } rec;
    ends_init(&x, layout, seed);
    x.sample.wild = true;
    x.sample.extremes = extremes;
    for (unsigned type = 0; type < REC_TYPE_COUNT; type++) {
        for (unsigned i = 0; i < 40; i++) {
            if (type == REC_FRAME) {
                memset(&rec, 0, sizeof rec);
                x.reader.continuous = x.writer.continuous = i & 1;
                sample_frame(&x.sample, i & 1, &rec);
            } else {
                sample_record(&x.sample, type, &rec);
            }
            round_trip(&x, type, &rec);
        }
    }
    ends_release(&x);
}

static void test_every_type_in_every_layout(void **state)
{
    (void)state;
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    for (unsigned i = 0; i < n; i++) {
        every_type(&all[i], false, 11 + i);
        every_type(&all[i], true, 77 + i);
    }
}

/* Bytes per record: section 10.1 of the format's fact sheet. */
static void test_sizes(void **state)
{
    (void)state;
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    for (unsigned i = 0; i < n; i++) {
        struct codec c;
        struct err e;
        assert_int_equal(codec_init(&c, &all[i], &e), 0);
        c.continuous = true;
        assert_int_equal(codec_size(&c, REC_FRAME), 12);
        c.continuous = false;
        assert_int_equal(codec_size(&c, REC_FRAME), 20);
        assert_int_equal(codec_size(&c, REC_CRASH), 28);
        assert_int_equal(codec_size(&c, REC_SECTION), 15);
        assert_int_equal(codec_size(&c, REC_SOURCE_LOCATION), 43);
        assert_int_equal(codec_size(&c, REC_SOURCE_LOCATION_PAYLOAD), 35);
        assert_int_equal(codec_size(&c, REC_ZONE_STAT), 10);
        assert_int_equal(codec_size(&c, REC_LOCK), 35);
        assert_int_equal(codec_size(&c, REC_LOCK_EVENT), 12);
        assert_int_equal(codec_size(&c, REC_MESSAGE), all[i].message_meta ? 34 : 32);
        assert_int_equal(codec_size(&c, REC_ZONE_EXTRA), 12);
        assert_int_equal(codec_size(&c, REC_ZONE_BEGIN) + codec_size(&c, REC_ZONE_END), 26);
        assert_int_equal(codec_size(&c, REC_SAMPLE), 11);
        assert_int_equal(codec_size(&c, REC_GPU_ZONE_BEGIN) + codec_size(&c, REC_GPU_ZONE_END),
                         all[i].gpu_notes ? 49 : 47);
        assert_int_equal(codec_size(&c, REC_PLOT), 48);
        assert_int_equal(codec_size(&c, REC_PLOT_POINT), 16);
        assert_int_equal(codec_size(&c, REC_MEMORY_EVENT), 42);
        assert_int_equal(codec_size(&c, REC_POOL) + codec_size(&c, REC_POOL_END), 64);
        assert_int_equal(codec_size(&c, REC_CONTEXT_SWITCH), all[i].wakeup_cpu ? 36 : 35);
        assert_int_equal(codec_size(&c, REC_CPU_SWITCH), 18);
        assert_int_equal(codec_size(&c, REC_CPU_THREAD), 24);
        assert_int_equal(codec_size(&c, REC_SYMBOL), 32);
        assert_int_equal(codec_size(&c, REC_STRING), 0);
        codec_release(&c);
    }
}

/* Known bytes, so that both directions cannot be wrong in the same way. */
static void test_memory_event_bytes(void **state)
{
    (void)state;
    static struct ends x;
    static const uint8_t expected[2][42] = {
        {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x40, 0, 0, 0, 0, 0,
         0,    0,    0x01, 0x02, 0x03, 0,    0,    0,    0xe8, 3, 0, 0, 0, 0,
         0,    0,    0x32, 0,    0,    0,    0,    0,    0,    0, 7, 0, 8, 0},
        {1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
         /* 200 ns before the one above; still active */
         0x38, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
         0xff, 7, 0, 0, 0},
    };
    const struct rec_memory_event events[2] = {
        {0x1122334455667788, 64, 1000, 1050, 0x030201, 0, 7, 8},
        {1, 2, 800, -1, 0, 0, 7, 0},
    };
    struct err e;
    ends_init(&x, file_layout_find(FILE_VERSION_MAX), 1);
    codec_write(&x.writer, REC_MEMORY_EVENT, events, 2, &x.out);
    assert_int_equal(out_stream_finish(&x.out, &e), 0);
    assert_int_equal(x.bytes.len, 84);
    assert_memory_equal(x.bytes.data, expected, 84);
    ends_release(&x);
}

/* A free before its allocation becomes one at the same time: the format cannot say it otherwise. */
static void test_early_free(void **state)
{
    (void)state;
    static struct ends x;
    struct rec_memory_event event = {.time_alloc = 500, .time_free = 400}, got;
    struct err e;
    ends_init(&x, file_layout_find(FILE_VERSION_MIN), 1);
    codec_write(&x.writer, REC_MEMORY_EVENT, &event, 1, &x.out);
    assert_int_equal(out_stream_finish(&x.out, &e), 0);
    codec_reader(REC_MEMORY_EVENT)(&x.reader, x.bytes.data, &got, 1);
    assert_int_equal(got.time_free, 500);
    ends_release(&x);
}

static int64_t free_time_read(int64_t alloc, int64_t after)
{
    struct codec c;
    struct err e;
    struct rec_memory_event got;
    uint8_t bytes[MEMORY_EVENT_SIZE] = {0};
    assert_int_equal(codec_init(&c, file_layout_find(FILE_VERSION_MIN), &e), 0);
    store_u64(bytes + 22, (uint64_t)alloc);
    store_u64(bytes + 30, (uint64_t)after);
    codec_reader(REC_MEMORY_EVENT)(&c, bytes, &got, 1);
    assert_false(c.out_of_range);
    codec_release(&c);
    return got.time_free;
}

/* Blocks of a program that allocates before its client reads the clock. */
static void test_times_before_zero(void **state)
{
    (void)state;
    assert_int_equal(free_time_read(-500, -1), NEVER_FREED);
    assert_int_equal(free_time_read(-500, 100), -400);
    assert_int_equal(free_time_read(-500, 499), 0); /* at the time that stands for "never" */
    assert_int_equal(free_time_read(-500, 600), 100);
    /* An official server writes a free before time 0 as it is; one before its block is none. */
    assert_int_equal(free_time_read(-500, -300), -300);
    assert_int_equal(free_time_read(-500, -501), NEVER_FREED);
    assert_int_equal(free_time_read(5, -2), NEVER_FREED);
}

static void reads_out_of_range(enum record_type type, const uint8_t *bytes, bool expected)
{
    struct codec c;
    struct err e;
    uint8_t rec[256];
    assert_int_equal(codec_init(&c, file_layout_find(FILE_VERSION_MAX), &e), 0);
    codec_reader(type)(&c, bytes, rec, 1);
    assert_int_equal(c.out_of_range, expected);
    codec_release(&c);
}

static void test_times_beyond_48_bits(void **state)
{
    (void)state;
    uint8_t bytes[64] = {0};
    /* a plot point: delta, value */
    store_u64(bytes, (UINT64_C(1) << 47) - 1);
    reads_out_of_range(REC_PLOT_POINT, bytes, false);
    store_u64(bytes, UINT64_C(1) << 47);
    reads_out_of_range(REC_PLOT_POINT, bytes, true);
    store_u64(bytes, -(UINT64_C(1) << 47));
    reads_out_of_range(REC_PLOT_POINT, bytes, false);
    store_u64(bytes, -(UINT64_C(1) << 47) - 1);
    reads_out_of_range(REC_PLOT_POINT, bytes, true);
    store_u64(bytes, INT64_MAX);
    reads_out_of_range(REC_PLOT_POINT, bytes, true);
    /* a memory event: the sum of allocation and free */
    memset(bytes, 0, sizeof bytes);
    store_u64(bytes + 22, (UINT64_C(1) << 47) - 1);
    store_u64(bytes + 30, 0);
    reads_out_of_range(REC_MEMORY_EVENT, bytes, false);
    store_u64(bytes + 30, 1);
    reads_out_of_range(REC_MEMORY_EVENT, bytes, true);
}

static bool writes_out_of_range(enum record_type type, const void *rec)
{
    static struct ends x;
    ends_init(&x, file_layout_find(FILE_VERSION_MAX), 1);
    codec_write(&x.writer, type, rec, 1, &x.out);
    bool refused = x.writer.out_of_range;
    ends_release(&x);
    return refused;
}

static void test_values_too_large_to_write(void **state)
{
    (void)state;
    struct rec_memory_event event = {.callstack_alloc = 0xffffff, .time_free = -1};
    assert_false(writes_out_of_range(REC_MEMORY_EVENT, &event));
    event.callstack_alloc = 0x1000000;
    assert_true(writes_out_of_range(REC_MEMORY_EVENT, &event));
    struct rec_sample sample = {.time = (INT64_C(1) << 47) - 1};
    assert_false(writes_out_of_range(REC_SAMPLE, &sample));
    sample.time++;
    assert_true(writes_out_of_range(REC_SAMPLE, &sample));
    struct rec_section section = {.start = -(INT64_C(1) << 47) - 1};
    assert_true(writes_out_of_range(REC_SECTION, &section));
    struct rec_frame_image image = {.w = 8, .h = 8, .bytes = {"1234567", 7}};
    assert_true(writes_out_of_range(REC_FRAME_IMAGE, &image));
}

static void test_magic(void **state)
{
    (void)state;
    uint8_t magic[INNER_MAGIC_SIZE];
    uint32_t version;
    codec_write_magic(FILE_VERSION(0, 12, 2), magic);
    assert_memory_equal(magic, "tracy\0\14\2", 8);
    assert_int_equal(codec_read_magic(magic, &version), 0);
    assert_int_equal(version, FILE_VERSION(0, 12, 2));
    for (unsigned i = 0; i < 5; i++) {
        magic[i] ^= 1;
        assert_int_equal(codec_read_magic(magic, &version), -1);
        magic[i] ^= 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_in_every_layout),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_memory_event_bytes),
        cmocka_unit_test(test_early_free),
        cmocka_unit_test(test_times_before_zero),
        cmocka_unit_test(test_times_beyond_48_bits),
        cmocka_unit_test(test_values_too_large_to_write),
        cmocka_unit_test(test_magic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
