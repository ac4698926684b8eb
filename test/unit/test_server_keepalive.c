/* Connections whose other end is gone: that the kernel asks, and how often. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/net/keepalive.h"

/* Both ends of a connection over the loopback. */
static void connect_pair(int ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(listener >= 0 && ends[0] >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(connect(ends[0], (struct sockaddr *)&at, len), 0);
    ends[1] = accept(listener, NULL, NULL);
    assert_true(ends[1] >= 0);
    close(listener);
}

static int value_of(int fd, int level, int option)
{
    int value = -1;
    socklen_t len = sizeof value;
    assert_int_equal(getsockopt(fd, level, option, &value, &len), 0);
    return value;
}

static void the_kernel_asks(void **state)
{
    int ends[2];
    (void)state;
    connect_pair(ends);
    keepalive_begin(ends[0]);
    assert_int_equal(value_of(ends[0], SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_int_equal(value_of(ends[0], IPPROTO_TCP, TCP_KEEPIDLE), 30);
    assert_int_equal(value_of(ends[0], IPPROTO_TCP, TCP_KEEPINTVL), 10);
    assert_int_equal(value_of(ends[0], IPPROTO_TCP, TCP_KEEPCNT), 6);
    /* It would end a connection to a program that is stopped. */
    assert_int_equal(value_of(ends[0], IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
    close(ends[0]);
    close(ends[1]);
}

/* Also one that takes nothing: its kernel acknowledges. */
static void who_is_there_is_not_lost(void **state)
{
    char bytes[4096] = {0};
    int ends[2];
    (void)state;
    connect_pair(ends);
    keepalive_begin(ends[0]);
    assert_false(keepalive_is_lost(ends[0]));
    while (send(ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    assert_false(keepalive_is_lost(ends[0]));
    close(ends[0]);
    close(ends[1]);
}

static void what_is_no_such_connection(void **state)
{
    int ends[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    keepalive_begin(ends[0]);
    assert_false(keepalive_is_lost(ends[0]));
    assert_false(keepalive_is_lost(-1));
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernel_asks),
        cmocka_unit_test(who_is_there_is_not_lost),
        cmocka_unit_test(what_is_no_such_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
