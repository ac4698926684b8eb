/* Tables of zones, messages, plots and frame marks: rows made while the trace is read. */

#include <math.h>
#include <string.h>

#include "analysis/tables/table_cells.h"

void table_records_init(struct table_records *r, const struct table_sink *sink, struct trace *t,
                        const char *spool_dir)
{
    *r = (struct table_records){.sink = sink, .t = t};
    line_sort_init(&r->joined, 0, spool_dir);
    spill_init(&r->messages, sizeof(struct message_row), 0, spool_dir);
    for (unsigned i = 0; i < EXTRA_PARTS; i++)
        zone_texts_init(&r->extras[i], spool_dir);
}

void table_records_release(struct table_records *r)
{
    vec_release(&r->frame_sets);
    map_release(&r->location_numbers);
    vec_release(&r->locations);
    vec_release(&r->expands);
    line_sort_release(&r->joined);
    spill_release(&r->messages);
    for (unsigned i = 0; i < EXTRA_PARTS; i++)
        zone_texts_release(&r->extras[i]);
    zone_walk_release(&r->walk);
    vec_release(&r->open_gpu_zones);
    vec_release(&r->lock_threads);
}

void table_records_wanted(const struct table_sink *sink, bool wanted[REC_TYPE_COUNT])
{
    static const enum record_type locations[] = {REC_SOURCE_LOCATION, REC_SOURCE_LOCATION_EXPAND,
                                                 REC_SOURCE_LOCATION_PAYLOAD};
    static const enum record_type zones[] = {REC_ZONE_EXTRA, REC_THREAD, REC_ZONE_BEGIN,
                                             REC_ZONE_END};
    static const enum record_type messages[] = {REC_MESSAGE, REC_THREAD, REC_THREAD_MESSAGE};
    static const enum record_type plots[] = {REC_PLOT, REC_PLOT_POINT};
    static const enum record_type marks[] = {REC_FRAME_SET, REC_FRAME};
    static const enum record_type gpu[] = {REC_GPU_CONTEXT, REC_GPU_ZONE_BEGIN, REC_GPU_ZONE_END};
    static const enum record_type locks[] = {REC_LOCK, REC_LOCK_THREAD, REC_LOCK_EVENT};
    static const enum record_type samples[] = {REC_THREAD, REC_SAMPLE};
    const bool *w = sink->wanted;
    memset(wanted, 0, REC_TYPE_COUNT * sizeof *wanted);
#define WANT(LIST, CONDITION)                                                                      \
    for (size_t i = 0; (CONDITION) && i < sizeof(LIST) / sizeof *(LIST); i++)                      \
    wanted[(LIST)[i]] = true
    WANT(locations, w[TABLE_OF_SOURCE_LOCATIONS] || w[TABLE_OF_ZONES] || w[TABLE_OF_GPU_ZONES] ||
                        w[TABLE_OF_LOCKS] || w[TABLE_OF_LOCK_EVENTS]);
    WANT(gpu, w[TABLE_OF_GPU_CONTEXTS] || w[TABLE_OF_GPU_ZONES]);
    WANT(locks, w[TABLE_OF_LOCKS] || w[TABLE_OF_LOCK_EVENTS]);
    WANT(samples, w[TABLE_OF_SAMPLES]);
    WANT(zones, w[TABLE_OF_ZONES]);
    WANT(messages, w[TABLE_OF_MESSAGES]);
    WANT(plots, w[TABLE_OF_PLOTS] || w[TABLE_OF_PLOT_POINTS]);
    WANT(marks, w[TABLE_OF_FRAME_SETS] || w[TABLE_OF_FRAME_MARKS]);
#undef WANT
}

/* Clients have two values for "no color". */
static struct cell color_cell(uint32_t color)
{
    return color == UINT32_MAX ? cell_none() : cell_nonzero(color);
}

/* The number of the text of a reference; 0: none. */
static uint32_t ref_number(const struct table_records *r, const struct rec_string_ref *ref)
{
    if (ref->flags == STRING_REF_INDEX)
        return ref->value < r->t->strings.list.len ? (uint32_t)ref->value + 1 : 0;
    return ref->flags == STRING_REF_POINTER ? strings_at_pointer(&r->t->strings, ref->value) : 0;
}

/* ---- frame marks */

/* `number`: from 1, in the newest set. */
static int put_mark(struct table_records *r, uint64_t number, int64_t start, int64_t end,
                    struct err *e)
{
    struct cell cells[TABLE_FRAME_MARKS_WIDTH];
    cells[MARK_SET] = cell_count(r->frame_sets.len);
    bool is_main = r->frame_sets.at[r->frame_sets.len - 1].name == 0;
    cells[MARK_NUMBER] = cell_count(is_main ? trace_frame_number(r->t, number - 1) : number);
    cells[MARK_START] = cell_integer(start);
    cells[MARK_END] = end < start ? cell_none() : cell_integer(end);
    return table_put_row(r, TABLE_OF_FRAME_MARKS, cells, e);
}

/* The last mark of a continuous set has no end. */
static int end_marks(struct table_records *r, struct err *e)
{
    uint64_t number = r->mark_number;
    r->mark_number = 0;
    return number ? put_mark(r, number, r->mark.start, -1, e) : 0;
}

static int add_frame_set(struct table_records *r, const struct rec_frame_set *s, struct err *e)
{
    struct frame_set_row row = {.name = s->name, .continuous = s->continuous != 0};
    if (end_marks(r, e) != 0)
        return -1;
    return vec_push(&r->frame_sets, row) ? 0 : err_no_memory(e, "frame sets");
}

static int add_marks(struct table_records *r, const struct rec_frame *f, size_t n, struct err *e)
{
    struct frame_set_row *set = &r->frame_sets.at[r->frame_sets.len - 1];
    for (size_t i = 0; i < n; i++) {
        set->marks++;
        if (!set->continuous) {
            if (put_mark(r, set->marks, f[i].start, f[i].end, e) != 0)
                return -1;
            continue;
        }
        if (r->mark_number && put_mark(r, r->mark_number, r->mark.start, f[i].start, e) != 0)
            return -1;
        r->mark = f[i];
        r->mark_number = set->marks;
    }
    return 0;
}

static int put_frame_sets(struct table_records *r, struct err *e)
{
    const struct strings *strings = &r->t->strings;
    struct cell cells[TABLE_FRAME_SETS_WIDTH];
    for (size_t i = 0; i < r->frame_sets.len; i++) {
        const struct frame_set_row *set = &r->frame_sets.at[i];
        struct view name = strings_get(strings, strings_at_pointer(strings, set->name));
        cells[FRAME_SET_ID] = cell_count(i + 1);
        cells[FRAME_SET_NAME] = cell_nonempty(set->name == 0 ? view_of("Frame") : name);
        cells[FRAME_SET_CONTINUOUS] = cell_bool(set->continuous);
        cells[FRAME_SET_MARKS] = cell_count(set->marks);
        if (table_put_row(r, TABLE_OF_FRAME_SETS, cells, e) != 0)
            return -1;
    }
    return 0;
}

/* ---- source locations */

static int add_locations(struct table_records *r, const struct rec_source_location *l, size_t n,
                         struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        bool fresh;
        uint64_t *number = map_add(&r->location_numbers, l[i].pointer, &fresh);
        if (number && fresh)
            *number = r->locations.len;
        if (!number || !vec_push(&r->locations, l[i]))
            return err_no_memory(e, "source locations");
    }
    return 0;
}

static int put_location(struct table_records *r, int64_t id, const struct rec_source_location *l,
                        struct err *e)
{
    struct cell cells[TABLE_SOURCE_LOCATIONS_WIDTH];
    cells[LOCATION_ID] = cell_integer(id);
    cells[LOCATION_NAME] = table_text_cell(r, ref_number(r, &l->name));
    cells[LOCATION_FUNCTION] = table_text_cell(r, ref_number(r, &l->function));
    cells[LOCATION_FILE] = table_text_cell(r, ref_number(r, &l->file));
    cells[LOCATION_LINE] = cell_nonzero(l->line);
    cells[LOCATION_COLOR] = color_cell(l->color);
    return table_put_row(r, TABLE_OF_SOURCE_LOCATIONS, cells, e);
}

static int expand_locations(struct table_records *r, const struct rec_id *ids, size_t n,
                            struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t *number = map_find(&r->location_numbers, ids[i].id);
        int64_t id = (int64_t)r->expands.len;
        if (!vec_push(&r->expands, number != NULL))
            return err_no_memory(e, "source locations");
        if (number && put_location(r, id, &r->locations.at[*number], e) != 0)
            return -1;
    }
    return 0;
}

static int add_payloads(struct table_records *r, const struct rec_source_location *l, size_t n,
                        struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (put_location(r, -(int64_t)++r->payloads, &l[i], e) != 0)
            return -1;
    }
    return 0;
}

/* ---- messages */

/*
 * A message has no thread: each thread has a list of the keys of its messages, much later in the
 * file. Both are sorted by key, with a list's entries before messages, and then the messages by
 * number.
 */
#define JOIN_KEY_SIZE 9u

enum join_part { JOIN_CLAIM, JOIN_MESSAGE };

static int join_add(struct table_records *r, uint64_t key, enum join_part part, const void *bytes,
                    size_t n, struct err *e)
{
    uint8_t head[JOIN_KEY_SIZE];
    store_u64(head, __builtin_bswap64(key));
    head[8] = (uint8_t)part;
    return line_sort_add(&r->joined, (struct view){(const char *)head, sizeof head},
                         (struct view){bytes, n}, e);
}

static int add_messages(struct table_records *r, const struct rec_message *m, size_t n,
                        struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct message_row row = {.id = (int64_t)++r->message_count,
                                  .time = m[i].time,
                                  .text = ref_number(r, &m[i].text),
                                  .color = m[i].color,
                                  .callstack = m[i].callstack,
                                  .source = m[i].source,
                                  .severity = m[i].severity};
        if (join_add(r, m[i].key, JOIN_MESSAGE, &row, sizeof row, e) != 0)
            return -1;
    }
    return 0;
}

static int claim_messages(struct table_records *r, const struct rec_id *ids, size_t n,
                          struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (join_add(r, ids[i].id, JOIN_CLAIM, &r->thread, sizeof r->thread, e) != 0)
            return -1;
    }
    return 0;
}

struct message_join {
    struct table_records *r;
    uint8_t key[8];
    bool claimed; /* by `thread`: the first list with the key */
    uint64_t thread;
};

static int take_joined(void *ctx, struct view line, struct err *e)
{
    struct message_join *j = ctx;
    const char *payload = line.p + JOIN_KEY_SIZE;
    bool same = j->claimed && memcmp(j->key, line.p, sizeof j->key) == 0;
    if (line.p[8] == JOIN_CLAIM) {
        if (!same)
            j->thread = load_u64(payload);
        j->claimed = true;
        memcpy(j->key, line.p, sizeof j->key);
        return 0;
    }
    struct message_row row;
    memcpy(&row, payload, sizeof row);
    row.claimed = same;
    row.thread = same ? j->thread : 0;
    return spill_add(&j->r->messages, &row, 1, e);
}

static int put_messages(void *ctx, const void *recs, size_t n, struct err *e)
{
    const struct table_records *r = ctx;
    const struct message_row *m = recs;
    struct cell cells[TABLE_MESSAGES_WIDTH];
    for (size_t i = 0; i < n; i++) {
        cells[MESSAGE_ID] = cell_count((uint64_t)m[i].id);
        cells[MESSAGE_TIME] = cell_integer(m[i].time);
        cells[MESSAGE_THREAD] = m[i].claimed ? cell_count(m[i].thread) : cell_none();
        cells[MESSAGE_TEXT] = table_text_cell(r, m[i].text);
        cells[MESSAGE_SEVERITY] = cell_count(m[i].severity);
        cells[MESSAGE_SOURCE] = cell_count(m[i].source);
        cells[MESSAGE_COLOR] = color_cell(m[i].color);
        cells[MESSAGE_CALLSTACK] = cell_nonzero(m[i].callstack);
        if (table_put_row(r, TABLE_OF_MESSAGES, cells, e) != 0)
            return -1;
    }
    return 0;
}

static int finish_messages(struct table_records *r, struct err *e)
{
    struct message_join join = {.r = r};
    if (line_sort_drain(&r->joined, take_joined, &join, e) != 0)
        return -1;
    return spill_drain(&r->messages, put_messages, r, e);
}

/* ---- zones */

static int add_extras(struct table_records *r, const struct rec_zone_extra *x, size_t n,
                      struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (zone_texts_add(&r->extras[EXTRA_TEXT], x[i].text, e) != 0 ||
            zone_texts_add(&r->extras[EXTRA_NAME], x[i].name, e) != 0 ||
            zone_texts_add(&r->extras[EXTRA_COLOR], x[i].color, e) != 0 ||
            zone_texts_add(&r->extras[EXTRA_CALLSTACK], x[i].callstack, e) != 0)
            return -1;
    }
    return 0;
}

static int end_zone(struct table_records *r, const struct rec_zone_end *end, struct err *e)
{
    struct cell cells[TABLE_ZONES_WIDTH];
    struct walked_zone z = zone_walk_end(&r->walk, end);
    uint32_t extra[EXTRA_PARTS] = {0};
    size_t depth = r->walk.open.len;
    for (unsigned i = 0; z.extra && i < EXTRA_PARTS; i++) {
        if (zone_texts_get(&r->extras[i], z.extra, &extra[i], e) != 0)
            return -1;
    }
    cells[ZONE_ID] = cell_count(z.number + 1);
    cells[ZONE_THREAD] = cell_count(r->thread);
    cells[ZONE_PARENT] = depth ? cell_count(r->walk.open.at[depth - 1].number + 1) : cell_none();
    cells[ZONE_DEPTH] = cell_count(depth);
    cells[ZONE_LOCATION] = table_location_cell(r, z.srcloc);
    cells[ZONE_START] = cell_integer(z.start);
    cells[ZONE_END] = z.end < 0 ? cell_none() : cell_integer(z.end);
    cells[ZONE_NAME] = table_text_cell(r, extra[EXTRA_NAME]);
    cells[ZONE_TEXT] = table_text_cell(r, extra[EXTRA_TEXT]);
    cells[ZONE_COLOR] = color_cell(extra[EXTRA_COLOR]);
    cells[ZONE_CALLSTACK] = cell_nonzero(extra[EXTRA_CALLSTACK]);
    return table_put_row(r, TABLE_OF_ZONES, cells, e);
}

/* ---- plots */

static int put_plot(struct table_records *r, const struct rec_plot *p, struct err *e)
{
    struct cell cells[TABLE_PLOTS_WIDTH];
    cells[PLOT_ID] = cell_count(++r->plots);
    cells[PLOT_NAME] = table_text_cell(r, strings_at_pointer(&r->t->strings, p->name));
    cells[PLOT_TYPE] = cell_count(p->type);
    cells[PLOT_FORMAT] = cell_count(p->format);
    cells[PLOT_POINTS] = cell_count(p->n);
    return table_put_row(r, TABLE_OF_PLOTS, cells, e);
}

static int put_points(struct table_records *r, const struct rec_plot_point *p, size_t n,
                      struct err *e)
{
    struct cell cells[TABLE_PLOT_POINTS_WIDTH];
    for (size_t i = 0; i < n; i++) {
        cells[POINT_PLOT] = cell_count(r->plots);
        cells[POINT_TIME] = cell_integer(p[i].time);
        cells[POINT_VALUE] = (struct cell){.null = !isfinite(p[i].value), .real = p[i].value};
        if (table_put_row(r, TABLE_OF_PLOT_POINTS, cells, e) != 0)
            return -1;
    }
    return 0;
}

/* ---- records */

static int put_record(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct table_records *r = ctx;
    switch (type) {
    case REC_ZONE_BEGIN:
        return zone_walk_begin(&r->walk, recs, e);
    case REC_ZONE_END:
        return end_zone(r, recs, e);
    case REC_FRAME_SET:
        return add_frame_set(r, recs, e);
    case REC_FRAME:
        return add_marks(r, recs, n, e);
    case REC_SOURCE_LOCATION:
        return add_locations(r, recs, n, e);
    case REC_SOURCE_LOCATION_EXPAND:
        return expand_locations(r, recs, n, e);
    case REC_SOURCE_LOCATION_PAYLOAD:
        return add_payloads(r, recs, n, e);
    case REC_MESSAGE:
        return add_messages(r, recs, n, e);
    case REC_ZONE_EXTRA:
        return add_extras(r, recs, n, e);
    case REC_THREAD:
        r->thread = ((const struct rec_thread *)recs)->id;
        return 0;
    case REC_THREAD_MESSAGE:
        return claim_messages(r, recs, n, e);
    case REC_PLOT:
        return put_plot(r, recs, e);
    case REC_PLOT_POINT:
        return put_points(r, recs, n, e);
    default:
        return table_put_list_record(r, type, recs, n, e);
    }
}

struct record_sink table_records_sink(struct table_records *r)
{
    return (struct record_sink){r, put_record};
}

int table_records_finish(struct table_records *r, struct err *e)
{
    if (end_marks(r, e) != 0 || put_frame_sets(r, e) != 0)
        return -1;
    return finish_messages(r, e);
}
