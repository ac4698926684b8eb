/* New keys of strings and messages: unique, close together, and followed by what refers to them. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "trace/filter/rekey.h"

#define STRINGS 200u

struct seen {
    uint64_t strings[STRINGS], messages[STRINGS], values[STRINGS], links[STRINGS];
    size_t n[REC_TYPE_COUNT];
    struct rec_external_name name;
};

static int keep(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct seen *s = ctx;
    (void)e;
    for (size_t i = 0; i < n; i++) {
        size_t at = s->n[type]++;
        if (type == REC_STRING)
            s->strings[at] = ((const struct rec_string *)recs)[i].key;
        if (type == REC_MESSAGE)
            s->messages[at] = ((const struct rec_message *)recs)[i].key;
        if (type == REC_STRING_POINTER || type == REC_THREAD_NAME)
            s->values[at] = ((const struct rec_pair *)recs)[i].value;
        if (type == REC_THREAD_MESSAGE)
            s->links[at] = ((const struct rec_id *)recs)[i].id;
        if (type == REC_EXTERNAL_NAME)
            s->name = *(const struct rec_external_name *)recs;
    }
    return 0;
}

/* Far apart and in no order, as addresses of a long capture are. */
static uint64_t old_key(size_t i)
{
    return 0x5500000000u + i * 7919 % STRINGS * 4096;
}

static void put_tables(struct record_sink *sink, uint64_t announced)
{
    struct rec_string strings[STRINGS];
    struct rec_message messages[STRINGS] = {0};
    struct rec_count n = {announced};
    struct err e = {0};
    for (size_t i = 0; i < STRINGS; i++) {
        strings[i] = (struct rec_string){old_key(i), view_of("seven b")};
        messages[i].key = old_key(i) + 1;
    }
    strings[3].key = strings[2].key; /* readers take one of the two */
    assert_int_equal(record_put(sink, REC_STRINGS, &n, 1, &e), 0);
    assert_int_equal(record_put(sink, REC_STRING, strings, STRINGS, &e), 0);
    assert_int_equal(record_put(sink, REC_MESSAGES, &n, 1, &e), 0);
    assert_int_equal(record_put(sink, REC_MESSAGE, messages, STRINGS, &e), 0);
}

static void test_references_follow(void **state)
{
    (void)state;
    struct seen s = {0};
    struct record_sink to = {&s, keep};
    struct rec_external_name name = {9, old_key(4), old_key(199)};
    struct rec_pair pair = {old_key(4), old_key(4)}; /* only the value is a string's key */
    struct rec_id link = {old_key(150) + 1};
    struct rekey r;
    struct err e = {0};
    rekey_init(&r, &to);
    struct record_sink sink = rekey_sink(&r);
    put_tables(&sink, STRINGS);
    assert_int_equal(record_put(&sink, REC_STRING_POINTER, &pair, 1, &e), 0);
    assert_int_equal(record_put(&sink, REC_EXTERNAL_NAME, &name, 1, &e), 0);
    assert_int_equal(record_put(&sink, REC_THREAD_MESSAGE, &link, 1, &e), 0);
    assert_int_equal(s.n[REC_STRING], STRINGS);
    assert_int_equal(s.strings[3], s.strings[2]);
    for (size_t i = 1; i < STRINGS; i++) {
        assert_int_equal(s.strings[i] - s.strings[i - 1], i == 3 ? 0 : sizeof "seven b");
        assert_int_equal(s.messages[i] - s.messages[i - 1], MESSAGE_KEY_STEP);
    }
    assert_int_equal(s.values[0], s.strings[4]);
    assert_int_equal(s.name.program_key, s.strings[4]);
    assert_int_equal(s.name.thread_key, s.strings[199]);
    assert_int_equal(s.links[0], s.messages[150]);
    rekey_release(&r);
}

/* A reference to nothing stays one. */
static void test_unknown_keys(void **state)
{
    (void)state;
    struct seen s = {0};
    struct record_sink to = {&s, keep};
    struct rec_pair names[] = {{1, 0x1234}, {2, STRING_KEYS_BEGIN}, {3, STRING_KEYS_BEGIN - 1}};
    struct rec_id link = {MESSAGE_KEYS_BEGIN + MESSAGE_KEY_STEP};
    struct rekey r;
    struct err e = {0};
    rekey_init(&r, &to);
    struct record_sink sink = rekey_sink(&r);
    put_tables(&sink, STRINGS);
    assert_int_equal(record_put(&sink, REC_THREAD_NAME, names, 3, &e), 0);
    assert_int_equal(record_put(&sink, REC_THREAD_MESSAGE, &link, 1, &e), 0);
    assert_int_equal(s.values[0], 0x1234);
    assert_int_equal(s.values[1], 0);
    assert_int_equal(s.values[2], STRING_KEYS_BEGIN - 1);
    assert_int_equal(s.links[0], 0);
    rekey_release(&r);
}

/* However many there are. */
static void test_large_tables(void **state)
{
    (void)state;
    struct seen s = {0};
    struct record_sink to = {&s, keep};
    struct rec_id link = {old_key(150) + 1};
    struct rekey r;
    struct err e = {0};
    rekey_init(&r, &to);
    struct record_sink sink = rekey_sink(&r);
    put_tables(&sink, UINT32_MAX);
    assert_int_equal(record_put(&sink, REC_THREAD_MESSAGE, &link, 1, &e), 0);
    assert_int_equal(s.strings[0], STRING_KEYS_BEGIN);
    for (size_t i = 1; i < STRINGS; i++)
        assert_int_equal(s.messages[i] - s.messages[i - 1], MESSAGE_KEY_STEP);
    assert_int_equal(s.links[0], s.messages[150]);
    rekey_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_references_follow),
        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_large_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
