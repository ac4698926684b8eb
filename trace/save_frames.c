/* Frames, their images, sections. */

#include "trace/save_internal.h"

/* The base set that every capture has: start, end of initialisation, and the connection. */
int save_frame_sets(struct saver *s)
{
    const struct trace_facts *f = &s->t->facts;
    struct rec_frame_set base = {.name = 0, .continuous = 1, .n = f->on_demand ? 3 : 2};
    struct rec_frame frames[3] = {{.start = 0, .end = -1, .image = -1},
                                  {.start = f->init_end, .end = -1, .image = -1},
                                  {.start = f->on_demand_time, .end = -1, .image = -1}};
    if (put_count(s, REC_FRAME_SETS, 1) != 0 || put(s, REC_FRAME_SET, &base) != 0)
        return -1;
    return record_put(s->sink, REC_FRAME, frames, (size_t)base.n, s->e);
}

int save_sections(struct saver *s)
{
    if (put_count(s, REC_SECTION_LISTS, 0) != 0)
        return -1;
    return put_count(s, REC_SECTION_CATEGORIES, 0);
}

int save_frame_images(struct saver *s)
{
    struct rec_blob no_dictionary = {{NULL, 0}};
    if (put(s, REC_FRAME_IMAGE_DICT, &no_dictionary) != 0)
        return -1;
    return put_count(s, REC_FRAME_IMAGES, 0);
}
