/* What a guarded process cannot do any more, and what it still can. */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/guard/guard.h"
#include "symbols/place/process_modules.h"

#define LACKING 77 /* this kernel, or a sanitized program, has it not */

/* The exit status of `body` in a process of its own. */
static int status_of(int (*body)(void))
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(body());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect(int (*body)(void))
{
    int status = status_of(body);
    if (status == LACKING)
        skip();
    assert_int_equal(status, 0);
}

static void *say_one(void *arg)
{
    *(int *)arg = 1;
    return NULL;
}

/* A copy of the process is under the same guard, and there is none of another kind. */
static int try_fork(char *const words[], char *const none[])
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(execve("/bin/true", words, none) == -1 && errno == EPERM ? 0 : 1);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        return -1;
    if (vfork() != -1 || errno != EPERM)
        return -1;
    return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL) == -1 &&
                   errno == EPERM
               ? 0
               : -1;
}

static int try_calls(void)
{
    char *const words[] = {"true", NULL}, *const none[] = {NULL};
    int said = 0;
    pthread_t thread;
    struct rlimit limit;
    if (!guard_calls())
        return LACKING;
    if (execve("/bin/true", words, none) != -1 || errno != EPERM)
        return 1;
    if (try_fork(words, none) != 0)
        return 2;
    if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        return 3;
    if (kill(getppid(), 0) != -1 || errno != EPERM)
        return 4;
    if (pthread_create(&thread, NULL, say_one, &said) != 0 || pthread_join(thread, NULL) != 0 ||
        said != 1)
        return 5;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 6;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || listen(s, 1) != -1 || errno != EPERM)
        return 7;
    if (!guard_sockets() || socket(AF_INET, SOCK_STREAM, 0) != -1 || errno != EPERM)
        return 8;
    if (!guard_forks() || fork() != -1 || errno != EPERM)
        return 9;
    said = 0;
    if (pthread_create(&thread, NULL, say_one, &said) != 0 || pthread_join(thread, NULL) != 0 ||
        said != 1)
        return 10;
    return 0;
}

static void test_calls(void **state)
{
    (void)state;
    expect(try_calls);
}

static int make_in(const char *folder, const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    close(fd);
    return unlink(path);
}

static int try_files(void)
{
    char ours[] = "/tmp/tidemark-guard-XXXXXX", others[] = "/tmp/tidemark-guard-XXXXXX";
    if (!mkdtemp(ours) || !mkdtemp(others))
        return 1;
    const struct guard_folders folders = {.writable = {ours, NULL, ours}, .reads = true};
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (!guard_files(&folders))
            _exit(LACKING);
        if (make_in(ours, "a") != 0 || make_in(others, "a") == 0)
            _exit(2);
        int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
        if (fd < 0 || open("/etc/passwd", O_RDWR | O_CLOEXEC) >= 0)
            _exit(3);
        /* The second time for what it no longer needs. */
        const struct guard_folders none = {.reads = false};
        if (!guard_files(&none) || open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 ||
            make_in(ours, "a") == 0)
            _exit(4);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 5;
    rmdir(ours);
    rmdir(others);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 6;
}

static void test_files(void **state)
{
    (void)state;
    expect(try_files);
}

static int count_module(void *ctx, const struct module *m, struct err *e)
{
    (void)e;
    *(unsigned *)ctx += m->build_id.len > 0;
    return 0;
}

/* Another process's mappings: opened before, they can be read, and are what they are then. */
static int try_modules(void)
{
    const struct guard_folders folders = {.writable = {"/tmp"}, .reads = true};
    const struct process_root root = PROCESS_ROOT_NONE;
    struct err e = {0};
    unsigned before = 0, after = 0;
    pid_t other = getppid();
    int maps = process_modules_open(other);
    if (maps < 0 || process_modules(other, count_module, &before, &e) != 0 || before == 0)
        return 1;
    if (!guard_files(&folders))
        return LACKING;
    /* Who may watch the whole system still sees the mappings, but not what is mapped. */
    if (process_modules(other, count_module, &after, &e) != 0 && e.code != ERR_INPUT)
        return 2;
    if (after != 0)
        return 3;
    for (int i = 0; i < 2; i++) {
        if (process_modules_read(maps, &(struct process_view){.pid = other, .root = &root},
                                 count_module, &after, &e) != 0)
            return 4;
    }
    close(maps);
    return after == 2 * before ? 0 : 5;
}

static void test_modules(void **state)
{
    (void)state;
    expect(try_modules);
}

static int try_limits(void)
{
    struct rlimit core, files;
    guard_limits(32, 0);
    if (getrlimit(RLIMIT_CORE, &core) != 0 || getrlimit(RLIMIT_NOFILE, &files) != 0)
        return 1;
    return core.rlim_max == 0 && files.rlim_max == 32 ? 0 : 2;
}

static void test_limits(void **state)
{
    (void)state;
    expect(try_limits);
}

/* A folder that is not there cannot be granted: then there is no half of a guard. */
static int try_no_folder(void)
{
    const struct guard_folders folders = {.writable = {"/nowhere/at/all"}};
    return !guard_files(&folders) && open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 ? 0 : 1;
}

static void test_no_folder(void **state)
{
    (void)state;
    expect(try_no_folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),     cmocka_unit_test(test_files),
        cmocka_unit_test(test_modules),   cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
