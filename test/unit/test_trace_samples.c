/* Call stack samples, hardware samples, and byte strings by key. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "trace/store/keyed_blobs.h"
#include "trace/store/samples.h"

#define KERNEL_FRAME (UINT64_C(0x3) << 60 | 0x1234) /* of address 0xf000000000001234 */

struct fixture {
    struct spool spool;
    struct samples s;
    struct callstacks stacks;
    struct err e;
};

static void setup(struct fixture *f, size_t budget)
{
    memset(f, 0, sizeof *f);
    assert_int_equal(spool_init(&f->spool, NULL, budget, &f->e), 0);
    assert_int_equal(callstacks_init(&f->stacks, &f->e), 0);
    samples_init(&f->s, &f->spool);
}

static void teardown(struct fixture *f)
{
    samples_release(&f->s);
    callstacks_release(&f->stacks);
    spool_release(&f->spool);
}

/* A call stack of one frame, or of two when `outer` is not 0. */
static uint32_t stack(struct fixture *f, uint64_t inner, uint64_t outer)
{
    uint64_t frames[2] = {inner, outer};
    uint32_t id;
    bool fresh;
    assert_int_equal(callstacks_intern(&f->stacks, frames, outer ? 2 : 1, &id, &fresh, &f->e), 0);
    return id;
}

static void add(struct fixture *f, uint16_t thread, int64_t time, uint32_t callstack,
                bool at_switch)
{
    assert_int_equal(samples_add(&f->s, thread, time, callstack, at_switch, &f->stacks, &f->e), 0);
}

static void finish(struct fixture *f)
{
    assert_int_equal(samples_finish(&f->s, &f->stacks, NULL, &f->e), 0);
}

/* All of `sorted`, to be freed. */
static struct sample *sorted(struct fixture *f)
{
    struct sample *out = calloc((size_t)f->s.sorted.len + 1, sizeof *out);
    struct column_reader r;
    const struct sample *run;
    size_t n, at = 0;
    assert_non_null(out);
    column_reader_init(&r, &f->s.sorted);
    while ((run = column_reader_next(&r, &n, &f->e))) {
        memcpy(out + at, run, n * sizeof *run);
        at += n;
    }
    assert_int_equal(at, f->s.sorted.len);
    column_reader_release(&r);
    return out;
}

static void each_thread_has_its_own_in_order(void **state)
{
    struct fixture f;
    (void)state;
    setup(&f, 1 << 20);
    uint32_t user = stack(&f, 0x1000, 0), kernel = stack(&f, KERNEL_FRAME, 0x1000);
    add(&f, 5, 30, user, false);
    add(&f, 2, 10, kernel, true);
    add(&f, 5, 20, kernel, false); /* late */
    add(&f, 2, 15, user, false);
    assert_int_equal(samples_of(&f.s, 5).samples, 0); /* not known before the end */
    finish(&f);
    struct sample_thread two = samples_of(&f.s, 2), five = samples_of(&f.s, 5);
    assert_int_equal(two.samples, 2);
    assert_int_equal(two.switch_samples, 1);
    assert_int_equal(two.kernel, 1);
    assert_int_equal(five.samples, 2);
    assert_int_equal(five.switch_samples, 0);
    assert_int_equal(five.kernel, 1);
    assert_int_equal(samples_of(&f.s, 3).samples, 0);
    assert_int_equal(samples_of(&f.s, 900).samples, 0);
    static const int64_t times[] = {10, 10, 15, 20, 30};
    struct sample *all = sorted(&f);
    assert_int_equal(f.s.sorted.len, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(all[i].time, times[i]);
    assert_int_equal(all[3].callstack, kernel);
    free(all);
    finish(&f); /* once more gives the same: a capture may go on after a part was saved */
    assert_int_equal(f.s.sorted.len, 5);
    samples_clear(&f.s);
    finish(&f);
    assert_int_equal(f.s.sorted.len, 0);
    teardown(&f);
}

static void samples_at_one_time_are_one(void **state)
{
    struct fixture f;
    (void)state;
    setup(&f, 1 << 20);
    uint32_t kernel = stack(&f, KERNEL_FRAME, 0), user = stack(&f, 0x1000, 0x2000);
    add(&f, 1, 10, user, true);
    add(&f, 1, 20, user, false);
    add(&f, 1, 10, kernel, false);
    add(&f, 1, 0, user, false); /* of unknown time: never joined */
    add(&f, 1, 0, user, false);
    finish(&f);
    struct sample_thread t = samples_of(&f.s, 1);
    assert_int_equal(t.samples, 4);
    assert_int_equal(t.switch_samples, 1);
    assert_int_equal(t.kernel, 0); /* what came first is innermost */
    struct sample *all = sorted(&f);
    assert_int_equal(all[0].callstack, user); /* the switch sample stays as it was */
    assert_int_equal(all[1].time, 0);
    assert_int_equal(all[3].time, 10);
    const struct callstack *both = callstacks_get(&f.stacks, all[3].callstack);
    assert_int_equal(both->len, 3);
    const struct callstack_node *node = &f.stacks.nodes.at[both->node];
    assert_int_equal(f.stacks.frames.at[node->frame].id, 0x1000);
    free(all);
    teardown(&f);
}

static void halves_of_a_sample_are_joined(void **state)
{
    struct fixture f;
    (void)state;
    setup(&f, 1 << 20);
    f.s.combine = true;
    uint32_t kernel = stack(&f, KERNEL_FRAME, 0), user = stack(&f, 0x1000, 0);
    add(&f, 1, 10, kernel, false);
    add(&f, 2, 10, user, false); /* another thread's */
    add(&f, 1, 10, user, false);
    add(&f, 1, 20, user, false);   /* has no other half */
    add(&f, 1, 30, kernel, false); /* held back for ever, as in the official server */
    add(&f, 1, 40, user, true);    /* those at switches are whole */
    finish(&f);
    struct sample_thread t = samples_of(&f.s, 1);
    assert_int_equal(t.samples, 3);
    assert_int_equal(t.kernel, 1);
    assert_int_equal(samples_of(&f.s, 2).samples, 0);
    struct sample *all = sorted(&f);
    assert_int_equal(callstacks_get(&f.stacks, all[1].callstack)->len, 2);
    assert_int_equal(all[2].time, 20);
    free(all);
    teardown(&f);
}

/* ---- many of them, against sorting in memory */

struct plain {
    int64_t time;
    uint32_t order;
    uint16_t thread;
};

static int compare_plain(const void *a, const void *b)
{
    const struct plain *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

#define MANY 700000u /* more than a sort keeps in memory */

static void many_samples_go_through_the_disk(void **state)
{
    struct fixture f;
    uint64_t seed = 7;
    (void)state;
    setup(&f, 1 << 16);
    uint32_t stacks[8];
    for (uint64_t i = 0; i < 8; i++)
        stacks[i] = stack(&f, 0x1000 + i, 0);
    struct plain *want = calloc(MANY, sizeof *want);
    assert_non_null(want);
    for (uint32_t i = 0; i < MANY; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        /* Times are distinct, so that nothing is joined; now and then one is late. */
        int64_t time = (int64_t)i * 10 + 1 - (seed >> 40 & 63 ? 0 : 5000 + (int64_t)(i % 5));
        want[i] = (struct plain){time, i, (uint16_t)(seed >> 33 & 15)};
        add(&f, want[i].thread, time, stacks[i % 8], false);
    }
    finish(&f);
    qsort(want, MANY, sizeof *want, compare_plain);
    struct sample *all = sorted(&f);
    size_t left = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        if (i && want[i].thread == want[i - 1].thread && want[i].time == want[i - 1].time)
            continue;
        assert_int_equal(all[left].time, want[i].time);
        left++;
    }
    assert_int_equal(left, f.s.sorted.len);
    free(all);
    free(want);
    teardown(&f);
}

/* ---- hardware samples */

struct hw_seen {
    uint64_t ips[4], counts[4][HW_COUNTERS];
    size_t n, lists, times;
    int64_t time[16];
};

static int see_address(void *ctx, const struct hw_address *hw, struct err *e)
{
    struct hw_seen *h = ctx;
    (void)e;
    assert_true(h->n < 4 && h->lists == h->n * HW_COUNTERS);
    h->ips[h->n] = hw->ip;
    memcpy(h->counts[h->n++], hw->counts, sizeof hw->counts);
    return 0;
}

static int see_list(void *ctx, uint64_t count, struct err *e)
{
    struct hw_seen *h = ctx;
    (void)e;
    assert_int_equal(count, h->counts[h->lists / HW_COUNTERS][h->lists % HW_COUNTERS]);
    h->lists++;
    return 0;
}

static int see_time(void *ctx, int64_t time, struct err *e)
{
    struct hw_seen *h = ctx;
    (void)e;
    assert_true(h->times < 16);
    h->time[h->times++] = time;
    return 0;
}

static void hardware_samples_by_address_and_counter(void **state)
{
    struct fixture f;
    struct hw_seen seen = {0};
    struct hw_sink to = {&seen, see_address, see_list, see_time};
    (void)state;
    setup(&f, 1 << 20);
    assert_int_equal(samples_walk_hw(&f.s, NULL, &to, &f.e), 0);
    assert_int_equal(seen.n, 0);
    static const struct {
        uint64_t ip;
        unsigned counter;
        int64_t time;
    } in[] = {{9, 5, 40}, {9, 0, 30}, {3, 1, 7}, {9, 0, 10}, {UINT64_MAX, 0, 1}, {9, 5, 0}};
    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++)
        assert_int_equal(samples_add_hw(&f.s, in[i].ip, in[i].counter, in[i].time, &f.e), 0);
    assert_int_equal(samples_walk_hw(&f.s, NULL, &to, &f.e), 0);
    assert_int_equal(seen.n, 3);
    assert_int_equal(seen.lists, 3 * HW_COUNTERS);
    assert_true(seen.ips[0] == 3 && seen.ips[1] == 9 && seen.ips[2] == UINT64_MAX);
    static const int64_t times[] = {7, 10, 30, 0, 40, 1};
    assert_int_equal(seen.times, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(seen.time[i], times[i]);
    teardown(&f);
}

/* ---- blobs */

static void blobs_come_back_in_order(void **state)
{
    struct fixture f;
    struct keyed_blobs b;
    char bytes[3000];
    (void)state;
    setup(&f, 1 << 12);
    keyed_blobs_init(&b, &f.spool);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    for (uint64_t key = 0; key < 3000; key++) {
        size_t len = (size_t)key; /* also the empty one, and all lengths beside words */
        assert_int_equal(keyed_blobs_add(&b, key * 3, (struct view){bytes + 3000 - len, len}, &f.e),
                         0);
        assert_int_equal(keyed_blobs_add(&b, key * 3, (struct view){bytes, 5}, &f.e), 0);
    }
    assert_int_equal(b.list.len, 3000);
    struct keyed_blobs_reader r;
    keyed_blobs_reader_init(&r, &b);
    uint64_t key;
    struct view v;
    for (uint64_t want = 0; want < 3000; want++) {
        assert_int_equal(keyed_blobs_next(&r, &key, &v, &f.e), 1);
        assert_int_equal(key, want * 3);
        assert_int_equal(v.len, want);
        assert_memory_equal(v.p, bytes + 3000 - want, want);
    }
    assert_int_equal(keyed_blobs_next(&r, &key, &v, &f.e), 0);
    keyed_blobs_reader_release(&r);
    keyed_blobs_release(&b);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_thread_has_its_own_in_order),
        cmocka_unit_test(samples_at_one_time_are_one),
        cmocka_unit_test(halves_of_a_sample_are_joined),
        cmocka_unit_test(many_samples_go_through_the_disk),
        cmocka_unit_test(hardware_samples_by_address_and_counter),
        cmocka_unit_test(blobs_come_back_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
