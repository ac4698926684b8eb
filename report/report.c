#include "report/report.h"

#include <string.h>

#include "report/sink.h"

static const struct {
    const char *name;
    const struct report_sink *sink;
} formats[] = {
    [REPORT_TEXT] = {"text", &report_text},
    [REPORT_JSON] = {"json", &report_json},
    [REPORT_CSV] = {"csv", &report_csv},
};

bool report_format_parse(const char *text, enum report_format *format)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(text, formats[i].name) == 0) {
            *format = (enum report_format)i;
            return true;
        }
    }
    return false;
}

#define WRITE_AT 65536u

/* Passes finished output to the stream, so that memory does not grow with the number of rows. */
static void flush(struct report *r, size_t keep)
{
    if (r->buf.len <= keep)
        return;
    r->failed |= r->buf.failed;
    (void)fwrite(r->buf.data, 1, r->buf.len, r->out); /* ferror reports it at the end */
    buf_clear(&r->buf);
}

static void call(struct report *r, void (*function)(struct report *))
{
    if (function)
        function(r);
    flush(r, WRITE_AT);
}

static void write_rows(struct report *r, const struct report_sink *to, const struct row_list *rows,
                       bool groups)
{
    r->resident = r->s->has_resident && (!groups || grouping_has_resident(r->s->by));
    if (to->rows_begin)
        to->rows_begin(r, rows, groups);
    for (size_t i = 0; i < rows->len; i++) {
        to->row(r, &rows->at[i]);
        flush(r, WRITE_AT);
    }
    if (to->rows_end)
        to->rows_end(r, rows, groups);
}

int report_write(const struct summary *s, const struct report_options *options, FILE *out,
                 struct err *e)
{
    const struct report_sink *to = formats[options->format].sink;
    struct report r = {.s = s, .options = options, .out = out};
    call(&r, to->begin);
    call(&r, to->pools_begin);
    for (size_t i = 0; i < s->pools.len && to->pool; i++)
        to->pool(&r, &s->pools.at[i]);
    call(&r, to->pools_end);
    if (s->by == GROUP_SITE || to->sites_and_groups)
        write_rows(&r, to, &s->sites, false);
    if (s->by != GROUP_SITE)
        write_rows(&r, to, &s->groups, true);
    call(&r, to->faults_begin);
    for (size_t i = 0; i < s->faults.len && to->fault; i++)
        to->fault(&r, &s->faults.at[i]);
    call(&r, to->faults_end);
    call(&r, to->checks_begin);
    for (size_t i = 0; i < s->checks.len && to->check; i++)
        to->check(&r, &s->checks.at[i]);
    call(&r, to->checks_end);
    call(&r, to->end);
    flush(&r, 0);
    bool failed = r.failed;
    buf_release(&r.buf);
    if (failed)
        return err_no_memory(e, "the report");
    if (fflush(out) != 0 || ferror(out))
        return err_errno(e, ERR_OUTPUT, "cannot write the report");
    return 0;
}
