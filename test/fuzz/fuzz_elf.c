/*
 * Any bytes as an ELF file: its sections, inflated, its functions by address from all tables, and
 * what it says about debug files. Answers must lie where they say.
 */

#include <stdint.h>
#include <stdlib.h>

#include "symbols/elf/debug_link.h"
#include "symbols/elf/elf_file.h"
#include "symbols/elf/elf_symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void read_sections(struct elf_file *f, size_t size, uint64_t limit)
{
    uint64_t inflated = 0;
    for (size_t i = 0; i < elf_file_section_count(f); i++) {
        struct view bytes;
        struct err e = {0};
        const char *in = elf_file_bytes(f).p;
        if (elf_file_section_bytes(f, i, &bytes, &e) != 0) {
            check(e.code != ERR_NONE && !bytes.p);
            continue;
        }
        if (bytes.p && (bytes.p < in || bytes.p >= in + size))
            inflated += bytes.len;
        if (bytes.p && bytes.len > 0) /* all of it can be read */
            check(*(volatile const char *)bytes.p +
                      *(volatile const char *)&bytes.p[bytes.len - 1] <
                  1000);
    }
    check(inflated <= limit);
}

static void ask(const struct elf_symbols *s, uint64_t address)
{
    struct elf_symbol x;
    if (elf_symbols_find(s, address, &x)) {
        check((x.name.len > 0) == (x.source != ELF_SYMBOL_EH_FRAME));
        check(x.address <= address);
        check(x.size == 0 || address - x.address < x.size);
    }
    if (elf_symbols_nearest(s, address, &x))
        check(x.address <= address && x.name.len > 0);
}

static void read_functions(struct elf_file *f, const struct elf_limits *limits)
{
    struct elf_symbols *s;
    struct err e = {0};
    if (elf_symbols_read(&s, f, NULL, limits, &e) != 0)
        abort(); /* damage costs names, no more */
    for (size_t i = 0; i < elf_file_section_count(f) && i < 32; i++) {
        const struct elf_section *section = elf_file_section_at(f, i);
        for (uint64_t a = 0; a < 64; a++)
            ask(s, section->address + a * (section->size / 64 + 1));
    }
    ask(s, UINT64_MAX);
    elf_symbols_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct elf_limits limits = {.inflated_bytes = 8 << 20};
    struct elf_file *f;
    struct debug_link link;
    struct elf_key key;
    uint64_t x;
    struct err e = {0};
    if (elf_file_open_bytes(&f, (struct view){(const char *)data, size}, &limits, &e) != 0) {
        check(e.code == ERR_INPUT && !f);
        return 0;
    }
    elf_file_key(f, &key);
    read_sections(f, size, limits.inflated_bytes);
    if (debug_link_read(f, &link))
        check(link.name.len > 0);
    if (debug_altlink_read(f, &link))
        check(link.name.len > 0 && link.build_id.len > 0 && link.build_id.len <= BUILD_ID_MAX);
    if (elf_file_address_of_offset(f, size / 2, &x)) {
        struct view rest;
        elf_file_at_address(f, x, &rest);
        check(rest.len <= size);
    }
    read_functions(f, &limits);
    elf_file_close(f);
    return 0;
}
