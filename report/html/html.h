#pragma once

/*
 * Writes a memory report as one self-contained HTML file: the page built from web/, with the data
 * as a block of JSON ("schema": "tidemark.page/4"). Text of the trace is escaped as for a terminal.
 * `<`, `>` and `&` are escaped, so nothing in the block can end it.
 */

#include <stdbool.h>
#include <stdio.h>

#include "analysis/html/html_data.h"
#include "analysis/html/html_lanes.h"
#include "analysis/html/html_texts.h"
#include "base/err.h"

/* False if this program was built without the page. */
bool html_available(void);

/*
 * Writes the page, and sets *written to its bytes. If it would exceed d->size, the time steps in
 * `d` are made longer; if one step is left, it exceeds it. ERR_OUTPUT if `out` cannot be written.
 */
int html_write(struct page_data *d, const struct page_texts *texts, const struct page_lanes *lanes,
               FILE *out, size_t *written, struct err *e);

/* Writes the data alone, as JSON, for a page that is there already. ERR_OUTPUT as above. */
int html_write_data(struct page_data *d, const struct page_texts *texts,
                    const struct page_lanes *lanes, FILE *out, struct err *e);
