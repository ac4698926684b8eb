/* base: maps, columns with a spool, output files. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/blobs.h"
#include "base/buf.h"
#include "base/cursor.h"
#include "base/digits.h"
#include "base/map.h"
#include "base/outfile.h"
#include "base/pack.h"
#include "base/slab.h"
#include "base/spool.h"

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void cursor_never_reads_past_its_end(void **state)
{
    (void)state;
    const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    struct cursor c = cursor_over(bytes, sizeof bytes);
    assert_int_equal(cursor_u32(&c), 0x04030201);
    assert_int_equal(cursor_left(&c), 5);
    assert_true(cursor_u64(&c) == 0);
    assert_true(c.short_read);
    assert_int_equal(cursor_offset(&c), 4);
    assert_int_equal(cursor_u8(&c), 5);
}

static void map_agrees_with_a_plain_array(void **state)
{
    (void)state;
    enum { KEYS = 5000 };
    static uint64_t expected[KEYS];
    struct map m = {0};
    uint64_t seed = 1;
    size_t distinct = 0;
    memset(expected, 0, sizeof expected);
    assert_null(map_find(&m, 7));
    for (int i = 0; i < 40000; i++) {
        uint64_t key = next_random(&seed) % KEYS;
        bool fresh;
        uint64_t *value = map_add(&m, key << 32, &fresh);
        assert_non_null(value);
        assert_int_equal(fresh, expected[key] == 0);
        distinct += fresh;
        *value = expected[key] = next_random(&seed) + 1;
    }
    assert_int_equal(m.count, distinct);
    size_t walked = 0, iter = 0;
    for (const struct map_slot *s; (s = map_next(&m, &iter)); walked++)
        assert_true(s->value == expected[s->key >> 32]);
    assert_int_equal(walked, distinct);
    map_release(&m);
}

static const struct pack_layout plain_layout = {8, 1, {{0, 8, PACK_STEP}}};
static const struct pack_layout patched_layout = {
    12, 3, {{0, 4, PACK_OFFSET}, {4, 4, PACK_OFFSET}, {8, 4, PACK_STEP}}};

/* Every field width, with values at the ends of their range, in runs of every kind of length. */
static void packing_is_lossless(void **state)
{
    (void)state;
    static const struct pack_layout layout = {25,
                                              5,
                                              {{0, 8, PACK_OFFSET},
                                               {8, 8, PACK_STEP},
                                               {16, 6, PACK_STEP},
                                               {22, 2, PACK_OFFSET},
                                               {24, 1, PACK_OFFSET}}};
    static const size_t lengths[] = {0, 1, 2, 255, 256, 257, 1000, 5000};
    uint64_t seed = 7;
    for (size_t round = 0; round < 60; round++) {
        size_t n = lengths[round % 8];
        uint8_t *in = malloc(n * 25 + 1);
        uint8_t *out = calloc(n * 25 + 1, 1);
        uint8_t *packed = malloc(pack_bound(&layout, n));
        uint64_t time = 0;
        for (size_t i = 0; i < n; i++) {
            uint8_t *p = in + i * 25;
            unsigned width = (unsigned)(next_random(&seed) % 65);
            uint64_t wide = next_random(&seed) << 40 ^ next_random(&seed) << 13;
            time += next_random(&seed) % 1000;
            store_u64(p, width == 0 ? 0 : round % 3 ? wide >> (64 - width) : UINT64_MAX);
            store_u64(p + 8, round % 2 ? time : wide);
            store_u48(p + 16, round % 4 ? time * 3 : wide);
            store_u16(p + 22, (uint16_t)(round % 5 ? wide % 3 : wide));
            p[24] = (uint8_t)wide;
        }
        size_t len = pack_elements(&layout, in, n, packed);
        assert_true(len <= pack_bound(&layout, n));
        /* A copy of exact size: under ASan nothing beyond it may be read. */
        uint8_t *exact = malloc(len);
        memcpy(exact, packed, len);
        unpack_elements(&layout, exact, n, out);
        assert_memory_equal(in, out, n * 25);
        free(exact);
        free(packed);
        free(out);
        free(in);
    }
}

/* Nothing is read beyond the elements, however small they are. */
static void small_elements_pack_exactly(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (uint8_t size = 1; size <= 12; size++) {
        struct pack_layout l = {.element = size, .count = 1, .fields = {{0, size, PACK_OFFSET}}};
        if (size > 8)
            l = (struct pack_layout){
                .element = size,
                .count = 2,
                .fields = {{0, 8, PACK_STEP}, {8, (uint8_t)(size - 8), PACK_OFFSET}}};
        for (size_t n = 1; n < 300; n += 1 + n / 7) {
            uint8_t *elements = malloc(n * size), *back = malloc(n * size);
            uint8_t *packed = malloc(pack_bound(&l, n));
            assert_true(elements && back && packed);
            for (size_t i = 0; i < n * size; i++)
                elements[i] = (uint8_t)next_random(&seed);
            assert_true(pack_elements(&l, elements, n, packed) <= pack_bound(&l, n));
            unpack_elements(&l, packed, n, back);
            assert_memory_equal(back, elements, n * size);
            free(elements);
            free(back);
            free(packed);
        }
    }
}

static void entries_leave_a_map(void **state)
{
    (void)state;
    enum { KEYS = 300 };
    uint64_t expected[KEYS] = {0}, seed = 2;
    struct map m = {0};
    size_t count = 0;
    map_remove(&m, 7);
    for (int i = 0; i < 100000; i++) {
        uint64_t key = next_random(&seed) % KEYS;
        if (next_random(&seed) % 2) {
            uint64_t *value = map_add(&m, key, NULL);
            assert_non_null(value);
            count += expected[key] == 0;
            *value = expected[key] = (uint64_t)i + 1;
        } else {
            map_remove(&m, key);
            count -= expected[key] != 0;
            expected[key] = 0;
        }
        assert_int_equal(m.count, count);
        key = next_random(&seed) % KEYS;
        const uint64_t *found = map_find(&m, key);
        assert_true(found ? *found == expected[key] : expected[key] == 0);
    }
    for (uint64_t key = 0; key < KEYS; key++)
        assert_int_equal(map_find(&m, key) != NULL, expected[key] != 0);
    map_release(&m);
}

/* The most slots in a row that a look-up may have to pass. */
static size_t map_longest_run(const struct map *m)
{
    size_t run = 0, longest = 0;
    for (size_t i = 0; i <= m->mask; i++) {
        run = m->used[i] ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

/* However full a map is, a copy that grows with its entries finds room near where they belong. */
static void a_map_is_copied_without_long_searches(void **state)
{
    (void)state;
    for (uint64_t percent = 40; percent < 75; percent += 5) {
        struct map m = {0}, copy = {0};
        size_t iter = 0;
        for (uint64_t i = 0; i < (UINT64_C(1) << 17) * percent / 100; i++)
            assert_non_null(map_add(&m, i, NULL));
        for (const struct map_slot *s; (s = map_next(&m, &iter));) {
            bool full = copy.count == (copy.mask + 1) / 4 * 3;
            if (full && copy.mask > 1u << 14)
                assert_in_range(map_longest_run(&copy), 1, copy.mask / 32);
            assert_non_null(map_add(&copy, s->key, NULL));
        }
        assert_int_equal(copy.count, m.count);
        map_release(&copy);
        map_release(&m);
    }
}

/* Two columns on one small spool: most chunks go to disk, and patches reach them there. */
static void columns_keep_every_element(void **state)
{
    (void)state;
    enum { N = 500000 };
    struct spool s;
    struct column plain, patched;
    struct err e = {0};
    assert_int_equal(spool_init(&s, "/tmp", 2u << 20, &e), 0);
    column_init(&plain, &s, &plain_layout, false);
    column_init(&patched, &s, &patched_layout, true);
    uint32_t *expected = calloc(N, sizeof *expected);
    uint64_t seed = 42;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t *a = column_append(&plain, &e);
        assert_non_null(a);
        *a = i * 3;
        uint8_t *b = column_append(&patched, &e);
        assert_non_null(b);
        memset(b, 0, 12);
        for (int k = 0; k < 2; k++) {
            uint64_t at = next_random(&seed) % (i + 1);
            uint8_t element[12] = {0};
            store_u32(element + 4, expected[at] = (uint32_t)next_random(&seed));
            assert_int_equal(column_patch(&patched, at, element, &e), 0);
        }
    }
    assert_true(s.fd >= 0);
    assert_true(s.raw.bytes <= s.raw_budget && s.packed.bytes <= s.packed_budget);
    struct column_reader ra, rb;
    column_reader_init(&ra, &plain);
    column_reader_init(&rb, &patched);
    uint64_t seen = 0;
    size_t n, m;
    const uint64_t *a;
    while ((a = column_reader_next(&ra, &n, &e))) {
        const uint8_t *b = column_reader_next(&rb, &m, &e);
        assert_non_null(b);
        assert_int_equal(n, m);
        for (size_t i = 0; i < n; i++, seen++) {
            assert_true(a[i] == seen * 3);
            assert_int_equal(load_u32(b + i * 12 + 4), expected[seen]);
        }
    }
    assert_int_equal(seen, N);
    assert_int_equal(e.code, ERR_NONE);
    column_reader_release(&ra);
    column_reader_release(&rb);
    column_release(&plain);
    column_release(&patched);
    spool_release(&s);
    free(expected);
}

/* Bytes of blob `i`: some compress, some do not, one is larger than the buffer. */
static size_t fill_blob(uint8_t *out, unsigned i)
{
    size_t n = i == 7 ? 2 * BLOBS_BUFFER : (size_t)i * 37 % 9000;
    uint64_t seed = i;
    for (size_t k = 0; k < n; k++)
        out[k] = i % 3 == 0 ? (uint8_t)(k / 50) : (uint8_t)next_random(&seed);
    return n;
}

static void blobs_come_back(void **state)
{
    (void)state;
    enum { N = 900 };
    static struct blob blobs[N];
    struct spool s;
    struct blobs b;
    struct err e = {0};
    uint8_t *bytes = malloc(2 * BLOBS_BUFFER), *back = malloc(2 * BLOBS_BUFFER);
    assert_true(bytes && back);
    assert_int_equal(spool_init(&s, NULL, 1u << 20, &e), 0);
    blobs_init(&b, &s);
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < N; i++) {
            size_t n = fill_blob(bytes, i);
            assert_int_equal(blobs_add(&b, bytes, (uint32_t)n, &blobs[i], &e), 0);
            assert_int_equal(blobs[i].size, n);
            assert_true(blobs[i].stored <= n);
        }
        assert_true(blobs[3].stored < blobs[3].size);
        assert_true(b.runs.len > 2);
        for (unsigned i = N; i-- > 0;) {
            size_t n = fill_blob(bytes, i);
            assert_int_equal(blobs_get(&b, &blobs[i], back, &e), 0);
            assert_memory_equal(back, bytes, n);
        }
        blobs_clear(&b);
    }
    blobs_release(&b);
    spool_release(&s);
    free(bytes);
    free(back);
}

static void few_blobs_make_no_file(void **state)
{
    (void)state;
    struct spool s;
    struct blobs b;
    struct blob blob;
    struct err e = {0};
    char back[8];
    assert_int_equal(spool_init(&s, "/nonexistent-folder", 1, &e), 0);
    blobs_init(&b, &s);
    assert_int_equal(blobs_add(&b, "some", 4, &blob, &e), 0);
    assert_int_equal(blobs_get(&b, &blob, back, &e), 0);
    assert_memory_equal(back, "some", 4);
    static uint8_t large[2 * BLOBS_BUFFER];
    uint64_t seed = 1;
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (uint8_t)next_random(&seed);
    assert_int_equal(blobs_add(&b, large, sizeof large, &blob, &e), -1);
    assert_int_equal(e.code, ERR_OUTPUT);
    blobs_release(&b);
    spool_release(&s);
}

static void buffers_of_a_slab_are_apart_and_serve_again(void **state)
{
    (void)state;
    struct slab s = {0};
    const size_t sizes[] = {1, 786432, 1835008, 786432, (size_t)9 << 20, 1835008, 64};
    uint8_t *at[7];
    for (size_t i = 0; i < 7; i++) {
        at[i] = slab_take(&s, sizes[i]);
        assert_non_null(at[i]);
        memset(at[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < 7; i++)
        assert_true(at[i][0] == i + 1 && at[i][sizes[i] - 1] == i + 1);
    slab_give(&s, at[1], sizes[1]);
    slab_give(&s, at[2], sizes[2]);
    assert_ptr_equal(slab_take(&s, sizes[2]), at[2]);
    assert_ptr_equal(slab_take(&s, sizes[1]), at[1]);
    assert_true((uint8_t *)slab_take(&s, sizes[1]) != at[1]);
    slab_release(&s);
}

static void a_spool_without_a_folder_is_an_error(void **state)
{
    (void)state;
    struct spool s;
    struct column c;
    struct err e = {0};
    assert_int_equal(spool_init(&s, "/nonexistent-folder", 1, &e), 0);
    column_init(&c, &s, &plain_layout, false);
    void *p = &c;
    for (uint64_t i = 0; i < 200000 && p; i++) {
        p = column_append(&c, &e);
        if (p)
            memcpy(p, &i, sizeof i);
    }
    assert_null(p);
    assert_int_equal(e.code, ERR_OUTPUT);
    assert_non_null(strstr(e.text, "/nonexistent-folder"));
    column_release(&c);
    spool_release(&s);
}

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void assert_file(const char *path, const char *text)
{
    char got[64] = "";
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, got, sizeof got - 1), (ssize_t)strlen(text));
    assert_string_equal(got, text);
    close(fd);
}

static void outfile_replaces_only_when_whole(void **state)
{
    (void)state;
    char dir[] = "/tmp/tidemark-test-XXXXXX";
    char path[64];
    struct outfile o;
    struct err e = {0};
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/out", dir);
    write_file(path, "old");

    assert_int_equal(outfile_open(&o, path, false, &e), -1);
    assert_int_equal(e.code, ERR_OUTPUT);
    assert_non_null(strstr(e.text, "exists"));

    assert_int_equal(outfile_open(&o, path, true, &e), 0);
    assert_int_equal(write(o.fd, "ne", 2), 2);
    assert_file(path, "old");
    outfile_abort(&o);
    assert_file(path, "old");

    assert_int_equal(outfile_open(&o, path, true, &e), 0);
    assert_int_equal(write(o.fd, "new", 3), 3);
    assert_int_equal(outfile_commit(&o, &e), 0);
    assert_file(path, "new");
    outfile_abort(&o);

    assert_int_equal(outfile_open(&o, dir, true, &e), -1);
    assert_non_null(strstr(e.text, "folder"));
    assert_int_equal(outfile_open(&o, "/nonexistent-folder/out", true, &e), -1);
    assert_int_equal(e.code, ERR_OUTPUT);

    unlink(path);
    assert_int_equal(rmdir(dir), 0); /* no temporary is left */
}

/* ---- numbers as text */

static void assert_f64(double x)
{
    char expected[DIGITS_ROOM + 1], text[DIGITS_ROOM + 1];
    snprintf(expected, sizeof expected, "%f", x);
    *digits_f64(text, x) = 0;
    assert_string_equal(text, expected);
}

static void numbers_are_those_of_printf(void **state)
{
    (void)state;
    uint64_t seed = 3;
    char expected[32], text[DIGITS_ROOM + 1];
    for (int i = 0; i < 200000; i++) {
        uint64_t n = (next_random(&seed) << 33 ^ next_random(&seed)) >> (i % 64);
        double x;
        memcpy(&x, &n, sizeof x);
        assert_f64(x);                                     /* any bits */
        assert_f64((double)(int64_t)n / (1 << (i % 30)));  /* ties are frequent */
        assert_f64(-(double)(n % 1000000000) / 1000000.0); /* six decimals */
        snprintf(expected, sizeof expected, "%lld", (long long)n);
        *digits_i64(text, (int64_t)n) = 0;
        assert_string_equal(text, expected);
        snprintf(expected, sizeof expected, "%llx", (unsigned long long)n);
        *digits_hex(text, n) = 0;
        assert_string_equal(text, expected);
    }
    static const double edges[] = {0.,     -0.,   0.5e-6, 1.5e-6,    -1e-7,
                                   1e-300, 1e300, 9e12,   9e12 + .5, 8999999999999.9999,
                                   9e15,   -9e15, 9.5e15};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        assert_f64(edges[i]);
    uint64_t power = 1;
    for (int i = 0; i < 20; i++, power *= 10) {
        for (uint64_t n = power - 1; n <= power; n++) {
            snprintf(expected, sizeof expected, "%llu", (unsigned long long)n);
            *digits_u64(text, n) = 0;
            assert_string_equal(text, expected);
        }
    }
    *digits_u64(text, UINT64_MAX) = 0;
    assert_string_equal(text, "18446744073709551615");
    struct buf b = {0};
    digits_put_u64(&b, UINT64_MAX);
    digits_put_i64(&b, INT64_MIN);
    digits_put_address(&b, UINT64_MAX);
    digits_put_address(&b, 0);
    assert_string_equal(buf_str(&b),
                        "18446744073709551615-92233720368547758080xffffffffffffffff0x0");
    buf_release(&b);
}

static const struct pack_layout word_layout = {
    .element = 8, .count = 1, .fields = {{0, 8, PACK_STEP}}};

static void fill_words(struct column *c, struct spool *s, uint64_t n)
{
    column_init(c, s, &word_layout, false);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t *at = column_append(c, NULL);
        assert_non_null(at);
        *at = i * i;
    }
}

static void columns_are_walked_one_by_one(void **state)
{
    enum { N = 3 * COLUMN_CHUNK + 100, FROM = COLUMN_CHUNK - 1, PART = COLUMN_CHUNK + 2 };
    struct err e = {0};
    struct spool s;
    struct column c, same, less, none;
    int status = 0;
    uint64_t n = 0;
    (void)state;
    assert_int_equal(spool_init(&s, NULL, 1, &e), 0); /* all full chunks go to the file */
    fill_words(&c, &s, N);
    fill_words(&same, &s, N);
    fill_words(&less, &s, N - 1);
    fill_words(&none, &s, 0);
    struct column_walk w = column_walk(&c);
    for (const uint64_t *x; (x = column_walk_next(&w, &status, &e)); n++)
        assert_true(*x == n * n);
    assert_true(n == N && status == 0 && !w.reader.buffer);
    assert_null(column_walk_next(&w, &status, &e));

    n = FROM;
    w = column_walk_part(&c, FROM, PART);
    for (const uint64_t *x; (x = column_walk_next(&w, &status, &e)); n++)
        assert_true(*x == n * n);
    assert_true(n == FROM + PART && status == 0);

    w = column_walk(&none);
    assert_null(column_walk_next(&w, &status, &e));
    assert_int_equal(status, 0);

    w = column_walk(&c); /* stops where the caller fails, and keeps the caller's status */
    for (n = 0; column_walk_next(&w, &status, &e); n++)
        status = n == 10 ? 7 : 0;
    assert_true(n == 11 && status == 7 && !w.reader.buffer);

    status = 0;
    n = 0;
    w = column_walk(&c);
    struct column_walk other = column_walk(&same);
    for (struct column_two p; (p = column_walk_two(&w, &other, &status, &e)).first; n++)
        assert_memory_equal(p.first, p.second, sizeof n);
    assert_true(n == N && status == 0);

    w = column_walk(&c);
    other = column_walk(&less);
    for (n = 0; column_walk_two(&w, &other, &status, &e).first;)
        n++;
    assert_true(n == N - 1 && status == -1 && e.code == ERR_INPUT);
    assert_true(!w.reader.buffer && !other.reader.buffer);

    status = 0;
    e = (struct err){0};
    w = column_walk(&c);
    assert_int_equal(ftruncate(s.fd, 0), 0); /* the chunks on disk are gone */
    assert_null(column_walk_next(&w, &status, &e));
    assert_true(status == -1 && e.code == ERR_OUTPUT && !w.reader.buffer);
    column_release(&c);
    column_release(&same);
    column_release(&less);
    column_release(&none);
    spool_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cursor_never_reads_past_its_end),
        cmocka_unit_test(map_agrees_with_a_plain_array),
        cmocka_unit_test(packing_is_lossless),
        cmocka_unit_test(columns_keep_every_element),
        cmocka_unit_test(small_elements_pack_exactly),
        cmocka_unit_test(entries_leave_a_map),
        cmocka_unit_test(a_map_is_copied_without_long_searches),
        cmocka_unit_test(blobs_come_back),
        cmocka_unit_test(numbers_are_those_of_printf),
        cmocka_unit_test(few_blobs_make_no_file),
        cmocka_unit_test(buffers_of_a_slab_are_apart_and_serve_again),
        cmocka_unit_test(a_spool_without_a_folder_is_an_error),
        cmocka_unit_test(columns_are_walked_one_by_one),
        cmocka_unit_test(outfile_replaces_only_when_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
