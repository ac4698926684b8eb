#include "trace/store/frame_images.h"

#include <stdlib.h>
#include <string.h>

#include "trace/file/bc1.h"
#include "trace/store/spill.h"

static const struct pack_layout image_layout = {
    .element = sizeof(struct frame_image),
    .count = 7,
    .fields = {{0, 8, PACK_STEP},    /* frame */
               {8, 8, PACK_STEP},    /* place */
               {16, 4, PACK_OFFSET}, /* stored */
               {20, 2, PACK_OFFSET}, /* w */
               {22, 2, PACK_OFFSET}, /* h */
               {24, 1, PACK_OFFSET}, /* flip */
               {25, 7, PACK_OFFSET}},
};

static const struct pack_layout ref_layout = {
    .element = sizeof(struct frame_image_ref),
    .count = 3,
    .fields = {{0, 8, PACK_STEP}, {8, 4, PACK_STEP}, {12, 4, PACK_OFFSET}},
};

void frame_images_init(struct frame_images *f, struct spool *spool)
{
    *f = (struct frame_images){0};
    column_init(&f->list, spool, &image_layout, false);
    blobs_init(&f->pixels, spool);
}

void frame_images_release(struct frame_images *f)
{
    column_release(&f->list);
    blobs_release(&f->pixels);
    map_release(&f->pictured);
    *f = (struct frame_images){0};
}

void frame_images_carry(struct frame_images *f, uint64_t frames)
{
    column_clear(&f->list);
    blobs_clear(&f->pixels);
    map_release(&f->pictured);
    f->twice = f->no_frame = 0;
    f->before += (int64_t)frames;
}

static uint32_t image_bytes(uint16_t w, uint16_t h)
{
    return (uint32_t)w * h / 2;
}

int frame_images_add(struct frame_images *f, int64_t index, const struct frame_image_data *data,
                     struct err *e)
{
    uint64_t *pictured = map_add(&f->pictured, (uint64_t)index / 64, NULL);
    uint64_t bit = UINT64_C(1) << ((uint64_t)index % 64);
    if (!pictured)
        return err_no_memory(e, "frame images");
    if (*pictured & bit) {
        f->twice++;
        return 0;
    }
    uint32_t n = image_bytes(data->w, data->h);
    uint8_t *blocks = malloc(n + 1);
    if (!blocks)
        return err_no_memory(e, "frame images");
    memcpy(blocks, data->blocks, n);
    bc1_from_client(blocks, n / 8);
    struct blob blob;
    int status = blobs_add(&f->pixels, blocks, n, &blob, e);
    free(blocks);
    struct frame_image *image = status == 0 ? column_append(&f->list, e) : NULL;
    if (!image)
        return -1;
    *image = (struct frame_image){.frame = index,
                                  .place = blob.place,
                                  .stored = blob.stored,
                                  .w = data->w,
                                  .h = data->h,
                                  .flip = data->flip};
    *pictured |= bit;
    return 0;
}

int frame_images_pixels(struct frame_images *f, const struct frame_image *image, void *out,
                        struct err *e)
{
    const struct blob blob = {
        .place = image->place, .stored = image->stored, .size = image_bytes(image->w, image->h)};
    return blobs_get(&f->pixels, &blob, out, e);
}

/* ---- images by frame */

static int put_refs(void *ctx, const void *recs, size_t n, struct err *e)
{
    const struct frame_image_ref *refs = recs;
    for (size_t i = 0; i < n; i++) {
        struct frame_image_ref *to = column_append(ctx, e);
        if (!to)
            return -1;
        *to = refs[i];
    }
    return 0;
}

int frame_images_by_frame(struct frame_images *f, struct column *refs, struct err *e)
{
    struct spill by_frame;
    struct column_walk w = column_walk(&f->list);
    int status = 0;
    column_init(refs, f->list.spool, &ref_layout, false);
    const size_t most = SPILL_BYTES / sizeof(struct frame_image_ref);
    spill_init(&by_frame, sizeof(struct frame_image_ref),
               f->list.len < most ? (size_t)f->list.len + 1 : most, f->list.spool->dir);
    uint32_t number = 0;
    for (const struct frame_image *p; (p = column_walk_next(&w, &status, e));) {
        struct frame_image_ref ref = {.frame = p->frame, .image = number++};
        status = spill_add(&by_frame, &ref, 1, e);
    }
    if (status == 0)
        status = spill_drain(&by_frame, put_refs, refs, e);
    spill_release(&by_frame);
    return status;
}
