#pragma once

/*
 * Finds machine code that a trace lacks in the images that the program had mapped. Images are
 * located as for names (naming/frame_places.h), opened under the same rules, and read by the
 * helper.
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
    uint64_t start;   /* as the image counts */
    uint64_t size;
    size_t image; /* index in places.locate.images */
};

struct image_code {
    struct resolver *resolver;
    struct annotate_texts *texts;
    struct frame_book book;
    struct frame_places places;
    VEC(struct image_function) found;
    uint16_t machine;  /* EM_… of the image read last */
    bool is_64;        /* whether that image has 64 bits */
    char problem[512]; /* the first image's problem; "" if none */
};

/*
 * Finds the code of the functions that match `wanted` (annotate.h) and adds it to the texts. With
 * `whole` the entire name must match. An unreadable image is no error; `problem` reports it. The
 * caller releases `c` even after an error.
 */
int image_code_find(struct image_code *c, struct resolver *resolver, struct annotate_texts *texts,
                    const char *wanted, bool regex, bool whole, struct err *e);

/*
 * Adds the source lines of one function's instructions to the trace's frames, as far as the image
 * has them. `d` must be a disassembler for its machine.
 */
int image_code_lines(struct image_code *c, uint64_t address, const struct disassembler *d,
                     struct err *e);

void image_code_release(struct image_code *c);
