#ifndef TIDEMARK_NAMING_IMAGE_CODE_H
#define TIDEMARK_NAMING_IMAGE_CODE_H

/*
 * Machine code of functions that a trace has none of, from the images that the program had mapped:
 * where those lie is found out as for names (naming/frame_places.h), they are opened under the same
 * rules, and read by the helper.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/code/annotate.h"
#include "base/err.h"
#include "base/vec.h"
#include "naming/frame_places.h"
#include "naming/resolver.h"

/* A function whose code was found. */
struct image_function {
    uint64_t address; /* in the client */
    uint64_t start;   /* in the image's terms */
    uint64_t size;
    size_t image; /* position in places.locate.images */
};

struct image_code {
    struct resolver *resolver;
    struct annotate_texts *texts;
    struct frame_book book;
    struct frame_places places;
    VEC(struct image_function) found;
    uint16_t machine;  /* EM_…, of the image that was read last */
    char problem[512]; /* why there is nothing of an image, the first one; "" */
};

/*
 * Looks for the code of the functions that `wanted` means (annotate.h) and adds what it finds to
 * the texts. With `whole` only those whose name fits as a whole. That an image cannot be read is no
 * error, but said in `problem`. Released in any case.
 */
int image_code_find(struct image_code *c, struct resolver *resolver, struct annotate_texts *texts,
                    const char *wanted, bool regex, bool whole, struct err *e);

/*
 * Has the trace's frames tell where the instructions of one of these functions come from, as far as
 * the image knows. `d` is for its machine.
 */
int image_code_lines(struct image_code *c, uint64_t address, const struct disassembler *d,
                     struct err *e);

void image_code_release(struct image_code *c);

#endif
