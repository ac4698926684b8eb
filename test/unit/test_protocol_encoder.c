/* The encoder's refusals, and that what it commits are frames as a client makes them. */

#include "protocol_support.h"

static void expect_refusal(const char *item, const struct encoder_field *fields, size_t n,
                           struct view tail, const char *cause)
{
    struct buf b = {0};
    struct err e = {0};
    buf_u8(&b, 0xaa);
    assert_int_equal(encoder_write_item(wire_version_find(82), &b, item, fields, n, tail, &e), -1);
    assert_int_equal(e.code, ERR_USAGE);
    if (!strstr(e.text, cause))
        fail_msg("\"%s\" does not say \"%s\"", e.text, cause);
    assert_int_equal(b.len, 1); /* nothing half-written */
    buf_release(&b);
}

static void test_refusals(void **state)
{
    (void)state;
    static char long_text[65536 + 256];
    struct view none = {0};
    struct encoder_field f = ENC_INT("thread", 1);
    expect_refusal("Nonsense", NULL, 0, none, "has no item Nonsense");
    expect_refusal("ZoneEnd", &f, 1, none, "item ZoneEnd has no field thread");
    f = ENC_INT("thread", 0x100000000);
    expect_refusal("ThreadContext", &f, 1, none, "4294967296 does not fit field thread");
    f = ENC_INT("time", -32769);
    expect_refusal("ZoneEnd16", &f, 1, none, "does not fit field time");
    expect_refusal("ZoneEnd", NULL, 0, view_of("x"), "no room for 1 bytes");
    expect_refusal("SingleStringData", NULL, 0, view_of("x"), "no room for 1 bytes");
    expect_refusal("SingleStringData8", NULL, 0, (struct view){long_text, 256},
                   "no room for 256 bytes");
    expect_refusal("SingleStringData", NULL, 0, (struct view){long_text, sizeof long_text},
                   "no room for 65792 bytes");
    expect_refusal("StringData", NULL, 0, (struct view){long_text, 65536},
                   "no room for 65536 bytes");
}

static void test_bytes(void **state)
{
    (void)state;
    struct buf b = {0};
    const struct wire_version *v = wire_version_find(82);
    put_item(v, &b, "MemAlloc", (struct view){0},
             (struct encoder_field[]){ENC_INT("size", 0x0102030405),
                                      ENC_INT("time", -2),
                                      ENC_INT("thread", 7),
                                      ENC_INT("ptr", 0x1122),
                                      {.name = NULL}});
    static const uint8_t want[27] = {35, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                     7,  0,    0,    0,    0x22, 0x11, 0,    0,    0,
                                     0,  0,    0,    5,    4,    3,    2,    1,    0};
    assert_int_equal(b.len, sizeof want);
    assert_memory_equal(b.data, want, sizeof want);
    buf_release(&b);
}

static void test_string_forms(void **state)
{
    (void)state;
    static char text[65791];
    static const size_t lengths[] = {0, 255, 256, 65535};
    for (unsigned i = 0; i < wire_version_count; i++) {
        const struct wire_version *v = &wire_versions[i];
        struct encoder *enc = encoder_new(v);
        struct err e = {0};
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            assert_int_equal(encoder_string(enc, false, (struct view){text, lengths[k]}, &e), 0);
            assert_int_equal(encoder_item(enc, "ZoneText", NULL, 0, (struct view){0}, &e), 0);
        }
        bool long_form = v->protocol >= 80;
        assert_int_equal(encoder_string(enc, true, (struct view){text, 65791}, &e),
                         long_form ? 0 : -1);
        assert_int_equal(encoder_commit(enc, &e), 0);
        struct rig r;
        struct frame_reader *frames = frame_reader_new();
        rig_init(&r, v->protocol, NULL);
        assert_int_equal(
            rig_feed(&r, frames, encoder_output(enc)->data, encoder_output(enc)->len, SIZE_MAX), 0);
        assert_int_equal(r.log.counts[EVENT_ZONE_TEXT], 4);
        frame_reader_free(frames);
        rig_release(&r);
        encoder_free(enc);
    }
}

/* Items fill frames up to the limit, none straddles two, and all arrive. */
static void test_frames(void **state)
{
    (void)state;
    const struct wire_version *v = wire_version_find(82);
    struct encoder *enc = encoder_new(v);
    struct err e = {0};
    static uint8_t big[FRAME_SIZE_MAX + 1];
    assert_int_equal(encoder_append(enc, big, sizeof big, &e), -1);
    assert_non_null(strstr(e.text, "does not fit into a frame"));
    enum { ITEMS = 60000 };
    for (int i = 0; i < ITEMS; i++)
        assert_int_equal(
            encoder_item(enc, "MemFree",
                         (struct encoder_field[]){ENC_INT("time", 1), ENC_INT("thread", i % 3 + 1),
                                                  ENC_INT("ptr", i * 7919)},
                         3, (struct view){0}, &e),
            0);
    assert_int_equal(encoder_commit(enc, &e), 0);
    size_t done = encoder_output(enc)->len;
    assert_int_equal(encoder_commit(enc, &e), 0); /* nothing in hand: no empty frame */
    assert_int_equal(encoder_output(enc)->len, done);
    struct rig r;
    struct frame_reader *frames = frame_reader_new();
    rig_init(&r, 82, NULL);
    if (rig_feed(&r, frames, encoder_output(enc)->data, done, 1000) < 0)
        fail_msg("%s", r.err.text);
    assert_int_equal(r.log.counts[EVENT_MEM_FREE], ITEMS);
    /* 21 bytes each, 12,483 to a frame */
    assert_int_equal(frame_reader_stats(frames)->frames, (ITEMS + 12482) / 12483);
    char want[64];
    snprintf(want, sizeof want, " t=%d pool=0 ptr=%d ", ITEMS, (ITEMS - 1) * 7919);
    assert_non_null(strstr(rig_line(&r), want));
    frame_reader_free(frames);
    rig_release(&r);
    encoder_free(enc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_string_forms),
        cmocka_unit_test(test_frames),
    };
    return cmocka_run_group_tests_name("protocol encoder", tests, NULL, NULL);
}
