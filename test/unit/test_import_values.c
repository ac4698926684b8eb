/* import/value_arena, import/address_ranges: against copies that are simple and slow. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "import/address_ranges.h"
#include "import/pickle.h"
#include "import/value_arena.h"

static uint64_t random_state = 1;

static unsigned dice(unsigned sides)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % sides;
}

/* ---- ranges: a page's owner, 0: in no range */

#define PAGES 64u

static void check_ranges(const struct address_ranges *r, const uint64_t owners[PAGES])
{
    uint64_t found[PAGES] = {0}, end = 0;
    for (size_t i = 0; i < r->list.len; i++) {
        const struct address_range *range = &r->list.at[i];
        assert_true(range->start < range->end && range->start >= end && range->end <= PAGES);
        for (end = range->start; end < range->end; end++)
            found[end] = range->owner;
    }
    assert_memory_equal(found, owners, sizeof found);
    for (uint64_t page = 0; page < PAGES; page++) {
        size_t at = address_ranges_at(r, page);
        bool inside = at < r->list.len && r->list.at[at].start <= page;
        assert_int_equal(inside, owners[page] != 0);
    }
}

static void test_ranges(void **state)
{
    (void)state;
    struct address_ranges r = {0};
    uint64_t owners[PAGES] = {0};
    struct err e = {0};
    for (uint64_t step = 1; step < 20000; step++) {
        unsigned start = dice(PAGES), end = start + dice(PAGES - start + 1);
        const struct address_range range = {start, end, step};
        bool add = dice(2);
        assert_int_equal(
            add ? address_ranges_add(&r, range, &e) : address_ranges_cut(&r, start, end, &e), 0);
        for (unsigned page = start; page < end; page++)
            owners[page] = add ? (owners[page] ? owners[page] : step) : 0;
        check_ranges(&r, owners);
    }
    address_ranges_release(&r);
}

static void test_too_many_ranges(void **state)
{
    (void)state;
    struct address_ranges r = {0};
    struct err e = {0};
    for (uint64_t i = 0; i < 65536; i++) {
        const struct address_range range = {2 * i, 2 * i + 1, i};
        assert_int_equal(address_ranges_add(&r, range, &e), 0);
    }
    const struct address_range more = {1 << 20, 1 << 21, 0};
    assert_int_equal(address_ranges_add(&r, more, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    address_ranges_release(&r);
}

/* ---- values */

static void test_numbers(void **state)
{
    (void)state;
    static const int64_t numbers[] = {0,
                                      1,
                                      -1,
                                      (INT64_C(1) << 59) - 1,
                                      INT64_MIN,
                                      INT64_MAX,
                                      1 << 20,
                                      -(INT64_C(1) << 59),
                                      1 << 6,
                                      -(1 << 30),
                                      INT64_C(1) << 59};
    struct value_arena a = {0};
    struct err e = {0};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uint64_t value, number;
        int64_t found;
        assert_int_equal(value_integer(&a, numbers[i], &value, &e), 0);
        assert_true(value_signed(&a, value, &found));
        assert_true(found == numbers[i]);
        assert_int_equal(value_number(&a, value, &number), numbers[i] >= 0);
        assert_true(number == (numbers[i] < 0 ? 0 : (uint64_t)numbers[i]));
    }
    value_arena_release(&a);
}

/* A list in pieces of random sizes has its items in order; a dictionary has its pairs. */
static void test_pieces(void **state)
{
    (void)state;
    struct value_arena a = {0};
    struct value_slot slots[64] = {0};
    struct err e = {0};
    for (unsigned round = 0; round < 200; round++) {
        uint64_t list = VALUE_LIST, dict = VALUE_DICT, item;
        unsigned n = 0, pairs = 0;
        for (unsigned piece = dice(9); piece > 0; piece--) {
            size_t len = dice(32);
            for (size_t i = 0; i < 2 * len; i++)
                assert_int_equal(value_integer(&a, n + (int64_t)i, &slots[i].value, &e), 0);
            assert_int_equal(value_list(&a, list, slots, len, &list, &e), 0);
            assert_int_equal(value_dict(&a, dict, slots, len, &dict, &e), 0);
            n += (unsigned)len;
        }
        struct value_walk walk = {0};
        assert_int_equal(value_walk_begin(&walk, &a, list, &e), 0);
        uint64_t number, count = 0;
        for (; value_walk_next(&walk, &item); count++) {
            assert_true(value_number(&a, item, &number));
            assert_int_equal(number, count);
        }
        assert_int_equal(count, n);
        value_walk_release(&walk);
        struct value_pairs p;
        for (; value_pairs_of(&a, dict, &p); dict = p.before)
            pairs += (unsigned)p.n;
        assert_int_equal(pairs, n);
        assert_int_equal(dict, VALUE_DICT);
    }
    value_arena_release(&a);
}

/* Equal values have the same number, and take no more room, while few others come between. */
static void test_sharing(void **state)
{
    (void)state;
    struct value_arena a = {0};
    struct err e = {0};
    uint64_t text[2], list[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(value_text(&a, (struct view){"forward", 7}, &text[i], &e), 0);
        const struct value_slot items[] = {{.value = text[i]}, {.value = VALUE_NONE}};
        assert_int_equal(value_list(&a, VALUE_LIST, items, 2, &list[i], &e), 0);
    }
    assert_true(text[0] == text[1] && list[0] == list[1]);
    assert_true(view_equal(value_view(&a, text[0]), view_of("forward")));
    assert_int_equal(value_view(&a, list[0]).len, 0);
    size_t len = a.bytes.len;
    for (int i = 0; i < 100000; i++) {
        const struct value_slot items[] = {{.value = text[0]}, {.value = list[0]}};
        assert_int_equal(value_list(&a, VALUE_LIST, items, 2, &list[1], &e), 0);
    }
    assert_true(a.bytes.len < len + 32);
    value_arena_release(&a);
}

/* Entries of a pickle that repeat their lists take a tenth of its bytes. */
static void test_packing(void **state)
{
    (void)state;
    static const char frame[] = "}\x94(\x8c\x01nK\x01u";
    struct value_arena a = {0};
    struct buf text = {0};
    struct import_source source;
    struct pickle p;
    struct err e = {0};
    uint64_t entry;
    buf_puts(&text, "\x80\x04]\x94(");
    buf_put(&text, frame, sizeof frame - 1);
    for (uint32_t i = 0; i < 20000; i++) {
        buf_puts(&text, "}\x94(\x8c\x01"
                        "aJ");
        buf_u32(&text, i);
        buf_puts(&text, "\x8c\x01"
                        "f]\x94(");
        for (unsigned k = 0; k < 60 + i % 100; k++)
            buf_puts(&text, "h\x01");
        buf_puts(&text, "eu");
    }
    buf_puts(&text, "e.");
    assert_int_equal(import_source_memory(&source, buf_view(&text), &e), 0);
    assert_int_equal(pickle_read(&source, &a, &p, &e), 0);
    assert_int_equal(p.bytes, text.len);
    assert_true(a.bytes.len < text.len / 10);
    struct value_walk walk = {0};
    assert_int_equal(value_walk_begin(&walk, &a, p.root, &e), 0);
    unsigned count = 0;
    while (value_walk_next(&walk, &entry))
        count++;
    assert_int_equal(count, 20001);
    value_walk_release(&walk);
    import_source_close(&source);
    value_arena_release(&a);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),  cmocka_unit_test(test_too_many_ranges),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_sharing), cmocka_unit_test(test_packing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
