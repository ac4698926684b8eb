#include "trace/filter/convert.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "trace/store/spill.h"

/* Official readers have 1024 bytes for each text of the header ([R] @ v0.9.1 … v0.14.0). */
#define HEADER_TEXT_MAX 1023u

struct convert;
typedef int convert_put(struct convert *c, const void *recs, size_t n, struct err *e);

struct topology_record {
    enum record_type type;
    struct rec_topology_node node;
};

struct convert {
    struct record_sink next;
    const struct file_layout *from;
    const struct file_layout *to;
    convert_put *handlers[REC_TYPE_COUNT]; /* NULL: the record passes unchanged */
    uint64_t losses[CONVERT_LOSS_COUNT];
    /* topology: one package at a time */
    VEC(struct topology_record) package;
    /* lists to sort, and their records still to come */
    struct spill points, samples, sections;
    uint64_t points_left, samples_left;
    uint64_t section_count;
    /* GPU notes to add */
    bool in_gpu_context;
    /* source location "none" */
    uint64_t expands, payloads;
    bool add_location;    /* add a location for it */
    int16_t none_becomes; /* replacement; 0: there is none */
    VEC(struct rec_zone_stat) stats;
    VEC(struct rec_lock_event) lock_events;
};

static int pass(struct convert *c, enum record_type type, const void *rec, struct err *e)
{
    return record_put(&c->next, type, rec, 1, e);
}

static int pass_count(struct convert *c, enum record_type type, uint64_t n, struct err *e)
{
    struct rec_count count = {n};
    return pass(c, type, &count, e);
}

/* Counts; returns 0. */
static int lose(struct convert *c, enum convert_loss loss, uint64_t n)
{
    c->losses[loss] += n;
    return 0;
}

/* A handler of one expression. */
#define HANDLER(NAME, RESULT)                                                                      \
    static int NAME(struct convert *c, const void *recs, size_t n, struct err *e)                  \
    {                                                                                              \
        (void)c, (void)recs, (void)n, (void)e;                                                     \
        return RESULT;                                                                             \
    }

HANDLER(drop, 0)

/* ---- topology */

/*
 * From 0.11.2 on a package has dies: a source without dies gets one, number 0, around all its
 * cores.
 */
static int package_with_die(struct convert *c, const void *recs, size_t n, struct err *e)
{
    (void)n;
    const struct rec_topology_node *package = recs;
    struct rec_topology_node outer = {package->id, 1}, die = {0, package->n};
    return pass(c, REC_PACKAGE, &outer, e) != 0 ? -1 : pass(c, REC_DIE, &die, e);
}

/* In the other direction the cores of all dies are counted before the package is written. */
static int flush_package(struct convert *c, struct err *e)
{
    uint64_t cores = 0, dies = 0;
    for (size_t i = 0; i < c->package.len; i++) {
        dies += c->package.at[i].type == REC_DIE;
        cores += c->package.at[i].type == REC_CORE;
    }
    if (dies > 1)
        lose(c, LOSS_DIE, dies);
    for (size_t i = 0; i < c->package.len; i++) {
        struct topology_record *r = &c->package.at[i];
        if (r->type == REC_DIE)
            continue;
        if (r->type == REC_PACKAGE)
            r->node.n = cores;
        if (pass(c, r->type, &r->node, e) != 0)
            return -1;
    }
    c->package.len = 0;
    return 0;
}

static int keep_node(struct convert *c, enum record_type type, const void *recs, size_t n,
                     struct err *e)
{
    const struct rec_topology_node *nodes = recs;
    for (size_t i = 0; i < n; i++) {
        if (!vec_push(&c->package, (struct topology_record){type, nodes[i]}))
            return err_no_memory(e, "the processor topology");
    }
    return 0;
}

HANDLER(package_without_dies, flush_package(c, e) != 0 ? -1 : keep_node(c, REC_PACKAGE, recs, n, e))
HANDLER(keep_die, keep_node(c, REC_DIE, recs, n, e))
HANDLER(keep_core, keep_node(c, REC_CORE, recs, n, e))
HANDLER(keep_cpu, keep_node(c, REC_CPU, recs, n, e))
HANDLER(crash_after_packages, flush_package(c, e) != 0 ? -1 : pass(c, REC_CRASH, recs, e))

/* ---- sections */

HANDLER(lose_sections, lose(c, LOSS_SECTION, n))

static int lose_categories(struct convert *c, const void *recs, size_t n, struct err *e)
{
    (void)e;
    const struct rec_section_category *r = recs;
    for (size_t i = 0; i < n; i++) {
        if (r[i].description != 0)
            lose(c, LOSS_SECTION_CATEGORY, 1);
    }
    return 0;
}

static int strings_after_no_sections(struct convert *c, const void *recs, size_t n, struct err *e)
{
    (void)n;
    int status = 0;
    if (c->to->sections == SECTIONS_FLAT) {
        struct rec_section_list list = {0, 0};
        status = pass(c, REC_SECTION_LIST, &list, e);
    } else if (pass_count(c, REC_SECTION_LISTS, 0, e) != 0 ||
               pass_count(c, REC_SECTION_CATEGORIES, 0, e) != 0) {
        status = -1;
    }
    return status != 0 ? -1 : pass(c, REC_STRINGS, recs, e);
}

/* 0.13.4 has one list: it becomes that of category 0, as in the reader of 0.14.0. */
HANDLER(list_of_category,
        pass_count(c, REC_SECTION_LISTS, 1, e) != 0 ? -1 : pass(c, REC_SECTION_LIST, recs, e))

static int strings_after_list(struct convert *c, const void *recs, size_t n, struct err *e)
{
    (void)n;
    struct rec_section_category category = {0, 0};
    if (pass_count(c, REC_SECTION_CATEGORIES, 1, e) != 0 ||
        pass(c, REC_SECTION_CATEGORY, &category, e) != 0)
        return -1;
    return pass(c, REC_STRINGS, recs, e);
}

static int keep_sections(struct convert *c, const void *recs, size_t n, struct err *e)
{
    c->section_count += n;
    return spill_add(&c->sections, recs, n, e);
}

static int put_section(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct convert *c = ctx;
    return record_put(&c->next, REC_SECTION, recs, n, e);
}

static int merged_list(struct convert *c, const void *recs, size_t n, struct err *e)
{
    (void)recs, (void)n;
    struct rec_section_list list = {0, c->section_count};
    if (pass(c, REC_SECTION_LIST, &list, e) != 0)
        return -1;
    return spill_drain(&c->sections, put_section, c, e);
}

/* ---- lists to sort */

static int put_point(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct convert *c = ctx;
    return record_put(&c->next, REC_PLOT_POINT, recs, n, e);
}

static int sort_points(struct convert *c, const void *recs, size_t n, struct err *e)
{
    if (spill_add(&c->points, recs, n, e) != 0)
        return -1;
    c->points_left -= n;
    return c->points_left > 0 ? 0 : spill_drain(&c->points, put_point, c, e);
}

static int put_sample(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct convert *c = ctx;
    return record_put(&c->next, REC_SWITCH_SAMPLE, recs, n, e);
}

static int sort_samples(struct convert *c, const void *recs, size_t n, struct err *e)
{
    if (spill_add(&c->samples, recs, n, e) != 0)
        return -1;
    c->samples_left -= n;
    return c->samples_left > 0 ? 0 : spill_drain(&c->samples, put_sample, c, e);
}

static int switch_samples(struct convert *c, const void *recs, size_t n, struct err *e)
{
    (void)n;
    c->samples_left = ((const struct rec_count *)recs)->n;
    return pass(c, REC_SWITCH_SAMPLES, recs, e);
}

/* ---- plots */

static int convert_plot(struct convert *c, const void *recs, size_t n, struct err *e)
{
    (void)n;
    struct rec_plot plot = *(const struct rec_plot *)recs;
    c->points_left = plot.n;
    if (plot.type > c->to->plot_type_max) {
        plot.type = 0;
        lose(c, LOSS_PLOT_TYPE, 1);
    }
    if (plot.format > c->to->plot_format_max) {
        plot.format = 0;
        lose(c, LOSS_PLOT_FORMAT, 1);
    }
    return pass(c, REC_PLOT, &plot, e);
}

/* ---- single fields */

static int lose_message_meta(struct convert *c, const void *recs, size_t n, struct err *e)
{
    const struct rec_message *r = recs;
    for (size_t i = 0; i < n; i++) {
        lose(c, LOSS_MESSAGE_SOURCE, r[i].source != 0);
        lose(c, LOSS_MESSAGE_SEVERITY, r[i].severity != 2);
    }
    return record_put(&c->next, REC_MESSAGE, recs, n, e);
}

static int lose_group_hint(struct convert *c, const void *recs, size_t n, struct err *e)
{
    (void)n;
    lose(c, LOSS_GROUP_HINT, ((const struct rec_thread *)recs)->group_hint != 0);
    return pass(c, REC_THREAD, recs, e);
}

static int lose_wakeup_cpu(struct convert *c, const void *recs, size_t n, struct err *e)
{
    const struct rec_context_switch *r = recs;
    for (size_t i = 0; i < n; i++)
        lose(c, LOSS_WAKEUP_CPU, r[i].wakeup_cpu != r[i].cpu);
    return record_put(&c->next, REC_CONTEXT_SWITCH, recs, n, e);
}

/* ---- GPU */

/* A context without note queries gets its empty list when the next context or the plots arrive. */
static int finish_gpu_context(struct convert *c, struct err *e)
{
    if (!c->in_gpu_context)
        return 0;
    c->in_gpu_context = false;
    return pass_count(c, REC_GPU_NOTE_QUERIES, 0, e);
}

static int convert_gpu_context(struct convert *c, const void *recs, size_t n, struct err *e)
{
    (void)n;
    struct rec_gpu_context context = *(const struct rec_gpu_context *)recs;
    if (context.type > c->to->gpu_type_max) {
        context.type = 0;
        lose(c, LOSS_GPU_TYPE, 1);
    }
    if (finish_gpu_context(c, e) != 0 || pass(c, REC_GPU_CONTEXT, &context, e) != 0)
        return -1;
    if (!c->to->gpu_notes || c->from->gpu_notes)
        return 0;
    c->in_gpu_context = true;
    return pass_count(c, REC_GPU_NOTE_NAMES, 0, e);
}

HANDLER(plots_after_gpu, finish_gpu_context(c, e) != 0 ? -1 : pass(c, REC_PLOTS, recs, e))
HANDLER(lose_note_names, lose(c, LOSS_GPU_NOTE_NAME, n))
HANDLER(lose_notes, lose(c, LOSS_GPU_NOTE, n))

static int lose_query_ids(struct convert *c, const void *recs, size_t n, struct err *e)
{
    const struct rec_gpu_zone_end *r = recs;
    for (size_t i = 0; i < n; i++)
        lose(c, LOSS_GPU_QUERY, r[i].query_id != 0);
    return record_put(&c->next, REC_GPU_ZONE_END, recs, n, e);
}

/* ---- source location "none" (32767), which releases up to 0.11.1 use as an index */

/*
 * The replacement of a source location: -1 with `e` when it is "none" and the trace has no other.
 */
static int some_location(struct convert *c, int16_t *srcloc, struct err *e)
{
    if (*srcloc != SOURCE_LOCATION_NONE || c->expands > SOURCE_LOCATION_NONE)
        return 0;
    char version[FILE_VERSION_TEXT_SIZE];
    if (c->none_becomes == 0)
        return err_set(e, ERR_INPUT,
                       "the trace has zones without a source location and no location that could "
                       "stand for it; version %s cannot hold that",
                       file_version_text(c->to->version, version));
    *srcloc = c->none_becomes;
    lose(c, LOSS_NO_LOCATION, 1);
    return 0;
}

static int count_expands(struct convert *c, const void *recs, size_t n, struct err *e)
{
    (void)n;
    c->expands = ((const struct rec_count *)recs)->n;
    return pass(c, REC_SOURCE_LOCATION_EXPANDS, recs, e);
}

/*
 * Official captures use 32767 only when their table of locations is full
 * (`NewShrinkedSourceLocation` @ v0.12.2). It is then replaced by an empty allocated location, or
 * else by any existing one.
 */
static int count_payloads(struct convert *c, const void *recs, size_t n, struct err *e)
{
    (void)n;
    c->payloads = ((const struct rec_count *)recs)->n;
    c->add_location = c->expands >= SOURCE_LOCATION_NONE - 1 &&
                      c->expands <= SOURCE_LOCATION_NONE && c->payloads < INT16_MAX;
    if (c->add_location)
        c->none_becomes = (int16_t)(-(int64_t)c->payloads - 1);
    else if (c->payloads > 0)
        c->none_becomes = -1;
    else
        c->none_becomes = c->expands > 1;
    return pass_count(c, REC_SOURCE_LOCATION_PAYLOADS, c->payloads + c->add_location, e);
}

static int stats_after_payloads(struct convert *c, const void *recs, size_t n, struct err *e)
{
    (void)recs;
    (void)n;
    struct rec_source_location added = {0};
    return c->add_location ? pass(c, REC_SOURCE_LOCATION_PAYLOAD, &added, e) : 0;
}

static int gather_stats(struct convert *c, const void *recs, size_t n, struct err *e)
{
    const struct rec_zone_stat *r = recs;
    for (size_t i = 0; i < n; i++) {
        if (!vec_push(&c->stats, r[i]))
            return err_no_memory(e, "zone statistics");
    }
    return 0;
}

/* Writes the collected list with the replacement for "none", each location once. */
static int flush_stats(struct convert *c, enum record_type counts, enum record_type type, bool all,
                       struct err *e)
{
    bool listed = false;
    size_t kept = 0;
    for (size_t i = 0; i < c->stats.len; i++)
        listed |= c->stats.at[i].srcloc == c->none_becomes;
    for (size_t i = 0; i < c->stats.len; i++) {
        struct rec_zone_stat stat = c->stats.at[i];
        if (stat.srcloc == SOURCE_LOCATION_NONE && c->expands <= SOURCE_LOCATION_NONE) {
            if (listed || c->none_becomes == 0)
                continue;
            stat.srcloc = c->none_becomes;
            listed = true;
        }
        c->stats.at[kept++] = stat;
    }
    c->stats.len = kept;
    if (all && c->add_location && !listed &&
        !vec_push(&c->stats, (struct rec_zone_stat){c->none_becomes, 0}))
        return err_no_memory(e, "zone statistics");
    if (pass_count(c, counts, c->stats.len, e) != 0)
        return -1;
    size_t n = c->stats.len;
    c->stats.len = 0;
    return n > 0 ? record_put(&c->next, type, c->stats.at, n, e) : 0;
}

HANDLER(gpu_stats_after_stats, flush_stats(c, REC_ZONE_STATS, REC_ZONE_STAT, true, e))
HANDLER(locks_after_stats, flush_stats(c, REC_GPU_ZONE_STATS, REC_GPU_ZONE_STAT, false, e) != 0
                               ? -1
                               : pass(c, REC_LOCKS, recs, e))

static int located_lock(struct convert *c, const void *recs, size_t n, struct err *e)
{
    (void)n;
    struct rec_lock lock = *(const struct rec_lock *)recs;
    return some_location(c, &lock.srcloc, e) != 0 ? -1 : pass(c, REC_LOCK, &lock, e);
}

static int located_lock_events(struct convert *c, const void *recs, size_t n, struct err *e)
{
    if (!vec_reserve(&c->lock_events, n))
        return err_no_memory(e, "lock events");
    memcpy(c->lock_events.at, recs, n * sizeof *c->lock_events.at);
    for (size_t i = 0; i < n; i++) {
        if (some_location(c, &c->lock_events.at[i].srcloc, e) != 0)
            return -1;
    }
    return record_put(&c->next, REC_LOCK_EVENT, c->lock_events.at, n, e);
}

static int located_zone(struct convert *c, const void *recs, size_t n, struct err *e)
{
    (void)n;
    struct rec_zone_begin zone = *(const struct rec_zone_begin *)recs;
    return some_location(c, &zone.srcloc, e) != 0 ? -1 : pass(c, REC_ZONE_BEGIN, &zone, e);
}

static int located_gpu_zone(struct convert *c, const void *recs, size_t n, struct err *e)
{
    (void)n;
    struct rec_gpu_zone_begin zone = *(const struct rec_gpu_zone_begin *)recs;
    return some_location(c, &zone.srcloc, e) != 0 ? -1 : pass(c, REC_GPU_ZONE_BEGIN, &zone, e);
}

/* ---- choosing what to do */

static void choose_topology(struct convert *c)
{
    if (!c->from->dies && c->to->dies)
        c->handlers[REC_PACKAGE] = package_with_die;
    if (c->from->dies && !c->to->dies) {
        c->handlers[REC_PACKAGE] = package_without_dies;
        c->handlers[REC_DIE] = keep_die;
        c->handlers[REC_CORE] = keep_core;
        c->handlers[REC_CPU] = keep_cpu;
        c->handlers[REC_CRASH] = crash_after_packages;
    }
}

static void choose_sections(struct convert *c)
{
    if (c->from->sections == c->to->sections)
        return;
    if (c->from->sections == SECTIONS_NONE) {
        c->handlers[REC_STRINGS] = strings_after_no_sections;
    } else if (c->from->sections == SECTIONS_FLAT && c->to->sections == SECTIONS_BY_CATEGORY) {
        c->handlers[REC_SECTION_LIST] = list_of_category;
        c->handlers[REC_STRINGS] = strings_after_list;
    } else {
        bool flat = c->to->sections == SECTIONS_FLAT;
        c->handlers[REC_SECTION_LISTS] = drop;
        c->handlers[REC_SECTION_LIST] = drop;
        c->handlers[REC_SECTION] = flat ? keep_sections : lose_sections;
        c->handlers[REC_SECTION_CATEGORIES] = flat ? merged_list : drop;
        c->handlers[REC_SECTION_CATEGORY] = lose_categories;
    }
}

static void choose_locations(struct convert *c)
{
    if (!c->from->no_location || c->to->no_location)
        return;
    c->handlers[REC_SOURCE_LOCATION_EXPANDS] = count_expands;
    c->handlers[REC_SOURCE_LOCATION_PAYLOADS] = count_payloads;
    c->handlers[REC_ZONE_STATS] = stats_after_payloads;
    c->handlers[REC_ZONE_STAT] = gather_stats;
    c->handlers[REC_GPU_ZONE_STATS] = gpu_stats_after_stats;
    c->handlers[REC_GPU_ZONE_STAT] = gather_stats;
    c->handlers[REC_LOCKS] = locks_after_stats;
    c->handlers[REC_LOCK] = located_lock;
    c->handlers[REC_LOCK_EVENT] = located_lock_events;
    c->handlers[REC_ZONE_BEGIN] = located_zone;
    c->handlers[REC_GPU_ZONE_BEGIN] = located_gpu_zone;
}

static void choose_gpu(struct convert *c)
{
    c->handlers[REC_GPU_CONTEXT] = convert_gpu_context;
    if (!c->from->gpu_notes && c->to->gpu_notes)
        c->handlers[REC_PLOTS] = plots_after_gpu;
    if (c->from->gpu_notes && !c->to->gpu_notes) {
        c->handlers[REC_GPU_NOTE_NAMES] = drop;
        c->handlers[REC_GPU_NOTE_NAME] = lose_note_names;
        c->handlers[REC_GPU_ZONE_END] = lose_query_ids;
        c->handlers[REC_GPU_NOTE_QUERIES] = drop;
        c->handlers[REC_GPU_NOTE_QUERY] = drop;
        c->handlers[REC_GPU_NOTE] = lose_notes;
    }
}

static void choose(struct convert *c)
{
    choose_topology(c);
    choose_sections(c);
    choose_locations(c);
    choose_gpu(c);
    c->handlers[REC_PLOT] = convert_plot;
    if (!c->from->sorted_plots && c->to->sorted_plots)
        c->handlers[REC_PLOT_POINT] = sort_points;
    if (!c->from->sorted_switches && c->to->sorted_switches) {
        c->handlers[REC_SWITCH_SAMPLES] = switch_samples;
        c->handlers[REC_SWITCH_SAMPLE] = sort_samples;
    }
    if (c->from->message_meta && !c->to->message_meta)
        c->handlers[REC_MESSAGE] = lose_message_meta;
    if (c->from->group_hint && !c->to->group_hint)
        c->handlers[REC_THREAD] = lose_group_hint;
    if (c->from->wakeup_cpu && !c->to->wakeup_cpu)
        c->handlers[REC_CONTEXT_SWITCH] = lose_wakeup_cpu;
}

/* ---- header */

/* Truncates a text to the limit of official readers, not inside a UTF-8 character. */
static void cut_text(struct convert *c, struct view *text)
{
    if (text->len <= HEADER_TEXT_MAX)
        return;
    size_t len = HEADER_TEXT_MAX;
    while (len > HEADER_TEXT_MAX - 3 && ((unsigned char)text->p[len] & 0xc0) == 0x80)
        len--;
    text->len = len;
    lose(c, LOSS_HEADER_TEXT, 1);
}

static int convert_header(struct convert *c, const void *recs, struct err *e)
{
    struct rec_header header = *(const struct rec_header *)recs;
    c->from = file_layout_find(header.version);
    if (!c->from)
        return err_set(e, ERR_INPUT, "internal error: unknown file version %#x to convert",
                       header.version);
    if (!c->to)
        c->to = c->from;
    if (c->from != c->to)
        choose(c);
    if (c->from->delay && !c->to->delay)
        lose(c, LOSS_DELAY, header.delay != 0);
    if (!c->to->on_demand)
        lose(c, LOSS_ON_DEMAND, (header.on_demand != 0) != (header.frame_offset != 0));
    cut_text(c, &header.capture_name);
    cut_text(c, &header.capture_program);
    cut_text(c, &header.host_info);
    header.version = c->to->version;
    return pass(c, REC_HEADER, &header, e);
}

/* ---- interface */

static int convert_put_records(void *ctx, enum record_type type, const void *recs, size_t n,
                               struct err *e)
{
    struct convert *c = ctx;
    if (type == REC_HEADER)
        return convert_header(c, recs, e);
    convert_put *handler = c->handlers[type];
    return handler ? handler(c, recs, n, e) : record_put(&c->next, type, recs, n, e);
}

int convert_open(struct convert **out, const struct record_sink *next,
                 const struct convert_options *options, struct err *e)
{
    struct convert *c = calloc(1, sizeof *c);
    *out = c;
    if (!c)
        return err_no_memory(e, "conversion");
    c->next = *next;
    c->to = options->target;
    spill_init(&c->points, sizeof(struct rec_plot_point), options->spill_records,
               options->spill_dir);
    spill_init(&c->samples, sizeof(struct rec_sample), options->spill_records, options->spill_dir);
    spill_init(&c->sections, sizeof(struct rec_section), options->spill_records,
               options->spill_dir);
    return 0;
}

void convert_free(struct convert *c)
{
    if (!c)
        return;
    spill_release(&c->points);
    spill_release(&c->samples);
    spill_release(&c->sections);
    vec_release(&c->package);
    vec_release(&c->stats);
    vec_release(&c->lock_events);
    free(c);
}

struct record_sink convert_sink(struct convert *c)
{
    return (struct record_sink){.ctx = c, .put = convert_put_records};
}

uint64_t convert_loss(const struct convert *c, enum convert_loss loss)
{
    return c->losses[loss];
}

void convert_losses(const struct convert *c, struct buf *out)
{
    static const char *const texts[CONVERT_LOSS_COUNT][2] = {
#define LOSS(NAME, ONE, SEVERAL) [LOSS_##NAME] = {ONE, SEVERAL},
        CONVERT_LOSSES(LOSS)
#undef LOSS
    };
    const char *comma = "";
    for (unsigned i = 0; i < CONVERT_LOSS_COUNT; i++) {
        if (c->losses[i] == 0)
            continue;
        buf_printf(out, "%s%llu %s", comma, (unsigned long long)c->losses[i],
                   texts[i][c->losses[i] > 1]);
        comma = ", ";
    }
}
