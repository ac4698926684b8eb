/* Frames and their images. */

#include "trace/save/save_internal.h"

#include <stdlib.h>

#include "trace/store/grouper.h"

#define BATCH 512u

/* ---- frame sets */

struct frame_save {
    struct saver *s;
    uint32_t *order; /* set numbers, in file order */
    uint32_t *lists; /* set number → position in `order` */
    uint32_t n;
    uint64_t index; /* of the next frame of the current list */
    bool base;      /* the current list is the base set */
    /* images by frame */
    struct column refs;
    struct column_reader refs_reader;
    const struct frame_image_ref *ref; /* the next frame's image */
    size_t refs_left;
};

/* The first frames of the base set: start, end of the client's initialisation, connection. */
static unsigned first_frames(const struct saver *s)
{
    return s->t->facts.on_demand ? 3 : 2;
}

static void order_set(struct frame_save *save, uint32_t number)
{
    save->lists[number] = save->n;
    save->order[save->n++] = number;
}

/* Sets whose name is unknown come last. */
static int order_sets(struct frame_save *save)
{
    const struct frame_sets *f = &save->s->t->frame_sets;
    save->order = malloc(f->list.len * sizeof *save->order);
    save->lists = malloc(f->list.len * sizeof *save->lists);
    if (!save->order || !save->lists)
        return err_no_memory(save->s->e, "saving");
    for (size_t i = f->no_base ? 1 : 0; i < f->order.len; i++) /* the base set is the first */
        order_set(save, f->order.at[i]);
    for (uint32_t i = 0; i < f->list.len; i++) {
        if (!f->list.at[i].listed && f->list.at[i].into == i)
            order_set(save, i);
    }
    return 0;
}

static int begin_set(void *ctx, uint32_t list, struct err *e)
{
    (void)e;
    struct frame_save *save = ctx;
    const struct frame_set *set = &save->s->t->frame_sets.list.at[save->order[list]];
    save->base = save->order[list] == FRAME_SET_BASE;
    save->index = 0;
    struct rec_frame_set r = {.name = set->name,
                              .continuous = set->continuous,
                              .n = set->count + (save->base ? first_frames(save->s) : 0)};
    return put(save->s, REC_FRAME_SET, &r);
}

/* The image of a frame of the base set; call it in order of the frames. */
static int image_of(struct frame_save *save, int64_t frame, int32_t *image, struct err *e)
{
    struct err failed = {0};
    *image = -1;
    while (save->refs_left == 0 || save->ref->frame < frame) {
        if (save->refs_left > 0) {
            save->ref++;
            save->refs_left--;
        }
        if (save->refs_left > 0)
            continue;
        save->ref = column_reader_next(&save->refs_reader, &save->refs_left, &failed);
        if (!save->ref) {
            if (failed.code != ERR_NONE && e)
                *e = failed;
            return failed.code == ERR_NONE ? 0 : -1;
        }
    }
    if (save->ref->frame == frame)
        *image = (int32_t)save->ref->image;
    return 0;
}

/* `value` is the end. */
static int put_frames(void *ctx, const struct group_item *items, size_t n, struct err *e)
{
    struct frame_save *save = ctx;
    struct rec_frame batch[BATCH];
    for (size_t i = 0; i < n;) {
        size_t run = 0;
        for (; run < BATCH && i < n; run++, i++) {
            batch[run] = (struct rec_frame){
                .start = items[i].time, .end = (int64_t)items[i].value, .image = -1};
            if (save->base && image_of(save, (int64_t)save->index++, &batch[run].image, e) != 0)
                return -1;
        }
        if (record_put(save->s->sink, REC_FRAME, batch, run, e) != 0)
            return -1;
    }
    return 0;
}

static int group_frames(const struct frame_save *save, struct grouper *g)
{
    struct frame_sets *f = &save->s->t->frame_sets;
    const struct trace_facts *facts = &save->s->t->facts;
    const int64_t first[] = {0, facts->init_end, facts->on_demand_time};
    struct err *e = save->s->e;
    int status = 0;
    unsigned begun = f->no_base ? 0 : first_frames(save->s);
    for (unsigned i = 0; i < begun && status == 0; i++) {
        struct group_item item = {.time = first[i], .value = (uint64_t)FRAME_NO_END};
        status = grouper_add(g, item, f->list.at[FRAME_SET_BASE].merged, e);
    }
    struct column_walk w = column_walk(&f->marks);
    for (const struct frame_mark *m; (m = column_walk_next(&w, &status, e));) {
        uint32_t set = frame_set_root(f, m->set);
        struct group_item item = {
            .time = m->start, .value = (uint64_t)m->end, .list = save->lists[set]};
        status = grouper_add(g, item, f->list.at[set].merged, e);
    }
    return status;
}

int save_frame_sets(struct saver *s)
{
    struct frame_save save = {.s = s};
    const struct group_sink sink = {.ctx = &save, .begin = begin_set, .items = put_frames};
    struct grouper g;
    grouper_init(&g, s->t->frame_sets.marks.len + first_frames(s), &s->t->spool);
    int status = frame_images_by_frame(&s->t->frame_images, &save.refs, s->e);
    column_reader_init(&save.refs_reader, &save.refs);
    if (status == 0)
        status = order_sets(&save);
    if (status == 0)
        status = put_count(s, REC_FRAME_SETS, save.n);
    if (status == 0)
        status = group_frames(&save, &g);
    if (status == 0)
        status = grouper_drain(&g, save.n, &sink, s->e);
    column_reader_release(&save.refs_reader);
    column_release(&save.refs);
    grouper_release(&g);
    free(save.order);
    free(save.lists);
    return status;
}

/* ---- images */

struct image_save {
    struct saver *s;
    uint8_t *pixels;
    size_t room;
};

static int put_image(struct image_save *save, const struct frame_image *image)
{
    struct saver *s = save->s;
    struct rec_frame_image r = {.w = image->w, .h = image->h, .flip = image->flip};
    size_t n = (size_t)image->w * image->h / 2;
    if (n > save->room) {
        uint8_t *more = realloc(save->pixels, n);
        if (!more)
            return err_no_memory(s->e, "saving");
        save->pixels = more;
        save->room = n;
    }
    r.bytes = (struct view){(const char *)save->pixels, n};
    if (frame_images_pixels(&s->t->frame_images, image, save->pixels, s->e) != 0)
        return -1;
    return put(s, REC_FRAME_IMAGE, &r);
}

int save_frame_images(struct saver *s)
{
    struct frame_images *f = &s->t->frame_images;
    struct rec_blob no_dictionary = {{NULL, 0}};
    struct image_save save = {.s = s};
    struct column_walk w = column_walk(&f->list);
    if (put(s, REC_FRAME_IMAGE_DICT, &no_dictionary) != 0 ||
        put_count(s, REC_FRAME_IMAGES, f->list.len) != 0)
        return -1;
    int status = 0;
    for (const struct frame_image *image; (image = column_walk_next(&w, &status, s->e));)
        status = put_image(&save, image);
    free(save.pixels);
    return status;
}
