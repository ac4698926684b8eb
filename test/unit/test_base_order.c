/* base/order: numbers in order, those of equal keys as they were. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>

#include "base/order.h"

static void check(uint64_t (*key)(size_t i), size_t n)
{
    struct keyed *items = calloc(n + 1, sizeof *items);
    assert_non_null(items);
    for (size_t i = 0; i < n; i++)
        items[i] = (struct keyed){key(i), i};
    assert_true(order_by_key(items, n));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(items[i].key, key((size_t)items[i].value));
        if (i > 0)
            assert_true(items[i - 1].key < items[i].key ||
                        (items[i - 1].key == items[i].key && items[i - 1].value < items[i].value));
    }
    free(items);
}

static uint64_t spread(size_t i)
{
    return (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t few(size_t i)
{
    return UINT64_C(0xffff800000000000) + i % 7 * 4096;
}

static uint64_t top(size_t i)
{
    return (uint64_t)(i % 2) << 63 | i / 3;
}

static uint64_t equal(size_t i)
{
    (void)i;
    return 5;
}

static void test_order(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 2048, 5000};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        check(spread, sizes[k]);
        check(few, sizes[k]);
        check(top, sizes[k]);
        check(equal, sizes[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
