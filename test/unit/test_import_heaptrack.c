/* Recordings of heaptrack: lines, and what becomes of them in the store. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/heaptrack_lines.h"
#include "import/import.h"

/* ---- lines */

static struct heaptrack_line line_of(const char *text)
{
    return (struct heaptrack_line){.mode = 'x', .p = text, .end = text + strlen(text)};
}

static void test_numbers(void **state)
{
    (void)state;
    uint64_t v = 0;
    struct heaptrack_line line = line_of("0 1f ffffffffffffffff 10000000000000000");
    assert_true(heaptrack_number(&line, &v));
    assert_int_equal(v, 0);
    assert_true(heaptrack_number(&line, &v));
    assert_int_equal(v, 0x1f);
    assert_true(heaptrack_number(&line, &v));
    assert_true(v == UINT64_MAX);
    assert_false(heaptrack_number(&line, &v)); /* more than 64 bits */
    line = line_of("");
    assert_false(heaptrack_number(&line, &v));
    line = line_of("1G");
    assert_false(heaptrack_number(&line, &v));
    line = line_of(" 1");
    assert_false(heaptrack_number(&line, &v));
}

static void test_texts(void **state)
{
    (void)state;
    struct view text;
    uint64_t v;
    struct heaptrack_line line = line_of("5 a b c 7");
    assert_true(heaptrack_text(&line, true, &text));
    assert_true(view_equal(text, view_of("a b c")));
    assert_true(heaptrack_number(&line, &v));
    assert_int_equal(v, 7);
    line = line_of("6 a b c");
    assert_false(heaptrack_text(&line, true, &text));
    line = line_of("abc 7");
    assert_true(heaptrack_text(&line, false, &text));
    assert_true(view_equal(text, view_of("abc")));
    line = line_of("abc");
    assert_true(heaptrack_text(&line, false, &text));
    assert_true(view_equal(text, view_of("abc")));
    assert_false(heaptrack_text(&line, false, &text));
}

/* Lines of all lengths come whole over the ends of blocks. */
static void test_lines_over_blocks(void **state)
{
    (void)state;
    enum { LINES = 700 };
    struct buf file = {0};
    for (unsigned i = 0; i < LINES; i++) {
        buf_puts(&file, "s ");
        for (unsigned k = 0; k < i; k++)
            buf_u8(&file, (uint8_t)('a' + (i + k) % 26));
        buf_puts(&file, i + 1 < LINES ? "\n" : "");
    }
    struct import_source s;
    struct heaptrack_line line;
    struct err e = {0};
    bool whole;
    unsigned i = 0;
    assert_true(file.len > 3 * SOURCE_BLOCK);
    assert_int_equal(import_source_memory(&s, (struct view){(char *)file.data, file.len}, &e), 0);
    struct heaptrack_lines lines = {.source = &s};
    for (; heaptrack_lines_next(&lines, &line, &whole, &e) > 0; i++) {
        assert_int_equal(line.mode, 's');
        assert_int_equal(line.end - line.p, i);
        for (unsigned k = 0; k < i; k++)
            assert_int_equal(line.p[k], 'a' + (i + k) % 26);
        assert_int_equal(whole, i + 1 < LINES);
    }
    assert_int_equal(i, LINES);
    heaptrack_lines_release(&lines);
    import_source_close(&s);
    buf_release(&file);
}

/* ---- recordings */

struct imported {
    struct trace t;
    struct ingest in;
    struct import_counts counts;
    struct err e;
    int status;
};

static void import_text(struct imported *m, const char *text)
{
    struct import_source s;
    memset(m, 0, sizeof *m);
    assert_int_equal(import_source_memory(&s, view_of(text), &m->e), 0);
    assert_int_equal(trace_init(&m->t, NULL, &m->e), 0);
    assert_int_equal(ingest_init(&m->in, &m->t, &m->e), 0);
    m->status = import_heaptrack(&s, &m->in, &m->counts, &m->e);
    import_source_close(&s);
}

static void import_release(struct imported *m)
{
    ingest_release(&m->in);
    trace_release(&m->t);
}

/*
 * Random allocations and frees of a few kinds: no two live blocks share a made-up address, and live
 * bytes are those that the file tells.
 */
static void test_made_up_addresses(void **state)
{
    (void)state;
    enum { KINDS = 7, EVENTS = 20000 };
    struct buf text = {0};
    struct imported m;
    uint64_t live[KINDS] = {0}, bytes = 0, blocks = 0;
    uint32_t x = 7;
    buf_puts(&text, "v 10500 3\n");
    for (unsigned k = 0; k < KINDS; k++)
        buf_printf(&text, "a %x 0\n", k * 33);
    for (unsigned i = 0; i < EVENTS; i++) {
        x = x * 1664525 + 1013904223;
        unsigned k = (x >> 8) % KINDS;
        bool is_free = x >> 31 && live[k];
        live[k] += is_free ? UINT64_MAX : 1;
        buf_printf(&text, "%c %x\n", is_free ? '-' : '+', k);
    }
    import_text(&m, buf_str(&text));
    assert_int_equal(m.status, 0);
    for (unsigned k = 0; k < KINDS; k++) {
        bytes += live[k] * k * 33;
        blocks += live[k];
    }
    const struct pool *pool = m.t.memory.pools.at[0];
    assert_int_equal(m.counts.allocations + m.counts.frees, EVENTS);
    assert_int_equal(m.counts.allocations - m.counts.frees, blocks);
    assert_int_equal(pool->totals.live_bytes, bytes);
    assert_int_equal(pool->totals.live, blocks);
    assert_int_equal(m.counts.notes[NOTE_LINES], 0);
    import_release(&m);
    buf_release(&text);
}

static void test_sizes_beyond_the_store(void **state)
{
    (void)state;
    struct imported m;
    import_text(&m, "v 10500 3\na ffffffffffff 0\na 1000000000000 0\n+ 0\n+ 1\n+ 1\n");
    assert_int_equal(m.status, 0);
    assert_int_equal(m.counts.notes[NOTE_LARGE_SIZES], 2);
    assert_int_equal(m.t.memory.pools.at[0]->totals.live_bytes, 3 * ((UINT64_C(1) << 48) - 1));
    import_release(&m);
}

static void expect_lines_left_out(const char *text, uint64_t want)
{
    struct imported m;
    import_text(&m, text);
    if (m.status != 0)
        fail_msg("%s", m.e.text);
    assert_int_equal(m.counts.notes[NOTE_LINES], want);
    import_release(&m);
}

static void test_bad_lines(void **state)
{
    (void)state;
    expect_lines_left_out("v 1 3\n", 0);
    expect_lines_left_out("v 1 3\n\n# comment\nA\nS leak:x\n", 0);
    expect_lines_left_out("v 1 3\ns ff short\ns\ni\ni zz\nt\nt 1 5\nm\nx\na\na 1\n", 10);
    expect_lines_left_out("v 1 3\n+\n+ 1\n- \nc\nc ffffffffffffffff\nR\nI 0\nq 1\n", 8);
    expect_lines_left_out("v 1 3\na 1 0\n+ 1\n- 0\n- 1\n+ 0\n- 0\n- 0\n", 4);
    expect_lines_left_out("v 1 3\nc 5\nc 4\nc 5", 1);
}

static void test_version_is_checked(void **state)
{
    (void)state;
    struct imported m;
    import_text(&m, "v 20000 4\n");
    assert_int_equal(m.status, -1);
    assert_int_equal(m.e.code, ERR_INPUT);
    assert_non_null(strstr(m.e.text, "line 1: its format has version 4"));
    import_release(&m);
}

/* A module map that changes: an address means what it meant when its call stack was told. */
static void test_modules(void **state)
{
    (void)state;
    struct imported m;
    import_text(&m, "v 10500 3\nx 6 /bin/a\nm 1 x 1000 0 1000\nm 5 /lib1 5000 0 1000\nt 1010 0\n"
                    "t 5020 1\nm 1 -\nm 5 /lib2 7000 ffffffffffffffff 2 100 100\nt 7150 2\n"
                    "t 5030 3\n+ 8 4 90000\n");
    assert_int_equal(m.status, 0);
    const struct {
        uint64_t address;
        const char *name, *image;
    } want[] = {{0x1010, "a+0x10", "/bin/a"},
                {0x5020, "lib1+0x20", "/lib1"},
                {0x7150, "lib2+0x150", "/lib2"},
                {0x5030, "0x5030", ""}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const struct frame *f = callstacks_find_frame(&m.t.callstacks, want[i].address);
        assert_non_null(f);
        assert_int_equal(f->n, 1);
        const struct rec_inline_frame *in = &m.t.callstacks.inlines.at[f->first];
        assert_true(view_equal(strings_get(&m.t.strings, in->function), view_of(want[i].name)));
        assert_true(view_equal(strings_get(&m.t.strings, f->image), view_of(want[i].image)));
    }
    import_release(&m);
}

/* As many segments as a file likes, at random places, against a plain list. */
static void test_many_segments(void **state)
{
    (void)state;
    enum { SEGMENTS = 1500, LOOKUPS = 300 };
    static struct {
        uint32_t start, size;
    } made[SEGMENTS];
    struct buf text = {0};
    struct imported m;
    uint32_t x = 3, asked[LOOKUPS], known[LOOKUPS];
    buf_puts(&text, "v 10500 3\nx 2 /a\n");
    for (unsigned i = 0, looked = 0; i < SEGMENTS; i++) {
        x = x * 1664525 + 1013904223;
        made[i].start = (x >> 8 & 0xfff) << 4;
        made[i].size = (x >> 3 & 63) << 4;
        buf_printf(&text, "m 5 /l%03x 0 %x %x\n", i, made[i].start, made[i].size);
        if (i % (SEGMENTS / LOOKUPS) == 0) {
            asked[looked] = 0x10000 * looked + (x >> 11 & 0xffff); /* mostly beyond all of them */
            asked[looked] = looked < 200 ? (x >> 11 & 0xffff) : asked[looked];
            known[looked] = i + 1;
            buf_printf(&text, "t %x 0\n", asked[looked++]);
            buf_printf(&text, "+ 8 %x %x\n", looked, 0x90000 + 16 * looked);
        }
    }
    import_text(&m, buf_str(&text));
    assert_int_equal(m.status, 0);
    unsigned found = 0;
    for (unsigned k = 0; k < LOOKUPS; k++) {
        int best = -1;
        bool again = false; /* an address means what it meant when it came first */
        for (unsigned i = 0; i < k; i++)
            again |= asked[i] == asked[k];
        for (unsigned i = 0; i < known[k]; i++) {
            if (made[i].start <= asked[k] && (best < 0 || made[i].start >= made[best].start))
                best = (int)i;
        }
        if (best >= 0 && asked[k] >= made[best].start + made[best].size)
            best = -1;
        char image[16] = "";
        if (best >= 0)
            snprintf(image, sizeof image, "/l%03x", (unsigned)best);
        const struct frame *f = callstacks_find_frame(&m.t.callstacks, asked[k]);
        assert_non_null(f);
        if (!again)
            assert_true(view_equal(strings_get(&m.t.strings, f->image), view_of(image)));
        found += best >= 0;
    }
    assert_true(found > 50 && found < LOOKUPS);
    import_release(&m);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_lines_over_blocks),
        cmocka_unit_test(test_made_up_addresses),
        cmocka_unit_test(test_sizes_beyond_the_store),
        cmocka_unit_test(test_bad_lines),
        cmocka_unit_test(test_version_is_checked),
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_many_segments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
