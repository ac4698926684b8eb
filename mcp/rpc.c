#include "mcp/rpc.h"

#include <string.h>

#include "base/format.h"

static struct rpc_message invalid(struct rpc_message m, enum rpc_code code, const char *why)
{
    m.kind = RPC_INVALID;
    m.code = code;
    m.why = why;
    return m;
}

struct rpc_message rpc_read(const json_t *message)
{
    struct rpc_message m = {.kind = RPC_NOTIFICATION};
    if (!json_is_object(message))
        return invalid(m, RPC_INVALID_REQUEST, "a message is an object");
    const json_t *id = json_object_get(message, "id");
    const json_t *version = json_object_get(message, "jsonrpc");
    const json_t *method = json_object_get(message, "method");
    const json_t *params = json_object_get(message, "params");
    if (json_is_string(id) || json_is_integer(id))
        m.id = id;
    if (!json_is_string(version) || strcmp(json_string_value(version), "2.0") != 0)
        return invalid(m, RPC_INVALID_REQUEST, "jsonrpc is not \"2.0\"");
    if (!method && (json_object_get(message, "result") || json_object_get(message, "error"))) {
        m.kind = RPC_RESPONSE;
        return m;
    }
    if (!json_is_string(method))
        return invalid(m, RPC_INVALID_REQUEST, "method is no string");
    if (id && !m.id)
        return invalid(m, RPC_INVALID_REQUEST, "id is neither a string nor a whole number");
    m.method = json_string_value(method);
    m.params = json_is_object(params) ? params : NULL;
    if (id)
        m.kind = RPC_REQUEST;
    if (id && params && !m.params && !json_is_null(params))
        return invalid(m, RPC_INVALID_PARAMS, "params is no object");
    return m;
}

static json_t *copy_id(const json_t *id)
{
    return id ? json_deep_copy(id) : json_null();
}

json_t *rpc_result(const json_t *id, json_t *result)
{
    return json_pack("{s:s, s:o, s:o}", "jsonrpc", "2.0", "id", copy_id(id), "result", result);
}

json_t *rpc_error(const json_t *id, enum rpc_code code, const char *text)
{
    return json_pack("{s:s, s:o, s:{s:i, s:o}}", "jsonrpc", "2.0", "id", copy_id(id), "error",
                     "code", (int)code, "message", rpc_text(view_of(text)));
}

json_t *rpc_text(struct view text)
{
    struct buf b = {0};
    format_utf8(&b, text);
    json_t *value = b.failed ? NULL : json_stringn(b.len ? (const char *)b.data : "", b.len);
    buf_release(&b);
    return value;
}

static int put_bytes(const char *bytes, size_t n, void *ctx)
{
    struct buf *out = ctx;
    buf_put(out, bytes, n);
    return out->failed ? -1 : 0;
}

bool rpc_dump(struct buf *out, const json_t *value, size_t flags)
{
    return value && json_dump_callback(value, put_bytes, out, flags | JSON_COMPACT) == 0 &&
           !out->failed;
}

void rpc_put(struct buf *out, json_t *value)
{
    static const char no_memory[] = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,"
                                    "\"message\":\"memory is short\"}}\n";
    size_t before = out->len;
    bool failed = out->failed;
    bool ok = rpc_dump(out, value, 0);
    buf_put(out, "\n", 1);
    if (!ok || out->failed) {
        out->len = before;
        out->failed = failed;
        buf_put(out, no_memory, sizeof no_memory - 1);
    }
    json_decref(value);
}
