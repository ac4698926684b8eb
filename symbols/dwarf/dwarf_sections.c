/* Reads the DWARF sections of an ELF file. */

#include <stdio.h>

#include "symbols/dwarf/dwarf.h"
#include "symbols/elf/elf_file.h"

const char *const dwarf_section_names[DWARF_SECTIONS] = {
    [DWARF_INFO] = ".debug_info",         [DWARF_ABBREV] = ".debug_abbrev",
    [DWARF_LINE] = ".debug_line",         [DWARF_STR] = ".debug_str",
    [DWARF_LINE_STR] = ".debug_line_str", [DWARF_STR_OFFSETS] = ".debug_str_offsets",
    [DWARF_ADDR] = ".debug_addr",         [DWARF_RANGES] = ".debug_ranges",
    [DWARF_RNGLISTS] = ".debug_rnglists",
};

int dwarf_sections_read(struct dwarf_sections *out, struct elf_file *f, bool split, struct err *e)
{
    *out = (struct dwarf_sections){.is_64 = elf_file_is_64(f), .machine = elf_file_machine(f)};
    for (int i = 0; i < DWARF_SECTIONS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%s", dwarf_section_names[i], split ? ".dwo" : "");
        if (elf_file_section(f, name, &out->at[i], e) != 0)
            return -1;
    }
    return 0;
}
