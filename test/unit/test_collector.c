/* The collector of `tidemark run`: what it does of connections that other processes have, too. */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "run/collector.h"

static int connect_to(const struct collector *c)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *path = collector_socket(c);
    assert_true(strlen(path) < sizeof to.sun_path);
    memcpy(to.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Sends what is no hello, and waits for the answer. */
static void be_refused(int fd)
{
    struct rec_welcome w;
    assert_int_equal(send(fd, "x", 1, 0), 1);
    assert_int_equal(recv(fd, &w, sizeof w, 0), sizeof w);
    assert_int_equal(w.accepted, 0);
}

/* A process that was just forked has a copy of the collector's end of a connection. */
static void test_a_copy_of_a_connection(void **state)
{
    struct collector *c;
    struct err e;
    char folder[] = "/tmp/tidemark-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(folder));
    const struct collector_options options = {.spool = folder, .children = true};
    assert_int_equal(collector_start(&c, &options, &e), 0);
    int first = connect_to(c), second = connect_to(c);
    be_refused(second); /* connections are accepted in turn, so the first one is, too */
    pid_t holder = fork();
    if (holder == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(first);
        close(second);
        for (;;)
            pause();
    }
    assert_true(holder > 0);
    be_refused(first);
    close(first);
    close(second);
    for (int i = 0; i < 3; i++) {
        int fd = connect_to(c);
        be_refused(fd);
        close(fd);
    }
    assert_int_equal(kill(holder, SIGKILL), 0);
    assert_int_equal(waitpid(holder, NULL, 0), holder);
    collector_stop(c);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_copy_of_a_connection)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
