#include "server/net/connect_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "server/net/address.h"
#include "server/net/discovery.h"
#include "server/net/keepalive.h"

#define ANNOUNCEMENTS_MAX 256u /* received in a row */
#define RETRY_FIRST_MS 20
#define RETRY_MOST_MS 500
/*
 * A client waits this long for the request and then closes the connection without a message:
 * wire-protocol 1.3.
 */
#define CONNECT_MS 5000
#define ADDRESSES_MAX 8
#define LOOPBACK_BROADCAST 0x7fffffffu /* 127.255.255.255 */

struct target {
    struct sockaddr_storage at[ADDRESSES_MAX];
    socklen_t len[ADDRESSES_MAX];
    unsigned n;
};

struct attempt {
    const struct connect_options *o;
    struct stop *stop;
    struct target target;
    long long deadline; /* monotonic ns; 0: none */
    int announcements;  /* UDP socket or -1 */
    uint32_t hint;      /* protocol number that the client announced, or 0 */
    int last_errno;     /* of the last failed connect */
    bool told_waiting;
};

static bool out_of_time(const struct attempt *a)
{
    return a->deadline && monotonic_ns() >= a->deadline;
}

static int time_left_ms(const struct attempt *a, int most)
{
    if (!a->deadline)
        return most;
    long long left = (a->deadline - monotonic_ns()) / 1000000;
    return left < 0 ? 0 : left < most ? (int)left : most;
}

/* ---- addresses */

static void target_add(struct target *t, const struct sockaddr *address, socklen_t len)
{
    if (t->n < ADDRESSES_MAX && len <= sizeof t->at[0]) {
        memcpy(&t->at[t->n], address, len);
        t->len[t->n++] = len;
    }
}

static void target_add_v4_loopback(struct target *t, uint16_t port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    target_add(t, (const struct sockaddr *)&at, sizeof at);
}

static void target_add_v6_loopback(struct target *t, uint16_t port)
{
    struct sockaddr_in6 at = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    target_add(t, (const struct sockaddr *)&at, sizeof at);
}

/*
 * A client limited to this host may listen only on ::1 or only on 127.0.0.1, and still announces
 * the host's external address: try the others, too.
 */
static void target_add_other_loopback(struct target *t, uint16_t port)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&t->at[0];
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&t->at[0];
    if (t->n != 1)
        return;
    if (v4->sin_family == AF_INET && address_is_own(v4)) {
        if (v4->sin_addr.s_addr != htonl(INADDR_LOOPBACK))
            target_add_v4_loopback(t, port);
        target_add_v6_loopback(t, port);
    } else if (v6->sin6_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr)) {
        target_add_v4_loopback(t, port);
    }
}

static int resolve(const struct connect_options *o, struct target *t, struct err *e)
{
    struct addrinfo *list = NULL;
    if (address_resolve(o->address, o->port, 0, &list, e) != 0)
        return -1;
    for (const struct addrinfo *i = list; i; i = i->ai_next)
        target_add(t, i->ai_addr, i->ai_addrlen);
    freeaddrinfo(list);
    target_add_other_loopback(t, o->port);
    return 0;
}

/* ---- announcements */

static bool is_loopback(const struct sockaddr_storage *s)
{
    if (s->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)s)->sin6_addr);
    return s->ss_family == AF_INET &&
           ntohl(((const struct sockaddr_in *)s)->sin_addr.s_addr) >> 24 == 127;
}

/*
 * Listens for clients' broadcasts if the port can be shared; the capture works without them. For a
 * client on this host it binds only the loopback broadcast address, so that it listens no further
 * than needed.
 */
static int open_announcements(const struct target *t)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int yes = 1;
    in_addr_t where = is_loopback(&t->at[0]) ? LOOPBACK_BROADCAST : INADDR_ANY;
    struct sockaddr_in any = {
        .sin_family = AF_INET, .sin_port = htons(BROADCAST_PORT), .sin_addr.s_addr = htonl(where)};
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd, (const struct sockaddr *)&any, sizeof any) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/*
 * An announcement has the client's protocol if it comes from the client's address and names its
 * port.
 */
static bool from_target(const struct attempt *a, const struct sockaddr_in *from)
{
    for (unsigned i = 0; i < a->target.n; i++) {
        const struct sockaddr_in *t = (const struct sockaddr_in *)&a->target.at[i];
        if (is_loopback(&a->target.at[i]) ||
            (t->sin_family == AF_INET && t->sin_addr.s_addr == from->sin_addr.s_addr))
            return true;
    }
    return false;
}

static void take_announcements(struct attempt *a)
{
    uint8_t bytes[BROADCAST_SIZE_MAX + 1];
    struct sockaddr_in from = {0};
    socklen_t from_len = sizeof from;
    /* Bounded: a flood of announcements must not delay the connection. */
    for (unsigned i = 0; a->announcements >= 0 && i < ANNOUNCEMENTS_MAX; i++) {
        struct broadcast b;
        struct err ignored;
        ssize_t n =
            recvfrom(a->announcements, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &from_len);
        if (n < 0)
            break;
        if (broadcast_parse(bytes, (size_t)n, &b, &ignored) == 0 && b.port == a->o->port &&
            b.active_time >= 0 && from_target(a, &from))
            a->hint = b.protocol;
        from_len = sizeof from;
    }
}

/* ---- one TCP connection */

static int open_socket(struct attempt *a, unsigned i)
{
    const struct sockaddr *address = (const struct sockaddr *)&a->target.at[i];
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        a->last_errno = errno;
        return -1;
    }
    int error = connect(fd, address, a->target.len[i]) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        short ready = stop_wait(a->stop, fd, POLLOUT, time_left_ms(a, CONNECT_MS));
        socklen_t len = sizeof error;
        if (!ready)
            error = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
            error = errno;
    }
    if (error) {
        a->last_errno = error;
        close(fd);
        return -1;
    }
    int yes = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    keepalive_begin(fd);
    return fd;
}

/* Connects to the first of the addresses that accepts; -1 if none does. */
static int open_any(struct attempt *a)
{
    int refused = 0;
    for (unsigned i = 0; i < a->target.n; i++) {
        int fd = open_socket(a, i);
        if (fd >= 0)
            return fd;
        if (a->last_errno == ECONNREFUSED)
            refused = ECONNREFUSED;
        if (stop_asked(a->stop))
            break;
    }
    /* "refused" is more useful to a user than the error of the other family. */
    if (refused)
        a->last_errno = refused;
    return -1;
}

enum take { TAKE_OK, TAKE_CLOSED, TAKE_STOPPED, TAKE_LATE };
enum probe { PROBE_DONE, PROBE_MISMATCH, PROBE_AGAIN };

/* Reads exactly `n` bytes. */
static enum take take_bytes(struct attempt *a, int fd, uint8_t *out, size_t n)
{
    size_t have = 0;
    long long began = monotonic_ns();
    while (have < n) {
        ssize_t got = recv(fd, out + have, n - have, 0);
        if (got > 0) {
            have += (size_t)got;
            continue;
        }
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            return TAKE_CLOSED;
        if (stop_asked(a->stop))
            return TAKE_STOPPED;
        if (out_of_time(a))
            return TAKE_LATE;
        stop_wait(a->stop, fd, POLLIN, time_left_ms(a, 200));
        /* A client serves one server at a time; a second server's handshake waits in its queue. */
        if (!a->told_waiting && !a->o->quiet && monotonic_ns() - began > 3000000000LL) {
            a->told_waiting = true;
            fprintf(stderr, "connected, but the client does not answer: another server may be "
                            "capturing it; waiting\n");
        }
    }
    return TAKE_OK;
}

/* ---- handshake */

static enum connect_failure fail(enum connect_failure why, struct err *e, const char *text)
{
    err_set(e, ERR_CONNECT, "%s", text);
    return why;
}

/* The meaning of an incomplete answer. */
static enum probe not_taken(enum take t, enum connect_failure *why, struct err *e)
{
    if (t == TAKE_CLOSED)
        return PROBE_AGAIN; /* a tunnel whose far end is not reachable, or a slow start */
    if (t == TAKE_STOPPED)
        *why = fail(CONNECT_STOPPED, e, "stopped while waiting for the client");
    else
        *why = fail(CONNECT_NO_CLIENT, e,
                    "the client took the connection but did not answer in time: another server "
                    "may be capturing it");
    return PROBE_DONE;
}

static enum probe take_welcome(struct attempt *a, struct connection *c, enum connect_failure *why,
                               struct err *e)
{
    uint8_t bytes[WELCOME_SIZE_MAX];
    uint8_t payload[ON_DEMAND_SIZE];
    size_t size = wire_version_welcome_size(c->version);
    enum take t = take_bytes(a, c->fd, bytes, size);
    if (t != TAKE_OK)
        return not_taken(t, why, e);
    if (welcome_parse(c->version, bytes, size, &c->welcome, e) != 0) {
        e->code = ERR_CONNECT;
        *why = CONNECT_DROPPED;
        return PROBE_DONE;
    }
    if (c->welcome.flags & WELCOME_ON_DEMAND) {
        t = take_bytes(a, c->fd, payload, sizeof payload);
        if (t != TAKE_OK)
            return not_taken(t, why, e);
        on_demand_parse(payload, &c->on_demand);
    }
    *why = CONNECT_OK;
    return PROBE_DONE;
}

/* Offers one protocol number on a fresh connection. */
static enum probe probe_once(struct attempt *a, uint32_t protocol, struct connection *c,
                             enum connect_failure *why, struct err *e)
{
    uint8_t request[HANDSHAKE_REQUEST_SIZE];
    uint8_t byte;
    enum handshake_status status;
    handshake_request_encode(protocol, request);
    if (send(c->fd, request, sizeof request, MSG_NOSIGNAL) != (ssize_t)sizeof request)
        return PROBE_AGAIN;
    enum take t = take_bytes(a, c->fd, &byte, 1);
    if (t != TAKE_OK)
        return not_taken(t, why, e);
    if (handshake_status_parse(byte, &status, e) != 0) {
        err_prefix(e, "what answers there is no Tracy client");
        e->code = ERR_CONNECT;
        *why = CONNECT_DROPPED;
    } else if (status == HANDSHAKE_MISMATCH) {
        return PROBE_MISMATCH;
    } else if (status == HANDSHAKE_NOT_AVAILABLE) {
        *why = fail(CONNECT_NOT_AVAILABLE, e,
                    "the client cannot be captured any more: another server was connected to it "
                    "before; restart the program, or build it with TRACY_ON_DEMAND");
    } else {
        c->version = wire_version_find(protocol);
        return take_welcome(a, c, why, e);
    }
    return PROBE_DONE;
}

static enum connect_failure no_client(const struct attempt *a, struct err *e)
{
    err_set(e, ERR_CONNECT, "no client at %s port %u: %s", a->o->address, a->o->port,
            a->last_errno ? strerror(a->last_errno) : "it hung up during the handshake");
    return CONNECT_NO_CLIENT;
}

static enum connect_failure mismatch(const struct attempt *a, struct err *e)
{
    if (a->o->protocol)
        err_set(e, ERR_CONNECT, "the client does not speak protocol %u", a->o->protocol);
    else if (a->hint && !wire_version_find(a->hint))
        err_set(e, ERR_CONNECT,
                "the client speaks protocol %u; this version of tidemark speaks %u "
                "to %u",
                a->hint, PROTOCOL_MIN, PROTOCOL_MAX);
    else
        err_set(e, ERR_CONNECT, "the client speaks no protocol from %u to %u", PROTOCOL_MIN,
                PROTOCOL_MAX);
    return CONNECT_MISMATCH;
}

/* The protocol numbers still to be offered: the announced one first, each once. */
struct candidates {
    const uint32_t *order;
    unsigned n;
    unsigned next;
    uint32_t refused[PROTOCOL_MAX - PROTOCOL_MIN + 1];
    unsigned refused_count;
};

static bool was_refused(const struct candidates *k, uint32_t protocol)
{
    for (unsigned i = 0; i < k->refused_count; i++) {
        if (k->refused[i] == protocol)
            return true;
    }
    return false;
}

/* The number to offer now, or 0 when all were rejected. */
static uint32_t candidate(const struct attempt *a, struct candidates *k)
{
    if (a->o->protocol)
        return was_refused(k, a->o->protocol) ? 0 : a->o->protocol;
    if (a->hint && wire_version_find(a->hint) && !was_refused(k, a->hint))
        return a->hint;
    while (k->next < k->n && was_refused(k, k->order[k->next]))
        k->next++;
    return k->next < k->n ? k->order[k->next] : 0;
}

static enum connect_failure connect_loop(struct attempt *a, struct connection *c, struct err *e)
{
    struct candidates k = {0};
    enum connect_failure why = CONNECT_OK;
    int pause = RETRY_FIRST_MS;
    k.order = wire_version_probe_order(&k.n);
    for (;;) {
        if (stop_asked(a->stop))
            return fail(CONNECT_STOPPED, e, "stopped while waiting for the client");
        take_announcements(a);
        uint32_t protocol = candidate(a, &k);
        if (!protocol)
            return mismatch(a, e);
        enum probe p = PROBE_AGAIN;
        c->fd = open_any(a);
        if (c->fd >= 0) {
            a->last_errno = 0;
            /* An announcement that came while it connected saves offers, too. */
            take_announcements(a);
            protocol = candidate(a, &k);
            p = probe_once(a, protocol, c, &why, e);
            if (p == PROBE_DONE && why == CONNECT_OK)
                return CONNECT_OK;
            close(c->fd);
            c->fd = -1;
        }
        if (p == PROBE_DONE)
            return why;
        if (p == PROBE_MISMATCH) {
            k.refused[k.refused_count++] = protocol;
            pause = RETRY_FIRST_MS;
            continue;
        }
        if (out_of_time(a))
            return no_client(a, e);
        stop_wait(a->stop, -1, 0, time_left_ms(a, pause));
        pause = pause * 3 / 2 < RETRY_MOST_MS ? pause * 3 / 2 : RETRY_MOST_MS;
    }
}

enum connect_failure connect_client(const struct connect_options *o, struct stop *stop,
                                    struct connection *c, struct err *e)
{
    struct attempt a = {.o = o, .stop = stop, .announcements = -1};
    *c = (struct connection){.fd = -1};
    if (o->protocol && !wire_version_find(o->protocol)) {
        err_set(e, ERR_USAGE, "there is no protocol %u; known are %u to %u", o->protocol,
                PROTOCOL_MIN, PROTOCOL_MAX);
        return CONNECT_MISMATCH;
    }
    if (resolve(o, &a.target, e) != 0)
        return CONNECT_NO_CLIENT;
    if (o->timeout >= 0)
        a.deadline = monotonic_ns() + (long long)(o->timeout * 1e9) + 1;
    a.announcements = open_announcements(&a.target);
    enum connect_failure why = connect_loop(&a, c, e);
    if (a.announcements >= 0)
        close(a.announcements);
    return why;
}
