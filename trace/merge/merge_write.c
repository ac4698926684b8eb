/*
 * The second reading. All inputs wait before the same list. The merge puts the list's head with the
 * sum of their counts, then one input after the other puts its elements.
 */

#include <inttypes.h>
#include <string.h>

#include "trace/merge/merge_internal.h"

/*
 * Official readers accept header texts of up to 1023 bytes; trace/filter/convert.h truncates longer
 * ones.
 */
#define MERGED_PROGRAM " (merged)"
#define PROGRAM_MAX (1023 - (sizeof MERGED_PROGRAM - 1))

/* How a list is assembled. */
enum manner {
    NO_ROOT = 0, /* not the start of a list */
    APPENDED,    /* counts are added up, elements are concatenated */
    TABLE,       /* merge_lists.c puts the whole list */
    SPECIAL
};

static const uint8_t manners[REC_TYPE_COUNT] = {
    [REC_HEADER] = SPECIAL,
    [REC_PACKAGES] = SPECIAL,
    [REC_CRASH] = TABLE,
    [REC_FRAME_SETS] = APPENDED,
    [REC_SECTION_LISTS] = APPENDED,
    [REC_SECTION_CATEGORIES] = APPENDED,
    [REC_STRINGS] = TABLE,
    [REC_STRING_POINTERS] = TABLE,
    [REC_THREAD_NAMES] = TABLE,
    [REC_EXTERNAL_NAMES] = TABLE,
    [REC_LOCAL_THREADS] = TABLE,
    [REC_EXTERNAL_THREADS] = TABLE,
    [REC_SOURCE_LOCATIONS] = TABLE,
    [REC_SOURCE_LOCATION_EXPANDS] = TABLE,
    [REC_SOURCE_LOCATION_PAYLOADS] = TABLE,
    [REC_ZONE_STATS] = SPECIAL,
    [REC_GPU_ZONE_STATS] = SPECIAL,
    [REC_LOCKS] = APPENDED,
    [REC_MESSAGES] = APPENDED,
    [REC_ZONE_EXTRAS] = SPECIAL,
    [REC_THREADS] = SPECIAL,
    [REC_GPU_CONTEXTS] = SPECIAL,
    [REC_PLOTS] = APPENDED,
    [REC_POOLS] = SPECIAL,
    [REC_CALLSTACKS] = APPENDED,
    [REC_CALLSTACK_FRAMES] = APPENDED,
    [REC_APP_INFOS] = TABLE,
    [REC_FRAME_IMAGE_DICT] = SPECIAL,
    [REC_FRAME_IMAGES] = SPECIAL,
    [REC_CONTEXT_SWITCH_THREADS] = APPENDED,
    [REC_CPU_SWITCH_LISTS] = APPENDED,
    [REC_CPU_SWITCH_LIST] = APPENDED,
    [REC_TID_TO_PIDS] = APPENDED,
    [REC_CPU_THREADS] = APPENDED,
    [REC_SYMBOLS] = SPECIAL,
    [REC_SYMBOL_CODES] = APPENDED,
    [REC_CODE_SYMBOLS] = APPENDED,
    [REC_HW_SAMPLES] = APPENDED,
    [REC_SOURCE_FILES] = SPECIAL,
};

/* ---- the inputs */

static int input_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct merge_input *in = ctx;
    /* Images of several inputs alternate (merge_put_images). */
    if (type == REC_FRAME_IMAGE && in->m->images.len > 0) {
        in->at = type;
        return step_wait(&in->step, e) != 0 ? -1 : merge_put_records(in, type, recs, n, e);
    }
    if (manners[type] == NO_ROOT)
        return merge_put_records(in, type, recs, n, e);
    in->at = type;
    in->rec = recs;
    return step_wait(&in->step, e);
}

static int input_run(void *ctx, struct step *step, struct err *e)
{
    struct merge_input *in = ctx;
    struct merge *m = in->m;
    (void)step;
    struct record_sink sink = convert_sink(in->convert);
    int status = m->source->read(m->source->ctx, in->number, 1, &sink, NULL, &in->info, e);
    in->at = REC_TYPE_COUNT;
    return status;
}

/* From here on all inputs have the newest version's layout. */
static int open_input(struct merge_input *in, struct err *e)
{
    const struct merge_options *o = in->m->options;
    const struct record_sink sink = {in, input_put};
    const struct convert_options options = {.target = file_layout_find(FILE_VERSION_MAX),
                                            .spill_dir = o->spill_dir,
                                            .spill_records = o->spill_records};
    if (convert_open(&in->convert, &sink, &options, e) != 0)
        return -1;
    in->step = (struct step){.ctx = in, .run = input_run};
    return step_start(&in->step, e) != 0 ? -1 : step_on(&in->step, e);
}

/* ---- heads of lists */

static uint64_t count_of(const struct merge_input *in)
{
    return ((const struct rec_count *)in->rec)->n;
}

static uint64_t sum_counts(const struct merge *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->n; i++)
        n += count_of(m->order[i]);
    return n;
}

static int put_header(struct merge *m, struct err *e)
{
    struct rec_header h = *(const struct rec_header *)m->order[0]->rec;
    const struct rec_header *base = m->base->rec;
    struct buf program = {0};
    h.on_demand = base->on_demand;
    h.frame_offset = base->frame_offset;
    for (size_t i = 0; i < m->n; i++) {
        const struct merge_input *in = m->order[i];
        const struct rec_header *other = in->rec;
        if (other->last_time + in->shift > h.last_time)
            h.last_time = other->last_time + in->shift;
        if (h.sampling_period == 0)
            h.sampling_period = other->sampling_period;
    }
    if (m->n > 1) {
        size_t len = h.capture_program.len < PROGRAM_MAX ? h.capture_program.len : PROGRAM_MAX;
        buf_put(&program, h.capture_program.p, len);
        buf_puts(&program, MERGED_PROGRAM);
        h.capture_program = (struct view){(const char *)program.data, program.len};
    }
    int status =
        program.failed ? err_no_memory(e, "the header") : record_put(&m->out, REC_HEADER, &h, 1, e);
    buf_release(&program);
    return status;
}

/* CPUs of different traces have the same numbers: the first trace that has topology provides it. */
static int put_packages(struct merge *m, struct err *e)
{
    const struct merge_input *from = m->order[0];
    for (size_t i = m->n; i-- > 0;) {
        if (count_of(m->order[i]) > 0)
            from = m->order[i];
    }
    for (size_t i = 0; i < m->n; i++)
        m->order[i]->drop = m->order[i] != from;
    return merge_put_count(m, REC_PACKAGES, count_of(from), e);
}

static int put_extras(struct merge *m, struct err *e)
{
    struct rec_zone_extra none = {0};
    uint64_t n = 1;
    for (size_t i = 0; i < m->n; i++)
        n += m->order[i]->extras > 0 ? m->order[i]->extras - 1 : 0;
    if (merge_put_count(m, REC_ZONE_EXTRAS, n, e) != 0)
        return -1;
    return m->order[0]->extras > 0 ? 0 : record_put(&m->out, REC_ZONE_EXTRA, &none, 1, e);
}

static int put_totals(struct merge *m, enum record_type type, struct err *e)
{
    struct rec_threads sum = {0};
    for (size_t i = 0; i < m->n; i++) {
        const struct rec_threads *r = m->order[i]->rec;
        sum.zones += r->zones;
        sum.child_lists += r->child_lists;
        sum.n += r->n;
    }
    *(type == REC_THREADS ? &m->outcome->zones : &m->outcome->gpu_zones) = sum.zones;
    return record_put(&m->out, type, &sum, 1, e);
}

static int put_symbols(struct merge *m, struct err *e)
{
    struct rec_symbols sum = {0};
    for (size_t i = 0; i < m->n; i++) {
        const struct rec_symbols *r = m->order[i]->rec;
        sum.regular += r->regular;
        sum.inlined += r->inlined;
        sum.n += r->n;
    }
    return record_put(&m->out, REC_SYMBOLS, &sum, 1, e);
}

static int put_images(struct merge *m, struct err *e)
{
    if (m->images.len > 0)
        return merge_put_images(m, e);
    for (size_t i = 0; i < m->n; i++)
        m->order[i]->drop = m->order[i] != m->base;
    return merge_put_count(m, REC_FRAME_IMAGES, count_of(m->base), e);
}

static int put_special(struct merge *m, enum record_type type, struct err *e)
{
    bool done;
    switch (type) {
    case REC_HEADER:
        return put_header(m, e);
    case REC_PACKAGES:
        return put_packages(m, e);
    case REC_ZONE_EXTRAS:
        return put_extras(m, e);
    case REC_THREADS:
    case REC_GPU_CONTEXTS:
        return put_totals(m, type, e);
    case REC_SYMBOLS:
        return put_symbols(m, e);
    case REC_FRAME_IMAGE_DICT:
        return record_put(&m->out, type, m->base->rec, 1, e);
    case REC_FRAME_IMAGES:
        return put_images(m, e);
    case REC_POOLS:
    case REC_SOURCE_FILES:
        return merge_put_table(m, type, &done, e);
    default:
        return 0; /* zone statistics are written once, at the end */
    }
}

/*
 * The second reading uses numbers of the first as indices: tables must have the same length, even
 * if another process writes to an input meanwhile.
 */
static int check_unchanged(const struct merge_input *in, enum record_type type, struct err *e)
{
    const struct {
        enum record_type type;
        uint64_t n;
    } lengths[] = {{REC_STRINGS, in->strings.len},
                   {REC_LOCAL_THREADS, in->local_threads.len},
                   {REC_EXTERNAL_THREADS, in->external_threads.len},
                   {REC_SOURCE_LOCATION_EXPANDS, in->expands.len},
                   {REC_SOURCE_LOCATION_PAYLOADS, in->payloads.len},
                   {REC_ZONE_EXTRAS, in->extras},
                   {REC_CALLSTACKS, in->callstacks},
                   {REC_FRAME_IMAGES, in->images}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        if (lengths[i].type == type && lengths[i].n != count_of(in))
            return err_set(e, ERR_INPUT, "%s changed while it was read", in->name);
    }
    return 0;
}

static int put_head(struct merge *m, enum record_type type, struct err *e)
{
    bool done;
    for (size_t i = 0; i < m->n; i++) {
        if (check_unchanged(m->order[i], type, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < m->n; i++)
        m->order[i]->drop = manners[type] == TABLE;
    if (type == REC_MESSAGES)
        m->outcome->messages = sum_counts(m);
    if (manners[type] == APPENDED)
        return merge_put_count(m, type, sum_counts(m), e);
    if (manners[type] == TABLE)
        return merge_put_table(m, type, &done, e);
    return put_special(m, type, e);
}

/* ---- ends of lists */

static int put_message(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct merge *m = ctx;
    const struct merge_timed_message *r = recs;
    for (size_t i = 0; i < n; i++) {
        if (record_put(&m->out, REC_MESSAGE, &r[i].message, 1, e) != 0)
            return -1;
    }
    return 0;
}

static int put_switch(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct merge *m = ctx;
    return record_put(&m->out, REC_CPU_SWITCH, recs, n, e);
}

static int put_stats(struct merge *m, enum record_type type, struct err *e)
{
    enum record_type each = type == REC_ZONE_STATS ? REC_ZONE_STAT : REC_GPU_ZONE_STAT;
    size_t n = m->stats.len;
    m->stats.len = 0;
    map_release(&m->stats_at);
    if (merge_put_count(m, type, n, e) != 0)
        return -1;
    return n > 0 ? record_put(&m->out, each, m->stats.at, n, e) : 0;
}

static int put_tail(struct merge *m, enum record_type type, struct err *e)
{
    switch (type) {
    case REC_ZONE_STATS:
    case REC_GPU_ZONE_STATS:
        return put_stats(m, type, e);
    case REC_MESSAGES:
        return m->n > 1 ? spill_drain(&m->messages, put_message, m, e) : 0;
    case REC_CPU_SWITCH_LIST:
        return m->n > 1 ? spill_drain(&m->switches, put_switch, m, e) : 0;
    default:
        return 0;
    }
}

/* ---- all lists */

static int go_on(struct merge *m, enum record_type type, struct err *e)
{
    /* The base set must come first. */
    if (type == REC_FRAME_SETS && step_on(&m->base->step, e) != 0)
        return -1;
    for (size_t i = 0; i < m->n; i++) {
        if (type == REC_FRAME_SETS && m->order[i] == m->base)
            continue;
        if (type == REC_FRAME_IMAGES && m->images.len > 0)
            continue; /* already done */
        if (step_on(&m->order[i]->step, e) != 0)
            return -1;
    }
    return put_tail(m, type, e);
}

static int put_lists(struct merge *m, struct err *e)
{
    for (;;) {
        enum record_type type = m->order[0]->at;
        for (size_t i = 0; i < m->n; i++) {
            if (m->order[i]->at != type)
                return err_set(e, ERR_INPUT, "internal error: %s is not in step",
                               m->order[i]->name);
        }
        if (type == REC_TYPE_COUNT)
            return 0;
        if (put_head(m, type, e) != 0 || go_on(m, type, e) != 0)
            return -1;
    }
}

int merge_write(struct merge *m, struct trace_writer *writer, struct err *e)
{
    const struct record_sink to_writer = trace_writer_sink(writer);
    const struct merge_options *o = m->options;
    const struct convert_options options = {
        .target = m->outcome->layout, .spill_dir = o->spill_dir, .spill_records = o->spill_records};
    if (convert_open(&m->convert, &to_writer, &options, e) != 0)
        return -1;
    m->out = convert_sink(m->convert);
    int status = 0;
    for (size_t i = 0; i < m->n && status == 0; i++)
        status = open_input(m->order[i], e);
    if (status == 0)
        status = put_lists(m, e);
    for (size_t i = 0; i < m->n; i++)
        step_end(&m->order[i]->step);
    convert_losses(m->convert, &m->outcome->losses);
    if (status == 0 && m->outcome->losses.failed)
        status = err_no_memory(e, "what the version cannot hold");
    return status;
}
