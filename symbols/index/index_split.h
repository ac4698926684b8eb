#pragma once

/*
 * Split units: the entries of a unit in a separate file (.dwo), or together with others in one file
 * (.dwp). libdw reads .dwp files badly, and searches for .dwo files itself. So it gets each split
 * unit as a separate file. This code assembles it from the
 * unit's parts of the .dwo sections and, from the skeleton's file, the part of .debug_addr (before
 * DWARF 5 also of .debug_ranges) that the skeleton names.
 */

#include "base/err.h"
#include "symbols/dwarf/dwarf.h"

struct elf_file;

/* A .dwp file: its sections, and the index that maps units to parts of them. */
struct split_package {
    bool present;
    struct dwarf_sections sections;
    struct view index; /* .debug_cu_index */
};

/* `f` must stay open as long as the package is used. */
int split_package_read(struct split_package *p, struct elf_file *f, struct err *e);
