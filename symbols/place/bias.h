#ifndef TIDEMARK_SYMBOLS_PLACE_BIAS_H
#define TIDEMARK_SYMBOLS_PLACE_BIAS_H

/*
 * Where an image was mapped, told from symbols that are known to have stood at addresses: the
 * difference to where the image's symbol tables have a symbol of that name is the same for all of
 * them, and a whole number of pages.
 */

#include <stddef.h>

#include "base/err.h"
#include "symbols/elf/elf_file.h"
#include "symbols/place/helper_wire.h"

/*
 * Looks for the hints' names, as they are and demangled, in .dynsym and .symtab of `image` and in
 * .symtab of `debug` (may be NULL). Found is a bias that more than half of the hints with a name in
 * the image agree on. Errors: ERR_MEMORY only.
 */
int bias_infer(struct elf_file *image, struct elf_file *debug, const struct helper_hint *hints,
               size_t n, struct helper_bias *out, struct err *e);

#endif
