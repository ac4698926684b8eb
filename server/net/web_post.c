#include "server/net/web_post.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/library.h"

#define CONNECT_SECONDS 10L
#define SILENT_SECONDS 60L
#define ANSWER_MAX ((size_t)1 << 20)
#define SHOWN_MAX 300u /* bytes shown of a server's error message */

/*
 * Loaded when first needed: its TLS libraries would double the start time of every command. All of
 * them have the same functions.
 */
static const char *const libraries[] = {"libcurl-gnutls.so.4", "libcurl.so.4"};

#define CURL_FUNCTIONS(FUNCTION)                                                                   \
    FUNCTION(easy_init)                                                                            \
    FUNCTION(easy_cleanup)                                                                         \
    FUNCTION(easy_setopt)                                                                          \
    FUNCTION(easy_perform)                                                                         \
    FUNCTION(easy_getinfo)                                                                         \
    FUNCTION(easy_strerror)                                                                        \
    FUNCTION(easy_escape)                                                                          \
    FUNCTION(free)                                                                                 \
    FUNCTION(slist_append)                                                                         \
    FUNCTION(slist_free_all)                                                                       \
    FUNCTION(url)                                                                                  \
    FUNCTION(url_cleanup)                                                                          \
    FUNCTION(url_set)                                                                              \
    FUNCTION(url_get)

struct curl_library {
    void *handle;
#define FUNCTION(NAME) __typeof__(curl_##NAME) *(NAME);
    CURL_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

struct web_post {
    struct curl_library lib;
    CURL *curl;
    CURLU *url;
    char *query;        /* query part of the address; NULL: none */
    struct buf *answer; /* of the current request */
    unsigned status;    /* of the last request */
    char why[CURL_ERROR_SIZE];
};

static int load(struct curl_library *lib, struct err *e)
{
    const struct library_function functions[] = {
#define FUNCTION(NAME) LIBRARY_FUNCTION(curl_##NAME, &lib->NAME),
        CURL_FUNCTIONS(FUNCTION)
#undef FUNCTION
    };
    for (size_t i = 0; !lib->handle && i < sizeof libraries / sizeof *libraries; i++)
        lib->handle = library_load(libraries[i], functions, sizeof functions / sizeof *functions);
    return lib->handle ? 0 : err_set(e, ERR_OUTPUT, "%s is not installed", libraries[0]);
}

static size_t take(char *bytes, size_t size, size_t n, void *ctx)
{
    struct web_post *p = ctx;
    n *= size;
    if (p->answer->len + n > ANSWER_MAX)
        return 0;
    buf_put(p->answer, bytes, n);
    return p->answer->failed ? 0 : n;
}

static bool set_up(struct web_post *p, const char *user, const char *password)
{
    CURL *c = p->curl;
    return p->lib.easy_setopt(c, CURLOPT_CURLU, p->url) == CURLE_OK &&
           p->lib.easy_setopt(c, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           p->lib.easy_setopt(c, CURLOPT_ERRORBUFFER, p->why) == CURLE_OK &&
           p->lib.easy_setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS) == CURLE_OK &&
           p->lib.easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L) == CURLE_OK &&
           p->lib.easy_setopt(c, CURLOPT_LOW_SPEED_TIME, SILENT_SECONDS) == CURLE_OK &&
           p->lib.easy_setopt(c, CURLOPT_WRITEFUNCTION, take) == CURLE_OK &&
           p->lib.easy_setopt(c, CURLOPT_WRITEDATA, p) == CURLE_OK &&
           (!user || p->lib.easy_setopt(c, CURLOPT_USERNAME, user) == CURLE_OK) &&
           (!password || p->lib.easy_setopt(c, CURLOPT_PASSWORD, password) == CURLE_OK);
}

/* Takes the address; for HTTPS also the certificates. */
static int set_address(struct web_post *p, const char *url, struct err *e)
{
    const char *bundle = NULL;
    char *scheme = NULL;
    bool valid = p->lib.url_set(p->url, CURLUPART_URL, url, 0) == CURLUE_OK &&
                 p->lib.url_get(p->url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK;
    bool https = valid && strcmp(scheme, "https") == 0;
    bool web = https || (valid && strcmp(scheme, "http") == 0);
    p->lib.free(scheme);
    if (!web)
        return err_set(e, ERR_USAGE, "'%s' is no address of a web server", url);
    if (https && ca_bundle_find(&bundle, e) != 0)
        return -1;
    if (https && p->lib.easy_setopt(p->curl, CURLOPT_CAINFO, bundle) != CURLE_OK)
        return err_no_memory(e, "a connection");
    (void)p->lib.url_get(p->url, CURLUPART_QUERY, &p->query, 0); /* the query is optional */
    return 0;
}

struct web_post *web_post_open(const char *url, const char *user, const char *password,
                               struct err *e)
{
    struct web_post *p = calloc(1, sizeof *p);
    int status = p ? load(&p->lib, e) : err_no_memory(e, "a connection");
    if (status == 0 &&
        (!(p->url = p->lib.url()) || !(p->curl = p->lib.easy_init()) || !set_up(p, user, password)))
        status = err_no_memory(e, "a connection");
    else if (status == 0)
        status = set_address(p, url, e);
    if (status == 0)
        return p;
    web_post_close(p);
    return NULL;
}

void web_post_close(struct web_post *p)
{
    if (!p)
        return;
    if (p->curl)
        p->lib.easy_cleanup(p->curl);
    if (p->query)
        p->lib.free(p->query);
    if (p->url)
        p->lib.url_cleanup(p->url);
    free(p);
}

static bool set_query(struct web_post *p, const char *name, const char *value)
{
    struct buf query = {0};
    if (!name)
        return p->lib.url_set(p->url, CURLUPART_QUERY, p->query, 0) == CURLUE_OK;
    char *escaped = p->lib.easy_escape(p->curl, value, 0);
    buf_printf(&query, "%s=%s", name, escaped ? escaped : "");
    bool set = escaped && !query.failed &&
               p->lib.url_set(p->url, CURLUPART_QUERY, buf_str(&query), 0) == CURLUE_OK;
    p->lib.free(escaped);
    buf_release(&query);
    return set;
}

/* The first line of the answer, escaped for a terminal. */
static int complain(long status, const struct buf *answer, struct err *e)
{
    struct buf shown = {0};
    const char *text = answer->len ? (const char *)answer->data : "";
    const char *end = answer->len ? memchr(text, '\n', answer->len) : NULL;
    size_t n = end ? (size_t)(end - text) : answer->len;
    format_terminal(&shown, (struct view){text, n < SHOWN_MAX ? n : SHOWN_MAX});
    err_set(e, ERR_OUTPUT, "the server refuses it (%ld): %s", status, buf_str(&shown));
    buf_release(&shown);
    return -1;
}

static int perform(struct web_post *p, struct err *e)
{
    long status = 0;
    p->why[0] = 0;
    p->status = 0;
    CURLcode code = p->lib.easy_perform(p->curl);
    if (code == CURLE_OUT_OF_MEMORY || p->answer->failed)
        return err_no_memory(e, "a request");
    if (code != CURLE_OK)
        return err_set(e, ERR_CONNECT, "%s", p->why[0] ? p->why : p->lib.easy_strerror(code));
    (void)p->lib.easy_getinfo(p->curl, CURLINFO_RESPONSE_CODE, &status);
    p->status = (unsigned)status;
    return status >= 200 && status < 300 ? 0 : complain(status, p->answer, e);
}

int web_post_send(struct web_post *p, const char *name, const char *value, const char *type,
                  const void *bytes, size_t n, struct buf *answer, struct err *e)
{
    struct buf header = {0};
    struct curl_slist *headers = NULL, *more;
    buf_printf(&header, "Content-Type: %s", type);
    buf_clear(answer);
    p->answer = answer;
    /* An empty "Expect:" sends large bodies at once, without a round trip for permission. */
    bool ready =
        !header.failed && (headers = p->lib.slist_append(NULL, buf_str(&header))) &&
        (more = p->lib.slist_append(headers, "Expect:")) && set_query(p, name, value) &&
        p->lib.easy_setopt(p->curl, CURLOPT_HTTPHEADER, more) == CURLE_OK &&
        p->lib.easy_setopt(p->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n) == CURLE_OK &&
        p->lib.easy_setopt(p->curl, CURLOPT_POSTFIELDS, n ? bytes : "") == CURLE_OK;
    int status = ready ? perform(p, e) : err_no_memory(e, "a request");
    p->lib.slist_free_all(headers);
    buf_release(&header);
    return status;
}

unsigned web_post_status(const struct web_post *p)
{
    return p->status;
}
