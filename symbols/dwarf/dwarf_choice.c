/* Chooses the back end for an image from its unit headers and abbreviations. */

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/map.h"
#include "symbols/dwarf/dwarf_choice.h"

#define FORM_GNU_LOW 0x1f01  /* DW_FORM_GNU_addr_index, DW_FORM_GNU_str_index */
#define FORM_GNU_HIGH 0x1f21 /* DW_FORM_GNU_strp_alt */

static uint64_t uleb(struct cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = cursor_u8(c);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

static bool form_known(uint64_t form)
{
    return (form >= DW_FORM_addr && form <= DW_FORM_addrx4 && form != 0x02) ||
           (form >= FORM_GNU_LOW && form <= FORM_GNU_LOW + 1) ||
           (form >= FORM_GNU_HIGH - 1 && form <= FORM_GNU_HIGH);
}

static void look_at_form(struct cursor *c, uint64_t form, struct dwarf_outline *out)
{
    switch (form) {
    case DW_FORM_strx3:
    case DW_FORM_addrx3:
        out->three_bytes = true;
        break;
    case DW_FORM_ref_sup4:
    case DW_FORM_ref_sup8:
    case DW_FORM_strp_sup:
        out->supplement = true;
        break;
    case DW_FORM_implicit_const:
        uleb(c); /* signed, but equally long */
        break;
    default:
        out->unknown_form = out->unknown_form || !form_known(form);
        break;
    }
}

/* Scans one abbreviation table. False if it runs past the section's end. */
static bool look_at_table(const struct dwarf_sections *s, uint64_t offset,
                          struct dwarf_outline *out)
{
    struct view v = s->at[DWARF_ABBREV];
    if (offset >= v.len)
        return false;
    struct cursor c = cursor_over(v.p + offset, v.len - (size_t)offset);
    while (uleb(&c) != 0 && !c.short_read) {
        uleb(&c); /* tag */
        cursor_u8(&c);
        for (;;) {
            uint64_t name = uleb(&c), form = uleb(&c);
            if (c.short_read || (name == 0 && form == 0))
                break;
            look_at_form(&c, form, out);
        }
    }
    return !c.short_read;
}

struct unit_header {
    uint64_t end; /* end of the unit, in .debug_info */
    uint16_t version;
    uint64_t abbreviations;
};

/* False if there is no valid header. */
static bool unit_header(struct cursor *c, struct unit_header *h)
{
    uint64_t length = cursor_u32(c);
    bool wide = length == UINT32_MAX;
    if (wide)
        length = cursor_u64(c);
    else if (length >= 0xfffffff0)
        return false;
    if (length > cursor_left(c))
        return false;
    h->end = cursor_offset(c) + length;
    h->version = cursor_u16(c);
    uint8_t type = 0, size;
    if (h->version >= 5) {
        type = cursor_u8(c);
        size = cursor_u8(c);
        h->abbreviations = wide ? cursor_u64(c) : cursor_u32(c);
    } else {
        h->abbreviations = wide ? cursor_u64(c) : cursor_u32(c);
        size = cursor_u8(c);
    }
    return !c->short_read && h->version >= 2 && h->version <= 5 && type <= DW_UT_split_type &&
           (size == 4 || size == 8) && cursor_offset(c) <= h->end;
}

/* Scans the headers of the line tables, which follow one another. */
static void look_at_lines(const struct dwarf_sections *s, struct dwarf_outline *out)
{
    struct view v = s->at[DWARF_LINE];
    if (v.len == 0)
        return;
    struct cursor c = cursor_over(v.p, v.len);
    while (cursor_left(&c) > 0) {
        uint64_t length = cursor_u32(&c);
        if (length == UINT32_MAX)
            length = cursor_u64(&c);
        if (c.short_read || length > cursor_left(&c) || length < 2) {
            out->sound = false;
            return;
        }
        const uint8_t *next = c.pos + length;
        uint16_t version = cursor_u16(&c);
        out->version_5 = out->version_5 || version >= 5;
        out->sound = out->sound && version >= 2 && version <= 5;
        c.pos = next;
    }
}

void dwarf_outline(const struct dwarf_sections *s, struct dwarf_outline *out)
{
    struct view v = s->at[DWARF_INFO];
    struct map seen = {0};
    *out = (struct dwarf_outline){.sound = v.len > 0};
    if (v.len == 0)
        return;
    struct cursor c = cursor_over(v.p, v.len);
    while (out->sound && cursor_left(&c) > 0) {
        struct unit_header h;
        bool fresh;
        if (!unit_header(&c, &h) || !map_add(&seen, h.abbreviations, &fresh)) {
            out->sound = false;
            break;
        }
        out->version_5 = out->version_5 || h.version >= 5;
        if (fresh && !look_at_table(s, h.abbreviations, out))
            out->sound = false;
        c.pos = c.start + h.end;
        out->units++;
    }
    map_release(&seen);
    /* DWARF 5 sections without a DWARF 5 unit mean damage. */
    if (s->at[DWARF_RNGLISTS].len > 0 && !out->version_5)
        out->sound = false;
    look_at_lines(s, out);
}

/* Older versions are dates ("20210528"), newer ones numbers ("0.7.0"). */
static bool is_from_0_7(const char *version)
{
    char *end;
    unsigned long major = strtoul(version, &end, 10);
    if (end == version || *end != '.')
        return false;
    return major > 0 || strtoul(end + 1, NULL, 10) >= 7;
}

bool dwarf_libdwarf_reads(const char *version, const struct dwarf_outline *outline)
{
    if (!version || !outline->sound || outline->unknown_form || outline->supplement)
        return false;
    return is_from_0_7(version) || (!outline->three_bytes && !outline->version_5);
}

const struct dwarf_back_end *dwarf_choose(const struct dwarf_sections *s,
                                          const struct dwarf_sections *alternate)
{
    struct dwarf_outline main_outline, other = {.sound = true};
    const char *version = dwarf_libdwarf.version();
    dwarf_outline(s, &main_outline);
    if (alternate)
        dwarf_outline(alternate, &other);
    return dwarf_libdwarf_reads(version, &main_outline) && dwarf_libdwarf_reads(version, &other)
               ? &dwarf_libdwarf
               : &dwarf_libdw;
}
