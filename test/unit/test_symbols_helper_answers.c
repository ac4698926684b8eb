/* The helper's answers: texts that are told once, and messages that are wrong. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "symbols/helper/helper_answers.h"
#include "symbols/place/helper_wire.h"

static struct view body_of(const struct answers_out *out)
{
    assert_false(out->body.failed);
    return (struct view){(const char *)out->body.data, out->body.len};
}

/* Two functions, with texts in memory that holds something else every time. */
static void put_two(struct answers_out *out, const char *inner, const char *outer)
{
    static char room[2][256];
    snprintf(room[0], sizeof room[0], "%s", inner);
    snprintf(room[1], sizeof room[1], "%s", outer);
    const struct symbol_frame frames[2] = {
        {.function = view_of(room[0]), .file = view_of("a.c"), .line = 3, .inlined = true},
        {.function = view_of(room[1]), .linkage = view_of("_l"), .file = view_of("a.c")}};
    const struct place_answer answer = {
        .source = SOURCE_DEBUG, .address = 0x1234, .n = 2, .frames = frames};
    answers_put(out, &answer);
}

static void expect_two(struct answers_in *in, const char *inner, const char *outer,
                       struct symbol_frame *frames)
{
    struct place_answer a;
    struct err e = {0};
    assert_int_equal(answers_get(in, &a, frames, &e), 0);
    assert_int_equal(a.source, SOURCE_DEBUG);
    assert_int_equal(a.address, 0x1234);
    assert_int_equal(a.n, 2);
    assert_true(view_equal(frames[0].function, view_of(inner)));
    assert_true(view_equal(frames[1].function, view_of(outer)));
    assert_true(view_equal(frames[0].file, view_of("a.c")));
    assert_int_equal(frames[0].file_number, frames[1].file_number);
    assert_int_equal(frames[0].line, 3);
    assert_true(frames[0].inlined);
    assert_false(frames[1].inlined);
}

static void test_texts_are_told_once(void **state)
{
    (void)state;
    struct answers_out out = {.linkage = true};
    struct answers_in in = {0};
    struct symbol_frame first[PLACE_FRAMES_MAX], second[PLACE_FRAMES_MAX];
    struct err e = {0};
    uint32_t n;
    answers_begin(&out);
    put_two(&out, "f", "g");
    size_t long_one = out.body.len;
    put_two(&out, "g", "h");
    assert_int_equal(answers_open(&in, body_of(&out), &n, &e), 0);
    assert_int_equal(n, 2);
    assert_int_equal(in.numbering, 1);
    expect_two(&in, "f", "g", first);
    expect_two(&in, "g", "h", second);
    assert_int_equal(first[1].function_number, second[0].function_number);
    assert_int_not_equal(first[0].function_number, first[1].function_number);
    assert_true(view_equal(first[1].linkage, view_of("_l")));
    /* The next message knows them; without linkage names these are left out. */
    out.linkage = false;
    answers_begin(&out);
    put_two(&out, "f", "g");
    assert_true(out.body.len < long_one);
    assert_int_equal(answers_open(&in, body_of(&out), &n, &e), 0);
    assert_int_equal(n, 1);
    assert_int_equal(in.numbering, 1);
    expect_two(&in, "f", "g", second);
    assert_int_equal(first[0].function_number, second[0].function_number);
    assert_int_equal(second[1].linkage.len, 0);
    answers_close(&in);
    answers_release(&out);
}

/* So many texts that their numbers begin anew, several times. */
static void test_many_texts(void **state)
{
    (void)state;
    struct answers_out out = {0};
    struct answers_in in = {0};
    struct symbol_frame frames[PLACE_FRAMES_MAX];
    struct err e = {0};
    char inner[32], outer[32];
    uint32_t n;
    for (unsigned message = 0; message < 60; message++) {
        answers_begin(&out);
        for (unsigned i = 0; i < 1000; i++) {
            snprintf(inner, sizeof inner, "inner%u", message * 500 + i);
            snprintf(outer, sizeof outer, "outer%u", i % 10);
            put_two(&out, inner, outer);
        }
        assert_int_equal(answers_open(&in, body_of(&out), &n, &e), 0);
        assert_int_equal(n, 1000);
        for (unsigned i = 0; i < 1000; i++) {
            snprintf(inner, sizeof inner, "inner%u", message * 500 + i);
            snprintf(outer, sizeof outer, "outer%u", i % 10);
            expect_two(&in, inner, outer, frames);
        }
    }
    assert_in_range(in.numbering, 2, 4);
    answers_close(&in);
    answers_release(&out);
}

/* More in one message than the sender's table takes. */
static void test_full_table(void **state)
{
    (void)state;
    struct answers_out out = {0};
    struct answers_in in = {0};
    struct symbol_frame frames[PLACE_FRAMES_MAX];
    struct err e = {0};
    char inner[32], outer[32];
    uint32_t n;
    answers_begin(&out);
    for (int again = 0; again < 2; again++) {
        for (unsigned i = 0; i < 30000; i++) {
            snprintf(inner, sizeof inner, "i%u", i);
            snprintf(outer, sizeof outer, "o%u", i);
            put_two(&out, inner, outer);
        }
    }
    assert_int_equal(answers_open(&in, body_of(&out), &n, &e), 0);
    assert_int_equal(n, 60000);
    for (unsigned i = 0; i < 60000; i++) {
        snprintf(inner, sizeof inner, "i%u", i % 30000);
        snprintf(outer, sizeof outer, "o%u", i % 30000);
        expect_two(&in, inner, outer, frames);
    }
    answers_close(&in);
    answers_release(&out);
}

/* Texts that have numbers in the image are known by these, until it is closed. */
static void test_numbers_of_an_image(void **state)
{
    (void)state;
    struct answers_out out = {0};
    struct answers_in in = {0};
    struct symbol_frame frames[PLACE_FRAMES_MAX];
    struct place_answer a;
    struct err e = {0};
    uint32_t n;
    struct symbol_frame f = {
        .function = view_of("f"), .function_number = 700, .file = view_of("a.c"), .file_number = 2};
    const struct place_answer one = {
        .source = SOURCE_DEBUG, .address = 0x1234, .n = 1, .frames = &f};
    answers_begin(&out);
    answers_put(&out, &one);
    size_t first = out.body.len;
    f.function = view_of("not looked at");
    answers_put(&out, &one);
    assert_true(out.body.len - first < first);
    answers_image_closed(&out);
    answers_put(&out, &one);
    assert_int_equal(answers_open(&in, body_of(&out), &n, &e), 0);
    assert_int_equal(n, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(answers_get(&in, &a, frames, &e), 0);
        assert_true(view_equal(frames[0].function, view_of(i < 2 ? "f" : "not looked at")));
        assert_true(view_equal(frames[0].file, view_of("a.c")));
    }
    answers_close(&in);
    answers_release(&out);
}

/* ---- what a helper may say that is no longer ours */

static void expect_wrong(struct answers_in *in, struct buf *body, const char *what)
{
    struct symbol_frame frames[PLACE_FRAMES_MAX];
    struct place_answer a;
    struct err e = {0};
    char text[128];
    uint32_t n;
    int status = answers_open(in, (struct view){(const char *)body->data, body->len}, &n, &e);
    if (status == 0)
        status = answers_get(in, &a, frames, &e);
    assert_int_equal(status, -1);
    assert_int_equal(e.code, ERR_CHECK);
    snprintf(text, sizeof text, "it sent a message with a wrong %s", what);
    assert_string_equal(e.text, text);
    buf_release(body);
}

static void begin(struct buf *b, uint32_t count, bool fresh)
{
    *b = (struct buf){0};
    buf_u32(b, count);
    buf_u8(b, fresh);
}

static void begin_function(struct buf *b)
{
    begin(b, 1, true);
    buf_u8(b, SOURCE_DEBUG);
    buf_u64(b, 1);
    buf_u8(b, 1);
}

static void test_wrong_messages(void **state)
{
    (void)state;
    struct answers_in in = {0};
    struct buf b = {0};
    buf_u32(&b, 1);
    expect_wrong(&in, &b, "count of answers");
    begin(&b, HELPER_PLACES_MAX + 1, true);
    expect_wrong(&in, &b, "count of answers");
    begin(&b, 1, true);
    expect_wrong(&in, &b, "answer");
    begin_function(&b);
    expect_wrong(&in, &b, "number of a text");
    begin_function(&b);
    buf_u32(&b, 2); /* the first new text is number 1 */
    expect_wrong(&in, &b, "number of a text");
    begin_function(&b);
    buf_u32(&b, UINT32_MAX);
    expect_wrong(&in, &b, "number of a text");
    begin_function(&b);
    buf_u32(&b, 1);
    buf_u32(&b, 10); /* bytes that are not there */
    buf_puts(&b, "short");
    expect_wrong(&in, &b, "text");
    begin_function(&b);
    buf_u32(&b, 1);
    buf_u32(&b, HELPER_TEXT_MAX + 1);
    expect_wrong(&in, &b, "text");
    begin_function(&b);
    for (int i = 0; i < 3; i++)
        buf_u32(&b, 0);
    expect_wrong(&in, &b, "function");
    answers_close(&in);
}

/* One that never begins anew does not fill the memory. */
static void test_endless_texts(void **state)
{
    (void)state;
    static const char zeroes[60000];
    struct answers_in in = {0};
    struct symbol_frame frames[PLACE_FRAMES_MAX];
    struct place_answer a;
    struct err e = {0};
    uint32_t n, number = 0;
    int status = 0;
    for (int message = 0; message < 10000 && status == 0; message++) {
        struct buf b;
        begin(&b, 1, false);
        buf_u8(&b, SOURCE_DEBUG);
        buf_u64(&b, 1);
        buf_u8(&b, 1);
        for (int i = 0; i < 3; i++) {
            buf_u32(&b, ++number);
            buf_u32(&b, sizeof zeroes);
            buf_put(&b, zeroes, sizeof zeroes);
        }
        for (int i = 0; i < 4; i++)
            buf_u32(&b, 0);
        buf_u8(&b, 0);
        status = answers_open(&in, (struct view){(const char *)b.data, b.len}, &n, &e);
        if (status == 0)
            assert_int_equal(answers_get(&in, &a, frames, &e), 0);
        assert_true(in.bytes.cap < (size_t)64 << 20);
        buf_release(&b);
    }
    assert_int_equal(status, -1);
    assert_int_equal(e.code, ERR_CHECK);
    answers_close(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_are_told_once), cmocka_unit_test(test_many_texts),
        cmocka_unit_test(test_full_table),          cmocka_unit_test(test_wrong_messages),
        cmocka_unit_test(test_endless_texts),       cmocka_unit_test(test_numbers_of_an_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
