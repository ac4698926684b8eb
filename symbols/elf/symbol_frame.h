#pragma once

/* A function at an address: what debug information and symbol tables say, from the index on. */

#include <stdbool.h>
#include <stdint.h>

#include "base/view.h"

struct symbol_frame {
    struct view function;  /* demangled; empty: unknown or no function */
    struct view linkage;   /* the linkage name (mangled), or the plain name */
    struct view file;      /* path, with the compilation directory; empty: unknown */
    uint32_t line, column; /* from 1; 0: unknown */
    bool inlined;          /* into the next frame */
    uint64_t start;        /* lowest address of the function's code; 0: unknown */
    /*
     * Within one numbering, equal numbers mean equal texts. An index is one; so is the helper's
     * answer, in which all but the empty text have a number. A symbolizer's numbering lasts as long
     * as its image is open. Texts without a number have 0.
     */
    uint32_t function_number, file_number;
};
