#ifndef TIDEMARK_REPORT_WRITE_MARKUP_H
#define TIDEMARK_REPORT_WRITE_MARKUP_H

/*
 * Text of a trace within Markdown, XML and SVG: made harmless as for a terminal first, so that only
 * well-formed printable UTF-8 is left, and then so that no character of it is markup.
 */

#include "base/buf.h"
#include "base/view.h"

/* In Markdown, also within a table: numbers for all characters that could mean a thing. */
void markup_text(struct buf *out, struct view text);

/* The same within `<code>`. */
void markup_code(struct buf *out, struct view text);

/* For XML, between tags and in attributes. */
void markup_xml(struct buf *out, struct view text);

#endif
