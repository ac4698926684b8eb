#pragma once

/*
 * What grew as a process came near the end of its memory, as trace/store/limit_watch.h finds in the
 * readings of the kernel's plots: near the limit of its memory cgroup, or else under pressure. The
 * growth is that of the live blocks from the last reading before that was far from it to the one
 * with the highest use (or pressure), or to the end of the trace if the OOM killer killed the
 * program. The cgroup's use includes other processes and cached files.
 */

#include "base/err.h"
#include "trace/store/store.h"

/*
 * Adds the facts (struct near_limit of analysis/figures/summary_facts.h) if the limit was near. `t`
 * has its events, names, plots, and how it ended.
 */
int near_limit_note(struct trace *t, struct err *e);
