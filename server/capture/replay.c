#include "server/capture/replay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/monotonic.h"
#include "protocol/ending.h"
#include "protocol/handshake.h"
#include "protocol/query.h"
#include "server/net/address.h"

#define CHUNK 65536
#define HANDSHAKE_MS 2000 /* timeout for a server's request */
#define ANNOUNCE_NS 3000000000LL
#define END_MS 500 /* time for the server to close after the client's end */
#define RECORDING_SUFFIX ".c2s.bin"
#define REQUEST_SUFFIX ".s2c.bin"

struct replay {
    struct replay_options options;
    uint32_t protocol;
    int file;
    int listener;
    char address[INET6_ADDRSTRLEN + 16];
    uint16_t port;
    struct replay_stats stats;

    int announcer; /* -1: none */
    struct sockaddr_storage announce_to;
    socklen_t announce_len;
    long long started, announced; /* monotonic, ns */
    struct broadcast broadcast;
};

/* One connection to which the recording is played. */
struct play {
    int fd;
    long long begin;       /* monotonic, ns */
    uint64_t sent;         /* bytes of the recording sent */
    bool at_end;           /* the recording has been read to its end */
    bool over;             /* the server is gone or sent Terminate */
    bool looked;           /* the recording's end was determined */
    struct ending *ending; /* for a recording that can be read only once */
    size_t have, done;     /* bytes of the chunk read, and sent */
    size_t packet_bytes;   /* bytes of the current query packet */
    uint8_t packet[QUERY_PACKET_SIZE];
    uint8_t chunk[CHUNK];
};

/* ---- the recording */

/* NAME.c2s.bin → the protocol number in NAME.s2c.bin. */
static int read_protocol(const char *recording, uint32_t *protocol, struct err *e)
{
    size_t len = strlen(recording);
    size_t suffix = strlen(RECORDING_SUFFIX);
    if (len < suffix || strcmp(recording + len - suffix, RECORDING_SUFFIX) != 0)
        return err_set(e, ERR_USAGE,
                       "%s: its name does not end in " RECORDING_SUFFIX
                       "; give the client's protocol number with --protocol",
                       recording);
    char path[4096];
    int n = snprintf(path, sizeof path, "%.*s" REQUEST_SUFFIX, (int)(len - suffix), recording);
    if (n < 0 || (size_t)n >= sizeof path)
        return err_set(e, ERR_USAGE, "%s: the name is too long", recording);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_errno(e, ERR_INPUT, "%s (use --protocol N to do without it)", path);
    uint8_t request[HANDSHAKE_REQUEST_SIZE];
    ssize_t got = read(fd, request, sizeof request);
    close(fd);
    if (got != (ssize_t)sizeof request)
        return err_set(e, ERR_INPUT, "%s: too short for a handshake", path);
    if (handshake_request_parse(request, protocol, e) < 0)
        return err_prefix(e, "%s", path);
    return 0;
}

static int open_recording(struct replay *r, struct err *e)
{
    const char *path = r->options.recording;
    if (strcmp(path, "-") == 0) {
        if (r->options.connections != 1)
            return err_set(e, ERR_USAGE, "standard input can be played once only");
        if (r->options.protocol == 0)
            return err_set(e, ERR_USAGE, "standard input needs --protocol N");
        r->file = dup(STDIN_FILENO);
    } else {
        r->file = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (r->file < 0)
        return err_errno(e, ERR_INPUT, "%s", path);
    if (r->options.protocol)
        return 0;
    return read_protocol(path, &r->protocol, e);
}

/* Reads the program's name for announcements from the recording's welcome message. */
static void read_program_name(struct replay *r)
{
    const struct wire_version *v = wire_version_find(r->protocol);
    uint8_t bytes[1 + WELCOME_SIZE_MAX];
    struct welcome w;
    if (!v)
        return;
    size_t want = 1 + wire_version_welcome_size(v);
    if (pread(r->file, bytes, want, 0) == (ssize_t)want && bytes[0] == HANDSHAKE_WELCOME &&
        welcome_parse(v, bytes + 1, want - 1, &w, NULL) == 0)
        memcpy(r->broadcast.name, w.program_name, sizeof r->broadcast.name);
}

/* ---- sockets */

static int set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* Formats a bound address as "127.0.0.1:8086" or "[::1]:8086". */
static uint16_t print_address(const struct sockaddr_storage *a, char *out, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (a->ss_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, a, sizeof in6);
        inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof host);
        snprintf(out, size, "[%s]:%u", host, ntohs(in6.sin6_port));
        return ntohs(in6.sin6_port);
    }
    struct sockaddr_in in;
    memcpy(&in, a, sizeof in);
    inet_ntop(AF_INET, &in.sin_addr, host, sizeof host);
    snprintf(out, size, "%s:%u", host, ntohs(in.sin_port));
    return ntohs(in.sin_port);
}

static int listen_on(struct replay *r, struct err *e)
{
    struct addrinfo *found;
    if (address_resolve(r->options.address, r->options.port, AI_PASSIVE, &found, e) != 0)
        return -1;
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof bound;
    int one = 1;
    r->listener = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = -1;
    if (r->listener >= 0 &&
        setsockopt(r->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(r->listener, found->ai_addr, found->ai_addrlen) == 0 && listen(r->listener, 4) == 0 &&
        set_nonblocking(r->listener) == 0 &&
        getsockname(r->listener, (struct sockaddr *)&bound, &len) == 0)
        rc = 0;
    else
        err_errno(e, ERR_CONNECT, "cannot listen on %s port %u", r->options.address,
                  r->options.port);
    freeaddrinfo(found);
    if (rc == 0)
        r->port = print_address(&bound, r->address, sizeof r->address);
    return rc;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static int open_announcer(struct replay *r, struct err *e)
{
    char host[NI_MAXHOST];
    char default_port[8];
    const char *port;
    const char *to = r->options.announce;
    snprintf(default_port, sizeof default_port, "%u", BROADCAST_PORT);
    if (address_split(to, host, &port) != 0)
        return err_set(e, ERR_USAGE, "%s is no address", to);
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *found;
    int why = getaddrinfo(host, port ? port : default_port, &hints, &found);
    if (why != 0)
        return err_set(e, ERR_USAGE, "%s: %s", to, gai_strerror(why));
    int rc = -1;
    int one = 1;
    if (!is_loopback(found->ai_addr)) {
        err_set(e, ERR_USAGE, "%s is no loopback address", to);
    } else if ((r->announcer = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)) < 0 ||
               setsockopt(r->announcer, SOL_SOCKET, SO_BROADCAST, &one, sizeof one) < 0) {
        err_errno(e, ERR_CONNECT, "cannot announce to %s", to);
    } else {
        memcpy(&r->announce_to, found->ai_addr, found->ai_addrlen);
        r->announce_len = found->ai_addrlen;
        rc = 0;
    }
    freeaddrinfo(found);
    return rc;
}

/* Sends an announcement every three seconds while it waits, like a client. Errors do not matter. */
static void announce(struct replay *r, int32_t active_time)
{
    uint8_t datagram[BROADCAST_SIZE_MAX];
    r->broadcast.version = 3;
    r->broadcast.port = r->port;
    r->broadcast.protocol = r->protocol;
    r->broadcast.pid = (uint64_t)getpid();
    r->broadcast.active_time = active_time;
    size_t n = broadcast_encode(&r->broadcast, datagram);
    if (r->announcer >= 0)
        (void)!sendto(r->announcer, datagram, n, 0, (const struct sockaddr *)&r->announce_to,
                      r->announce_len);
    r->announced = monotonic_ns();
}

/* ---- setup */

struct replay *replay_new(const struct replay_options *options, struct err *e)
{
    struct replay *r = calloc(1, sizeof *r);
    if (!r) {
        err_no_memory(e, "a replay");
        return NULL;
    }
    r->options = *options;
    r->protocol = options->protocol;
    r->file = r->listener = r->announcer = -1;
    r->started = monotonic_ns();
    if (open_recording(r, e) < 0 || listen_on(r, e) < 0 ||
        (options->announce && open_announcer(r, e) < 0)) {
        replay_free(r);
        return NULL;
    }
    read_program_name(r);
    return r;
}

void replay_free(struct replay *r)
{
    if (!r)
        return;
    int fds[] = {r->file, r->listener, r->announcer};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(r);
}

const char *replay_address(const struct replay *r)
{
    return r->address;
}

const struct replay_stats *replay_stats(const struct replay *r)
{
    return &r->stats;
}

/* ---- one connection */

/* Reads the request; false when it is invalid or times out. */
static bool take_request(int fd, struct stop *stop, uint32_t *protocol)
{
    uint8_t request[HANDSHAKE_REQUEST_SIZE];
    size_t have = 0;
    while (have < sizeof request) {
        if (!stop_wait(stop, fd, POLLIN, HANDSHAKE_MS))
            return false;
        ssize_t n = recv(fd, request + have, sizeof request - have, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        have += n > 0 ? (size_t)n : 0;
    }
    return handshake_request_parse(request, protocol, NULL) == 0;
}

/* Reads the server's packets and ignores all but Terminate, whose code is 0 in every protocol. */
static void drain_queries(struct replay *r, struct play *p)
{
    uint8_t bytes[4096];
    for (;;) {
        ssize_t n = recv(p->fd, bytes, sizeof bytes, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            p->over = true;
            return;
        }
        for (ssize_t i = 0; i < n; i++) {
            p->packet[p->packet_bytes++] = bytes[i];
            if (p->packet_bytes < QUERY_PACKET_SIZE)
                continue;
            p->packet_bytes = 0;
            r->stats.queries++;
            p->over |= p->packet[0] == 0;
        }
    }
}

static int refill(struct replay *r, struct play *p, struct err *e)
{
    ssize_t n;
    do
        n = read(r->file, p->chunk, sizeof p->chunk);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_errno(e, ERR_INPUT, "%s", r->options.recording);
    if (p->ending)
        ending_feed(p->ending, p->chunk, (size_t)n);
    p->have = (size_t)n;
    p->done = 0;
    p->at_end = n == 0;
    return 0;
}

/* Bytes that --rate allows to send now. */
static size_t allowance(const struct replay *r, const struct play *p)
{
    if (r->options.rate == 0)
        return SIZE_MAX;
    double seconds = (double)(monotonic_ns() - p->begin) * 1e-9;
    double allowed = seconds * (double)r->options.rate - (double)p->sent;
    return allowed < 1 ? 0 : (size_t)allowed;
}

static void send_some(struct replay *r, struct play *p, size_t most)
{
    size_t n = p->have - p->done;
    ssize_t sent = send(p->fd, p->chunk + p->done, n < most ? n : most, MSG_NOSIGNAL);
    if (sent < 0) {
        p->over |= errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
        return;
    }
    p->done += (size_t)sent;
    p->sent += (uint64_t)sent;
    r->stats.bytes += (uint64_t)sent;
}

/* ---- the end of the recording */

/* Reads the whole recording again, since most of it is no longer in memory. */
static int look_again(struct replay *r, struct play *p, struct ending *g, struct stop *stop,
                      struct err *e)
{
    int rc =
        lseek(r->file, 0, SEEK_SET) < 0 ? err_errno(e, ERR_INPUT, "%s", r->options.recording) : 0;
    for (p->at_end = false; rc == 0 && !p->at_end && !ending_said(g) && !stop_asked(stop);) {
        rc = refill(r, p, e);
        if (rc == 0)
            ending_feed(g, p->chunk, p->have);
    }
    p->at_end = true;
    p->have = p->done = 0;
    return rc;
}

/*
 * At the end of the recording: waits for the server to close if the client ended in order, else
 * closes the sending side.
 */
static int finish(struct replay *r, struct play *p, struct stop *stop, struct err *e)
{
    const struct wire_version *v = wire_version_find(r->protocol);
    p->looked = true;
    if (!v)
        return 0;
    struct ending *g = p->ending ? p->ending : ending_new(v);
    if (!g)
        return err_no_memory(e, "a connection");
    int rc = p->ending ? 0 : look_again(r, p, g, stop, e);
    if (rc == 0 && !ending_said(g))
        (void)shutdown(p->fd, SHUT_WR); /* close() would drop bytes in flight */
    if (g != p->ending)
        ending_free(g);
    return rc;
}

/* ---- playing */

static int play_on(struct replay *r, struct play *p, struct stop *stop, struct err *e)
{
    while (!p->over && !stop_asked(stop)) {
        if (p->done == p->have && !p->at_end && refill(r, p, e) < 0)
            return -1;
        size_t most = p->at_end ? 0 : allowance(r, p);
        bool throttled = !p->at_end && most == 0;
        bool ending = p->at_end && !p->looked && !r->options.hold;
        short events = (short)(POLLIN | (most ? POLLOUT : 0));
        short ready = stop_wait(stop, p->fd, events, throttled ? 10 : ending ? END_MS : -1);
        if (ready & (POLLIN | POLLHUP | POLLERR))
            drain_queries(r, p);
        if (ready & POLLOUT && !p->over)
            send_some(r, p, most);
        if (ending && ready == 0 && !stop_asked(stop) && finish(r, p, stop, e) != 0)
            return -1;
    }
    return 0;
}

/* Plays the recording, then waits for the server to close. */
static int play(struct replay *r, int fd, struct stop *stop, struct err *e)
{
    const struct wire_version *v = wire_version_find(r->protocol);
    bool once = strcmp(r->options.recording, "-") == 0;
    struct play *p = calloc(1, sizeof *p);
    if (p && v && once)
        p->ending = ending_new(v);
    if (!p || (v && once && !p->ending)) {
        free(p);
        return err_no_memory(e, "a connection");
    }
    p->fd = fd;
    p->begin = monotonic_ns();
    int rc = play_on(r, p, stop, e);
    ending_free(p->ending);
    free(p);
    return rc;
}

/* Serves one server; *played: whether it received the recording. */
static int serve(struct replay *r, int fd, struct stop *stop, bool *played, struct err *e)
{
    uint32_t protocol;
    *played = false;
    if (set_nonblocking(fd) < 0 || !take_request(fd, stop, &protocol))
        return 0;
    if (protocol != r->protocol) {
        uint8_t status = HANDSHAKE_MISMATCH;
        r->stats.mismatches++;
        (void)!send(fd, &status, 1, MSG_NOSIGNAL);
        return 0;
    }
    if (strcmp(r->options.recording, "-") != 0 && lseek(r->file, 0, SEEK_SET) < 0)
        return err_errno(e, ERR_INPUT, "%s", r->options.recording);
    *played = true;
    r->stats.connections++;
    return play(r, fd, stop, e);
}

int replay_run(struct replay *r, struct stop *stop, bool *stopped, struct err *e)
{
    const struct replay_options *o = &r->options;
    *stopped = false;
    while (o->connections == 0 || r->stats.connections < o->connections) {
        long long now = monotonic_ns();
        if (r->announcer >= 0 && (r->announced == 0 || now - r->announced >= ANNOUNCE_NS))
            announce(r, (int32_t)((now - r->started) / 1000000000));
        stop_wait(stop, r->listener, POLLIN, r->announcer >= 0 ? 100 : -1);
        if (stop_asked(stop)) {
            *stopped = true;
            break;
        }
        int fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED)
                continue;
            return err_errno(e, ERR_CONNECT, "cannot accept connections on %s", r->address);
        }
        announce(r, -1); /* announces "busy", as a client does */
        bool played;
        int rc = serve(r, fd, stop, &played, e);
        close(fd);
        if (rc < 0)
            return -1;
        *stopped = stop_asked(stop);
        if (*stopped)
            break;
    }
    return 0;
}
