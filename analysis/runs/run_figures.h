#pragma once

/*
 * The figures of one run, without its trace: pools, sites and faults of a summary. They are kept as
 * JSON ("tidemark.figures/1", written by report/runs_report.h), so that a baseline of many runs
 * takes little room.
 */

#include <stdbool.h>

#include "analysis/figures/summary.h"
#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"

struct run_figures {
    char *name; /* of the file that they are from */
    char *program;
    /*
     * Only what budgets and comparisons need: pools (name, figures, whether they count, permanent
     * blocks), sites (pool, function, file, line, image, permanent, figures), faults (pool, count),
     * empty, verdict.
     */
    struct summary summary;
    VEC(char *) texts; /* the names in `summary` */
};

/* Copies what is needed of a summary by site, before rows were selected. */
int run_figures_take(struct run_figures *f, const char *name, const struct summary *s,
                     struct err *e);

/* Whether a file that begins with these bytes may be JSON: a trace does not begin with "{". */
bool run_figures_is_json(struct view begin);

/* Reads the JSON. ERR_INPUT with the member that is missing or wrong. */
int run_figures_read(struct run_figures *f, const char *name, struct view text, struct err *e);

void run_figures_release(struct run_figures *f);
