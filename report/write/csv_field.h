#ifndef TIDEMARK_REPORT_WRITE_CSV_FIELD_H
#define TIDEMARK_REPORT_WRITE_CSV_FIELD_H

#include "analysis/names/frames.h"
#include "base/buf.h"
#include "base/view.h"

/*
 * Appends a field of our own CSV, quoted as in RFC 4180 where it has to be; lines end in LF. People
 * look at CSV on terminals, too: control characters of the trace are escaped, except for line ends
 * in quotes.
 */
void csv_field(struct buf *b, struct view text);

/* The columns function, file, line and image of an allocation site. */
void csv_site(struct buf *b, const struct frame_view *f, bool no_callstack);

#endif
