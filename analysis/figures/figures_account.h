#pragma once

#include "analysis/figures/accounting.h"
#include "analysis/figures/selection.h"
#include "base/err.h"

/*
 * Fills a newly initialised accounting as a sweep over the selection does: by one, or from the
 * figures of a trace of figures only (figures_only.h). ERR_CHECK where these do not suffice. They
 * need an accounting whose keys are call stacks or groups of them.
 */
int figures_account(struct selection *s, struct accounting *a, struct err *e);
