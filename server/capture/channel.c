#include "server/capture/channel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEADER_SIZE 16u
#define RECEIVE_SIZE ((size_t)16 << 10)
#define RECEIVES_PER_PUMP 64

int channel_pair(struct channel *a, struct channel *b, struct err *e)
{
    int ends[2];
    *a = *b = (struct channel){.fd = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return err_errno(e, ERR_CONNECT, "cannot connect to a session");
    a->fd = ends[0];
    b->fd = ends[1];
    return 0;
}

static void channel_close(struct channel *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

void channel_release(struct channel *c)
{
    channel_close(c);
    buf_release(&c->in);
    buf_release(&c->out);
    c->taken = c->sent = 0;
}

bool channel_wants_out(const struct channel *c)
{
    return c->fd >= 0 && c->sent < c->out.len;
}

static int flush_out(struct channel *c)
{
    while (channel_wants_out(c)) {
        ssize_t n =
            send(c->fd, c->out.data + c->sent, c->out.len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        c->sent += (size_t)n;
    }
    buf_clear(&c->out);
    c->sent = 0;
    return 0;
}

int channel_send(struct channel *c, uint32_t type, uint64_t reference, const void *text, size_t len)
{
    if (c->fd < 0 || len > CHANNEL_TEXT_MAX || c->out.len - c->sent > CHANNEL_WAITING_MAX)
        return -1;
    if (!buf_reserve(&c->out, HEADER_SIZE + len)) {
        c->out.failed = false;
        return -1;
    }
    buf_u32(&c->out, (uint32_t)len);
    buf_u32(&c->out, type);
    buf_u64(&c->out, reference);
    buf_put(&c->out, text, len);
    return flush_out(c);
}

void channel_flush(struct channel *c, int timeout_ms)
{
    while (channel_wants_out(c)) {
        struct pollfd polled = {.fd = c->fd, .events = POLLOUT};
        if (poll(&polled, 1, timeout_ms) <= 0 || flush_out(c) != 0)
            return;
    }
}

/* Reads the text length of the first message not taken yet. False if the header is incomplete. */
static bool head(const struct channel *c, size_t *len)
{
    if (c->in.len - c->taken < HEADER_SIZE)
        return false;
    *len = load_u32(c->in.data + c->taken);
    return true;
}

/* Frees the space of messages that were taken. */
static void forget_taken(struct channel *c)
{
    if (!c->taken)
        return;
    memmove(c->in.data, c->in.data + c->taken, c->in.len - c->taken);
    c->in.len -= c->taken;
    c->taken = 0;
}

int channel_pump(struct channel *c)
{
    size_t len;
    if (c->fd < 0)
        return -1;
    /* A peer that stopped reading may have sent messages before; receive them first. */
    bool deaf = flush_out(c) != 0, gone = false;
    forget_taken(c);
    for (int i = 0; !gone && i < RECEIVES_PER_PUMP; i++) {
        /* A whole message is buffered: the rest can wait in the socket. */
        if (head(c, &len) && (len > CHANNEL_TEXT_MAX || c->in.len >= HEADER_SIZE + len))
            break;
        uint8_t *room = buf_reserve(&c->in, RECEIVE_SIZE);
        ssize_t n = room ? recv(c->fd, room, RECEIVE_SIZE, MSG_DONTWAIT) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && !deaf)
            break;
        gone = n <= 0;
        c->in.len += n > 0 ? (size_t)n : 0;
    }
    gone = gone || (head(c, &len) && len > CHANNEL_TEXT_MAX);
    if (gone)
        channel_close(c);
    return gone ? -1 : 0;
}

bool channel_next(struct channel *c, struct channel_message *m)
{
    size_t len;
    if (!head(c, &len) || len > CHANNEL_TEXT_MAX || c->in.len - c->taken < HEADER_SIZE + len)
        return false;
    const uint8_t *p = c->in.data + c->taken;
    *m = (struct channel_message){.type = load_u32(p + 4),
                                  .reference = load_u64(p + 8),
                                  .text = (const char *)p + HEADER_SIZE,
                                  .len = len};
    c->taken += HEADER_SIZE + len;
    return true;
}
