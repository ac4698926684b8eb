/* What the formats of a diff share: figures, names and ranges of rows. */

#include <inttypes.h>
#include <string.h>

#include "analysis/names/function_name.h"
#include "report/diff_text.h"
#include "report/write/text_cells.h"

void diff_row_name(struct buf *out, const struct diff_row *r, enum diff_by by)
{
    if (by == DIFF_TYPE) {
        struct view name = r->type.len ? r->type : view_of("[no type]");
        buf_put(out, name.p, name.len);
        return;
    }
    put_site(out, &r->frame, r->no_callstack);
    if (!r->side[0].there || !r->side[1].there)
        return;
    if (!r->frame.has_name && !view_equal(r->before.function, r->frame.function)) {
        buf_puts(out, ", before: ");
        frame_short_name(out, &r->before);
    } else if (r->frame.line != r->before.line && r->before.line) {
        buf_printf(out, ", before: line %" PRIu32, r->before.line);
    }
}

void diff_row_type(struct buf *out, const struct diff_row *r)
{
    type_name_short(out, r->type);
    if (r->more_types)
        buf_printf(out, ", +%" PRIu32, r->more_types);
}

bool diff_has_types(const struct diff_writer *w)
{
    for (size_t i = 0; i < w->d->rows.len && w->d->options.by != DIFF_TYPE; i++) {
        if (w->d->rows.at[i].type.len)
            return true;
    }
    return false;
}

struct diff_range diff_rows_of(const struct diff_writer *w, enum diff_kind kind)
{
    struct diff_range range = {.count = (size_t)w->d->count[kind]};
    for (int k = 0; k < (int)kind; k++)
        range.first += (size_t)w->d->count[k];
    uint64_t limit = w->options->limit;
    range.shown = limit && limit < range.count ? (size_t)limit : range.count;
    return range;
}
