#include "server/http_patience.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "server/stop.h"

#define LOOK_NS 500000000LL

struct http_wait {
    struct http_wait *next, *before;
    struct MHD_Connection *connection;
    long long until; /* monotonic ns */
};

static long long after(int seconds)
{
    return monotonic_ns() + seconds * 1000000000LL;
}

void http_patience_notify(void *ctx, struct MHD_Connection *c, void **own,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http_patience *p = ctx;
    struct http_wait *w = *own;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        w = calloc(1, sizeof *w);
        if (!w) /* libmicrohttpd's own timeout is left */
            return;
        *w = (struct http_wait){
            .next = p->first, .connection = c, .until = after(HTTP_REQUEST_SECONDS)};
        if (p->first)
            p->first->before = w;
        p->first = w;
        *own = w;
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

static void set(const struct http_patience *p, struct MHD_Connection *c, long long until)
{
    const union MHD_ConnectionInfo *info = p->info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_wait *w = info ? info->socket_context : NULL;
    if (w)
        w->until = until;
}

void http_patience_came(const struct http_patience *p, struct MHD_Connection *c)
{
    set(p, c, LLONG_MAX);
}

void http_patience_answered(const struct http_patience *p, struct MHD_Connection *c)
{
    set(p, c, after(HTTP_IDLE_SECONDS));
}

/*
 * The library may miss an end that came right behind the last bytes: it is told of new events once,
 * and then reads one piece.
 */
static bool has_ended(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void http_patience_turn(struct http_patience *p)
{
    long long now = monotonic_ns();
    if (now - p->looked < LOOK_NS)
        return;
    p->looked = now;
    for (struct http_wait *w = p->first; w; w = w->next) {
        const union MHD_ConnectionInfo *info =
            w->until == LLONG_MAX ? NULL
                                  : p->info(w->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (!info || (now < w->until && !has_ended(info->connect_fd)))
            continue;
        /* The library then finds that it has ended. */
        (void)shutdown(info->connect_fd, SHUT_RDWR);
        w->until = LLONG_MAX;
    }
}
