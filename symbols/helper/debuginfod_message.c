#include "symbols/helper/debuginfod_message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union descriptor_room {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

bool fetch_answer_send(int socket, const struct fetch_answer *a, int fd, bool wait)
{
    union descriptor_room room;
    struct iovec part = {(void *)a, sizeof *a};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent;
    if (fd >= 0) {
        memset(&room, 0, sizeof room);
        m.msg_control = room.bytes;
        m.msg_controllen = sizeof room.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    do {
        sent = sendmsg(socket, &m, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *a || (!wait && errno == EAGAIN);
}

int fetch_answer_receive(int socket, struct fetch_answer *a, int *fd)
{
    union descriptor_room room;
    struct iovec part = {a, sizeof *a};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = room.bytes,
                       .msg_controllen = sizeof room.bytes};
    ssize_t got;
    *fd = -1;
    do {
        got = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == ECONNRESET ? 0 : -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); got > 0 && c; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
            c->cmsg_len == CMSG_LEN(sizeof *fd))
            memcpy(fd, CMSG_DATA(c), sizeof *fd);
    }
    if (got == (ssize_t)sizeof *a) {
        a->cause[sizeof a->cause - 1] = 0;
        return 1;
    }
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return 0;
}
