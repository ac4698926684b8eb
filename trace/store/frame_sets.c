#include "trace/store/frame_sets.h"

#define VSYNC_NAME (UINT64_C(1) << 63)

static const struct pack_layout mark_layout = {
    .element = sizeof(struct frame_mark),
    .count = 4,
    .fields = {{0, 8, PACK_STEP},    /* start */
               {8, 8, PACK_STEP},    /* end */
               {16, 4, PACK_OFFSET}, /* set */
               {20, 4, PACK_OFFSET}},
};

int frame_sets_init(struct frame_sets *f, struct spool *spool, struct err *e)
{
    *f = (struct frame_sets){0};
    column_init(&f->marks, spool, &mark_layout, true);
    uint64_t *number = map_add(&f->numbers, 0, NULL);
    struct frame_set base = {.continuous = true, .listed = true, .into = FRAME_SET_BASE};
    if (!number || !vec_push(&f->list, base) || !vec_push(&f->order, FRAME_SET_BASE)) {
        frame_sets_release(f);
        return err_no_memory(e, "frame sets");
    }
    return 0;
}

void frame_sets_release(struct frame_sets *f)
{
    column_release(&f->marks);
    vec_release(&f->list);
    vec_release(&f->order);
    map_release(&f->numbers);
    map_release(&f->told);
    map_release(&f->by_text);
    map_release(&f->vsync);
    *f = (struct frame_sets){0};
}

/* ---- sets */

static int set_new(struct frame_sets *f, uint64_t name, bool continuous, uint32_t *number,
                   struct err *e)
{
    if (f->list.len >= UINT32_MAX)
        return err_set(e, ERR_INPUT, "too many frame sets");
    struct frame_set set = {.name = name, .continuous = continuous, .into = (uint32_t)f->list.len};
    if (!vec_push(&f->list, set))
        return err_no_memory(e, "frame sets");
    *number = set.into;
    return 0;
}

/*
 * Handles a set's name: the set gets its position in the file, or is merged into the set of that
 * name.
 */
static int set_told(struct frame_sets *f, uint32_t number, uint32_t text, struct err *e)
{
    bool fresh;
    uint64_t *first = map_add(&f->by_text, text, &fresh);
    if (!first)
        return err_no_memory(e, "frame sets");
    struct frame_set *set = &f->list.at[number];
    if (fresh) {
        *first = number;
        set->listed = true;
        return vec_push(&f->order, number) ? 0 : err_no_memory(e, "frame sets");
    }
    struct frame_set *to = &f->list.at[*first];
    set->into = (uint32_t)*first;
    to->merged |= set->count > 0;
    to->count += set->count;
    if (set->newest && (!to->newest || set->newest_start >= to->newest_start)) {
        to->newest = set->newest;
        to->newest_start = set->newest_start;
        to->newest_end = set->newest_end;
    }
    return 0;
}

/* The set of a name, created if new. */
static int set_of(struct frame_sets *f, uint64_t name, bool continuous, uint32_t *number,
                  struct err *e)
{
    const uint64_t *known = map_find(&f->numbers, name);
    if (!known) {
        uint64_t *place;
        if (set_new(f, name, continuous, number, e) != 0)
            return -1;
        if (!(place = map_add(&f->numbers, name, NULL)))
            return err_no_memory(e, "frame sets");
        *place = *number;
        const uint64_t *text = map_find(&f->told, name);
        if (text && set_told(f, *number, (uint32_t)*text, e) != 0)
            return -1;
    } else {
        *number = (uint32_t)*known;
    }
    *number = frame_set_root(f, *number);
    f->misfits += f->list.at[*number].continuous != continuous;
    return 0;
}

int frame_sets_name(struct frame_sets *f, uint64_t name, uint32_t text, uint32_t base_text,
                    struct err *e)
{
    bool fresh;
    uint64_t *told = map_add(&f->told, name, &fresh);
    if (!told)
        return err_no_memory(e, "frame sets");
    if (!fresh)
        return 0;
    *told = text;
    if (text == base_text && !map_add(&f->by_text, text, NULL)) /* as 0, the base set's number */
        return err_no_memory(e, "frame sets");
    const uint64_t *number = map_find(&f->numbers, name);
    return number && *number != FRAME_SET_BASE ? set_told(f, (uint32_t)*number, text, e) : 0;
}

/* ---- frames */

static int set_begin(struct frame_sets *f, uint32_t number, int64_t time, struct err *e)
{
    struct frame_mark *m = column_append(&f->marks, e);
    if (!m)
        return -1;
    *m = (struct frame_mark){.start = time, .end = FRAME_NO_END, .set = number};
    struct frame_set *set = &f->list.at[number];
    set->count++;
    set->newest = f->marks.len;
    set->newest_start = time;
    set->newest_end = FRAME_NO_END;
    return 0;
}

int frame_sets_mark(struct frame_sets *f, uint64_t name, int64_t time, struct err *e)
{
    uint32_t number = FRAME_SET_BASE;
    if (name != 0 && set_of(f, name, true, &number, e) != 0)
        return -1;
    return set_begin(f, number, time, e);
}

int frame_sets_vsync(struct frame_sets *f, uint64_t display, int64_t time, struct err *e)
{
    bool fresh;
    uint64_t *place = map_add(&f->vsync, display, &fresh);
    if (!place)
        return err_no_memory(e, "frame sets");
    if (fresh) {
        /*
         * No pointer to a name is in the upper half of the address space. The official server
         * stores displays there, instead of in another field.
         */
        uint32_t number;
        if (set_new(f, (f->vsync.count - 1) | VSYNC_NAME, true, &number, e) != 0)
            return -1;
        *place = number;
        f->list.at[number].listed = true;
        if (!vec_push(&f->order, number))
            return err_no_memory(e, "frame sets");
    }
    return set_begin(f, (uint32_t)*place, time, e);
}

int frame_sets_start(struct frame_sets *f, uint64_t name, int64_t time, struct err *e)
{
    uint32_t number;
    if (set_of(f, name, false, &number, e) != 0)
        return -1;
    const struct frame_set *set = &f->list.at[number];
    f->misfits += !set->continuous && set->newest && set->newest_end == FRAME_NO_END;
    return set_begin(f, number, time, e);
}

int frame_sets_end(struct frame_sets *f, uint64_t name, int64_t time, bool *known, struct err *e)
{
    const uint64_t *number = map_find(&f->numbers, name);
    struct frame_set *set = number ? &f->list.at[frame_set_root(f, (uint32_t)*number)] : NULL;
    *known = set && set->newest;
    if (!*known) {
        f->lone_ends++;
        return 0;
    }
    f->misfits += set->continuous || set->newest_end != FRAME_NO_END;
    if (set->continuous)
        return 0;
    set->newest_end = time;
    const struct frame_mark m = {
        .start = set->newest_start, .end = time, .set = f->list.at[*number].into};
    return column_patch(&f->marks, set->newest - 1, &m, e);
}

/* ---- parts */

int frame_sets_carry(struct frame_sets *f, struct err *e)
{
    column_clear(&f->marks);
    f->lone_ends = f->misfits = 0;
    for (size_t i = 0; i < f->list.len; i++) {
        struct frame_set *set = &f->list.at[i];
        bool lasts = set->newest && (set->continuous || set->newest_end == FRAME_NO_END);
        set->count = set->newest = 0;
        set->merged = false;
        if (lasts && i != FRAME_SET_BASE && set->into == i && set_begin(f, (uint32_t)i, 0, e) != 0)
            return -1;
    }
    return 0;
}
