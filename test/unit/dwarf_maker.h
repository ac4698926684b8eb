#ifndef TIDEMARK_TEST_DWARF_MAKER_H
#define TIDEMARK_TEST_DWARF_MAKER_H

/*
 * Writes DWARF 4 entry by entry, and puts it into an ELF file whose only code is CODE to CODE_END.
 * What compilers never write is what it is for.
 */

#include <dwarf.h>

#include "elf_maker.h"

#define CODE 0x1000u
#define CODE_END 0x9000u

/* Kinds of entries, as numbered in the abbreviations below. */
enum made_entry {
    MADE_UNIT = 1,  /* low, size */
    MADE_FUNCTION,  /* name, low, size; has children */
    MADE_ABSTRACT,  /* name; no children */
    MADE_FORWARD,   /* origin; no children */
    MADE_INLINED,   /* origin, low, size, call line; has children */
    MADE_BLOCK,     /* has children */
    MADE_RANGED,    /* name, offset of ranges; no children */
    MADE_INSTANCE,  /* origin, low, size; no children */
    MADE_SPECIFIED, /* specification, low, size; no children */
};

static const uint8_t made_abbreviations[] = {
    MADE_UNIT,
    DW_TAG_compile_unit,
    1,
    DW_AT_low_pc,
    DW_FORM_addr,
    DW_AT_high_pc,
    DW_FORM_data8,
    DW_AT_stmt_list,
    DW_FORM_sec_offset,
    0,
    0,
    MADE_FUNCTION,
    DW_TAG_subprogram,
    1,
    DW_AT_name,
    DW_FORM_string,
    DW_AT_low_pc,
    DW_FORM_addr,
    DW_AT_high_pc,
    DW_FORM_data4,
    0,
    0,
    MADE_ABSTRACT,
    DW_TAG_subprogram,
    0,
    DW_AT_name,
    DW_FORM_string,
    0,
    0,
    MADE_FORWARD,
    DW_TAG_subprogram,
    0,
    DW_AT_abstract_origin,
    DW_FORM_ref_addr,
    0,
    0,
    MADE_INLINED,
    DW_TAG_inlined_subroutine,
    1,
    DW_AT_abstract_origin,
    DW_FORM_ref_addr,
    DW_AT_low_pc,
    DW_FORM_addr,
    DW_AT_high_pc,
    DW_FORM_data4,
    DW_AT_call_line,
    DW_FORM_data4,
    0,
    0,
    MADE_BLOCK,
    DW_TAG_lexical_block,
    1,
    0,
    0,
    MADE_RANGED,
    DW_TAG_subprogram,
    0,
    DW_AT_name,
    DW_FORM_string,
    DW_AT_ranges,
    DW_FORM_sec_offset,
    0,
    0,
    MADE_INSTANCE,
    DW_TAG_subprogram,
    0,
    DW_AT_abstract_origin,
    DW_FORM_ref_addr,
    DW_AT_low_pc,
    DW_FORM_addr,
    DW_AT_high_pc,
    DW_FORM_data4,
    0,
    0,
    MADE_SPECIFIED,
    DW_TAG_subprogram,
    0,
    DW_AT_specification,
    DW_FORM_ref_addr,
    DW_AT_low_pc,
    DW_FORM_addr,
    DW_AT_high_pc,
    DW_FORM_data4,
    0,
    0,
    0,
};

struct dwarf_maker {
    struct buf info, lines, ranges, file;
    size_t unit; /* where the unit at hand begins */
};

/* Begins a unit; its first entry is written. Line tables are those that are added next. */
static inline void dwarf_unit_begin(struct dwarf_maker *m, uint64_t low, uint64_t size)
{
    m->unit = m->info.len;
    buf_u32(&m->info, 0);
    buf_u16(&m->info, 4);
    buf_u32(&m->info, 0);
    buf_u8(&m->info, 8);
    buf_u8(&m->info, MADE_UNIT);
    buf_u64(&m->info, low);
    buf_u64(&m->info, size);
    buf_u32(&m->info, (uint32_t)m->lines.len);
}

static inline void dwarf_unit_end(struct dwarf_maker *m)
{
    buf_u8(&m->info, 0);
    store_u32(m->info.data + m->unit, (uint32_t)(m->info.len - m->unit - 4));
}

/* Each returns the entry's offset, for those that refer to it. */
static inline uint32_t made_name(struct dwarf_maker *m, enum made_entry kind, const char *name)
{
    uint32_t at = (uint32_t)m->info.len;
    buf_u8(&m->info, (uint8_t)kind);
    buf_put(&m->info, name, strlen(name) + 1);
    return at;
}

static inline void made_place(struct dwarf_maker *m, uint64_t low, uint32_t size)
{
    buf_u64(&m->info, low);
    buf_u32(&m->info, size);
}

static inline uint32_t made_function(struct dwarf_maker *m, const char *name, uint64_t low,
                                     uint32_t size)
{
    uint32_t at = made_name(m, MADE_FUNCTION, name);
    made_place(m, low, size);
    return at;
}

static inline uint32_t made_reference(struct dwarf_maker *m, enum made_entry kind, uint32_t to)
{
    uint32_t at = (uint32_t)m->info.len;
    buf_u8(&m->info, (uint8_t)kind);
    buf_u32(&m->info, to);
    return at;
}

static inline void made_inlined(struct dwarf_maker *m, uint32_t origin, uint64_t low, uint32_t size,
                                uint32_t line)
{
    made_reference(m, MADE_INLINED, origin);
    made_place(m, low, size);
    buf_u32(&m->info, line);
}

static inline void made_end(struct dwarf_maker *m)
{
    buf_u8(&m->info, 0);
}

/* ---- a line table of version 4 with one file; rows as (address, line), 0 for an end */

static inline size_t lines_begin(struct dwarf_maker *m)
{
    static const uint8_t lengths[] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};
    size_t at = m->lines.len;
    buf_u32(&m->lines, 0);
    buf_u16(&m->lines, 4);
    buf_u32(&m->lines, 0);
    size_t header = m->lines.len;
    buf_put(&m->lines, (const uint8_t[]){1, 1, 1, 0xfb, 14, 13}, 6);
    buf_put(&m->lines, lengths, sizeof lengths);
    buf_u8(&m->lines, 0); /* no directories */
    buf_put(&m->lines, "file.c\0\0\0", 10);
    buf_u8(&m->lines, 0);
    store_u32(m->lines.data + header - 4, (uint32_t)(m->lines.len - header));
    return at;
}

static inline void lines_end(struct dwarf_maker *m, size_t at)
{
    store_u32(m->lines.data + at, (uint32_t)(m->lines.len - at - 4));
}

static inline void lines_uleb(struct dwarf_maker *m, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        buf_u8(&m->lines, (uint8_t)(v | 0x80));
    buf_u8(&m->lines, (uint8_t)v);
}

/* A sequence of rows in order of address, up to one with line 0, which ends it. */
static inline void made_rows(struct dwarf_maker *m, const uint32_t (*rows)[2])
{
    uint32_t line = 1;
    buf_put(&m->lines, "\0\x09\x02", 3); /* DW_LNE_set_address */
    buf_u64(&m->lines, rows[0][0]);
    for (size_t i = 0;; i++) {
        if (i > 0) {
            buf_u8(&m->lines, DW_LNS_advance_pc);
            lines_uleb(m, rows[i][0] - rows[i - 1][0]);
        }
        if (rows[i][1] == 0)
            break;
        buf_u8(&m->lines, DW_LNS_advance_line);
        int32_t by = (int32_t)(rows[i][1] - line);
        buf_u8(&m->lines, (uint8_t)((by & 0x7f) | 0x80));
        buf_u8(&m->lines, (uint8_t)(((by >> 7) & 0x7f) | 0x80));
        buf_u8(&m->lines, (uint8_t)((by >> 14) & 0x7f));
        line = rows[i][1];
        buf_u8(&m->lines, DW_LNS_copy);
    }
    buf_put(&m->lines, "\0\x01\x01", 3); /* DW_LNE_end_sequence */
}

/* The ELF file, in m->file. */
static inline struct view dwarf_maker_finish(struct dwarf_maker *m)
{
    static const uint8_t nothing[CODE_END - CODE];
    struct elf_maker elf = {0};
    elf_maker_add(&elf, ".text", SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR, nothing, sizeof nothing);
    elf.sections[0].address = CODE;
    elf_maker_add(&elf, ".debug_info", SHT_PROGBITS, 0, m->info.data, m->info.len);
    elf_maker_add(&elf, ".debug_abbrev", SHT_PROGBITS, 0, made_abbreviations,
                  sizeof made_abbreviations);
    elf_maker_add(&elf, ".debug_line", SHT_PROGBITS, 0, m->lines.data, m->lines.len);
    elf_maker_add(&elf, ".debug_ranges", SHT_PROGBITS, 0, m->ranges.data, m->ranges.len);
    elf_maker_write(&elf, &m->file);
    return buf_view(&m->file);
}

static inline void dwarf_maker_release(struct dwarf_maker *m)
{
    buf_release(&m->info);
    buf_release(&m->lines);
    buf_release(&m->ranges);
    buf_release(&m->file);
}

#endif
