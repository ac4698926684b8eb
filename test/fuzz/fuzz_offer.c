/*
 * What a server says to a client's side of a connection, in one piece or two: its greeting and its
 * queries. The first byte picks the protocol, the second how the owner behaves (bit 0: there is
 * nothing to be had, bit 1: questions are answered, bit 2: all is said) and where the bytes are
 * cut. Whatever comes, only that session may end, and no question comes of fewer bytes than it has.
 */

#include <arpa/inet.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "protocol/answers.h"
#include "protocol/query.h"
#include "run/offer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
    struct offer *offer;
    size_t questions;
    bool available, answers;
} owners[PROTOCOL_MAX - PROTOCOL_MIN + 1];

static bool welcome(void *ctx, struct welcome *w)
{
    memcpy(w->program_name, "program", 8);
    return owners[(intptr_t)ctx].available;
}

static int asked(void *ctx, enum query_kind kind, uint64_t key, uint32_t extra, struct err *e)
{
    intptr_t i = (intptr_t)ctx;
    (void)extra;
    owners[i].questions++;
    return owners[i].answers ? answer_nothing(offer_replies(owners[i].offer), kind, key, e) : 0;
}

static struct offer *owner(intptr_t i)
{
    struct err e = {0};
    const struct offer_options options = {.version = wire_version_find(PROTOCOL_MIN + (uint32_t)i),
                                          .any_port = true,
                                          .announce = 9, /* nobody listens there */
                                          .spool = "/tmp",
                                          .address = "127.0.0.1",
                                          .ctx = (void *)i,
                                          .welcome = welcome,
                                          .asked = asked};
    if (owners[i].offer)
        return owners[i].offer;
    owners[i].offer = offer_new(&options, &e);
    if (!owners[i].offer || offer_listen(owners[i].offer, &e) != 0)
        abort();
    offer_set_program(owners[i].offer, "program", 42);
    return owners[i].offer;
}

/* Closed by a reset, so that no port stays taken for a minute. Where the owner closes first, one
   does: each 4,096 connections come from another address of the loopback network, with ports of its
   own. */
static int connect_to(const struct offer *o)
{
    static uint32_t connections;
    const struct linger reset = {.l_onoff = 1};
    const char *port = strrchr(offer_address(o), ':');
    const struct sockaddr_in from = {
        .sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK + (connections++ >> 12) % 240)}};
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10)),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&from, sizeof from) != 0 ||
        connect(fd, (const struct sockaddr *)&at, sizeof at) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) != 0)
        abort();
    return fd;
}

/* What is sent is taken and not looked at. */
static void turn(struct offer *o, int fd)
{
    struct pollfd polled[OFFER_POLLS];
    struct err e = {0};
    uint8_t bytes[4096];
    (void)poll(polled, offer_poll(o, polled), 0);
    if (offer_step(o, &e) != 0)
        abort();
    while (fd >= 0 && recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t frame[] = {5, 0, 0, 0, 0x40, 'f', 'r', 'a', 'm'};
    struct err e = {0};
    if (size < 2 || size > (64u << 10))
        return 0;
    intptr_t i = data[0] % (PROTOCOL_MAX - PROTOCOL_MIN + 1);
    struct offer *o = owner(i);
    const uint8_t *bytes = data + 2;
    size_t n = size - 2, cut = data[1] >> 3 < n ? data[1] >> 3 : n;
    owners[i].available = !(data[1] & 1);
    owners[i].answers = data[1] & 2;
    owners[i].questions = 0;
    if (data[1] & 4)
        offer_end(o);
    if (offer_append(o, frame, sizeof frame, &e) != 0)
        abort();
    int fd = connect_to(o);
    (void)!send(fd, bytes, cut, MSG_NOSIGNAL | MSG_DONTWAIT);
    turn(o, fd);
    (void)!send(fd, bytes + cut, n - cut, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (unsigned turns = 0; turns < 4; turns++)
        turn(o, fd);
    close(fd);
    for (unsigned turns = 0; turns < 8 && offer_is_connected(o); turns++)
        turn(o, -1);
    size_t most = n > HANDSHAKE_REQUEST_SIZE ? (n - HANDSHAKE_REQUEST_SIZE) / QUERY_PACKET_SIZE : 0;
    if (offer_is_connected(o) || owners[i].questions > most)
        abort();
    offer_begin_anew(o);
    return 0;
}
