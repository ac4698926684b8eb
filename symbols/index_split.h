#ifndef TIDEMARK_SYMBOLS_INDEX_SPLIT_H
#define TIDEMARK_SYMBOLS_INDEX_SPLIT_H

/*
 * Split units: the entries of a unit in a file of its own (.dwo), or with those of others in one
 * (.dwp). Neither library reads .dwp files in the versions at hand, and libdw looks for .dwo files
 * itself. So each split unit is given to the back end as a file of its own, made of parts: its
 * contributions to the .dwo sections, and of the skeleton's file the part of .debug_addr (and of
 * .debug_ranges, before DWARF 5) that the skeleton names.
 */

#include "base/err.h"
#include "symbols/dwarf.h"

struct elf_file;

/* A .dwp file: sections, and in which rows of its index the units are. */
struct split_package {
    bool present;
    struct dwarf_sections sections;
    struct view index; /* .debug_cu_index */
};

int split_package_read(struct split_package *p, struct elf_file *f, struct err *e);
void split_package_release(struct split_package *p);

#endif
