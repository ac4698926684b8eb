#pragma once

/* Shared by the two files of the libdwarf back end. */

#include <libdwarf/dwarf.h>
#include <libdwarf/libdwarf.h>

#include "base/vec.h"
#include "symbols/dwarf/dwarf.h"
#include "symbols/dwarf/dwarf_forms.h"

/* Since 0.4, libdwarf defines its version as a macro and renames the object access types. */
#ifdef DW_LIBDWARF_VERSION
#define AI(NAME) ai_##NAME
#define AS(NAME) as_##NAME
#define OM(NAME) om_##NAME
#define ACCESS_LITTLE DW_END_little
typedef Dwarf_Obj_Access_Interface_a access_interface;
typedef Dwarf_Obj_Access_Methods_a access_methods;
typedef Dwarf_Obj_Access_Section_a access_section;
typedef Dwarf_Unsigned access_index;
typedef Dwarf_Small access_byte_order;
#else
#define AI(NAME) NAME
#define AS(NAME) NAME
#define OM(NAME) NAME
#define ACCESS_LITTLE DW_OBJECT_LSB
typedef Dwarf_Obj_Access_Interface access_interface;
typedef Dwarf_Obj_Access_Methods access_methods;
typedef Dwarf_Obj_Access_Section access_section;
typedef Dwarf_Half access_index;
typedef Dwarf_Endianness access_byte_order;
#endif

struct image {
    const struct dwarf_sections *sections;
    access_interface access;
    Dwarf_Debug debug;
};

/* What an abbreviation of the current unit contains. */
struct abbreviation {
    bool asked; /* the library has been queried */
    bool has_code, declares;
    bool known;        /* entries with it can be decoded here */
    uint32_t first, n; /* in `forms` */
};

#define ABBREVIATIONS_MAX 65536u

struct reader {
    struct image main;
    struct image alternate;
    uint64_t next; /* offset of the next unit's header */
    /* The unit whose first entry was read last; end 0: none. */
    struct dwarf_form_unit unit;
    VEC(struct abbreviation) abbreviations; /* by code */
    VEC(struct dwarf_form) forms;
};

/* Frees an error that libdwarf returned; there may be none. */
static inline void forget(Dwarf_Debug debug, Dwarf_Error *error)
{
    if (*error)
        dwarf_dealloc_error(debug, *error);
    *error = NULL;
}

static inline Dwarf_Die die_of(const struct dwarf_node *node)
{
    Dwarf_Die die;
    memcpy(&die, node->store, sizeof die);
    return die;
}

static inline Dwarf_Debug debug_of(const struct reader *r, const struct dwarf_node *node)
{
    return node->alternate ? r->alternate.debug : r->main.debug;
}

/* A function of struct dwarf_back_end. */
int libdwarf_lines(void *reader, const struct dwarf_node *root, const struct dwarf_line_sink *sink);
