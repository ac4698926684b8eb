#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace/file/event_match.h"
#include "trace/file/match_trial.h"
#include "trace/file/stream.h"

#define BLOCKS 16u /* of a trial */

/* A trial of its own context, with what it works on. */
struct tested {
    struct event_match *match;
    struct match_trial *trial;
};

static void tested_init(struct tested *t)
{
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    assert_non_null(zstd);
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_enableSeqProducerFallback, 1)));
    t->match = event_match_new();
    assert_non_null(t->match);
    t->trial = match_trial_new(zstd, t->match, BLOCKS);
    assert_non_null(t->trial);
}

static void tested_release(struct tested *t)
{
    match_trial_free(t->trial);
    event_match_free(t->match);
}

/*
 * The verdict after so many blocks, of which zstd's search is said to have made `size` bytes each.
 * Ours makes less than a block of text that comes again and again.
 */
static enum trial_verdict tried(size_t size, unsigned blocks, bool events)
{
    static uint8_t bytes[BLOCK_SIZE];
    const struct stream_block block = {
        .bytes = bytes, .len = sizeof bytes, .first = 0, .end = events ? sizeof bytes : 0};
    enum trial_verdict verdict = TRIAL_OPEN;
    struct tested t;
    tested_init(&t);
    memset(bytes, 'x', sizeof bytes);
    for (unsigned i = 0; i < blocks; i++) {
        assert_int_equal(verdict, TRIAL_OPEN);
        verdict = match_trial_block(t.trial, &block, events, size);
    }
    tested_release(&t);
    return verdict;
}

static void test_the_smaller_one_is_taken(void **state)
{
    (void)state;
    assert_int_equal(tried(1, BLOCKS, true), TRIAL_ZSTDS);
    assert_int_equal(tried(BLOCK_SIZE, BLOCKS, true), TRIAL_OURS);
}

static void test_too_few_blocks_say_nothing(void **state)
{
    (void)state;
    assert_int_equal(tried(1, BLOCKS - 1, true), TRIAL_OPEN);
    assert_int_equal(tried(BLOCK_SIZE, BLOCKS - 1, true), TRIAL_OPEN);
}

static void test_other_blocks_do_not_count(void **state)
{
    (void)state;
    assert_int_equal(tried(1, 3 * BLOCKS, false), TRIAL_OPEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_smaller_one_is_taken),
        cmocka_unit_test(test_too_few_blocks_say_nothing),
        cmocka_unit_test(test_other_blocks_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
