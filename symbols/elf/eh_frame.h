#ifndef TIDEMARK_SYMBOLS_ELF_EH_FRAME_H
#define TIDEMARK_SYMBOLS_ELF_EH_FRAME_H

/*
 * Where functions begin and end, from the unwind entries that even a stripped program keeps
 * (.eh_frame; LSB 5.0, "Exception Frames").
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "symbols/elf/elf_file.h"

struct eh_range {
    uint64_t start, end; /* addresses of the image; end is the first one beyond */
};

struct eh_ranges {
    VEC(struct eh_range) list; /* by start */
};

/*
 * Reads all entries of `f`, up to the first that is damaged. Found through the section .eh_frame,
 * else through the program header of .eh_frame_hdr. Errors: ERR_MEMORY only; `out` is empty then.
 */
int eh_ranges_read(struct eh_ranges *out, struct elf_file *f, struct err *e);
void eh_ranges_release(struct eh_ranges *r);

/* The last one that begins at or before `address`, when it reaches beyond it; else NULL. */
const struct eh_range *eh_ranges_find(const struct eh_ranges *r, uint64_t address);

/* The lowest start beyond `address`; UINT64_MAX when there is none. */
uint64_t eh_ranges_next(const struct eh_ranges *r, uint64_t address);

#endif
