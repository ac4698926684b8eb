#include "cli/captures.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"
#include "cli/commands.h"
#include "protocol/version.h"
#include "server/stop.h"

#define LINE_MAX_BYTES 4096u
#define FORGET_NS 60000000000LL
#define ARGUMENTS_MAX 64

/* What the drop-in of capture exits with: capture/src/CaptureOutput.cpp @ v0.14.0. */
enum { EXIT_MISMATCH = 1, EXIT_NOT_AVAILABLE = 2 };

static void capture_free(struct capture *one)
{
    if (one->words >= 0)
        close(one->words);
    free(one->output);
    free(one->last_words);
    buf_release(&one->line);
    free(one);
}

void captures_release(struct captures *c)
{
    for (size_t i = 0; i < c->list.len; i++)
        capture_free(c->list.at[i]);
    vec_release(&c->list);
}

struct capture *captures_find(const struct captures *c, const struct announcement *a)
{
    for (size_t i = c->list.len; i-- > 0;) {
        struct capture *one = c->list.at[i];
        if (one->client.broadcast.port == a->broadcast.port &&
            one->client.broadcast.pid == a->broadcast.pid &&
            strcmp(one->client.address, a->address) == 0)
            return one;
    }
    return NULL;
}

/* ---- names of traces, as the official daemon forms them: capturedaemon.cpp @ v0.14.0 */

static void put_program(struct buf *out, const char *name)
{
    size_t before = out->len;
    for (; *name; name++) {
        char ch = *name == ' ' || *name == '\t' ? '_' : *name;
        if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
            ch == '_' || ch == '-')
            buf_put(out, &ch, 1);
    }
    if (out->len == before)
        buf_printf(out, "unknown");
}

static bool is_taken(const struct captures *c, const char *path)
{
    if (access(path, F_OK) == 0)
        return true;
    for (size_t i = 0; i < c->list.len; i++) {
        const struct capture *one = c->list.at[i];
        if (one->state == CAPTURE_RUNNING && one->output && strcmp(one->output, path) == 0)
            return true;
    }
    return false;
}

static char *choose_output(const struct captures *c, const struct announcement *a)
{
    struct buf path = {0};
    buf_printf(&path, "%s/", c->dir);
    put_program(&path, a->broadcast.name);
    buf_printf(&path, "_%s_%u", a->address, a->broadcast.port);
    size_t stem = path.len;
    buf_printf(&path, ".tracy");
    for (unsigned i = 1; !path.failed && is_taken(c, buf_str(&path)); i++) {
        path.len = stem;
        buf_printf(&path, "_%u.tracy", i);
    }
    char *text = path.failed ? NULL : strdup(buf_str(&path));
    buf_release(&path);
    return text;
}

/* ---- a process */

/* In the new process: be `tidemark capture` with its words going into the pipe. */
static int be_capture(const struct captures *c, const struct capture *one, int words)
{
    char port[8], protocol[16];
    const char *arguments[ARGUMENTS_MAX] = {"tracy-capture"};
    const char *const fixed[] = {"-a",           one->client.address, "-p", port, "-o", one->output,
                                 "--no-summary", "--connect-timeout", "10"};
    int n = 1;
    snprintf(port, sizeof port, "%u", one->client.broadcast.port);
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        arguments[n++] = fixed[i];
    if (wire_version_find(one->client.broadcast.protocol)) {
        snprintf(protocol, sizeof protocol, "%u", one->client.broadcast.protocol);
        arguments[n++] = "--protocol";
        arguments[n++] = protocol;
    }
    for (const char *const *o = c->options; *o && n < ARGUMENTS_MAX - 1; o++)
        arguments[n++] = *o;
    arguments[n] = NULL;
    /* A group of its own: a terminal's SIGINT goes to the daemon, which passes it on once. */
    if (setpgid(0, 0) != 0 || dup2(words, STDOUT_FILENO) < 0 || dup2(words, STDERR_FILENO) < 0)
        return 5;
    close(words);
    setvbuf(stdout, NULL, _IOLBF, 0);
    optind = 0;
    int status = cmd_capture_drop_in(n, (char **)arguments);
    return fflush(stdout) == 0 || status ? status : 5;
}

static int begin_process(struct captures *c, struct capture *one, const int *keep_closed,
                         unsigned n, struct err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_errno(e, ERR_CONNECT, "cannot begin a capture");
    fflush(NULL);
    one->pid = fork();
    if (one->pid == 0) {
        close(ends[0]);
        for (unsigned i = 0; i < n; i++)
            close(keep_closed[i]);
        for (size_t i = 0; i < c->list.len; i++) {
            if (c->list.at[i]->words >= 0)
                close(c->list.at[i]->words);
        }
        _exit(be_capture(c, one, ends[1]));
    }
    close(ends[1]);
    one->words = ends[0];
    if (one->pid < 0)
        return err_errno(e, ERR_CONNECT, "cannot begin a capture");
    (void)setpgid(one->pid, one->pid); /* also here: a signal could come before the child did it */
    (void)fcntl(one->words, F_SETFL, O_NONBLOCK);
    return 0;
}

struct capture *captures_begin(struct captures *c, const struct announcement *a,
                               const int *keep_closed, unsigned n, struct err *e)
{
    struct capture *one = calloc(1, sizeof *one);
    if (!one || !vec_reserve(&c->list, c->list.len + 1)) {
        free(one);
        err_no_memory(e, "a capture");
        return NULL;
    }
    *one = (struct capture){.client = *a,
                            .active_time = a->broadcast.active_time,
                            .number = c->begun + 1,
                            .words = -1,
                            .output = choose_output(c, a)};
    if (!one->output)
        err_no_memory(e, "a capture");
    if (!one->output || begin_process(c, one, keep_closed, n, e) != 0) {
        capture_free(one);
        return NULL;
    }
    c->list.at[c->list.len++] = one;
    c->begun++;
    c->running++;
    return one;
}

/* ---- what it says */

static void take_line(struct capture *one)
{
    struct buf text = {0};
    if (!one->line.failed)
        format_terminal(&text, (struct view){buf_str(&one->line), one->line.len});
    free(one->last_words);
    one->last_words = text.failed || one->line.failed ? NULL : strdup(buf_str(&text));
    buf_release(&text);
    one->line.len = 0;
    one->line.failed = false;
}

static void take_words(struct capture *one, const char *p, size_t n,
                       void (*said)(void *ctx, const struct capture *one), void *ctx)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] != '\n')
            buf_put(&one->line, &p[i], 1);
        if (one->line.len == 0 || (p[i] != '\n' && one->line.len < LINE_MAX_BYTES))
            continue;
        take_line(one);
        if (one->last_words)
            said(ctx, one);
    }
}

static void take_end(struct captures *c, struct capture *one)
{
    struct stat st;
    int status = 0;
    close(one->words);
    one->words = -1;
    while (waitpid(one->pid, &status, 0) < 0 && errno == EINTR)
        ;
    one->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    one->ended = monotonic_ns();
    one->state = CAPTURE_FAILED;
    if (one->status == EXIT_MISMATCH || one->status == EXIT_NOT_AVAILABLE)
        one->state = CAPTURE_REFUSED;
    if (one->status == 0 && stat(one->output, &st) == 0) {
        one->state = CAPTURE_SAVED;
        one->bytes = (uint64_t)st.st_size;
    }
    c->running--;
}

void captures_listen(struct captures *c, struct capture *one,
                     void (*said)(void *ctx, const struct capture *one), void *ctx)
{
    char bytes[4096];
    for (;;) {
        ssize_t n = read(one->words, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            break;
        take_words(one, bytes, (size_t)n, said, ctx);
    }
    take_words(one, "\n", 1, said, ctx);
    take_end(c, one);
}

void captures_stop(const struct captures *c)
{
    for (size_t i = 0; i < c->list.len; i++) {
        if (c->list.at[i]->state == CAPTURE_RUNNING)
            (void)kill(c->list.at[i]->pid, SIGTERM);
    }
}

void captures_forget(struct captures *c)
{
    long long now = monotonic_ns();
    size_t kept = 0;
    for (size_t i = 0; i < c->list.len; i++) {
        struct capture *one = c->list.at[i];
        bool failed = one->state == CAPTURE_FAILED || one->state == CAPTURE_REFUSED;
        if (failed && now - one->ended > FORGET_NS)
            capture_free(one);
        else
            c->list.at[kept++] = one;
    }
    c->list.len = kept;
}
