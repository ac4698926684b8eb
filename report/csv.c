/* The rows of a report as CSV. */

#include <inttypes.h>

#include "report/cost.h"
#include "report/sink.h"
#include "report/write/counter_columns.h"
#include "report/write/csv_field.h"

static void field(struct report *r, struct view text)
{
    csv_field(&r->doc.buf, text);
}

static void csv_rows_begin(struct report *r, const struct row_list *rows, bool groups)
{
    (void)rows;
    buf_puts(&r->doc.buf, "pool,name,function,file,line,image,type");
    counter_csv_titles(&r->doc.buf);
    buf_puts(&r->doc.buf, r->resident ? ",resident_bytes" : "");
    if (groups)
        csv_cost_titles(r);
    buf_puts(&r->doc.buf, "\n");
}

static void csv_row(struct report *r, const struct summary_row *row)
{
    struct buf *b = &r->doc.buf;
    struct buf name = {0};
    summary_row_name(&name, row);
    r->doc.failed |= name.failed;
    field(r, r->s->pools.at[row->pool].name);
    buf_puts(b, ",");
    field(r, buf_view(&name));
    buf_puts(b, ",");
    csv_site(b, &row->frame, false);
    buf_puts(b, ",");
    field(r, row->type);
    counter_csv(b, &row->figures);
    if (r->resident)
        buf_printf(b, ",%" PRIu64, row->resident_bytes);
    csv_cost(r, row);
    buf_puts(b, "\n");
    buf_release(&name);
}

const struct report_sink report_csv = {.rows_begin = csv_rows_begin, .row = csv_row};
