#include "run/port_claim.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/recording_format.h"

int port_claim_open(uint16_t port)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int n = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, REC_PORT_NAME "%u", port);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&at, len) == 0 && listen(fd, 16) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int port_claim_take(int claims, pid_t known, pid_t *pid)
{
    for (;;) {
        struct ucred its;
        socklen_t len = sizeof its;
        int fd = accept4(claims, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return -1;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &its, &len) == 0 &&
            (its.uid == geteuid() || its.uid == 0 || (known > 0 && its.pid == known))) {
            *pid = its.pid;
            return fd;
        }
        close(fd);
    }
}
