#ifndef TIDEMARK_MCP_TOOL_PARAMS_H
#define TIDEMARK_MCP_TOOL_PARAMS_H

/* Parameters shared by several tools. For mcp/tools*.c and mcp/tool_*.c only. */

#include "mcp/params.h"

extern const struct param trace_params[];     /* trace */
extern const struct param selection_params[]; /* which allocations */
extern const struct param page_params[];      /* limit, cursor, call_stack_frames */

/* Some JSON readers cannot represent larger whole numbers exactly. */
#define WHOLE_MAX ((int64_t)1 << 53)
#define TIMES_MAX ((int64_t)1 << 48)

#endif
