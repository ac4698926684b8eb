#pragma once

/* The tools. Each answers one kind of request about traces, in pages. Tools only read traces. */

#include <jansson.h>

#include "base/err.h"
#include "mcp/traces.h"

#define RESULTS_MAX 4

/* A result kept for its next page. */
struct kept_result {
    uint64_t question; /* hash of the request */
    uint64_t used;
    struct tidetrace_result *result;
};

struct tools {
    struct traces traces;
    struct kept_result results[RESULTS_MAX];
};

int tools_init(struct tools *t, const char *root, uint64_t memory, struct err *e);
void tools_release(struct tools *t);

/* The tools as clients see them; NULL if memory is short. */
json_t *tools_list(void);

/*
 * What an agent should know of all tools: in which order to ask, and the parameters that many of
 * them have. NULL if memory is short.
 */
json_t *tools_instructions(void);

bool tools_have(const char *name);

/*
 * Calls a tool. `arguments` is an object or NULL. Returns the answer, or NULL with `e` set to a
 * text that helps a model correct the call.
 */
json_t *tools_call(struct tools *t, const char *name, const json_t *arguments, struct err *e);
