#include "symbols/dwarf/dwarf_forms.h"

#include <dwarf.h>
#include <string.h>

#include "base/cursor.h"

enum value_kind { VALUE_NONE, VALUE_TEXT, VALUE_ADDRESS, VALUE_NUMBER, VALUE_REFERENCE };

/* The type to decode an attribute as; VALUE_NONE: skip it. */
static bool wants(uint16_t attribute, enum value_kind kind)
{
    switch (attribute) {
    case DW_AT_name:
    case DW_AT_linkage_name:
    case DW_AT_MIPS_linkage_name:
        return kind == VALUE_TEXT;
    case DW_AT_low_pc:
        return kind == VALUE_ADDRESS;
    case DW_AT_high_pc:
        return kind == VALUE_ADDRESS || kind == VALUE_NUMBER;
    case DW_AT_abstract_origin:
    case DW_AT_specification:
        return kind == VALUE_REFERENCE;
    case DW_AT_call_file:
    case DW_AT_call_line:
    case DW_AT_call_column:
        return kind == VALUE_NUMBER;
    default:
        return true;
    }
}

/* The type of a form; false if it is not decoded here. */
static bool kind_of(uint16_t form, enum value_kind *kind)
{
    switch (form) {
    case DW_FORM_string:
    case DW_FORM_strp:
        *kind = VALUE_TEXT;
        return true;
    case DW_FORM_addr:
        *kind = VALUE_ADDRESS;
        return true;
    case DW_FORM_data1:
    case DW_FORM_data2:
    case DW_FORM_data4:
    case DW_FORM_data8:
    case DW_FORM_udata:
        *kind = VALUE_NUMBER;
        return true;
    case DW_FORM_ref1:
    case DW_FORM_ref2:
    case DW_FORM_ref4:
    case DW_FORM_ref8:
    case DW_FORM_ref_udata:
    case DW_FORM_ref_addr:
        *kind = VALUE_REFERENCE;
        return true;
    case DW_FORM_sdata:
    case DW_FORM_sec_offset:
    case DW_FORM_ref_sig8:
    case DW_FORM_flag:
    case DW_FORM_flag_present:
    case DW_FORM_exprloc:
    case DW_FORM_block:
    case DW_FORM_block1:
    case DW_FORM_block2:
    case DW_FORM_block4:
        *kind = VALUE_NONE;
        return true;
    default:
        return false;
    }
}

bool dwarf_forms_known(const struct dwarf_form *forms, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        enum value_kind kind;
        if (!kind_of(forms[i].form, &kind) || !wants(forms[i].attribute, kind))
            return false;
    }
    return true;
}

static uint64_t take_leb(struct cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0; !c->short_read; shift += 7) {
        uint8_t byte = cursor_u8(c);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            break;
    }
    return value;
}

static uint64_t take_sized(struct cursor *c, unsigned size)
{
    return size == 8 ? cursor_u64(c) : cursor_u32(c);
}

static void pass(struct cursor *c, uint64_t n)
{
    if (n > cursor_left(c))
        c->short_read = true;
    else
        c->pos += n;
}

static const char *take_string(struct cursor *c)
{
    const char *text = (const char *)c->pos;
    const uint8_t *end = memchr(c->pos, 0, cursor_left(c));
    if (!end) {
        c->short_read = true;
        return NULL;
    }
    c->pos = end + 1;
    return text;
}

/* Returns a string of .debug_str. Only strings before the section's last NUL are terminated. */
static const char *string_at(const struct dwarf_sections *s, uint64_t offset, struct cursor *c)
{
    struct view v = s->at[DWARF_STR];
    if (offset < v.len && (v.p[v.len - 1] == 0 || memchr(v.p + offset, 0, v.len - offset)))
        return v.p + offset;
    c->short_read = true;
    return NULL;
}

struct value {
    const char *text;
    uint64_t number; /* an address, a number, or an offset in .debug_info */
};

static uint64_t take_number(struct cursor *c, uint16_t form)
{
    switch (form) {
    case DW_FORM_data1:
    case DW_FORM_ref1:
    case DW_FORM_block1:
        return cursor_u8(c);
    case DW_FORM_data2:
    case DW_FORM_ref2:
    case DW_FORM_block2:
        return cursor_u16(c);
    case DW_FORM_data4:
    case DW_FORM_ref4:
    case DW_FORM_block4:
        return cursor_u32(c);
    case DW_FORM_data8:
    case DW_FORM_ref8:
        return cursor_u64(c);
    default:
        return take_leb(c);
    }
}

static struct value take(struct cursor *c, const struct dwarf_form_unit *u, uint16_t form)
{
    struct value out = {0};
    switch (form) {
    case DW_FORM_string:
        out.text = take_string(c);
        break;
    case DW_FORM_strp:
        out.text = string_at(u->sections, take_sized(c, u->offset_size), c);
        break;
    case DW_FORM_addr:
        out.number = take_sized(c, u->address_size);
        break;
    case DW_FORM_ref1:
    case DW_FORM_ref2:
    case DW_FORM_ref4:
    case DW_FORM_ref8:
    case DW_FORM_ref_udata:
        out.number = u->offset + take_number(c, form);
        break;
    case DW_FORM_ref_addr: /* as wide as an address in DWARF 2 */
        out.number = take_sized(c, u->version == 2 ? u->address_size : u->offset_size);
        break;
    case DW_FORM_sec_offset:
        pass(c, u->offset_size);
        break;
    case DW_FORM_ref_sig8:
        pass(c, 8);
        break;
    case DW_FORM_flag:
        pass(c, 1);
        break;
    case DW_FORM_flag_present:
        break;
    case DW_FORM_exprloc:
    case DW_FORM_block:
    case DW_FORM_block1:
    case DW_FORM_block2:
    case DW_FORM_block4:
        pass(c, take_number(c, form));
        break;
    default:
        out.number = take_number(c, form);
        break;
    }
    return out;
}

static struct dwarf_reference reference_to(const struct dwarf_form_unit *u, uint64_t offset)
{
    return (struct dwarf_reference){.present = offset < u->sections->at[DWARF_INFO].len,
                                    .offset = offset};
}

static uint32_t small(uint64_t number)
{
    return number <= UINT32_MAX ? (uint32_t)number : 0;
}

static void put(const struct dwarf_form_unit *u, const struct dwarf_form *f, const struct value *v,
                struct dwarf_entry *entry)
{
    switch (f->attribute) {
    case DW_AT_name:
        entry->name = v->text;
        break;
    case DW_AT_linkage_name:
    case DW_AT_MIPS_linkage_name:
        entry->linkage_name = v->text;
        break;
    case DW_AT_low_pc:
        entry->has_low = true;
        entry->low = v->number;
        break;
    case DW_AT_high_pc:
        entry->has_high = true;
        entry->high = v->number;
        break;
    case DW_AT_ranges:
        entry->has_ranges = true;
        break;
    case DW_AT_abstract_origin:
        entry->origin = reference_to(u, v->number);
        break;
    case DW_AT_specification:
        entry->specification = reference_to(u, v->number);
        break;
    case DW_AT_call_file:
        entry->call_file = small(v->number);
        break;
    case DW_AT_call_line:
        entry->call_line = small(v->number);
        break;
    case DW_AT_call_column:
        entry->call_column = small(v->number);
        break;
    default:
        break;
    }
}

bool dwarf_forms_read(const struct dwarf_form_unit *unit, uint64_t offset,
                      const struct dwarf_form *forms, size_t n, struct dwarf_entry *entry)
{
    struct view info = unit->sections->at[DWARF_INFO];
    bool high_is_size = false;
    *entry = (struct dwarf_entry){0};
    if (unit->end > info.len || offset >= unit->end)
        return false;
    struct cursor c = cursor_over(info.p + offset, (size_t)(unit->end - offset));
    (void)take_leb(&c); /* the abbreviation's code */
    for (size_t i = 0; i < n && !c.short_read; i++) {
        const struct value v = take(&c, unit, forms[i].form);
        put(unit, &forms[i], &v, entry);
        if (forms[i].attribute == DW_AT_high_pc)
            high_is_size = forms[i].form != DW_FORM_addr;
    }
    if (high_is_size)
        entry->high += entry->low;
    return !c.short_read;
}
