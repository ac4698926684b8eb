/* Lines of perf maps, and which function was at an address, against a plain search. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "naming/generated_frames.h"
#include "naming/perf_map.h"
#include "naming/runtimes.h"
#include "test/unit/analysis_fixture.h"

static struct perf_map map;

static void parse(const char *text)
{
    struct err e = {0};
    assert_int_equal(perf_map_parse(&map, view_of(text), &e), 0);
}

static void assert_entry(size_t i, const char *function, const char *file, uint32_t line)
{
    const struct perf_entry *entry = &map.list.at[i];
    assert_true(view_equal(entry->function, view_of(function)));
    assert_true(view_equal(entry->file, view_of(file)));
    assert_int_equal(entry->line, line);
}

static void test_forms(void **state)
{
    (void)state;
    parse("100 10 JS:*load /srv/my app.js:12:3\n"
          "0x200 20 LazyCompile:~ node:fs:5:1\n"
          "300 10 JS:^get size file:///x.mjs:7:9\n"
          "400 10 Builtin:JSEntry\n"
          "500 10 py::A.load:/srv/a.py\n"
          "600 10 java.lang.Object java.util.HashMap.put(java.lang.Object, int)\n"
          "700 10 JS:load /srv/a.js:x:3\n"
          "800 10 StubRoutines (1)\n");
    assert_int_equal(map.list.len, 8);
    assert_int_equal(map.malformed, 0);
    assert_entry(0, "load", "/srv/my app.js", 12);
    assert_entry(1, "(anonymous)", "node:fs", 5);
    assert_entry(2, "get", "size file:///x.mjs", 7);
    assert_entry(3, "Builtin:JSEntry", "", 0);
    assert_entry(4, "A.load", "/srv/a.py", 0);
    assert_entry(5, "java.util.HashMap.put", "", 0);
    assert_entry(6, "load /srv/a.js:x:3", "", 0);
    assert_entry(7, "StubRoutines (1)", "", 0);
    perf_map_release(&map);
}

static void test_malformed_lines(void **state)
{
    (void)state;
    parse("\n10 f\n10  f\nxyz 1 f\n10 0 f\nffffffffffffffff 10 f\n11111111111111111 1 f\n10 10 \n"
          "-10 1 f\n10 10 JS:\n20 10 g\n10 10");
    assert_int_equal(map.list.len, 1);
    assert_int_equal(map.malformed, 11);
    assert_entry(0, "g", "", 0);
    perf_map_release(&map);
}

static uint32_t rnd(uint32_t below)
{
    static uint64_t seed = 3;
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

/* The last line at each address, and how many other functions had it. */
static void test_addresses(void **state)
{
    enum { LINES = 40, ADDRESSES = 400 };
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct buf text = {0};
        char last[ADDRESSES];
        bool had[ADDRESSES]['z' + 1];
        memset(last, 0, sizeof last);
        memset(had, 0, sizeof had);
        for (int i = 0; i < LINES; i++) {
            uint32_t start = rnd(ADDRESSES - 60), size = 1 + rnd(60);
            char name = (char)('a' + rnd(8));
            buf_printf(&text, "%x %x %c\n", start, size, name);
            for (uint32_t a = start; a < start + size; a++)
                had[a][(unsigned char)(last[a] = name)] = true;
        }
        parse(buf_str(&text));
        for (uint32_t a = 0; a < ADDRESSES; a++) {
            struct perf_found found;
            unsigned others = 0;
            bool any = perf_map_find(&map, a, &found);
            assert_int_equal(any, last[a] != 0);
            if (!any)
                continue;
            for (int name = 'a'; name <= 'z'; name++)
                others += had[a][name] && name != last[a];
            assert_int_equal(*found.last->function.p, last[a]);
            assert_int_equal(found.others, others);
            assert_int_equal(found.other != NULL, others > 0);
        }
        perf_map_release(&map);
        buf_release(&text);
    }
}

static const struct frame *frame_at(const struct fixture *f, uint64_t address)
{
    const struct frame *at = f->trace.callstacks.frames.at;
    while (at->id != address)
        at++;
    return at;
}

/* One function around a hundred small ones, and a hundred functions at one address. */
static void test_many(void **state)
{
    struct buf text = {0};
    struct perf_found found;
    (void)state;
    buf_puts(&text, "1000 10000 around\n");
    for (unsigned i = 0; i < 100; i++)
        buf_printf(&text, "%x 8 small%u\n", 0x2000 + i * 16, i);
    for (unsigned i = 0; i < 100; i++)
        buf_printf(&text, "20000 8 at%u\n", i);
    parse(buf_str(&text));
    assert_true(perf_map_find(&map, 0x9000, &found));
    assert_true(view_equal(found.last->function, view_of("around")));
    assert_int_equal(found.others, 0);
    assert_true(perf_map_find(&map, 0x2010, &found));
    assert_true(view_equal(found.last->function, view_of("small1")));
    assert_int_equal(found.others, 1);
    assert_true(perf_map_find(&map, 0x20000, &found));
    assert_true(found.others > 50);
    assert_false(perf_map_find(&map, 0xfff, &found));
    perf_map_release(&map);
    buf_release(&text);
}

static void assert_name(const struct fixture *f, uint64_t address, const char *function,
                        const char *file, uint32_t line)
{
    const struct frame *at = frame_at(f, address);
    assert_int_equal(at->n, 1);
    const struct rec_inline_frame *in = &f->trace.callstacks.inlines.at[at->first];
    assert_true(view_equal(strings_get(&f->trace.strings, in->function), view_of(function)));
    assert_true(view_equal(strings_get(&f->trace.strings, in->file), view_of(file)));
    assert_int_equal(in->line, line);
}

static void test_frames(void **state)
{
    const uint64_t addresses[] = {0x110, 0x210, 0x310, 0x410, 0x111};
    struct generated_frames names;
    struct fixture f;
    uint32_t id;
    bool fresh;
    (void)state;
    fixture_init(&f);
    assert_int_equal(trace_add_fact(&f.trace, &f.e, "module", "400-500 0 - /bin/x"), 0);
    assert_int_equal(callstacks_intern(&f.trace.callstacks, addresses, 5, &id, &fresh, &f.e), 0);
    /* 0x110 is a return address: the call ends the function before. */
    parse("100 10 JS:*one /a.js:1:1\n110 10 other\n"
          "200 20 JS:~two /a.js:2:1\n200 20 JS:*two /a.js:2:1\n"
          "300 20 three\n300 20 JS:*four /a.js:4:1\n"
          "400 20 in a file\n");
    assert_int_equal(generated_frames_name(&map, &f.trace, 0, &names, &f.e), 0);
    assert_int_equal(names.named, 4);
    assert_int_equal(names.ambiguous, 1);
    assert_name(&f, 0x110, "one", "/a.js", 1);
    assert_name(&f, 0x210, "two", "/a.js", 2);
    assert_name(&f, 0x310, "four or three", "[unknown]", 0);
    assert_int_equal(frame_at(&f, 0x410)->n, 0);
    assert_name(&f, 0x111, "other", "[unknown]", 0);
    perf_map_release(&map);
    fixture_release(&f);
}

static void test_runtimes(void **state)
{
    (void)state;
    assert_string_equal(runtime_find("/usr/lib/jvm/bin/java")->program, "java");
    assert_string_equal(runtime_find("node")->heap, "V8");
    assert_null(runtime_find("/opt/node/run"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),     cmocka_unit_test(test_malformed_lines),
        cmocka_unit_test(test_addresses), cmocka_unit_test(test_many),
        cmocka_unit_test(test_frames),    cmocka_unit_test(test_runtimes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
