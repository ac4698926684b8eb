#pragma once

/*
 * The binary annotations of S_INLINESITE: a small program that states which code an inlined call
 * has, and its lines. Opcodes are those of cvinfo.h (BA_OP_…).
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"

/* One step: a row at `offset`, or the end of a piece of code that began at `low`. */
struct inline_step {
    bool end;
    uint32_t low, offset; /* bytes from the start of the function */
    int32_t line;         /* relative to the line of the inlined function */
    uint32_t file;        /* position in the checksums; UINT32_MAX: that of the inlined function */
};

/* Zero-initialise it, with file UINT32_MAX and `c` over the annotations. */
struct inline_site {
    struct cursor c;
    uint32_t offset, low, file;
    int32_t line;
    uint32_t pending; /* length of a piece that is given next; 0: none */
    bool open;
};

/* Gives the next step. False at the end; site->c.short_read if the annotations are damaged. */
bool inline_site_next(struct inline_site *site, struct inline_step *step);
