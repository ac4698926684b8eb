/* The client's side of a connection, step by step, with a server at the other end of a socket. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "protocol/answers.h"
#include "protocol/query.h"
#include "run/offer.h"

#define PROTOCOL 76u

struct asked {
    struct offer *offer;
    uint64_t questions, last_key;
    bool answers, available;
};

static bool welcome(void *ctx, struct welcome *w)
{
    const struct asked *a = ctx;
    memcpy(w->program_name, "program", 8);
    return a->available;
}

static int asked(void *ctx, enum query_kind kind, uint64_t key, uint32_t extra, struct err *e)
{
    struct asked *a = ctx;
    (void)extra;
    a->questions++;
    a->last_key = key;
    return a->answers ? answer_nothing(offer_replies(a->offer), kind, key, e) : 0;
}

static struct offer *make(struct asked *a)
{
    struct err e = {0};
    const struct offer_options options = {.version = wire_version_find(PROTOCOL),
                                          .any_port = true,
                                          .announce = 9, /* nobody listens there */
                                          .ctx = a,
                                          .welcome = welcome,
                                          .asked = asked};
    *a = (struct asked){.available = true};
    a->offer = offer_new(&options, &e);
    assert_non_null(a->offer);
    assert_null(offer_address(a->offer));
    assert_int_equal(offer_listen(a->offer, &e), 0);
    offer_set_program(a->offer, "program", 42);
    return a->offer;
}

static int connect_to(const struct offer *o)
{
    const char *port = strrchr(offer_address(o), ':');
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void say(int fd, const void *bytes, size_t n)
{
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
}

static void request(int fd, uint32_t protocol)
{
    uint8_t bytes[HANDSHAKE_REQUEST_SIZE];
    handshake_request_encode(protocol, bytes);
    say(fd, bytes, sizeof bytes);
}

static void ask(int fd, uint8_t code, uint64_t key)
{
    uint8_t bytes[QUERY_PACKET_SIZE] = {code};
    store_u64(bytes + 1, key);
    say(fd, bytes, sizeof bytes);
}

/* Steps until `n` bytes have come, or the end of the connection; gives how many came. */
static size_t hear(struct offer *o, int fd, uint8_t *bytes, size_t n)
{
    struct err e = {0};
    size_t have = 0;
    while (have < n) {
        assert_int_equal(offer_step(o, &e), 0);
        ssize_t got = recv(fd, bytes + have, n - have, MSG_DONTWAIT);
        if (got == 0)
            break;
        have += got > 0 ? (size_t)got : 0;
    }
    return have;
}

static void meet(struct offer *o, int fd)
{
    uint8_t bytes[1 + WELCOME_SIZE_MAX] = {0};
    size_t n = 1 + wire_version_welcome_size(wire_version_find(PROTOCOL));
    struct welcome w;
    request(fd, PROTOCOL);
    assert_int_equal(hear(o, fd, bytes, n), n);
    assert_int_equal(bytes[0], HANDSHAKE_WELCOME);
    assert_int_equal(welcome_parse(wire_version_find(PROTOCOL), bytes + 1, n - 1, &w, NULL), 0);
    assert_string_equal(w.program_name, "program");
}

static void append(struct offer *o, const char *text)
{
    struct err e = {0};
    uint8_t bytes[64] = {0};
    uint32_t n = (uint32_t)view_of(text).len;
    store_u32(bytes, n);
    memcpy(bytes + 4, view_of(text).p, n);
    assert_int_equal(offer_append(o, bytes, 4 + n, &e), 0);
}

static void expect_frame(struct offer *o, int fd, const char *text)
{
    uint8_t bytes[64] = {0};
    size_t n = strlen(text);
    assert_int_equal(hear(o, fd, bytes, 4 + n), 4 + n);
    assert_int_equal(load_u32(bytes), n);
    assert_memory_equal(bytes + 4, text, n);
}

/* Whoever comes gets all from the beginning; it is over when one let go behind the end. */
static void test_each_gets_all(void **state)
{
    (void)state;
    struct asked a;
    struct err e = {0};
    uint8_t byte;
    struct offer *o = make(&a);
    append(o, "first");
    int fd = connect_to(o);
    meet(o, fd);
    expect_frame(o, fd, "first");
    append(o, "second");
    expect_frame(o, fd, "second");
    assert_true(offer_is_connected(o));
    close(fd);
    while (offer_is_connected(o))
        assert_int_equal(offer_step(o, &e), 0);
    append(o, "the end");
    offer_end(o);
    fd = connect_to(o);
    meet(o, fd);
    expect_frame(o, fd, "first");
    expect_frame(o, fd, "second");
    expect_frame(o, fd, "the end");
    assert_false(offer_is_done(o));
    ask(fd, 0, 0);
    assert_int_equal(hear(o, fd, &byte, 1), 0);
    assert_true(offer_is_done(o));
    close(fd);
    offer_free(o);
}

static void test_questions(void **state)
{
    (void)state;
    struct asked a;
    struct err e = {0};
    struct offer *o = make(&a);
    uint8_t bytes[64] = {0};
    int fd = connect_to(o);
    meet(o, fd);
    ask(fd, 1, 0x1234);
    ask(fd, 200, 7); /* no such question */
    ask(fd, 12, 0x5678);
    while (a.questions < 2)
        assert_int_equal(offer_step(o, &e), 0);
    assert_int_equal(a.last_key, 0x5678);
    a.answers = true;
    ask(fd, 12, 0x9999);
    assert_int_equal(hear(o, fd, bytes, 5), 5); /* a frame with the answer */
    assert_int_equal(a.questions, 3);
    close(fd);
    offer_free(o);
}

static void test_another_program(void **state)
{
    (void)state;
    struct asked a;
    struct offer *o = make(&a);
    uint8_t byte;
    append(o, "old");
    int fd = connect_to(o);
    meet(o, fd);
    expect_frame(o, fd, "old");
    offer_begin_anew(o);
    assert_int_equal(hear(o, fd, &byte, 1), 0);
    close(fd);
    append(o, "new");
    fd = connect_to(o);
    meet(o, fd);
    expect_frame(o, fd, "new");
    close(fd);
    offer_free(o);
}

static void test_refusals(void **state)
{
    (void)state;
    struct asked a;
    struct offer *o = make(&a);
    uint8_t bytes[8] = {0};
    int fd = connect_to(o);
    request(fd, PROTOCOL + 1);
    assert_int_equal(hear(o, fd, bytes, sizeof bytes), 1);
    assert_int_equal(bytes[0], HANDSHAKE_MISMATCH);
    close(fd);
    a.available = false;
    fd = connect_to(o);
    request(fd, PROTOCOL);
    assert_int_equal(hear(o, fd, bytes, sizeof bytes), 1);
    assert_int_equal(bytes[0], HANDSHAKE_NOT_AVAILABLE);
    close(fd);
    fd = connect_to(o);
    say(fd, "GET / HTTP/1.0\r\n", 12);
    assert_int_equal(hear(o, fd, bytes, sizeof bytes), 0);
    close(fd);
    offer_free(o);
}

/* One that asks and asks and never reads is not read for ever, and keeps nobody busy. */
static void test_server_that_does_not_read(void **state)
{
    (void)state;
    struct asked a;
    struct err e = {0};
    struct offer *o = make(&a);
    uint8_t bytes[QUERY_PACKET_SIZE] = {12};
    int fd = connect_to(o), small = 4096;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    meet(o, fd);
    a.answers = true;
    uint64_t before = 1;
    size_t at = 0; /* of a packet that went out in part */
    /* Until neither side moves: what is on its way is bounded by what sockets hold. */
    for (unsigned still = 0; still < 1000;) {
        ssize_t sent = send(fd, bytes + at, sizeof bytes - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        at = (at + (sent > 0 ? (size_t)sent : 0)) % sizeof bytes;
        assert_int_equal(offer_step(o, &e), 0);
        still = sent <= 0 && a.questions == before ? still + 1 : 0;
        before = a.questions;
        if (a.questions > 3000000)
            break; /* small answers, large sockets: it did not come to that */
    }
    assert_true(offer_is_connected(o));
    close(fd);
    while (offer_is_connected(o))
        assert_int_equal(offer_step(o, &e), 0);
    offer_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_gets_all),
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_another_program),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_server_that_does_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
