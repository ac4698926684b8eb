/* Bytes in, queries out. */

#include "server/capture/session_internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/monotonic.h"

#define RECEIVE_FINE ((size_t)128 << 10) /* near a byte limit, or when a table is half full */
/* Piece size near the end of a table, so that the next part begins before the table is full. */
#define RECEIVE_LESS ((size_t)16 << 10)
#define HALF_FULL 50u /* percent */
#define NEARLY_DUE 80u
/*
 * Limit of a turn of the loop, between two checks of signals, clock and limits. A client's 512 KiB
 * can expand to 130 MiB, which can take seconds to decode.
 */
#define TURN_NS 20000000LL
/* Decompressed bytes between two memory checks. */
#define LOOK_BYTES ((uint64_t)128 << 10)

/* ---- queries out */

void session_send(struct session *s)
{
    for (;;) {
        if (s->packets_sent == s->packets_len) {
            s->packets_sent = 0;
            s->packets_len = query_flush(s->r.query, s->packets, PACKETS_SIZE);
            if (s->packets_len == 0)
                return;
            /* A journal that cannot be written returns its error when the next bytes arrive. */
            if (s->journal)
                (void)journal_append(s->journal, JOURNAL_SENT, s->packets, s->packets_len, NULL);
        }
        ssize_t n = send(s->fd, s->packets + s->packets_sent, s->packets_len - s->packets_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            return;
        s->packets_sent += (size_t)n;
    }
}

void session_terminate(struct session *s)
{
    uint8_t packet[QUERY_PACKET_SIZE];
    query_encode_terminate(s->r.start.version, packet);
    if (s->packets_len + sizeof packet <= PACKETS_SIZE) {
        memcpy(s->packets + s->packets_len, packet, sizeof packet);
        s->packets_len += sizeof packet;
    }
    long long until = monotonic_ns() + 1000000000LL;
    while (s->packets_sent < s->packets_len && monotonic_ns() < until) {
        struct pollfd polled = {.fd = s->fd, .events = POLLOUT};
        if (poll(&polled, 1, 100) < 0 && errno != EINTR)
            break;
        ssize_t n = send(s->fd, s->packets + s->packets_sent, s->packets_len - s->packets_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            break;
        s->packets_sent += n > 0 ? (size_t)n : 0;
    }
}

/* ---- bytes in */

/* The size of a decompressed frame is bounded; memory is checked before the next frames. */
static int session_look_at_memory(struct session *s, struct err *e)
{
    uint64_t bytes = frame_reader_stats(s->r.frames)->bytes_out;
    if (bytes - s->looked < LOOK_BYTES)
        return 0;
    s->looked = bytes;
    return session_keep_memory(s, monotonic_ns(), e);
}

/* Decodes received bytes until the turn ends. 0, or -1 with `e` filled. */
static int session_decode(struct session *s, long long turn_ends, struct err *e)
{
    int status;
    while ((status = intake_take(&s->r, &s->left, &s->left_len, e)) == 1) {
        session_send(s);
        if (session_look_at_memory(s, e) != 0)
            return -1;
        long long now = monotonic_ns();
        if (now >= turn_ends || session_must_end(s, now))
            return 0;
    }
    s->left_len = 0;
    s->lacks = status < 0 && intake_end_of(e) == SESSION_NO_ROOM;
    if (status == 0 && s->full.code) {
        *e = s->full;
        status = -1;
    }
    return status;
}

/*
 * Writes received bytes to the journal before they are decoded. If the journal is full, they are
 * still decoded, and then the session ends.
 */
static void session_keep(struct session *s, size_t len)
{
    uint64_t kept = s->journal ? journal_received(s->journal) : 0;
    s->left = s->buffer + JOURNAL_HEADROOM;
    s->left_len = len;
    if (!s->journal ||
        journal_append_received(s->journal, s->buffer + JOURNAL_HEADROOM, len, &s->full) == 0)
        return;
    s->rest = len - (size_t)(journal_received(s->journal) - kept);
    s->rest_end = s->left + len;
}

/* Whether a limit is reached, so that a tick is due. */
static bool session_due(const struct session *s)
{
    const struct session_limits *l = s->limits;
    uint64_t bytes = frame_reader_stats(s->r.frames)->bytes_in;
    uint64_t most = l->forget ? l->rotate_bytes / STRETCHES + 1 : l->rotate_bytes;
    return (l->max_bytes && bytes >= l->max_bytes) ||
           (l->rotate_bytes && bytes - s->part_bytes >= most) || session_is_full(s);
}

/* How many bytes to receive at a time. */
static size_t session_piece(const struct session *s)
{
    const struct session_limits *l = s->limits;
    size_t most = RECEIVE_SIZE;
    if (l->max_bytes || l->rotate_bytes || trace_is_full_to(s->trace, HALF_FULL))
        most = RECEIVE_FINE;
    if (s->pace.expands || trace_is_full_to(s->trace, NEARLY_DUE))
        most = RECEIVE_LESS;
    return s->journal ? journal_piece(s->journal, most) : most;
}

/*
 * Receives for the length of a turn. Bytes left over from the last turn get a turn without
 * receiving, so that a part can begin after them. 0, or -1 with `e` filled.
 */
static int session_take_turn(struct session *s, long long turn_ends, struct err *e)
{
    if (s->left_len)
        return session_decode(s, turn_ends, e);
    while (!s->closed && monotonic_ns() < turn_ends) {
        size_t most = session_piece(s);
        ssize_t n = recv(s->fd, s->buffer + JOURNAL_HEADROOM, most, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (n <= 0) {
            s->closed = true;
            return 0;
        }
        session_keep(s, (size_t)n);
        if (session_decode(s, turn_ends, e) != 0)
            return -1;
        if (s->left_len || (size_t)n < most / 4 || session_due(s))
            return 0;
    }
    return 0;
}

int session_receive(struct session *s, struct err *e)
{
    const struct frame_stats before = *frame_reader_stats(s->r.frames);
    const struct frame_stats *now = frame_reader_stats(s->r.frames);
    long long began = monotonic_ns();
    int status = session_take_turn(s, began + TURN_NS, e);
    pace_note(&s->pace, now->bytes_in - before.bytes_in, now->bytes_out - before.bytes_out, began,
              monotonic_ns());
    return status;
}
