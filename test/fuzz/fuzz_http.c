/*
 * Requests to the web server, as bytes over a connection. The first byte picks whether there is a
 * token and where the bytes are cut; then the server may refuse, answer, answer later or not at
 * all, but it must stay able to answer the next one.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/tempfile.h"
#include "server/daemon/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TOKEN "a-token-of-some-length"

static struct {
    struct http_server *server;
    struct http_exchange *later; /* a request that is answered in the next turn */
    struct http_exchange *stream;
} servers[2];

static bool is_open(void *ctx, const char *path)
{
    (void)ctx;
    return strcmp(path, "/open") == 0;
}

static void reply_page(struct http_exchange *x)
{
    struct err e = {0};
    int fd = tempfile_open(tempfile_dir(NULL), &e);
    if (fd < 0 || tempfile_write(fd, "", "page", 4, 0, &e) != 0)
        abort();
    http_reply_document(x, fd, 4, http_path(x));
}

static void handle(void *ctx, struct http_exchange *x)
{
    int i = (int)(intptr_t)ctx;
    size_t len;
    const char *body = http_body(x, &len);
    if (len > HTTP_BODY_MAX || (len && !body) || !*http_method(x))
        abort();
    const char *path = http_path(x);
    if (strcmp(path, "/later") == 0 && !servers[i].later)
        servers[i].later = x;
    else if (strcmp(path, "/stream") == 0 && !servers[i].stream)
        http_stream(servers[i].stream = x);
    else if (strcmp(path, "/login") == 0)
        http_login(x);
    else if (strncmp(path, "/p", 2) == 0)
        reply_page(x);
    else if (strncmp(path, "/r", 2) == 0)
        http_refuse(x, 404, path);
    else
        http_reply(x, 200, "text/plain", path, strlen(path));
}

static void over(void *ctx, struct http_exchange *x)
{
    int i = (int)(intptr_t)ctx;
    if (servers[i].later == x)
        servers[i].later = NULL;
    if (servers[i].stream == x)
        servers[i].stream = NULL;
}

static struct http_server *server_of(int i)
{
    struct err e = {0};
    const struct http_options options = {.address = "127.0.0.1:0",
                                         .token = i ? TOKEN : NULL,
                                         .open = is_open,
                                         .handle = handle,
                                         .over = over,
                                         .ctx = (void *)(intptr_t)i};
    if (!servers[i].server && !(servers[i].server = http_start(&options, &e)))
        abort();
    return servers[i].server;
}

/*
 * Where the server ends a connection its port stays taken for a minute, and thousands of inputs a
 * second use all of them up: then there will be one soon.
 */
static bool connect_when_possible(int fd, const struct sockaddr_in *at)
{
    while (connect(fd, (const struct sockaddr *)at, sizeof *at) != 0) {
        if (errno != EADDRNOTAVAIL)
            return false;
        (void)poll(NULL, 0, 100);
    }
    return true;
}

/* Closed by a reset, so that no port stays taken on this side. */
static int connect_to(struct http_server *s)
{
    const struct linger reset = {.l_onoff = 1};
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons(http_port(s)),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || !connect_when_possible(fd, &at) ||
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) != 0)
        abort();
    return fd;
}

/* Whether the server has ended the connection; what it says is not looked at. */
static bool take_answer(int fd)
{
    char bytes[4096];
    for (;;) {
        ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n > 0)
            continue;
        return n == 0 || errno != EAGAIN;
    }
}

static bool turn(int i, int fd, int wait_ms)
{
    struct pollfd polled = {.fd = http_fd(servers[i].server), .events = POLLIN};
    (void)poll(&polled, 1, wait_ms);
    http_turn(servers[i].server);
    if (servers[i].later)
        http_reply(servers[i].later, 200, "text/plain", "now", 3);
    if (servers[i].stream) {
        struct http_event event = {0};
        buf_puts(&event.text, "data: x\n\n");
        http_push(servers[i].stream, &event);
        buf_release(&event.text);
        buf_release(&event.packed);
    }
    return take_answer(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > (64u << 10))
        return 0;
    int i = data[0] & 1;
    size_t cut = (size_t)(data[0] >> 1) % size;
    struct http_server *s = server_of(i);
    int fd = connect_to(s);
    bool ended = false;
    if (cut)
        (void)send(fd, data + 1, cut, MSG_NOSIGNAL | MSG_DONTWAIT);
    ended = turn(i, fd, 0);
    if (!ended)
        (void)send(fd, data + 1 + cut, size - 1 - cut, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(fd, SHUT_WR);
    for (int n = 0; !ended && n < 4; n++)
        ended = turn(i, fd, 0);
    close(fd);
    /* It finds that this one is gone. */
    for (int n = 0; n < 2; n++)
        http_turn(s);
    return 0;
}
