/* Memory events in runs of any length, against the same events one by one. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "trace/ingest/ingest.h"
#include "trace/save/save.h"
#include "trace_test.h"

#define EVENTS 30000u
#define POOLS 40u /* more than the ingest remembers at a time */
#define THREADS 6u
#define STACKS 5u
#define PART_TIME 100000 /* ns: several parts */

struct history {
    struct trace t;
    struct ingest in;
    struct buf saved; /* every part's file */
    unsigned parts;
    uint32_t stacks[STACKS + 1]; /* [0]: none */
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int save_part(void *ctx, struct err *e)
{
    struct history *h = ctx;
    struct trace_writer *w = NULL;
    struct block_sink blocks = {.ctx = &h->saved, .put = put_block_to_buf};
    assert_int_equal(trace_writer_open_inner(&w, NULL, blocks, e), 0);
    struct record_sink sink = trace_writer_sink(w);
    assert_int_equal(trace_save(&h->t, &sink, e), 0);
    assert_int_equal(trace_writer_finish(w, NULL, e), 0);
    trace_writer_free(w);
    h->parts++;
    return 0;
}

static void history_init(struct history *h)
{
    struct err e = {0};
    memset(h, 0, sizeof *h);
    struct trace_options small = {.resident_budget = 1 << 20};
    assert_int_equal(trace_init(&h->t, &small, &e), 0);
    assert_int_equal(ingest_init(&h->in, &h->t, &e), 0);
    uint32_t frame = strings_intern(&h->t.strings, view_of("Frame"), &e);
    assert_int_equal(strings_bind(&h->t.strings, 0, frame, &e), 0);
    h->in.time_limit = PART_TIME;
    h->in.part_full = save_part;
    h->in.part_full_ctx = h;
    for (uint64_t i = 1; i <= STACKS; i++) {
        bool fresh;
        const uint64_t frames[] = {0x1000 * i, 0x77};
        assert_int_equal(h->in.sink.callstack(h->in.sink.ctx, frames, 2, &h->stacks[i], &fresh, &e),
                         0);
    }
}

static void history_release(struct history *h)
{
    ingest_release(&h->in);
    trace_release(&h->t);
    buf_release(&h->saved);
}

/* Few addresses, so that many events are faults; times that fall back and jump beyond a part. */
static void make_events(struct memory_event *events, size_t n, uint64_t seed,
                        const struct history *h)
{
    uint64_t random = seed;
    int64_t time = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t r = next_random(&random);
        bool is_alloc = r % 2;
        time += (int64_t)(r >> 8) % 40 - 5;
        if (r >> 16 & 0x1fff) {
            events[i] = (struct memory_event){.kind = is_alloc ? EVENT_MEM_ALLOC : EVENT_MEM_FREE};
        } else {
            events[i] = (struct memory_event){.kind = EVENT_MEM_ALLOC};
            time += PART_TIME / 2;
        }
        events[i].time = time;
        events[i].thread = 1 + (r >> 32) % THREADS;
        events[i].callstack = h->stacks[(r >> 36) % (STACKS + 1)];
        events[i].pool = (r >> 40) % POOLS * 32;
        events[i].ptr = (r >> 48) % 300 * 16;
        events[i].size = events[i].kind == EVENT_MEM_ALLOC ? r >> 50 : 0;
    }
}

static void assert_same(const struct history *a, const struct history *b)
{
    const struct memory *m = &a->t.memory, *other = &b->t.memory;
    assert_int_equal(a->parts, b->parts);
    assert_int_equal(a->saved.len, b->saved.len);
    assert_memory_equal(a->saved.data, b->saved.data, a->saved.len);
    assert_int_equal(m->unknown_frees, other->unknown_frees);
    assert_int_equal(m->null_frees, other->null_frees);
    assert_int_equal(m->double_allocations, other->double_allocations);
    assert_int_equal(m->faults.len, other->faults.len);
    for (size_t i = 0; i < m->faults.len; i++) {
        assert_int_equal(m->faults.at[i].count, other->faults.at[i].count);
        assert_int_equal(m->faults.at[i].first[0].time, other->faults.at[i].first[0].time);
        assert_int_equal(m->faults.at[i].first[0].thread, other->faults.at[i].first[0].thread);
    }
}

static void runs_are_like_their_events(void **state)
{
    (void)state;
    struct memory_event *events = malloc(EVENTS * sizeof *events);
    assert_non_null(events);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct history single, runs;
        struct err e = {0};
        uint64_t random = seed;
        history_init(&single);
        history_init(&runs);
        make_events(events, EVENTS, seed, &single);
        for (size_t i = 0; i < EVENTS; i++) {
            struct event ev = event_of_memory(&events[i]);
            assert_int_equal(single.in.sink.event(&single.in, &ev, &e), 0);
        }
        for (size_t i = 0, n; i < EVENTS; i += n) {
            n = 1 + next_random(&random) % 300;
            n = n < EVENTS - i ? n : EVENTS - i;
            assert_int_equal(runs.in.sink.memory(&runs.in, events + i, n, &e), 0);
        }
        assert_int_equal(save_part(&single, &e), 0);
        assert_int_equal(save_part(&runs, &e), 0);
        assert_true(single.parts > 2);
        assert_true(single.t.memory.faults.len > 0);
        assert_same(&single, &runs);
        history_release(&single);
        history_release(&runs);
    }
    free(events);
}

static void fail_strictly(struct history *h, const struct memory_event *events, size_t n,
                          const char *fault)
{
    struct err e = {0};
    history_init(h);
    h->in.strict = true;
    assert_int_equal(h->in.sink.memory(&h->in, events, n, &e), -1);
    assert_int_equal(e.code, ERR_CHECK);
    assert_non_null(strstr(e.text, fault));
}

/* Under --strict what stands before the fault is there, and what stands behind it is not. */
static void strict_runs_end_at_the_fault(void **state)
{
    (void)state;
    struct memory_event events[100];
    for (size_t fault = 1; fault < 100; fault++) {
        struct history h;
        for (size_t i = 0; i < 100; i++) {
            events[i] =
                (struct memory_event){.kind = EVENT_MEM_ALLOC, .time = (int64_t)i, .thread = 1};
            events[i].ptr = (i == fault ? 0 : i) * 16 + 16;
            events[i].size = 1;
        }
        fail_strictly(&h, events, 100, "MemAllocTwice");
        /* The one at fault is recorded, too, as it is when the capture goes on. */
        assert_int_equal(h.t.memory.pools.at[0]->totals.allocations, fault + 1);
        history_release(&h);
    }
}

/* Nor are pools made for what stands behind it. */
static void pools_are_made_when_their_turn_comes(void **state)
{
    (void)state;
    struct memory_event events[100];
    for (size_t fault = 0; fault < 100; fault++) {
        struct history h;
        for (size_t i = 0; i < 100; i++) {
            enum event_kind kind = i == fault ? EVENT_MEM_FREE : EVENT_MEM_ALLOC;
            events[i] =
                (struct memory_event){.kind = kind, .time = (int64_t)i, .thread = 1, .ptr = 16 + i};
            events[i].pool = 16 * (i / 3);
        }
        fail_strictly(&h, events, 100, "MemFree");
        assert_int_equal(h.t.memory.pools.len, fault / 3 + 1);
        uint64_t allocations = 0;
        for (size_t i = 0; i < h.t.memory.pools.len; i++)
            allocations += h.t.memory.pools.at[i]->totals.allocations;
        assert_int_equal(allocations, fault);
        history_release(&h);
    }
}

static uint32_t find_one(const struct callstacks *c, const uint64_t *ids, uint32_t n)
{
    struct sent_callstack sent = {.addresses = ids, .n = n, .id = 4711};
    callstacks_find(c, &sent, 1);
    return sent.id;
}

/* Both ways to look a call stack up, for all lengths; addresses with more bits than an id has. */
static void stacks_are_found_by_their_addresses(void **state)
{
    (void)state;
    struct callstacks c;
    struct err e = {0};
    uint64_t ids[CALLSTACKS_KEYS];
    assert_int_equal(callstacks_init(&c, &e), 0);
    for (uint32_t n = 1; n <= CALLSTACKS_KEYS; n++) {
        uint32_t id, again;
        bool fresh;
        for (uint32_t i = 0; i < n; i++)
            ids[i] = 0x1000 * n + i;
        assert_int_equal(find_one(&c, ids, n), 0);
        assert_int_equal(callstacks_intern(&c, ids, n, &id, &fresh, &e), 0);
        assert_true(fresh);
        assert_int_equal(find_one(&c, ids, n), id);
        for (uint32_t i = 0; i < n; i++) {
            ids[i] ^= 1u << 20;
            assert_int_equal(find_one(&c, ids, n), 0);
            ids[i] ^= 1u << 20 ^ UINT64_C(1) << 63;
            assert_int_equal(find_one(&c, ids, n), 0);
            ids[i] ^= UINT64_C(1) << 63;
        }
        /* The same bits sent as an address are another frame than the one described. */
        ids[n / 2] |= FRAME_ID_CUSTOM;
        assert_int_equal(callstacks_intern(&c, ids, n, &id, &fresh, &e), 0);
        assert_true(fresh);
        assert_int_equal(find_one(&c, ids, n), 0);
        assert_int_equal(callstacks_intern(&c, ids, n, &again, &fresh, &e), 0);
        assert_int_equal(again, id);
    }
    callstacks_release(&c);
}

/* Many at a time, known and unknown ones, some too deep to be found in this way. */
static void stacks_are_found_many_at_a_time(void **state)
{
    (void)state;
    enum { MANY = 200, DEEPEST = CALLSTACKS_KEYS + 20 };
    struct callstacks c;
    struct err e = {0};
    uint64_t(*ids)[DEEPEST] = calloc(MANY, sizeof *ids);
    struct sent_callstack sent[MANY];
    uint32_t known[MANY] = {0};
    assert_non_null(ids);
    assert_int_equal(callstacks_init(&c, &e), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        sent[i] =
            (struct sent_callstack){.addresses = ids[i], .n = 1 + i * 7 % DEEPEST, .id = 4711};
        for (uint32_t k = 0; k < sent[i].n; k++)
            ids[i][k] = 0x10000 * i + k;
        bool fresh;
        if (i % 3)
            assert_int_equal(callstacks_intern(&c, ids[i], sent[i].n, &known[i], &fresh, &e), 0);
    }
    callstacks_find(&c, sent, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(sent[i].id, sent[i].n <= CALLSTACKS_KEYS ? known[i] : 0);
    callstacks_release(&c);
    free(ids);
}

/* Stacks share the nodes that they have in common, in whatever order they come. */
static void stacks_share_their_nodes(void **state)
{
    (void)state;
    enum { DEPTH = 5, ALL = 1 << 2 * DEPTH, DEEP = 4000 };
    struct callstacks c;
    struct err e = {0};
    uint64_t ids[DEEP];
    uint32_t id;
    bool fresh;
    assert_int_equal(callstacks_init(&c, &e), 0);
    for (uint32_t i = 0; i < ALL; i++) {
        uint32_t digits = i * 389 % ALL; /* each number once */
        for (uint32_t k = 0; k < DEPTH; k++)
            ids[k] = digits >> 2 * k & 3;
        assert_int_equal(callstacks_intern(&c, ids, DEPTH, &id, &fresh, &e), 0);
        assert_true(fresh);
    }
    assert_int_equal(c.nodes.len, 1 + 4 + 16 + 64 + 256 + 1024);
    /* The hash has one entry at most for a new stack, however deep. */
    size_t count = c.children_count;
    for (uint32_t k = 0; k < DEEP; k++)
        ids[k] = k + 7;
    assert_int_equal(callstacks_intern(&c, ids, DEEP, &id, &fresh, &e), 0);
    assert_true(c.children_count <= count + 1);
    callstacks_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_like_their_events),
        cmocka_unit_test(strict_runs_end_at_the_fault),
        cmocka_unit_test(pools_are_made_when_their_turn_comes),
        cmocka_unit_test(stacks_are_found_by_their_addresses),
        cmocka_unit_test(stacks_are_found_many_at_a_time),
        cmocka_unit_test(stacks_share_their_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
