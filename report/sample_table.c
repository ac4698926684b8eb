#include "report/sample_table.h"

#include <inttypes.h>

#include "base/format.h"
#include "report/write/csv_field.h"
#include "report/write/document.h"
#include "report/write/text_cells.h"

#define NAME_WIDTH 48u

/* ---- text */

static void put_share(struct buf *b, uint64_t n, uint64_t whole)
{
    char text[FORMAT_SIZE];
    cell_count(b, n, 10);
    cell(b, format_percent(text, n, whole), 8);
}

static void put_more(struct buf *b, size_t rows, size_t shown)
{
    char n[FORMAT_SIZE];
    if (rows > shown)
        buf_printf(b, "and %s (--limit 0 shows all)\n",
                   format_counted(n, rows - shown, "more row"));
}

static void put_verdict(struct buf *b, const struct sample_profile *p, const struct trace *t)
{
    char a[FORMAT_SIZE];
    char n[FORMAT_SIZE];
    if (p->samples == 0) {
        buf_puts(b, "no call stack samples of what is selected\n");
        return;
    }
    buf_printf(b, "%s of %s", format_counted(a, p->samples, "call stack sample"),
               format_counted(n, p->threads.len, "thread"));
    if (t->facts.sampling_period)
        buf_printf(b, ", one every %s of a running thread",
                   format_duration(a, t->facts.sampling_period));
    if (p->stackless)
        buf_printf(b, "; the trace has no call stack of %s", format_count(a, p->stackless));
    buf_puts(b, "\n");
    if (p->switch_samples)
        buf_printf(b, "%s taken at context switches: not counted\n",
                   format_counted(a, p->switch_samples, "further sample"));
}

static void text_threads(struct buf *b, const struct sample_profile *p, size_t shown)
{
    buf_puts(b, "\n");
    cell_text(b, view_of("Thread"), NAME_WIDTH);
    cell(b, "Samples", 10);
    cell(b, "Share", 8);
    buf_puts(b, "\n");
    for (size_t i = 0; i < shown; i++) {
        const struct sample_thread_row *r = &p->threads.at[i];
        char number[32];
        snprintf(number, sizeof number, "thread %" PRIu64, r->id);
        cell_text(b, r->name.len ? r->name : view_of(number), NAME_WIDTH);
        put_share(b, r->samples, p->samples);
        buf_puts(b, "\n");
    }
    put_more(b, p->threads.len, shown);
}

static void text_functions(struct buf *b, const struct sample_profile *p, size_t shown)
{
    struct buf name = {0};
    buf_puts(b, "\n");
    cell_text(b, view_of("Function"), NAME_WIDTH);
    cell(b, "Self", 10);
    cell(b, "Share", 8);
    cell(b, "Total", 10);
    cell(b, "Share", 8);
    buf_puts(b, "\n");
    for (size_t i = 0; i < shown; i++) {
        const struct sample_function_row *r = &p->functions.at[i];
        buf_clear(&name);
        frame_short_name(&name, &r->frame);
        cell_text(b, (struct view){(const char *)name.data, name.len}, NAME_WIDTH);
        put_share(b, r->self, p->samples);
        put_share(b, r->total, p->samples);
        buf_puts(b, "\n");
    }
    buf_end(&name, &b->failed);
    put_more(b, p->functions.len, shown);
}

static void write_text(struct document *d, const struct sample_profile *p, const struct trace *t,
                       uint64_t limit)
{
    put_verdict(&d->buf, p, t);
    if (p->samples == 0)
        return;
    text_threads(&d->buf, p, rows_shown(p->threads.len, limit));
    text_functions(&d->buf, p, rows_shown(p->functions.len, limit));
}

/* ---- JSON */

static json_t *function_json(const struct sample_function_row *r)
{
    char address[24];
    snprintf(address, sizeof address, "0x%" PRIx64, r->frame.address);
    json_t *o = json_with(json_object(), "function", json_text_or_null(r->frame.function));
    o = json_with(o, "file", json_text_or_null(r->frame.file));
    o = json_with(o, "image", json_text_or_null(r->frame.image));
    if (r->frame.function.len == 0)
        o = json_with(o, "address", json_string(address));
    o = json_with(o, "self", json_count(r->self));
    return json_with(o, "total", json_count(r->total));
}

static void write_json(struct document *d, const struct sample_profile *p, const struct trace *t,
                       uint64_t limit)
{
    document_begin_json(d, "tidemark.samples/1", t);
    document_member(d, "samples", json_count(p->samples));
    document_member(d, "samples_without_call_stack", json_count(p->stackless));
    document_member(d, "context_switch_samples", json_count(p->switch_samples));
    document_member(d, "sampling_period_ns", json_integer(t->facts.sampling_period));
    document_list(d, "threads");
    for (size_t i = 0; i < rows_shown(p->threads.len, limit); i++) {
        const struct sample_thread_row *r = &p->threads.at[i];
        json_t *o = json_with(json_object(), "thread", json_text_or_null(r->name));
        o = json_with(o, "id", json_count(r->id));
        document_element(d, json_with(o, "samples", json_count(r->samples)));
    }
    document_list_end(d);
    document_list(d, "functions");
    for (size_t i = 0; i < rows_shown(p->functions.len, limit); i++)
        document_element(d, function_json(&p->functions.at[i]));
    document_list_end(d);
    document_close(d);
}

/* ---- CSV */

static void write_csv(struct document *d, const struct sample_profile *p, uint64_t limit)
{
    struct buf name = {0};
    buf_puts(&d->buf, "kind,name,file,image,self,total\n");
    for (size_t i = 0; i < rows_shown(p->threads.len, limit); i++) {
        const struct sample_thread_row *r = &p->threads.at[i];
        buf_puts(&d->buf, "thread,");
        if (r->name.len)
            csv_field(&d->buf, r->name);
        else
            buf_printf(&d->buf, "%" PRIu64, r->id);
        buf_printf(&d->buf, ",,,,%" PRIu64 "\n", r->samples);
    }
    for (size_t i = 0; i < rows_shown(p->functions.len, limit); i++) {
        const struct sample_function_row *r = &p->functions.at[i];
        buf_clear(&name);
        frame_name(&name, &r->frame);
        buf_puts(&d->buf, "function,");
        csv_field(&d->buf, (struct view){(const char *)name.data, name.len});
        buf_puts(&d->buf, ",");
        csv_field(&d->buf, r->frame.file);
        buf_puts(&d->buf, ",");
        csv_field(&d->buf, r->frame.image);
        buf_printf(&d->buf, ",%" PRIu64 ",%" PRIu64 "\n", r->self, r->total);
        document_flush(d);
    }
    buf_end(&name, &d->failed);
}

int sample_table_write(const struct sample_profile *p, const struct trace *t,
                       enum report_format format, uint64_t limit, FILE *out, struct err *e)
{
    struct document d = document_begin(out);
    if (format == REPORT_TEXT)
        write_text(&d, p, t, limit);
    else if (format == REPORT_JSON)
        write_json(&d, p, t, limit);
    else
        write_csv(&d, p, limit);
    return document_end(&d, e);
}
