#pragma once

/* Functions shared by the files of annotate.h. */

#include "analysis/code/annotate.h"
#include "trace/store/store.h"

/*
 * Of a function by_line: adds the lines that frames of call stacks have, with `all` those between
 * them, too. places[i] is that of lines[i].
 */
int annotate_add_lines(struct annotation *a, bool all, struct err *e);

/* Whether a frame is in this function; then *view has its line. */
bool annotate_frame_line(const struct annotation *a, uint32_t frame, struct frame_view *view);

/* The line of this number, or NULL. */
struct annotate_line *annotate_line_numbered(struct annotation *a, uint32_t number);

/* The frame of the trace for an address, or NULL. */
const struct frame *annotate_frame_at(const struct trace *t, uint64_t address);

/* Whether an address lies in the function, shown or not. */
static inline bool annotate_is_inside(const struct annotation *a, uint64_t address)
{
    return address - a->function.address < a->function.size;
}

/* The line of an address, or NULL. */
struct annotate_line *annotate_line_at(struct annotation *a, uint64_t address);

/* Counts the selected samples by line and for the function. */
void annotate_count_samples(struct annotation *a, const struct sample_input *samples,
                            const struct selection *s);
