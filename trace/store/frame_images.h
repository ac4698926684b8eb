#ifndef TIDEMARK_TRACE_STORE_FRAME_IMAGES_H
#define TIDEMARK_TRACE_STORE_FRAME_IMAGES_H

/*
 * Pictures of frames of the base set. Their pixels are kept compressed in the spool's file
 * (base/blobs.h). An image comes before or after the mark that begins its frame; the two are
 * brought together when the trace is saved.
 * Source: server/TracyWorker.cpp ProcessFrameImage @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/blobs.h"
#include "base/map.h"
#include "base/spool.h"

/* In the order in which they came, which is the order of the file. */
struct frame_image {
    int64_t frame; /* index in the base set */
    uint64_t place;
    uint32_t stored;
    uint16_t w, h; /* pixels */
    uint8_t flip;
    uint8_t unused[7]; /* 0 */
};

struct frame_images {
    struct column list; /* struct frame_image */
    struct blobs pixels;
    struct map pictured; /* index / 64 → which of those 64 frames have an image */
    uint64_t twice;      /* images of a frame that had one, which are not kept */
    uint64_t no_frame;   /* images of frames before the first, which are not kept */
    int64_t before;      /* frames of the base set in earlier parts */
};

/* What a client sent: BC1 blocks, w * h / 2 bytes of them. */
struct frame_image_data {
    uint16_t w, h;
    uint8_t flip;
    const void *blocks;
};

/* The spool must outlive the images. */
void frame_images_init(struct frame_images *f, struct spool *spool);
void frame_images_release(struct frame_images *f);

/* An image of the frame at `index` of the base set, 1 or more. */
int frame_images_add(struct frame_images *f, int64_t index, const struct frame_image_data *data,
                     struct err *e);

/* The pixels as the file holds them: w * h / 2 bytes to `out`. */
int frame_images_pixels(struct frame_images *f, const struct frame_image *image, void *out,
                        struct err *e);

/*
 * A column of struct frame_image_ref, by frame, of all images: which image a frame has. `refs` must
 * not be initialised; the caller releases it, also after an error.
 */
struct frame_image_ref {
    int64_t frame;
    uint32_t image; /* place in the list */
    uint32_t unused;
};

int frame_images_by_frame(struct frame_images *f, struct column *refs, struct err *e);

/* Begins a new part, after one whose base set had so many frames beyond those it began with. */
void frame_images_carry(struct frame_images *f, uint64_t frames);

#endif
