#pragma once

/*
 * A session of the Model Context Protocol, as a function of its input: lines in, lines out. It
 * offers tools and no other feature of the protocol.
 *
 * It supports the revisions 2025-06-18, 2025-03-26 (which has batches) and 2024-11-05, and answers
 * a client that requests another one with the newest. Source:
 * modelcontextprotocol.io/specification.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/view.h"
#include "mcp/tools.h"

enum mcp_revision { MCP_2024_11_05, MCP_2025_03_26, MCP_2025_06_18, MCP_REVISIONS };

struct session {
    struct tools tools;
    bool initialized;
    enum mcp_revision revision;
};

/* `root` may be NULL; `memory`: see traces.h. */
int session_init(struct session *s, const char *root, uint64_t memory, struct err *e);
void session_release(struct session *s);

/* Takes a line, without its end, and appends the answer: one line, or nothing. */
void session_take(struct session *s, struct view line, struct buf *out);

/* Answers a line that exceeded RPC_LINE_MAX and was not stored. */
void session_take_too_long(struct buf *out);
