/* The report as one JSON document, written row by row. */

#include "analysis/names/permanent.h"
#include "analysis/figures/summary_facts.h"
#include "base/format.h"
#include "report/cost.h"
#include "report/processes.h"
#include "report/sink.h"
#include "report/write/counter_columns.h"
#include "report/write/json_value.h"
#include "report/write/resident_json.h"

/* Writes the next element of the open list, on a separate line. */
static void element(struct report *r, json_t *value)
{
    buf_puts(&r->doc.buf, r->doc.first ? "\n  " : ",\n  ");
    r->doc.first = false;
    r->doc.failed |= !json_put(&r->doc.buf, value, 0);
}

static void open_list(struct report *r, const char *key)
{
    buf_printf(&r->doc.buf, ",\n \"%s\": [", key);
    r->doc.first = true;
}

static void close_list(struct report *r)
{
    buf_puts(&r->doc.buf, r->doc.first ? "]" : "\n ]");
}

static json_t *make_trace(const struct summary *s)
{
    return json_with(document_trace(s->trace), "complete", json_boolean(s->complete));
}

static json_t *text_option(const char *text)
{
    return text ? json_text(view_of(text)) : json_null();
}

/* The selection of allocations; null if there is none. */
static json_t *make_selection(const struct selection *s)
{
    const struct selection_options *o = &s->options;
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "pool", text_option(o->pool),
        "thread", text_option(o->thread), "begin_ns",
        o->has_range && o->begin != INT64_MIN ? json_integer(o->begin) : json_null(), "end_ns",
        o->has_range && o->end != INT64_MAX ? json_integer(o->end) : json_null(), "at_ns",
        o->has_at ? json_integer(o->at) : json_null(), "size_min",
        o->has_size ? json_count(o->size_min) : json_null(), "size_max",
        o->has_size && o->size_max != UINT64_MAX ? json_count(o->size_max) : json_null(), "match",
        text_option(o->match), "frame", o->has_frame ? json_count(o->frame) : json_null(), "zone",
        text_option(o->zone));
}

static json_t *make_callstacks(const struct summary_coverage *c)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:b, s:o}", "allocations", json_count(c->allocations),
                     "with_callstack", json_count(c->with_callstack), "cut", json_count(c->cut),
                     "cut_bytes", json_count(c->cut_bytes), "cut_is_at_least",
                     c->cut_is_bound ? 1 : 0, "cut_depth",
                     c->cut_depth ? json_count(c->cut_depth) : json_null());
}

static json_t *json_if(bool known, uint64_t number)
{
    return known ? json_count(number) : json_null();
}

static json_t *near_limit_json(const struct near_limit *n)
{
    bool read = n->growth.p, full = n->limit > 0;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "from_ns",
                     json_if(n->from >= 0, (uint64_t)n->from), "to_ns",
                     json_if(read, (uint64_t)n->to), "bytes", json_if(full, n->use), "limit_bytes",
                     json_if(full, n->limit), "waited_percent", json_if(read && !full, n->waited),
                     "growth", json_text_or_null(n->growth), "oom_kills", json_count(n->kills),
                     "oom_kills_at_recovery", n->recovered ? 1 : 0);
}

static json_t *gpu_use_json(const struct gpu_use *u)
{
    bool less = u->known && u->attributed <= u->reported;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "time_ns",
                     json_if(u->known, (uint64_t)u->time), "reported_bytes",
                     json_if(u->known, u->reported), "attributed_bytes",
                     json_if(u->known, u->attributed), "not_attributed_bytes",
                     json_if(less, u->reported - u->attributed), "all_processes_bytes",
                     json_if(u->known, u->used), "size_bytes", json_if(u->known, u->size));
}

/* NULL: the trace has none, or memory is short. */
static json_t *gpu_segments_json(const struct trace *t)
{
    struct gpu_segments s;
    json_t *all = NULL;
    for (unsigned n = 0; gpu_segments_read(t, n, &s); n++) {
        if (!all)
            all = json_array();
        json_array_append_new(all,
                              json_pack("{s:o, s:o, s:o, s:o, s:o}", "gpu", json_count(s.gpu),
                                        "segments", json_count(s.count), "reserved_bytes",
                                        json_count(s.reserved), "used_bytes", json_count(s.used),
                                        "largest_free_bytes", json_count(s.largest)));
    }
    return all;
}

static void json_begin(struct report *r)
{
    buf_puts(&r->doc.buf, "{\"schema\": \"tidemark.report/1\",\n \"trace\": ");
    r->doc.failed |= !json_put(&r->doc.buf, make_trace(r->s), 0);
    if (r->options->process_count)
        r->doc.failed |= !processes_json(&r->doc.buf, r->options);
    buf_puts(&r->doc.buf, ",\n \"answer\": ");
    r->doc.failed |= !json_put(
        &r->doc.buf,
        json_text_or_null((struct view){(const char *)r->s->answer.data, r->s->answer.len}), 0);
    buf_puts(&r->doc.buf, ",\n \"callstacks\": ");
    r->doc.failed |= !json_put(&r->doc.buf, make_callstacks(&r->s->coverage), 0);
    struct resident_shares shares;
    bool narrow = selection_is_narrow(&r->s->selection.options);
    if (!r->s->empty && !narrow && resident_fact_read(r->s->trace, &shares)) {
        buf_puts(&r->doc.buf, ",\n \"resident\": ");
        r->doc.failed |= !json_put(&r->doc.buf, resident_json(&shares), 0);
    }
    struct near_limit limit;
    if (!r->s->empty && !narrow && near_limit_read(r->s->trace, &limit)) {
        buf_puts(&r->doc.buf, ",\n \"near_limit\": ");
        r->doc.failed |= !json_put(&r->doc.buf, near_limit_json(&limit), 0);
    }
    struct gpu_use use;
    if (!r->s->empty && !narrow && gpu_use_read(r->s->trace, &use)) {
        buf_puts(&r->doc.buf, ",\n \"gpu\": ");
        r->doc.failed |= !json_put(&r->doc.buf, gpu_use_json(&use), 0);
    }
    struct gpu_segments gpu;
    if (!r->s->empty && !narrow && gpu_segments_read(r->s->trace, 0, &gpu)) {
        buf_puts(&r->doc.buf, ",\n \"gpu_segments\": ");
        r->doc.failed |= !json_put(&r->doc.buf, gpu_segments_json(r->s->trace), 0);
    }
    if (narrow) {
        buf_puts(&r->doc.buf, ",\n \"selection\": ");
        r->doc.failed |= !json_put(&r->doc.buf, make_selection(&r->s->selection), 0);
    }
}

static void json_pools_begin(struct report *r)
{
    open_list(r, "pools");
}

static void json_pool(struct report *r, const struct summary_pool *p)
{
    const struct pool_figures *f = &p->figures;
    json_t *ids = json_array();
    for (size_t i = 0; ids && i < p->key_count; i++)
        ids = json_add(ids, json_address(r->s->pool_keys.at[p->first_key + i]));
    bool any = f->allocations != 0;
    element(r,
            json_pack("{s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                      "name", json_text(p->name), "pool_ids", ids, "counted", p->sum == POOL_COUNTS,
                      "allocations", json_count(f->allocations), "frees", json_count(f->frees),
                      "live_allocations", json_count(f->live), "live_bytes",
                      json_count(f->live_bytes), "permanent_allocations", json_count(p->permanent),
                      "permanent_bytes", json_count(p->permanent_bytes), "peak_bytes",
                      json_count(f->peak_bytes), "peak_time_ns",
                      f->peak_bytes ? json_integer(f->peak_time) : json_null(), "total_bytes",
                      json_count(f->total_bytes), "temporary_allocations", json_count(f->temporary),
                      "low_address", any ? json_address(p->low_address) : json_null(),
                      "high_address", any ? json_address(p->high_address) : json_null()));
}

static void json_rows_begin(struct report *r, const struct row_list *rows, bool groups)
{
    (void)rows;
    open_list(r, groups ? "groups" : "sites");
}

/* The row's totals by type, if it has several. */
static json_t *make_types(const struct summary *s, const struct summary_row *row)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < row->type_count; i++) {
        const struct summary_type *t = &s->row_types.at[row->first_type + i];
        json_t *v = json_pack("{s:o, s:o, s:o}", "type", json_text_or_null(t->name), "count",
                              json_count(t->count), "bytes", json_count(t->bytes));
        list = json_add(list, v);
    }
    return list;
}

static void json_row(struct report *r, const struct summary_row *row)
{
    json_t *v = json_with(json_object(), "pool", json_text(r->s->pools.at[row->pool].name));
    v = json_with(json_place(v, &row->frame), "type", json_text_or_null(row->type));
    v = counter_json(v, &row->figures);
    if (r->resident)
        v = json_with(v, "resident_bytes", json_count(row->resident_bytes));
    v = json_with(v, "callstack", json_callstack(r->s->trace, row->callstack));
    if (row->permanent)
        v = json_with(v, "permanent", json_string(permanent_reason(row->permanent)));
    /* The name of a group without a frame. */
    if (row->name.len)
        v = json_with(v, "name", json_text(row->name));
    if (row->type_count > 1)
        v = json_with(v, "types", make_types(r->s, row));
    element(r, json_cost(r->s, row, v));
}

static void json_rows_end(struct report *r, const struct row_list *rows, bool groups)
{
    (void)rows;
    close_list(r);
    if (!groups || r->s->by != GROUP_FRAME)
        return;
    open_list(r, "frames");
    for (size_t i = 0; i < r->s->frames.len; i++)
        element(r, json_frames(r->s, &r->s->frames.at[i]));
    close_list(r);
}

static void json_faults_begin(struct report *r)
{
    open_list(r, "faults");
}

static json_t *make_samples(const struct summary *s, const struct summary_fault *f)
{
    json_t *list = json_array();
    for (unsigned i = 0; list && i < f->sample_count; i++) {
        const struct summary_fault_sample *from = &f->samples[i];
        json_t *v = json_pack("{s:I, s:o, s:o}", "time_ns", (json_int_t)from->time, "address",
                              json_address(from->ptr), "thread", json_count(from->thread));
        if (f->kind == FAULT_ALLOC_TWICE) {
            /* The block allocated there, and the one that held the address. */
            v = json_with(v, "size", json_count(from->size));
            v = json_with(v, "held_by", json_callstack(s->trace, from->other_callstack));
        }
        list = json_add(list, v);
    }
    return list;
}

static void json_fault(struct report *r, const struct summary_fault *f)
{
    element(r, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "kind", fault_kind_name(f->kind), "pool",
                         json_text(f->pool), "count", json_count(f->count), "count_least",
                         json_count(f->least), "samples", make_samples(r->s, f), "callstack",
                         json_callstack(r->s->trace, f->callstack)));
}

static void json_checks_begin(struct report *r)
{
    open_list(r, "checks");
}

static void json_check(struct report *r, const struct summary_check *c)
{
    element(r, json_pack("{s:s, s:b, s:o, s:o}", "name", c->name, "holds", c->holds ? 1 : 0,
                         "detail", json_text(view_of(c->detail)), "remedy",
                         c->remedy ? json_text(view_of(c->remedy)) : json_null()));
}

static void json_end(struct report *r)
{
    buf_puts(&r->doc.buf, "\n}\n");
}

const struct report_sink report_json = {
    .begin = json_begin,
    .pools_begin = json_pools_begin,
    .pool = json_pool,
    .pools_end = close_list,
    .rows_begin = json_rows_begin,
    .row = json_row,
    .rows_end = json_rows_end,
    .faults_begin = json_faults_begin,
    .fault = json_fault,
    .faults_end = close_list,
    .checks_begin = json_checks_begin,
    .check = json_check,
    .checks_end = close_list,
    .end = json_end,
    .sites_and_groups = true,
};
