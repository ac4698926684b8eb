/*
 * Lines of any bytes to a session of the Model Context Protocol: each gets one answer or none, and
 * an answer is one line of JSON that is a result or an error. Traces are those of the fixtures.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/json_reader.h"
#include "mcp/mcp_session.h"

#define ROOT "fixtures/traces/v0.14.0"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_one(const json_t *answer)
{
    const json_t *result = json_object_get(answer, "result");
    const json_t *error = json_object_get(answer, "error");
    if (!json_is_object(answer) || !json_object_get(answer, "id") || !result == !error)
        abort();
    if (error && !json_is_integer(json_object_get(error, "code")))
        abort();
}

static void check_answers(const struct buf *out)
{
    const char *text = (const char *)out->data;
    if (out->len == 0)
        return;
    if (memchr(text, '\n', out->len) != text + out->len - 1)
        abort();
    json_t *answer = json_loadb(text, out->len, JSON_ALLOW_NUL, NULL);
    if (!answer)
        abort();
    if (json_is_array(answer)) {
        for (size_t i = 0; i < json_array_size(answer); i++)
            check_one(json_array_get(answer, i));
    } else {
        check_one(answer);
    }
    json_decref(answer);
}

/* What our reader takes jansson's takes, too, and to the same. */
static void compare_readers(struct view line)
{
    json_t *ours;
    if (json_read(line, true, &ours) != JSON_READ)
        return;
    json_t *theirs = json_loadb(line.p, line.len,
                                JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!theirs || !json_equal(ours, theirs))
        abort();
    json_decref(ours);
    json_decref(theirs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char hello[] =
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":"
        "{\"protocolVersion\":\"2025-03-26\"}}";
    struct session s;
    struct err e = {0};
    struct buf out = {0};
    const char *at = (const char *)data;
    const char *end = at + size;
    /* Long expressions in brackets make regcomp slow, which is not ours to mend. */
    if (size > 4096)
        return 0;
    if (session_init(&s, ROOT, UINT64_C(16) << 20, &e) != 0)
        abort();
    if (size && data[0] != '!') {
        session_take(&s, view_of(hello), &out);
        check_answers(&out);
    }
    while (at < end) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        size_t n = line ? (size_t)(line - at) : (size_t)(end - at);
        buf_clear(&out);
        compare_readers((struct view){at, n});
        session_take(&s, (struct view){at, n}, &out);
        check_answers(&out);
        at += n + 1;
    }
    buf_release(&out);
    session_release(&s);
    return 0;
}
