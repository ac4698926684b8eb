/* Plots of the program and of the system's load and power. */

#include "trace/ingest/ingest_internal.h"

#include <math.h>

int ingest_plot(struct ingest *in, const struct event *ev, struct err *e)
{
    if (!isfinite(ev->plot.value))
        return 0;
    int64_t time = ingest_part_time(in, ev->time);
    ingest_time(in, time);
    return plots_value(&in->trace->plots, ev->plot.name, time, ev->plot.value, e);
}

int ingest_plot_config(struct ingest *in, const struct event *ev, struct err *e)
{
    const struct plot_config config = {.format = ev->plot_config.type,
                                       .show_steps = ev->plot_config.step,
                                       .fill = ev->plot_config.fill,
                                       .color = ev->plot_config.color};
    return plots_configure(&in->trace->plots, ev->plot_config.name, &config, e);
}

int ingest_plot_name(struct ingest *in, const struct event *ev, struct err *e)
{
    struct strings *strings = &in->trace->strings;
    uint32_t text = strings_intern(strings, ev->name.text, e);
    if (!text || strings_bind(strings, ev->name.key, text, e) != 0)
        return -1;
    return plots_name(&in->trace->plots, ev->name.key, text, e);
}

int ingest_system_time(struct ingest *in, const struct event *ev, struct err *e)
{
    int64_t time = ingest_part_time(in, ev->time);
    ingest_time(in, time);
    return plots_system_time(&in->trace->plots, time, ev->number_f, e);
}

int ingest_power(struct ingest *in, const struct event *ev, struct err *e)
{
    int64_t time = ingest_part_time(in, ev->time);
    bool counted;
    if (plots_power(&in->trace->plots, ev->power.name, time, ev->time, ev->power.delta, &counted,
                    e) != 0)
        return -1;
    if (counted)
        ingest_time(in, time);
    return 0;
}
