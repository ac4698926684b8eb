#ifndef TIDEMARK_SYMBOLS_INDEX_INDEX_SPLIT_H
#define TIDEMARK_SYMBOLS_INDEX_INDEX_SPLIT_H

/*
 * Split units: the entries of a unit in a file of its own (.dwo), or with those of others in one
 * (.dwp). Neither library reads .dwp files well in the versions at hand, and libdw looks for .dwo
 * files itself. So each split unit is given to the back end as a file of its own, made of parts:
 * its contributions to the .dwo sections, and of the skeleton's file the part of .debug_addr (and
 * of .debug_ranges, before DWARF 5) that the skeleton names.
 */

#include "base/err.h"
#include "symbols/dwarf/dwarf.h"

struct elf_file;

/* A .dwp file: its sections, and the index that says which parts of them are which unit's. */
struct split_package {
    bool present;
    struct dwarf_sections sections;
    struct view index; /* .debug_cu_index */
};

/* `f` stays open as long as the package is used. */
int split_package_read(struct split_package *p, struct elf_file *f, struct err *e);

/* The sections of the unit with this id. False when it is not there, or its place cannot be. */
bool split_package_find(const struct split_package *p, uint64_t id, struct dwarf_sections *out);

#endif
