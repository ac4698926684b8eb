#include "trace/filter/range.h"

#include <stdlib.h>
#include <string.h>

#include "trace/filter/range_lists.h"

/* Data kept between the passes that stays in memory before it goes to disk. */
#define SPOOL_BUDGET ((size_t)8 << 20)

/* ---- what is in the range */

#define AS(STRUCT) ((const struct rec_##STRUCT *)rec)

static bool keep(const struct range *r, enum record_type type, const void *rec)
{
    switch (type) {
    case REC_SECTION:
        return range_overlaps(r, AS(section)->start, AS(section)->end);
    case REC_LOCK_EVENT:
        return AS(lock_event)->time < r->options.end;
    case REC_MESSAGE:
        return range_has(r, AS(message)->time);
    case REC_THREAD_MESSAGE:
        return map_find(&r->messages, AS(id)->id) != NULL;
    case REC_SWITCH_SAMPLE:
    case REC_SAMPLE:
        return range_has(r, AS(sample)->time);
    case REC_MEMORY_EVENT:
        return range_keeps_block(r, rec);
    case REC_CONTEXT_SWITCH: {
        const struct rec_context_switch *s = rec;
        return range_overlaps(r, s->wakeup < s->start ? s->wakeup : s->start, s->end);
    }
    case REC_CPU_SWITCH:
        return range_overlaps(r, AS(cpu_switch)->start, AS(cpu_switch)->end);
    case REC_HW_SAMPLE_TIME:
        return range_has(r, AS(time)->time);
    default:
        return true;
    }
}

#undef AS

/* ---- both passes */

/* Puts the kept records, in the longest possible runs. */
static int put_kept(struct range *r, enum record_type type, const void *recs, size_t n,
                    struct err *e)
{
    const uint8_t *p = recs;
    size_t size = record_size(type);
    for (size_t i = 0; i < n;) {
        size_t from = i;
        while (i < n && keep(r, type, p + i * size))
            i++;
        if (i > from && record_put(&r->next, type, p + from * size, i - from, e) != 0)
            return -1;
        while (i < n && !keep(r, type, p + i * size))
            i++;
    }
    return 0;
}

static int pass_count(struct range *r, enum record_type type, uint64_t n, struct err *e)
{
    struct rec_count count = {n};
    return record_put(&r->next, type, &count, 1, e);
}

/* ---- zones, first pass */

static bool gpu_starts(const struct range *r, const struct rec_gpu_zone_begin *z)
{
    return range_has(r, z->cpu_start) || range_has(r, z->gpu_start);
}

/*
 * Counts a zone's begin. Whether the zone overlaps the range is known only at its end; until then
 * range_zones keeps `in_range`.
 */
static int count_zone(struct range *r, const struct rec_zone_begin *z, struct err *e)
{
    r->depth++;
    return range_zones_begin(&r->zones, z->srcloc, z->n, range_has(r, z->start),
                             z->start < r->options.end, e);
}

static int count_zone_end(struct range *r, const struct rec_zone_end *z, struct err *e)
{
    bool kept;
    if (r->zones.open.len > 0) {
        struct open_zone *open = &r->zones.open.at[r->zones.open.len - 1];
        open->in_range &= z->end < 0 || z->end >= r->options.begin || open->starts_in_range;
    }
    if (range_zones_end(&r->zones, &kept, e) != 0)
        return -1;
    r->thread_zones += kept;
    r->thread_roots += --r->depth == 0 && kept;
    return 0;
}

static int count_gpu_zone(struct range *r, const struct rec_gpu_zone_begin *z, struct err *e)
{
    bool before_end = (z->cpu_start >= 0 && z->cpu_start < r->options.end) ||
                      (z->gpu_start >= 0 && z->gpu_start < r->options.end);
    r->depth++;
    return range_zones_begin(&r->gpu_zones, z->srcloc, (uint32_t)z->n, gpu_starts(r, z), before_end,
                             e);
}

/*
 * Either clock may lack a time, which is then negative. A zone without an end on either clock
 * extends to the end of the trace.
 */
static int count_gpu_zone_end(struct range *r, const struct rec_gpu_zone_end *z, struct err *e)
{
    bool kept;
    int64_t last = z->cpu_end > z->gpu_end ? z->cpu_end : z->gpu_end;
    if (r->gpu_zones.open.len > 0) {
        struct open_zone *open = &r->gpu_zones.open.at[r->gpu_zones.open.len - 1];
        open->in_range &= last < 0 || last >= r->options.begin || open->starts_in_range;
    }
    if (range_zones_end(&r->gpu_zones, &kept, e) != 0)
        return -1;
    r->context_zones += kept;
    r->thread_roots += --r->depth == 0 && kept;
    return 0;
}

/* The lists of a thread follow its zones. */
static int end_thread_zones(struct range *r, struct err *e)
{
    int status = range_add(r, REC_THREAD, r->thread_zones, e);
    if (status == 0)
        status = range_add(r, REC_THREAD, r->thread_roots, e);
    r->thread_zones = 0;
    r->thread_roots = 0;
    return status;
}

/* ---- first pass */

/* The role of a type in the first pass; for a list, also where its count is. */
enum role { OTHER, LIST, ELEMENT };

struct rule {
    enum role role;
    uint8_t n_offset;
};

#define LIST_OF(TYPE, STRUCT, FIELD) [REC_##TYPE] = {LIST, offsetof(struct rec_##STRUCT, FIELD)}
#define ELEMENTS(TYPE) [REC_##TYPE] = {ELEMENT, 0}
static const struct rule rules[REC_TYPE_COUNT] = {
    LIST_OF(FRAME_SET, frame_set, n),
    ELEMENTS(FRAME),
    LIST_OF(SECTION_LIST, section_list, n),
    ELEMENTS(SECTION),
    LIST_OF(LOCK_EVENTS, count, n),
    ELEMENTS(LOCK_EVENT),
    LIST_OF(MESSAGES, count, n),
    ELEMENTS(MESSAGE),
    LIST_OF(THREAD_MESSAGES, count, n),
    ELEMENTS(THREAD_MESSAGE),
    LIST_OF(SWITCH_SAMPLES, count, n),
    ELEMENTS(SWITCH_SAMPLE),
    LIST_OF(SAMPLES, count, n),
    ELEMENTS(SAMPLE),
    LIST_OF(PLOT, plot, n),
    ELEMENTS(PLOT_POINT),
    LIST_OF(POOL, pool, events),
    ELEMENTS(MEMORY_EVENT),
    LIST_OF(CONTEXT_SWITCH_THREAD, id_count, n),
    ELEMENTS(CONTEXT_SWITCH),
    LIST_OF(CPU_SWITCH_LIST, count, n),
    ELEMENTS(CPU_SWITCH),
    LIST_OF(HW_SAMPLE_LIST, count, n),
    ELEMENTS(HW_SAMPLE_TIME),
};
#undef LIST_OF
#undef ELEMENTS

static int end_list(struct range *r, struct err *e)
{
    uint64_t kept = r->list.kept;
    switch (r->list.counted) {
    case REC_FRAME_SET:
        return range_end_frames(r, e);
    case REC_PLOT:
        return range_end_points(r, e);
    case REC_POOL:
        return range_end_pool(r, e);
    case REC_CONTEXT_SWITCH_THREAD:
        r->totals[REC_CONTEXT_SWITCH_THREAD] += kept > 0;
        break;
    case REC_CPU_SWITCH_LIST:
        r->totals[REC_CPU_SWITCH] += kept;
        break;
    case REC_HW_SAMPLE_LIST:
        r->hw_kept |= kept > 0;
        if (++r->hw_list == HW_LISTS)
            r->totals[REC_HW_SAMPLE] += r->hw_kept;
        break;
    default:
        break;
    }
    return range_add(r, r->list.counted, kept, e);
}

/* Prepares for the elements of a list. */
static int count_list(struct range *r, enum record_type type, const void *rec, struct err *e)
{
    uint64_t n;
    memcpy(&n, (const char *)rec + rules[type].n_offset, sizeof n);
    r->list = (struct list){type, n, 0};
    if (type == REC_FRAME_SET)
        range_begin_frames(r, rec);
    else if (type == REC_PLOT)
        range_begin_points(r);
    else if (type == REC_POOL)
        range_begin_pool(r);
    else if (type == REC_CPU_SWITCH_LIST)
        r->cpus.lists++;
    else if (type == REC_THREAD_MESSAGES && end_thread_zones(r, e) != 0)
        return -1;
    return n == 0 ? end_list(r, e) : 0;
}

static int count_plain(struct range *r, enum record_type type, const void *recs, size_t n,
                       struct err *e)
{
    size_t size = record_size(type);
    for (size_t i = 0; i < n; i++) {
        const void *rec = (const uint8_t *)recs + i * size;
        if (!keep(r, type, rec))
            continue;
        r->list.kept++;
        if (type == REC_MESSAGE &&
            !map_add(&r->messages, ((const struct rec_message *)rec)->key, NULL))
            return err_no_memory(e, "messages of a range");
    }
    return 0;
}

static int count_elements(struct range *r, enum record_type type, const void *recs, size_t n,
                          struct err *e)
{
    int status = 0;
    if (type == REC_FRAME)
        status = range_count_frames(r, recs, n, e);
    else if (type == REC_PLOT_POINT)
        range_count_points(r, recs, n);
    else if (type == REC_MEMORY_EVENT)
        range_count_memory(r, recs, n);
    else if (type == REC_CPU_SWITCH)
        status = range_count_cpu_switches(r, recs, n, e);
    else
        status = count_plain(r, type, recs, n, e);
    r->list.left -= n < r->list.left ? n : r->list.left;
    return status == 0 && r->list.left == 0 ? end_list(r, e) : status;
}

/* The zones of a GPU thread end at the next thread or another record. */
static int end_gpu_thread(struct range *r, struct err *e)
{
    int status = r->in_gpu_thread ? range_add(r, REC_GPU_THREAD, r->thread_roots, e) : 0;
    r->in_gpu_thread = false;
    r->thread_roots = 0;
    return status;
}

static int end_gpu_context(struct range *r, struct err *e)
{
    int status = end_gpu_thread(r, e);
    if (status == 0 && r->in_context)
        status = range_add(r, REC_GPU_CONTEXT, r->context_zones, e);
    r->in_context = false;
    r->context_zones = 0;
    return status;
}

static int count_other(struct range *r, enum record_type type, const void *rec, struct err *e)
{
    int status = 0;
    switch (type) {
    case REC_HEADER:
        r->on_demand = ((const struct rec_header *)rec)->on_demand != 0;
        break;
    case REC_ZONE_BEGIN:
        return count_zone(r, rec, e);
    case REC_ZONE_END:
        return count_zone_end(r, rec, e);
    case REC_GPU_CONTEXT:
        status = end_gpu_context(r, e);
        r->in_context = true;
        break;
    case REC_GPU_THREAD:
        status = end_gpu_thread(r, e);
        r->in_gpu_thread = true;
        break;
    case REC_GPU_ZONE_BEGIN:
        return count_gpu_zone(r, rec, e);
    case REC_GPU_ZONE_END:
        return count_gpu_zone_end(r, rec, e);
    case REC_PLOTS:
        return end_gpu_context(r, e);
    case REC_EXTERNAL_THREAD:
        return range_add_cpu_thread(r, ((const struct rec_id *)rec)->id, e);
    case REC_CPU_THREADS:
        return range_sum_cpu_threads(r, e);
    case REC_CPU_THREAD:
        range_count_cpu_threads(r, rec, 1);
        break;
    case REC_HW_SAMPLE:
        r->hw_list = 0;
        r->hw_kept = false;
        break;
    default:
        break;
    }
    return status;
}

static int count_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct range *r = ctx;
    switch (rules[type].role) {
    case LIST:
        return count_list(r, type, recs, e);
    case ELEMENT:
        return count_elements(r, type, recs, n, e);
    case OTHER:
        break;
    }
    size_t size = record_size(type);
    for (size_t i = 0; i < n; i++) {
        if (count_other(r, type, (const uint8_t *)recs + i * size, e) != 0)
            return -1;
    }
    return 0;
}

void range_count_wanted(bool *wanted)
{
    static const enum record_type others[] = {
        REC_HEADER,     REC_ZONE_BEGIN,      REC_ZONE_END,     REC_GPU_CONTEXT,
        REC_GPU_THREAD, REC_GPU_ZONE_BEGIN,  REC_GPU_ZONE_END, REC_PLOTS,
        REC_HW_SAMPLE,  REC_EXTERNAL_THREAD, REC_CPU_THREADS,  REC_CPU_THREAD};
    bool needed[REC_TYPE_COUNT] = {false};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        needed[others[i]] = true;
    for (unsigned i = 0; i < REC_TYPE_COUNT; i++)
        wanted[i] &= needed[i] || rules[i].role != OTHER;
}

/* ---- second pass */

/* Puts a list's count, when nothing else of its header changes. */
static int put_count(struct range *r, enum record_type type, struct err *e)
{
    uint64_t n;
    return range_take(r, type, &n, e) != 0 ? -1 : pass_count(r, type, n, e);
}

static int put_section_list(struct range *r, const struct rec_section_list *list, struct err *e)
{
    struct rec_section_list kept = *list;
    if (range_take(r, REC_SECTION_LIST, &kept.n, e) != 0)
        return -1;
    return record_put(&r->next, REC_SECTION_LIST, &kept, 1, e);
}

static int put_thread(struct range *r, const struct rec_thread *thread, struct err *e)
{
    struct rec_thread kept = *thread;
    uint64_t roots, samples;
    if (range_take(r, REC_THREAD, &kept.zones, e) != 0 ||
        range_take(r, REC_THREAD, &roots, e) != 0 || range_take(r, REC_SAMPLES, &samples, e) != 0)
        return -1;
    kept.n = (uint32_t)roots;
    kept.kernel_samples = kept.kernel_samples < samples ? kept.kernel_samples : samples;
    r->samples = samples;
    return record_put(&r->next, REC_THREAD, &kept, 1, e);
}

static int put_zone_totals(struct range *r, enum record_type type, const struct range_zones *z,
                           const struct rec_threads *totals, struct err *e)
{
    struct rec_threads kept = {z->kept, z->parents, totals->n};
    return record_put(&r->next, type, &kept, 1, e);
}

static int put_zone_stats(struct range *r, enum record_type type, const struct range_zones *z,
                          const struct rec_zone_stat *stats, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct rec_zone_stat kept = {stats[i].srcloc, z->by_location[(uint16_t)stats[i].srcloc]};
        if (record_put(&r->next, type, &kept, 1, e) != 0)
            return -1;
    }
    return 0;
}

static int open_zone(struct range *r, bool kept, struct err *e)
{
    return vec_push(&r->open, kept) ? 0 : err_no_memory(e, "open zones");
}

static int put_zone(struct range *r, const struct rec_zone_begin *zone, struct err *e)
{
    struct rec_zone_begin z = *zone;
    bool kept;
    if (range_zones_outcome(&r->zones, range_has(r, z.start), &z.n, &kept, e) != 0 ||
        open_zone(r, kept, e) != 0)
        return -1;
    return kept ? record_put(&r->next, REC_ZONE_BEGIN, &z, 1, e) : 0;
}

static int put_gpu_zone(struct range *r, const struct rec_gpu_zone_begin *zone, struct err *e)
{
    struct rec_gpu_zone_begin z = *zone;
    uint32_t children = (uint32_t)z.n;
    bool kept;
    if (range_zones_outcome(&r->gpu_zones, gpu_starts(r, zone), &children, &kept, e) != 0 ||
        open_zone(r, kept, e) != 0)
        return -1;
    z.n = children;
    return kept ? record_put(&r->next, REC_GPU_ZONE_BEGIN, &z, 1, e) : 0;
}

static int put_zone_end(struct range *r, enum record_type type, const void *rec, struct err *e)
{
    if (r->open.len == 0)
        return err_set(e, ERR_INPUT, "internal error: a zone ends that never began");
    bool kept = r->open.at[--r->open.len];
    return kept ? record_put(&r->next, type, rec, 1, e) : 0;
}

static int put_gpu_context(struct range *r, const struct rec_gpu_context *context, struct err *e)
{
    struct rec_gpu_context kept = *context;
    if (range_take(r, REC_GPU_CONTEXT, &kept.zones, e) != 0)
        return -1;
    return record_put(&r->next, REC_GPU_CONTEXT, &kept, 1, e);
}

static int put_gpu_thread(struct range *r, const struct rec_gpu_thread *thread, struct err *e)
{
    struct rec_gpu_thread kept = *thread;
    if (range_take(r, REC_GPU_THREAD, &kept.n, e) != 0)
        return -1;
    return record_put(&r->next, REC_GPU_THREAD, &kept, 1, e);
}

static int put_switch_thread(struct range *r, const struct rec_id_count *thread, struct err *e)
{
    struct rec_id_count kept = *thread;
    if (range_take(r, REC_CONTEXT_SWITCH_THREAD, &kept.n, e) != 0)
        return -1;
    return kept.n > 0 ? record_put(&r->next, REC_CONTEXT_SWITCH_THREAD, &kept, 1, e) : 0;
}

static int put_hw_sample(struct range *r, const struct rec_id *address, struct err *e)
{
    r->hw_list = 0;
    r->hw_kept = false;
    for (unsigned i = 0; i < HW_LISTS; i++) {
        if (range_take(r, REC_HW_SAMPLE_LIST, &r->hw_counts[i], e) != 0)
            return -1;
        r->hw_kept |= r->hw_counts[i] > 0;
    }
    return r->hw_kept ? record_put(&r->next, REC_HW_SAMPLE, address, 1, e) : 0;
}

static int put_hw_list(struct range *r, struct err *e)
{
    uint64_t n = r->hw_counts[r->hw_list++ % HW_LISTS];
    return r->hw_kept ? pass_count(r, REC_HW_SAMPLE_LIST, n, e) : 0;
}

/* One record of a type that is neither a plain list nor its elements. */
static int put_one(struct range *r, enum record_type type, const void *rec, struct err *e)
{
    switch (type) {
    case REC_HEADER:
        r->on_demand = ((const struct rec_header *)rec)->on_demand != 0;
        break;
    case REC_FRAME_SETS:
        return pass_count(r, type, r->totals[REC_FRAME_SET], e);
    case REC_FRAME_SET:
        return range_put_frame_set(r, rec, e);
    case REC_SECTION_LIST:
        return put_section_list(r, rec, e);
    case REC_THREADS:
        return put_zone_totals(r, type, &r->zones, rec, e);
    case REC_THREAD:
        return put_thread(r, rec, e);
    case REC_ZONE_BEGIN:
        return put_zone(r, rec, e);
    case REC_ZONE_END:
    case REC_GPU_ZONE_END:
        return put_zone_end(r, type, rec, e);
    case REC_LOCK_EVENTS:
    case REC_MESSAGES:
    case REC_THREAD_MESSAGES:
    case REC_SWITCH_SAMPLES:
    case REC_CPU_SWITCH_LIST:
        return put_count(r, type, e);
    case REC_SAMPLES:
        return pass_count(r, type, r->samples, e);
    case REC_GPU_CONTEXTS:
        return put_zone_totals(r, type, &r->gpu_zones, rec, e);
    case REC_GPU_CONTEXT:
        return put_gpu_context(r, rec, e);
    case REC_GPU_THREAD:
        return put_gpu_thread(r, rec, e);
    case REC_GPU_ZONE_BEGIN:
        return put_gpu_zone(r, rec, e);
    case REC_PLOTS:
        return pass_count(r, type, r->totals[REC_PLOT], e);
    case REC_PLOT:
        return range_put_plot(r, rec, e);
    case REC_POOLS: {
        struct rec_pools pools = {((const struct rec_pools *)rec)->n, r->totals[REC_MEMORY_EVENT]};
        return record_put(&r->next, type, &pools, 1, e);
    }
    case REC_POOL:
        return range_put_pool(r, rec, e);
    case REC_POOL_END:
        return range_put_pool_end(r, rec, e);
    case REC_FRAME_IMAGES:
        return pass_count(r, type, r->images.len, e);
    case REC_FRAME_IMAGE:
        return range_put_image(r, rec, e);
    case REC_CONTEXT_SWITCH_THREADS:
        return pass_count(r, type, r->totals[REC_CONTEXT_SWITCH_THREAD], e);
    case REC_CONTEXT_SWITCH_THREAD:
        return put_switch_thread(r, rec, e);
    case REC_CPU_SWITCH_LISTS:
        return pass_count(r, type, r->totals[REC_CPU_SWITCH], e);
    case REC_CPU_THREADS:
        return pass_count(r, type, r->totals[REC_CPU_THREAD], e);
    case REC_HW_SAMPLES:
        return pass_count(r, type, r->totals[REC_HW_SAMPLE], e);
    case REC_HW_SAMPLE:
        return put_hw_sample(r, rec, e);
    case REC_HW_SAMPLE_LIST:
        return put_hw_list(r, e);
    default:
        break;
    }
    return record_put(&r->next, type, rec, 1, e);
}

static int put_elements(struct range *r, enum record_type type, const void *recs, size_t n,
                        struct err *e)
{
    switch (type) {
    case REC_FRAME:
        return range_put_frames(r, recs, n, e);
    case REC_PLOT_POINT:
        return range_put_points(r, recs, n, e);
    default:
        return put_kept(r, type, recs, n, e);
    }
}

static int range_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct range *r = ctx;
    if (rules[type].role == ELEMENT)
        return put_elements(r, type, recs, n, e);
    if (type == REC_ZONE_STAT)
        return put_zone_stats(r, type, &r->zones, recs, n, e);
    if (type == REC_CPU_THREAD)
        return range_put_cpu_threads(r, recs, n, e);
    if (type == REC_GPU_ZONE_STAT)
        return put_zone_stats(r, type, &r->gpu_zones, recs, n, e);
    if (n > 1 && type != REC_FRAME_IMAGE && type != REC_ZONE_END && type != REC_GPU_ZONE_END &&
        type != REC_POOL_END)
        return record_put(&r->next, type, recs, n, e);
    size_t size = record_size(type);
    for (size_t i = 0; i < n; i++) {
        if (put_one(r, type, (const uint8_t *)recs + i * size, e) != 0)
            return -1;
    }
    return 0;
}

/* ---- interface */

int range_open(struct range **out, const struct range_options *options, struct err *e)
{
    struct range *r = calloc(1, sizeof *r);
    *out = r;
    if (!r)
        return err_no_memory(e, "a range");
    r->options = *options;
    range_cpus_init(&r->cpus, options->spill_dir);
    r->has_spool = spool_init(&r->spool, options->spill_dir, SPOOL_BUDGET, e) == 0;
    if (!r->has_spool || range_zones_init(&r->zones, &r->spool, options->spill_dir, e) != 0 ||
        range_zones_init(&r->gpu_zones, &r->spool, options->spill_dir, e) != 0) {
        range_free(r);
        *out = NULL;
        return -1;
    }
    for (unsigned i = 0; i < REC_TYPE_COUNT; i++)
        tally_init(&r->tallies[i], &r->spool);
    return 0;
}

void range_free(struct range *r)
{
    if (!r)
        return;
    range_cpus_release(&r->cpus);
    range_zones_release(&r->zones);
    range_zones_release(&r->gpu_zones);
    for (unsigned i = 0; i < REC_TYPE_COUNT; i++)
        tally_release(&r->tallies[i]);
    if (r->has_spool)
        spool_release(&r->spool);
    vec_release(&r->images);
    vec_release(&r->open);
    map_release(&r->messages);
    free(r);
}

struct record_sink range_count_sink(struct range *r)
{
    return (struct record_sink){.ctx = r, .put = count_put};
}

int range_counted(struct range *r, struct err *e)
{
    range_sort_images(r);
    if (range_zones_counted(&r->zones, e) != 0)
        return -1;
    return range_zones_counted(&r->gpu_zones, e);
}

struct record_sink range_sink(struct range *r, const struct record_sink *next)
{
    r->next = *next;
    return (struct record_sink){.ctx = r, .put = range_put};
}
