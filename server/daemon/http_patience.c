#include "server/daemon/http_patience.h"

#include <limits.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/monotonic.h"
#include "server/net/keepalive.h"
#include "server/net/stop.h"

#define LOOK_NS 500000000LL
#define FRESH 8u /* newest connections that are never closed for lack of room */

struct http_wait {
    struct http_wait *next, *before;
    struct MHD_Connection *connection;
    long long until; /* monotonic ns */
    uint8_t from[16];
    bool trusted; /* it made an authorized request */
    bool busy;    /* its answer is being sent */
    bool cut;     /* it was shut down */
};

static long long after(int seconds)
{
    return monotonic_ns() + seconds * 1000000000LL;
}

/* An IPv6 client usually has a whole /64 network: compare that. */
static void take_address(struct http_wait *w, const struct sockaddr *at)
{
    if (at->sa_family == AF_INET) {
        memcpy(w->from, &((const struct sockaddr_in *)at)->sin_addr, 4);
    } else if (at->sa_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)at)->sin6_addr;
        memcpy(w->from, v6, IN6_IS_ADDR_V4MAPPED(v6) ? 16 : 8);
    }
}

/* ---- making room */

static int socket_of(const struct http_patience *p, const struct http_wait *w)
{
    const union MHD_ConnectionInfo *info =
        p->info(w->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

static void hang_up(const struct http_patience *p, struct http_wait *w)
{
    /* The library then notices the end. */
    (void)shutdown(socket_of(p, w), SHUT_RDWR);
    w->cut = true;
}

static bool is_neighbour(const struct http_wait *a, const struct http_wait *b)
{
    return memcmp(a->from, b->from, sizeof a->from) == 0;
}

static unsigned neighbours(const struct http_patience *p, const struct http_wait *of)
{
    unsigned n = 0;
    for (const struct http_wait *w = p->first; w; w = w->next)
        n += !w->cut && is_neighbour(w, of);
    return n;
}

/*
 * The connection to close: an unauthenticated one first, of the address with the most connections,
 * and the oldest of those. `of` limits the choice to its address. NULL: there is none.
 */
static struct http_wait *find_worst(const struct http_patience *p, const struct http_wait *of)
{
    struct http_wait *worst = NULL;
    unsigned most = 0, newer = 0;
    for (struct http_wait *w = p->first; w; w = w->next) {
        if (w->cut || newer++ < FRESH || (w->trusted && w->busy) || (of && !is_neighbour(w, of)))
            continue;
        unsigned n = (w->trusted ? 0 : HTTP_CROWD * 2) + neighbours(p, w);
        if (n < most)
            continue;
        most = n;
        worst = w;
    }
    return worst;
}

static void make_room(const struct http_patience *p)
{
    unsigned all = 0;
    for (const struct http_wait *w = p->first; w; w = w->next)
        all += !w->cut;
    const struct http_wait *crowd = all > HTTP_CROWD_OF_ONE ? p->first : NULL;
    while (crowd && neighbours(p, crowd) <= HTTP_CROWD_OF_ONE)
        crowd = crowd->next;
    struct http_wait *worst = crowd ? find_worst(p, crowd) : NULL;
    if (!worst && all > HTTP_CROWD)
        worst = find_worst(p, NULL);
    if (worst)
        hang_up(p, worst);
}

/* ---- events */

static void began(struct http_patience *p, struct MHD_Connection *c, void **own)
{
    const union MHD_ConnectionInfo *info = p->info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct http_wait *w = calloc(1, sizeof *w);
    if (!w) /* libmicrohttpd's timeout still applies */
        return;
    *w =
        (struct http_wait){.next = p->first, .connection = c, .until = after(HTTP_REQUEST_SECONDS)};
    if (info && info->client_addr)
        take_address(w, info->client_addr);
    keepalive_begin(socket_of(p, w));
    if (p->first)
        p->first->before = w;
    p->first = w;
    *own = w;
    make_room(p);
}

void http_patience_notify(void *ctx, struct MHD_Connection *c, void **own,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http_patience *p = ctx;
    struct http_wait *w = *own;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        began(p, c, own);
    } else if (w) {
        if (w->before)
            w->before->next = w->next;
        else
            p->first = w->next;
        if (w->next)
            w->next->before = w->before;
        free(w);
        *own = NULL;
    }
}

static struct http_wait *find(const struct http_patience *p, struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = p->info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

void http_patience_came(const struct http_patience *p, struct MHD_Connection *c, bool trusted)
{
    struct http_wait *w = find(p, c);
    if (!w)
        return;
    w->trusted |= trusted;
    w->until = w->trusted ? LLONG_MAX : after(HTTP_REQUEST_SECONDS);
    w->busy = true;
}

void http_patience_answered(const struct http_patience *p, struct MHD_Connection *c)
{
    struct http_wait *w = find(p, c);
    if (!w)
        return;
    w->until = after(w->trusted ? HTTP_IDLE_SECONDS : HTTP_STRANGER_SECONDS);
    w->busy = false;
}

/*
 * The library may miss an end that came directly after the last bytes: it gets one edge-triggered
 * event and then reads one piece.
 */
static bool has_ended(const struct http_patience *p, const struct http_wait *w)
{
    char byte;
    return recv(socket_of(p, w), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void http_patience_turn(struct http_patience *p)
{
    long long now = monotonic_ns();
    make_room(p);
    if (now - p->looked < LOOK_NS)
        return;
    p->looked = now;
    for (struct http_wait *w = p->first; w; w = w->next) {
        bool waits = !w->cut && w->until != LLONG_MAX;
        bool lost = !w->cut && keepalive_is_lost(socket_of(p, w));
        if (lost || (waits && (now >= w->until || has_ended(p, w))))
            hang_up(p, w);
    }
}
