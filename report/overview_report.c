#include "report/overview_report.h"

#include <inttypes.h>
#include <string.h>

#include "base/format.h"
#include "report/write/emit.h"
#include "report/write/json_value.h"

/* ---- text */

static void label(struct buf *b, const char *name)
{
    buf_printf(b, "%-26s ", name);
}

static void line(struct buf *b, const char *name, const char *value)
{
    label(b, name);
    buf_puts(b, value);
    buf_puts(b, "\n");
}

static void line_view(struct buf *b, const char *name, struct view value)
{
    label(b, name);
    if (value.len)
        format_terminal(b, value);
    else
        buf_puts(b, "-");
    buf_puts(b, "\n");
}

/* Writes a text of several lines; all but the first are indented. */
static void line_paragraph(struct buf *b, const char *name, struct view text)
{
    const char *label_of = name;
    while (text.len) {
        const char *end = memchr(text.p, '\n', text.len);
        size_t n = end ? (size_t)(end - text.p) : text.len;
        if (n)
            line_view(b, label_of, (struct view){text.p, n});
        label_of = "";
        n += end != NULL;
        text.p += n;
        text.len -= n;
    }
}

static void put_file(struct buf *b, const struct overview *o)
{
    const struct container_info *c = &o->info->container;
    char a[FORMAT_SIZE];
    char d[FORMAT_SIZE];
    line(b, "file version", o->file_version);
    label(b, "container");
    buf_printf(b, "%s, %s, %u stream%s\n", o->container, o->compression, c->streams,
               c->streams == 1 ? "" : "s");
    label(b, "size");
    buf_printf(b, "%s, uncompressed %s", format_bytes_exact(a, c->file_bytes),
               format_bytes(d, o->info->inner_bytes));
    if (c->file_bytes)
        buf_printf(b, " (%.1f to 1)", (double)o->info->inner_bytes / (double)c->file_bytes);
    buf_puts(b, "\n");
    if (o->stored == OVERVIEW_STORED_ONLY)
        line(b, "stored figures", "figures only, no events");
    if (o->stored == OVERVIEW_STORED_NONE)
        line(b, "stored figures", "none: `tidemark report` counts the events");
    if (o->stored != OVERVIEW_STORED_THERE)
        return;
    label(b, "stored figures");
    buf_printf(b, "%s of the file: `tidemark report` need not count the events\n",
               format_bytes(a, o->stored_bytes));
}

static void put_origin(struct buf *b, const struct overview *o)
{
    const struct trace_facts *f = &o->trace->facts;
    const struct strings *s = &o->trace->strings;
    char a[FORMAT_SIZE];
    line_view(b, "program", strings_get(s, f->program));
    line_view(b, "capture name", strings_get(s, f->capture_name));
    line_paragraph(b, "host", strings_get(s, f->host_info));
    label(b, "process");
    buf_printf(b, "%" PRIu64 "\n", f->pid);
    line(b, "captured", format_date(a, f->capture_time));
    line(b, "executable of", format_date(a, f->executable_time));
    line(b, "duration", format_duration(a, f->last_time));
    line(b, "client", f->on_demand ? "on-demand" : "not on-demand");
    label(b, "processor");
    buf_puts(b, o->cpu);
    size_t n = strnlen(f->cpu_manufacturer, sizeof f->cpu_manufacturer);
    if (n) {
        buf_puts(b, ", ");
        format_terminal(b, (struct view){f->cpu_manufacturer, n});
    }
    buf_puts(b, "\n");
    line(b, "timer resolution", format_duration(a, f->resolution));
    if (f->sampling_period)
        line(b, "sampling period", format_duration(a, f->sampling_period));
}

static void put_memory(struct buf *b, const struct overview *o)
{
    const struct summary *s = o->summary;
    line_view(b, "memory", (struct view){(const char *)s->verdict.data, s->verdict.len});
    char n[FORMAT_SIZE];
    char live[FORMAT_SIZE];
    char peak[FORMAT_SIZE];
    for (size_t i = 0; i < s->pools.len; i++) {
        const struct summary_pool *p = &s->pools.at[i];
        label(b, i ? "" : "pools");
        format_terminal(b, p->name);
        buf_printf(
            b, ": %s, %s live, peak %s\n", format_counted(n, p->figures.allocations, "allocation"),
            format_bytes(live, p->figures.live_bytes), format_bytes(peak, p->figures.peak_bytes));
    }
}

static void put_contents(struct buf *b, const struct overview *o)
{
    char n[FORMAT_SIZE];
    char d[FORMAT_SIZE];
    buf_puts(b, "\nholds\n");
    for (size_t i = 0; i < o->count_count; i++) {
        if (o->counts[i].n)
            buf_printf(b, "  %-24s %14s\n", o->counts[i].name, format_count(n, o->counts[i].n));
    }
    buf_puts(b, "\nholds no ");
    const char *comma = "";
    for (size_t i = 0; i < o->count_count; i++) {
        if (o->counts[i].n == 0) {
            buf_printf(b, "%s%s", comma, o->counts[i].name);
            comma = ", ";
        }
    }
    buf_puts(b, "\n\nbytes\n");
    for (unsigned i = 0; i < TRACE_PART_COUNT; i++) {
        if (o->info->part_bytes[i])
            buf_printf(b, "  %-24s %14s  %6s\n", trace_part_name((enum trace_part)i),
                       format_count(n, o->info->part_bytes[i]),
                       format_percent(d, o->info->part_bytes[i], o->info->inner_bytes));
    }
    buf_puts(b, "\n");
    label(b, "symbols resolved");
    buf_printf(b, "%s", format_percent(d, o->resolved, o->frames));
    buf_printf(b, " (%s of", format_count(n, o->resolved));
    buf_printf(b, " %s frames)\n", format_count(n, o->frames));
}

static void put_facts(struct buf *b, const struct overview *o)
{
    char n[FORMAT_SIZE];
    label(b, "complete");
    buf_puts(b, o->summary->continued  ? "no, it goes on in the next part"
                : o->summary->complete ? "yes, as far as the trace says"
                                       : "no");
    buf_puts(b, "\n");
    for (size_t i = 0; i < o->facts.len; i++) {
        const struct overview_fact *f = &o->facts.at[i];
        buf_puts(b, i ? "" : "facts\n");
        buf_puts(b, "  ");
        format_terminal(b, f->key);
        buf_puts(b, ": ");
        if (f->n == 1)
            format_terminal(b, f->value);
        else
            buf_printf(b, "%s entries", format_count(n, f->n));
        buf_puts(b, "\n");
    }
    for (unsigned i = 0; i < o->info->warning_count && i < TRACE_WARNINGS_MAX; i++)
        line_view(b, "warning", view_of(o->info->warnings[i]));
}

/* ---- JSON */

static json_t *make_file(const struct overview *o)
{
    const struct container_info *c = &o->info->container;
    json_t *parts = json_object();
    for (unsigned i = 0; parts && i < TRACE_PART_COUNT; i++)
        parts = json_with(parts, trace_part_name((enum trace_part)i),
                          json_count(o->info->part_bytes[i]));
    json_t *file = json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:o}", "version", o->file_version,
                             "container", o->container, "compression", o->compression, "streams",
                             (int)c->streams, "bytes", json_count(c->file_bytes), "inner_bytes",
                             json_count(o->info->inner_bytes), "part_bytes", parts);
    if (file && o->stored != OVERVIEW_STORED_UNKNOWN)
        file = json_with(file, "stored_figure_bytes", json_count(o->stored_bytes));
    if (file && o->stored == OVERVIEW_STORED_ONLY)
        file = json_with(file, "figures_only", json_true());
    return file;
}

static json_t *make_origin(const struct overview *o)
{
    const struct trace_facts *f = &o->trace->facts;
    const struct strings *s = &o->trace->strings;
    char captured[FORMAT_SIZE];
    char built[FORMAT_SIZE];
    size_t n = strnlen(f->cpu_manufacturer, sizeof f->cpu_manufacturer);
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:s, s:s, s:I, s:b, s:s, s:o, s:I, s:I}", "program",
        json_text(strings_get(s, f->program)), "capture_name",
        json_text(strings_get(s, f->capture_name)), "host", json_text(strings_get(s, f->host_info)),
        "pid", json_count(f->pid), "captured_at", format_date(captured, f->capture_time),
        "executable_at", format_date(built, f->executable_time), "duration_ns",
        (json_int_t)f->last_time, "on_demand", f->on_demand ? 1 : 0, "cpu", o->cpu,
        "cpu_manufacturer", json_text((struct view){f->cpu_manufacturer, n}), "resolution_ns",
        (json_int_t)f->resolution, "sampling_period_ns", (json_int_t)f->sampling_period);
}

static json_t *make_pools(const struct overview *o)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < o->summary->pools.len; i++) {
        const struct summary_pool *p = &o->summary->pools.at[i];
        json_t *v = json_pack("{s:o, s:o, s:o, s:o}", "name", json_text(p->name), "allocations",
                              json_count(p->figures.allocations), "live_bytes",
                              json_count(p->figures.live_bytes), "peak_bytes",
                              json_count(p->figures.peak_bytes));
        list = json_add(list, v);
    }
    return list;
}

static json_t *make_counts(const struct overview *o)
{
    json_t *counts = json_object();
    for (size_t i = 0; counts && i < o->count_count; i++) {
        char key[40];
        size_t n = 0;
        for (const char *p = o->counts[i].name; *p && n + 1 < sizeof key; p++)
            key[n++] = *p == ' ' ? '_' : *p;
        key[n] = 0;
        counts = json_with(counts, key, json_count(o->counts[i].n));
    }
    return counts;
}

static json_t *make_facts(const struct overview *o)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < o->facts.len; i++) {
        const struct overview_fact *f = &o->facts.at[i];
        json_t *v = json_pack("{s:o, s:o, s:o}", "key", json_text(f->key), "count",
                              json_count(f->n), "value", json_text(f->value));
        list = json_add(list, v);
    }
    return list;
}

static json_t *make_warnings(const struct overview *o)
{
    json_t *list = json_array();
    for (unsigned i = 0; list && i < o->info->warning_count && i < TRACE_WARNINGS_MAX; i++)
        list = json_add(list, json_text(view_of(o->info->warnings[i])));
    return list;
}

static json_t *make_document(const struct overview *o)
{
    json_t *symbols = json_pack("{s:o, s:o}", "frames", json_count(o->frames), "resolved",
                                json_count(o->resolved));
    return json_pack("{s:s, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o}", "schema", "tidemark.info/1",
                     "file", make_file(o), "trace", make_origin(o), "complete",
                     o->summary->complete ? 1 : 0, "counts", make_counts(o), "pools", make_pools(o),
                     "symbols", symbols, "facts", make_facts(o), "warnings", make_warnings(o));
}

int overview_write(const struct overview *o, bool json, FILE *out, struct err *e)
{
    struct buf b = {0};
    bool ok = true;
    if (json) {
        ok = json_put(&b, make_document(o), JSON_INDENT(1));
        buf_puts(&b, "\n");
    } else {
        put_file(&b, o);
        put_origin(&b, o);
        put_memory(&b, o);
        put_contents(&b, o);
        put_facts(&b, o);
    }
    return emit_all(&b, ok, out, "the overview", e);
}
