#ifndef TIDEMARK_TEST_SUMMARY_COMPARE_H
#define TIDEMARK_TEST_SUMMARY_COMPARE_H

/* Two summaries of the same trace, however they came about. Include after cmocka.h. */

#include <string.h>

#include "analysis/figures/summary.h"
#include "base/buf.h"

/*
 * Selects all blocks and counts as narrow: a summary of it is made by the sweep, never by the
 * counters that need no sweep.
 */
#define EVERY_BLOCK(POOL)                                                                          \
    (const struct selection_options)                                                               \
    {                                                                                              \
        .pool = (POOL), .has_size = true, .size_max = UINT64_MAX                                   \
    }

static inline void compare_views(struct view a, struct view b)
{
    assert_int_equal(a.len, b.len);
    assert_true(a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

static inline void compare_rows(const struct row_list *a, const struct row_list *b)
{
    assert_int_equal(a->len, b->len);
    for (size_t i = 0; i < a->len; i++) {
        const struct summary_row *x = &a->at[i];
        const struct summary_row *y = &b->at[i];
        assert_int_equal(x->pool, y->pool);
        assert_int_equal(x->key, y->key);
        assert_memory_equal(&x->figures, &y->figures, sizeof x->figures);
        compare_views(x->name, y->name);
        compare_views(x->frame.function, y->frame.function);
        compare_views(x->type, y->type);
        assert_int_equal(x->callstack, y->callstack);
        assert_int_equal(x->first_stack, y->first_stack);
        assert_int_equal(x->stack_count, y->stack_count);
        assert_int_equal(x->type_count, y->type_count);
    }
}

static inline void compare(struct summary *a, struct summary *b)
{
    assert_int_equal(a->pools.len, b->pools.len);
    for (size_t i = 0; i < a->pools.len; i++) {
        compare_views(a->pools.at[i].name, b->pools.at[i].name);
        assert_memory_equal(&a->pools.at[i].figures, &b->pools.at[i].figures,
                            sizeof a->pools.at[i].figures);
        assert_true(a->pools.at[i].low_address == b->pools.at[i].low_address);
        assert_true(a->pools.at[i].high_address == b->pools.at[i].high_address);
    }
    compare_rows(&a->sites, &b->sites);
    compare_rows(&a->groups, &b->groups);
    assert_int_equal(a->stacks.len, b->stacks.len);
    for (size_t i = 0; i < a->stacks.len; i++) {
        assert_int_equal(a->stacks.at[i].callstack, b->stacks.at[i].callstack);
        assert_memory_equal(&a->stacks.at[i].figures, &b->stacks.at[i].figures,
                            sizeof a->stacks.at[i].figures);
    }
    assert_int_equal(a->row_types.len, b->row_types.len);
    for (size_t i = 0; i < a->row_types.len; i++) {
        compare_views(a->row_types.at[i].name, b->row_types.at[i].name);
        assert_int_equal(a->row_types.at[i].count, b->row_types.at[i].count);
        assert_int_equal(a->row_types.at[i].bytes, b->row_types.at[i].bytes);
    }
    assert_memory_equal(&a->coverage, &b->coverage, sizeof a->coverage);
    assert_int_equal(a->matched_frees, b->matched_frees);
    assert_int_equal(a->total_bytes, b->total_bytes);
    assert_string_equal(buf_str(&a->verdict), buf_str(&b->verdict));
    assert_string_equal(buf_str(&a->answer), buf_str(&b->answer));
    assert_int_equal(a->checks.len, b->checks.len);
    for (size_t i = 0; i < a->checks.len; i++)
        assert_string_equal(a->checks.at[i].detail, b->checks.at[i].detail);
}

#endif
