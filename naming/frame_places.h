#pragma once

/* Locates the frames of a trace: in which image, and where in it (symbols/place/locate.h). */

#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "naming/resolver.h"
#include "symbols/place/locate.h"
#include "trace/store/frame_book.h"

struct frame_places {
    const struct resolve_options *options;
    struct frame_book *book;
    struct module_table facts, file; /* from the trace, and from --modules */
    uint64_t bad_modules;            /* unreadable facts of the trace */
    VEC(struct locate_frame) frames; /* in the order added */
    struct locate locate;
};

/* Reads the module tables. The caller releases `p` even after an error. */
int frame_places_init(struct frame_places *p, const struct resolve_options *options,
                      struct frame_book *book, struct err *e);
void frame_places_release(struct frame_places *p);

/*
 * frame_places_add adds a frame of the book by number. frame_places_add_other adds any other
 * address, whose image may be "[unknown]".
 */
int frame_places_add(struct frame_places *p, size_t frame, struct err *e);
int frame_places_add_other(struct frame_places *p, const struct locate_frame *other, struct err *e);

/* Call after all frames are added. */
int frame_places_locate(struct frame_places *p, struct err *e);

/* What allows the image to be opened if its build id is unknown. */
struct image_proof frame_places_proof(const struct frame_places *p,
                                      const struct locate_image *image);

/*
 * Infers the base of frames that wait for one. The helper must have the image `number` open. `bias`
 * receives its answer, if it was asked.
 */
int frame_places_infer(struct frame_places *p, size_t number, struct helper *helper,
                       struct helper_bias *bias, struct err *e);
