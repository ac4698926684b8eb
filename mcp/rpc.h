#pragma once

/*
 * JSON-RPC 2.0 as the Model Context Protocol uses it: one message per line. Parameters are objects;
 * ids are strings or whole numbers.
 */

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/view.h"

/* Length limit of a line, in bytes. */
#define RPC_LINE_MAX (1u << 20)

enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL_ERROR = -32603,
};

enum rpc_kind {
    RPC_REQUEST,      /* expects an answer */
    RPC_NOTIFICATION, /* expects no answer */
    RPC_RESPONSE,     /* unexpected, since this side sends no requests */
    RPC_INVALID,      /* answered with the error in `code` and `why` */
};

/* A parsed message. It owns everything in it. */
struct rpc_message {
    enum rpc_kind kind;
    const json_t *id; /* NULL if there is no valid id */
    const char *method;
    const json_t *params; /* an object, or NULL */
    enum rpc_code code;
    const char *why;
};

struct rpc_message rpc_read(const json_t *message);

/*
 * Make answers: new references, NULL if memory is short. `id` may be NULL. rpc_result takes over
 * the reference `result`, which may be NULL.
 */
json_t *rpc_result(const json_t *id, json_t *result);
json_t *rpc_error(const json_t *id, enum rpc_code code, const char *text);

/* Any bytes as a JSON string; invalid UTF-8 becomes U+FFFD. */
json_t *rpc_text(struct view text);

/*
 * Appends a value as one line, without its end; `flags` are jansson's. Returns false if memory is
 * short, which json_dumps does not always report.
 */
bool rpc_dump(struct buf *out, const json_t *value, size_t flags);

/*
 * Appends `value` as a line and drops the reference; if it is NULL, appends the out-of-memory
 * error.
 */
void rpc_put(struct buf *out, json_t *value);
