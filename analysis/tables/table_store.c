/* Tables made from the store after a trace is loaded: memory, call stacks, names, facts. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/figures/selection.h"
#include "analysis/figures/sites.h"
#include "analysis/figures/summary.h"
#include "analysis/names/frames.h"
#include "analysis/names/types.h"
#include "analysis/questions/usage.h"
#include "analysis/tables/table_cells.h"
#include "base/format.h"

struct store_rows {
    const struct table_sink *sink;
    struct trace *t;
    struct stream_figures *counted; /* NULL: a sweep counts */
    struct sites sites;
    struct types types;
    struct buf name;
};

static bool wants(const struct store_rows *s, enum table_id table)
{
    return s->sink->wanted[table];
}

static int put_row(const struct store_rows *s, enum table_id table, const struct cell *cells,
                   struct err *e)
{
    return s->sink->row(s->sink->ctx, table, cells, e);
}

/* ---- facts */

static int put_fact(const struct store_rows *s, struct view key, struct view value, struct err *e)
{
    struct cell cells[TABLE_FACTS_WIDTH];
    cells[FACT_KEY] = cell_text(key);
    cells[FACT_VALUE] = cell_text(value);
    return put_row(s, TABLE_OF_FACTS, cells, e);
}

static int put_header_facts(const struct store_rows *s, struct err *e)
{
    const struct trace_facts *f = &s->t->facts;
    const struct strings *strings = &s->t->strings;
    char version[FILE_VERSION_TEXT_SIZE];
    char date[FORMAT_SIZE];
    char duration[32];
    char pid[32];
    snprintf(duration, sizeof duration, "%" PRId64, f->last_time);
    snprintf(pid, sizeof pid, "%" PRIu64, f->pid);
    const struct {
        const char *key;
        struct view value;
    } facts[] = {
        {"schema", view_of(TABLES_SCHEMA)},
        {"program", strings_get(strings, f->program)},
        {"capture_name", strings_get(strings, f->capture_name)},
        {"host", strings_get(strings, f->host_info)},
        {"file_version", view_of(file_version_text(f->file_version, version))},
        {"captured_at", view_of(format_date(date, f->capture_time))},
        {"duration_ns", view_of(duration)},
        {"pid", view_of(pid)},
        {"on_demand", view_of(f->on_demand ? "1" : "0")},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        if (put_fact(s, view_of(facts[i].key), facts[i].value, e) != 0)
            return -1;
    }
    return 0;
}

/* Lines of application info; Tidemark's are "tidemark.KEY=VALUE". */
static int put_facts(const struct store_rows *s, struct err *e)
{
    static const char own[] = "tidemark.";
    if (put_header_facts(s, e) != 0)
        return -1;
    for (size_t i = 0; i < s->t->app_info.len; i++) {
        struct view line = strings_get(&s->t->strings, s->t->app_info.at[i]);
        struct view key = view_of("app_info");
        const char *equals = line.len ? memchr(line.p, '=', line.len) : NULL;
        if (equals && line.len >= sizeof own && memcmp(line.p, own, sizeof own - 1) == 0) {
            key = (struct view){line.p, (size_t)(equals - line.p)};
            line = (struct view){equals + 1, line.len - key.len - 1};
        }
        if (put_fact(s, key, line, e) != 0)
            return -1;
    }
    return 0;
}

/* ---- threads */

static int put_threads(const struct store_rows *s, struct err *e)
{
    const struct trace_threads *threads = &s->t->threads;
    struct cell cells[TABLE_THREADS_WIDTH];
    for (size_t i = 0; i < threads->list.len; i++) {
        const struct trace_thread *t = &threads->list.at[i];
        const uint64_t *number = map_find(&threads->numbers, t->id);
        if (!number || *number != i)
            continue; /* listed twice, or the replacement for threads beyond the limit */
        cells[THREAD_ID] = cell_count(t->id);
        cells[THREAD_NAME] = cell_nonempty(strings_get(&s->t->strings, t->name));
        cells[THREAD_FIBER] = cell_bool(t->is_fiber);
        if (put_row(s, TABLE_OF_THREADS, cells, e) != 0)
            return -1;
    }
    return 0;
}

/* ---- pools */

static int put_pools(const struct store_rows *s, const struct summary *sum, struct err *e)
{
    struct cell cells[TABLE_POOLS_WIDTH];
    for (size_t i = 0; i < sum->pools.len; i++) {
        const struct summary_pool *p = &sum->pools.at[i];
        const struct pool_figures *f = &p->figures;
        bool any = p->low_address <= p->high_address;
        cells[POOL_ID] = cell_count(i + 1);
        cells[POOL_NAME] = cell_text(p->name);
        cells[POOL_ALLOCATIONS] = cell_count(f->allocations);
        cells[POOL_FREES] = cell_count(f->frees);
        cells[POOL_TOTAL_BYTES] = cell_count(f->total_bytes);
        cells[POOL_LIVE_ALLOCATIONS] = cell_count(f->live);
        cells[POOL_LIVE_BYTES] = cell_count(f->live_bytes);
        cells[POOL_PEAK_ALLOCATIONS] = cell_count(f->peak_live);
        cells[POOL_PEAK_BYTES] = cell_count(f->peak_bytes);
        cells[POOL_PEAK_TIME] = f->peak_time < 0 ? cell_none() : cell_integer(f->peak_time);
        cells[POOL_TEMPORARY] = cell_count(f->temporary);
        cells[POOL_LOW] = any ? cell_count(p->low_address) : cell_none();
        cells[POOL_HIGH] = any ? cell_count(p->high_address) : cell_none();
        if (put_row(s, TABLE_OF_POOLS, cells, e) != 0)
            return -1;
    }
    return 0;
}

static int put_totals(const struct store_rows *s, const struct summary *sum, struct err *e)
{
    struct cell cells[TABLE_TOTALS_WIDTH];
    for (size_t i = 0; i < sum->groups.len; i++) {
        const struct summary_row *r = &sum->groups.at[i];
        const struct counter *c = &r->figures;
        cells[TOTALS_POOL] = cell_count(r->pool + UINT64_C(1));
        cells[TOTALS_CALLSTACK] = cell_nonzero(r->key);
        cells[TOTALS_ALLOCATIONS] = cell_count(c->count);
        cells[TOTALS_TOTAL_BYTES] = cell_count(c->bytes);
        cells[TOTALS_LIVE_ALLOCATIONS] = cell_count(c->live_count);
        cells[TOTALS_LIVE_BYTES] = cell_count(c->live_bytes);
        cells[TOTALS_PEAK_BYTES] = cell_count(c->peak_bytes);
        cells[TOTALS_AT_PEAK_ALLOCATIONS] = cell_count(c->at_peak_count);
        cells[TOTALS_AT_PEAK_BYTES] = cell_count(c->at_peak_bytes);
        cells[TOTALS_TEMPORARY] = cell_count(c->temporary);
        cells[TOTALS_TEMPORARY_BYTES] = cell_count(c->temporary_bytes);
        cells[TOTALS_LARGEST] = cell_count(c->largest);
        cells[TOTALS_FIRST] = cell_integer(c->first_time);
        cells[TOTALS_LAST] = cell_integer(c->last_time);
        if (put_row(s, TABLE_OF_TOTALS, cells, e) != 0)
            return -1;
        trace_swept_block(s->t, i, sum->groups.len);
    }
    trace_loaded(s->t);
    return 0;
}

/* ---- usage */

/* The number of the pool's row: pools of one name share one. 0 for a pool without events. */
static uint64_t pool_row(const struct summary *sum, uint64_t key)
{
    for (size_t i = 0; i < sum->pools.len; i++) {
        const struct summary_pool *p = &sum->pools.at[i];
        for (size_t k = 0; k < p->key_count; k++) {
            if (sum->pool_keys.at[p->first_key + k] == key)
                return i + 1;
        }
    }
    return 0;
}

struct usage_rows {
    const struct store_rows *s;
    const struct summary *sum;
};

static int put_usage(void *ctx, const struct usage_point *p, struct err *e)
{
    const struct usage_rows *u = ctx;
    struct cell cells[TABLE_USAGE_WIDTH];
    cells[USAGE_POOL] = cell_count(pool_row(u->sum, p->key));
    cells[USAGE_TIME] = cell_integer(p->time);
    cells[USAGE_BYTES] = cell_count(p->bytes);
    cells[USAGE_ALLOCATIONS] = cell_count(p->count);
    return put_row(u->s, TABLE_OF_USAGE, cells, e);
}

static int put_all_usage(const struct store_rows *s, struct summary *sum, struct err *e)
{
    struct usage_rows u = {s, sum};
    return usage_walk(&sum->selection, s->sink->points, put_usage, &u, e);
}

/* ---- allocations */

static struct cell thread_cell(const struct store_rows *s, uint16_t number)
{
    const struct trace_threads *threads = &s->t->threads;
    return number < threads->list.len ? cell_count(threads->list.at[number].id) : cell_count(0);
}

/* The rows of a pool's allocations. The cells have the pool's row and the number of the last row.
 */
struct pool_rows {
    const struct selection *selection;
    uint32_t pool;
    struct cell cells[TABLE_ALLOCATIONS_WIDTH];
};

static int put_allocation(const struct store_rows *s, struct pool_rows *p,
                          const struct memory_alloc *a, const struct memory_free *f, struct err *e)
{
    struct cell *cells = p->cells;
    const struct selection_block block = {.pool = p->pool,
                                          .thread = memory_alloc_thread(a),
                                          .callstack = a->callstack,
                                          .size = memory_alloc_size(a),
                                          .time = a->time,
                                          .freed = memory_free_time(a, f)};
    bool freed = !is_live_before(block.freed, p->selection->end);
    if (!selection_wants(p->selection, &block))
        return 0;
    cells[ALLOCATION_ID].count++;
    cells[ALLOCATION_ADDRESS] = cell_count(a->ptr);
    cells[ALLOCATION_SIZE] = cell_count(block.size);
    cells[ALLOCATION_TIME] = cell_integer(a->time);
    cells[ALLOCATION_THREAD] = thread_cell(s, block.thread);
    cells[ALLOCATION_CALLSTACK] = cell_nonzero(a->callstack);
    cells[ALLOCATION_FREE_TIME] = freed ? cell_integer(block.freed) : cell_none();
    cells[ALLOCATION_FREE_THREAD] = freed ? thread_cell(s, memory_free_thread(f)) : cell_none();
    cells[ALLOCATION_FREE_CALLSTACK] = freed ? cell_nonzero(f->callstack) : cell_none();
    return put_row(s, TABLE_OF_ALLOCATIONS, cells, e);
}

static int put_pool_allocations(const struct store_rows *s, struct pool_rows *p, struct err *e)
{
    struct pool *pool = s->t->memory.pools.at[p->pool];
    struct column_walk allocs = column_walk(&pool->allocs), frees = column_walk(&pool->frees);
    uint64_t done = 0;
    int status = 0;
    for (struct column_two pair; (pair = column_walk_two(&allocs, &frees, &status, e)).first;) {
        status = put_allocation(s, p, pair.first, pair.second, e);
        trace_swept_block(s->t, ++done, pool->allocs.len);
    }
    trace_loaded(s->t);
    return status;
}

static int put_allocations(const struct store_rows *s, const struct summary *sum, struct err *e)
{
    struct pool_rows rows = {.selection = &sum->selection};
    for (uint32_t i = 0; i < s->t->memory.pools.len; i++) {
        uint64_t row = pool_row(sum, s->t->memory.pools.at[i]->key);
        rows.pool = i;
        rows.cells[ALLOCATION_POOL] = cell_count(row);
        if (row && put_pool_allocations(s, &rows, e) != 0)
            return -1;
    }
    return 0;
}

/* What was in memory, which is known of whole pools. */
static int put_resident(const struct store_rows *s, const struct summary *sum, struct err *e)
{
    struct cell cells[TABLE_RESIDENT_WIDTH];
    const struct resident_stacks *from = &s->t->resident;
    for (size_t i = 0; i < from->list.len && sum->has_resident; i++) {
        const struct resident_stack *one = &from->list.at[i];
        uint64_t row = pool_row(sum, one->pool);
        cells[RESIDENT_POOL] = cell_count(row);
        cells[RESIDENT_CALLSTACK] = cell_nonzero(one->callstack);
        cells[RESIDENT_BYTES] = cell_count(one->present);
        cells[RESIDENT_NESTED] = cell_count(one->nested);
        if (row && put_row(s, TABLE_OF_RESIDENT, cells, e) != 0)
            return -1;
    }
    return 0;
}

/* `skip`: with the wrappers of the trace. */
static int put_memory(const struct store_rows *s, const struct skiplist *skip, struct err *e)
{
    const struct summary_options options = {
        .by = GROUP_CALLSTACK, .only = s->sink->only, .skip = skip, .stream = s->counted};
    struct summary sum;
    if (summary_build(&sum, s->t, &options, e) != 0)
        return -1;
    int status = 0;
    if (wants(s, TABLE_OF_POOLS))
        status = put_pools(s, &sum, e);
    if (status == 0 && wants(s, TABLE_OF_TOTALS))
        status = put_totals(s, &sum, e);
    if (status == 0 && wants(s, TABLE_OF_RESIDENT))
        status = put_resident(s, &sum, e);
    if (status == 0 && wants(s, TABLE_OF_USAGE))
        status = put_all_usage(s, &sum, e);
    if (status == 0 && wants(s, TABLE_OF_ALLOCATIONS))
        status = put_allocations(s, &sum, e);
    summary_release(&sum);
    return status;
}

/* ---- call stacks */

static int name_frame(struct store_rows *s, const struct frame_view *f, struct view *name,
                      struct err *e)
{
    buf_clear(&s->name);
    frame_name(&s->name, f);
    *name = (struct view){(const char *)s->name.data, s->name.len};
    return s->name.failed ? err_no_memory(e, "a frame's name") : 0;
}

static int put_sites(struct store_rows *s, struct err *e)
{
    struct cell cells[TABLE_SITES_WIDTH];
    for (size_t i = 0; i < s->sites.list.len; i++) {
        const struct frame_view *f = &s->sites.list.at[i].frame;
        struct view name = view_of("[no call stack]");
        if (i != SITE_NO_CALLSTACK && name_frame(s, f, &name, e) != 0)
            return -1;
        cells[SITE_ID] = cell_count(i + 1);
        cells[SITE_NAME] = cell_text(name);
        cells[SITE_FUNCTION] = cell_nonempty(f->function);
        cells[SITE_FILE] = cell_nonempty(f->file);
        cells[SITE_LINE] = cell_nonzero(f->line);
        cells[SITE_IMAGE] = cell_nonempty(f->image);
        if (put_row(s, TABLE_OF_SITES, cells, e) != 0)
            return -1;
    }
    return 0;
}

static int put_callstack_frames(const struct store_rows *s, uint32_t id, struct err *e)
{
    const struct callstacks *c = &s->t->callstacks;
    struct cell cells[TABLE_CALLSTACK_FRAMES_WIDTH];
    uint32_t position = 0;
    cells[STACK_CALLSTACK] = cell_count(id);
    for (uint32_t node = c->list.at[id - 1].node; node; node = c->nodes.at[node].parent) {
        cells[STACK_POSITION] = cell_count(position++);
        cells[STACK_FRAME] = cell_count(c->nodes.at[node].frame + UINT64_C(1));
        if (put_row(s, TABLE_OF_CALLSTACK_FRAMES, cells, e) != 0)
            return -1;
    }
    return 0;
}

static int put_callstacks(const struct store_rows *s, struct err *e)
{
    const struct callstacks *c = &s->t->callstacks;
    struct cell cells[TABLE_CALLSTACKS_WIDTH];
    for (uint32_t id = 1; id <= c->list.len; id++) {
        cells[CALLSTACK_ID] = cell_count(id);
        cells[CALLSTACK_DEPTH] = cell_count(c->list.at[id - 1].len);
        if (wants(s, TABLE_OF_CALLSTACKS)) {
            cells[CALLSTACK_SITE] = cell_count(s->sites.of_callstack[id] + UINT64_C(1));
            cells[CALLSTACK_TYPE] = cell_nonempty(s->types.names.at[types_of(&s->types, id)]);
            if (put_row(s, TABLE_OF_CALLSTACKS, cells, e) != 0)
                return -1;
        }
        if (wants(s, TABLE_OF_CALLSTACK_FRAMES) && put_callstack_frames(s, id, e) != 0)
            return -1;
        trace_swept_block(s->t, id, c->list.len);
    }
    trace_loaded(s->t);
    return 0;
}

static int put_functions(struct store_rows *s, uint32_t frame, struct err *e)
{
    struct cell cells[TABLE_FRAME_FUNCTIONS_WIDTH];
    uint32_t depth = frame_depth(s->t, frame);
    cells[FUNCTION_FRAME] = cell_count(frame + UINT64_C(1));
    for (uint32_t i = 0; i < depth; i++) {
        struct frame_view f = frame_describe(s->t, frame, i);
        struct view name;
        if (name_frame(s, &f, &name, e) != 0)
            return -1;
        cells[FUNCTION_POSITION] = cell_count(i);
        cells[FUNCTION_NAME] = cell_text(name);
        cells[FUNCTION_FUNCTION] = cell_nonempty(f.function);
        cells[FUNCTION_FILE] = cell_nonempty(f.file);
        cells[FUNCTION_LINE] = cell_nonzero(f.line);
        cells[FUNCTION_INLINED] = cell_bool(f.is_inline);
        if (put_row(s, TABLE_OF_FRAME_FUNCTIONS, cells, e) != 0)
            return -1;
    }
    return 0;
}

static int put_frames(struct store_rows *s, struct err *e)
{
    struct cell cells[TABLE_FRAMES_WIDTH];
    for (uint32_t i = 0; i < s->t->callstacks.frames.len; i++) {
        struct frame_view f = frame_describe(s->t, i, 0);
        cells[FRAME_ID] = cell_count(i + UINT64_C(1));
        cells[FRAME_ADDRESS] = cell_nonzero(f.address);
        cells[FRAME_IMAGE] = cell_nonempty(f.image);
        if (wants(s, TABLE_OF_FRAMES) && put_row(s, TABLE_OF_FRAMES, cells, e) != 0)
            return -1;
        if (wants(s, TABLE_OF_FRAME_FUNCTIONS) && put_functions(s, i, e) != 0)
            return -1;
    }
    return 0;
}

/* ---- all of it */

/* What needs the sites of call stacks. */
static int put_sited(struct store_rows *s, struct program_frames *program, struct err *e)
{
    const struct skiplist known = {.found = &program->wrappers};
    if (sites_build_from(&s->sites, program, SITE_BY_LINE, e) != 0 ||
        types_build(&s->types, program, e) != 0 ||
        (wants(s, TABLE_OF_SITES) && put_sites(s, e) != 0) || put_callstacks(s, e) != 0 ||
        put_frames(s, e) != 0)
        return -1;
    return tables_need_events(s->sink->wanted) ? put_memory(s, &known, e) : 0;
}

static int put_all(struct store_rows *s, struct err *e)
{
    struct program_frames program;
    if ((wants(s, TABLE_OF_FACTS) && put_facts(s, e) != 0) ||
        (wants(s, TABLE_OF_THREADS) && put_threads(s, e) != 0) ||
        program_frames_init(&program, s->t, NULL, e) != 0)
        return -1;
    int status = put_sited(s, &program, e);
    program_frames_release(&program);
    return status;
}

int table_store_rows(const struct table_sink *sink, struct trace *t, struct stream_figures *counted,
                     struct err *e)
{
    struct store_rows s = {.sink = sink, .t = t, .counted = counted};
    int status = put_all(&s, e);
    sites_release(&s.sites);
    types_release(&s.types);
    buf_release(&s.name);
    return status;
}
