#include "analysis/html/html_lanes.h"

#include <math.h>
#include <stdlib.h>

#include "trace/store/kernel_plot.h"

static int no_room(struct err *e)
{
    return err_no_memory(e, "zones, messages and plots of the page");
}

/* The slot of a time; false outside of the timeline. */
static bool slot_of(const struct page_data *d, int64_t time, uint32_t *slot)
{
    uint64_t since = (uint64_t)time - (uint64_t)d->from;
    if (time < d->from || since / d->series.slot_ns >= PAGE_SLOTS)
        return false;
    *slot = (uint32_t)(since / d->series.slot_ns);
    return true;
}

static int64_t end_of_slots(const struct page_data *d)
{
    return d->from + (int64_t)(d->series.slot_ns * PAGE_SLOTS);
}

/* ---- zones */

struct open_time {
    int32_t srcloc;
    uint64_t ns;
};

/* A depth of one thread, while its zones are read in order. */
struct depth_reader {
    int32_t *open; /* PAGE_SLOTS */
    uint32_t slot;
    VEC(struct open_time) times; /* within that slot */
};

struct zone_reader {
    const struct page_data *d;
    struct depth_reader depths[PAGE_LANE_DEPTHS];
    VEC(int64_t) ends; /* of the zones that are open */
};

static void settle(struct depth_reader *r)
{
    uint64_t most = 0;
    for (size_t i = 0; i < r->times.len; i++) {
        if (r->times.at[i].ns > most) {
            most = r->times.at[i].ns;
            r->open[r->slot] = r->times.at[i].srcloc;
        }
    }
    r->times.len = 0;
}

static int add_time(struct depth_reader *r, uint32_t slot, int32_t srcloc, uint64_t ns,
                    struct err *e)
{
    if (slot != r->slot) {
        settle(r);
        r->slot = slot;
    }
    for (size_t i = 0; i < r->times.len; i++) {
        if (r->times.at[i].srcloc == srcloc) {
            r->times.at[i].ns += ns;
            return 0;
        }
    }
    return vec_push(&r->times, ((struct open_time){srcloc, ns})) ? 0 : no_room(e);
}

/* Zones of one depth do not overlap; a malformed one before its predecessor is left out. */
static int add_zone(struct zone_reader *r, struct depth_reader *to, int32_t srcloc, int64_t begin,
                    int64_t end, struct err *e)
{
    const struct page_data *d = r->d;
    uint32_t slot;
    begin = begin < d->from ? d->from : begin;
    end = end > end_of_slots(d) ? end_of_slots(d) : end;
    if (begin >= end || !slot_of(d, begin, &slot) || slot < to->slot)
        return 0;
    for (; begin < end; slot++) {
        int64_t next = d->from + (int64_t)(d->series.slot_ns * (slot + 1));
        next = next < end ? next : end;
        if (add_time(to, slot, srcloc, (uint64_t)(next - begin), e) != 0)
            return -1;
        begin = next;
    }
    return 0;
}

static int take_zone(struct zone_reader *r, struct page_zone_lane *lane, const struct zone_begin *b,
                     int64_t end, struct err *e)
{
    const struct page_data *d = r->d;
    while (r->ends.len && r->ends.at[r->ends.len - 1] <= b->start)
        r->ends.len--;
    size_t depth = r->ends.len;
    if (!vec_push(&r->ends, end))
        return no_room(e);
    if (depth == 0 && end > d->from && b->start < end_of_slots(d)) {
        int64_t first = b->start < d->from ? d->from : b->start;
        int64_t last = end < end_of_slots(d) ? end : end_of_slots(d);
        lane->busy += last > first ? (uint64_t)(last - first) : 0;
    }
    return depth < PAGE_LANE_DEPTHS ? add_zone(r, &r->depths[depth], b->srcloc, b->start, end, e)
                                    : 0;
}

static int read_zones(struct zone_reader *r, struct page_zone_lane *lane, struct zone_thread *z,
                      struct err *e)
{
    struct column_walk begins = column_walk(&z->begins), ends = column_walk(&z->ends);
    int status = 0;
    for (struct column_two zone; (zone = column_walk_two(&begins, &ends, &status, e)).first;) {
        const struct zone_begin *b = zone.first;
        int64_t last = zone_end_time(b, zone.second);
        status = take_zone(r, lane, b, last == -1 ? INT64_MAX : last, e);
    }
    return status;
}

static int read_lane(struct page_zone_lane *lane, const struct page_data *d, struct zone_thread *z,
                     struct err *e)
{
    struct zone_reader r = {.d = d};
    for (unsigned k = 0; k < PAGE_LANE_DEPTHS; k++) {
        r.depths[k].open = lane->open[k];
        for (size_t i = 0; i < PAGE_SLOTS; i++)
            lane->open[k][i] = PAGE_LANE_NONE;
    }
    int status = read_zones(&r, lane, z, e);
    for (unsigned k = 0; k < PAGE_LANE_DEPTHS; k++) {
        settle(&r.depths[k]);
        vec_release(&r.depths[k].times);
    }
    vec_release(&r.ends);
    return status;
}

/* Keeps the lanes with most time, the first of equal ones, in that order. */
static int keep_lane(struct page_lanes *l, const struct page_zone_lane *lane, struct err *e)
{
    size_t at = l->zones.len;
    while (at && l->zones.at[at - 1].busy < lane->busy)
        at--;
    if (l->zones.len == PAGE_LANE_THREADS)
        l->threads_left_out++;
    else if (!vec_push(&l->zones, *lane))
        return no_room(e);
    for (size_t i = l->zones.len - 1; i > at; i--)
        l->zones.at[i] = l->zones.at[i - 1];
    if (at < l->zones.len)
        l->zones.at[at] = *lane;
    return 0;
}

static int build_zones(struct page_lanes *l, const struct page_data *d, struct trace *t,
                       struct err *e)
{
    struct page_zone_lane *lane = malloc(sizeof *lane);
    int status = lane ? 0 : no_room(e);
    for (size_t i = 0; status == 0 && i < t->zones.threads.len; i++) {
        struct zone_thread *z = t->zones.threads.at[i];
        if (!z)
            continue;
        lane->thread = (uint16_t)i;
        lane->busy = 0;
        status = read_lane(lane, d, z, e);
        if (status == 0 && lane->busy)
            status = keep_lane(l, lane, e);
    }
    free(lane);
    return status;
}

/* ---- messages */

static int build_messages(struct page_lanes *l, const struct page_data *d,
                          struct related_input *input, struct err *e)
{
    int status = 0;
    uint32_t slot;
    if (input->messages.len == 0)
        return 0;
    l->messages = calloc(PAGE_SLOTS, sizeof *l->messages);
    if (!l->messages)
        return no_room(e);
    struct column_walk w = column_walk(&input->messages);
    for (const struct input_message *m; (m = column_walk_next(&w, &status, e));) {
        if (!slot_of(d, m->time, &slot))
            continue;
        struct page_message *to = &l->messages[slot];
        if (to->count++ == 0 || m->time < to->time) {
            to->time = m->time;
            to->text = m->text;
        }
    }
    return status;
}

/* ---- plots */

/* Those that the line of the RSS is made of are not lanes. */
static bool is_resident(uint64_t name)
{
    return name >= MEMORY_PLOT_KEY(MEMORY_RSS_ANON) && name <= MEMORY_PLOT_KEY(MEMORY_SWAP);
}

static bool is_kernels(uint64_t name)
{
    return name >= MEMORY_PLOT_KEY(0) && name < MEMORY_PLOT_KEY(MEMORY_VALUES);
}

static int read_plot(struct page_plot *to, const struct page_data *d, struct related_input *input,
                     const struct input_plot *plot, bool *any, struct err *e)
{
    struct column_walk w = column_walk_part(&input->points, plot->first, plot->n);
    int status = 0;
    uint32_t slot;
    for (const struct input_point *p; (p = column_walk_next(&w, &status, e));) {
        if (!isfinite(p->value) || !slot_of(d, p->time, &slot))
            continue;
        if (!to->known[slot] || p->value > to->high[slot])
            to->high[slot] = p->value;
        to->known[slot] = *any = true;
    }
    return status;
}

static int add_plot(struct page_lanes *l, const struct page_data *d, struct related_input *input,
                    const struct input_plot *plot, struct err *e)
{
    struct page_plot *to = calloc(1, sizeof *to);
    bool any = false;
    int status = to ? read_plot(to, d, input, plot, &any, e) : no_room(e);
    if (status == 0 && any && l->plots.len == PAGE_LANE_PLOTS) {
        l->plots_left_out++;
    } else if (status == 0 && any) {
        const struct strings *s = &input->trace->strings;
        to->name = strings_get(s, strings_at_pointer(s, plot->name));
        status = vec_push(&l->plots, *to) ? 0 : no_room(e);
    }
    free(to);
    return status;
}

static int build_plots(struct page_lanes *l, const struct page_data *d, struct related_input *input,
                       struct err *e)
{
    for (int kernels = 0; kernels < 2; kernels++) {
        for (size_t i = 0; i < input->plots.len; i++) {
            const struct input_plot *plot = &input->plots.at[i];
            if (!is_resident(plot->name) && is_kernels(plot->name) == kernels &&
                add_plot(l, d, input, plot, e) != 0)
                return -1;
        }
    }
    return 0;
}

/* ---- */

int page_lanes_build(struct page_lanes *l, const struct page_data *d, struct trace *t,
                     struct related_input *input, struct err *e)
{
    *l = (struct page_lanes){0};
    if (build_zones(l, d, t, e) != 0 || build_messages(l, d, input, e) != 0)
        return -1;
    return build_plots(l, d, input, e);
}

void page_lanes_release(struct page_lanes *l)
{
    vec_release(&l->zones);
    free(l->messages);
    vec_release(&l->plots);
    *l = (struct page_lanes){0};
}
