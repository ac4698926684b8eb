/* Who started a process, as far as it shows. */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "run/descent.h"
#include "run/process_stat.h"

/* A child with a name that looks like the end of its own, and a child of that. */
struct family {
    pid_t child, grandchild;
};

static struct family begin(void)
{
    struct family f = {0};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    f.child = fork();
    if (f.child == 0) {
        (void)prctl(PR_SET_NAME, ") Z 1 (x) R");
        pid_t pid = fork();
        if (pid != 0)
            (void)!write(ends[1], &pid, sizeof pid);
        for (;;)
            pause();
    }
    assert_true(f.child > 0);
    assert_int_equal(read(ends[0], &f.grandchild, sizeof f.grandchild), sizeof f.grandchild);
    close(ends[0]);
    close(ends[1]);
    return f;
}

static void end(struct family *f)
{
    kill(f->grandchild, SIGKILL);
    kill(f->child, SIGKILL);
    waitpid(f->child, NULL, 0);
}

static void children_and_theirs(void **state)
{
    (void)state;
    struct family f = begin();
    bool own = descends_from(getpid(), getpid());
    bool child = descends_from(f.child, getpid());
    bool grandchild = descends_from(f.grandchild, getpid());
    bool near = descends_from(f.grandchild, f.child);
    bool parent = descends_from(getpid(), f.child);
    bool turned = descends_from(f.child, f.grandchild);
    end(&f);
    assert_true(own);
    assert_true(child);
    assert_true(grandchild);
    assert_true(near);
    assert_false(parent);
    assert_false(turned);
}

static void nobody(void **state)
{
    (void)state;
    assert_false(descends_from(0, 0));
    assert_false(descends_from(-1, -1));
    assert_false(descends_from(INT32_MAX, getpid()));
    assert_false(descends_from(getpid(), 0));
}

static void what_the_kernel_says_of_a_process(void **state)
{
    (void)state;
    static const char *const none[] = {"",
                                       "1 (x",
                                       "1 (x)",
                                       "1 (x) R",
                                       "1 (x) R ",
                                       "1 (x) R x",
                                       "1 (x) R -1 2",
                                       "1 (x)R 1 1 1",
                                       "1 (x) R 2147483648 1"};
    struct process_stat s;
    assert_true(process_stat_parse("7 () Z 1 (x) R) T 2147483647 0", &s));
    assert_int_equal(s.state, 'T');
    assert_int_equal(s.parent, 2147483647);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(process_stat_parse(none[i], &s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(children_and_theirs),
                                       cmocka_unit_test(nobody),
                                       cmocka_unit_test(what_the_kernel_says_of_a_process)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
