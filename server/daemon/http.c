#include "server/daemon/http.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/library.h"
#include "server/daemon/http_head.h"
#include "server/daemon/http_patience.h"
#include "server/net/address.h"

/* Its ABI is unchanged since 0.9.37. */
#define MICROHTTPD "libmicrohttpd.so.12"

#define COOKIE "tidemark_token"
#define RUNS_PER_TURN 64u /* each run transfers a piece for every connection */
#define CONNECTION_SECONDS 60u
#define CONNECTION_MEMORY ((size_t)32 << 10)

/* Loaded at run time: it brings a TLS library and more, which no other command needs. */
struct http_library {
    void *handle;
    __typeof__(MHD_add_response_header) *add_header;
    __typeof__(MHD_create_response_from_buffer) *from_buffer;
    __typeof__(MHD_create_response_from_callback) *from_callback;
    __typeof__(MHD_create_response_from_fd64) *from_fd;
    __typeof__(MHD_destroy_response) *destroy_response;
    __typeof__(MHD_get_connection_info) *connection_info;
    __typeof__(MHD_get_connection_values_n) *values_n;
    __typeof__(MHD_get_daemon_info) *info;
    __typeof__(MHD_get_timeout) *timeout;
    __typeof__(MHD_lookup_connection_value) *value;
    __typeof__(MHD_lookup_connection_value_n) *value_n;
    __typeof__(MHD_queue_response) *queue_response;
    __typeof__(MHD_resume_connection) *resume;
    __typeof__(MHD_run) *run;
    __typeof__(MHD_start_daemon) *start;
    __typeof__(MHD_stop_daemon) *stop;
    __typeof__(MHD_suspend_connection) *suspend;
};

struct http_server {
    struct http_library mhd;
    struct http_options o;
    struct MHD_Daemon *daemon;
    bool loopback;
    bool stopping;
    struct http_patience patience;
    char *token;
    struct http_exchange *first; /* all active exchanges */
};

struct http_exchange {
    struct http_exchange *next, *before;
    struct http_server *server;
    struct MHD_Connection *connection;
    char method[8];
    char *path;
    struct buf body;
    bool too_long;
    bool asked;   /* handle was called */
    bool trusted; /* it passed a check, and its path is not a public one */
    bool suspended;
    struct MHD_Response *response; /* waits to be queued */
    unsigned status;
    bool streams;
    bool packs;            /* the stream is compressed */
    uint32_t crc, length;  /* of its text so far, as its gzip trailer has them */
    size_t target;         /* length of the target as sent */
    const char *malformed; /* why it is rejected; NULL: it is well-formed */
    bool document;         /* the answer is an HTML report */
    bool framed;           /* the page without data, for the dashboard's frame */
    struct buf out;        /* of a stream */
    size_t sent;
};

static bool load(struct http_library *l)
{
    const struct library_function functions[] = {
        LIBRARY_FUNCTION(MHD_add_response_header, &l->add_header),
        LIBRARY_FUNCTION(MHD_create_response_from_buffer, &l->from_buffer),
        LIBRARY_FUNCTION(MHD_create_response_from_callback, &l->from_callback),
        LIBRARY_FUNCTION(MHD_create_response_from_fd64, &l->from_fd),
        LIBRARY_FUNCTION(MHD_destroy_response, &l->destroy_response),
        LIBRARY_FUNCTION(MHD_get_connection_info, &l->connection_info),
        LIBRARY_FUNCTION(MHD_get_connection_values_n, &l->values_n),
        LIBRARY_FUNCTION(MHD_get_daemon_info, &l->info),
        LIBRARY_FUNCTION(MHD_get_timeout, &l->timeout),
        LIBRARY_FUNCTION(MHD_lookup_connection_value, &l->value),
        LIBRARY_FUNCTION(MHD_lookup_connection_value_n, &l->value_n),
        LIBRARY_FUNCTION(MHD_queue_response, &l->queue_response),
        LIBRARY_FUNCTION(MHD_resume_connection, &l->resume),
        LIBRARY_FUNCTION(MHD_run, &l->run),
        LIBRARY_FUNCTION(MHD_start_daemon, &l->start),
        LIBRARY_FUNCTION(MHD_stop_daemon, &l->stop),
        LIBRARY_FUNCTION(MHD_suspend_connection, &l->suspend),
    };
    l->handle = library_load(MICROHTTPD, functions, sizeof functions / sizeof *functions);
    return l->handle != NULL;
}

/* ---- access control */

/* Compares in constant time. */
static bool is_token(const struct http_server *s, const char *text, size_t len)
{
    size_t n = strlen(s->token);
    unsigned difference = len != n;
    for (size_t i = 0; i < n; i++)
        difference |= (unsigned)(unsigned char)s->token[i] ^
                      (unsigned)(unsigned char)(len ? text[i % len] : 0);
    return difference == 0;
}

static const char *header(const struct http_exchange *x, const char *name)
{
    return x->server->mhd.value(x->connection, MHD_HEADER_KIND, name);
}

static bool has_token(const struct http_exchange *x)
{
    static const char bearer[] = "Bearer ";
    const char *said = header(x, MHD_HTTP_HEADER_AUTHORIZATION);
    const char *cookie = x->server->mhd.value(x->connection, MHD_COOKIE_KIND, COOKIE);
    if (!x->server->token)
        return true;
    if (said && strncmp(said, bearer, sizeof bearer - 1) == 0) {
        said += sizeof bearer - 1;
        return is_token(x->server, said, strlen(said));
    }
    return cookie && is_token(x->server, cookie, strlen(cookie));
}

/* "localhost", "127.0.0.1", "[::1]", each with or without a port. */
static bool is_loopback_name(const char *text)
{
    char host[NI_MAXHOST];
    const char *port;
    struct in_addr v4;
    struct in6_addr v6;
    if (address_split(text, host, &port) != 0)
        return false;
    if (strcasecmp(host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static bool is_own_origin(const char *origin, const char *host)
{
    static const char scheme[] = "http://";
    return strncmp(origin, scheme, sizeof scheme - 1) == 0 &&
           strcasecmp(origin + sizeof scheme - 1, host) == 0;
}

/* 0, or the status of the refusal. */
static unsigned refused(const struct http_exchange *x, const char **why)
{
    const char *host = header(x, MHD_HTTP_HEADER_HOST);
    const char *origin = header(x, MHD_HTTP_HEADER_ORIGIN);
    const char *site = header(x, "Sec-Fetch-Site");
    if (x->malformed) {
        *why = x->malformed;
        return MHD_HTTP_BAD_REQUEST;
    }
    if (!host || !*host || (x->server->loopback && !is_loopback_name(host))) {
        *why = "this server is not called so";
        return MHD_HTTP_MISDIRECTED_REQUEST;
    }
    bool reads = strcmp(x->method, "GET") == 0;
    if ((origin && !is_own_origin(origin, host)) ||
        (site && !reads && strcmp(site, "same-origin") != 0)) {
        *why = "requests of other pages are not answered";
        return MHD_HTTP_FORBIDDEN;
    }
    if (!has_token(x) && !x->server->o.open(x->server->o.ctx, x->path)) {
        *why = "a token is needed";
        return MHD_HTTP_UNAUTHORIZED;
    }
    if (x->too_long) {
        *why = "the request is too long";
        return MHD_HTTP_CONTENT_TOO_LARGE;
    }
    return 0;
}

/* ---- answers */

#define SANDBOX                                                                                    \
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "      \
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "

static void add_headers(const struct http_exchange *x, struct MHD_Response *r, const char *type)
{
    (void)x->server->mhd.add_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    (void)x->server->mhd.add_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    (void)x->server->mhd.add_header(r, "X-Content-Type-Options", "nosniff");
    (void)x->server->mhd.add_header(r, "X-Frame-Options", x->framed ? "SAMEORIGIN" : "DENY");
    (void)x->server->mhd.add_header(r, "Referrer-Policy", "no-referrer");
    (void)x->server->mhd.add_header(
        r, "Content-Security-Policy",
        x->framed     ? SANDBOX "frame-ancestors 'self'"
        : x->document ? SANDBOX "frame-ancestors 'none'"
                      : "default-src 'none'; script-src 'self'; style-src 'self'; "
                        "connect-src 'self'; frame-src 'self'; img-src data:; base-uri 'none'; "
                        "form-action 'none'; frame-ancestors 'none'");
    if (x->status == MHD_HTTP_UNAUTHORIZED)
        (void)x->server->mhd.add_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (x->malformed) /* what follows may be anything */
        (void)x->server->mhd.add_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
}

static void resume(struct http_exchange *x)
{
    x->suspended = false;
    x->server->mhd.resume(x->connection);
}

static void answer(struct http_exchange *x, unsigned status, const char *type,
                   struct MHD_Response *r)
{
    if (!r || x->response || x->streams) { /* memory is short, or already answered */
        if (r)
            x->server->mhd.destroy_response(r);
        return;
    }
    x->status = status;
    add_headers(x, r, type);
    x->response = r;
    if (x->suspended)
        resume(x);
}

void http_reply(struct http_exchange *x, unsigned status, const char *type, const void *text,
                size_t len)
{
    answer(x, status, type, x->server->mhd.from_buffer(len, (void *)text, MHD_RESPMEM_MUST_COPY));
}

void http_refuse(struct http_exchange *x, unsigned status, const char *why)
{
    struct buf text = {0};
    buf_puts(&text, "{\"error\":\"");
    for (; *why; why++) {
        if (*why == '"' || *why == '\\' || (unsigned char)*why < ' ')
            buf_printf(&text, "\\u%04x", (unsigned)(unsigned char)*why);
        else
            buf_put(&text, why, 1);
    }
    buf_puts(&text, "\"}\n");
    http_reply(x, status, "application/json", text.data, text.failed ? 0 : text.len);
    buf_release(&text);
}

static void reply_fd(struct http_exchange *x, int fd, uint64_t size, const char *type,
                     const char *name, const char *suffix)
{
    struct buf kept = {0};
    struct MHD_Response *r = x->server->mhd.from_fd(size, fd);
    if (!r) {
        close(fd);
        http_refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory");
        return;
    }
    if (name) {
        buf_puts(&kept, "attachment; filename=\"");
        for (; *name; name++) {
            bool quotes = *name == '"' || *name == '\\' || (unsigned char)*name < ' ';
            buf_put(&kept, quotes ? "_" : name, 1);
        }
        buf_printf(&kept, "%s\"", suffix);
        (void)x->server->mhd.add_header(r, MHD_HTTP_HEADER_CONTENT_DISPOSITION, buf_str(&kept));
        buf_release(&kept);
    }
    answer(x, MHD_HTTP_OK, type, r);
}

void http_reply_file(struct http_exchange *x, int fd, uint64_t size, const char *type,
                     const char *name)
{
    reply_fd(x, fd, size, type, name, "");
}

void http_reply_fd(struct http_exchange *x, int fd, uint64_t size, const char *type)
{
    reply_fd(x, fd, size, type, NULL, "");
}

void http_reply_document(struct http_exchange *x, int fd, uint64_t size, const char *name)
{
    bool keep = http_has_argument(x, "download");
    x->document = true;
    reply_fd(x, fd, size, "text/html; charset=utf-8", keep ? name : NULL, ".html");
}

void http_reply_frame(struct http_exchange *x, const void *text, size_t len)
{
    x->framed = true;
    http_reply(x, MHD_HTTP_OK, "text/html; charset=utf-8", text, len);
}

void http_login(struct http_exchange *x)
{
    struct buf cookie = {0};
    const char *why = "that is not the token";
    if (x->server->token && !is_token(x->server, (const char *)x->body.data, x->body.len)) {
        http_refuse(x, MHD_HTTP_UNAUTHORIZED, why);
        return;
    }
    struct MHD_Response *r = x->server->mhd.from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    buf_printf(&cookie, COOKIE "=%s; HttpOnly; SameSite=Strict; Path=/",
               x->server->token ? x->server->token : "");
    if (r)
        (void)x->server->mhd.add_header(r, MHD_HTTP_HEADER_SET_COOKIE, buf_str(&cookie));
    buf_release(&cookie);
    answer(x, MHD_HTTP_NO_CONTENT, "text/plain", r);
}

/* ---- streams */

static ssize_t read_stream(void *ctx, uint64_t at, char *out, size_t most)
{
    struct http_exchange *x = ctx;
    size_t n = x->out.len - x->sent;
    (void)at;
    if (n == 0 && x->server->stopping)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (n == 0) {
        x->suspended = true;
        x->server->mhd.suspend(x->connection);
        return 0;
    }
    n = n < most ? n : most;
    memcpy(out, x->out.data + x->sent, n);
    x->sent += n;
    if (x->sent == x->out.len) {
        buf_clear(&x->out);
        x->sent = 0;
    }
    return (ssize_t)n;
}

/* A coding with a weight, which may be 0, counts as not accepted. */
static bool accepts_gzip(const struct http_exchange *x)
{
    const char *said = header(x, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    const char *after = said ? strcasestr(said, "gzip") : NULL;
    if (!after)
        return false;
    after += strlen("gzip");
    after += strspn(after, " \t");
    return *after == ',' || *after == '\0';
}

void http_stream(struct http_exchange *x)
{
    /* RFC 1952: deflate, no name, no time. */
    static const char gzip_head[10] = {0x1f, (char)0x8b, 8};
    struct MHD_Response *r =
        x->server->mhd.from_callback(MHD_SIZE_UNKNOWN, 4096, read_stream, x, NULL);
    x->packs = r && accepts_gzip(x) && buf_reserve(&x->out, sizeof gzip_head) &&
               x->server->mhd.add_header(r, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip") == MHD_YES;
    if (x->packs)
        buf_put(&x->out, gzip_head, sizeof gzip_head);
    answer(x, MHD_HTTP_OK, "text/event-stream", r);
    x->streams = x->response != NULL;
}

/*
 * Whole blocks of deflate that end at a byte and refer to nothing before them. So a stream may
 * begin with any event and lack any, and one compression serves all of them.
 */
static bool pack(struct http_event *e)
{
    z_stream z = {.next_in = e->text.data, .avail_in = (uInt)e->text.len};
    if (e->packed.len)
        return true;
    if (e->text.len > UINT32_MAX / 2 ||
        deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    size_t most = deflateBound(&z, z.avail_in) + 16; /* the bound lacks the flush's marker */
    uint8_t *out = buf_reserve(&e->packed, most);
    z.next_out = out;
    z.avail_out = (uInt)most;
    bool done = out && deflate(&z, Z_FULL_FLUSH) == Z_OK && z.avail_out > 0;
    (void)deflateEnd(&z);
    e->packed.failed = false;
    if (done)
        e->packed.len = most - z.avail_out;
    e->crc = (uint32_t)crc32(0, e->text.data, (uInt)e->text.len);
    return done;
}

bool http_push(struct http_exchange *x, struct http_event *event)
{
    /* A reader that does not read loses events but keeps its connection. */
    if (!x->streams || x->out.len - x->sent > HTTP_STREAM_WAITING_MAX)
        return false;
    if (x->packs && !pack(event))
        return false;
    const struct buf *form = x->packs ? &event->packed : &event->text;
    /* Frees what was read, also for a reader that is always behind. */
    if (x->sent) {
        memmove(x->out.data, x->out.data + x->sent, x->out.len - x->sent);
        x->out.len -= x->sent;
        x->sent = 0;
    }
    buf_put(&x->out, form->data, form->len);
    bool kept = !x->out.failed;
    x->out.failed = false;
    if (kept && x->packs) {
        x->crc = (uint32_t)crc32_combine(x->crc, event->crc, (z_off_t)event->text.len);
        x->length += (uint32_t)event->text.len;
    }
    if (x->suspended && x->out.len > 0)
        resume(x);
    return kept;
}

/* The stream ends after what waits in it. */
static void end_stream(struct http_exchange *x)
{
    if (x->packs) {
        static const uint8_t last_block[] = {3, 0}; /* an empty one */
        buf_put(&x->out, last_block, sizeof last_block);
        buf_u32(&x->out, x->crc);
        buf_u32(&x->out, x->length);
    }
    if (x->suspended)
        resume(x);
}

/* ---- callbacks of libmicrohttpd */

/* A request begins; `target` is as sent. */
static void *on_target(void *ctx, const char *target, struct MHD_Connection *c)
{
    struct http_server *s = ctx;
    struct http_exchange *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->server = s;
    x->connection = c;
    x->target = strlen(target);
    x->next = s->first;
    if (s->first)
        s->first->before = x;
    s->first = x;
    return x;
}

/* Its head is complete. */
static bool take_head(struct http_exchange *x, const char *path, const char *method,
                      const char *version)
{
    const struct http_library *l = &x->server->mhd;
    const struct http_head head = {.info = l->connection_info,
                                   .fields = l->values_n,
                                   .connection = x->connection,
                                   .method = method,
                                   .version = version,
                                   .target = x->target};
    x->malformed = http_head_refused(&head);
    /* HEAD is answered as GET; the library omits the body. */
    snprintf(x->method, sizeof x->method, "%s", strcmp(method, "HEAD") == 0 ? "GET" : method);
    x->path = strdup(path);
    return x->path != NULL;
}

static void ask(struct http_exchange *x)
{
    const char *why = "";
    unsigned status = refused(x, &why);
    x->asked = true;
    x->trusted = !status && has_token(x);
    if (status)
        http_refuse(x, status, why);
    else if (x->server->stopping) /* arrived with the last turn: no answer would be sent later */
        http_refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE, "the daemon ends");
    else
        x->server->o.handle(x->server->o.ctx, x);
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *path,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_len, void **own)
{
    struct http_exchange *x = *own;
    (void)ctx;
    if (!x)
        return MHD_NO;
    if (!x->path) {
        if (!take_head(x, path, method, version))
            return MHD_NO;
        if (!x->malformed) /* the end of its body may be unknown: no reason to wait for it */
            return MHD_YES;
    }
    if (*upload_len) {
        x->too_long = x->too_long || x->body.len + *upload_len > HTTP_BODY_MAX;
        if (!x->too_long)
            buf_put(&x->body, upload, *upload_len);
        *upload_len = 0;
        return MHD_YES;
    }
    if (!x->asked)
        ask(x);
    http_patience_came(&x->server->patience, c, x->trusted);
    if (!x->response) { /* it is answered later */
        x->suspended = true;
        x->server->mhd.suspend(c);
        return MHD_YES;
    }
    enum MHD_Result result = x->server->mhd.queue_response(c, x->status, x->response);
    x->server->mhd.destroy_response(x->response);
    x->response = NULL;
    return result;
}

static void on_end(void *ctx, struct MHD_Connection *c, void **own,
                   enum MHD_RequestTerminationCode why)
{
    struct http_server *s = ctx;
    struct http_exchange *x = *own;
    (void)why;
    http_patience_answered(&s->patience, c);
    if (!x)
        return;
    s->o.over(s->o.ctx, x);
    if (x->before)
        x->before->next = x->next;
    else
        s->first = x->next;
    if (x->next)
        x->next->before = x->before;
    if (x->response)
        x->server->mhd.destroy_response(x->response);
    buf_release(&x->body);
    buf_release(&x->out);
    free(x->path);
    free(x);
    *own = NULL;
}

/* ---- the server */

static bool is_loopback(const struct sockaddr *at)
{
    if (at->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)at)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)at)->sin_addr.s_addr) >> 24 == 127;
}

static struct addrinfo *find_address(const char *text, struct err *e)
{
    char host[NI_MAXHOST], *end = NULL;
    const char *port;
    struct addrinfo *list = NULL;
    struct err ignored;
    unsigned long n = 0;
    if (address_split(text, host, &port) == 0 && port && *port >= '0' && *port <= '9')
        n = strtoul(port, &end, 10);
    if (!end || *end || n > 65535 || !host[0] ||
        address_resolve(host, (uint16_t)n, AI_PASSIVE | AI_NUMERICHOST, &list, &ignored) != 0) {
        err_set(e, ERR_USAGE, "--http takes ADDRESS:PORT, such as 127.0.0.1:8088, not '%s'", text);
        return NULL;
    }
    return list;
}

static int listen_on(struct http_server *s, const struct addrinfo *at, struct err *e)
{
    /* One of the two: libmicrohttpd 1.0 refuses both. */
    struct MHD_OptionItem where[] = {{MHD_OPTION_SOCK_ADDR, 0, at->ai_addr},
                                     {MHD_OPTION_END, 0, NULL}};
    if (s->o.listening > 0)
        where[0] = (struct MHD_OptionItem){MHD_OPTION_LISTEN_SOCKET, s->o.listening, NULL};
    const unsigned flags =
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (at->ai_family == AF_INET6 ? MHD_USE_IPv6 : 0u);
    /* On the loopback all clients share one address. */
    const unsigned of_one = s->loopback ? 0 : HTTP_CONNECTIONS_OF_ONE;
    s->patience.info = s->mhd.connection_info;
    s->daemon = s->mhd.start(
        flags, 0, NULL, NULL, on_request, s, MHD_OPTION_ARRAY, where, MHD_OPTION_NOTIFY_COMPLETED,
        on_end, s, MHD_OPTION_URI_LOG_CALLBACK, on_target, s, MHD_OPTION_CONNECTION_LIMIT,
        HTTP_CONNECTIONS_MAX, MHD_OPTION_NOTIFY_CONNECTION, http_patience_notify, &s->patience,
        MHD_OPTION_CONNECTION_TIMEOUT, CONNECTION_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        CONNECTION_MEMORY, MHD_OPTION_PER_IP_CONNECTION_LIMIT, of_one, MHD_OPTION_END);
    return s->daemon ? 0 : err_errno(e, ERR_CONNECT, "cannot listen on %s", s->o.address);
}

struct http_server *http_start(const struct http_options *options, struct err *e)
{
    struct addrinfo *at = find_address(options->address, e);
    struct http_server *s = at ? calloc(1, sizeof *s) : NULL;
    int status = s ? 0 : -1;
    if (at && !s)
        err_no_memory(e, "the web server");
    if (s) {
        s->o = *options;
        s->loopback = is_loopback(at->ai_addr);
        if (options->token && !(s->token = strdup(options->token)))
            status = err_no_memory(e, "the web server");
        else if (!s->loopback && !options->token)
            status = err_set(e, ERR_USAGE, "--http %s is not the loopback: it needs a --token",
                             options->address);
        else if (!load(&s->mhd))
            status = err_set(e, ERR_CONNECT, "--http needs " MICROHTTPD);
        else
            status = listen_on(s, at, e);
    }
    if (at)
        freeaddrinfo(at);
    if (status == 0)
        return s;
    http_stop(s);
    return NULL;
}

void http_stop(struct http_server *s)
{
    if (!s)
        return;
    s->stopping = true;
    /* The library cannot stop while requests are suspended. */
    for (struct http_exchange *x = s->first; x; x = x->next) {
        if (x->streams)
            end_stream(x);
        else if (x->suspended)
            http_refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE, "the daemon ends");
    }
    if (s->daemon) {
        http_turn(s);
        s->mhd.stop(s->daemon);
    }
    library_unload(s->mhd.handle);
    free(s->token);
    free(s);
}

bool http_set_token(struct http_server *s, const char *token)
{
    char *copy = strdup(token);
    if (!copy)
        return false;
    free(s->token);
    s->token = copy;
    return true;
}

uint16_t http_port(const struct http_server *s)
{
    const union MHD_DaemonInfo *info = s->mhd.info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info ? info->port : 0;
}

int http_fd(const struct http_server *s)
{
    const union MHD_DaemonInfo *info = s->mhd.info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info ? info->epoll_fd : -1;
}

bool http_has_more(const struct http_server *s)
{
    MHD_UNSIGNED_LONG_LONG ms;
    return s->mhd.timeout(s->daemon, &ms) == MHD_YES && ms == 0;
}

void http_turn(struct http_server *s)
{
    http_patience_turn(&s->patience);
    for (unsigned i = 0; i == 0 || (i < RUNS_PER_TURN && http_has_more(s)); i++)
        (void)s->mhd.run(s->daemon);
}

const char *http_method(const struct http_exchange *x)
{
    return x->method;
}

const char *http_path(const struct http_exchange *x)
{
    return x->path;
}

bool http_has_argument(const struct http_exchange *x, const char *name)
{
    return x->server->mhd.value_n(x->connection, MHD_GET_ARGUMENT_KIND, name, strlen(name), NULL,
                                  NULL) == MHD_YES;
}

const char *http_body(const struct http_exchange *x, size_t *len)
{
    *len = x->body.len;
    return (const char *)x->body.data;
}
