#ifndef TIDEMARK_REPORT_HTML_HTML_H
#define TIDEMARK_REPORT_HTML_HTML_H

/*
 * A memory report as one self-contained HTML file: the page that is built from web/, with the data
 * in it as a block of JSON ("schema": "tidemark.page/1"). Text of the trace is made harmless as for
 * a terminal, and nothing in the block can end it: `<`, `>` and `&` are escaped.
 */

#include <stdbool.h>
#include <stdio.h>

#include "analysis/html/html_data.h"
#include "analysis/html/html_texts.h"
#include "base/err.h"

/* False when this program was built without the page. */
bool html_available(void);

/*
 * Writes the page. Steps of time in `d` become longer when the page would get too large.
 * ERR_OUTPUT when `out` cannot be written.
 */
int html_write(struct page_data *d, const struct page_texts *texts, FILE *out, struct err *e);

#endif
