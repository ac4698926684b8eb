#pragma once

/*
 * Puts nodes, call stacks and keys of the page in the order in which pack_tree and pack_cells take
 * least room: nodes depth first, so that most are the child of the one before; call stacks by their
 * nodes; keys by their call stacks. Call stacks for which the page has no room are folded.
 */

#include "analysis/html/html_data.h"
#include "base/err.h"

/*
 * Folds call stacks but the `whole` most important ones: into the outer frames that those have in
 * common with them, as html_choose_stacks does. -1 if memory is short.
 */
int page_data_arrange(struct page_data *d, uint32_t whole, struct err *e);

/*
 * Leaves out the sites from `sites` on, the last of which matter least: they, their call stacks and
 * frames become "other". For sites and call stacks in the order in which they were chosen.
 */
int page_data_leave_out(struct page_data *d, uint32_t sites, struct err *e);
