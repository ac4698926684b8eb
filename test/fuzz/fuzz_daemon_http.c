/*
 * Requests to a daemon, as far as who asks for what: paths, questions to sessions, files of the
 * folder, streams. The first byte says what the others are: a whole request (0) or, with a method
 * and headers that the server takes, the path of a GET (1), of a POST (2) or the body of one that
 * begins a capture (3), and whether a token is wanted (bit 2). Captures and reports are made up.
 * Whatever is asked, nothing of a file outside the folder is ever sent.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/daemon/daemon.h"
#include "server/daemon/daemon_clients.h"
#include "server/daemon/daemon_events.h"
#include "server/daemon/daemon_http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TOKEN "a-token-of-some-length"
#define SECRET "a word that stands outside"

static struct daemon daemons[2];
static struct capture running = {.state = CAPTURE_RUNNING, .number = 1, .words = -1};
static struct capture saved = {
    .state = CAPTURE_SAVED, .number = 2, .words = -1, .left_alone = "quota"};
static struct channel session; /* the other end of the running one's */

/* ---- what the daemon would do */

void captures_stop_one(const struct capture *one)
{
    if (one != &running && one != &saved)
        abort();
}

const char *captures_left_alone(const struct capture *one)
{
    return one->left_alone;
}

int captures_save_now(struct capture *one)
{
    return one->state == CAPTURE_RUNNING ? 0 : -1;
}

struct capture *daemon_capture(struct daemon *d, const char *address, uint16_t port, struct err *e)
{
    uint8_t number[16];
    (void)d;
    if (port == 0 ||
        (inet_pton(AF_INET, address, number) != 1 && inet_pton(AF_INET6, address, number) != 1))
        abort();
    err_set(e, ERR_CONNECT, "%s is being captured", address);
    return port & 1 ? &running : NULL;
}

void daemon_send_report(struct daemon *d, struct http_exchange *x, const char *name,
                        enum report_kind kind)
{
    struct stat st;
    int fd = daemon_open_trace(d, name, &st);
    if (fd < 0)
        http_refuse(x, 404, "there is no such trace");
    else if (kind == REPORT_PAGE)
        http_reply_document(x, fd, (uint64_t)st.st_size, name);
    else
        http_reply_fd(x, fd, (uint64_t)st.st_size, "application/json");
}

void daemon_reports_over(struct daemon *d, const struct http_exchange *x)
{
    (void)d, (void)x;
}

void daemon_reports_turn(struct daemon *d)
{
    (void)d;
}

json_t *daemon_alerts_json(const struct daemon *d, const struct capture *one)
{
    (void)d, (void)one;
    return json_array();
}

void daemon_log(struct daemon *d, enum log_level level, const char *event,
                const struct capture *one, json_t *more, const char *form, ...)
{
    (void)d, (void)level, (void)event, (void)one, (void)form;
    json_decref(more);
}

/* ---- a daemon */

static void put_file(int dir, const char *name, const char *text)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        abort();
    close(fd);
}

/* A folder with a trace, a link that leads out of it, and what is nobody's business. */
static char *make_folder(void)
{
    char outer[] = "/tmp/tidemark-fuzz-XXXXXX";
    char path[64];
    if (!mkdtemp(outer))
        abort();
    int dir = open(outer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put_file(dir, "secret.tracy", SECRET);
    if (mkdirat(dir, "traces", 0700) != 0)
        abort();
    close(dir);
    snprintf(path, sizeof path, "%s/traces", outer);
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put_file(dir, "a.tracy", "a trace");
    put_file(dir, "words", SECRET);
    put_file(dir, ".hidden.tracy", SECRET);
    if (symlinkat("../secret.tracy", dir, "link.tracy") != 0)
        abort();
    close(dir);
    return strdup(path);
}

static struct daemon *daemon_of(int i)
{
    struct daemon *d = &daemons[i];
    struct err e = {0};
    if (d->http.server)
        return d;
    if (!running.hello && channel_pair(&running.channel, &session, &e) != 0)
        abort();
    if (!running.hello)
        running.hello = json_pack("{s:s, s:i}", "program", "p", "pid", 7);
    d->dir = d->captures.dir = make_folder();
    d->http.address = "127.0.0.1:0";
    d->http.token = i ? strdup(TOKEN) : NULL;
    if (!vec_push(&d->captures.list, &running) || !vec_push(&d->captures.list, &saved) ||
        daemon_http_start(d, &e) != 0)
        abort();
    return d;
}

/* ---- a request */

/*
 * Closed by a reset, so that no port stays taken for a minute; but when the server closes first,
 * one does, and after some thousands of them a free one is waited for.
 */
static int connect_to(const struct daemon *d)
{
    const struct linger reset = {.l_onoff = 1};
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons(http_port(d->http.server)),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof at) != 0) {
        if (errno != EADDRNOTAVAIL)
            abort();
        usleep(100000);
    }
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) != 0)
        abort();
    return fd;
}

static void compose(struct buf *out, const uint8_t *data, size_t size)
{
    static const char headers[] =
        " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " TOKEN "\r\n";
    int what = data[0] & 3;
    if (what == 1 || what == 2) {
        buf_puts(out, what == 1 ? "GET " : "POST ");
        buf_put(out, data + 1, size - 1);
        buf_puts(out, headers);
        buf_puts(out, what == 1 ? "\r\n" : "Content-Length: 0\r\n\r\n");
    } else if (what == 3) {
        buf_puts(out, "POST /api/v1/clients");
        buf_puts(out, headers);
        buf_printf(out, "Content-Length: %zu\r\n\r\n", size - 1);
        buf_put(out, data + 1, size - 1);
    } else {
        buf_put(out, data + 1, size - 1);
    }
}

/* Whether the server has ended the connection. */
static bool take_answer(int fd, bool whole)
{
    char bytes[8192];
    for (;;) {
        ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n <= 0)
            return n == 0 || errno != EAGAIN;
        /* Said back are only paths and addresses of the request itself. */
        if (!whole && memmem(bytes, (size_t)n, SECRET, strlen(SECRET)))
            abort();
    }
}

/* The session answers what it is asked: something, or nothing that is JSON. */
static void answer_for_session(struct daemon *d)
{
    struct channel_message m;
    (void)channel_pump(&session);
    while (channel_next(&session, &m))
        (void)channel_send(&session, MONITOR_ANSWER, m.reference, m.reference & 1 ? "{}" : "{", 2);
    (void)channel_pump(&running.channel);
    while (channel_next(&running.channel, &m))
        d->captures.answered(d->captures.answered_ctx, &running, &m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf request = {0};
    if (size < 2 || size > (16u << 10))
        return 0;
    struct daemon *d = daemon_of(data[0] >> 2 & 1);
    bool contained = memmem(data, size, SECRET, strlen(SECRET)) != NULL, ended = false;
    compose(&request, data, size);
    int fd = connect_to(d);
    (void)!send(fd, request.data, request.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(fd, SHUT_WR);
    for (int n = 0; !ended && n < 5; n++) {
        struct pollfd polled = {.fd = http_fd(d->http.server), .events = POLLIN};
        (void)poll(&polled, 1, 0);
        daemon_http_turn(d);
        answer_for_session(d);
        ended = take_answer(fd, contained);
    }
    close(fd);
    buf_release(&request);
    /* It finds that this one is gone. */
    for (int n = 0; n < 2; n++)
        daemon_http_turn(d);
    return 0;
}
