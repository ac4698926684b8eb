#pragma once

/*
 * A folder of figures of runs, a subfolder for each branch: FOLDER/BRANCH/TIME.json, where TIME is
 * when the run was added, in UTC. So the order of names is that of time.
 */

#include <stdint.h>

#include "analysis/runs/run_figures.h"
#include "base/err.h"

/* The subfolder of a branch: characters that a file's name should not have become %XX. */
char *baseline_branch_folder(const char *folder, const char *branch, struct err *e);

/* The branch of a subfolder's name; the caller frees it. NULL if memory is short. */
char *baseline_branch_name(const char *subfolder);

/* Adds the figures; makes the folders if they do not exist. */
int baseline_add(const char *branch_folder, const struct run_figures *f, struct err *e);

/*
 * Removes the oldest runs: those beyond the newest `keep` (0: no limit), and those that were added
 * more than `seconds` ago (0: no limit). Stores how many remain and how many were removed.
 */
int baseline_retain(const char *branch_folder, uint64_t keep, double seconds, uint64_t *left,
                    uint64_t *removed, struct err *e);
