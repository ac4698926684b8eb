#pragma once

/*
 * The list of the trace files of a folder: "*.tracy" in it and below it, the newest first. Links
 * and hidden folders are passed over.
 */

#include <jansson.h>

#include "base/err.h"
#include "mcp/result_cursor.h"
#include "mcp/tool.h"

/*
 * The document of the tool "traces", for page_fit: rows "path", "bytes" and "modified" (UTC), and
 * "complete": false if there was more than can be listed, or a folder that could not be read.
 */
json_t *trace_files_list(struct tool_call *c, const struct page *p, struct err *e);
