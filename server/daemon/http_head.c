#include "server/daemon/http_head.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

struct seen {
    size_t bytes; /* of the header lines */
    unsigned hosts, lengths, codings;
    bool chunked;     /* the last coding is that */
    bool has_returns; /* a value has a CR without LF */
};

static bool is_called(const char *key, size_t len, const char *name)
{
    return len == strlen(name) && strncasecmp(key, name, len) == 0;
}

static enum MHD_Result see(void *ctx, enum MHD_ValueKind kind, const char *key, size_t key_len,
                           const char *value, size_t len)
{
    struct seen *s = ctx;
    (void)kind;
    s->bytes += key_len + len + sizeof ": \r\n" - 1;
    s->lengths += is_called(key, key_len, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (is_called(key, key_len, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
        s->codings++;
        s->chunked = is_called(value, len, "chunked");
    }
    s->has_returns |= len > 0 && memchr(value, '\r', len);
    s->hosts += is_called(key, key_len, MHD_HTTP_HEADER_HOST);
    return MHD_YES;
}

const char *http_head_refused(const struct http_head *h)
{
    struct seen s = {.bytes = strlen(h->method) + strlen(h->version) + h->target + 6};
    const union MHD_ConnectionInfo *info =
        h->info(h->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    (void)h->fields(h->connection, MHD_HEADER_KIND, see, &s);
    if (s.hosts > 1)
        return "the request has several Host fields";
    if (s.lengths > 1 || (s.lengths && s.codings))
        return "the request gives its length twice";
    if (s.codings > 1 || (s.codings && !s.chunked))
        return "the request has a Transfer-Encoding other than chunked";
    if (s.has_returns || !info || info->header_size != s.bytes)
        return "the request's head is not made of lines 'Name: value' that end with CR LF";
    return NULL;
}
