/*
 * One image, read in this process: this very program, whose functions and their lines are known
 * here, at the places where they are mapped.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols/helper/helper_serve.h"
#include "symbols/place/process_modules.h"

__attribute__((noinline)) int symbolized_function(int n);
__attribute__((noinline)) int symbolized_function(int n)
{
    return n * 3;
}
enum { LINE_BEYOND = __LINE__ };

__attribute__((noinline)) int other_function(int n);
__attribute__((noinline)) int other_function(int n)
{
    return n * 5;
}

static uint64_t bias;

static int take_bias(struct dl_phdr_info *info, size_t size, void *ctx)
{
    (void)size;
    *(uint64_t *)ctx = info->dlpi_addr;
    return 1; /* the first one is the program */
}

static struct symbolizer *open_self(symbolizer_wish *wish, void *ctx)
{
    struct symbolizer *s;
    struct err e = {0};
    const struct helper_open open = {
        .path = view_of("/proc/self/exe"), .trust_paths = true, .threads = 2};
    if (symbolizer_open(&s, &open, wish, ctx, &e) != 0)
        fail_msg("%s", e.text);
    return s;
}

static uint64_t address_of(int (*function)(int))
{
    return (uint64_t)(uintptr_t)function;
}

static void expect(struct symbolizer *s, struct place place, const char *function)
{
    struct place_answer a;
    struct err e = {0};
    assert_int_equal(symbolizer_prepare(s, &place, 1, &e), 0);
    symbolizer_lookup(s, &place, &a);
    assert_int_equal(a.source, SOURCE_DEBUG);
    assert_int_equal(a.n, 1);
    assert_true(view_equal(a.frames[0].function, view_of(function)));
    assert_false(a.frames[0].inlined);
    assert_non_null(
        memmem(a.frames[0].file.p, a.frames[0].file.len, "test_symbols_symbolizer.c", 25));
    assert_int_equal(a.frames[0].start, a.address);
}

static int find_text(void *ctx, const struct module *m, struct err *e)
{
    struct module *found = ctx;
    (void)e;
    uint64_t address = address_of(symbolized_function);
    if (address >= m->start && address < m->end)
        *found = (struct module){.start = m->start, .offset = m->offset};
    return 0;
}

/* The three ways to say where something is. */
static void test_places(void **state)
{
    (void)state;
    struct symbolizer *s = open_self(NULL, NULL);
    struct image_facts facts;
    struct module m = {0};
    struct err e = {0};
    uint64_t address = address_of(symbolized_function);
    symbolizer_facts(s, &facts);
    assert_true(facts.has_debug && facts.has_symbols && !facts.debug_separate);
    expect(s, (struct place){PLACE_ADDRESS, address - bias}, "symbolized_function");
    expect(s, (struct place){PLACE_OFFSET, address - bias - facts.base}, "symbolized_function");
    assert_int_equal(process_modules(getpid(), find_text, &m, &e), 0);
    expect(s, (struct place){PLACE_FILE, address - m.start + m.offset}, "symbolized_function");
    struct place_answer a;
    const struct place outside = {PLACE_ADDRESS, UINT64_MAX - 4096};
    symbolizer_lookup(s, &outside, &a);
    assert_int_equal(a.source, SOURCE_NONE);
    assert_int_equal(a.n, 0);
    symbolizer_close(s);
}

static void test_lines(void **state)
{
    (void)state;
    struct symbolizer *s = open_self(NULL, NULL);
    struct place_answer a;
    struct err e = {0};
    const struct place place = {PLACE_ADDRESS, address_of(symbolized_function) - bias};
    assert_int_equal(symbolizer_prepare(s, &place, 1, &e), 0);
    symbolizer_lookup(s, &place, &a);
    assert_in_range(a.frames[0].line, LINE_BEYOND - 4, LINE_BEYOND - 1);
    symbolizer_close(s);
}

/* ---- machine code */

static void test_code(void **state)
{
    (void)state;
    struct symbolizer *s = open_self(NULL, NULL);
    struct place_code code;
    uint64_t address = address_of(symbolized_function) - bias;
    for (uint64_t offset = 0; offset < 2; offset++) {
        const struct place place = {PLACE_ADDRESS, address + offset};
        assert_true(symbolizer_code(s, &place, &code));
        assert_int_equal(code.address, address + offset);
        assert_int_equal(code.start, address);
        assert_false(code.by_unwind);
        assert_true(view_equal(code.name, view_of("symbolized_function")));
        assert_in_range(code.size, 2, 4096);
        assert_int_equal(code.bytes.len, code.size);
        assert_memory_equal(code.bytes.p, (const void *)(uintptr_t)(address + bias), code.size);
    }
    /* Data, and places that are nowhere. */
    const struct place data = {PLACE_ADDRESS, (uint64_t)(uintptr_t)&bias - bias};
    const struct place nowhere = {PLACE_ADDRESS, UINT64_MAX - 4096};
    assert_false(symbolizer_code(s, &data, &code));
    assert_false(symbolizer_code(s, &nowhere, &code));
    symbolizer_close(s);
}

/* ---- where it is mapped */

static struct helper_bias infer(const struct helper_hint *hints, size_t n)
{
    struct symbolizer *s = open_self(NULL, NULL);
    struct helper_bias out;
    struct err e = {0};
    assert_int_equal(symbolizer_infer(s, hints, n, &out, &e), 0);
    symbolizer_close(s);
    return out;
}

static void test_bias(void **state)
{
    (void)state;
    const struct helper_hint hints[] = {
        {address_of(symbolized_function), view_of("symbolized_function")},
        {address_of(other_function), view_of("other_function")},
        {address_of(other_function) + 1, view_of("symbolized_function")},
        {0x1234, view_of("no such function")},
    };
    struct helper_bias all = infer(hints, 4);
    assert_true(all.found);
    assert_int_equal(all.bias, bias);
    assert_int_equal(all.agree, 2);
    assert_int_equal(all.hints, 3);
    /* One that fits against one that does not is no majority. */
    const struct helper_hint torn[] = {hints[1], {hints[0].address + 0x10000, hints[0].name}};
    assert_false(infer(torn, 2).found);
    /* Not a whole number of pages. */
    assert_false(infer(hints + 2, 1).found);
    assert_int_equal(infer(hints + 2, 1).bias, 0);
    assert_false(infer(hints + 3, 1).found);
    assert_false(infer(NULL, 0).found);
}

/* ---- wishes */

struct granting {
    unsigned paths, caches, stores, whole;
    FILE *cache;
    bool has_cache;
};

static int grant(void *ctx, const struct file_wish *wish)
{
    struct granting *g = ctx;
    switch ((enum file_need)wish->need) {
    case NEED_PATH:
        g->paths++;
        return view_equal(wish->name, view_of("/proc/self/exe")) ? open("/proc/self/exe", O_RDONLY)
                                                                 : -1;
    case NEED_CACHE:
        g->caches++;
        assert_int_equal(wish->id.len, 48);
        return g->has_cache ? dup(fileno(g->cache)) : -1;
    case NEED_STORE:
        if (wish->flag) {
            g->whole++;
            return -1;
        }
        g->stores++;
        return dup(fileno(g->cache));
    default:
        return -1;
    }
}

static void test_cache(void **state)
{
    (void)state;
    struct granting g = {.cache = tmpfile()};
    assert_non_null(g.cache);
    for (int round = 0; round < 2; round++) {
        struct image_facts facts;
        struct symbolizer *s = open_self(grant, &g);
        symbolizer_facts(s, &facts);
        assert_int_equal(facts.from_cache, round == 1);
        expect(s, (struct place){PLACE_ADDRESS, address_of(other_function) - bias},
               "other_function");
        symbolizer_keep(s);
        symbolizer_close(s);
        g.has_cache = true;
    }
    assert_true(g.paths >= 2);
    assert_int_equal(g.caches, 2);
    /* Nothing new, nothing kept. */
    assert_int_equal(g.stores, 1);
    assert_int_equal(g.whole, 1);
    fclose(g.cache);
}

static void test_refusals(void **state)
{
    (void)state;
    struct symbolizer *s;
    struct err e = {0};
    struct helper_open open = {.path = view_of("/proc/self/exe"), .trust_paths = true};
    open.build_id = (struct build_id){{1, 2, 3, 4}, 4};
    assert_int_equal(symbolizer_open(&s, &open, NULL, NULL, &e), -1);
    assert_null(s);
    open.build_id.len = 0;
    open.trust_paths = false;
    assert_int_equal(symbolizer_open(&s, &open, NULL, NULL, &e), -1);
    open.trust_paths = true;
    open.path = view_of("/proc/self/maps");
    assert_int_equal(symbolizer_open(&s, &open, NULL, NULL, &e), -1);
    const struct view bad_rule = view_of("no semicolon");
    open.path = view_of("/proc/self/exe");
    open.rules = &bad_rule;
    open.rule_count = 1;
    assert_int_equal(symbolizer_open(&s, &open, NULL, NULL, &e), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places), cmocka_unit_test(test_lines),
        cmocka_unit_test(test_code),   cmocka_unit_test(test_bias),
        cmocka_unit_test(test_cache),  cmocka_unit_test(test_refusals),
    };
    (void)dl_iterate_phdr(take_bias, &bias);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
