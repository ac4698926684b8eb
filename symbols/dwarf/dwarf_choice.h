#ifndef TIDEMARK_SYMBOLS_DWARF_DWARF_CHOICE_H
#define TIDEMARK_SYMBOLS_DWARF_DWARF_CHOICE_H

/*
 * Which back end reads an image. The sections are looked at with our own eyes first, which costs
 * little: unit headers, abbreviations, headers of line tables. libdwarf 20210528
 *
 *  - takes DW_FORM_strx3 and DW_FORM_addrx3 for four bytes wide,
 *  - begins the sequences of DWARF 5 line tables with file 0, where the standard says 1, so that
 *    the rows before the first DW_LNS_set_file have the wrong file,
 *  - uses memory that it has freed when .debug_rnglists or .debug_loclists is damaged,
 *  - does not resolve DW_FORM_ref_sup4 and ref_sup8.
 *
 * The first three are mended in 0.7.0. And it is not to be given sections whose headers do not fit
 * each other, since it has known faults there.
 */

#include <stdbool.h>

#include "symbols/dwarf/dwarf.h"

/* What the abbreviations that units refer to have in them. */
struct dwarf_outline {
    bool sound;        /* headers and abbreviations fit each other and the sections */
    bool three_bytes;  /* DW_FORM_strx3, DW_FORM_addrx3 */
    bool supplement;   /* DW_FORM_ref_sup4, DW_FORM_ref_sup8, DW_FORM_strp_sup */
    bool version_5;    /* units or line tables of DWARF 5 */
    bool unknown_form; /* one that DWARF 5 and GNU do not have */
    uint64_t units;
};

void dwarf_outline(const struct dwarf_sections *s, struct dwarf_outline *out);

/* Whether libdwarf, of the version that this program runs with, reads such sections exactly. */
bool dwarf_libdwarf_reads(const char *version, const struct dwarf_outline *outline);

/* The back end for these sections; `alternate` may be NULL. */
const struct dwarf_back_end *dwarf_choose(const struct dwarf_sections *s,
                                          const struct dwarf_sections *alternate);

#endif
