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

static void call(struct report *r, void (*function)(struct report *))
{
    if (function)
        function(r);
    document_flush(&r->doc);
}

static void write_rows(struct report *r, const struct report_sink *to, const struct row_list *rows,
                       bool groups)
{
    r->resident = r->s->has_resident && (!groups || grouping_has_resident(r->s->by));
    if (to->rows_begin)
        to->rows_begin(r, rows, groups);
    for (size_t i = 0; i < rows->len; i++) {
        to->row(r, &rows->at[i]);
        document_flush(&r->doc);
    }
    if (to->rows_end)
        to->rows_end(r, rows, groups);
}

int report_write(const struct summary *s, const struct report_options *options, FILE *out,
                 struct err *e)
{
    const struct report_sink *to = formats[options->format].sink;
    struct report r = {.s = s, .options = options, .doc = document_begin(out)};
    if (options->format == REPORT_TEXT)
        document_fit(&r.doc);
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
    return document_end(&r.doc, e);
}
