#pragma once

#include "analysis/names/frames.h"
#include "base/buf.h"
#include "base/view.h"

/*
 * Appends a field of Tidemark's CSV, quoted as in RFC 4180 if needed; lines end in LF. CSV may be
 * shown on terminals, so control characters of the trace are escaped, except for line ends in
 * quotes.
 */
void csv_field(struct buf *b, struct view text);

/* Appends the columns function, file, line and image of an allocation site. */
void csv_site(struct buf *b, const struct frame_view *f, bool no_callstack);
