#ifndef TIDEMARK_TEST_ELF_MAKER_H
#define TIDEMARK_TEST_ELF_MAKER_H

/* Makes small ELF files in memory: sections as given, segments as given, nothing else. */

#include <elf.h>
#include <string.h>

#include "base/buf.h"
#include "base/view.h"

#define MAKER_PARTS 16

struct made_section {
    const char *name;
    uint32_t type;
    uint64_t flags;
    uint64_t address;
    const void *bytes;
    size_t len;
    uint32_t link; /* counts from 1: the number that the file will have */
    uint64_t entry_size;
    uint64_t offset; /* filled in */
};

struct elf_maker {
    bool narrow; /* 32-bit */
    uint16_t machine;
    uint16_t type;
    struct made_section sections[MAKER_PARTS];
    size_t section_count;
    /* PT_LOAD segments begin where the section of that number does. */
    struct {
        uint32_t type, flags;
        size_t first; /* index into sections */
        uint64_t address, size;
    } segments[MAKER_PARTS];
    size_t segment_count;
};

static inline size_t elf_maker_add(struct elf_maker *m, const char *name, uint32_t type,
                                   uint64_t flags, const void *bytes, size_t len)
{
    struct made_section *s = &m->sections[m->section_count++];
    *s = (struct made_section){
        .name = name, .type = type, .flags = flags, .bytes = bytes, .len = len};
    return m->section_count;
}

static inline void maker_word(const struct elf_maker *m, struct buf *b, uint64_t v)
{
    if (m->narrow)
        buf_u32(b, (uint32_t)v);
    else
        buf_u64(b, v);
}

static inline void maker_section_header(const struct elf_maker *m, struct buf *b, uint32_t name,
                                        const struct made_section *s)
{
    buf_u32(b, name);
    buf_u32(b, s->type);
    maker_word(m, b, s->flags);
    maker_word(m, b, s->address);
    maker_word(m, b, s->offset);
    maker_word(m, b, s->len);
    buf_u32(b, s->link);
    buf_u32(b, 0);
    maker_word(m, b, 1);
    maker_word(m, b, s->entry_size);
}

static inline void maker_program_headers(const struct elf_maker *m, struct buf *b)
{
    for (size_t i = 0; i < m->segment_count; i++) {
        buf_u32(b, m->segments[i].type);
        if (!m->narrow)
            buf_u32(b, m->segments[i].flags);
        maker_word(m, b, m->sections[m->segments[i].first].offset);
        maker_word(m, b, m->segments[i].address);
        maker_word(m, b, m->segments[i].address);
        maker_word(m, b, m->segments[i].size);
        maker_word(m, b, m->segments[i].size);
        if (m->narrow)
            buf_u32(b, m->segments[i].flags);
        maker_word(m, b, 4);
    }
}

/* Writes the file: header, program headers, sections, their names, section headers. */
static inline void elf_maker_write(struct elf_maker *m, struct buf *out)
{
    struct buf names = {0};
    uint32_t name_at[MAKER_PARTS + 1];
    size_t header = m->narrow ? sizeof(Elf32_Ehdr) : sizeof(Elf64_Ehdr);
    size_t program = m->narrow ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr);
    size_t at = header + m->segment_count * program;
    struct made_section strings = {.name = ".shstrtab", .type = SHT_STRTAB};
    buf_u8(&names, 0);
    for (size_t i = 0; i <= m->section_count; i++) {
        name_at[i] = (uint32_t)names.len;
        buf_puts(&names, i < m->section_count ? m->sections[i].name : strings.name);
        buf_u8(&names, 0);
    }
    for (size_t i = 0; i < m->section_count; i++) {
        m->sections[i].offset = at;
        at += m->sections[i].type == SHT_NOBITS ? 0 : m->sections[i].len;
    }
    strings.offset = at;
    strings.len = names.len;
    at += names.len;
    buf_put(out, "\177ELF", 4);
    buf_u8(out, m->narrow ? ELFCLASS32 : ELFCLASS64);
    buf_u8(out, ELFDATA2LSB);
    buf_u8(out, EV_CURRENT);
    buf_put(out, "\0\0\0\0\0\0\0\0", 9);
    buf_u16(out, m->type ? m->type : ET_DYN);
    buf_u16(out, m->machine ? m->machine : EM_X86_64);
    buf_u32(out, EV_CURRENT);
    maker_word(m, out, 0);
    maker_word(m, out, m->segment_count ? header : 0);
    maker_word(m, out, at);
    buf_u32(out, 0);
    buf_u16(out, (uint16_t)header);
    buf_u16(out, (uint16_t)program);
    buf_u16(out, (uint16_t)m->segment_count);
    buf_u16(out, m->narrow ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr));
    buf_u16(out, (uint16_t)(m->section_count + 2));
    buf_u16(out, (uint16_t)(m->section_count + 1));
    maker_program_headers(m, out);
    for (size_t i = 0; i < m->section_count; i++) {
        if (m->sections[i].type != SHT_NOBITS)
            buf_put(out, m->sections[i].bytes, m->sections[i].len);
    }
    buf_put(out, names.data, names.len);
    maker_section_header(m, out, 0, &(struct made_section){0});
    for (size_t i = 0; i < m->section_count; i++)
        maker_section_header(m, out, name_at[i], &m->sections[i]);
    maker_section_header(m, out, name_at[m->section_count], &strings);
    buf_release(&names);
}

#endif
