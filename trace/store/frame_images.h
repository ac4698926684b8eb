#pragma once

/*
 * Images of frames of the base set. Their pixels are stored compressed in the spool's file
 * (base/blobs.h). An image arrives before or after the mark that begins its frame; saving matches
 * the two. Source: server/TracyWorker.cpp ProcessFrameImage @ v0.9.1 … v0.14.0.
 */

#include <stdint.h>

#include "base/blobs.h"
#include "base/map.h"
#include "base/spool.h"

/* In order of arrival, which is the file's order. */
struct frame_image {
    int64_t frame; /* index in the base set */
    uint64_t place;
    uint32_t stored;
    uint16_t w, h; /* size in pixels */
    uint8_t flip;
    uint8_t unused[7]; /* 0 */
};

struct frame_images {
    struct column list; /* struct frame_image */
    struct blobs pixels;
    struct map pictured; /* index / 64 → bits for those 64 frames: has an image */
    uint64_t twice;      /* dropped images of frames that already have one */
    uint64_t no_frame;   /* dropped images of frames before the first */
    int64_t before;      /* frames of the base set in earlier parts */
};

/* The client's data: BC1 blocks, w * h / 2 bytes. */
struct frame_image_data {
    uint16_t w, h;
    uint8_t flip;
    const void *blocks;
};

/* The spool must outlive the images. */
void frame_images_init(struct frame_images *f, struct spool *spool);
void frame_images_release(struct frame_images *f);

/* Adds an image of the frame at `index` of the base set, 1 or more. */
int frame_images_add(struct frame_images *f, int64_t index, const struct frame_image_data *data,
                     struct err *e);

/* Copies the pixels in the file's format, w * h / 2 bytes, to `out`. */
int frame_images_pixels(struct frame_images *f, const struct frame_image *image, void *out,
                        struct err *e);

/*
 * A column of struct frame_image_ref, ordered by frame, of all images. `refs` must not be
 * initialised; the caller releases it, also after an error.
 */
struct frame_image_ref {
    int64_t frame;
    uint32_t image; /* index in the list */
    uint32_t unused;
};

int frame_images_by_frame(struct frame_images *f, struct column *refs, struct err *e);

/*
 * Begins a new part. `frames`: the frames of the previous part's base set, without its initial
 * ones.
 */
void frame_images_carry(struct frame_images *f, uint64_t frames);
