#include "analysis/tables/tables.h"

#include "analysis/tables/table_cells.h"

int tables_export(const struct tables_source *source, const struct table_sink *sink,
                  const char *spool_dir, struct err *e)
{
    const struct trace_options options = {.spool_dir = spool_dir,
                                          .resident_budget = source->resident_budget};
    bool wanted[REC_TYPE_COUNT];
    struct table_records records;
    struct trace t;
    if (trace_init(&t, &options, e) != 0)
        return -1;
    table_records_init(&records, sink, &t, spool_dir);
    table_records_wanted(sink, wanted);
    struct record_sink beside = table_records_sink(&records);
    const struct selection_options *only = sink->only;
    const struct trace_load_options load = {.zones = only && only->zone,
                                            .frames = only && only->has_frame,
                                            .no_events = !tables_need_events(sink->wanted),
                                            .beside = &beside,
                                            .beside_wanted = wanted};
    int status = source->load(source->ctx, &t, &load, e);
    if (status == 0)
        status = table_records_finish(&records, e);
    if (status == 0)
        status = table_store_rows(sink, &t, e);
    table_records_release(&records);
    trace_release(&t);
    return status;
}
