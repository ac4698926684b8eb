#ifndef TIDEMARK_SYMBOLS_SYMBOLIZER_H
#define TIDEMARK_SYMBOLS_SYMBOLIZER_H

/*
 * One image: from places in it to functions, files and lines. What knows most is asked first:
 *
 *     debug information    of the image, or of a file that goes with it     (symbols/index/index.h)
 *     symbol tables        the function that covers the place (symbols/elf/elf_symbols.h) nothing
 * then the answer has the address in the image
 *
 * It opens no file, but wishes for them. It reads what strangers wrote, so it
 * is for the helper process (symbols/helper/helper.h); nothing here trusts it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "symbols/elf/build_id.h"
#include "symbols/place/helper_wire.h"
#include "symbols/place/place.h"

struct symbolizer; /* opaque */

/* Grants a wish: a descriptor, which becomes the symbolizer's, or -1. */
typedef int symbolizer_wish(void *ctx, const struct file_wish *wish);

/*
 * Opens the image that `open` describes; with `wish` NULL it opens files itself, without a cache.
 * ERR_INPUT when the image is nowhere, is no ELF file or has another build id. Debug information
 * that cannot be read is no error.
 */
int symbolizer_open(struct symbolizer **out, const struct helper_open *open, symbolizer_wish *wish,
                    void *ctx, struct err *e);
void symbolizer_close(struct symbolizer *s);

void symbolizer_facts(const struct symbolizer *s, struct image_facts *facts);

/* Reads what is needed to answer for these places. */
int symbolizer_prepare(struct symbolizer *s, const struct place *places, size_t n, struct err *e);

#define HELPER_AHEAD 16u

/*
 * A place that will be looked up after those told before, at most HELPER_AHEAD (see
 * symbols/helper/helper_serve.h) places later: the answer is waited for less then.
 */
void symbolizer_ahead(struct symbolizer *s, const struct place *place);

/* Texts and frames of the answer are valid until the next look-up. */
void symbolizer_lookup(struct symbolizer *s, const struct place *place,
                       struct place_answer *answer);

/*
 * Where the image was mapped, from symbols that are known to have stood at addresses: what most of
 * the names that the image's symbol tables have agree on, if it is a whole number of pages and more
 * than half of them do.
 */
int symbolizer_infer(struct symbolizer *s, const struct helper_hint *hints, size_t n,
                     struct helper_bias *bias, struct err *e);

/*
 * The machine code of the function around a place, as it lies in the image: false when no symbol or
 * unwind entry tells where that begins and ends, or the file does not have it. Valid as texts are.
 */
bool symbolizer_code(struct symbolizer *s, const struct place *place, struct place_code *code);

/* Keeps what was read in the cache, if there is one and something is new. */
void symbolizer_keep(struct symbolizer *s);

#endif
