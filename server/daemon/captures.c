#include "server/daemon/captures.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file_io.h"
#include "base/format.h"
#include "base/json_reader.h"
#include "base/monotonic.h"
#include "base/saturate.h"
#include "protocol/wire_version.h"
#include "server/capture/part_name.h"
#include "server/capture/trace_name.h"
#include "server/guard/session_guard.h"
#include "server/net/stop.h"

#define LINE_MAX_BYTES 4096u
#define FORGET_NS 60000000000LL
#define FORGET_TARGET_NS 600000000000LL /* retried each minute while it exists */
#define SAVED_MAX 1000u                 /* remembered */
#define ASK_NS 1000000000LL
#define ANSWER_NS 10000000000LL /* timeout of an answer */
#define ARGUMENTS_MAX 64
#define READS_PER_TURN 32u /* more than a pipe holds */

#define HEARS_AT_END 1024u /* messages read at a session's end */
#define CANNOT_BEGIN 4     /* exit status */
#define LACKS 4            /* and that of a session whose trace lacks bytes that arrived */

static void capture_free(struct capture *one)
{
    if (one->words >= 0)
        close(one->words);
    channel_release(&one->channel);
    json_decref(one->hello);
    json_decref(one->counters);
    free(one->alerts);
    output_folder_leave(one->folder);
    free(one->output);
    saved_traces_forget(&one->saved);
    free(one->last_words);
    buf_release(&one->line);
    buf_release(&one->held);
    free(one->failure.words);
    free(one);
}

void captures_release(struct captures *c)
{
    for (size_t i = 0; i < c->list.len; i++)
        capture_free(c->list.at[i]);
    vec_release(&c->list);
    output_folder_leave(c->folder);
    c->folder = NULL;
    sampler_stop(&c->sampler);
}

struct capture *captures_find(const struct captures *c, const struct announcement *a)
{
    struct capture *latest = NULL; /* the newest with that address, running or ended */
    for (size_t i = c->list.len; i-- > 0;) {
        struct capture *one = c->list.at[i];
        uint64_t known = one->client.broadcast.pid, pid = a->broadcast.pid;
        if (one->client.broadcast.port != a->broadcast.port ||
            strcmp(one->client.address, a->address) != 0)
            continue;
        if (!latest)
            latest = one;
        /* A later capture may have had no process id at first, and then that of a tunnel's end. */
        if (known == pid || known == 0 || pid == 0)
            return one->superseded ? latest : one;
    }
    return NULL;
}

const char *captures_left_alone(const struct capture *one)
{
    bool other = one->superseded || one->replaced || one->gone;
    return one->state == CAPTURE_RUNNING || other ? NULL : one->left_alone;
}

/* ---- the process of a capture */

/* The child closes the daemon's descriptors: it would keep the daemon's connections open. */
static void close_others(int channel, int sampler)
{
    unsigned next = 3; /* sampler is -1 or the highest of them */
    const unsigned a = (unsigned)channel, b = (unsigned)sampler,
                   kept[] = {a < b ? a : b, a < b ? b : a};
    for (size_t i = 0; i < 2 && kept[i] >= next; i++) {
        if (kept[i] > next)
            (void)file_close_range(next, kept[i] - 1);
        next = kept[i] + 1;
    }
    if (next > 3)
        (void)file_close_range(next, ~0u);
}

/*
 * The session works in its output folder and uses no absolute paths, so that the folder may be
 * renamed meanwhile, or another one take its name.
 */
static int enter_folder(const struct captures *c, const struct capture *one)
{
    if ((one->folder ? fchdir(one->folder->fd) : chdir(c->dir)) == 0)
        return 0;
    fprintf(stderr, "tidemark: cannot write into %s: %s\n", c->dir, strerror(errno));
    return -1;
}

/* In the child: runs `tidemark capture` with its output going into the pipe. */
static int be_capture(const struct captures *c, const struct capture *one, int words, int channel,
                      int sampler)
{
    char port[8], protocol[16], limit[24];
    const char *arguments[ARGUMENTS_MAX] = {"tracy-capture"};
    char *name = one->client.broadcast.name[0]
                     ? trace_name_with_program(c->name, one->client.broadcast.name)
                     : strdup(c->name);
    if (!name)
        return CANNOT_BEGIN;
    const char *const fixed[] = {
        "-a",           one->client.address, "-p", port, "-o", ".", "--name", name,
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
    if (c->memory_each) {
        snprintf(limit, sizeof limit, "%" PRIu64, c->memory_each);
        arguments[n++] = "--memory-limit";
        arguments[n++] = limit;
    }
    if (c->figures)
        arguments[n++] = "--figures";
    for (const char *const *o = c->options; *o && n < ARGUMENTS_MAX - 1; o++)
        arguments[n++] = *o;
    arguments[n] = NULL;
    /*
     * Its own process group: a terminal's SIGINT goes to the daemon only, which forwards it once.
     */
    if (setpgid(0, 0) != 0 || dup2(words, STDOUT_FILENO) < 0 || dup2(words, STDERR_FILENO) < 0)
        return CANNOT_BEGIN;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (enter_folder(c, one) != 0)
        return CANNOT_BEGIN;
    close_others(channel, sampler);
    optind = 0;
    session_guard_begin();
    int status = c->commands->capture(n, (char **)arguments, channel, sampler);
    return fflush(stdout) == 0 || status ? status : CANNOT_BEGIN;
}

static int begin_process(struct captures *c, struct capture *one, struct err *e)
{
    int ends[2];
    struct channel session;
    if (channel_pair(&one->channel, &session, e) != 0)
        return -1;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        err_errno(e, ERR_CONNECT, "cannot begin a capture");
        channel_release(&session);
        return -1;
    }
    int sampler = sampler_connect(&c->sampler);
    fflush(NULL);
    one->pid = fork();
    if (one->pid == 0)
        _exit(be_capture(c, one, ends[1], session.fd, sampler));
    if (sampler >= 0)
        close(sampler);
    channel_release(&session);
    close(ends[1]);
    one->words = ends[0];
    if (one->pid < 0)
        return err_errno(e, ERR_CONNECT, "cannot begin a capture");
    (void)setpgid(one->pid, one->pid); /* a signal could come before the child did it */
    (void)fcntl(one->words, F_SETFL, O_NONBLOCK);
    return 0;
}

/* Opens the folder that has the name now. If the old one was moved, its captures keep it. */
static void take_folder(struct captures *c, struct capture *one)
{
    struct output_folder *now = output_folder_take(c->folder, c->dir);
    one->folder = now;
    if (!now || now == c->folder)
        return;
    output_folder_leave(c->folder);
    c->folder = now;
    now->users++;
}

struct capture *captures_begin(struct captures *c, const struct announcement *a, struct err *e)
{
    struct capture *one = calloc(1, sizeof *one), *before = captures_find(c, a);
    if (!one || !vec_reserve(&c->list, c->list.len + 1)) {
        free(one);
        err_no_memory(e, "a capture");
        return NULL;
    }
    *one = (struct capture){.client = *a,
                            .active_time = a->broadcast.active_time,
                            .number = c->begun + 1,
                            .words = -1,
                            .channel = {.fd = -1},
                            .told_limit = c->memory_each,
                            .target = CAPTURE_NO_TARGET,
                            .end = {.end = MONITOR_NEVER_BEGAN},
                            .began = time(NULL)};
    take_folder(c, one);
    if (begin_process(c, one, e) != 0) {
        capture_free(one);
        return NULL;
    }
    if (before) {
        before->superseded = true;
        one->failure = before->failure;
        before->failure = (struct capture_failure){0};
    }
    c->list.at[c->list.len++] = one;
    c->begun++;
    c->running++;
    return one;
}

/* ---- its output */

static void take_line(struct capture *one)
{
    struct buf text = {0};
    if (!one->line.failed)
        format_terminal(&text, (struct view){buf_str(&one->line), one->line.len});
    free(one->last_words);
    one->last_words = text.failed || one->line.failed ? NULL : strdup(buf_str(&text));
    buf_release(&text);
    if (one->last_words &&
        (strstr(one->last_words, strerror(ENOSPC)) || strstr(one->last_words, strerror(EDQUOT))))
        one->no_room = true;
    one->line.len = 0;
    one->line.failed = false;
}

static void take_words(struct capture *one, const char *p, size_t n,
                       void (*said)(void *ctx, struct capture *one), void *ctx)
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

/* ---- its messages */

/* The path of a trace in our folder; NULL if the name is not a trace's or memory is short. */
static char *output_of(const struct captures *c, const char *name)
{
    struct buf path = {0};
    if (!name[0] || name[0] == '.' || strchr(name, '/'))
        return NULL;
    buf_printf(&path, "%s/%s", c->dir, name);
    char *text = path.failed ? NULL : strdup(buf_str(&path));
    buf_release(&path);
    return text;
}

/*
 * Stores the client's description. The trace's name is resolved within the session's folder, so a
 * compromised session cannot make the daemon use another folder.
 */
static void take_hello(const struct captures *c, struct capture *one, json_t *hello)
{
    struct broadcast *b = &one->client.broadcast;
    const char *program = json_string_value(json_object_get(hello, "program"));
    const char *output = json_string_value(json_object_get(hello, "output"));
    json_int_t pid = json_integer_value(json_object_get(hello, "pid"));
    if (b->pid == 0 && pid > 0)
        b->pid = (uint64_t)pid;
    if (!b->name[0] && program)
        snprintf(b->name, sizeof b->name, "%s", program);
    if (!one->output && output)
        one->output = output_of(c, output);
    json_decref(one->hello);
    one->hello = json_incref(hello);
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void count_trace(struct captures *c, uint64_t bytes)
{
    c->files++;
    c->bytes = saturating_add(c->bytes, bytes);
}

/*
 * Counts a saved trace. The last trace of a capture is counted only when the capture has ended, so
 * that readers of the count see the ended state, too.
 */
static void add_trace(struct captures *c, struct capture *one, const char *path, uint64_t bytes,
                      bool last)
{
    if (one->last_saved || !saved_traces_add(&one->saved, path, bytes))
        return;
    one->last_saved = last;
    one->first_saved |= strcmp(name_of(path), name_of(one->output)) == 0;
    if (last)
        return;
    count_trace(c, bytes);
    if (c->part_saved)
        c->part_saved(c->counted_ctx, one);
}

/*
 * A trace was saved. It may have been moved already, so its size and existence are taken from the
 * message; traces that do not belong to this capture are ignored.
 */
static void take_saved(struct captures *c, struct capture *one, const json_t *said)
{
    const char *name = json_string_value(json_object_get(said, "trace"));
    json_int_t bytes = json_integer_value(json_object_get(said, "bytes"));
    struct stat st;
    if (!name || !one->output || !part_name_is(name_of(one->output), name))
        return;
    if (one->folder && fstatat(one->folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (!S_ISREG(st.st_mode))
            return;
        bytes = (json_int_t)st.st_size;
    }
    char *named = output_of(c, name);
    char *path = named && one->folder ? output_folder_path(one->folder, name, named) : NULL;
    if (named)
        add_trace(c, one, path ? path : named, bytes > 0 ? (uint64_t)bytes : 0,
                  json_is_true(json_object_get(said, "last")));
    free(path);
    free(named);
}

static void take_message(struct captures *c, struct capture *one, const struct channel_message *m)
{
    if (m->type == MONITOR_HELLO || m->type == MONITOR_SAVED ||
        (m->type == MONITOR_ANSWER && m->reference == 0)) {
        /* Names of pools come from the client and may contain any byte. */
        json_t *said;
        (void)json_read((struct view){m->text, m->len}, true, &said);
        if (json_is_object(said) && m->type == MONITOR_HELLO) {
            take_hello(c, one, said);
            if (c->greeted)
                c->greeted(c->counted_ctx, one);
        } else if (json_is_object(said) && m->type == MONITOR_SAVED) {
            take_saved(c, one, said);
        } else if (json_is_object(said)) {
            json_decref(one->counters);
            one->counters = json_incref(said);
            one->answered = true;
            if (c->counted)
                c->counted(c->counted_ctx, one);
        }
        json_decref(said);
    } else if (m->type == MONITOR_END) {
        (void)monitor_end_parse(m, &one->end);
    } else if (c->answered) {
        c->answered(c->answered_ctx, one, m);
    }
}

void captures_hear(struct captures *c, struct capture *one)
{
    struct channel_message m;
    (void)channel_pump(&one->channel);
    while (channel_next(&one->channel, &m))
        take_message(c, one, &m);
}

void captures_ask_counters(const struct captures *c)
{
    long long now = monotonic_ns();
    for (size_t i = 0; i < c->list.len; i++) {
        struct capture *one = c->list.at[i];
        long long pause = one->answered || !one->asked ? ASK_NS : ANSWER_NS;
        if (one->state != CAPTURE_RUNNING || !one->hello || now - one->asked < pause)
            continue;
        one->asked = now;
        one->answered = false;
        (void)channel_send(&one->channel, MONITOR_ASK, 0, "counters", strlen("counters"));
    }
}

/* ---- its end */

void captures_end_strays(const struct captures *c)
{
    for (size_t i = 0; i < c->list.len; i++) {
        const struct capture *one = c->list.at[i];
        siginfo_t ended = {0};
        if (one->state == CAPTURE_RUNNING &&
            waitid(P_PID, (id_t)one->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            ended.si_pid == one->pid)
            (void)kill(-one->pid, SIGKILL);
    }
}

/* Finds the trace's path and checks that it exists. */
static bool find_trace(struct capture *one, struct stat *st)
{
    const char *name = one->output && one->folder ? name_of(one->output) : NULL;
    if (!name || fstatat(one->folder->fd, name, st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(st->st_mode))
        return false;
    char *path = output_folder_path(one->folder, name, one->output);
    if (path) {
        free(one->output);
        one->output = path;
    }
    return true;
}

/*
 * Determines what was saved in total: from the session's messages, or from the trace itself if the
 * session had no memory to send them.
 */
static void settle_traces(struct captures *c, struct capture *one)
{
    struct stat st;
    bool there = find_trace(one, &st);
    if (one->end.saved && one->saved.count == 0 && there)
        add_trace(c, one, one->output, (uint64_t)st.st_size, true);
    const struct saved_trace *newest = saved_traces_newest(&one->saved);
    if (!newest)
        return;
    if (one->last_saved)
        count_trace(c, newest->bytes);
    if (!one->end.saved)
        return;
    one->state = CAPTURE_SAVED;
    one->bytes = there && one->first_saved ? (uint64_t)st.st_size : newest->bytes;
    char *path = there && one->first_saved ? NULL : strdup(newest->path);
    if (path) {
        free(one->output);
        one->output = path;
    }
}

/* Reads its last messages, which it sent before it closed its output. */
static void hear_last(struct captures *c, struct capture *one)
{
    for (unsigned i = 0; i < HEARS_AT_END && one->channel.fd >= 0; i++)
        captures_hear(c, one);
    channel_release(&one->channel);
    one->channel.fd = -1;
}

/*
 * The reason why an ended client is not captured again: a limit, or a user's request. NULL for a
 * client that was not connected yet, and for sessions that end with the daemon, since the next
 * daemon captures their clients.
 */
static const char *enough(const struct captures *c, const struct capture *one)
{
    if (one->left_alone) /* the daemon ended it and knows the reason */
        return one->hello || strcmp(one->left_alone, CAPTURE_STOPPED) == 0 ? one->left_alone : NULL;
    switch (one->end.end) {
    case SESSION_STOPPED:
        return c->stopping ? NULL : CAPTURE_STOPPED;
    case SESSION_TIME_LIMIT:
        return "max-time";
    case SESSION_SIZE_LIMIT:
        return "max-size";
    case SESSION_MEMORY_LIMIT:
        return "memory";
    default:
        return NULL;
    }
}

static void take_end(struct captures *c, struct capture *one)
{
    int status = 0;
    close(one->words);
    one->words = -1;
    hear_last(c, one);
    /*
     * A process that closed its output has ended or is broken, and is not waited for. SIGKILL does
     * not change the status of one that is exiting.
     */
    (void)kill(one->pid, SIGKILL);
    while (waitpid(one->pid, &status, 0) < 0 && errno == EINTR)
        ;
    one->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    one->ended = one->heard = monotonic_ns();
    one->left_alone = enough(c, one);
    one->state = CAPTURE_FAILED;
    if (one->end.refused)
        one->state = CAPTURE_REFUSED;
    one->homeless = one->hello && one->folder && output_folder_is_removed(one->folder);
    settle_traces(c, one);
    output_folder_leave(one->folder); /* there may be many of these, each with a descriptor */
    one->folder = NULL;
    c->running--;
}

bool captures_lost(const struct capture *one)
{
    return one->status >= 128 || one->status == LACKS ||
           (one->hello && one->state != CAPTURE_SAVED);
}

void captures_listen(struct captures *c, struct capture *one,
                     void (*said)(void *ctx, struct capture *one), void *ctx)
{
    char bytes[4096];
    /* A compromised session may write as fast as the daemon reads: limit its share. */
    for (unsigned i = 0; i < READS_PER_TURN; i++) {
        ssize_t n = read(one->words, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            take_words(one, "\n", 1, said, ctx);
            take_end(c, one);
            return;
        }
        take_words(one, bytes, (size_t)n, said, ctx);
    }
}

void captures_stop(struct captures *c)
{
    c->stopping = true;
    for (size_t i = 0; i < c->list.len; i++) {
        if (c->list.at[i]->state == CAPTURE_RUNNING)
            (void)kill(c->list.at[i]->pid, SIGTERM);
    }
}

/* Whether its client is still there and must not be captured again because of this capture. */
static bool keeps_away(const struct capture *one, long long now)
{
    bool there = now - one->heard < FORGET_NS;
    if (captures_left_alone(one))
        return there || one->target != CAPTURE_NO_TARGET;
    return one->state == CAPTURE_REFUSED && !one->superseded && there;
}

static bool is_failure(const struct capture *one)
{
    return one->state == CAPTURE_FAILED || one->state == CAPTURE_REFUSED;
}

/* The output of a failed try is kept until the next try. */
static bool is_over(const struct capture *one, long long now)
{
    long long pause = one->target != CAPTURE_NO_TARGET ? FORGET_TARGET_NS : FORGET_NS;
    return is_failure(one) && (one->superseded || now - one->ended > pause);
}

void captures_forget(struct captures *c)
{
    long long now = monotonic_ns();
    size_t kept = 0, many = c->list.len > SAVED_MAX ? c->list.len - SAVED_MAX : 0;
    for (size_t i = 0; i < c->list.len; i++) {
        struct capture *one = c->list.at[i];
        bool old = one->state == CAPTURE_SAVED && many > 0;
        if ((is_over(one, now) || old) && !keeps_away(one, now)) {
            many -= old;
            capture_free(one);
        } else {
            c->list.at[kept++] = one;
        }
    }
    c->list.len = kept;
}

void captures_stop_one(const struct capture *one)
{
    if (one->state != CAPTURE_RUNNING)
        return;
    (void)kill(one->pid, SIGTERM);
    (void)kill(one->pid, SIGCONT); /* it may be paused because disk space is low */
}

/* Two different signals, since two equal pending ones merge into one. */
void captures_stop_quickly(const struct capture *one)
{
    captures_stop_one(one);
    if (one->state == CAPTURE_RUNNING)
        (void)kill(one->pid, SIGINT);
}

int captures_save_now(struct capture *one)
{
    return one->state == CAPTURE_RUNNING && one->hello
               ? channel_send(&one->channel, MONITOR_TURN, 0, "", 0)
               : -1;
}
