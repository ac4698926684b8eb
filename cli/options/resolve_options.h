#pragma once

/* The options of commands that resolve the names of frames. */

#include "base/err.h"
#include "cli/options/option_table.h"
#include "naming/resolve_trace.h"
#include "naming/resolver.h"

/*
 * Of struct resolve_options: where images come from; where files are, and how they are read; the
 * number of threads.
 */
extern const struct option_row resolve_trace_rows[];
extern const struct option_row resolve_source_rows[]; /* --debug-dir and --debuginfod */
extern const struct option_row resolve_file_rows[];
extern const struct option_row resolve_thread_rows[];
