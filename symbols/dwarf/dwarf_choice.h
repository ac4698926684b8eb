#pragma once

/*
 * Chooses the back end for an image. A cheap scan first checks unit headers, abbreviations and line
 * table headers. libdwarf 20210528
 *
 * - reads DW_FORM_strx3 and DW_FORM_addrx3 as four bytes wide,
 * - starts the sequences of DWARF 5 line tables with file 0 instead of the standard's 1, so rows
 *   before the first DW_LNS_set_file have the wrong file,
 * - uses freed memory if .debug_rnglists or .debug_loclists is damaged,
 * - does not resolve DW_FORM_ref_sup4 and DW_FORM_ref_sup8.
 *
 * libdwarf 0.7.0 fixes the first three. libdwarf also has known faults on sections whose headers
 * contradict each other, so it never gets such sections.
 */

#include <stdbool.h>

#include "symbols/dwarf/dwarf.h"

/* What the abbreviations that units refer to contain. */
struct dwarf_outline {
    bool sound;        /* headers, abbreviations and sections are consistent */
    bool three_bytes;  /* DW_FORM_strx3, DW_FORM_addrx3 */
    bool supplement;   /* DW_FORM_ref_sup4, DW_FORM_ref_sup8 or DW_FORM_strp_sup */
    bool version_5;    /* units or line tables of DWARF 5 */
    bool unknown_form; /* a form that neither DWARF 5 nor GNU defines */
    uint64_t units;
};

void dwarf_outline(const struct dwarf_sections *s, struct dwarf_outline *out);

/* Whether the loaded version of libdwarf reads such sections correctly. */
bool dwarf_libdwarf_reads(const char *version, const struct dwarf_outline *outline);

/* The back end for these sections; `alternate` may be NULL. */
const struct dwarf_back_end *dwarf_choose(const struct dwarf_sections *s,
                                          const struct dwarf_sections *alternate);
