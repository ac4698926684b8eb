#pragma once

/* An allocation site within a sentence. */

#include "analysis/names/frames.h"
#include "base/buf.h"
#include "base/view.h"

/*
 * Appends "name (file.c:12)", escaped as for a terminal; a long name loses its middle. `name` may
 * hold any bytes.
 */
void answer_put_site(struct buf *out, struct view name, const struct frame_view *f);
