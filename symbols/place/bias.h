#pragma once

/*
 * Infers where an image was mapped from symbols with known addresses. The difference to the
 * symbol's address in the image's tables is the same for all of them, and a whole number of pages.
 */

#include <stddef.h>

#include "base/err.h"
#include "symbols/elf/elf_file.h"
#include "symbols/place/helper_wire.h"

/*
 * Searches for the hints' names, mangled and demangled, in .dynsym and .symtab of `image` and in
 * .symtab of `debug` (may be NULL). More than half of the hints with a name in the image must agree
 * on the bias. Fails with ERR_MEMORY only.
 */
int bias_infer(struct elf_file *image, struct elf_file *debug, const struct helper_hint *hints,
               size_t n, struct helper_bias *out, struct err *e);
