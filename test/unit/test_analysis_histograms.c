/* Sizes, lifetimes and what became of blocks, against a plain list of random allocations. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/questions/histograms.h"
#include "test/unit/analysis_fixture.h"
#include "test/unit/random_history.h"

static void test_classes(void **state)
{
    (void)state;
    assert_int_equal(size_class_of(0), 0);
    for (unsigned i = 1; i < SIZE_CLASSES - 1; i++) {
        assert_int_equal(size_class_of(size_class_begin(i)), i);
        assert_int_equal(size_class_of(size_class_begin(i + 1) - 1), i);
    }
    assert_int_equal(size_class_of(UINT64_MAX), SIZE_CLASSES - 1);
    assert_int_equal(life_class_of(0), 0);
    assert_int_equal(life_class_of(99), 0);
    assert_int_equal(life_class_of(100), 1);
    assert_int_equal(life_class_of(999), 1);
    assert_int_equal(life_class_of(INT64_MAX), LIFE_LIVE - 1);
    assert_int_equal(life_class_end(LIFE_LIVE - 1), INT64_MAX);
    for (unsigned i = 0; i + 1 < LIFE_LIVE; i++) {
        assert_int_equal(life_class_of(life_class_end(i) - 1), i);
        assert_int_equal(life_class_of(life_class_end(i)), i + 1);
    }
}

/* What malloc_usable_size says under glibc 2.36, and 8 bytes of header. */
static void test_glibc(void **state)
{
    (void)state;
    static const uint64_t cases[][2] = {
        {0, 32},    {1, 32},      {24, 32},     {25, 48},         {40, 48},        {41, 64},
        {100, 112}, {1000, 1008}, {1024, 1040}, {131064, 131072}, {131072, 135168}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(glibc_chunk(cases[i][0]), cases[i][1]);
}

static void test_random(void **state)
{
    (void)state;
    static struct random_history h;
    static const struct selection_options windows[] = {
        {0}, {.has_range = true, .begin = 100, .end = 500}};
    rh_make(&h, 6);
    for (size_t w = 0; w < 2; w++) {
        struct err e = {0};
        struct selection s;
        static struct histograms got;
        static struct histograms want;
        memset(&want, 0, sizeof want);
        assert_int_equal(selection_init(&s, &h.trace, &windows[w], &e), 0);
        assert_int_equal(histograms_build(&got, &s, &e), 0);
        for (size_t i = 0; i < h.n; i++) {
            const struct rh_block *b = &h.blocks[i];
            if (b->start < s.begin || b->start >= s.end)
                continue;
            bool live = b->end >= s.end;
            struct size_class *c = &want.sizes[size_class_of(b->size)];
            struct life_class *l = &want.lives[live ? LIFE_LIVE : life_class_of(b->end - b->start)];
            c->count++;
            c->bytes += b->size;
            c->live_count += live;
            c->live_bytes += live ? b->size : 0;
            c->temporary += !live && rh_temporary(&h, b);
            c->waste += glibc_chunk(b->size) - b->size;
            want.waste += glibc_chunk(b->size) - b->size;
            l->count++;
            l->bytes += b->size;
            want.total.count++;
            want.total.bytes += b->size;
            if (!live && b->free_thread != b->thread) {
                want.elsewhere.count++;
                want.elsewhere.bytes += b->size;
            }
        }
        assert_memory_equal(got.sizes, want.sizes, sizeof want.sizes);
        assert_memory_equal(got.lives, want.lives, sizeof want.lives);
        assert_memory_equal(&got.total, &want.total, sizeof want.total);
        assert_memory_equal(&got.elsewhere, &want.elsewhere, sizeof want.elsewhere);
        assert_int_equal(got.waste, want.waste);
        assert_true(got.peak_waste > 0 && got.peak_waste <= got.waste);
        selection_release(&s);
    }
    rh_release(&h);
}

/* A vector that grows by copying, and what does not: a buffer that is made anew each time. */
static void test_regrown(void **state)
{
    (void)state;
    struct fixture f;
    struct selection s;
    static struct histograms h;
    static const struct selection_options all = {0};
    fixture_init(&f);
    uint32_t grow = fixture_stack(&f, 0x10, "grow", "a.c", 1);
    uint32_t other = fixture_stack(&f, 0x20, "other", "a.c", 2);
    fixture_alloc(&f, 0, 0x100, 16, grow);
    fixture_alloc(&f, 0, 0x200, 32, grow); /* copies */
    fixture_free(&f, 0, 0x100, 0);         /* 16 bytes regrown */
    fixture_free(&f, 0, 0x200, 0);
    fixture_alloc(&f, 0, 0x300, 64, grow); /* freed before: no copy */
    fixture_free(&f, 0, 0x300, 0);
    fixture_alloc(&f, 0, 0x400, 64, grow);  /* not larger */
    fixture_alloc(&f, 0, 0x500, 99, other); /* another call stack */
    fixture_free(&f, 0, 0x400, 0);
    fixture_free(&f, 0, 0x500, 0);
    assert_int_equal(selection_init(&s, &f.trace, &all, &f.e), 0);
    assert_int_equal(histograms_build(&h, &s, &f.e), 0);
    assert_int_equal(h.regrown.count, 1);
    assert_int_equal(h.regrown.bytes, 16);
    selection_release(&s);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_glibc),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_regrown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
