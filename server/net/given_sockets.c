#include "server/net/given_sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST 3 /* SD_LISTEN_FDS_START */
#define MOST 16 /* a larger $LISTEN_FDS is not trusted */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage room;
};

static int option_of(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

static void write_address(const union address *at, char out[GIVEN_ADDRESS_SIZE])
{
    char host[INET6_ADDRSTRLEN] = "";
    bool v6 = at->any.sa_family == AF_INET6;
    const void *bytes = v6 ? (const void *)&at->v6.sin6_addr : (const void *)&at->v4.sin_addr;
    (void)inet_ntop(at->any.sa_family, bytes, host, sizeof host);
    snprintf(out, GIVEN_ADDRESS_SIZE, v6 ? "[%s]:%u" : "%s:%u", host,
             ntohs(v6 ? at->v6.sin6_port : at->v4.sin_port));
}

static int make_ours(int fd, struct err *e)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
                   fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0
               ? 0
               : err_errno(e, ERR_USAGE, "descriptor %d of $LISTEN_FDS", fd);
}

static int take(struct given_sockets *g, int fd, struct err *e)
{
    union address at = {0};
    socklen_t len = sizeof at;
    if (make_ours(fd, e) != 0)
        return -1;
    bool known = getsockname(fd, &at.any, &len) == 0;
    bool v4 = known && at.any.sa_family == AF_INET, v6 = known && at.any.sa_family == AF_INET6;
    if ((v4 || v6) && option_of(fd, SO_TYPE) == SOCK_STREAM && option_of(fd, SO_ACCEPTCONN) == 1 &&
        g->http < 0) {
        g->http = fd;
        write_address(&at, g->http_address);
    } else if (v4 && option_of(fd, SO_TYPE) == SOCK_DGRAM && g->announcements < 0) {
        g->announcements = fd;
        g->port = ntohs(at.v4.sin_port);
    } else {
        return err_set(e, ERR_USAGE,
                       "descriptor %d of $LISTEN_FDS is neither the one listening TCP socket nor "
                       "the one UDP socket of IPv4 that are of use here",
                       fd);
    }
    return 0;
}

/* The number of sockets passed to this process. */
static int count_given(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    long n = pid && fds && strtol(pid, NULL, 10) == getpid() ? strtol(fds, NULL, 10) : 0;
    return n > 0 && n <= MOST ? (int)n : 0;
}

int given_sockets_take(struct given_sockets *g, struct err *e)
{
    int n = count_given(), status = 0;
    *g = GIVEN_SOCKETS_NONE;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    for (int i = 0; i < n && status == 0; i++)
        status = take(g, FIRST + i, e);
    if (status != 0)
        *g = GIVEN_SOCKETS_NONE;
    return status;
}

void given_sockets_close(struct given_sockets *g)
{
    if (g->http >= 0)
        close(g->http);
    if (g->announcements >= 0)
        close(g->announcements);
    *g = GIVEN_SOCKETS_NONE;
}
