/*
 * Module tables, and how an address of a trace finds its image: each step of the order, and which
 * one goes before which.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "symbols/place/locate.h"

/* ---- module tables */

static void add(struct module_table *t, const char *line)
{
    struct err e = {0};
    if (module_table_add_line(t, view_of(line), &e) != 0)
        fail_msg("%s: %s", line, e.text);
}

static void test_lines(void **state)
{
    (void)state;
    struct module_table t = {0};
    add(&t, "55d0c0001000-55d0c0003000 1000 0123abCD /usr/bin/prog");
    add(&t, "7f0000000000-7f0000001000 0 - /lib/with blanks/lib x.so");
    add(&t, "# a comment");
    add(&t, "");
    add(&t, "7f1000000000-7f1000002000 r-xp 00026000 08:01 1234       /lib/libc.so.6\r");
    add(&t, "7f1000002000-7f1000003000 rw-p 00026000 08:01 1234       /lib/libc.so.6");
    add(&t, "7f2000000000-7f2000001000 r-xp 00000000 00:00 0          [vdso]");
    add(&t, "7f3000000000-7f3000001000 r-xp 00000000 00:00 0 ");
    add(&t, "7f4000000000-7f4000001000 r-xp 00000000 08:01 77         /tmp/gone (deleted)");
    assert_int_equal(t.list.len, 4);
    assert_int_equal(t.list.at[0].start, 0x55d0c0001000);
    assert_int_equal(t.list.at[0].end, 0x55d0c0003000);
    assert_int_equal(t.list.at[0].offset, 0x1000);
    assert_int_equal(t.list.at[0].build_id.len, 4);
    assert_memory_equal(t.list.at[0].build_id.bytes, "\x01\x23\xab\xcd", 4);
    assert_string_equal(t.list.at[0].path, "/usr/bin/prog");
    assert_string_equal(t.list.at[1].path, "/lib/with blanks/lib x.so");
    assert_int_equal(t.list.at[1].build_id.len, 0);
    assert_int_equal(t.list.at[2].offset, 0x26000);
    assert_string_equal(t.list.at[2].path, "/lib/libc.so.6");
    assert_string_equal(t.list.at[3].path, "/tmp/gone");
    module_table_release(&t);
}

static void test_bad_lines(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "nonsense",
        "1000-2000",
        "1000-2000 0",
        "2000-1000 0 - /x",
        "1000-1000 0 - /x",
        "-2000 0 - /x",
        "1000-11112222333344445 0 - /x",
        "1000-2000 0 abc /x",
        "1000-2000 0 xy /x",
        "1000-2000 zz - /x",
        "1000-2000 r-xp 0 08:01",
        "1000-2000 r-xp zz 08:01 12 /x",
        "1000-2000 r-xp 0 0801 12 /x",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct module_table t = {0};
        struct err e = {0};
        if (module_table_add_line(&t, view_of(bad[i]), &e) == 0)
            fail_msg("taken: %s", bad[i]);
        assert_int_equal(e.code, ERR_INPUT);
        assert_int_equal(t.list.len, 0);
        module_table_release(&t);
    }
    /* A build id of 65 bytes is none. */
    char line[256] = "1000-2000 0 ";
    memset(line + 12, 'a', 130);
    memcpy(line + 142, " /x", 4);
    struct module_table t = {0};
    assert_int_equal(module_table_add_line(&t, view_of(line), NULL), -1);
    struct err e = {0};
    assert_int_equal(
        module_table_add_text(&t, view_of("# one\n1000-2000 0 - /x\nthree\n"), "FILE", &e), -1);
    assert_non_null(strstr(e.text, "FILE: line 3: "));
    module_table_release(&t);
}

static void test_find(void **state)
{
    (void)state;
    struct module_table t = {0};
    struct err e = {0};
    assert_null(module_table_find(&t, 0x1000, NULL));
    add(&t, "5000-6000 0 - /b");
    add(&t, "1000-2000 0 - /a");
    add(&t, "5000-5800 0 - /later");
    add(&t, "2000-2001 0 - /c");
    assert_int_equal(module_table_sort(&t, &e), 0);
    assert_null(module_table_find(&t, 0xfff, NULL));
    assert_string_equal(module_table_find(&t, 0x1000, NULL)->path, "/a");
    assert_string_equal(module_table_find(&t, 0x1fff, NULL)->path, "/a");
    assert_string_equal(module_table_find(&t, 0x2000, NULL)->path, "/c");
    assert_null(module_table_find(&t, 0x2001, NULL));
    /* Of two at one place the later one, unless the frame names the other. */
    assert_string_equal(module_table_find(&t, 0x5001, NULL)->path, "/later");
    assert_string_equal(module_table_find(&t, 0x5001, "/b")->path, "/b");
    assert_string_equal(module_table_find(&t, 0x5801, "/nobody")->path, "/b");
    assert_null(module_table_find(&t, 0x6000, NULL));
    module_table_release(&t);
}

/* ---- the order */

struct setup {
    struct module_table facts, file;
    struct locate_base bases[2];
    size_t base_count;
    struct locate l;
};

static void locate(struct setup *s, const struct locate_frame *frames, size_t n)
{
    struct err e = {0};
    assert_int_equal(module_table_sort(&s->facts, &e), 0);
    assert_int_equal(module_table_sort(&s->file, &e), 0);
    const struct locate_options options = {
        .facts = &s->facts, .file = &s->file, .bases = s->bases, .base_count = s->base_count};
    locate_init(&s->l, &options);
    assert_int_equal(locate_frames(&s->l, frames, n, &e), 0);
    assert_int_equal(s->l.frames.len, n);
}

static void release(struct setup *s)
{
    locate_release(&s->l);
    module_table_release(&s->facts);
    module_table_release(&s->file);
}

static void expect(const struct setup *s, size_t i, enum locate_step step, enum place_kind kind,
                   uint64_t value, const char *path)
{
    const struct located *at = &s->l.frames.at[i];
    assert_int_equal(at->step, step);
    if (!path) {
        assert_int_equal(at->image, LOCATE_NONE);
        return;
    }
    assert_true(view_equal(s->l.images.at[at->image].path, view_of(path)));
    if (step == LOCATED_NOT)
        return;
    assert_int_equal(at->kind, kind);
    assert_int_equal(at->value, value);
}

#define IMAGE(TEXT) .image = {TEXT, sizeof(TEXT) - 1}
#define NAME(TEXT) .name = {TEXT, sizeof(TEXT) - 1}

static void test_nowhere(void **state)
{
    (void)state;
    struct setup s = {0};
    const struct locate_frame frames[] = {
        {.address = 0, IMAGE("/a")},
        {.address = 0xffffffff81000000u, IMAGE("/a")},
        {.address = 0x1000},
        {.address = 0x1000, IMAGE("/a")},
    };
    locate(&s, frames, 4);
    expect(&s, 0, LOCATED_NOT, 0, 0, NULL);
    expect(&s, 1, LOCATED_NOT, 0, 0, NULL);
    expect(&s, 2, LOCATED_NOT, 0, 0, NULL);
    expect(&s, 3, LOCATED_NOT, 0, 0, "/a");
    assert_int_equal(s.l.images.len, 1);
    assert_int_equal(s.l.images.at[0].frames[LOCATED_NOT], 1);
    release(&s);
}

/* A return address is that of the byte after the call: the byte before is looked up. */
static void test_module_table(void **state)
{
    (void)state;
    struct setup s = {0};
    add(&s.facts, "7f0000001000-7f0000005000 3000 aabb /lib/x.so");
    add(&s.file, "7f0000001000-7f0000005000 0 ccdd /other.so");
    const struct locate_frame frames[] = {
        {.address = 0x7f0000001234, IMAGE("/lib/x.so.1")},
        {.address = 0x7f0000001234, .exact = true},
        {.address = 0x7f0000005000, IMAGE("/lib/x.so")},
        {.address = 0x7f0000001234, IMAGE("/lib/other.so.1")},
        {.address = 0x7f0000001234, IMAGE("/usr/x.so.1.2")},
    };
    locate(&s, frames, 5);
    expect(&s, 0, LOCATED_MODULE, PLACE_FILE, 0x3233, "/lib/x.so");
    expect(&s, 1, LOCATED_MODULE, PLACE_FILE, 0x3234, "/lib/x.so");
    expect(&s, 2, LOCATED_NOT, 0, 0, "/lib/x.so");
    /* Another library cannot have been there: the table is not the client's. */
    expect(&s, 3, LOCATED_FILE, PLACE_FILE, 0x233, "/other.so");
    expect(&s, 4, LOCATED_MODULE, PLACE_FILE, 0x3233, "/lib/x.so");
    const struct locate_image *image = &s.l.images.at[s.l.frames.at[0].image];
    assert_int_equal(image->build_id.len, 2);
    assert_false(image->named_by_user);
    /* The frame beyond the mapping is of an image whose build id is not known. */
    assert_int_not_equal(s.l.frames.at[2].image, s.l.frames.at[0].image);
    release(&s);
}

static void test_modules_of_user(void **state)
{
    (void)state;
    struct setup s = {.bases = {{"prog", 0x555500000000}}, .base_count = 1};
    add(&s.file, "7f0000001000-7f0000005000 1000 - /lib/x.so");
    const struct locate_frame frames[] = {
        {.address = 0x7f0000001234, IMAGE("/lib/x.so")},
        {.address = 0x555500000101, IMAGE("/usr/bin/prog")},
        {.address = 0x5554ffffffff, IMAGE("/usr/bin/prog")},
        {.address = 0x555500000101, IMAGE("/usr/bin/other-prog")},
    };
    locate(&s, frames, 4);
    expect(&s, 0, LOCATED_FILE, PLACE_FILE, 0x1233, "/lib/x.so");
    expect(&s, 1, LOCATED_BASE, PLACE_OFFSET, 0x100, "/usr/bin/prog");
    expect(&s, 2, LOCATED_NOT, 0, 0, "/usr/bin/prog");
    expect(&s, 3, LOCATED_NOT, 0, 0, "/usr/bin/other-prog");
    assert_true(s.l.images.at[s.l.frames.at[0].image].named_by_user);
    assert_true(s.l.images.at[s.l.frames.at[1].image].named_by_user);
    assert_false(s.l.images.at[s.l.frames.at[3].image].named_by_user);
    release(&s);
}

/* Clients cannot name a program at a fixed place: then a path and its base do. */
static void test_nameless_program(void **state)
{
    (void)state;
    struct setup s = {.bases = {{"./prog", 0x400000}, {"prog", 0x410000}}, .base_count = 2};
    const struct locate_frame frames[] = {
        {.address = 0x401235},
        {.address = 0x3ffff0},
        {.address = 0x420001},
        {.address = 0x410235, IMAGE("/lib/other")},
    };
    locate(&s, frames, 4);
    expect(&s, 0, LOCATED_BASE, PLACE_OFFSET, 0x1234, "./prog");
    expect(&s, 1, LOCATED_NOT, 0, 0, NULL);
    expect(&s, 2, LOCATED_BASE, PLACE_OFFSET, 0x20000, "./prog");
    expect(&s, 3, LOCATED_NOT, 0, 0, "/lib/other");
    release(&s);
}

/* --base goes before --modules, both after the capture's own table. */
static void test_order(void **state)
{
    (void)state;
    struct setup s = {.bases = {{"/x", 0x1000}, {"/y", 0x1000}}, .base_count = 2};
    add(&s.facts, "2000-3000 0 aa /x");
    add(&s.file, "2000-3000 100 bb /x");
    add(&s.file, "4000-5000 100 bb /y");
    const struct locate_frame frames[] = {
        {.address = 0x2010, IMAGE("/x")},
        {.address = 0x4010, IMAGE("/y")},
        {.address = 0x4010, IMAGE("/z")},
        {.address = 0x2010, .symbol = 0x10, .unresolved = true, IMAGE("/offline")},
    };
    locate(&s, frames, 4);
    expect(&s, 0, LOCATED_MODULE, PLACE_FILE, 0xf, "/x");
    expect(&s, 1, LOCATED_BASE, PLACE_OFFSET, 0x300f, "/y");
    expect(&s, 2, LOCATED_FILE, PLACE_FILE, 0x10f, "/y");
    expect(&s, 3, LOCATED_OFFSET, PLACE_OFFSET, 0xf, "/offline");
    /* What the offset lies in is checked by the build id that the table has for the address. */
    assert_int_equal(s.l.images.at[s.l.frames.at[3].image].build_id.bytes[0], 0xaa);
    release(&s);
}

/* ---- offsets */

static void test_offsets(void **state)
{
    (void)state;
    struct setup s = {0};
    const struct locate_frame frames[] = {
        /* two, loaded whole pages apart: a library that was closed and opened again */
        {.address = 0x7f0000001234, .symbol = 0x1234, .unresolved = true, IMAGE("/lib/x.so")},
        {.address = 0x7f5500001300, .symbol = 0x1300, .unresolved = true, IMAGE("/lib/x.so")},
        /* resolved since */
        {.address = 0x7f0000001400, .symbol = 0x1400, IMAGE("/lib/x.so"), NAME("f")},
        /* a program at a fixed place */
        {.address = 0x401234, .symbol = 0x401234, .unresolved = true, IMAGE("/bin/fixed")},
        /* a symbol of the list: an offset, too */
        {.address = 0x1200, .symbol = 0x1200, .exact = true, .listed = true, IMAGE("/lib/x.so")},
    };
    locate(&s, frames, 5);
    expect(&s, 0, LOCATED_OFFSET, PLACE_OFFSET, 0x1233, "/lib/x.so");
    expect(&s, 1, LOCATED_OFFSET, PLACE_OFFSET, 0x12ff, "/lib/x.so");
    expect(&s, 2, LOCATED_OFFSET, PLACE_OFFSET, 0x13ff, "/lib/x.so");
    expect(&s, 3, LOCATED_OFFSET, PLACE_ADDRESS, 0x401233, "/bin/fixed");
    expect(&s, 4, LOCATED_OFFSET, PLACE_OFFSET, 0x1200, "/lib/x.so");
    assert_int_equal(s.l.images.at[0].frames[LOCATED_OFFSET], 3);
    release(&s);
}

/* update -R marks frames whose symbol addresses are no offsets, but addresses in the client. */
static void test_reset_frames(void **state)
{
    (void)state;
    struct setup s = {0};
    const struct locate_frame frames[] = {
        {.address = 0x7f0000001234, .symbol = 0x7f0000001200, .unresolved = true, IMAGE("/x")},
        {.address = 0x7f0000002000, .symbol = 0x7f0000001ff0, .unresolved = true, IMAGE("/x")},
        {.address = 0x7f0000003000, .symbol = 0x7f0000003000, .unresolved = true, IMAGE("/y")},
    };
    locate(&s, frames, 3);
    expect(&s, 0, LOCATED_NOT, 0, 0, "/x");
    expect(&s, 1, LOCATED_NOT, 0, 0, "/x");
    expect(&s, 2, LOCATED_NOT, 0, 0, "/y");
    release(&s);
}

/* ---- inference */

static void test_hints_and_bias(void **state)
{
    (void)state;
    struct setup s = {0};
    const struct locate_frame frames[] = {
        {.address = 0x7f0000001234, .start = 0x7f0000001200, IMAGE("/x"), NAME("one")},
        {.address = 0x7f0000001238, .start = 0x7f0000001200, IMAGE("/x"), NAME("one")},
        {.address = 0x7f0000002000, .start = 0x7f0000001f00, IMAGE("/x"), NAME("two")},
        {.address = 0x7f0000009000, IMAGE("/x")},
        {.address = 0x500, IMAGE("/x")},
        {.address = 0x7f0000009000, IMAGE("/y")},
    };
    size_t n;
    locate(&s, frames, 6);
    assert_int_equal(s.l.images.at[0].hints.len, 2);
    assert_int_equal(s.l.images.at[0].hints.at[1].address, 0x7f0000001f00);
    assert_int_equal(s.l.images.at[1].hints.len, 0);
    locate_set_bias(&s.l, 0, 0x7f0000000000);
    expect(&s, 0, LOCATED_INFERRED, PLACE_ADDRESS, 0x1233, "/x");
    expect(&s, 3, LOCATED_INFERRED, PLACE_ADDRESS, 0x8fff, "/x");
    expect(&s, 4, LOCATED_NOT, 0, 0, "/x"); /* below the image */
    expect(&s, 5, LOCATED_NOT, 0, 0, "/y");
    assert_int_equal(s.l.images.at[0].frames[LOCATED_INFERRED], 4);
    assert_int_equal(s.l.images.at[0].frames[LOCATED_NOT], 1);
    const uint32_t *of = locate_frames_of(&s.l, 0, &n);
    assert_int_equal(n, 5);
    assert_int_equal(of[4], 4);
    assert_int_equal(*locate_frames_of(&s.l, 1, &n), 5);
    assert_int_equal(n, 1);
    release(&s);
}

static void test_base_option(void **state)
{
    (void)state;
    struct locate_base base;
    char *room = NULL;
    struct err e = {0};
    assert_int_equal(locate_base_parse("/lib/a=b.so=0x7f00", &base, &room, &e), 0);
    assert_string_equal(base.image, "/lib/a=b.so");
    assert_int_equal(base.address, 0x7f00);
    free(room);
    static const char *const bad[] = {
        "", "x", "=12", "x=", "x=zz", "x=12g", "x=-1", "x=11112222333344445"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        room = NULL;
        assert_int_equal(locate_base_parse(bad[i], &base, &room, &e), -1);
        assert_null(room);
        assert_int_equal(e.code, ERR_USAGE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),        cmocka_unit_test(test_bad_lines),
        cmocka_unit_test(test_find),         cmocka_unit_test(test_nowhere),
        cmocka_unit_test(test_module_table), cmocka_unit_test(test_modules_of_user),
        cmocka_unit_test(test_order),        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_reset_frames), cmocka_unit_test(test_hints_and_bias),
        cmocka_unit_test(test_base_option),  cmocka_unit_test(test_nameless_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
