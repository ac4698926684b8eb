#include <stdlib.h>

#include "trace/filter/range_lists.h"

void range_begin_frames(struct range *r, const struct rec_frame_set *set)
{
    r->frames = (struct frames){.base = set->name == 0,
                                .continuous = set->continuous != 0,
                                .first = UINT64_MAX,
                                .images_before = r->images.len};
    if (r->frames.base)
        r->frames.always = r->on_demand ? 3 : 2;
}

static bool keep_frame(const struct range *r, const struct rec_frame *frame)
{
    const struct frames *f = &r->frames;
    if (f->position < f->always)
        return true;
    if (f->continuous)
        return f->position >= f->first && f->position <= f->last;
    return range_overlaps(r, frame->start, frame->end);
}

static int use_image(struct range *r, const struct rec_frame *frame, struct err *e)
{
    if (frame->image < 0)
        return 0;
    return vec_push(&r->images, (uint32_t)frame->image) ? 0 : err_no_memory(e, "frame images");
}

/*
 * A frame of a continuous set lasts until the next one starts. So the first kept frame is the last
 * one that starts at or before the begin, else the set's first; the last kept frame is the first
 * one that starts at or after the end.
 */
static int count_continuous(struct range *r, const struct rec_frame *frame, struct err *e)
{
    struct frames *f = &r->frames;
    if (f->ended)
        return 0;
    if (f->first == UINT64_MAX || frame->start <= r->options.begin) {
        f->first = f->position;
        r->images.len = f->images_before;
    }
    f->last = f->position;
    f->ended = frame->start >= r->options.end;
    return use_image(r, frame, e);
}

int range_count_frames(struct range *r, const struct rec_frame *frames, size_t n, struct err *e)
{
    struct frames *f = &r->frames;
    for (size_t i = 0; i < n; i++, f->position++) {
        int status = 0;
        if (f->position < f->always) {
            r->list.kept++;
            status = use_image(r, &frames[i], e);
            f->images_before = r->images.len;
        } else if (f->continuous) {
            status = count_continuous(r, &frames[i], e);
        } else if (range_overlaps(r, frames[i].start, frames[i].end)) {
            r->list.kept++;
            status = use_image(r, &frames[i], e);
        }
        if (status != 0)
            return -1;
    }
    return 0;
}

/* A set whose first frame starts after the range has no frames in it. */
int range_end_frames(struct range *r, struct err *e)
{
    struct frames *f = &r->frames;
    if (f->first == UINT64_MAX) {
        f->first = 1;
        f->last = 0;
    } else if (f->ended && f->first == f->last && !f->base) {
        f->first = 1;
        f->last = 0;
        r->images.len = f->images_before;
    } else {
        r->list.kept += f->last - f->first + 1;
    }
    r->totals[REC_FRAME_SET] += r->list.kept > 0 || f->base;
    if (range_add(r, REC_FRAME_SET, r->list.kept, e) != 0 ||
        range_add(r, REC_FRAME_SET, f->first, e) != 0)
        return -1;
    return range_add(r, REC_FRAME_SET, f->last, e);
}

int range_put_frame_set(struct range *r, const struct rec_frame_set *set, struct err *e)
{
    struct rec_frame_set kept = *set;
    range_begin_frames(r, set);
    if (range_take(r, REC_FRAME_SET, &kept.n, e) != 0 ||
        range_take(r, REC_FRAME_SET, &r->frames.first, e) != 0 ||
        range_take(r, REC_FRAME_SET, &r->frames.last, e) != 0)
        return -1;
    return kept.n > 0 || r->frames.base ? record_put(&r->next, REC_FRAME_SET, &kept, 1, e) : 0;
}

static int compare_images(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void range_sort_images(struct range *r)
{
    size_t n = 0;
    if (r->images.len > 0)
        qsort(r->images.at, r->images.len, sizeof *r->images.at, compare_images);
    for (size_t i = 0; i < r->images.len; i++) {
        if (n == 0 || r->images.at[n - 1] != r->images.at[i])
            r->images.at[n++] = r->images.at[i];
    }
    r->images.len = n;
}

/* The new position of an image, -1 when no kept frame has it. */
static int32_t image_position(const struct range *r, uint64_t image)
{
    uint32_t key = (uint32_t)image;
    const uint32_t *at = r->images.len == 0 ? NULL
                                            : bsearch(&key, r->images.at, r->images.len,
                                                      sizeof *r->images.at, compare_images);
    return at ? (int32_t)(at - r->images.at) : -1;
}

int range_put_frames(struct range *r, const struct rec_frame *frames, size_t n, struct err *e)
{
    struct rec_frame kept[PART_MAX];
    size_t filled = 0;
    for (size_t i = 0; i < n; i++) {
        bool wanted = keep_frame(r, &frames[i]);
        r->frames.position++;
        if (!wanted)
            continue;
        kept[filled] = frames[i];
        if (kept[filled].image >= 0)
            kept[filled].image = image_position(r, (uint64_t)kept[filled].image);
        if (++filled == PART_MAX || i + 1 == n) {
            if (record_put(&r->next, REC_FRAME, kept, filled, e) != 0)
                return -1;
            filled = 0;
        }
    }
    return filled > 0 ? record_put(&r->next, REC_FRAME, kept, filled, e) : 0;
}

int range_put_image(struct range *r, const void *rec, struct err *e)
{
    bool wanted = image_position(r, r->image++) >= 0;
    return wanted ? record_put(&r->next, REC_FRAME_IMAGE, rec, 1, e) : 0;
}
