/* The log of a stream's steps: what is read is what was put, from memory and from the file. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analysis/figures/stream_log.h"

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 16;
}

/* The n-th portion: of all lengths and widths, the widest ones too. */
static void make(struct log_steps *s, uint64_t number)
{
    uint64_t seed = number + 1;
    unsigned what_bits = (unsigned)(number % 27);
    unsigned size_bits = (unsigned)(number / 27 % 49);
    *s = (struct log_steps){.n = (uint32_t)(number * 37 % LOG_RUN) + 1};
    for (uint32_t i = 0; i < s->n; i++) {
        s->what[i] = (uint32_t)(next_random(&seed) & ((UINT64_C(1) << what_bits) - 1));
        s->size[i] = next_random(&seed) & ((UINT64_C(1) << size_bits) - 1);
        s->any_what |= s->what[i];
        s->any_size |= s->size[i];
    }
}

static void check_portion(const struct log_steps *got, uint64_t number)
{
    struct log_steps wanted;
    make(&wanted, number);
    assert_int_equal(got->n, wanted.n);
    for (uint32_t i = 0; i < wanted.n; i++) {
        assert_int_equal(got->what[i], wanted.what[i]);
        assert_true(got->size[i] == wanted.size[i]);
    }
}

static void put_portions(struct stream_log *l, uint64_t first, uint64_t end)
{
    struct err e = {0};
    for (uint64_t i = first; i < end; i++) {
        struct log_steps s;
        make(&s, i);
        uint64_t before = l->len, n = s.n;
        assert_int_equal(stream_log_put(l, &s, &e), 0);
        assert_int_equal(s.n, 0);
        assert_true(l->len == before + n);
    }
}

static void read_portions(const struct stream_log *l, struct log_place from, struct log_place to,
                          uint64_t first, uint64_t end)
{
    struct log_reader r;
    struct log_steps s;
    struct err e = {0};
    log_reader_init(&r, l, from, to);
    for (uint64_t i = first; i < end; i++) {
        assert_int_equal(log_reader_next(&r, &s, &e), 0);
        check_portion(&s, i);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(log_reader_next(&r, &s, &e), 0);
        assert_int_equal(s.n, 0);
    }
    log_reader_release(&r);
}

static void check_log(size_t budget, bool filed)
{
    struct spool spool;
    struct stream_log l;
    struct log_place places[4];
    static const uint64_t portions[] = {0, 700, 701, 5000};
    assert_int_equal(spool_init(&spool, NULL, budget, NULL), 0);
    stream_log_init(&l, &spool);
    places[0] = stream_log_end(&l);
    for (unsigned i = 1; i < 4; i++) {
        put_portions(&l, portions[i - 1], portions[i]);
        places[i] = stream_log_end(&l);
    }
    assert_int_equal(spool.fd >= 0, filed);
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned k = i; k < 4; k++)
            read_portions(&l, places[i], places[k], portions[i], portions[k]);
    }
    stream_log_release(&l);
    spool_release(&spool);
}

static void test_in_memory(void **state)
{
    (void)state;
    check_log((size_t)64 << 20, false);
}

static void test_in_a_file(void **state)
{
    (void)state;
    check_log((size_t)1 << 20, true);
    check_log(0, true);
}

static void test_nothing(void **state)
{
    (void)state;
    struct spool spool;
    struct stream_log l;
    struct log_steps s = {0};
    assert_int_equal(spool_init(&spool, NULL, 0, NULL), 0);
    stream_log_init(&l, &spool);
    assert_int_equal(stream_log_put(&l, &s, NULL), 0);
    read_portions(&l, stream_log_end(&l), stream_log_end(&l), 0, 0);
    stream_log_release(&l);
    spool_release(&spool);
}

static void test_no_place_for_the_file(void **state)
{
    (void)state;
    struct spool spool;
    struct stream_log l;
    struct err e = {0};
    int status = 0;
    assert_int_equal(spool_init(&spool, "/nowhere/at/all", 0, NULL), 0);
    stream_log_init(&l, &spool);
    for (uint64_t i = 0; i < 5000 && status == 0; i++) {
        struct log_steps s;
        make(&s, i);
        status = stream_log_put(&l, &s, &e);
    }
    assert_int_equal(status, -1);
    assert_int_equal(e.code, ERR_OUTPUT);
    stream_log_release(&l);
    spool_release(&spool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_memory),
        cmocka_unit_test(test_in_a_file),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_no_place_for_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
