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

TAKE_EACH(add_frame_set, struct table_records *r, frame_set, s)
{
    struct frame_set_row row = {.name = s->name, .continuous = s->continuous != 0};
    if (end_marks(r, e) != 0)
        return -1;
    return vec_push(&r->frame_sets, row) ? 0 : err_no_memory(e, "frame sets");
}

TAKE_EACH(add_mark, struct table_records *r, frame, f)
{
    struct frame_set_row *set = &r->frame_sets.at[r->frame_sets.len - 1];
    set->marks++;
    if (!set->continuous)
        return put_mark(r, set->marks, f->start, f->end, e);
    if (r->mark_number && put_mark(r, r->mark_number, r->mark.start, f->start, e) != 0)
        return -1;
    r->mark = *f;
    r->mark_number = set->marks;
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

TAKE_EACH(add_location, struct table_records *r, source_location, l)
{
    bool fresh;
    uint64_t *number = map_add(&r->location_numbers, l->pointer, &fresh);
    if (number && fresh)
        *number = r->locations.len;
    if (!number || !vec_push(&r->locations, *l))
        return err_no_memory(e, "source locations");
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

TAKE_EACH(expand_location, struct table_records *r, id, pointer)
{
    const uint64_t *number = map_find(&r->location_numbers, pointer->id);
    int64_t id = (int64_t)r->expands.len;
    if (!vec_push(&r->expands, number != NULL))
        return err_no_memory(e, "source locations");
    return number ? put_location(r, id, &r->locations.at[*number], e) : 0;
}

TAKE_EACH(add_payload, struct table_records *r, source_location, l)
{
    return put_location(r, -(int64_t)++r->payloads, l, e);
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

TAKE_EACH(add_message, struct table_records *r, message, m)
{
    struct message_row row = {.id = (int64_t)++r->message_count,
                              .time = m->time,
                              .text = ref_number(r, &m->text),
                              .color = m->color,
                              .callstack = m->callstack,
                              .source = m->source,
                              .severity = m->severity};
    return join_add(r, m->key, JOIN_MESSAGE, &row, sizeof row, e);
}

TAKE_EACH(claim_message, struct table_records *r, id, key)
{
    return join_add(r, key->id, JOIN_CLAIM, &r->thread, sizeof r->thread, e);
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

TAKE_EACH(add_extra, struct table_records *r, zone_extra, x)
{
    if (zone_texts_add(&r->extras[EXTRA_TEXT], x->text, e) != 0 ||
        zone_texts_add(&r->extras[EXTRA_NAME], x->name, e) != 0 ||
        zone_texts_add(&r->extras[EXTRA_COLOR], x->color, e) != 0 ||
        zone_texts_add(&r->extras[EXTRA_CALLSTACK], x->callstack, e) != 0)
        return -1;
    return 0;
}

TAKE_EACH(begin_thread, struct table_records *r, thread, t)
{
    r->thread = t->id;
    return 0;
}

TAKE_EACH(begin_zone, struct table_records *r, zone_begin, z)
{
    return zone_walk_begin(&r->walk, z, e);
}

TAKE_EACH(end_zone, struct table_records *r, zone_end, end)
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

TAKE_EACH(put_plot, struct table_records *r, plot, p)
{
    struct cell cells[TABLE_PLOTS_WIDTH];
    cells[PLOT_ID] = cell_count(++r->plots);
    cells[PLOT_NAME] = table_text_cell(r, strings_at_pointer(&r->t->strings, p->name));
    cells[PLOT_TYPE] = cell_count(p->type);
    cells[PLOT_FORMAT] = cell_count(p->format);
    cells[PLOT_POINTS] = cell_count(p->n);
    return table_put_row(r, TABLE_OF_PLOTS, cells, e);
}

TAKE_EACH(put_point, struct table_records *r, plot_point, p)
{
    struct cell cells[TABLE_PLOT_POINTS_WIDTH];
    cells[POINT_PLOT] = cell_count(r->plots);
    cells[POINT_TIME] = cell_integer(p->time);
    cells[POINT_VALUE] = (struct cell){.null = !isfinite(p->value), .real = p->value};
    return table_put_row(r, TABLE_OF_PLOT_POINTS, cells, e);
}

/* ---- records */

#define ZONES TABLE_BIT(ZONES)
#define MARKS (TABLE_BIT(FRAME_SETS) | TABLE_BIT(FRAME_MARKS))
#define PLOTS (TABLE_BIT(PLOTS) | TABLE_BIT(PLOT_POINTS))
#define LOCATIONS                                                                                  \
    (TABLE_BIT(SOURCE_LOCATIONS) | ZONES | TABLE_BIT(GPU_ZONES) | TABLE_BIT(LOCKS) |               \
     TABLE_BIT(LOCK_EVENTS))

static const struct table_taker takers[REC_TYPE_COUNT] = {
    [REC_FRAME_SET] = {add_frame_set, MARKS},
    [REC_FRAME] = {add_mark, MARKS},
    [REC_SOURCE_LOCATION] = {add_location, LOCATIONS},
    [REC_SOURCE_LOCATION_EXPAND] = {expand_location, LOCATIONS},
    [REC_SOURCE_LOCATION_PAYLOAD] = {add_payload, LOCATIONS},
    [REC_MESSAGE] = {add_message, TABLE_BIT(MESSAGES)},
    [REC_ZONE_EXTRA] = {add_extra, ZONES},
    [REC_THREAD] = {begin_thread, ZONES | TABLE_BIT(MESSAGES) | TABLE_BIT(SAMPLES)},
    [REC_ZONE_BEGIN] = {begin_zone, ZONES},
    [REC_ZONE_END] = {end_zone, ZONES},
    [REC_THREAD_MESSAGE] = {claim_message, TABLE_BIT(MESSAGES)},
    [REC_PLOT] = {put_plot, PLOTS},
    [REC_PLOT_POINT] = {put_point, PLOTS},
};

void table_records_wanted(const struct table_sink *sink, bool wanted[REC_TYPE_COUNT])
{
    uint32_t tables = 0;
    for (unsigned i = 0; i < TABLE_COUNT; i++)
        tables |= (uint32_t)sink->wanted[i] << i;
    for (unsigned i = 0; i < REC_TYPE_COUNT; i++)
        wanted[i] = (takers[i].tables | table_list_takers[i].tables) & tables;
}

static int put_record(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    record_taker *take = takers[type].take ? takers[type].take : table_list_takers[type].take;
    return take ? take(ctx, recs, n, e) : 0;
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
