/* The table of call stack nodes, without the recording that it is part of. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <setjmp.h>

#include <cmocka.h>

#include "client/stacks.c" /* its folder is no library */

#define NODES 200000u
#define CHAIN_MOST 16u

struct state state;

void *chunks_memory(size_t bytes)
{
    return calloc(1, bytes);
}

struct rec_chunk *chunks_take(enum rec_chunk_kind kind, uint32_t units)
{
    assert_int_equal(kind, REC_CHUNK_NODES);
    return calloc(units, REC_UNIT);
}

void chunks_publish(struct rec_chunk *chunk)
{
    assert_non_null(chunk);
}

/* What system_unmap of real mappings would free. */
static void free_all(void)
{
    for (size_t i = 0; i < CLIENT_NODE_CHUNKS && state.nodes[i]; i++)
        free((struct rec_chunk *)state.nodes[i] - 1);
    for (size_t i = 0; i < CLIENT_HEAD_TABLES; i++)
        free(state.heads[i]);
    state = (struct state){.phase = PHASE_ON};
}

static void begin(void)
{
    free_all();
    assert_int_equal(stacks_begin(), 0);
    state.head_mask = HEADS_LEAST - 1; /* few chains, so that few nodes are many */
}

/* A tree of calls: each node calls two others. */
static void add_all(void)
{
    for (uint32_t i = 1; i <= NODES; i++)
        assert_int_equal(stacks_node(i / 2, 0x400000 + i % 2 * 16), i);
}

static uint32_t longest_chain(void)
{
    uint32_t longest = 0;
    for (unsigned table = 0; table < CLIENT_HEAD_TABLES && state.heads[table]; table++) {
        for (uint32_t i = 0; i <= mask_of(table); i++) {
            uint32_t length = 0;
            for (uint32_t n = state.heads[table][i]; n; n = node_at(n)->next)
                length++;
            longest = length > longest ? length : longest;
        }
    }
    return longest;
}

static void test_chains_stay_short(void **unused)
{
    (void)unused;
    begin();
    add_all();
    add_all(); /* finds each in whichever table it is */
    assert_int_equal(state.node_count, NODES);
    assert_in_range(longest_chain(), 1, CHAIN_MOST);
    stacks_renew();
    assert_int_equal(longest_chain(), 0);
    free_all();
}

static void test_a_limit_of_memory(void **unused)
{
    (void)unused;
    begin();
    state.heads_most = bytes_of(1);
    add_all();
    add_all();
    assert_non_null(state.heads[1]);
    assert_null(state.heads[2]);
    free_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains_stay_short),
        cmocka_unit_test(test_a_limit_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
