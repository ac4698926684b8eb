#pragma once

/*
 * Escapes text of a trace for Markdown, XML and SVG. First escapes it as for a terminal, so that
 * only well-formed printable UTF-8 is left, then so that no character acts as markup.
 */

#include "base/buf.h"
#include "base/view.h"

/*
 * The first line of documents in Markdown, an HTML comment that is not displayed: a bot finds the
 * comment by it that it wrote before, and replaces it.
 */
#define MARKUP_MARKER "<!-- tidemark -->\n"

/*
 * For Markdown, also in tables: replaces characters that can act as markup by numeric references,
 * and leaves the others, so that the source can be read.
 */
void markup_text(struct buf *out, struct view text);

/*
 * For Markdown, as code, also in tables: between backticks, where nothing is markup, or, if the
 * text itself has one or a vertical bar, as <code>.
 */
void markup_code(struct buf *out, struct view text);

/* For XML, between tags and in attributes. */
void markup_xml(struct buf *out, struct view text);
