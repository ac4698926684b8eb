#include "report/write/document.h"

#include "analysis/figures/summary.h"
#include "base/format.h"

#define WRITE_AT 65536u

static void write_out(struct document *d)
{
    d->failed |= d->buf.failed;
    if (d->buf.len)
        write_folded(d->form, buf_view(&d->buf), d->out);
    buf_clear(&d->buf);
}

void document_flush(struct document *d)
{
    bool line_open = d->form.width && d->buf.len && d->buf.data[d->buf.len - 1] != '\n';
    if ((d->buf.len > WRITE_AT && !line_open) || d->buf.failed)
        write_out(d);
}

void left_out_text(struct document *d, unsigned columns)
{
    char text[FORMAT_SIZE];
    if (columns == 0)
        return;
    tint(&d->buf, d->form, TINT_FAINT);
    buf_printf(&d->buf, "%s %s no room here", format_counted(text, columns, "more column"),
               columns == 1 ? "has" : "have");
    tint_end(&d->buf, d->form, TINT_FAINT);
    buf_puts(&d->buf, "\n");
}

int document_end(struct document *d, struct err *e)
{
    write_out(d);
    bool failed = d->failed;
    buf_release(&d->buf);
    if (failed)
        return err_no_memory(e, "the output");
    if (fflush(d->out) != 0 || ferror(d->out))
        return err_errno(e, ERR_OUTPUT, "cannot write the output");
    return 0;
}

void document_open(struct document *d, const char *schema)
{
    buf_printf(&d->buf, "{\"schema\": \"%s\"", schema);
}

void document_close(struct document *d)
{
    buf_puts(&d->buf, "\n}\n");
}

void document_member(struct document *d, const char *key, json_t *value)
{
    buf_printf(&d->buf, ",\n \"%s\": ", key);
    d->failed |= !json_put(&d->buf, value, JSON_ENCODE_ANY);
}

void document_list(struct document *d, const char *key)
{
    buf_printf(&d->buf, ",\n \"%s\": [", key);
    d->first = true;
}

void document_element(struct document *d, json_t *value)
{
    buf_puts(&d->buf, d->first ? "\n  " : ",\n  ");
    d->first = false;
    d->failed |= !json_put(&d->buf, value, JSON_ENCODE_ANY);
    document_flush(d);
}

void document_list_end(struct document *d)
{
    buf_puts(&d->buf, d->first ? "]" : "\n ]");
}

json_t *document_trace(const struct trace *t)
{
    const struct trace_facts *f = &t->facts;
    char version[FILE_VERSION_TEXT_SIZE] = "";
    char date[FORMAT_SIZE];
    if (f->file_version)
        file_version_text(f->file_version, version);
    struct view heap = trace_fact(t, "runtime_heap", 0);
    json_t *trace = json_pack(
        "{s:o, s:o, s:o, s:I}", "file_version", version[0] ? json_string(version) : json_null(),
        "program", json_text_or_null(strings_get(&t->strings, f->program)), "captured_at",
        f->capture_time ? json_string(format_date(date, f->capture_time)) : json_null(),
        "duration_ns", (json_int_t)f->last_time);
    return heap.p ? json_with(trace, "runtime_heap", json_text(heap)) : trace;
}

void document_begin_json(struct document *d, const char *schema, const struct trace *t)
{
    document_open(d, schema);
    document_member(d, "trace", document_trace(t));
}
