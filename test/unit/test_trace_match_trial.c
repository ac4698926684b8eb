#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace/match_trial.h"
#include "trace/stream.h"

#define BLOCKS 16 /* of a trial */

/* What zstd makes of a block of text that comes again and again is a few dozen bytes. */
static bool tried(size_t own, unsigned blocks)
{
    static uint8_t block[BLOCK_SIZE];
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    struct match_trial *t = match_trial_new(zstd);
    bool goes_on = true;
    assert_non_null(zstd);
    assert_non_null(t);
    memset(block, 'x', sizeof block);
    for (unsigned i = 0; i < blocks; i++)
        goes_on = match_trial_block(t, block, sizeof block, own);
    match_trial_free(t);
    return goes_on;
}

static void test_the_smaller_one_is_taken(void **state)
{
    (void)state;
    assert_true(tried(1, BLOCKS));
    assert_true(tried(1, 10 * BLOCKS));
    assert_false(tried(1000, BLOCKS));
    assert_false(tried(1000, 10 * BLOCKS));
}

static void test_too_few_blocks_say_nothing(void **state)
{
    (void)state;
    assert_true(tried(1000, BLOCKS - 1));
}

/* Bytes that nothing can compress, by a search that is as good as zstd's. */
static void test_ours_stays_where_both_are_alike(void **state)
{
    static uint8_t block[BLOCK_SIZE];
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    struct match_trial *t = match_trial_new(zstd);
    uint32_t x = 1;
    (void)state;
    assert_non_null(t);
    for (unsigned i = 0; i < 2 * BLOCKS; i++) {
        for (size_t k = 0; k < sizeof block; k++)
            block[k] = (uint8_t)((x = x * 1664525u + 1013904223u) >> 24);
        assert_true(match_trial_block(t, block, sizeof block, sizeof block));
    }
    match_trial_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_smaller_one_is_taken),
        cmocka_unit_test(test_too_few_blocks_say_nothing),
        cmocka_unit_test(test_ours_stays_where_both_are_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
