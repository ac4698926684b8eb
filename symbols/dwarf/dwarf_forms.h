#pragma once

/*
 * Decodes the attributes of an entry from its bytes. libdwarf is slow at that, since it allocates
 * each attribute. The library reports the attributes and forms of each abbreviation once; this code
 * decodes the forms in .debug_info. Forms that refer outside .debug_info and .debug_str are left to
 * the library.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols/dwarf/dwarf.h"

struct dwarf_form {
    uint16_t attribute, form;
};

/* The unit that contains an entry. */
struct dwarf_form_unit {
    const struct dwarf_sections *sections;
    uint64_t offset, end; /* in .debug_info */
    uint8_t address_size; /* 4 or 8 */
    uint8_t offset_size;  /* 4 or 8 */
    uint16_t version;
};

/* Whether entries with these attributes can be decoded here. Not for the first entry of a unit. */
bool dwarf_forms_known(const struct dwarf_form *forms, size_t n);

/*
 * Reads the entry at `offset`. `forms` describe its abbreviation and are all known. False if the
 * entry exceeds the unit, or refers outside its section.
 */
bool dwarf_forms_read(const struct dwarf_form_unit *unit, uint64_t offset,
                      const struct dwarf_form *forms, size_t n, struct dwarf_entry *entry);
