#pragma once

/* Parameters shared by several tools. For mcp/tools*.c and mcp/tool_*.c only. */

#include "mcp/params.h"
#include "mcp/result_cursor.h"

extern const struct param trace_params[];           /* trace */
extern const struct param first_selection_params[]; /* only, and its members by name */
extern const struct param selection_params[];       /* the same, after a tool that has named them */
extern const struct param selection_members[];      /* of `only`: which allocations */
extern const struct param skip_params[];            /* skip */
extern const struct param bytes_params[];           /* bytes, frames */
extern const struct param page_params[];            /* limit, cursor */

/* Some JSON readers cannot represent larger whole numbers exactly. */
#define WHOLE_MAX ((int64_t)1 << 53)
#define TIMES_MAX ((int64_t)1 << 48)
