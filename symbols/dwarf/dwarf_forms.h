#ifndef TIDEMARK_SYMBOLS_DWARF_DWARF_FORMS_H
#define TIDEMARK_SYMBOLS_DWARF_DWARF_FORMS_H

/*
 * The attributes of an entry from its bytes, for a back end whose library is slow at that: libdwarf
 * allocates each attribute. Which attributes in which forms an abbreviation stands for, the library
 * has told once; what is decoded here is how the forms lie in .debug_info. Forms that refer to more
 * than the section and .debug_str are left to the library.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols/dwarf/dwarf.h"

struct dwarf_form {
    uint16_t attribute, form;
};

/* The unit that an entry lies in. */
struct dwarf_form_unit {
    const struct dwarf_sections *sections;
    uint64_t offset, end; /* in .debug_info */
    uint8_t address_size; /* 4 or 8 */
    uint8_t offset_size;  /* 4 or 8 */
    uint16_t version;
};

/* Whether entries with these attributes can be read here. Not for the first entry of a unit. */
bool dwarf_forms_known(const struct dwarf_form *forms, size_t n);

/*
 * Reads the entry at `offset`, whose abbreviation is `forms`, all known. False when it does not
 * fit the unit, or something in it lies outside of its section.
 */
bool dwarf_forms_read(const struct dwarf_form_unit *unit, uint64_t offset,
                      const struct dwarf_form *forms, size_t n, struct dwarf_entry *entry);

#endif
