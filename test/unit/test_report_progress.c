/* The line of progress: the time that it says is that of the stage, whatever came before. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "report/write/progress.h"

static int64_t now_ms;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int clock_gettime(clockid_t id, struct timespec *t)
{
    (void)id;
    *t = (struct timespec){.tv_sec = now_ms / 1000, .tv_nsec = now_ms % 1000 * 1000000};
    return 0;
}

static int terminal;

/* Standard error is a terminal. */
static int set_up(void **state)
{
    struct termios raw;
    (void)state;
    terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    int theirs = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    assert_true(theirs >= 0 && tcgetattr(theirs, &raw) == 0);
    cfmakeraw(&raw);
    assert_int_equal(tcsetattr(theirs, TCSANOW, &raw), 0);
    assert_true(dup2(theirs, STDERR_FILENO) >= 0);
    return 0;
}

/* A look, `after` ms later, and what it writes. */
static void look(struct progress *p, int64_t after, uint64_t done, const char *wanted)
{
    struct err e;
    char line[100] = "";
    now_ms += after;
    assert_int_equal(progress_read(p, done, &e), 0);
    fputs(".", stderr);
    (void)fflush(stderr);
    ssize_t n = read(terminal, line, sizeof line - 1);
    assert_true(n > 0);
    line[n - 1] = 0;
    assert_string_equal(line[0] ? line + strlen("\r\033[K") : line, wanted);
}

static void test_stages(void **state)
{
    (void)state;
    static char buffer[1024];
    assert_int_equal(setvbuf(stderr, buffer, _IOFBF, sizeof buffer), 0);
    now_ms = 5000;
    struct progress p = progress_begin(1000, false);
    look(&p, 900, 450, "");
    look(&p, 100, 500, "reading: 50.0 %, 1 s left");
    look(&p, 100, 550, "");
    look(&p, 900, 1000, "reading: 100 %, 0 s left");

    /* Another one, after a minute of something else. */
    progress_again(&p);
    look(&p, 60000, 1, "");
    look(&p, 1000, 101, "reading: 10.1 %, 9 s left");
    look(&p, 1000, 201, "reading: 20.1 %, 8 s left");

    /* And one that nothing announces. */
    look(&p, 60000, 2, "");
    look(&p, 1000, 502, "reading: 50.2 %, 1 s left");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_stages, set_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
