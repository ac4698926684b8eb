/* Frames and their images. */

#include <stdlib.h>

#include "trace/save/save_lists.h"

/* ---- frame sets */

struct frame_save {
    struct list_save sets;
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

/* Sets whose name is unknown come last. */
static void order_sets(struct list_save *save)
{
    const struct frame_sets *f = &save->s->t->frame_sets;
    for (size_t i = f->no_base ? 1 : 0; i < f->order.len; i++) /* the base set is the first */
        save->order[save->n++] = f->order.at[i];
    for (uint32_t i = 0; i < f->list.len; i++) {
        if (!f->list.at[i].listed && f->list.at[i].into == i)
            save->order[save->n++] = i;
    }
}

static int begin_set(void *ctx, uint32_t list, struct err *e)
{
    (void)e;
    struct frame_save *save = ctx;
    struct saver *s = save->sets.s;
    uint32_t number = save->sets.order[list];
    const struct frame_set *set = &s->t->frame_sets.list.at[number];
    save->base = number == FRAME_SET_BASE;
    save->index = 0;
    struct rec_frame_set r = {.name = set->name,
                              .continuous = set->continuous,
                              .n = set->count + (save->base ? first_frames(s) : 0)};
    return put(s, REC_FRAME_SET, &r);
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
static int fill_frame(struct list_save *sets, void *rec, const struct group_item *item,
                      struct err *e)
{
    struct frame_save *save = (struct frame_save *)sets;
    struct rec_frame *r = rec;
    *r = (struct rec_frame){.start = item->time, .end = (int64_t)item->value, .image = -1};
    return save->base ? image_of(save, (int64_t)save->index++, &r->image, e) : 0;
}

static int group_frames(struct list_save *save, struct grouper *g, struct err *e)
{
    struct frame_sets *f = &save->s->t->frame_sets;
    const struct trace_facts *facts = &save->s->t->facts;
    const int64_t first[] = {0, facts->init_end, facts->on_demand_time};
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
    static const struct list_kind kind = {REC_FRAME_SETS, REC_FRAME, order_sets,
                                          group_frames,   begin_set, fill_frame};
    struct frame_save save = {.sets = {.s = s, .kind = &kind}};
    const struct frame_sets *f = &s->t->frame_sets;
    int status = frame_images_by_frame(&s->t->frame_images, &save.refs, s->e);
    column_reader_init(&save.refs_reader, &save.refs);
    if (status == 0)
        status = save_lists(&save.sets, f->list.len, f->marks.len + first_frames(s));
    column_reader_release(&save.refs_reader);
    column_release(&save.refs);
    list_save_release(&save.sets);
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
