#ifndef TIDEMARK_MCP_RPC_H
#define TIDEMARK_MCP_RPC_H

/*
 * JSON-RPC 2.0, as the Model Context Protocol uses it: a message is one line. Parameters are
 * objects; ids are strings or whole numbers.
 */

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/view.h"

/* The longest line that is looked at, bytes. */
#define RPC_LINE_MAX (1u << 20)

enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL_ERROR = -32603,
};

enum rpc_kind {
    RPC_REQUEST,      /* wants an answer */
    RPC_NOTIFICATION, /* wants none */
    RPC_RESPONSE,     /* to a question that we never asked */
    RPC_INVALID,      /* is answered with the error in `code` and `why` */
};

/* What a message says. Everything in it belongs to the message. */
struct rpc_message {
    enum rpc_kind kind;
    const json_t *id; /* NULL where there is none that could be used */
    const char *method;
    const json_t *params; /* an object, or NULL */
    enum rpc_code code;
    const char *why;
};

struct rpc_message rpc_read(const json_t *message);

/*
 * Answers, new references, NULL when memory is short. `id` may be NULL. rpc_result takes over the
 * reference of `result`, which may be NULL, too.
 */
json_t *rpc_result(const json_t *id, json_t *result);
json_t *rpc_error(const json_t *id, enum rpc_code code, const char *text);

/* Any bytes as a JSON string: what is no UTF-8 becomes U+FFFD. */
json_t *rpc_text(struct view text);

/*
 * Appends a value in one line, without its end; `flags` are jansson's. False when memory is short:
 * json_dumps does not always tell.
 */
bool rpc_dump(struct buf *out, const json_t *value, size_t flags);

/* Appends `value` as a line and gives up the reference; the error for no memory if it is NULL. */
void rpc_put(struct buf *out, json_t *value);

#endif
