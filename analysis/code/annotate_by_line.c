/* Functions whose frames have source lines and no addresses, as those of Python: line by line. */

#include <stdlib.h>

#include "analysis/code/annotate_parts.h"
#include "base/order.h"

/* A function of more lines is shown without those that no call stack passes through. */
#define LINES_MAX 20000u

bool annotate_frame_line(const struct annotation *a, uint32_t frame, struct frame_view *view)
{
    const struct frame *f = &a->trace->callstacks.frames.at[frame];
    for (uint32_t k = 0; f->id & FRAME_ID_CUSTOM && k < f->n; k++) {
        *view = frame_describe(a->trace, frame, k);
        if (view_equal(view->function, a->function.name) &&
            view_equal(view->file, a->function.file))
            return true;
    }
    return false;
}

struct annotate_line *annotate_line_numbered(struct annotation *a, uint32_t number)
{
    size_t next = 0;
    BISECT(next, a->places.len, i, a->places.at[i].frame.line < number);
    return next < a->lines.len && a->places.at[next].frame.line == number ? &a->lines.at[next]
                                                                          : NULL;
}

static int compare_places(const void *a, const void *b)
{
    const struct annotate_place *x = a, *y = b;
    return (x->frame.line > y->frame.line) - (x->frame.line < y->frame.line);
}

/* Sorts the places by line, each once. */
static void sort_places(struct annotation *a)
{
    size_t kept = 0;
    if (a->places.len)
        qsort(a->places.at, a->places.len, sizeof *a->places.at, compare_places);
    for (size_t i = 0; i < a->places.len; i++) {
        if (kept == 0 || a->places.at[kept - 1].frame.line != a->places.at[i].frame.line)
            a->places.at[kept++] = a->places.at[i];
    }
    a->places.len = kept;
}

static int fill_gaps(struct annotation *a, struct err *e)
{
    size_t n = a->places.len;
    if (n == 0 || a->places.at[0].frame.line == 0 ||
        a->places.at[n - 1].frame.line - a->places.at[0].frame.line >= LINES_MAX)
        return 0;
    for (size_t i = 0; i + 1 < n; i++) {
        struct annotate_place between = a->places.at[i];
        for (uint32_t end = a->places.at[i + 1].frame.line; ++between.frame.line < end;) {
            if (!vec_push(&a->places, between))
                return err_no_memory(e, "source lines");
        }
    }
    sort_places(a);
    return 0;
}

int annotate_add_lines(struct annotation *a, bool all, struct err *e)
{
    for (uint32_t i = 0; i < a->trace->callstacks.frames.len; i++) {
        struct annotate_place place = {0};
        if (annotate_frame_line(a, i, &place.frame) && !vec_push(&a->places, place))
            return err_no_memory(e, "source lines");
    }
    sort_places(a);
    if (all && fill_gaps(a, e) != 0)
        return -1;
    for (size_t i = 0; i < a->places.len; i++) {
        if (!vec_push(&a->lines, (struct annotate_line){.place = (uint32_t)i}))
            return err_no_memory(e, "source lines");
    }
    return 0;
}
