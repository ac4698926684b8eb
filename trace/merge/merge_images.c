/*
 * Frame images of several inputs. Official readers know the frame of an image from the base set
 * only (`frameRef`, server/TracyWorker.cpp @ v0.14.0), and expect the images in the order of its
 * frames. The base set comes from one input. An image of another input is therefore assigned to the
 * frame of the base set during which it was taken, or to the next one. If both frames have an
 * image, it is left out.
 *
 * 24 bytes of memory for each image.
 */

#include <inttypes.h>
#include <stdlib.h>

#include "trace/merge/merge_internal.h"

#define NO_FRAME UINT64_MAX

struct placing {
    struct merge *m;
    struct merge_input *in; /* the input being read */
    unsigned sets;          /* frame sets so far */
    bool enough;            /* the first set was read */
    uint64_t frame;         /* frames of the set so far */

    VEC(struct merge_image) found;   /* images of the inputs without the base set */
    VEC(struct merge_image) of_base; /* by image */

    /* While reading the base set: */
    size_t next; /* index in `found` */
    bool before_taken;
};

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_image(const void *a, const void *b)
{
    const struct merge_image *x = a, *y = b;
    int order = compare_u64(x->input, y->input);
    if (order == 0)
        order = compare_u64(x->image, y->image);
    return order != 0 ? order : (x->time > y->time) - (x->time < y->time);
}

static int by_time(const void *a, const void *b)
{
    const struct merge_image *x = a, *y = b;
    int order = (x->time > y->time) - (x->time < y->time);
    return order != 0 ? order : by_image(a, b);
}

static int by_frame(const void *a, const void *b)
{
    const struct merge_image *x = a, *y = b;
    int order = compare_u64(x->frame, y->frame);
    return order != 0 ? order : by_image(a, b);
}

static int pairs_by_key(const void *a, const void *b)
{
    return compare_u64(((const struct rec_pair *)a)->key, ((const struct rec_pair *)b)->key);
}

/* ---- reading the first frame set of an input */

typedef int take_frame(struct placing *p, const struct rec_frame *r, struct err *e);

struct reading {
    struct placing *p;
    take_frame *take;
};

static int frames_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    const struct reading *reading = ctx;
    struct placing *p = reading->p;
    if (type == REC_FRAME_SET)
        p->sets++;
    if (type != REC_FRAME && (type != REC_FRAME_SET || p->sets > 1)) {
        p->enough = true;
        return err_set(e, ERR_INPUT, "enough");
    }
    for (size_t i = 0; type == REC_FRAME && i < n; i++) {
        if (reading->take(p, (const struct rec_frame *)recs + i, e) != 0)
            return -1;
        p->frame++;
    }
    return 0;
}

static int read_frames(struct placing *p, struct merge_input *in, take_frame *take, struct err *e)
{
    struct merge *m = p->m;
    struct reading reading = {p, take};
    const struct record_sink sink = {&reading, frames_put};
    const bool wanted[REC_TYPE_COUNT] = {[REC_FRAME_SET] = true,
                                         [REC_FRAME] = true,
                                         [REC_SECTION_LISTS] = true,
                                         [REC_STRINGS] = true};
    struct trace_info info;
    p->in = in;
    p->sets = 0;
    p->frame = 0;
    p->enough = false;
    int status = m->source->read(m->source->ctx, in->number, 1, &sink, wanted, &info, e);
    if (!p->enough)
        return status;
    *e = (struct err){0};
    return 0;
}

static struct merge_image image_at(const struct placing *p, const struct rec_frame *r)
{
    return (struct merge_image){.time = (int64_t)((uint64_t)r->start + (uint64_t)p->in->shift),
                                .frame = NO_FRAME,
                                .image = (uint32_t)r->image,
                                .input = (uint32_t)p->in->index};
}

static int find_image(struct placing *p, const struct rec_frame *r, struct err *e)
{
    if (r->image < 0)
        return 0;
    return pageable_push(&p->m->pageable, &p->found, image_at(p, r))
               ? 0
               : err_no_memory(e, "frame images");
}

/* An image shared by several frames belongs to the first. */
static void drop_repeated(struct placing *p)
{
    size_t n = 0;
    if (p->found.len == 0)
        return;
    qsort(p->found.at, p->found.len, sizeof *p->found.at, by_image);
    for (size_t i = 0; i < p->found.len; i++) {
        const struct merge_image *last = n > 0 ? &p->found.at[n - 1] : NULL;
        if (!last || last->input != p->found.at[i].input || last->image != p->found.at[i].image)
            p->found.at[n++] = p->found.at[i];
    }
    p->found.len = n;
}

/* ---- assigning images to frames of the base set */

/* Assigns images between the starts of the previous frame and of this one. */
static int take_base_frame(struct placing *p, const struct rec_frame *r, struct err *e)
{
    struct merge_image own = image_at(p, r);
    bool taken = r->image >= 0;
    (void)e;
    for (; p->next < p->found.len && p->found.at[p->next].time < own.time; p->next++) {
        struct merge_image *other = &p->found.at[p->next];
        if (p->frame == 0)
            continue; /* before the first frame */
        if (!p->before_taken) {
            other->frame = p->frame - 1;
            p->before_taken = true;
        } else if (!taken) {
            other->frame = p->frame;
            taken = true;
        }
    }
    if (r->image >= 0 && own.image < p->of_base.len && p->of_base.at[own.image].frame == NO_FRAME)
        p->of_base.at[own.image].frame = p->frame;
    p->before_taken = taken;
    return 0;
}

static int place(struct placing *p, struct err *e)
{
    struct merge *m = p->m;
    drop_repeated(p);
    if (p->found.len > 0)
        qsort(p->found.at, p->found.len, sizeof *p->found.at, by_time);
    for (uint64_t i = 0; i < m->base->images; i++) {
        struct merge_image image = {
            .frame = NO_FRAME, .image = (uint32_t)i, .input = (uint32_t)m->base->index};
        if (!pageable_push(&m->pageable, &p->of_base, image))
            return err_no_memory(e, "frame images");
    }
    if (read_frames(p, m->base, take_base_frame, e) != 0)
        return -1;
    /* The last frame lasts to the end. */
    if (p->next < p->found.len && p->frame > 0 && !p->before_taken)
        p->found.at[p->next].frame = p->frame - 1;
    return 0;
}

/* ---- renumbering images */

/*
 * Images of an input keep their order, even if its frames use them in another order: each is placed
 * at the latest frame of any image up to it.
 */
static int add_in_order(struct merge *m, const struct merge_image *images, size_t n, struct err *e)
{
    uint64_t latest = 0;
    for (size_t i = 0; i < n; i++) {
        struct merge_image image = images[i];
        if (i == 0 || image.input != images[i - 1].input)
            latest = 0;
        if (image.frame != NO_FRAME && image.frame > latest)
            latest = image.frame;
        image.frame = latest;
        if (!pageable_push(&m->pageable, &m->images, image))
            return err_no_memory(e, "frame images");
    }
    return 0;
}

static size_t drop_unplaced(struct merge_image *images, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (images[i].frame != NO_FRAME)
            images[kept++] = images[i];
    }
    return kept;
}

static int number_base(struct merge *m, struct err *e)
{
    for (uint64_t i = 0; i < m->base->images; i++) {
        if (!pageable_push(&m->pageable, &m->base_images, 0))
            return err_no_memory(e, "frame images");
    }
    for (size_t i = 0; i < m->images.len; i++) {
        if (m->images.at[i].input == m->base->index)
            m->base_images.at[m->images.at[i].image] = (int32_t)i;
    }
    return 0;
}

/*
 * Records the frames of the base set with images of other inputs. `found` lists each input's images
 * in the order of m->images.
 */
static int number_placed(struct merge *m, const struct placing *p, struct err *e)
{
    for (size_t i = 0; i < p->found.len; i++) {
        const struct merge_image *image = &p->found.at[i];
        if (!pageable_push(&m->pageable, &m->placed_images, (struct rec_pair){image->frame, 0}))
            return err_no_memory(e, "frame images");
    }
    /* `images` lists an input's images in the order of `found`. */
    size_t *next = calloc(m->n, sizeof *next);
    if (!next)
        return err_no_memory(e, "frame images");
    for (size_t i = p->found.len; i-- > 0;)
        next[p->found.at[i].input] = i;
    for (size_t i = 0; i < m->images.len; i++) {
        if (m->images.at[i].input != m->base->index)
            m->placed_images.at[next[m->images.at[i].input]++].value = i;
    }
    free(next);
    if (m->placed_images.len > 0)
        qsort(m->placed_images.at, m->placed_images.len, sizeof *m->placed_images.at, pairs_by_key);
    return 0;
}

static int number_images(struct merge *m, struct placing *p, struct err *e)
{
    p->found.len = drop_unplaced(p->found.at, p->found.len);
    if (p->found.len > 0)
        qsort(p->found.at, p->found.len, sizeof *p->found.at, by_image);
    if (p->found.len + p->of_base.len > INT32_MAX)
        return err_set(e, ERR_INPUT, "the inputs have more frame images than a trace can hold");
    if (add_in_order(m, p->of_base.at, p->of_base.len, e) != 0 ||
        add_in_order(m, p->found.at, p->found.len, e) != 0)
        return -1;
    if (m->images.len > 0)
        qsort(m->images.at, m->images.len, sizeof *m->images.at, by_frame);
    return number_base(m, e) != 0 ? -1 : number_placed(m, p, e);
}

static void note(struct merge *m, const struct placing *p)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct merge_input *in = m->order[i];
        uint64_t placed = 0;
        if (in == m->base || in->images == 0)
            continue;
        for (size_t k = 0; k < p->found.len; k++)
            placed += p->found.at[k].input == i;
        m->outcome->images_left_out += in->images - placed;
        if (placed > 0)
            buf_printf(&m->outcome->notes,
                       "%s: %" PRIu64 " frame images are shown with frames of %s\n", in->name,
                       placed, m->base->name);
        if (placed < in->images)
            buf_printf(&m->outcome->notes,
                       "%s: %" PRIu64 " frame images are left out: there is no frame without an "
                       "image at their time\n",
                       in->name, in->images - placed);
    }
}

int merge_plan_images(struct merge *m, struct err *e)
{
    struct placing p = {.m = m};
    unsigned with_images = 0;
    int status = 0;
    for (size_t i = 0; i < m->n; i++)
        with_images += m->order[i]->images > 0;
    if (with_images < 2)
        return 0;
    for (size_t i = 0; i < m->n && status == 0; i++) {
        if (m->order[i] != m->base && m->order[i]->images > 0)
            status = read_frames(&p, m->order[i], find_image, e);
    }
    if (status == 0)
        status = place(&p, e);
    if (status == 0)
        status = number_images(m, &p, e);
    if (status == 0)
        note(m, &p);
    pageable_vec_release(&m->pageable, &p.found);
    pageable_vec_release(&m->pageable, &p.of_base);
    return status;
}

/* ---- while writing the merged trace */

int32_t merge_frame_image(struct merge_input *in, int32_t image)
{
    struct merge *m = in->m;
    bool in_base_set = in == m->base && in->next[KIND_FRAME_SET] == 1;
    if (in != m->base)
        return -1;
    if (m->images.len == 0)
        return image;
    uint64_t frame = in_base_set ? m->base_frame++ : NO_FRAME;
    if (image >= 0)
        return (size_t)image < m->base_images.len ? m->base_images.at[image] : -1;
    if (m->next_placed < m->placed_images.len && m->placed_images.at[m->next_placed].key == frame)
        return (int32_t)m->placed_images.at[m->next_placed++].value;
    return -1;
}

/* Advances the input to its next image or to its next list. */
static int go_on(struct merge_input *in, bool keep, struct err *e)
{
    in->drop = !keep;
    if (in->at == REC_FRAME_IMAGE)
        in->next_image++;
    return step_on(&in->step, e);
}

int merge_put_images(struct merge *m, struct err *e)
{
    if (merge_put_count(m, REC_FRAME_IMAGES, m->images.len, e) != 0)
        return -1;
    for (size_t i = 0; i < m->n; i++) {
        if (go_on(m->order[i], false, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < m->images.len; i++) {
        struct merge_input *in = m->order[m->images.at[i].input];
        while (in->at == REC_FRAME_IMAGE && in->next_image < m->images.at[i].image) {
            if (go_on(in, false, e) != 0)
                return -1;
        }
        if (in->at != REC_FRAME_IMAGE)
            return err_set(e, ERR_INPUT, "%s changed while it was read", in->name);
        if (go_on(in, true, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < m->n; i++) {
        while (m->order[i]->at == REC_FRAME_IMAGE) {
            if (go_on(m->order[i], false, e) != 0)
                return -1;
        }
    }
    return 0;
}
