#ifndef TIDEMARK_MCP_TOOLS_H
#define TIDEMARK_MCP_TOOLS_H

/*
 * The tools: each asks one kind of question of one trace, or of two, and gives its answer in pages.
 * They only read traces.
 */

#include <jansson.h>

#include "base/err.h"
#include "mcp/params.h"
#include "mcp/traces.h"

#define RESULTS_MAX 4

/* A result that may be asked for its next page. */
struct kept_result {
    uint64_t question; /* a hash of what was asked */
    uint64_t used;
    struct tidetrace_result *result;
};

struct tools {
    struct traces traces;
    struct kept_result results[RESULTS_MAX];
};

int tools_init(struct tools *t, const char *root, uint64_t memory, struct err *e);
void tools_release(struct tools *t);

/* The tools as clients see them; `newer`: with titles and schemas of outputs (2025-06-18). */
json_t *tools_list(bool newer);

bool tools_have(const char *name);

/*
 * Calls a tool. `arguments` is an object or NULL. The document that answers, or NULL with `e`
 * filled: what a model should read to do better.
 */
json_t *tools_call(struct tools *t, const char *name, const json_t *arguments, struct err *e);

#endif
