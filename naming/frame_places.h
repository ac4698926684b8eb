#ifndef TIDEMARK_NAMING_FRAME_PLACES_H
#define TIDEMARK_NAMING_FRAME_PLACES_H

/* Where the frames of a trace lie: in which image, and where in it (symbols/place/locate.h). */

#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "naming/resolver.h"
#include "symbols/place/locate.h"
#include "trace/store/frame_book.h"

struct frame_places {
    const struct resolve_options *options;
    struct frame_book *book;
    struct module_table facts, file; /* of the trace, and of --modules */
    uint64_t bad_modules;            /* facts of the trace that cannot be read */
    VEC(struct locate_frame) frames; /* in the order in which they were added */
    struct locate locate;
};

/* Reads the module tables. Released in any case. */
int frame_places_init(struct frame_places *p, const struct resolve_options *options,
                      struct frame_book *book, struct err *e);
void frame_places_release(struct frame_places *p);

/* Adds a frame of the book, by its number; or anything else, whose image may be "[unknown]". */
int frame_places_add(struct frame_places *p, size_t frame, struct err *e);
int frame_places_add_other(struct frame_places *p, const struct locate_frame *other, struct err *e);

/* When all are added. */
int frame_places_locate(struct frame_places *p, struct err *e);

/* What allows the image to be opened if its build id is not known. */
struct image_proof frame_places_proof(const struct frame_places *p,
                                      const struct locate_image *image);

/*
 * Asks the helper, which has the image `number` open, for the base of frames that wait for one.
 * `bias` says what it found, if it was asked.
 */
int frame_places_infer(struct frame_places *p, size_t number, struct helper *helper,
                       struct helper_bias *bias, struct err *e);

#endif
