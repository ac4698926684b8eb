#pragma once

/*
 * The additional data of a trace for `report --format html`: source and code, zones, messages and
 * plots.
 */

#include <stdio.h>

#include "analysis/figures/selection.h"
#include "analysis/figures/stream_figures.h"
#include "analysis/figures/summary.h"
#include "analysis/html/html_texts.h"
#include "analysis/names/skiplist.h"
#include "analysis/questions/related_input.h"
#include "base/err.h"
#include "trace/store/store.h"

struct page_source {
    struct trace *trace;
    size_t size; /* bytes of the page, at most; PAGE_SIZE at first */
    struct page_texts texts;
    struct related_input input;    /* messages and plots */
    struct stream_figures figures; /* if `counting` */
    bool counting;
};

/* ERR_USAGE and false if this program was built without the page. */
bool page_source_available(struct err *e);

void page_source_init(struct page_source *p, struct trace *t);
void page_source_release(struct page_source *p);

/*
 * Loads the trace, with the data that the selection needs. `resolves`: names are looked up after
 * that, which may divide call stacks.
 */
int page_source_load(struct page_source *p, const char *path, const struct selection_options *only,
                     bool resolves, struct err *e);

/* The figures of a summary of all it has, by thread; NULL: the summary counts the store's events.
 */
struct stream_figures *page_source_figures(struct page_source *p);

/*
 * Writes the HTML report of its summary, which was made with `skip`, stacks and by = GROUP_THREAD.
 * Warns if the page is larger than `size`.
 */
int page_source_write(struct page_source *p, const struct summary *s, const struct skiplist *skip,
                      FILE *out, struct err *e);
