#include "analysis/figures/moment.h"

#include <stdlib.h>
#include <xxhash.h>

#include "analysis/names/zone_names.h"

struct open_zone {
    int64_t end;
    uint32_t label;
    uint32_t children; /* direct ones that have not begun yet */
    struct zone_tallies tallies;
};

struct moment_thread {
    struct column_reader begins;
    struct column_reader ends;
    const struct zone_begin *begin; /* the next one */
    const struct zone_end *end;
    size_t left;
    bool has_zones;
    VEC(struct open_zone) open;
};

#define LOCATION_NUMBERS 65536u

int moments_init(struct moments *m, struct trace *t, struct err *e)
{
    *m = (struct moments){.trace = t};
    column_reader_init(&m->marks, &t->frame_sets.marks);
    m->of_location = calloc(LOCATION_NUMBERS, sizeof *m->of_location);
    if (m->of_location && vec_push(&m->labels, (struct view){"", 0}))
        return 0;
    moments_release(m);
    return err_no_memory(e, "zones");
}

void moments_release(struct moments *m)
{
    for (size_t i = 0; i < m->threads.len; i++) {
        struct moment_thread *t = m->threads.at[i];
        if (!t)
            continue;
        if (t->has_zones) {
            column_reader_release(&t->begins);
            column_reader_release(&t->ends);
        }
        for (size_t k = 0; k < t->open.len; k++)
            vec_release(&t->open.at[k].tallies.list);
        vec_release(&t->open);
        free(t);
    }
    vec_release(&m->threads);
    vec_release(&m->labels);
    map_release(&m->label_numbers);
    free(m->of_location);
    if (m->trace)
        column_reader_release(&m->marks);
    *m = (struct moments){0};
}

/* ---- zones */

/* Reads the next zone of the thread, if any: `left` is 0 at the end. */
static int read_on(struct moment_thread *t, struct err *e)
{
    size_t same;
    t->begin = column_reader_next(&t->begins, &t->left, e);
    t->end = column_reader_next(&t->ends, &same, e);
    if (!t->begin || !t->end)
        t->left = 0;
    return e->code ? -1 : 0;
}

static struct moment_thread *thread_of(struct moments *m, uint16_t number, struct err *e)
{
    if (number < m->threads.len && m->threads.at[number])
        return m->threads.at[number];
    while (m->threads.len <= number) {
        if (!vec_push(&m->threads, NULL)) {
            err_no_memory(e, "zones");
            return NULL;
        }
    }
    struct moment_thread *t = calloc(1, sizeof *t);
    if (!t) {
        err_no_memory(e, "zones");
        return NULL;
    }
    m->threads.at[number] = t;
    struct zone_thread *zones = zones_of(&m->trace->zones, number);
    if (!zones)
        return t;
    t->has_zones = true;
    column_reader_init(&t->begins, &zones->begins);
    column_reader_init(&t->ends, &zones->ends);
    return read_on(t, e) == 0 ? t : NULL;
}

static int label_of(struct moments *m, int16_t location, uint32_t *label, struct err *e)
{
    uint32_t *known = &m->of_location[location + 32768];
    if (*known) {
        *label = *known - 1;
        return 0;
    }
    struct view name = zone_name(m->trace, location);
    if (name.len == 0)
        name = view_of("[unknown]");
    for (uint64_t key = XXH3_64bits(name.p, name.len);; key++) {
        bool fresh;
        uint64_t *number = map_add(&m->label_numbers, key, &fresh);
        if (!number)
            return err_no_memory(e, "zones");
        if (fresh) {
            *number = m->labels.len;
            if (!vec_push(&m->labels, name))
                return err_no_memory(e, "zones");
        }
        if (view_equal(m->labels.at[*number], name)) {
            *label = (uint32_t)*number;
            *known = *label + 1;
            return 0;
        }
    }
}

static int close_zone(struct moments *m, struct moment_thread *t, struct err *e)
{
    struct open_zone *zone = &t->open.at[--t->open.len];
    struct open_zone *around = t->open.len ? zone - 1 : NULL;
    if (zone->tallies.list.len == 0)
        return 0;
    return zone_calls_end(m->calls, zone->label, &zone->tallies, around ? &around->tallies : NULL,
                          e);
}

static int close_zones(struct moments *m, struct moment_thread *t, int64_t time, struct err *e)
{
    while (t->open.len && t->open.at[t->open.len - 1].end < time) {
        if (close_zone(m, t, e) != 0)
            return -1;
    }
    return 0;
}

/*
 * A zone may end in the nanosecond in which the next one begins: the tree decides which one is
 * inside.
 */
static int open_zone(struct moments *m, struct moment_thread *t, uint16_t thread, struct err *e)
{
    struct open_zone zone = {.end = zone_end_time(t->begin, t->end), .children = t->end->children};
    if (zone.end == -1)
        zone.end = INT64_MAX;
    if (close_zones(m, t, t->begin->start, e) != 0 ||
        label_of(m, t->begin->srcloc, &zone.label, e) != 0)
        return -1;
    while (t->open.len && t->open.at[t->open.len - 1].children == 0) {
        if (close_zone(m, t, e) != 0)
            return -1;
    }
    if (t->open.len)
        t->open.at[t->open.len - 1].children--;
    if (m->calls &&
        zone_calls_begin(m->calls, zone.label, thread, t->begin->start, zone.end, e) != 0)
        return -1;
    return vec_push(&t->open, zone) ? 0 : err_no_memory(e, "zones");
}

/* Advances through a thread's zones up to a time. */
static int walk_zones(struct moments *m, struct moment_thread *t, uint16_t thread, int64_t time,
                      struct err *e)
{
    while (t->left && t->begin->start <= time) {
        if (open_zone(m, t, thread, e) != 0)
            return -1;
        t->begin++;
        t->end++;
        if (--t->left == 0 && read_on(t, e) != 0)
            return -1;
    }
    return close_zones(m, t, time, e);
}

int moments_zone(struct moments *m, uint16_t thread, int64_t time, uint32_t *label, struct err *e)
{
    struct moment_thread *t = thread_of(m, thread, e);
    if (!t || walk_zones(m, t, thread, time, e) != 0)
        return -1;
    *label = t->open.len ? t->open.at[t->open.len - 1].label : MOMENT_NO_ZONE;
    return 0;
}

int moments_allocated(struct moments *m, uint16_t thread, uint32_t pool, uint64_t size,
                      struct err *e)
{
    struct moment_thread *t = thread < m->threads.len ? m->threads.at[thread] : NULL;
    if (!m->calls || !t || t->open.len == 0)
        return 0;
    return zone_calls_add(&t->open.at[t->open.len - 1].tallies, pool, size, e);
}

int moments_finish_zones(struct moments *m, struct err *e)
{
    for (size_t i = 0; m->calls && i < m->trace->threads.list.len; i++) {
        struct moment_thread *t = thread_of(m, (uint16_t)i, e);
        if (!t || walk_zones(m, t, (uint16_t)i, INT64_MAX, e) != 0)
            return -1;
        while (t->open.len) {
            if (close_zone(m, t, e) != 0)
                return -1;
        }
    }
    return 0;
}

/* ---- frames */

int moments_frame(struct moments *m, int64_t time, uint64_t *begun, struct err *e)
{
    for (;;) {
        if (m->marks_left == 0) {
            m->mark = column_reader_next(&m->marks, &m->marks_left, e);
            if (!m->mark) {
                m->marks_left = 0;
                break;
            }
        }
        if (m->mark->start > time)
            break;
        m->frames += m->mark->set == FRAME_SET_BASE;
        m->mark++;
        m->marks_left--;
    }
    *begun = m->frames;
    return e->code ? -1 : 0;
}
