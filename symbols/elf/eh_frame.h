#pragma once

/*
 * Function bounds from unwind entries (.eh_frame; .pdata of PE images for x86-64), which even
 * stripped programs keep. Sources: LSB 5.0, "Exception Frames"; Microsoft's "x64 exception
 * handling".
 */

#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "symbols/elf/elf_file.h"

struct eh_range {
    uint64_t start, end; /* addresses of the image; end is exclusive */
};

struct eh_ranges {
    VEC(struct eh_range) list; /* sorted by start */
};

/*
 * Reads the entries of `f` up to the first damaged one. Finds them by section .eh_frame, else by
 * the program header of .eh_frame_hdr. Fails with ERR_MEMORY only; `out` is then empty.
 */
int eh_ranges_read(struct eh_ranges *out, struct elf_file *f, struct err *e);
void eh_ranges_release(struct eh_ranges *r);

/* The last range that begins at or before `address`, if it contains `address`; else NULL. */
const struct eh_range *eh_ranges_find(const struct eh_ranges *r, uint64_t address);

/* The lowest start above `address`; UINT64_MAX if there is none. */
uint64_t eh_ranges_next(const struct eh_ranges *r, uint64_t address);
