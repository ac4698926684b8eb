#pragma once

/*
 * Maps places in one image to functions, files and lines. Sources, best first:
 *
 *   debug information   of the image or a file that belongs to it (symbols/index/index.h)
 *   symbol tables       the function that covers the place (symbols/elf/elf_symbols.h)
 *   nothing             the answer has only the address in the image
 *
 * The symbolizer opens no file itself; it sends file requests. It parses untrusted input, so it
 * must run in the helper process (symbols/helper/helper.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "symbols/place/helper_wire.h"
#include "symbols/place/place.h"

struct symbolizer; /* opaque */

/* Serves a file request: returns a descriptor that the symbolizer then owns, or -1. */
typedef int symbolizer_wish(void *ctx, const struct file_wish *wish);

/*
 * Opens the image that `open` describes. With `wish` NULL the symbolizer opens files itself and
 * uses no cache. Fails with ERR_INPUT if the image is not found, is no image or has another
 * build id. Unreadable debug information is no error.
 */
int symbolizer_open(struct symbolizer **out, const struct helper_open *open, symbolizer_wish *wish,
                    void *ctx, struct err *e);
void symbolizer_close(struct symbolizer *s);

void symbolizer_facts(const struct symbolizer *s, struct image_facts *facts);

/* Reads what is needed to answer for these places. */
int symbolizer_prepare(struct symbolizer *s, const struct place *places, size_t n, struct err *e);

#define HELPER_AHEAD 16u

/*
 * Announces a place that will be looked up within the next HELPER_AHEAD look-ups (see
 * symbols/helper/helper_serve.h). Its data is prefetched.
 */
void symbolizer_ahead(struct symbolizer *s, const struct place *place);

/* Texts and frames of the answer are valid until the next look-up. */
void symbolizer_lookup(struct symbolizer *s, const struct place *place,
                       struct place_answer *answer);

/*
 * Infers where the image was mapped from symbols with known addresses. The bias is the one that
 * most of the names found in the image's symbol tables agree on. It must be a whole number of
 * pages, and more than half of those names must agree.
 */
int symbolizer_infer(struct symbolizer *s, const struct helper_hint *hints, size_t n,
                     struct helper_bias *bias, struct err *e);

/*
 * The machine code of the function around a place, as stored in the image. False if no symbol or
 * unwind entry bounds the function, or if the file lacks the bytes. Valid until the next look-up.
 */
bool symbolizer_code(struct symbolizer *s, const struct place *place, struct place_code *code);

/* Stores new index entries in the cache, if there is a cache. */
void symbolizer_keep(struct symbolizer *s);
