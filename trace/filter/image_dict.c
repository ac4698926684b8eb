#include "trace/filter/image_dict.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zdict.h>

#include "base/buf.h"
#include "base/vec.h"

/* A dictionary larger than this share of its samples is overfitted. */
#define SAMPLES_PER_DICT 8u
#define DICT_MIN 4096u

/* An image larger than this share of the room is no sample: several must fit. */
#define IMAGES_AT_LEAST 8u

struct image_dict {
    struct record_sink next;
    uint64_t seen;     /* images so far */
    uint64_t interval; /* every n-th image is a sample */
    struct buf bytes;  /* the samples one after another */
    VEC(size_t) sizes;
    struct buf dict;
};

int image_dict_open(struct image_dict **out, struct err *e)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return err_no_memory(e, "a dictionary");
    (*out)->interval = 1;
    return 0;
}

void image_dict_free(struct image_dict *d)
{
    if (!d)
        return;
    buf_release(&d->bytes);
    buf_release(&d->dict);
    vec_release(&d->sizes);
    free(d);
}

/* Drops every second sample, so that the rest stays evenly spread. */
static void thin_out(struct image_dict *d)
{
    size_t kept = 0, from = 0, to = 0;
    for (size_t i = 0; i < d->sizes.len; i++) {
        size_t size = d->sizes.at[i];
        if (i % 2 == 0) {
            memmove(d->bytes.data + to, d->bytes.data + from, size);
            d->sizes.at[kept++] = size;
            to += size;
        }
        from += size;
    }
    d->sizes.len = kept;
    d->bytes.len = to;
    d->interval *= 2;
}

static int add_sample(struct image_dict *d, struct view image, struct err *e)
{
    uint64_t number = d->seen++;
    if (image.len == 0 || image.len > IMAGE_DICT_SAMPLES / IMAGES_AT_LEAST)
        return 0;
    while (number % d->interval == 0 && d->bytes.len + image.len > IMAGE_DICT_SAMPLES)
        thin_out(d);
    if (number % d->interval != 0)
        return 0;
    buf_put(&d->bytes, image.p, image.len);
    if (d->bytes.failed || !vec_push(&d->sizes, image.len))
        return err_no_memory(e, "samples of frame images");
    return 0;
}

static int sample_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    (void)n;
    if (type != REC_FRAME_IMAGE)
        return 0;
    return add_sample(ctx, ((const struct rec_frame_image *)recs)->bytes, e);
}

struct record_sink image_dict_sample_sink(struct image_dict *d)
{
    return (struct record_sink){.ctx = d, .put = sample_put};
}

void image_dict_wanted(bool *wanted)
{
    wanted[REC_FRAME_IMAGE] = true;
}

int image_dict_train(struct image_dict *d, struct err *e)
{
    size_t room = d->bytes.len / SAMPLES_PER_DICT;
    room = room < DICT_MIN ? DICT_MIN : room > IMAGE_DICT_MAX ? IMAGE_DICT_MAX : room;
    uint8_t *to = buf_reserve(&d->dict, room);
    if (!to)
        return err_no_memory(e, "a dictionary");
    if (d->sizes.len > 0 && d->sizes.len <= UINT32_MAX) {
        size_t got =
            ZDICT_trainFromBuffer(to, room, d->bytes.data, d->sizes.at, (unsigned)d->sizes.len);
        if (!ZDICT_isError(got))
            d->dict.len = got;
    }
    buf_release(&d->bytes);
    vec_release(&d->sizes);
    return 0;
}

size_t image_dict_size(const struct image_dict *d)
{
    return d->dict.len;
}

static int dict_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct image_dict *d = ctx;
    if (type != REC_FRAME_IMAGE_DICT)
        return record_put(&d->next, type, recs, n, e);
    struct rec_blob dict = {{(const char *)d->dict.data, d->dict.len}};
    return record_put(&d->next, type, &dict, 1, e);
}

struct record_sink image_dict_sink(struct image_dict *d, const struct record_sink *next)
{
    d->next = *next;
    return (struct record_sink){.ctx = d, .put = dict_put};
}
