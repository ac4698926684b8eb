/* Which back end reads which debug information. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dwarf.h>

#include "base/buf.h"
#include "symbols/dwarf/dwarf_choice.h"

#define OLD "20210528"
#define NEW "0.7.0"

/* One unit of a version whose first entry has a name of this form, and a line table. */
struct made {
    struct buf info, abbreviations, lines;
};

static struct dwarf_sections make(struct made *m, uint16_t version, uint16_t form, uint16_t lines)
{
    *m = (struct made){0};
    buf_put(&m->abbreviations, (const uint8_t[]){1, DW_TAG_compile_unit, 0, DW_AT_name}, 4);
    for (; form >= 0x80; form >>= 7)
        buf_u8(&m->abbreviations, (uint8_t)(form | 0x80));
    buf_u8(&m->abbreviations, (uint8_t)form);
    buf_put(&m->abbreviations, "\0\0\0", 3);
    buf_u32(&m->info, 0);
    buf_u16(&m->info, version);
    if (version >= 5)
        buf_put(&m->info, (const uint8_t[]){DW_UT_compile, 8}, 2);
    buf_u32(&m->info, 0);
    if (version < 5)
        buf_u8(&m->info, 8);
    buf_put(&m->info, "\1abcdefgh", 10);
    store_u32(m->info.data, (uint32_t)m->info.len - 4);
    buf_u32(&m->lines, 4);
    buf_u16(&m->lines, lines);
    buf_u16(&m->lines, 0);
    struct dwarf_sections s = {.is_64 = true};
    s.at[DWARF_INFO] = (struct view){(const char *)m->info.data, m->info.len};
    s.at[DWARF_ABBREV] = (struct view){(const char *)m->abbreviations.data, m->abbreviations.len};
    s.at[DWARF_LINE] = (struct view){(const char *)m->lines.data, m->lines.len};
    return s;
}

static void made_release(struct made *m)
{
    buf_release(&m->info);
    buf_release(&m->abbreviations);
    buf_release(&m->lines);
}

static void expect(uint16_t version, uint16_t form, uint16_t lines, bool old, bool newer)
{
    struct made m;
    struct dwarf_outline o;
    struct dwarf_sections s = make(&m, version, form, lines);
    dwarf_outline(&s, &o);
    assert_int_equal(dwarf_libdwarf_reads(OLD, &o), old);
    assert_int_equal(dwarf_libdwarf_reads("0.6.1", &o), old);
    assert_int_equal(dwarf_libdwarf_reads(NEW, &o), newer);
    assert_int_equal(dwarf_libdwarf_reads("0.11.0", &o), newer);
    assert_int_equal(dwarf_libdwarf_reads("1.0.0", &o), newer);
    assert_false(dwarf_libdwarf_reads(NULL, &o));
    made_release(&m);
}

static void test_forms_and_versions(void **state)
{
    (void)state;
    expect(4, DW_FORM_strp, 4, true, true);
    expect(2, DW_FORM_string, 2, true, true);
    expect(4, DW_FORM_GNU_strp_alt, 4, true, true);
    expect(4, DW_FORM_GNU_str_index, 3, true, true);
    expect(5, DW_FORM_strx1, 5, false, true);
    expect(4, DW_FORM_strp, 5, false, true);
    expect(5, DW_FORM_strp, 4, false, true);
    expect(5, DW_FORM_strx3, 5, false, true);
    expect(4, DW_FORM_strx3, 4, false, true);
    expect(4, DW_FORM_addrx3, 4, false, true);
    expect(4, DW_FORM_strp_sup, 4, false, false);
    expect(4, 0x70, 4, false, false); /* unknown */
    expect(4, 0x1f55, 4, false, false);
}

static void test_unsound(void **state)
{
    struct made m;
    struct dwarf_outline o;
    (void)state;
    expect(6, DW_FORM_strp, 4, false, false);
    expect(1, DW_FORM_strp, 4, false, false);
    expect(4, DW_FORM_strp, 77, false, false);
    struct dwarf_sections s = make(&m, 4, DW_FORM_strp, 4);
    for (size_t cut = 1; cut < m.info.len; cut++) {
        s.at[DWARF_INFO].len = m.info.len - cut;
        dwarf_outline(&s, &o);
        assert_false(o.sound);
    }
    s.at[DWARF_INFO].len = m.info.len;
    for (size_t cut = 1; cut <= m.abbreviations.len; cut++) {
        s.at[DWARF_ABBREV].len = m.abbreviations.len - cut;
        dwarf_outline(&s, &o);
        assert_false(o.sound);
    }
    s.at[DWARF_ABBREV].len = m.abbreviations.len;
    s.at[DWARF_RNGLISTS] = s.at[DWARF_LINE]; /* of DWARF 5, in a file without it */
    dwarf_outline(&s, &o);
    assert_false(o.sound);
    made_release(&m);
}

static void test_nothing(void **state)
{
    struct dwarf_sections s = {0};
    struct dwarf_outline o;
    (void)state;
    dwarf_outline(&s, &o);
    assert_false(o.sound);
    assert_ptr_equal(dwarf_choose(&s, NULL), &dwarf_libdw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms_and_versions),
        cmocka_unit_test(test_unsound),
        cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
