/* Entries read from their bytes: each form, and bytes that end too early. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dwarf.h>
#include <string.h>

#include "base/buf.h"
#include "symbols/dwarf/dwarf_forms.h"

#define LENGTH(A) (sizeof(A) / sizeof(A)[0])

/* A unit of 32 bytes of something else, then the entry. */
struct made {
    struct buf info;
    struct dwarf_sections sections;
    struct dwarf_form_unit unit;
};

static void begin(struct made *m, uint8_t address_size, uint8_t offset_size)
{
    static const char strings[] = "no\0name";
    *m = (struct made){0};
    for (int i = 0; i < 32; i++)
        buf_u8(&m->info, 0xff);
    buf_u8(&m->info, 0x85); /* code 5, in two bytes */
    buf_u8(&m->info, 0x00);
    m->sections.at[DWARF_STR] = (struct view){strings, sizeof strings};
    m->unit = (struct dwarf_form_unit){.sections = &m->sections,
                                       .offset = 16,
                                       .address_size = address_size,
                                       .offset_size = offset_size,
                                       .version = 4};
}

static bool read_made(struct made *m, const struct dwarf_form *forms, size_t n,
                      struct dwarf_entry *entry)
{
    assert_false(m->info.failed);
    assert_true(dwarf_forms_known(forms, n));
    m->sections.at[DWARF_INFO] = (struct view){(const char *)m->info.data, m->info.len};
    m->unit.end = m->info.len;
    return dwarf_forms_read(&m->unit, 32, forms, n, entry);
}

static void test_all_forms(void **state)
{
    static const struct dwarf_form forms[] = {
        {DW_AT_decl_line, DW_FORM_data1},    {DW_AT_decl_line, DW_FORM_sdata},
        {DW_AT_location, DW_FORM_exprloc},   {DW_AT_location, DW_FORM_block1},
        {DW_AT_location, DW_FORM_block2},    {DW_AT_location, DW_FORM_block4},
        {DW_AT_external, DW_FORM_flag},      {DW_AT_artificial, DW_FORM_flag_present},
        {DW_AT_signature, DW_FORM_ref_sig8}, {DW_AT_name, DW_FORM_string},
        {DW_AT_linkage_name, DW_FORM_strp},  {DW_AT_low_pc, DW_FORM_addr},
        {DW_AT_high_pc, DW_FORM_udata},      {DW_AT_abstract_origin, DW_FORM_ref4},
        {DW_AT_specification, DW_FORM_ref1}, {DW_AT_call_file, DW_FORM_data2},
        {DW_AT_call_line, DW_FORM_data8},    {DW_AT_call_column, DW_FORM_data4},
        {DW_AT_ranges, DW_FORM_sec_offset}};
    struct made m;
    struct dwarf_entry e;
    (void)state;
    begin(&m, 8, 4);
    buf_u8(&m.info, 7);
    buf_puts(&m.info, "\xff\x7f"
                      "\x02xx"
                      "\x01y");
    buf_u16(&m.info, 3);
    buf_puts(&m.info, "zzz");
    buf_u32(&m.info, 1);
    buf_puts(&m.info, "w\x01");
    buf_u64(&m.info, 99);
    buf_put(&m.info, "inner", 6);
    buf_u32(&m.info, 3);
    buf_u64(&m.info, 0x401000);
    buf_puts(&m.info, "\x80\x02");
    buf_u32(&m.info, 2);
    buf_u8(&m.info, 3);
    buf_u16(&m.info, 300);
    buf_u64(&m.info, UINT64_C(1) << 32); /* too large for a line */
    buf_u32(&m.info, 12);
    buf_u32(&m.info, 0x10);
    assert_true(read_made(&m, forms, LENGTH(forms), &e));
    assert_string_equal(e.name, "inner");
    assert_string_equal(e.linkage_name, "name");
    assert_true(e.has_low && e.has_high && e.has_ranges);
    assert_int_equal(e.low, 0x401000);
    assert_int_equal(e.high, 0x401100);
    assert_true(e.origin.present && e.specification.present);
    assert_int_equal(e.origin.offset, 18);
    assert_int_equal(e.specification.offset, 19);
    assert_int_equal(e.call_file, 300);
    assert_int_equal(e.call_line, 0);
    assert_int_equal(e.call_column, 12);
    /* Cut short anywhere it is refused. */
    size_t len = m.info.len;
    for (size_t cut = len - 1; cut > 33; cut--) {
        m.info.len = cut;
        assert_false(read_made(&m, forms, LENGTH(forms), &e));
    }
    m.info.len = 32;
    assert_false(read_made(&m, forms, LENGTH(forms), &e)); /* behind the section's end */
    buf_release(&m.info);
}

/* 64-bit DWARF of a 32-bit program, and addresses as references in DWARF 2. */
static void test_sizes(void **state)
{
    static const struct dwarf_form forms[] = {{DW_AT_linkage_name, DW_FORM_strp},
                                              {DW_AT_low_pc, DW_FORM_addr},
                                              {DW_AT_high_pc, DW_FORM_addr},
                                              {DW_AT_abstract_origin, DW_FORM_ref_addr}};
    struct made m;
    struct dwarf_entry e;
    (void)state;
    for (uint16_t version = 2; version <= 3; version++) {
        begin(&m, 4, 8);
        m.unit.version = version;
        buf_u64(&m.info, 3);
        buf_u32(&m.info, 0x1000);
        buf_u32(&m.info, 0x1010);
        if (version == 2)
            buf_u32(&m.info, 20);
        else
            buf_u64(&m.info, 20);
        assert_true(read_made(&m, forms, LENGTH(forms), &e));
        assert_string_equal(e.linkage_name, "name");
        assert_int_equal(e.high, 0x1010);
        assert_int_equal(e.origin.offset, 20);
        buf_release(&m.info);
    }
}

static void test_outside(void **state)
{
    static const struct dwarf_form string = {DW_AT_name, DW_FORM_strp};
    static const struct dwarf_form reference = {DW_AT_specification, DW_FORM_ref4};
    static const struct dwarf_form block = {DW_AT_location, DW_FORM_exprloc};
    struct made m;
    struct dwarf_entry e;
    (void)state;
    begin(&m, 8, 4);
    buf_u32(&m.info, 8); /* the section has so many bytes */
    assert_false(read_made(&m, &string, 1, &e));
    assert_true(read_made(&m, &reference, 1, &e));
    assert_true(e.specification.present);
    buf_release(&m.info);
    begin(&m, 8, 4);
    buf_u32(&m.info, 0xfffffff0);
    assert_true(read_made(&m, &reference, 1, &e));
    assert_false(e.specification.present);
    buf_release(&m.info);
    begin(&m, 8, 4);
    for (int i = 0; i < 40; i++)
        buf_u8(&m.info, 0xff); /* a length that never ends */
    assert_false(read_made(&m, &block, 1, &e));
    buf_release(&m.info);
}

static void test_left_to_the_library(void **state)
{
    static const struct dwarf_form forms[] = {{DW_AT_name, DW_FORM_strx1},
                                              {DW_AT_name, DW_FORM_GNU_strp_alt},
                                              {DW_AT_low_pc, DW_FORM_addrx},
                                              {DW_AT_decl_line, DW_FORM_indirect},
                                              {DW_AT_call_line, DW_FORM_sdata},
                                              {DW_AT_decl_file, DW_FORM_implicit_const},
                                              {DW_AT_specification, DW_FORM_ref_sig8}};
    (void)state;
    for (size_t i = 0; i < LENGTH(forms); i++)
        assert_false(dwarf_forms_known(&forms[i], 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_forms),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_outside),
        cmocka_unit_test(test_left_to_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
