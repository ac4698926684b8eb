/* Marks of axes, pixels, and the alphabet of pictures. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "report/write/axis.h"
#include "report/picture/stroke_font.h"

static void check_labels(const struct axis *a, const char *const *labels, unsigned n)
{
    char text[FORMAT_SIZE];
    assert_int_equal(a->marks, n);
    for (unsigned i = 0; i < n; i++)
        assert_string_equal(axis_label(text, a, i), labels[i]);
}

static void test_values(void **state)
{
    (void)state;
    static const char *const none[] = {"0 B", "1 B"};
    static const char *const some[] = {"0 B", "256 MiB", "512 MiB", "768 MiB", "1 GiB", "1.25 GiB"};
    static const char *const counts[] = {"0", "500", "1,000", "1,500", "2,000"};
    struct axis a = axis_of_values(AXIS_BYTES, 0);
    check_labels(&a, none, 2);
    a = axis_of_values(AXIS_BYTES, (UINT64_C(1) << 30) + 1);
    check_labels(&a, some, 6);
    a = axis_of_values(AXIS_COUNT, 1501);
    check_labels(&a, counts, 5);
}

/* Whatever is drawn lies on the axis, and there are neither too few nor too many marks. */
static void test_any_value(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        for (int unit = AXIS_BYTES; unit <= AXIS_COUNT; unit++) {
            uint64_t most = (UINT64_C(1) << bit) + bit * 3;
            struct axis a = axis_of_values((enum axis_unit)unit, most);
            assert_in_range(a.marks, 2, 6);
            assert_true(a.end > 0);
            assert_true((uint64_t)a.end >= most || most > UINT64_C(1) << 62);
            assert_int_equal(axis_mark(&a, a.marks - 1), a.end);
        }
    }
}

static void test_times(void **state)
{
    (void)state;
    static const char *const tenths[] = {"1.2 s", "1.4 s", "1.6 s", "1.8 s", "2.0 s", "2.2 s"};
    static const char *const minutes[] = {"0 min", "20 min", "40 min", "60 min"};
    struct axis a = axis_of_times(1100000000, 2300000000, 8);
    check_labels(&a, tenths, 6);
    a = axis_of_times(0, INT64_C(4000000000000), 4);
    check_labels(&a, minutes, 4);
    a = axis_of_times(-7, 8, 8);
    assert_int_equal(a.first, -6);
    assert_int_equal(axis_mark(&a, a.marks - 1), 8);
}

static void test_any_time(void **state)
{
    (void)state;
    char text[FORMAT_SIZE];
    for (unsigned bit = 0; bit < 63; bit++) {
        int64_t end = INT64_C(1) << bit;
        for (int far = 0; far < 2; far++) {
            int64_t begin = far ? INT64_MAX - end : 0;
            struct axis a = axis_of_times(begin, begin + end, 10);
            assert_true(a.marks <= 11);
            for (unsigned i = 0; i < a.marks; i++) {
                assert_true(axis_mark(&a, i) >= begin && axis_mark(&a, i) <= begin + end);
                assert_true(strlen(axis_label(text, &a, i)) > 2);
            }
        }
    }
}

/* ---- pixels */

static unsigned dark_pixels(const struct raster *r)
{
    unsigned n = 0;
    for (size_t i = 0; i < (size_t)r->width * r->height; i++)
        n += r->rgb[3 * i] < 128;
    return n;
}

static void test_fill(void **state)
{
    (void)state;
    struct raster r;
    const struct point square[] = {{2, 2}, {6.5, 2}, {6.5, 5}, {2, 5}};
    const struct point outside[] = {{-50, -50}, {500, -50}, {500, 500}, {-50, 500}};
    assert_true(raster_init(&r, 10, 8, 0xffffff));
    assert_true(raster_fill(&r, square, 4));
    raster_paint(&r, 0, 1);
    const uint8_t *row = r.rgb + 3 * 10 * 3; /* y = 3 */
    assert_int_equal(row[3 * 1], 255);
    assert_int_equal(row[3 * 2], 0);
    assert_int_equal(row[3 * 5], 0);
    assert_in_range(row[3 * 6], 126, 129); /* half covered */
    assert_int_equal(row[3 * 7], 255);
    assert_int_equal(r.rgb[3 * (10 * 5 + 3)], 255);
    assert_true(raster_fill(&r, outside, 4));
    raster_paint(&r, 0x102030, 1);
    assert_int_equal(dark_pixels(&r), 80);
    assert_memory_equal(r.rgb, "\x10\x20\x30", 3);
    raster_release(&r);
}

static void test_stroke(void **state)
{
    (void)state;
    struct raster r;
    assert_true(raster_init(&r, 40, 10, 0xffffff));
    raster_stroke(&r, (struct point){5, 5}, (struct point){35, 5}, 4);
    raster_stroke(&r, (struct point){-1e9, 5}, (struct point){-1e8, 5}, 4);
    raster_paint(&r, 0, 1);
    assert_in_range(dark_pixels(&r), 120, 136); /* 30 by 4, and round ends */
    raster_release(&r);
}

/* Every character leaves something, within the width that is said, and no two are alike. */
static void test_letters(void **state)
{
    (void)state;
    struct raster r;
    uint8_t seen[96][40 * 40];
    for (int c = '!'; c <= '~'; c++) {
        char text[2] = {(char)c, 0};
        double width = font_width(view_of(text), 30);
        assert_true(width > 3 && width < 40);
        assert_true(raster_init(&r, 40, 40, 0xffffff));
        font_draw(&r, view_of(text), (struct point){0, 30}, 30, false);
        raster_paint(&r, 0, 1);
        assert_true(dark_pixels(&r) > 5);
        for (int i = 0; i < 40 * 40; i++) {
            seen[c - '!'][i] = r.rgb[3 * i];
            assert_true(i % 40 < width || r.rgb[3 * i] == 255);
        }
        for (int other = 0; other < c - '!'; other++)
            assert_memory_not_equal(seen[other], seen[c - '!'], sizeof seen[0]);
        raster_release(&r);
    }
    /* Letters with marks are as wide as those without, and not boxes. */
    assert_true(font_width(view_of("ÄÉçñÿ"), 10) == font_width(view_of("AEcny"), 10));
    assert_true(font_width(view_of("ß÷Øþ"), 10) != font_width(view_of("漢漢漢漢"), 10));
    assert_true(font_width(view_of("…µ漢"), 10) > font_width(view_of("…µ"), 10));
    assert_true(font_width(view_of("11"), 10) == font_width(view_of("00"), 10));
    assert_true(font_width((struct view){"\xe6\xbc", 2}, 10) > 0); /* cut short */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_any_value),
        cmocka_unit_test(test_times),   cmocka_unit_test(test_any_time),
        cmocka_unit_test(test_fill),    cmocka_unit_test(test_stroke),
        cmocka_unit_test(test_letters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
