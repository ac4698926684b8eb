/* Records of jitdumps, and which function was at an address at a time, against a plain search. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "naming/generated_frames.h"
#include "naming/jitdump.h"
#include "test/unit/analysis_fixture.h"

static struct buf dump;
static struct perf_map map;

static void put(const void *p, size_t n)
{
    buf_put(&dump, p, n);
}

static void put32(uint32_t n)
{
    put(&n, sizeof n);
}

static void put64(uint64_t n)
{
    put(&n, sizeof n);
}

static void begin_dump(uint64_t flags)
{
    buf_clear(&dump);
    put32(0x4a695444);
    put32(1);
    put32(40);
    put32(62);
    put32(0);
    put32(1234);
    put64(0);
    put64(flags);
}

static void begin_record(uint32_t kind, size_t body, uint64_t time)
{
    put32(kind);
    put32((uint32_t)(16 + body));
    put64(time);
}

static void put_load(uint64_t time, uint64_t address, uint64_t size, uint64_t index,
                     const char *name)
{
    begin_record(0, 40 + strlen(name) + 1 + 3, time);
    put64(0);
    put64(address);
    put64(address);
    put64(size);
    put64(index);
    put(name, strlen(name) + 1);
    put("\xcc\xcc\xcc", 3);
}

static void put_move(uint64_t time, uint64_t from, uint64_t to, uint64_t size, uint64_t index)
{
    begin_record(1, 48, time);
    put64(0);
    put64(to);
    put64(from);
    put64(to);
    put64(size);
    put64(index);
}

struct line {
    uint64_t address;
    uint32_t line;
    const char *name;
    size_t len; /* with the NUL */
};

static void put_lines(uint64_t code, const struct line *lines, size_t n, size_t padding)
{
    size_t body = 16 + padding;
    for (size_t i = 0; i < n; i++)
        body += 16 + lines[i].len;
    begin_record(2, body, 0);
    put64(code);
    put64(n);
    for (size_t i = 0; i < n; i++) {
        put64(lines[i].address);
        put32(lines[i].line);
        put32(7);
        put(lines[i].name, lines[i].len);
    }
    put("\0\0\0\0\0\0\0", padding);
}

static int parse(void)
{
    struct err e = {0};
    return jitdump_parse(&map, buf_view(&dump), &e);
}

static void assert_line(size_t entry, uint64_t offset, const char *file, uint32_t line)
{
    const struct perf_entry *at = &map.list.at[entry];
    struct perf_line found = perf_map_line(&map, at, at->start + offset);
    assert_true(view_equal(found.file, view_of(file)));
    assert_int_equal(found.line, line);
}

static void test_loads_and_moves(void **state)
{
    (void)state;
    begin_dump(0);
    put_load(10, 0x1000, 0x20, 1, "JS:*load /a.js:3:1");
    put_move(20, 0x1000, 0x2000, 0x20, 1);
    put_move(30, 0x1000, 0x3000, 0x20, 1); /* it is not there any more */
    put_move(40, 0x2000, 0x3000, 0x20, 9); /* no such code */
    put_load(50, 0x1000, 0, 2, "empty");
    put_load(60, UINT64_MAX, 2, 3, "beyond");
    put_load(70, 0x1000, 1, 4, "");
    begin_record(4, 24, 80); /* unwinding information */
    put("0123456789abcdef01234567", 24);
    begin_record(77, 0, 90);
    put_load(100, 0x1008, 0x10, 5, "py::f:/b.py");
    assert_int_equal(parse(), 0);
    assert_true(map.timed);
    assert_int_equal(map.list.len, 3);
    assert_int_equal(map.malformed, 5);
    assert_int_equal(map.list.at[0].from, 10);
    assert_int_equal(map.list.at[1].from, 100);
    assert_int_equal(map.list.at[2].from, 20);
    assert_int_equal(map.list.at[2].start, 0x2000);
    assert_true(view_equal(map.list.at[1].function, view_of("f")));
    assert_true(view_equal(map.list.at[2].function, view_of("load")));
    assert_line(2, 4, "/a.js", 3);
    perf_map_release(&map);
}

static void test_lines(void **state)
{
    const struct line lines[] = {
        {0x1008, 12, "/b.js", 6}, {0x1000, 11, "/a.js", 6}, {0x1010, 13, "\xff", 2}};
    (void)state;
    begin_dump(0);
    put_lines(0x1000, lines, 3, 0);
    put_load(1, 0x1000, 0x20, 1, "f");
    put_load(1, 0x1000, 0x20, 2, "g"); /* the lines are of the first one */
    assert_int_equal(parse(), 0);
    assert_line(0, 0, "/a.js", 11);
    assert_line(0, 7, "/a.js", 11);
    assert_line(0, 8, "/b.js", 12);
    assert_line(0, 0x1f, "/a.js", 13);
    assert_line(1, 0, "", 0);
    assert_int_equal(map.malformed, 0);
    perf_map_release(&map);
}

/* Offsets from behind an ELF header, and names whose beginning is that of freed memory. */
static void test_lines_of_v8(void **state)
{
    const struct line lines[] = {{0x1040, 11, "\xa5:\3\0\0\0\0\0\x80\x98\x81\x88\xb9.js", 17},
                                 {0x1048, 12, "\xa5:\3\0\0\0\0\0\x80\x98\x81\x88\xb9.js", 17},
                                 {0x1050, 13, "\xa5:\3\0\0\0\0\0\x80\x98\x81\x88\xb9.js", 17}};
    (void)state;
    for (size_t padding = 0; padding < 8; padding++) {
        begin_dump(0);
        put_lines(0x1000, lines, 3, padding);
        put_load(1, 0x1000, 0x20, 1, "JS:*f /a.js:10:1");
        assert_int_equal(parse(), 0);
        assert_int_equal(map.malformed, 0);
        assert_line(0, 0, "/a.js", 11);
        assert_line(0, 8, "/a.js", 12);
        assert_line(0, 0x1f, "/a.js", 13);
        perf_map_release(&map);
    }
    begin_dump(0);
    put_lines(0x1000, lines, 3, 0);
    put_load(1, 0x1000, 0x20, 1, "JS:^f /a.js:10:1");
    assert_int_equal(parse(), 0);
    assert_line(0, 0x1f, "/a.js", 10);
    perf_map_release(&map);
}

/* Each file cut short, and each with a byte changed: no entry that was not there. */
static void test_damaged(void **state)
{
    const struct line lines[] = {{0x1000, 11, "/a.js", 6}, {0x1008, 12, "/b.js", 6}};
    (void)state;
    begin_dump(0);
    put_lines(0x1000, lines, 2, 0);
    put_load(1, 0x1000, 0x20, 1, "f");
    put_move(2, 0x1000, 0x2000, 0x20, 1);
    size_t whole = dump.len;
    for (size_t n = 0; n < whole; n++) {
        dump.len = n;
        assert_int_equal(parse(), n < 40 ? -1 : 0);
        assert_true(map.list.len <= 2);
        perf_map_release(&map);
    }
    dump.len = whole;
    for (size_t i = 0; i < whole * 8; i++) {
        dump.data[i / 8] ^= (uint8_t)(1u << i % 8);
        (void)parse();
        assert_true(map.list.len <= 2);
        perf_map_release(&map);
        dump.data[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}

/* ---- events */

enum { ADDRESSES = 12, FUNCTIONS = 5, RECORDS = 40, EVENTS = 300 };

static uint32_t rnd(uint32_t below)
{
    static uint64_t seed = 5;
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

/* What was loaded at an address last before a time, else first; NULL: nothing. */
static char expected(const char at[][RECORDS], unsigned address, uint64_t time)
{
    char found = 0;
    for (unsigned i = 0; i < RECORDS && (i < time || !found); i++)
        found = at[address][i] ? at[address][i] : found;
    return found;
}

static void assert_functions(const struct fixture *f, uint32_t callstack, uint64_t outer,
                             uint64_t time, const char at[][RECORDS], unsigned inner)
{
    const struct callstacks *c = &f->trace.callstacks;
    uint32_t node = c->list.at[callstack - 1].node;
    const unsigned addresses[] = {inner, (unsigned)outer};
    for (unsigned i = 0; i < 2; i++, node = c->nodes.at[node].parent) {
        const struct frame *frame = &c->frames.at[c->nodes.at[node].frame];
        char name = expected(at, addresses[i], time);
        assert_int_equal(frame->n, name != 0);
        if (name)
            assert_true(
                view_equal(strings_get(&f->trace.strings, c->inlines.at[frame->first].function),
                           (struct view){&name, 1}));
    }
    assert_int_equal(node, 0);
}

/* Functions at a few addresses; events begin at 1000 on the program's clock, one for each ns. */
static void test_events(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        static char at[ADDRESSES][RECORDS];
        unsigned inner[EVENTS], outer[EVENTS];
        struct generated_frames names;
        struct fixture f;
        fixture_init(&f);
        memset(at, 0, sizeof at);
        begin_dump(0);
        for (unsigned i = 0; i < RECORDS; i++) {
            const char name[2] = {(char)('a' + rnd(FUNCTIONS)), 0};
            unsigned address = rnd(ADDRESSES - 2);
            at[address][i] = *name;
            put_load(1000 + i * 8, 0x1000 + address * 0x10, 0x10, i, name);
        }
        uint32_t pool = fixture_pool(&f, 0, NULL);
        for (unsigned i = 0; i < EVENTS; i++) {
            const uint64_t ids[] = {0x1001 + (inner[i] = rnd(ADDRESSES)) * UINT64_C(0x10),
                                    0x1001 + (outer[i] = rnd(ADDRESSES)) * UINT64_C(0x10)};
            uint32_t id;
            bool fresh;
            assert_int_equal(callstacks_intern(&f.trace.callstacks, ids, 2, &id, &fresh, &f.e), 0);
            fixture_alloc(&f, pool, 0x100000 + i * 16, 16, id);
            if (i % 3 == 0)
                fixture_free(&f, pool, 0x100000 + i * 16, id);
        }
        assert_int_equal(parse(), 0);
        assert_int_equal(generated_frames_name(&map, &f.trace, 1000, &names, &f.e), 0);
        assert_int_equal(names.ambiguous, 0);
        assert_true(names.named > 0);

        struct column_reader allocs, frees;
        size_t n, m;
        const struct pool *p = f.trace.memory.pools.at[pool];
        column_reader_init(&allocs, (struct column *)&p->allocs);
        column_reader_init(&frees, (struct column *)&p->frees);
        const struct memory_alloc *a = column_reader_next(&allocs, &n, &f.e);
        const struct memory_free *d = column_reader_next(&frees, &m, &f.e);
        assert_int_equal(n, EVENTS);
        assert_int_equal(m, EVENTS);
        for (unsigned i = 0; i < EVENTS; i++) {
            int64_t end = memory_free_time(&a[i], &d[i]);
            assert_functions(&f, a[i].callstack, outer[i], (uint64_t)a[i].time / 8 + 1, at,
                             inner[i]);
            if (i % 3 == 0)
                assert_functions(&f, d[i].callstack, outer[i], (uint64_t)end / 8 + 1, at, inner[i]);
        }
        struct live_block block;
        for (size_t iter = 0; live_set_next(&p->live, &iter, &block);)
            assert_int_equal(block.callstack, a[block.index].callstack);
        column_reader_release(&allocs);
        column_reader_release(&frees);
        perf_map_release(&map);
        fixture_release(&f);
    }
}

/* Times that are not those of CLOCK_MONOTONIC are not used. */
static void test_other_clock(void **state)
{
    struct generated_frames names;
    struct fixture f;
    const uint64_t id = 0x1001;
    uint32_t stack;
    bool fresh;
    (void)state;
    fixture_init(&f);
    assert_int_equal(callstacks_intern(&f.trace.callstacks, &id, 1, &stack, &fresh, &f.e), 0);
    fixture_alloc(&f, fixture_pool(&f, 0, NULL), 0x10, 16, stack);
    begin_dump(1);
    put_load(1, 0x1000, 0x20, 1, "f");
    put_load(2, 0x1000, 0x20, 2, "g");
    assert_int_equal(parse(), 0);
    assert_int_equal(generated_frames_name(&map, &f.trace, 0, &names, &f.e), 0);
    assert_int_equal(names.ambiguous, 1);
    assert_int_equal(f.trace.callstacks.list.len, 1);
    perf_map_release(&map);
    fixture_release(&f);
}

static int release(void **state)
{
    (void)state;
    buf_release(&dump);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loads_and_moves), cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lines_of_v8),     cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_events),          cmocka_unit_test(test_other_clock),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
