#include "server/net/discovery.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Limit per call, so that a flood of datagrams does not block the caller. */
#define DATAGRAMS_MAX 64u

int discovery_open(uint16_t port, struct err *e)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int yes = 1;
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_ANY)};
    if (fd < 0)
        return err_errno(e, ERR_CONNECT, "cannot listen to announcements");
    /* SO_REUSEADDR, so that several servers on a host receive every announcement. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd, (const struct sockaddr *)&at, sizeof at) != 0) {
        err_errno(e, ERR_CONNECT, "cannot listen to announcements on UDP port %u", port);
        close(fd);
        return -1;
    }
    return fd;
}

bool address_is_own(const struct sockaddr_in *address)
{
    /* A socket can be bound only to the host's own addresses, so bind decides. */
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = address->sin_addr};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool own = fd >= 0 && at.sin_addr.s_addr != htonl(INADDR_ANY) &&
               bind(fd, (const struct sockaddr *)&at, sizeof at) == 0;
    if (fd >= 0)
        close(fd);
    return own;
}

bool discovery_next(int fd, bool local_only, struct announcement *a)
{
    uint8_t bytes[BROADCAST_SIZE_MAX + 1];
    struct sockaddr_in from;
    for (unsigned looked = 0; looked < DATAGRAMS_MAX; looked++) {
        socklen_t len = sizeof from;
        memset(&from, 0, sizeof from);
        ssize_t n = recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &len);
        struct err ignored;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        if (broadcast_parse(bytes, (size_t)n, &a->broadcast, &ignored) == 0 &&
            (!local_only || address_is_own(&from)) &&
            inet_ntop(AF_INET, &from.sin_addr, a->address, sizeof a->address))
            return true;
    }
    return false;
}
