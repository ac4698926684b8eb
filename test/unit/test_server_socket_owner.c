/* The process at the other end of a connection, whichever is looked at first. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/guard/socket_owner.h"

static void test_likely_processes(void **state)
{
    (void)state;
    const uint64_t likely[] = {0, (uint64_t)getpid(), (uint64_t)getppid(), UINT64_MAX};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int ours = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(connect(ours, (struct sockaddr *)&at, len), 0);
    int theirs = accept(listener, NULL, NULL);
    assert_true(theirs >= 0);
    for (size_t i = 0; i < sizeof likely / sizeof *likely; i++) {
        struct err e = {0};
        pid_t owner = -1;
        assert_int_equal(socket_owner(ours, likely[i], &owner, &e), 0);
        assert_int_equal(owner, getpid());
    }
    close(theirs);
    close(ours);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_likely_processes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
