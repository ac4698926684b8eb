/* Sorting lines in bounded memory: any size against any capacity, also lines larger than it. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/line_sort.h"

#define LINES_MAX 3000u

struct line {
    size_t len;
    uint8_t bytes[64];
};

struct lines {
    size_t n;
    struct line at[LINES_MAX];
};

static int compare(const void *a, const void *b)
{
    const struct line *x = a;
    const struct line *y = b;
    size_t len = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->bytes, y->bytes, len);
    return order != 0 ? order : x->len < y->len ? -1 : x->len > y->len;
}

/* Lines of which many begin alike; `spread` small: many are equal. */
static void fill(struct lines *l, size_t n, unsigned spread, uint64_t seed)
{
    uint64_t x = seed * 2654435761u + 88172645463325252u;
    l->n = n;
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memset(&l->at[i], 0, sizeof l->at[i]);
        l->at[i].len = (x >> 40) % 40;
        for (size_t k = 0; k < l->at[i].len; k++)
            l->at[i].bytes[k] = (uint8_t)(k < 12 ? 7 : (x >> 20) % spread);
    }
}

struct seen {
    const struct lines *expected;
    size_t n;
};

static int check_line(void *ctx, struct view line, struct err *e)
{
    struct seen *s = ctx;
    (void)e;
    assert_true(s->n < s->expected->n);
    const struct line *expected = &s->expected->at[s->n++];
    assert_int_equal(line.len, expected->len);
    if (line.len > 0)
        assert_memory_equal(line.p, expected->bytes, line.len);
    return 0;
}

static void add_all(struct line_sort *s, const struct lines *l)
{
    struct err e = {0};
    for (size_t i = 0; i < l->n; i++) {
        const char *p = (const char *)l->at[i].bytes;
        size_t key = l->at[i].len / 3;
        struct view head = {p, key}, tail = {p + key, l->at[i].len - key};
        assert_int_equal(line_sort_add(s, head, tail, &e), 0);
    }
}

static void check_sort(size_t n, unsigned spread, size_t capacity, bool sorted_input)
{
    static struct lines lines, expected;
    struct line_sort s;
    struct err e = {0};
    line_sort_init(&s, capacity, NULL);
    for (uint64_t round = 1; round <= 2; round++) { /* a drained sort can be used again */
        fill(&lines, n, spread, round);
        expected = lines;
        qsort(expected.at, n, sizeof expected.at[0], compare);
        add_all(&s, sorted_input ? &expected : &lines);
        if (sorted_input)
            assert_true(s.runs.len <= 1);
        struct seen seen = {&expected, 0};
        assert_int_equal(line_sort_drain(&s, check_line, &seen, &e), 0);
        assert_int_equal(seen.n, n);
    }
    line_sort_release(&s);
}

static void test_sorts(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 100, LINES_MAX};
    static const size_t capacities[] = {1, 100, 1000, 20000, 0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t k = 0; k < sizeof capacities / sizeof capacities[0]; k++) {
            check_sort(sizes[i], 256, capacities[k], false);
            check_sort(sizes[i], 2, capacities[k], false);
            check_sort(sizes[i], 256, capacities[k], true);
        }
    }
}

struct letters {
    size_t len;
    char next;
};

static int check_letter(void *ctx, struct view line, struct err *e)
{
    struct letters *l = ctx;
    (void)e;
    assert_int_equal(line.len, l->len + 1);
    assert_int_equal(line.p[0], 'k');
    for (size_t i = 1; i <= l->len; i++)
        assert_int_equal(line.p[i], l->next);
    l->next++;
    return 0;
}

/* A line may be larger than the capacity and than what is read of a run at once. */
static void test_long_lines(void **state)
{
    (void)state;
    struct line_sort s;
    struct err e = {0};
    struct letters letters = {100000, 'a'};
    char *bytes = malloc(letters.len);
    assert_non_null(bytes);
    line_sort_init(&s, 1000, NULL);
    for (char c = 'z'; c >= 'a'; c--) {
        memset(bytes, c, letters.len);
        struct view text = {bytes, letters.len};
        assert_int_equal(line_sort_add(&s, view_of("k"), text, &e), 0);
    }
    assert_int_equal(s.runs.len, 25);
    assert_int_equal(line_sort_drain(&s, check_letter, &letters, &e), 0);
    assert_int_equal(letters.next, 'z' + 1);
    free(bytes);
    line_sort_release(&s);
}

static int refuse(void *ctx, struct view line, struct err *e)
{
    (void)line;
    int *left = ctx;
    return --*left > 0 ? 0 : err_set(e, ERR_OUTPUT, "full");
}

static void test_an_error_of_the_taker(void **state)
{
    (void)state;
    static struct lines lines;
    fill(&lines, 500, 256, 1);
    for (size_t capacity = 100; capacity <= 1000000; capacity *= 10000) {
        struct line_sort s;
        struct err e = {0};
        int left = 20;
        line_sort_init(&s, capacity, NULL);
        add_all(&s, &lines);
        assert_int_equal(line_sort_drain(&s, refuse, &left, &e), -1);
        assert_int_equal(e.code, ERR_OUTPUT);
        assert_int_equal(left, 0);
        line_sort_release(&s);
    }
}

static void test_no_room_for_a_file(void **state)
{
    (void)state;
    static struct lines lines;
    struct line_sort s;
    struct err e = {0};
    int status = 0;
    fill(&lines, 100, 256, 1);
    line_sort_init(&s, 100, "/nowhere/at/all");
    for (size_t i = 0; i < lines.n && status == 0; i++)
        status = line_sort_add(&s, (struct view){(const char *)lines.at[i].bytes, lines.at[i].len},
                               view_of(""), &e);
    assert_int_equal(status, -1);
    assert_int_equal(e.code, ERR_OUTPUT);
    assert_non_null(strstr(e.text, "/nowhere/at/all"));
    line_sort_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sorts),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_an_error_of_the_taker),
        cmocka_unit_test(test_no_room_for_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
