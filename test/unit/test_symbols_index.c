/*
 * The index over debug information that no compiler writes: cycles, great depth, great lists,
 * overlaps, limits.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "dwarf_maker.h"
#include "symbols/elf/elf_file.h"
#include "symbols/index/index.h"

#define KEY ((struct view){"key", 3})

static struct elf_file *open_made(struct dwarf_maker *m)
{
    struct elf_file *f = NULL;
    struct err e = {0};
    if (elf_file_open_bytes(&f, dwarf_maker_finish(m), NULL, &e) != 0)
        fail_msg("%s", e.text);
    return f;
}

static struct symbol_index *build(struct elf_file *f, const struct index_options *o)
{
    struct symbol_index *x = NULL;
    struct err e = {0};
    if (symbol_index_build(&x, f, NULL, o, &e) != 0)
        fail_msg("%s", e.text);
    return x;
}

/* The frames at an address as "inner:line outer:line", "-" for none. */
static void expect(struct symbol_index *x, uint64_t address, const char *want)
{
    struct symbol_frame frames[16];
    struct buf text = {0};
    size_t n;
    if (!symbol_index_lookup(x, address, frames, 16, &n))
        buf_puts(&text, "-");
    for (size_t i = 0; i < n && i < 16; i++)
        buf_printf(&text, "%s%.*s:%u", i ? " " : "", (int)frames[i].function.len,
                   frames[i].function.p, frames[i].line);
    if (strcmp(buf_str(&text), want) != 0)
        fail_msg("%#lx: %s, not %s", (unsigned long)address, buf_str(&text), want);
    buf_release(&text);
}

static struct index_facts facts_of(const struct symbol_index *x)
{
    struct index_facts f;
    symbol_index_facts(x, &f);
    return f;
}

/* Builds the index and calls `check`. */
static void each(struct dwarf_maker *m, void (*check)(struct symbol_index *x))
{
    struct elf_file *f = open_made(m);
    struct symbol_index *x = build(f, NULL);
    check(x);
    symbol_index_free(x);
    elf_file_close(f);
    dwarf_maker_release(m);
}

static void one_file(struct dwarf_maker *m, const uint32_t (*rows)[2])
{
    size_t at = lines_begin(m);
    made_rows(m, rows);
    lines_end(m, at);
}

/* ---- names */

static void check_cycle(struct symbol_index *x)
{
    expect(x, CODE, ":0");
    expect(x, CODE + 0x10, ":0");
    expect(x, CODE + 0x20, "good:0");
}

static void test_cycle_of_origins(void **state)
{
    struct dwarf_maker m = {0};
    (void)state;
    dwarf_unit_begin(&m, CODE, 0x100);
    uint32_t first = made_reference(&m, MADE_FORWARD, 0);
    uint32_t second = made_reference(&m, MADE_FORWARD, first);
    store_u32(m.info.data + first + 1, second);
    made_reference(&m, MADE_INSTANCE, first);
    made_place(&m, CODE, 0x10);
    uint32_t self = made_reference(&m, MADE_INSTANCE, 0);
    store_u32(m.info.data + self + 1, self);
    made_place(&m, CODE + 0x10, 0x10);
    uint32_t name = made_name(&m, MADE_ABSTRACT, "good");
    uint32_t on_the_way = made_reference(&m, MADE_FORWARD, name);
    made_reference(&m, MADE_SPECIFIED, on_the_way);
    made_place(&m, CODE + 0x20, 0x10);
    dwarf_unit_end(&m);
    each(&m, check_cycle);
}

static void check_nowhere(struct symbol_index *x)
{
    expect(x, CODE, ":0");
    expect(x, CODE + 0x10, "after:0");
}

static void test_origin_outside_of_the_section(void **state)
{
    struct dwarf_maker m = {0};
    (void)state;
    dwarf_unit_begin(&m, CODE, 0x100);
    made_reference(&m, MADE_INSTANCE, 0x7fffffff);
    made_place(&m, CODE, 0x10);
    made_function(&m, "after", CODE + 0x10, 0x10);
    made_end(&m);
    dwarf_unit_end(&m);
    each(&m, check_nowhere);
}

static void check_other_unit(struct symbol_index *x)
{
    expect(x, CODE, "far:0 outer:7");
}

static void test_origin_in_another_unit(void **state)
{
    struct dwarf_maker m = {0};
    (void)state;
    dwarf_unit_begin(&m, 0, 0);
    uint32_t far = made_name(&m, MADE_ABSTRACT, "far");
    dwarf_unit_end(&m);
    dwarf_unit_begin(&m, CODE, 0x100);
    made_function(&m, "outer", CODE, 0x20);
    made_inlined(&m, far, CODE, 8, 7);
    made_end(&m);
    made_end(&m);
    dwarf_unit_end(&m);
    each(&m, check_other_unit);
}

/* ---- depth, length, overlaps */

static void check_deep(struct symbol_index *x)
{
    struct index_facts f = facts_of(x);
    expect(x, CODE, "before:0");
    assert_int_equal(f.units_incomplete, 1);
    assert_string_equal(f.first_fault, "entries that lie too deep");
    expect(x, CODE + 0x10, "after:0");
}

static void test_deep_nesting(void **state)
{
    struct dwarf_maker m = {0};
    (void)state;
    dwarf_unit_begin(&m, CODE, 0x100);
    made_function(&m, "before", CODE, 0x10);
    for (int i = 0; i < 20000; i++)
        buf_u8(&m.info, MADE_BLOCK);
    made_function(&m, "hidden", CODE + 0x20, 0x10);
    for (int i = 0; i < 20001; i++)
        made_end(&m);
    made_end(&m);
    made_function(&m, "after", CODE + 0x10, 0x10);
    made_end(&m);
    dwarf_unit_end(&m);
    each(&m, check_deep);
}

/* An attribute that points to a sibling points back; the library does not mind. */
static void test_sibling_that_leads_back(void **state)
{
    uint8_t bytes[4096];
    struct elf_file *f;
    struct err e = {0};
    FILE *file = fopen("test/fuzz/seeds/fuzz_dwarf/leads-back", "rb");
    (void)state;
    assert_non_null(file);
    struct view view = {(const char *)bytes, fread(bytes, 1, sizeof bytes, file)};
    fclose(file);
    assert_int_equal(elf_file_open_bytes(&f, view, NULL, &e), 0);
    struct symbol_index *x = build(f, NULL);
    assert_string_equal(facts_of(x).first_fault, "an entry that comes after itself");
    symbol_index_free(x);
    elf_file_close(f);
}

static void check_nested(struct symbol_index *x)
{
    expect(x, CODE, "outer:0");
    expect(x, CODE + 8, "inner:0 outer:3");
    expect(x, CODE + 0x10, "twice:0 inner:4 outer:3");
    expect(x, CODE + 0x18, "inner:0 outer:3");
    expect(x, CODE + 0x20, "later:0"); /* the one that comes later has it */
    expect(x, CODE + 0x28, "later:0");
    expect(x, CODE + 0x30, "-");
}

static void test_overlapping_scopes(void **state)
{
    struct dwarf_maker m = {0};
    (void)state;
    dwarf_unit_begin(&m, CODE, 0x100);
    uint32_t inner = made_name(&m, MADE_ABSTRACT, "inner");
    uint32_t twice = made_name(&m, MADE_ABSTRACT, "twice");
    made_function(&m, "outer", CODE, 0x28);
    made_inlined(&m, inner, CODE + 8, 0x18, 3);
    made_inlined(&m, twice, CODE + 0x10, 8, 4);
    made_end(&m);
    made_end(&m);
    made_end(&m);
    made_function(&m, "later", CODE + 0x20, 0x10);
    made_end(&m);
    dwarf_unit_end(&m);
    each(&m, check_nested);
}

static void check_many_ranges(struct symbol_index *x)
{
    expect(x, CODE, "many:0");
    expect(x, CODE + 0x7000, "many:0");
    expect(x, CODE + 1, "-");
    assert_true(facts_of(x).bytes < (uint64_t)2 << 20);
}

/* A list that names the same places again and again costs no more than its length. */
static void test_long_list_of_ranges(void **state)
{
    struct dwarf_maker m = {0};
    (void)state;
    for (uint32_t i = 0; i < 100000; i++) {
        buf_u64(&m.ranges, (i * 16) % 0x8000);
        buf_u64(&m.ranges, (i * 16) % 0x8000 + 1);
    }
    buf_u64(&m.ranges, 0);
    buf_u64(&m.ranges, 0);
    dwarf_unit_begin(&m, CODE, CODE_END - CODE);
    made_name(&m, MADE_RANGED, "many");
    buf_u32(&m.info, 0);
    dwarf_unit_end(&m);
    each(&m, check_many_ranges);
}

static void check_beyond(struct symbol_index *x)
{
    expect(x, CODE, "real:0");
    expect(x, 0x100, "-");
    expect(x, UINT64_MAX - 4, "-");
    expect(x, CODE_END - 1, "-"); /* its function reaches over the end of the code */
}

static void test_code_where_none_is(void **state)
{
    struct dwarf_maker m = {0};
    (void)state;
    dwarf_unit_begin(&m, CODE, CODE_END - CODE);
    made_function(&m, "removed", 0, 0x2000);
    made_end(&m);
    made_function(&m, "high", UINT64_MAX - 8, 8);
    made_end(&m);
    made_function(&m, "over", CODE_END - 4, 8);
    made_end(&m);
    made_function(&m, "real", CODE, 8);
    made_end(&m);
    dwarf_unit_end(&m);
    each(&m, check_beyond);
}

/* ---- units */

static void check_claims(struct symbol_index *x)
{
    expect(x, CODE, "one:0");
    expect(x, CODE + 0x10, "one:0"); /* goes on, although the second claims it too */
    expect(x, CODE + 0x28, "two:0");
    expect(x, CODE + 0x38, "three:0");
    assert_int_equal(facts_of(x).units, 3);
}

static void test_units_that_overlap(void **state)
{
    struct dwarf_maker m = {0};
    (void)state;
    dwarf_unit_begin(&m, CODE, 0x20);
    made_function(&m, "one", CODE, 0x20);
    made_end(&m);
    dwarf_unit_end(&m);
    dwarf_unit_begin(&m, CODE + 0x10, 0x20);
    made_function(&m, "two", CODE + 0x10, 0x20);
    made_end(&m);
    dwarf_unit_end(&m);
    dwarf_unit_begin(&m, CODE, 0x40);
    made_function(&m, "three", CODE, 0x40);
    made_end(&m);
    dwarf_unit_end(&m);
    each(&m, check_claims);
}

/* ---- lines */

static void check_lines(struct symbol_index *x)
{
    expect(x, CODE, "f:11"); /* of two rows with one address the last */
    expect(x, CODE + 3, "f:11");
    expect(x, CODE + 4, "f:12");
    expect(x, CODE + 8, "f:0"); /* after the end of a sequence */
    expect(x, CODE + 0x10, "f:20");
    expect(x, CODE + 0x1f, "f:21");
    expect(x, CODE + 0x20, ":30"); /* a line and no function */
    assert_int_equal(facts_of(x).units_incomplete, 0);
}

static void test_lines(void **state)
{
    struct dwarf_maker m = {0};
    (void)state;
    dwarf_unit_begin(&m, CODE, 0x100);
    made_function(&m, "f", CODE, 0x20);
    made_end(&m);
    dwarf_unit_end(&m);
    size_t at = lines_begin(&m);
    made_rows(&m, (const uint32_t[][2]){{CODE + 0x10, 20}, {CODE + 0x18, 21}, {CODE + 0x20, 0}});
    /* A long function that the linker left out reaches into addresses of code. */
    made_rows(&m, (const uint32_t[][2]){
                      {0, 90}, {0x100, 91}, {CODE + 2, 92}, {CODE + 0x1a, 93}, {CODE + 0x40, 0}});
    made_rows(&m, (const uint32_t[][2]){{CODE, 10}, {CODE, 11}, {CODE + 4, 12}, {CODE + 8, 0}});
    made_rows(&m, (const uint32_t[][2]){{CODE + 0x20, 30}, {CODE + 0x30, 0}});
    lines_end(&m, at);
    each(&m, check_lines);
}

/* ---- limits */

static void big_unit(struct dwarf_maker *m)
{
    char name[16];
    dwarf_unit_begin(m, CODE, CODE_END - CODE);
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "f%d", i);
        made_function(m, name, CODE + (uint64_t)i * 4, 4);
        made_end(m);
    }
    dwarf_unit_end(m);
    one_file(m, (const uint32_t[][2]){{CODE, 1}, {CODE + 4, 0}});
}

static void expect_fault(const struct index_limits *limits, const char *fault)
{
    struct dwarf_maker m = {0};
    big_unit(&m);
    struct elf_file *f = open_made(&m);
    struct symbol_index *x = build(f, &(struct index_options){.limits = *limits});
    assert_string_equal(facts_of(x).first_fault, fault);
    symbol_index_free(x);
    elf_file_close(f);
    dwarf_maker_release(&m);
}

static void test_limits(void **state)
{
    (void)state;
    expect_fault(&(struct index_limits){0}, "");
    expect_fault(&(struct index_limits){.work = 1500},
                 "more entries than the file's size allows for");
    expect_fault(&(struct index_limits){.deadline_ns = 1}, "the time for this image is over");
    expect_fault(&(struct index_limits){.memory = 4096},
                 "one unit needs more memory than is allowed");
}

static void test_only_what_is_asked_for(void **state)
{
    struct dwarf_maker m = {0};
    struct err e = {0};
    uint64_t asked = CODE + 0x10, later = CODE;
    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        dwarf_unit_begin(&m, CODE + i * 0x10, 0x10);
        made_function(&m, "f", CODE + i * 0x10, 0x10);
        made_end(&m);
        dwarf_unit_end(&m);
    }
    struct elf_file *f = open_made(&m);
    struct index_options o = {.addresses = &asked, .n_addresses = 1};
    struct symbol_index *x = build(f, &o);
    assert_int_equal(facts_of(x).units_built, 1);
    assert_false(symbol_index_lacks(x, &asked, 1));
    assert_true(symbol_index_lacks(x, &later, 1));
    expect(x, asked, "f:0");
    expect(x, later, "-");
    o.addresses = &later;
    assert_int_equal(symbol_index_extend(x, f, NULL, &o, &e), 0);
    assert_int_equal(facts_of(x).units_built, 2);
    expect(x, later, "f:0");
    symbol_index_free(x);
    elf_file_close(f);
    dwarf_maker_release(&m);
}

/* ---- the cache file */

static struct symbol_index *reload(int fd, struct view key)
{
    struct symbol_index *x = NULL;
    struct err e = {0};
    if (symbol_index_load(&x, fd, key, &e) == 0)
        return x;
    assert_int_equal(e.code, ERR_INPUT);
    assert_true(strlen(e.text) > 10);
    return NULL;
}

static int saved(struct dwarf_maker *m, off_t *size)
{
    struct err e = {0};
    int fd = memfd_create("cache", MFD_CLOEXEC);
    dwarf_unit_begin(m, CODE, 0x100);
    made_function(m, "_ZN1a1bEi", CODE, 0x20);
    made_end(m);
    dwarf_unit_end(m);
    one_file(m, (const uint32_t[][2]){{CODE, 5}, {CODE + 8, 6}, {CODE + 0x20, 0}});
    struct elf_file *f = open_made(m);
    struct symbol_index *x = build(f, NULL);
    expect(x, CODE, "a::b(int):5");
    assert_true(fd >= 0);
    assert_int_equal(symbol_index_save(x, fd, KEY, &e), 0);
    *size = lseek(fd, 0, SEEK_END);
    symbol_index_free(x);
    elf_file_close(f);
    return fd;
}

static void test_cache(void **state)
{
    struct dwarf_maker m = {0};
    off_t size;
    (void)state;
    int fd = saved(&m, &size);
    struct symbol_index *x = reload(fd, KEY);
    assert_non_null(x);
    expect(x, CODE, "a::b(int):5");
    expect(x, CODE + 0x1f, "a::b(int):6");
    expect(x, CODE + 0x20, "-");
    assert_int_equal(symbol_index_save(x, fd, KEY, NULL), -1); /* it lies in that file */
    symbol_index_free(x);
    assert_null(reload(fd, (struct view){"kex", 3}));
    assert_null(reload(fd, (struct view){"ke", 2}));
    for (off_t cut = size - 1; cut >= 0; cut -= 7) {
        assert_int_equal(ftruncate(fd, cut), 0);
        assert_null(reload(fd, KEY));
    }
    close(fd);
    dwarf_maker_release(&m);
}

/* Texts have numbers, the same in blocks and for symbols, and keep them in the cache file. */
static void test_names_of_symbols(void **state)
{
    struct dwarf_maker m = {0};
    struct symbol_index_name name;
    struct symbol_frame frame;
    off_t size;
    size_t n;
    (void)state;
    int fd = saved(&m, &size), again = memfd_create("again", MFD_CLOEXEC);
    struct symbol_index *x = reload(fd, KEY);
    assert_non_null(x);
    assert_false(symbol_index_symbol(x, 0, &name));
    assert_false(symbol_index_name_symbol(x, 0, view_of("f"), &name)); /* so many are not there */
    assert_true(symbol_index_expect_symbols(x, 3));
    assert_true(symbol_index_name_symbol(x, 0, view_of("_ZN1a1bEi"), &name));
    assert_true(view_equal(name.function, view_of("a::b(int)")));
    assert_true(symbol_index_lookup(x, CODE, &frame, 1, &n));
    assert_int_equal(frame.function_number, name.number);
    assert_int_not_equal(frame.file_number, name.number);
    assert_true(symbol_index_name_symbol(x, 2, view_of("plain"), &name));
    assert_true(view_equal(name.function, view_of("plain")));
    uint32_t plain = name.number;
    assert_int_equal(symbol_index_save(x, again, KEY, NULL), 0);
    symbol_index_free(x);
    x = reload(again, KEY);
    assert_non_null(x);
    assert_true(symbol_index_expect_symbols(x, 3));
    assert_true(symbol_index_symbol(x, 0, &name));
    assert_true(view_equal(name.linkage, view_of("_ZN1a1bEi")));
    assert_true(view_equal(name.function, view_of("a::b(int)")));
    assert_false(symbol_index_symbol(x, 1, &name));
    assert_true(symbol_index_symbol(x, 2, &name));
    assert_int_equal(name.number, plain);
    assert_true(symbol_index_name_symbol(x, 1, view_of("plain"), &name));
    assert_int_equal(name.number, plain);
    assert_true(symbol_index_expect_symbols(x, 4)); /* another image's: nothing is known of them */
    assert_false(symbol_index_symbol(x, 0, &name));
    symbol_index_free(x);
    close(fd);
    close(again);
    dwarf_maker_release(&m);
}

/* Whatever byte is another one: it is refused, or answers. */
static void test_damaged_cache(void **state)
{
    struct dwarf_maker m = {0};
    struct symbol_frame frames[8];
    off_t size;
    size_t n, refused = 0;
    (void)state;
    int fd = saved(&m, &size);
    for (off_t at = 0; at < size; at++) {
        uint8_t was, is;
        assert_int_equal(pread(fd, &was, 1, at), 1);
        is = was ^ 0x81;
        assert_int_equal(pwrite(fd, &is, 1, at), 1);
        struct symbol_index *x = reload(fd, KEY);
        refused += x == NULL;
        for (uint64_t a = CODE; x && a < CODE + 0x30; a++)
            symbol_index_lookup(x, a, frames, 8, &n);
        symbol_index_free(x);
        assert_int_equal(pwrite(fd, &was, 1, at), 1);
    }
    assert_true(refused > 100);
    close(fd);
    dwarf_maker_release(&m);
}

static void test_without_debug_information(void **state)
{
    struct dwarf_maker m = {0};
    struct symbol_index *x;
    struct err e = {0};
    (void)state;
    struct elf_file *f = open_made(&m);
    assert_int_equal(symbol_index_build(&x, f, NULL, NULL, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    assert_string_equal(e.text, "no .debug_info");
    elf_file_close(f);
    dwarf_maker_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cycle_of_origins),
        cmocka_unit_test(test_origin_outside_of_the_section),
        cmocka_unit_test(test_origin_in_another_unit),
        cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_sibling_that_leads_back),
        cmocka_unit_test(test_overlapping_scopes),
        cmocka_unit_test(test_long_list_of_ranges),
        cmocka_unit_test(test_code_where_none_is),
        cmocka_unit_test(test_units_that_overlap),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_only_what_is_asked_for),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_names_of_symbols),
        cmocka_unit_test(test_damaged_cache),
        cmocka_unit_test(test_without_debug_information),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
