#include "import/json_stream.h"

#include <inttypes.h>

#include "import/json_text.h"

/* No program writes an event or text this long. */
#define PIECE_MAX ((uint64_t)64 << 20)

/*
 * ---- memory: the parser does not check its allocations, so a failed one leaves the parser by
 * longjmp. The ring then frees its memory.
 */

static void block_link(struct parser_block *b, struct parser_block *ring)
{
    b->next = ring->next;
    b->before = ring;
    ring->next->before = b;
    ring->next = b;
}

static void block_unlink(struct parser_block *b)
{
    b->before->next = b->next;
    b->next->before = b->before;
}

static void *parser_realloc(void *ctx, void *old, size_t size)
{
    struct json_stream *st = ctx;
    struct parser_block *b = old ? (struct parser_block *)old - 1 : NULL;
    if (b)
        block_unlink(b);
    struct parser_block *grown = size <= SIZE_MAX - sizeof *b ? realloc(b, sizeof *b + size) : NULL;
    if (!grown) {
        if (b)
            block_link(b, &st->blocks);
        longjmp(st->no_memory, 1);
    }
    block_link(grown, &st->blocks);
    return grown + 1;
}

static void *parser_malloc(void *ctx, size_t size)
{
    return parser_realloc(ctx, NULL, size);
}

static void parser_free(void *ctx, void *p)
{
    (void)ctx;
    if (!p)
        return;
    struct parser_block *b = (struct parser_block *)p - 1;
    block_unlink(b);
    free(b);
}

/* ---- feeding the parser */

static int parse_failed(struct json_stream *st, yajl_status status, struct err *e)
{
    uint64_t at = st->fed + yajl_get_bytes_consumed(st->parser);
    if (status == yajl_status_client_canceled)
        return e->code == ERR_INPUT ? err_prefix(e, "JSON text, byte %" PRIu64, at) : -1;
    unsigned char *why = yajl_get_error(st->parser, 0, NULL, 0);
    const char *text = why ? (const char *)why : "no memory";
    err_set(e, ERR_INPUT, "JSON text, byte %" PRIu64 ": %.*s", at, (int)strcspn(text, "\n"), text);
    if (why)
        yajl_free_error(st->parser, why);
    return -1;
}

static int feed(struct json_stream *st, struct view bytes, struct err *e)
{
    yajl_status status = yajl_parse(st->parser, (const unsigned char *)bytes.p, bytes.len);
    if (status != yajl_status_ok)
        return parse_failed(st, status, e);
    for (size_t i = bytes.len; i-- > 0;) {
        if (!json_is_space(bytes.p[i])) {
            st->last = bytes.p[i];
            break;
        }
    }
    for (size_t i = yajl_get_bytes_consumed(st->parser); i < bytes.len; i++)
        st->trailing += !json_is_space(bytes.p[i]);
    st->fed += bytes.len;
    return 0;
}

static int check_piece(struct json_stream *st, struct err *e)
{
    if (st->fed + st->rest.len - st->mark <= PIECE_MAX)
        return 0;
    return err_set(e, ERR_INPUT,
                   "JSON text, byte %" PRIu64 ": an event or a text in it is "
                   "longer than 64 MiB",
                   st->mark);
}

/* Bytes up to the end of the last whole token. `bytes` continues the previous call's bytes. */
static size_t whole_tokens(struct json_stream *st, struct view bytes)
{
    size_t whole = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        char c = bytes.p[i];
        if (st->escaped) {
            st->escaped = false;
        } else if (st->in_string) {
            st->escaped = c == '\\';
            st->in_string = c != '"';
            if (!st->in_string)
                whole = i + 1;
        } else if (c == '"') {
            st->in_string = true;
            whole = i; /* the token before it ends here */
        } else if (c == ',' || c == ':' || c == '{' || c == '}' || c == '[' || c == ']' ||
                   json_is_space(c)) {
            whole = i + 1;
        }
    }
    return whole;
}

static int feed_rest(struct json_stream *st, struct err *e)
{
    int status = st->rest.failed ? err_no_memory(e, "an event") : feed(st, buf_view(&st->rest), e);
    buf_clear(&st->rest);
    return status;
}

/*
 * The parser restarts a token with each call that does not complete it, which is quadratic for a
 * long token. So it gets only whole tokens.
 */
static int feed_tokens(struct json_stream *st, struct view bytes, struct err *e)
{
    size_t whole = whole_tokens(st, bytes);
    const struct view rest = {bytes.p + whole, bytes.len - whole};
    if (st->rest.len > 0) {
        buf_put(&st->rest, bytes.p, whole);
        if (whole > 0 && feed_rest(st, e) != 0)
            return -1;
    } else if (whole > 0 && feed(st, (struct view){bytes.p, whole}, e) != 0) {
        return -1;
    }
    buf_put(&st->rest, rest.p, rest.len);
    return st->rest.failed ? err_no_memory(e, "an event") : check_piece(st, e);
}

static int feed_all(struct json_stream *st, struct import_source *s, json_stream_end *end,
                    void *ctx, struct err *e)
{
    struct view bytes;
    if (import_source_peek(s, &bytes, e) != 0)
        return -1;
    size_t skip = bytes.len >= 3 && memcmp(bytes.p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (;;) {
        if (import_source_next(s, &bytes, e) != 0)
            return -1;
        if (bytes.len == 0)
            break;
        bytes.p += skip;
        bytes.len -= skip;
        st->fed += skip;
        skip = 0;
        if (feed_tokens(st, bytes, e) != 0)
            return -1;
    }
    if (feed_rest(st, e) != 0)
        return -1;
    int ended = end ? end(ctx, e) : 0;
    if (ended != 0)
        return ended < 0 ? -1 : 0;
    yajl_status status = yajl_complete_parse(st->parser);
    return status == yajl_status_ok ? 0 : parse_failed(st, status, e);
}

bool json_stream_parse(struct json_stream *st, const char *text)
{
    return yajl_parse(st->parser, (const unsigned char *)text, strlen(text)) == yajl_status_ok &&
           yajl_complete_parse(st->parser) == yajl_status_ok;
}

/* State that must survive the longjmp is in the stream, or does not change. */
static int read_guarded(struct json_stream *st, struct import_source *s,
                        const yajl_callbacks *calls, void *ctx, json_stream_end *end)
{
    yajl_alloc_funcs memory = {parser_malloc, parser_realloc, parser_free, st};
    if (setjmp(st->no_memory) != 0)
        return err_no_memory(st->e, "the JSON parser");
    st->parser = yajl_alloc(calls, &memory, ctx);
    /* Names may hold any bytes; output escapes them. */
    yajl_config(st->parser, yajl_dont_validate_strings, 1);
    yajl_config(st->parser, yajl_allow_trailing_garbage, 1);
    return feed_all(st, s, end, ctx, st->e);
}

int json_stream_read(struct json_stream *st, struct import_source *s, const yajl_callbacks *calls,
                     void *ctx, json_stream_end *end, struct err *e)
{
    st->e = e;
    st->blocks.next = st->blocks.before = &st->blocks;
    int status = read_guarded(st, s, calls, ctx, end);
    for (struct parser_block *b = st->blocks.next, *next; b != &st->blocks; b = next) {
        next = b->next;
        free(b);
    }
    buf_release(&st->rest);
    return status;
}
