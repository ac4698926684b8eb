#include "server/net/keepalive.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static void set(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

void keepalive_begin(int fd)
{
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

bool keepalive_is_lost(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 && info.tcpi_unacked &&
           info.tcpi_last_ack_recv >= KEEPALIVE_SECONDS * 1000u;
}
