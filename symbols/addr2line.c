#include "symbols/addr2line.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/vec.h"
#include "symbols/addr2line_answer.h"

/* Addresses passed in one call. Keeps the command line well below the system's limit. */
#define BATCH 1024u

#define ADDRESS_TEXT 20u /* "0x", 16 digits, NUL */

extern char **environ;

/* ---- the command line */

struct command {
    VEC(char *) argv;
    struct buf arguments; /* the split words, each with its NUL */
    char (*addresses)[ADDRESS_TEXT];
};

static void command_release(struct command *c)
{
    vec_release(&c->argv);
    buf_release(&c->arguments);
    free(c->addresses);
    c->addresses = NULL;
}

/* Splits `text` into words, removes their quotes and ends each word with a NUL. */
static void split(const char *text, struct buf *words)
{
    char quote = 0;
    bool in_word = false;
    for (const char *p = text; *p; p++) {
        bool space = *p == ' ' || *p == '\t' || *p == '\n';
        if (quote ? *p == quote : *p == '"' || *p == '\'') {
            quote = quote ? 0 : *p;
            in_word = true;
        } else if (!quote && space) {
            if (in_word)
                buf_u8(words, 0);
            in_word = false;
        } else {
            buf_u8(words, (uint8_t)*p);
            in_word = true;
        }
    }
    if (in_word)
        buf_u8(words, 0);
}

static int command_build(struct command *c, const struct addr2line_options *o, const char *image,
                         const uint64_t *addresses, size_t n, struct err *e)
{
    if (o->arguments)
        split(o->arguments, &c->arguments);
    c->addresses = calloc(n, sizeof *c->addresses);
    bool ok = c->addresses && !c->arguments.failed &&
              vec_push(&c->argv, (char *)(o->tool ? o->tool : "addr2line")) &&
              vec_push(&c->argv, (char *)"-C") && vec_push(&c->argv, (char *)"-f");
    for (size_t at = 0; ok && at < c->arguments.len;) {
        char *word = (char *)c->arguments.data + at;
        ok = vec_push(&c->argv, word);
        at += strlen(word) + 1;
    }
    ok = ok && vec_push(&c->argv, (char *)"-e") && vec_push(&c->argv, (char *)image) &&
         vec_push(&c->argv, (char *)"-a");
    for (size_t i = 0; ok && i < n; i++) {
        snprintf(c->addresses[i], ADDRESS_TEXT, "0x%llx", (unsigned long long)addresses[i]);
        ok = vec_push(&c->argv, c->addresses[i]);
    }
    if (ok && vec_push(&c->argv, NULL))
        return 0;
    return err_no_memory(e, "a call of addr2line");
}

/* ---- the process */

static int start(const struct command *c, int output, pid_t *pid, struct err *e)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed == 0 && (failed = posix_spawnattr_init(&attributes)) != 0)
        posix_spawn_file_actions_destroy(&actions);
    if (failed != 0)
        return err_no_memory(e, "a call of addr2line");
    failed |= posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    failed |= posix_spawn_file_actions_adddup2(&actions, output, 1);
    failed |= posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    /* The tool starts with no blocked signals, even if the caller blocks some. */
    failed |= posix_spawnattr_setsigmask(&attributes, &none);
    failed |= posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    if (failed == 0)
        failed = posix_spawnp(pid, c->argv.at[0], &actions, &attributes, c->argv.at, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    errno = failed;
    return failed ? err_errno(e, ERR_CHECK, "cannot start %s", c->argv.at[0]) : 0;
}

/* ---- its answer */

static int read_answer(struct addr2line_answer *a, int fd, struct err *e)
{
    char bytes[16384];
    for (;;) {
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        if (addr2line_answer_feed(a, bytes, (size_t)got, e) != 0)
            return -1;
    }
}

static int ask_batch(const struct command *c, struct addr2line_answer *a, struct err *e)
{
    int ends[2];
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_errno(e, ERR_CHECK, "a pipe to addr2line");
    int status = start(c, ends[1], &pid, e);
    close(ends[1]);
    if (status == 0) {
        status = read_answer(a, ends[0], e);
        /* Closing the pipe ends a tool that still writes. */
        close(ends[0]);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    } else {
        close(ends[0]);
    }
    addr2line_answer_release(a);
    return status;
}

bool addr2line_is_there(void)
{
    struct buf path = {0};
    const char *folders = getenv("PATH");
    bool found = false;
    /* As in the shell, an empty folder means the current one. */
    for (const char *p = folders ? folders : "/bin:/usr/bin"; !found;) {
        size_t n = strcspn(p, ":");
        buf_clear(&path);
        buf_put(&path, n ? p : ".", n ? n : 1);
        buf_puts(&path, "/addr2line");
        found = !path.failed && access(buf_str(&path), X_OK) == 0;
        if (p[n] == 0)
            break;
        p += n + 1;
    }
    buf_release(&path);
    return found;
}

int addr2line_ask(const struct addr2line_options *options, const char *image,
                  const uint64_t *addresses, size_t n, addr2line_put *put, void *ctx,
                  size_t *answered, struct err *e)
{
    int status = 0;
    *answered = 0;
    for (size_t first = 0; first < n && status == 0; first += BATCH) {
        struct command command = {0};
        size_t part = n - first < BATCH ? n - first : BATCH;
        struct addr2line_answer a = {
            .addresses = addresses + first, .n = part, .first = first, .put = put, .ctx = ctx};
        status = command_build(&command, options, image, addresses + first, part, e);
        if (status == 0)
            status = ask_batch(&command, &a, e);
        command_release(&command);
        *answered += a.next;
    }
    return status;
}
