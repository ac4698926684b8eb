/* Announcements by UDP: what is none is passed over, but not for ever. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/handshake.h"
#include "server/net/discovery.h"

#define NOISE 150

struct speaker {
    int hears, speaks;
    struct sockaddr_in to;
};

static void speaker_init(struct speaker *s)
{
    struct err e = {0};
    socklen_t len = sizeof s->to;
    s->hears = discovery_open(0, &e);
    assert_true(s->hears >= 0);
    assert_int_equal(getsockname(s->hears, (struct sockaddr *)&s->to, &len), 0);
    s->to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    s->speaks = socket(AF_INET, SOCK_DGRAM, 0);
    assert_true(s->speaks >= 0);
}

static void speaker_release(struct speaker *s)
{
    close(s->hears);
    close(s->speaks);
}

static void speak(const struct speaker *s, const void *bytes, size_t n)
{
    assert_int_equal(sendto(s->speaks, bytes, n, 0, (const struct sockaddr *)&s->to, sizeof s->to),
                     n);
}

static void announce(const struct speaker *s, uint16_t port)
{
    struct broadcast b = {.version = 3, .port = port, .protocol = 82, .pid = 7};
    uint8_t bytes[BROADCAST_SIZE_MAX];
    memcpy(b.name, "program", 8);
    speak(s, bytes, broadcast_encode(&b, bytes));
}

static void what_is_none_is_passed_over(void **state)
{
    (void)state;
    struct speaker s;
    struct announcement a;
    speaker_init(&s);
    assert_false(discovery_next(s.hears, false, &a));
    speak(&s, "nonsense", 8);
    speak(&s, "", 0);
    announce(&s, 8086);
    speak(&s, "nonsense", 8);
    assert_true(discovery_next(s.hears, false, &a));
    assert_int_equal(a.broadcast.port, 8086);
    assert_string_equal(a.broadcast.name, "program");
    assert_string_equal(a.address, "127.0.0.1");
    assert_false(discovery_next(s.hears, false, &a));
    announce(&s, 8087);
    assert_true(discovery_next(s.hears, true, &a)); /* this host's */
    assert_int_equal(a.broadcast.port, 8087);
    speaker_release(&s);
}

/* Who hears nothing but noise gets back to its other work in between. */
static void noise_does_not_hold_its_hearer(void **state)
{
    (void)state;
    struct speaker s;
    struct announcement a;
    unsigned calls = 1;
    speaker_init(&s);
    for (unsigned i = 0; i < NOISE; i++)
        speak(&s, "nonsense", 8);
    announce(&s, 8086);
    while (!discovery_next(s.hears, false, &a))
        assert_true(++calls < NOISE);
    assert_int_equal(a.broadcast.port, 8086);
    assert_true(calls > 1);
    speaker_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_none_is_passed_over),
        cmocka_unit_test(noise_does_not_hold_its_hearer),
    };
    return cmocka_run_group_tests_name("server discovery", tests, NULL, NULL);
}
