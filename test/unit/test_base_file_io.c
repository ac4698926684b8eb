/* Descriptors that are closed in one go, and the place of the certificates. The linker renames
 * calls of syscall, so that a kernel without close_range can be played. */

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file_io.h"
#include "base/library.h"

long __real_syscall(long number, long a, long b, long c);
long __wrap_syscall(long number, long a, long b, long c);

static int refusal; /* errno of close_range; 0: the kernel's */
static unsigned calls;

long __wrap_syscall(long number, long a, long b, long c)
{
    calls++;
    if (refusal == 0)
        return __real_syscall(number, a, b, c);
    errno = refusal;
    return -1;
}

enum { FIRST = 50, LAST = 400 };

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* In a child, where no other descriptor counts. Returns 0 if exactly those of the range are closed.
 */
static int close_in_child(int kernel_refuses)
{
    refusal = kernel_refuses;
    calls = 0;
    for (int fd = FIRST - 1; fd <= LAST + 1; fd++) {
        if (dup2(STDIN_FILENO, fd) != fd)
            return 1;
    }
    if (file_close_range(FIRST, LAST) != 0 || calls != 1)
        return 2;
    for (int fd = FIRST; fd <= LAST; fd++) {
        if (is_open(fd))
            return 3;
    }
    if (!is_open(FIRST - 1) || !is_open(LAST + 1))
        return 4;
    if (file_close_range(FIRST, ~0u) != 0 || is_open(LAST + 1) || !is_open(FIRST - 1))
        return 5;
    /* The descriptor of the listing itself is closed. */
    int next = dup(STDIN_FILENO);
    return next >= 0 && file_close_range((unsigned)next, ~0u) == 0 && dup(STDIN_FILENO) == next ? 0
                                                                                                : 6;
}

static void assert_closes(int kernel_refuses)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(close_in_child(kernel_refuses));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void closes_a_range(void **state)
{
    (void)state;
    assert_closes(0);
}

static void closes_a_range_without_the_call(void **state)
{
    (void)state;
    assert_closes(ENOSYS); /* before Linux 5.9 */
    assert_closes(EPERM);  /* a container's seccomp filter that does not know it */
}

static void other_errors_are_reported(void **state)
{
    (void)state;
    refusal = EINVAL;
    assert_int_equal(file_close_range(2, 1), -1);
    assert_int_equal(errno, EINVAL);
    refusal = 0;
}

static void certificates_are_where_the_variable_says(void **state)
{
    (void)state;
    const char *path = NULL;
    struct err e = {0};
    setenv("SSL_CERT_FILE", "/dev/null", 1);
    assert_int_equal(ca_bundle_find(&path, &e), 0);
    assert_string_equal(path, "/dev/null");
    setenv("SSL_CERT_FILE", "/nonexistent/ca.pem", 1);
    assert_int_equal(ca_bundle_find(&path, &e), -1);
    assert_int_equal(e.code, ERR_CONNECT);
    assert_string_equal(e.text, "SSL_CERT_FILE: /nonexistent/ca.pem: No such file or directory");
    /* Without it: a bundle that exists, or a message that names the variable. */
    unsetenv("SSL_CERT_FILE");
    if (ca_bundle_find(&path, &e) == 0)
        assert_int_equal(access(path, R_OK), 0);
    else
        assert_non_null(strstr(e.text, "SSL_CERT_FILE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closes_a_range),
        cmocka_unit_test(closes_a_range_without_the_call),
        cmocka_unit_test(other_errors_are_reported),
        cmocka_unit_test(certificates_are_where_the_variable_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
