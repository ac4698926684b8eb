#include "run/offer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/monotonic.h"
#include "base/spool.h"
#include "protocol/query.h"
#include "run/port_claim.h"
#include "server/net/address.h"

#define ANNOUNCE_NS 3000000000LL
#define HANDSHAKE_NS 2000000000LL /* timeout of a server's handshake */

/* Limit of queued answers in bytes: while it is reached, the server's queries are not read. */
#define WAITING_MOST ((size_t)4 << 20)

/* Limit of the frames sent in a step, so that the owner can do other work. */
#define FRAMES_AT_ONCE 64

/* All of it is written at once: none of the stream stays in memory. */
#define KEPT_IN_MEMORY 0

struct session {
    int fd; /* -1: none */
    bool welcomed;
    long long began; /* monotonic, ns */
    uint64_t place;  /* offset in the stream: earlier frames are in `out` or sent */
    struct encoder *replies;
    struct buf out;    /* bytes to send */
    size_t sent;       /* bytes of `out` sent */
    size_t have;       /* bytes of the current packet */
    bool let_go, gone; /* it sent Terminate; the connection is closed or unusable */
    uint8_t packet[QUERY_PACKET_SIZE];
};

struct offer {
    struct offer_options options;
    int listeners[2]; /* -1: none */
    int claims;       /* claims of the port, see port_claim.h; -1: none */
    char address[ADDRESS_TEXT_SIZE];
    int announcer;
    struct sockaddr_in announce_to;
    struct broadcast broadcast;
    long long started, announced;
    struct spool spool;
    bool has_spool;
    uint64_t begin, end; /* range of the stream in the file */
    bool ended;          /* the stream is complete */
    bool done;
    struct session session;
};

/* ---- sockets */

/* Listens at one address of a list. -1 with errno. */
static int listen_at(const struct addrinfo *a)
{
    int one = 1;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 4) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage at = {0};
    socklen_t len = sizeof at;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    if (getsockname(fd, (struct sockaddr *)&at, &len) != 0)
        return 0;
    memcpy(&in, &at, sizeof in);
    memcpy(&in6, &at, sizeof in6);
    return ntohs(at.ss_family == AF_INET6 ? in6.sin6_port : in.sin_port);
}

static int listen_on(struct offer *o, uint16_t port, struct err *e)
{
    static const char *const loopback[] = {"127.0.0.1", "::1"};
    const char *const *names = o->options.address ? &o->options.address : loopback;
    size_t count = o->options.address ? 1 : 2;
    for (size_t i = 0; i < count; i++) {
        struct addrinfo *found;
        if (address_resolve(names[i], port, AI_PASSIVE, &found, e) != 0)
            return i ? 0 : -1;
        o->listeners[i] = listen_at(found);
        if (o->listeners[i] >= 0 && port == 0)
            port = port_of(o->listeners[i]);
        int why = errno;
        freeaddrinfo(found);
        errno = why;
        if (o->listeners[i] >= 0)
            address_text(o->address, names[0], port);
        else if (i == 0 || (why == EADDRINUSE && !o->options.any_port))
            return err_errno(e, ERR_CONNECT, "cannot listen on %s port %u", names[i], port);
        /* A host may have only one family. */
    }
    return 0;
}

void offer_stop_listening(struct offer *o)
{
    for (size_t i = 0; i < 2; i++) {
        if (o->listeners[i] < 0)
            continue;
        /* A forked process may hold the socket, too, and would keep it listening. */
        (void)shutdown(o->listeners[i], SHUT_RDWR);
        close(o->listeners[i]);
        o->listeners[i] = -1;
    }
    if (o->claims >= 0)
        close(o->claims);
    o->claims = -1;
}

/* Listens at the first free one of `count` ports. */
static int find_port(struct offer *o, unsigned first, unsigned count, struct err *e)
{
    for (unsigned i = 0; i < count && first + i <= UINT16_MAX; i++) {
        if (listen_on(o, (uint16_t)(first + i), e) == 0) {
            o->broadcast.port = port_of(o->listeners[0]);
            o->claims = port_claim_open(o->broadcast.port);
            return 0;
        }
        offer_stop_listening(o);
    }
    return -1;
}

/* Another process took port `taken`: listens at the next free one, or else at any. */
static int find_another(struct offer *o, unsigned taken, struct err *e)
{
    if (find_port(o, taken + 1, OFFER_PORTS, e) == 0 || find_port(o, 0, 1, e) == 0)
        return 0;
    return -1;
}

/* Whether it accepts connections from this host only. */
static bool is_local(int listener)
{
    struct sockaddr_storage at = {0};
    socklen_t len = sizeof at;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    if (getsockname(listener, (struct sockaddr *)&at, &len) != 0)
        return true;
    memcpy(&in, &at, sizeof in);
    memcpy(&in6, &at, sizeof in6);
    return at.ss_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr)
                                    : ntohl(in.sin_addr.s_addr) >> 24 == 127;
}

/* Announces on the loopback alone, unless other hosts may connect. Failures do not matter. */
static void open_announcer(struct offer *o)
{
    int one = 1;
    uint32_t to = is_local(o->listeners[0]) ? 0x7FFFFFFFu : INADDR_BROADCAST;
    if (!o->options.announce)
        return;
    o->announcer = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (o->announcer >= 0)
        (void)setsockopt(o->announcer, SOL_SOCKET, SO_BROADCAST, &one, sizeof one);
    o->announce_to = (struct sockaddr_in){.sin_family = AF_INET,
                                          .sin_port = htons(o->options.announce),
                                          .sin_addr.s_addr = htonl(to)};
}

static void announce(struct offer *o, int32_t active_time)
{
    uint8_t datagram[BROADCAST_SIZE_MAX];
    o->broadcast.active_time = active_time;
    size_t n = broadcast_encode(&o->broadcast, datagram);
    if (o->announcer >= 0)
        (void)!sendto(o->announcer, datagram, n, 0, (const struct sockaddr *)&o->announce_to,
                      sizeof o->announce_to);
    o->announced = monotonic_ns();
}

void offer_say_goodbye(struct offer *o)
{
    announce(o, -1);
}

/* ---- setup */

struct offer *offer_new(const struct offer_options *options, struct err *e)
{
    struct offer *o = calloc(1, sizeof *o);
    if (!o) {
        err_no_memory(e, "a listener");
        return NULL;
    }
    o->options = *options;
    o->listeners[0] = o->listeners[1] = o->claims = o->announcer = o->session.fd = -1;
    o->started = monotonic_ns();
    o->broadcast.version = 3;
    o->broadcast.protocol = options->version->protocol;
    o->has_spool = spool_init(&o->spool, options->spool, KEPT_IN_MEMORY, e) == 0;
    if (o->has_spool)
        return o;
    offer_free(o);
    return NULL;
}

int offer_listen(struct offer *o, struct err *e)
{
    bool named = o->options.port || o->options.any_port;
    unsigned first = named ? o->options.port : BROADCAST_PORT;
    if (find_port(o, first, named ? 1 : OFFER_PORTS, e) != 0 &&
        (!o->options.may_move || find_another(o, first, e) != 0))
        return -1;
    open_announcer(o);
    return 0;
}

static void end_session(struct offer *o)
{
    struct session *s = &o->session;
    if (s->fd >= 0)
        close(s->fd);
    encoder_free(s->replies);
    buf_release(&s->out);
    *s = (struct session){.fd = -1};
}

void offer_free(struct offer *o)
{
    if (!o)
        return;
    end_session(o);
    offer_stop_listening(o);
    if (o->announcer >= 0)
        close(o->announcer);
    if (o->has_spool)
        spool_release(&o->spool);
    free(o);
}

const char *offer_address(const struct offer *o)
{
    return o->listeners[0] >= 0 ? o->address : NULL;
}

void offer_set_program(struct offer *o, const char *name, uint64_t pid)
{
    snprintf(o->broadcast.name, sizeof o->broadcast.name, "%s", name);
    o->broadcast.pid = pid;
}

/* ---- the stream */

int offer_append(struct offer *o, const uint8_t *bytes, size_t n, struct err *e)
{
    uint64_t place;
    if (spool_store(&o->spool, bytes, n, &place, e) != 0)
        return -1;
    o->end = place + n;
    return 0;
}

void offer_end(struct offer *o)
{
    o->ended = true;
}

void offer_begin_anew(struct offer *o)
{
    end_session(o);
    o->begin = o->end;
    o->ended = o->done = false;
}

bool offer_is_connected(const struct offer *o)
{
    return o->session.fd >= 0;
}

bool offer_is_serving(const struct offer *o)
{
    return o->session.fd >= 0 && o->session.welcomed;
}

bool offer_is_done(const struct offer *o)
{
    return o->done;
}

struct encoder *offer_replies(struct offer *o)
{
    return o->session.replies;
}

/* ---- a session */

static int accept_one(struct offer *o, int listener, struct err *e)
{
    struct session *s = &o->session;
    int one = 1;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return 0;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    s->fd = fd;
    s->began = monotonic_ns();
    s->place = o->begin;
    s->replies = encoder_new(o->options.version);
    if (!s->replies)
        return err_no_memory(e, "a connection");
    encoder_set_independent(s->replies);
    announce(o, -1);
    return 0;
}

/* Receives up to `n` bytes from the server. */
static size_t take(struct session *s, uint8_t *bytes, size_t n)
{
    ssize_t got = recv(s->fd, bytes, n, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        s->gone = true;
    return got > 0 ? (size_t)got : 0;
}

/* The request has 12 bytes, a query packet 13: both fit. */
static void shake_hands(struct offer *o)
{
    struct session *s = &o->session;
    uint32_t protocol;
    uint8_t status = HANDSHAKE_WELCOME, bytes[WELCOME_SIZE_MAX];
    struct welcome w = {.timer_mul = 1, .resolution = 1, .init_end = 1};
    s->have += take(s, s->packet + s->have, HANDSHAKE_REQUEST_SIZE - s->have);
    if (s->have < HANDSHAKE_REQUEST_SIZE) {
        s->gone |= monotonic_ns() - s->began > HANDSHAKE_NS;
        return;
    }
    s->have = 0;
    if (handshake_request_parse(s->packet, &protocol, NULL) != 0) {
        s->gone = true;
        return;
    }
    if (protocol != o->options.version->protocol)
        status = HANDSHAKE_MISMATCH;
    else if (!o->options.welcome(o->options.ctx, &w))
        status = HANDSHAKE_NOT_AVAILABLE;
    buf_u8(&s->out, status);
    s->welcomed = status == HANDSHAKE_WELCOME;
    if (!s->welcomed) {
        (void)!send(s->fd, &status, 1, MSG_NOSIGNAL);
        s->gone = true;
        return;
    }
    welcome_encode(o->options.version, &w, bytes);
    buf_put(&s->out, bytes, wire_version_welcome_size(o->options.version));
}

static int take_packet(struct offer *o, struct err *e)
{
    enum query_kind kind;
    uint64_t key;
    uint32_t extra;
    if (!query_packet_parse(o->options.version, o->session.packet, &kind, &key, &extra))
        return 0;
    if (kind == QUERY_TERMINATE) {
        o->session.let_go = true;
        return 0;
    }
    return o->options.asked(o->options.ctx, kind, key, extra, e);
}

static int take_queries(struct offer *o, struct err *e)
{
    struct session *s = &o->session;
    uint8_t bytes[4096];
    while (!s->gone && !s->let_go && encoder_output(s->replies)->len < WAITING_MOST) {
        size_t n = take(s, bytes, sizeof bytes);
        if (n == 0)
            return 0;
        for (size_t i = 0; i < n && !s->let_go; i++) {
            s->packet[s->have++] = bytes[i];
            if (s->have < QUERY_PACKET_SIZE)
                continue;
            s->have = 0;
            if (take_packet(o, e) != 0)
                return -1;
        }
    }
    return 0;
}

/* Answers first, since the server waits for them; then the next frame. */
static int refill(struct offer *o, struct err *e)
{
    struct session *s = &o->session;
    struct buf *answers = encoder_output(s->replies);
    uint8_t head[4];
    s->out.len = s->sent = 0;
    if (encoder_commit(s->replies, e) != 0)
        return -1;
    buf_put(&s->out, answers->data, answers->len);
    buf_clear(answers);
    if (s->out.len == 0 && s->place < o->end) {
        if (spool_load(&o->spool, head, sizeof head, s->place, e) != 0)
            return -1;
        uint32_t n = load_u32(head);
        uint8_t *room = buf_reserve(&s->out, sizeof head + (size_t)n);
        if (!room)
            return err_no_memory(e, "a frame");
        if (spool_load(&o->spool, room, sizeof head + (size_t)n, s->place, e) != 0)
            return -1;
        s->out.len = sizeof head + (size_t)n;
        s->place += sizeof head + (size_t)n;
    }
    return s->out.failed ? err_no_memory(e, "a frame") : 0;
}

static int send_some(struct offer *o, struct err *e)
{
    struct session *s = &o->session;
    for (unsigned frames = 0; frames < FRAMES_AT_ONCE && !s->gone;) {
        if (s->sent == s->out.len) {
            frames++;
            if (refill(o, e) != 0)
                return -1;
            if (s->out.len == 0)
                return 0;
        }
        ssize_t n = send(s->fd, s->out.data + s->sent, s->out.len - s->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n < 0)
            s->gone = true;
        else
            s->sent += (size_t)n;
    }
    return 0;
}

static int serve(struct offer *o, struct err *e)
{
    struct session *s = &o->session;
    if (!s->welcomed)
        shake_hands(o);
    if (s->welcomed && !s->gone && (take_queries(o, e) != 0 || send_some(o, e) != 0))
        return -1;
    if (!s->gone && !s->let_go)
        return 0;
    /* A server that disconnects may connect again. */
    o->done |= s->let_go && o->ended && s->place == o->end;
    end_session(o);
    announce(o, (int32_t)((monotonic_ns() - o->started) / 1000000000));
    return 0;
}

/* Also closes the session: the connected server is to capture the program's own client. */
static void give_way(struct offer *o, pid_t pid)
{
    const struct linger at_once = {.l_onoff = 1};
    struct err e = {0};
    uint16_t port = o->broadcast.port;
    if (o->session.fd >= 0)
        (void)setsockopt(o->session.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    end_session(o);
    announce(o, -1);
    offer_stop_listening(o);
    bool moved = find_another(o, port, &e) == 0;
    o->announced = 0;
    if (o->options.moved)
        o->options.moved(o->options.ctx, port, pid, moved ? NULL : &e);
}

static void take_claims(struct offer *o)
{
    pid_t pid;
    int claim = o->claims < 0 ? -1 : port_claim_take(o->claims, (pid_t)o->broadcast.pid, &pid);
    if (claim < 0)
        return;
    give_way(o, pid);
    close(claim);
}

size_t offer_poll(const struct offer *o, struct pollfd fds[OFFER_POLLS])
{
    const struct session *s = &o->session;
    size_t n = 0;
    if (o->claims >= 0)
        fds[n++] = (struct pollfd){.fd = o->claims, .events = POLLIN};
    if (s->fd >= 0) {
        bool more = s->welcomed &&
                    (s->sent < s->out.len || s->place < o->end || encoder_pending(s->replies));
        bool reads = encoder_output(s->replies)->len < WAITING_MOST;
        fds[n++] = (struct pollfd){.fd = s->fd,
                                   .events = (short)((reads ? POLLIN : 0) | (more ? POLLOUT : 0))};
        return n;
    }
    for (size_t i = 0; i < 2; i++) {
        if (o->listeners[i] >= 0)
            fds[n++] = (struct pollfd){.fd = o->listeners[i], .events = POLLIN};
    }
    return n;
}

int offer_step(struct offer *o, struct err *e)
{
    long long now = monotonic_ns();
    take_claims(o);
    for (size_t i = 0; i < 2 && o->session.fd < 0; i++) {
        if (o->listeners[i] >= 0 && accept_one(o, o->listeners[i], e) != 0)
            return -1;
    }
    if (o->session.fd >= 0)
        return serve(o, e);
    if (o->listeners[0] >= 0 && (o->announced == 0 || now - o->announced >= ANNOUNCE_NS))
        announce(o, (int32_t)((now - o->started) / 1000000000));
    return 0;
}
