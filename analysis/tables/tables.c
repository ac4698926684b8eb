#include "analysis/tables/tables.h"

#include "analysis/figures/stream_figures.h"
#include "analysis/tables/table_cells.h"

/* Records that become rows, and are counted if that can be done before the trace is loaded. */
struct counted_records {
    struct record_sink rows;
    struct stream_figures figures;
    bool counting;
};

static int put_record(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct counted_records *c = ctx;
    c->counting = c->counting && stream_figures_try(&c->figures, type, recs, n);
    return record_put(&c->rows, type, recs, n, e);
}

/* Loads the trace and makes all rows. */
static int load_rows(const struct tables_source *source, const struct table_sink *sink,
                     struct table_records *records, struct trace *t, struct err *e)
{
    const struct selection_options *only = sink->only;
    bool wanted[REC_TYPE_COUNT];
    struct counted_records c = {.rows = table_records_sink(records)};
    const struct record_sink beside = {&c, put_record};
    const struct trace_load_options load = {.zones = only && only->zone,
                                            .frames = only && only->has_frame,
                                            .no_events = !tables_need_events(sink->wanted),
                                            .beside = &beside,
                                            .beside_wanted = wanted};
    int status = 0;
    table_records_wanted(sink, wanted);
    c.counting = !load.no_events && !(only && selection_is_narrow(only));
    if (c.counting)
        status = stream_figures_beside(&c.figures, t, wanted, e);
    if (status == 0)
        status = source->load(source->ctx, t, &load, e);
    if (status == 0 && t->memory.only.is && !load.no_events)
        status = memory_refuse("the tables have a row for each", e);
    if (status == 0)
        status = table_records_finish(records, e);
    if (status == 0 && c.counting)
        status = stream_figures_loaded(&c.figures, e);
    if (status == 0)
        status = table_store_rows(sink, t, c.counting ? &c.figures : NULL, e);
    if (c.counting)
        stream_figures_release(&c.figures);
    return status;
}

int tables_export(const struct tables_source *source, const struct table_sink *sink,
                  const char *spool_dir, struct err *e)
{
    const struct trace_options options = {.spool_dir = spool_dir,
                                          .resident_budget = source->resident_budget};
    struct table_records records;
    struct trace t;
    if (trace_init(&t, &options, e) != 0)
        return -1;
    table_records_init(&records, sink, &t, spool_dir);
    int status = load_rows(source, sink, &records, &t, e);
    table_records_release(&records);
    trace_release(&t);
    return status;
}
