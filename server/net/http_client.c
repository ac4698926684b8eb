#include "server/net/http_client.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "server/net/address.h"

#define HEAD_MAX ((size_t)16 << 10)

struct answer {
    const struct http_question *q;
    int fd;
    struct buf head;
    bool has_head;
    bool has_length;
    uint64_t left; /* of the body, if its length was sent */
};

static int wait_ready(const struct answer *a, short events, struct err *e)
{
    struct pollfd polled = {.fd = a->fd, .events = events};
    int n;
    while ((n = poll(&polled, 1, (int)(a->q->timeout * 1000))) < 0 && errno == EINTR)
        ;
    if (n > 0)
        return 0;
    return err_set(e, ERR_CONNECT, "%s does not answer", a->q->address);
}

static int open_one(struct answer *a, const struct addrinfo *at, struct err *e)
{
    int error = 0;
    socklen_t len = sizeof error;
    a->fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (a->fd >= 0 && connect(a->fd, at->ai_addr, at->ai_addrlen) == 0)
        return 0;
    if (a->fd >= 0 && errno == EINPROGRESS && wait_ready(a, POLLOUT, e) == 0 &&
        getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0) {
        if (!error)
            return 0;
        errno = error;
    }
    err_errno(e, ERR_CONNECT, "no daemon at %s", a->q->address);
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
    return -1;
}

static int open_any(struct answer *a, struct err *e)
{
    char host[NI_MAXHOST], *end = NULL;
    const char *port;
    struct addrinfo *list = NULL;
    unsigned long n = 0;
    if (address_split(a->q->address, host, &port) == 0 && port)
        n = strtoul(port, &end, 10);
    if (!end || *end || n < 1 || n > 65535 || !host[0])
        return err_set(e, ERR_USAGE, "where the daemon is: HOST:PORT, not '%s'", a->q->address);
    if (address_resolve(host, (uint16_t)n, 0, &list, e) != 0)
        return -1;
    int status = -1;
    for (const struct addrinfo *i = list; i && status != 0; i = i->ai_next)
        status = open_one(a, i, e);
    freeaddrinfo(list);
    return status;
}

static int send_question(const struct answer *a, struct err *e)
{
    const struct http_question *q = a->q;
    struct buf text = {0};
    size_t sent = 0;
    int status = 0;
    /* HTTP/1.0: the answer is not chunked, and the connection ends with it. */
    buf_printf(&text, "%s %s HTTP/1.0\r\nHost: %s\r\n", q->method, q->path, q->address);
    if (q->token)
        buf_printf(&text, "Authorization: Bearer %s\r\n", q->token);
    if (q->type)
        buf_printf(&text, "Content-Type: %s\r\n", q->type);
    buf_printf(&text, "Content-Length: %zu\r\n\r\n%s", q->body ? strlen(q->body) : 0,
               q->body ? q->body : "");
    if (text.failed)
        status = err_no_memory(e, "a request");
    while (status == 0 && sent < text.len) {
        ssize_t n = send(a->fd, text.data + sent, text.len - sent, MSG_NOSIGNAL);
        if (n > 0)
            sent += (size_t)n;
        else if (n < 0 && errno == EAGAIN)
            status = wait_ready(a, POLLOUT, e);
        else if (n < 0 && errno != EINTR)
            status = err_errno(e, ERR_CONNECT, "%s", q->address);
    }
    buf_release(&text);
    return status;
}

/* The head is complete; a NUL replaces the empty line that ends it. */
static int read_head(struct answer *a, const char *head, unsigned *status, struct err *e)
{
    if (sscanf(head, "HTTP/1.%*1[01] %3u", status) != 1 || *status < 100)
        return err_set(e, ERR_CONNECT, "what answers at %s is no web server", a->q->address);
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
        static const char name[] = "Content-Length:";
        if (strncasecmp(line + 2, name, sizeof name - 1) != 0)
            continue;
        a->left = strtoull(line + 2 + sizeof name - 1, NULL, 10);
        a->has_length = true;
    }
    a->has_head = true;
    return 0;
}

static int take_body(struct answer *a, const void *bytes, size_t n, struct err *e)
{
    if (a->has_length && n > a->left)
        n = (size_t)a->left;
    a->left -= a->has_length ? n : 0;
    return n ? a->q->take(a->q->ctx, bytes, n, e) : 0;
}

static int take_bytes(struct answer *a, const void *bytes, size_t n, unsigned *status,
                      struct err *e)
{
    if (a->has_head)
        return take_body(a, bytes, n, e);
    buf_put(&a->head, bytes, n);
    const char *text = buf_str(&a->head);
    const char *end = a->head.failed ? NULL : strstr(text, "\r\n\r\n");
    if (a->head.failed)
        return err_no_memory(e, "an answer");
    if (!end)
        return a->head.len < HEAD_MAX
                   ? 0
                   : err_set(e, ERR_CONNECT, "what answers at %s is no web server", a->q->address);
    size_t head = (size_t)(end - text) + 4;
    a->head.data[head - 4] = 0;
    if (read_head(a, text, status, e) != 0)
        return -1;
    return take_body(a, a->head.data + head, a->head.len - head, e);
}

static int receive(struct answer *a, unsigned *status, struct err *e)
{
    char bytes[16384];
    for (;;) {
        ssize_t n = recv(a->fd, bytes, sizeof bytes, 0);
        if (n < 0 && errno == EAGAIN) {
            if (wait_ready(a, POLLIN, e) != 0)
                return -1;
        } else if (n < 0 && errno != EINTR) {
            return err_errno(e, ERR_CONNECT, "%s", a->q->address);
        } else if (n == 0) {
            break;
        } else if (n > 0 && take_bytes(a, bytes, (size_t)n, status, e) != 0) {
            return -1;
        }
    }
    if (!a->has_head || (a->has_length && a->left))
        return err_set(e, ERR_CONNECT, "%s ended in the middle of its answer", a->q->address);
    return 0;
}

int http_ask(const struct http_question *q, unsigned *status, struct err *e)
{
    struct answer a = {.q = q, .fd = -1};
    *status = 0;
    int result = open_any(&a, e);
    if (result == 0)
        result = send_question(&a, e);
    if (result == 0)
        result = receive(&a, status, e);
    if (a.fd >= 0)
        close(a.fd);
    buf_release(&a.head);
    return result;
}
