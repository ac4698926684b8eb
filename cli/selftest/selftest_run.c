#include "cli/selftest/selftest_run.h"

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/json_reader.h"
#include "base/monotonic.h"
#include "base/tempfile.h"

#define WAIT_MS 5
#define OUTPUT_MOST ((off_t)64 << 20)

/* ---- the folder */

int selftest_run_open(struct selftest_run *r, struct err *e)
{
    r->deadline = monotonic_ns() + (long long)r->seconds * 1000000000LL;
    char cache[SELFTEST_PATH];
    const char *in = tempfile_dir(NULL);
    int n = snprintf(r->folder, sizeof r->folder - 64, "%s/tidemark-selftest-XXXXXX", in);
    ssize_t len = readlink("/proc/self/exe", r->program, sizeof r->program - 1);
    if (len < 0)
        return err_errno(e, ERR_INPUT, "/proc/self/exe");
    r->program[len] = 0;
    interrupt_hold(&r->interrupt);
    (void)signal(SIGPIPE, SIG_IGN);
    if (n < 0 || (size_t)n >= sizeof r->folder - 64 || !mkdtemp(r->folder)) {
        r->folder[0] = 0;
        interrupt_release(&r->interrupt);
        return err_errno(e, ERR_OUTPUT, "%s: cannot make a folder; set TMPDIR to a writable one",
                         in);
    }
    selftest_path(r, "cache", cache);
    if (setenv("XDG_CACHE_HOME", cache, 1) != 0 || setenv("DEBUGINFOD_CACHE_PATH", cache, 1) != 0)
        return err_no_memory(e, "the environment");
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

int selftest_run_close(struct selftest_run *r, struct err *e)
{
    int status = 0;
    if (r->folder[0] && nftw(r->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0)
        status = err_errno(e, ERR_OUTPUT, "%s: cannot remove it", r->folder);
    r->folder[0] = 0;
    interrupt_release(&r->interrupt);
    return status;
}

const char *selftest_path(const struct selftest_run *r, const char *name, char path[SELFTEST_PATH])
{
    snprintf(path, SELFTEST_PATH, "%.400s/%s", r->folder, name);
    return path;
}

/* ---- commands */

_Noreturn static void be_command(const struct selftest_run *r, const char *const *words, int out,
                                 int err)
{
    char *list[SELFTEST_WORDS + 1] = {"tidemark"};
    struct interrupt interrupt = r->interrupt;
    size_t n = 1;
    int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (*words && n < SELFTEST_WORDS)
        list[n++] = (char *)*words++;
    interrupt_release(&interrupt);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)unsetenv("DEBUGINFOD_URLS");
    if (none >= 0 && dup2(none, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(err, STDERR_FILENO) >= 0)
        execv(r->program, list);
    _exit(127);
}

/* Waits until a process has ended, or the time is up; *status is its wait status. */
static int await(const struct selftest_run *r, pid_t pid, selftest_meanwhile *meanwhile, void *ctx,
                 int *status, struct err *e)
{
    const struct timespec pause = {.tv_nsec = WAIT_MS * 1000000L};
    pid_t ended;
    while ((ended = waitpid(pid, status, WNOHANG)) == 0) {
        if (interrupt_came(&r->interrupt))
            return err_set(e, ERR_OUTPUT, "interrupted");
        if (monotonic_ns() > r->deadline)
            return err_set(e, ERR_CHECK,
                           "not done %" PRIu64
                           " s after the selftest began; --timeout sets another time",
                           r->seconds);
        if (meanwhile && meanwhile(ctx, e) != 0)
            return -1;
        if (!meanwhile)
            (void)nanosleep(&pause, NULL);
    }
    return ended < 0 ? err_errno(e, ERR_CHECK, "waitpid") : 0;
}

static int read_all(int fd, struct buf *to, struct err *e)
{
    off_t size = lseek(fd, 0, SEEK_END);
    if (size < 0 || size > OUTPUT_MOST)
        return err_set(e, ERR_CHECK, "its output is too long");
    uint8_t *room = buf_reserve(to, (size_t)size + 1);
    if (!room)
        return err_no_memory(e, "its output");
    ssize_t n = pread(fd, room, (size_t)size, 0);
    if (n != size)
        return err_errno(e, ERR_CHECK, "its output");
    to->len += (size_t)n;
    return 0;
}

/* Without the program's name. */
static int read_last_line(int fd, struct err *why, struct err *e)
{
    struct buf words = {0};
    int status = read_all(fd, &words, e);
    while (words.len && words.data[words.len - 1] == '\n')
        words.len--;
    char *text = (char *)words.data, *line;
    if (status == 0 && words.len) {
        text[words.len] = 0;
        line = strrchr(text, '\n') ? strrchr(text, '\n') + 1 : text;
        line += strncmp(line, "tidemark: ", 10) == 0 ? 10 : 0;
        err_set(why, ERR_CHECK, "%s", line);
    }
    buf_release(&words);
    return status;
}

int selftest_run(struct selftest_run *r, const char *const *words, struct buf *out, struct err *why,
                 selftest_meanwhile *meanwhile, void *ctx, struct err *e)
{
    int to = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);
    int status = 0, result = -1;
    pid_t pid = to < 0 || err < 0 ? -1 : fork();
    if (pid == 0)
        be_command(r, words, to, err);
    if (pid < 0) {
        err_errno(e, ERR_CHECK, "cannot start it");
    } else if (await(r, pid, meanwhile, ctx, &status, e) != 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, &status, 0);
        if (interrupt_came(&r->interrupt))
            (void)selftest_run_close(r, e); /* ends this process */
    } else if (read_all(to, out, e) == 0 && read_last_line(err, why, e) == 0) {
        result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (to >= 0)
        close(to);
    if (err >= 0)
        close(err);
    return result;
}

json_t *selftest_run_json(struct selftest_run *r, const char *const *words, struct err *e)
{
    struct buf out = {0};
    struct err why = {0};
    json_t *document = NULL;
    int status = selftest_run(r, words, &out, &why, NULL, NULL, e);
    if (status > 0)
        err_set(e, ERR_CHECK, "exit status %d: %s", status, why.text);
    else if (status == 0 && json_read(buf_view(&out), false, &document) != JSON_READ)
        err_set(e, ERR_CHECK, "no JSON document");
    buf_release(&out);
    return document;
}
