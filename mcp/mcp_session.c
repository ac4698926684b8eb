#include "mcp/mcp_session.h"

#include <string.h>

#include "base/json_reader.h"
#include "mcp/rpc.h"

#define BATCH_MAX 64u

static const char *const revisions[] = {[MCP_2024_11_05] = "2024-11-05",
                                        [MCP_2025_03_26] = "2025-03-26",
                                        [MCP_2025_06_18] = "2025-06-18"};

int session_init(struct session *s, const char *root, uint64_t memory, struct err *e)
{
    *s = (struct session){.revision = MCP_2025_06_18};
    return tools_init(&s->tools, root, memory, e);
}

void session_release(struct session *s)
{
    tools_release(&s->tools);
}

/* ---- methods: each returns the answer, a new reference, or NULL if memory is short */

static json_t *initialize(struct session *s, const struct rpc_message *m)
{
    const json_t *wanted = json_object_get(m->params, "protocolVersion");
    if (!json_is_string(wanted))
        return rpc_error(m->id, RPC_INVALID_PARAMS, "protocolVersion is missing");
    s->revision = MCP_2025_06_18;
    for (int i = 0; i < MCP_REVISIONS; i++) {
        if (strcmp(json_string_value(wanted), revisions[i]) == 0)
            s->revision = (enum mcp_revision)i;
    }
    s->initialized = true;
    return rpc_result(m->id, json_pack("{s:s, s:{s:{}}, s:{s:s, s:s}, s:o}", "protocolVersion",
                                       revisions[s->revision], "capabilities", "tools",
                                       "serverInfo", "name", "tidemark", "version",
                                       TIDEMARK_VERSION, "instructions", tools_instructions()));
}

static json_t *list_tools(struct session *s, const struct rpc_message *m)
{
    /* The list has one page, so no valid cursor exists. */
    const json_t *cursor = json_object_get(m->params, "cursor");
    if (cursor && !json_is_null(cursor))
        return rpc_error(m->id, RPC_INVALID_PARAMS, "this cursor was not given out here");
    (void)s;
    return rpc_result(m->id, json_pack("{s:o}", "tools", tools_list()));
}

/* The model should read the error, so it is a result, not a protocol error. */
static json_t *failed_call(const struct err *e)
{
    return json_pack("{s:[{s:s, s:o}], s:b}", "content", "type", "text", "text",
                     rpc_text(view_of(e->text)), "isError", 1);
}

/* The document as text, once: a model reads the text, and a copy as structured content doubles it.
 */
static json_t *answered_call(json_t *document)
{
    struct buf text = {0};
    json_t *result = NULL;
    if (rpc_dump(&text, document, 0))
        result = json_pack("{s:[{s:s, s:o}], s:b}", "content", "type", "text", "text",
                           json_stringn_nocheck((const char *)text.data, text.len), "isError", 0);
    buf_release(&text);
    return result;
}

static json_t *call_tool(struct session *s, const struct rpc_message *m)
{
    const char *name = json_string_value(json_object_get(m->params, "name"));
    const json_t *arguments = json_object_get(m->params, "arguments");
    struct err e = {0};
    if (!name)
        return rpc_error(m->id, RPC_INVALID_PARAMS, "which tool?");
    if (!tools_have(name)) {
        err_set(&e, ERR_USAGE, "unknown tool: %.100s", name);
        return rpc_error(m->id, RPC_INVALID_PARAMS, e.text);
    }
    if (json_is_null(arguments))
        arguments = NULL;
    if (arguments && !json_is_object(arguments))
        return rpc_error(m->id, RPC_INVALID_PARAMS, "arguments is no object");
    json_t *document = tools_call(&s->tools, name, arguments, &e);
    json_t *result = document ? answered_call(document) : failed_call(&e);
    json_decref(document);
    return rpc_result(m->id, result);
}

static json_t *answer_request(struct session *s, const struct rpc_message *m)
{
    static const struct {
        const char *method;
        json_t *(*answer)(struct session *s, const struct rpc_message *m);
    } methods[] = {{"tools/list", list_tools}, {"tools/call", call_tool}};
    if (strcmp(m->method, "initialize") == 0)
        return initialize(s, m);
    if (strcmp(m->method, "ping") == 0)
        return rpc_result(m->id, json_object());
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(m->method, methods[i].method) != 0)
            continue;
        return s->initialized ? methods[i].answer(s, m)
                              : rpc_error(m->id, RPC_INVALID_REQUEST, "initialize comes first");
    }
    struct err e;
    err_set(&e, ERR_USAGE, "there is no method %.100s", m->method);
    return rpc_error(m->id, RPC_METHOD_NOT_FOUND, e.text);
}

/* ---- messages */

/*
 * The answer to a message. Returns NULL with *wanted false if there is none. Notifications are
 * ignored: they say that the client is ready, or that it cancelled a request, which is answered
 * before the cancellation is read.
 */
static json_t *answer(struct session *s, const json_t *message, bool *wanted)
{
    struct rpc_message m = rpc_read(message);
    *wanted = m.kind == RPC_REQUEST || m.kind == RPC_INVALID;
    if (!*wanted)
        return NULL;
    return m.kind == RPC_INVALID ? rpc_error(m.id, m.code, m.why) : answer_request(s, &m);
}

static void take_batch(struct session *s, const json_t *batch, struct buf *out)
{
    size_t n = json_array_size(batch);
    if (s->revision != MCP_2025_03_26 || n == 0 || n > BATCH_MAX) {
        rpc_put(out, rpc_error(NULL, RPC_INVALID_REQUEST,
                               n == 0 || n > BATCH_MAX ? "a batch has 1 to 64 messages"
                                                       : "this revision has no batches"));
        return;
    }
    json_t *answers = json_array();
    for (size_t i = 0; i < n; i++) {
        bool wanted;
        json_t *one = answer(s, json_array_get(batch, i), &wanted);
        if (wanted && json_array_append_new(answers, one) != 0) {
            json_decref(answers);
            answers = NULL;
            break;
        }
    }
    if (!answers || json_array_size(answers))
        rpc_put(out, answers);
    else
        json_decref(answers);
}

void session_take(struct session *s, struct view line, struct buf *out)
{
    json_t *message;
    enum json_outcome outcome = json_read(line, false, &message);
    if (outcome == JSON_NO_MEMORY) {
        rpc_put(out, NULL);
    } else if (!message) {
        rpc_put(out, rpc_error(NULL, RPC_PARSE_ERROR, "this line is no JSON"));
    } else if (json_is_array(message)) {
        take_batch(s, message, out);
    } else {
        bool wanted;
        json_t *one = answer(s, message, &wanted);
        if (wanted)
            rpc_put(out, one);
    }
    json_decref(message);
}

void session_take_too_long(struct buf *out)
{
    rpc_put(out, rpc_error(NULL, RPC_PARSE_ERROR, "this line is longer than a mebibyte"));
}
