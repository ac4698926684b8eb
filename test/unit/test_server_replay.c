/* A replayed client on the wire: handshakes, probing, every byte of the recording, the end. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "protocol/handshake.h"
#include "protocol/query.h"
#include "server/capture/replay.h"

#define RECORDING "fixtures/wire/v0.14.0/memscen.c2s.bin"

struct server {
    struct replay *replay;
    struct stop stop;
    pthread_t thread;
    bool stopped;
    int rc;
    struct err err;
};

static void *serve(void *arg)
{
    struct server *s = arg;
    s->rc = replay_run(s->replay, &s->stop, &s->stopped, &s->err);
    return NULL;
}

static void start(struct server *s, const struct replay_options *options)
{
    *s = (struct server){.stop = {.fd = -1}};
    s->replay = replay_new(options, &s->err);
    if (!s->replay)
        fail_msg("%s", s->err.text);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static struct replay_stats finish(struct server *s)
{
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    if (s->rc < 0)
        fail_msg("%s", s->err.text);
    struct replay_stats stats = *replay_stats(s->replay);
    replay_free(s->replay);
    return stats;
}

static uint16_t port_of(const struct server *s)
{
    return (uint16_t)strtoul(strrchr(replay_address(s->replay), ':') + 1, NULL, 10);
}

static int dial(const struct server *s)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port_of(s))};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void request(int fd, uint32_t protocol)
{
    uint8_t bytes[HANDSHAKE_REQUEST_SIZE];
    handshake_request_encode(protocol, bytes);
    assert_int_equal(send(fd, bytes, sizeof bytes, 0), sizeof bytes);
}

/* Reads until `n` bytes, the end, or minutes without any. */
static size_t receive(int fd, uint8_t *out, size_t n)
{
    size_t have = 0;
    while (have < n) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 300000) != 1)
            fail_msg("nothing came");
        ssize_t got = recv(fd, out + have, n - have, 0);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    return have;
}

static uint8_t *load_recording(size_t *n)
{
    FILE *f = fopen(RECORDING, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(*n);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *n, f), *n);
    fclose(f);
    return bytes;
}

static const struct replay_options defaults = {
    .recording = RECORDING, .address = "127.0.0.1", .connections = 1};

static void test_probe_then_play(void **state)
{
    (void)state;
    struct server s;
    uint8_t status, end;
    size_t n;
    uint8_t *want = load_recording(&n);
    uint8_t *got = malloc(n + 1);
    start(&s, &defaults);
    int fd = dial(&s); /* mismatch: status 2, end, and the recording is not used up */
    request(fd, 76);
    assert_int_equal(receive(fd, &status, 1), 1);
    assert_int_equal(status, HANDSHAKE_MISMATCH);
    assert_int_equal(receive(fd, &end, 1), 0);
    close(fd);
    fd = dial(&s); /* nonsense gets no answer at all */
    assert_int_equal(send(fd, "GET / HTTP/1.0\r\n", 16, 0), 16);
    receive(fd, &end, 1);
    close(fd);
    fd = dial(&s);
    request(fd, 82);
    assert_int_equal(receive(fd, got, n), n);
    assert_memory_equal(got, want, n);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 900), 0); /* it holds the line, also when that takes long … */
    uint8_t packet[QUERY_PACKET_SIZE] = {1, 2, 3};
    assert_int_equal(send(fd, packet, sizeof packet, 0), sizeof packet);
    assert_int_equal(poll(&p, 1, 100), 0);
    memset(packet, 0, sizeof packet);
    assert_int_equal(send(fd, packet, 5, 0), 5);
    assert_int_equal(send(fd, packet, sizeof packet - 5, 0), sizeof packet - 5);
    assert_int_equal(receive(fd, &end, 1), 0); /* … until Terminate */
    close(fd);
    struct replay_stats stats = finish(&s);
    assert_int_equal(stats.connections, 1);
    assert_int_equal(stats.mismatches, 1);
    assert_int_equal(stats.bytes, n);
    assert_int_equal(stats.queries, 2);
    free(want);
    free(got);
}

/* A server that leaves in the middle has had it; the next one gets it from the beginning. */
static void test_count(void **state)
{
    (void)state;
    struct server s;
    struct replay_options options = defaults;
    size_t n;
    uint8_t *want = load_recording(&n);
    uint8_t *got = malloc(n + 1);
    options.connections = 2;
    options.protocol = 82;
    start(&s, &options);
    int fd = dial(&s);
    request(fd, 82);
    assert_int_equal(receive(fd, got, 1000), 1000);
    close(fd);
    fd = dial(&s);
    request(fd, 82);
    assert_int_equal(receive(fd, got, n), n);
    assert_memory_equal(got, want, n);
    close(fd);
    struct replay_stats stats = finish(&s);
    assert_int_equal(stats.connections, 2);
    assert_true(stats.bytes >= n + 1000);
    free(want);
    free(got);
}

static void test_rate(void **state)
{
    (void)state;
    struct server s;
    struct replay_options options = defaults;
    static uint8_t got[40000];
    options.rate = 200000;
    start(&s, &options);
    int fd = dial(&s);
    long long begin = monotonic_ns();
    request(fd, 82);
    assert_int_equal(receive(fd, got, sizeof got), sizeof got);
    assert_true(monotonic_ns() - begin >= 150000000); /* 200 ms at this rate */
    close(fd);
    finish(&s);
}

static void test_announcement(void **state)
{
    (void)state;
    struct server s;
    struct replay_options options = defaults;
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    char address[32];
    uint8_t bytes[256];
    struct broadcast b;
    struct err e = {0};
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    assert_int_equal(bind(udp, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(udp, (struct sockaddr *)&at, &len), 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
    options.announce = address;
    start(&s, &options);
    ssize_t n = (ssize_t)recv(udp, bytes, sizeof bytes, 0);
    assert_int_equal(broadcast_parse(bytes, (size_t)n, &b, &e), 0);
    assert_int_equal(b.version, 3);
    assert_int_equal(b.protocol, 82);
    assert_int_equal(b.port, port_of(&s));
    assert_true(b.active_time >= 0);
    assert_string_equal(b.name, "memscen");
    int fd = dial(&s);
    n = (ssize_t)recv(udp, bytes, sizeof bytes, 0);
    assert_int_equal(broadcast_parse(bytes, (size_t)n, &b, &e), 0);
    assert_int_equal(b.active_time, -1); /* busy */
    request(fd, 82);
    assert_int_equal(receive(fd, bytes, 100), 100);
    close(fd);
    close(udp);
    finish(&s);
}

static void expect_refusal(struct replay_options options, enum err_code code, const char *cause)
{
    struct err e = {0};
    assert_null(replay_new(&options, &e));
    assert_int_equal(e.code, code);
    if (!strstr(e.text, cause))
        fail_msg("\"%s\" does not say \"%s\"", e.text, cause);
}

static void test_refusals(void **state)
{
    (void)state;
    struct replay_options o = defaults;
    o.recording = "fixtures/wire/nothing.c2s.bin";
    expect_refusal(o, ERR_INPUT, "nothing.c2s.bin: No such file");
    o.recording = "fixtures/wire/v0.14.0/memscen.truth.json";
    expect_refusal(o, ERR_USAGE, "does not end in .c2s.bin");
    o.recording = "-";
    expect_refusal(o, ERR_USAGE, "standard input needs --protocol");
    o.connections = 2;
    expect_refusal(o, ERR_USAGE, "standard input can be played once only");
    o = defaults;
    o.announce = "192.0.2.1";
    expect_refusal(o, ERR_USAGE, "no loopback address");
    o.announce = "nonsense";
    expect_refusal(o, ERR_USAGE, "nonsense");
    o = defaults;
    o.address = "192.0.2.1";
    expect_refusal(o, ERR_CONNECT, "cannot listen on 192.0.2.1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe_then_play),
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_announcement),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("server replay", tests, NULL, NULL);
}
