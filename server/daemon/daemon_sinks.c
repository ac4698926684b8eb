/*
 * Uploads finished traces to the tables of a fleet, those that wait together in a process that runs
 * `tidemark push`. If that fails, each of them gets a separate process. A sent trace is marked
 * with an extended attribute, so that a restarted daemon knows what is left to send, including
 * parts of rotating captures and recovered traces. On file systems without extended attributes a
 * hidden file in the folder lists the sent traces (server/daemon/sent_files.h).
 */

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/monotonic.h"
#include "base/tempfile.h"
#include "report/write/json_value.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_events.h"
#include "server/daemon/daemon_http.h"
#include "server/daemon/daemon_sinks.h"
#include "server/guard/guard.h"
#include "server/sinks/push.h"

/* Data limit of a process that sends traces. */
#define SENDER_MEMORY ((uint64_t)1 << 30)

#define MARK "user.tidemark.sent"
#define LOOK_NS 60000000000LL
#define PAUSE_NS 5000000000LL /* after a failure; doubled after each further one */
#define PAUSES_MOST 7u
#define SECONDS_MAX 3600.0

bool daemon_set_sink(struct daemon *d, const char *value, struct err *e)
{
    struct push_place place = {0};
    d->sink.place = value;
    return push_place_parse(&place, value) || refuse_value(e, "--sink", PUSH_PLACES, value);
}

bool daemon_add_label(struct daemon *d, const char *value, struct err *e)
{
    if (!push_is_label(value))
        return refuse_value(e, "--label", "NAME=VALUE", value);
    if (vec_push(&d->sink.labels, value))
        return true;
    err_no_memory(e, "labels");
    return false;
}

static void forget_waiting(struct daemon_sink *s)
{
    for (size_t i = 0; i < s->waiting.len; i++)
        free(s->waiting.at[i]);
    s->waiting.len = 0;
}

void daemon_sinks_release(struct daemon *d)
{
    forget_waiting(&d->sink);
    vec_release(&d->sink.waiting);
    vec_release(&d->sink.labels);
    sent_files_release(&d->sink.passed);
}

/* ---- marks */

/* The mark of this destination: a trace sent elsewhere is still to be sent here. */
static uint64_t mark_of(const struct daemon_sink *s)
{
    return XXH3_64bits(s->place, strlen(s->place));
}

static void mark_text(const struct daemon_sink *s, char text[17])
{
    snprintf(text, 17, "%016" PRIx64, mark_of(s));
}

static bool was_sent(struct daemon_sink *s, int fd, const struct stat *st)
{
    char wanted[17], mark[16];
    mark_text(s, wanted);
    if (fgetxattr(fd, MARK, mark, sizeof mark) == sizeof mark &&
        memcmp(mark, wanted, sizeof mark) == 0)
        return true;
    return sent_files_have(&s->passed, st);
}

static void mark_sent(struct daemon *d, const char *name, const struct stat *now)
{
    char mark[17];
    struct stat st;
    int fd = daemon_open_trace(d, name, &st);
    bool marked = false;
    mark_text(&d->sink, mark);
    if (fd >= 0) {
        marked = daemon_same_file(&st, now) && fsetxattr(fd, MARK, mark, 16, 0) == 0;
        close(fd);
    }
    if (!marked)
        sent_files_add(&d->sink.passed, d->http.dir, now, true);
}

/* ---- traces to send */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* `known`: names already queued, sorted. */
static int take_name(struct daemon *d, const char *name, char *const *known, size_t n)
{
    struct stat st;
    bool waits = n && bsearch(&name, known, n, sizeof *known, by_name);
    int fd = waits ? -1 : daemon_open_trace(d, name, &st);
    bool wanted = fd >= 0 && !was_sent(&d->sink, fd, &st);
    if (fd >= 0)
        close(fd);
    char *copy = wanted ? strdup(name) : NULL;
    if (wanted && (!copy || !vec_push(&d->sink.waiting, copy))) {
        free(copy);
        return -1;
    }
    return 0;
}

/* Scans in the order of names; failed traces stay behind untried ones. */
static void look(struct daemon *d)
{
    struct daemon_sink *s = &d->sink;
    int fd = openat(d->http.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry = NULL;
    VEC(char *) known = {0};
    bool anew = s->failed == 0;
    if (anew)
        forget_waiting(s);
    s->look = false;
    s->looked = monotonic_ns();
    for (size_t i = 0; i < s->waiting.len; i++)
        (void)vec_push(&known, s->waiting.at[i]);
    bool all = known.len == s->waiting.len;
    if (known.len)
        qsort(known.at, known.len, sizeof *known.at, by_name);
    if (!dir && fd >= 0)
        close(fd);
    sent_files_begin_look(&s->passed);
    while (dir && all && (entry = readdir(dir)) &&
           take_name(d, entry->d_name, known.at, known.len) == 0)
        ;
    if (dir && all && !entry)
        sent_files_end_look(&s->passed, d->http.dir);
    if (dir)
        closedir(dir);
    vec_release(&known);
    if (anew && s->waiting.len)
        qsort(s->waiting.at, s->waiting.len, sizeof *s->waiting.at, by_name);
}

void daemon_sinks_look(struct daemon *d)
{
    d->sink.look = true;
}

/* ---- sending */

/* Runs in a child process, which ends then. */
static int push_some(void *arg)
{
    struct daemon *d = arg;
    struct push_place place = {0};
    VEC(const char *) words = {0};
    (void)push_place_parse(&place, d->sink.place);
    const struct guard_folders folders = {
        .writable = {tempfile_dir(NULL), place.kind == PUSH_FILES ? place.place : NULL},
        .reads = true};
    bool kept =
        vec_push(&words, "push") && vec_push(&words, "--sink") && vec_push(&words, d->sink.place);
    for (size_t i = 0; kept && i < d->sink.labels.len; i++)
        kept = vec_push(&words, "--label") && vec_push(&words, d->sink.labels.at[i]);
    kept = kept && vec_push(&words, "--");
    for (size_t i = 0; kept && i < d->sink.count; i++) {
        struct buf path = {0};
        buf_printf(&path, "%s/%s", d->dir, d->sink.waiting.at[i]);
        kept = !path.failed && vec_push(&words, buf_str(&path));
    }
    kept = kept && vec_push(&words, NULL);
    guard_limits(0, SENDER_MEMORY);
    (void)guard_files(&folders);
    if (place.kind == PUSH_FILES) { /* sends to a server need libraries and name resolution */
        (void)guard_calls();
        (void)guard_forks();
        (void)guard_sockets();
    }
    optind = 0;
    return kept ? d->commands->push((int)words.len - 1, (char **)words.at) : 5;
}

/* Removes and returns one. */
static char *take_out(struct daemon_sink *s, size_t i)
{
    char *name = s->waiting.at[i];
    s->waiting.len--;
    memmove(s->waiting.at + i, s->waiting.at + i + 1, (s->waiting.len - i) * sizeof name);
    return name;
}

static void pause_sending(struct daemon_sink *s)
{
    unsigned pauses = s->failed < PAUSES_MOST ? s->failed : PAUSES_MOST;
    s->failed++;
    s->failures++;
    s->not_before = monotonic_ns() + (PAUSE_NS << pauses);
}

static json_t *trace_json(const char *name)
{
    return json_with(json_object(), "trace", json_text(view_of(name)));
}

static void note_sent(struct daemon *d)
{
    struct daemon_sink *s = &d->sink;
    for (size_t i = 0; i < s->count; i++) {
        char *name = take_out(s, 0);
        s->sent++;
        daemon_log(d, LOG_INFO, "sink.sent", NULL, trace_json(name), "%s was sent to the sink",
                   name);
        mark_sent(d, name, &s->now[i]);
        free(name);
    }
    s->failed = 0;
}

/* An unreachable destination is logged once; an unusable trace each time. */
static void note_failure(struct daemon *d, const struct job *job, bool bad)
{
    struct daemon_sink *s = &d->sink;
    char *name = take_out(s, 0);
    if (bad || s->failed == 0)
        daemon_log(d, LOG_WARNING, "sink.failed", NULL, trace_json(name),
                   "%s could not be sent to the sink: %s%s%s", name,
                   job->late ? "it took too long" : "it failed", job->words[0] ? ": " : "",
                   job->words);
    if (!bad) {
        pause_sending(s);
        (void)vec_push(&s->waiting, name); /* capacity remains from its removal */
        return;
    }
    sent_files_add(&s->passed, d->http.dir, &s->now[0], false); /* a restarted daemon retries it */
    s->failures++;
    free(name);
}

static void sent(void *ctx, const struct job *job)
{
    struct daemon *d = ctx;
    struct daemon_sink *s = &d->sink;
    bool refused = job->status == 4 || job->status == 5;
    s->sending = false;
    s->alone -= s->alone > 0;
    if (job->status == 0)
        note_sent(d);
    else if (s->count == 1)
        note_failure(d, job, job->late || !refused);
    else
        s->alone = s->count; /* those that arrived are passed over */
}

/* Chooses those to be sent now. Files that are gone are forgotten. */
static size_t choose(struct daemon *d)
{
    struct daemon_sink *s = &d->sink;
    const size_t most = s->alone ? 1 : SINK_TOGETHER;
    for (s->count = 0; s->count < most && s->count < s->waiting.len;) {
        int fd = daemon_open_trace(d, s->waiting.at[s->count], &s->now[s->count]);
        if (fd < 0) {
            free(take_out(s, s->count));
            continue;
        }
        close(fd);
        s->count++;
    }
    return s->count;
}

static bool may_send(const struct daemon_sink *s)
{
    return s->waiting.len && monotonic_ns() >= s->not_before;
}

void daemon_sinks_turn(struct daemon *d)
{
    struct daemon_sink *s = &d->sink;
    struct err e = {0};
    if (!s->place || s->sending)
        return;
    if (s->look || monotonic_ns() - s->looked > LOOK_NS)
        look(d);
    if (!may_send(s) || choose(d) == 0)
        return;
    const struct job_plan plan = {.body = push_some,
                                  .arg = d,
                                  .in = -1,
                                  .out = -1,
                                  .seconds = SECONDS_MAX,
                                  .with_parent = true,
                                  .done = sent,
                                  .ctx = d};
    s->sending = jobs_begin(&d->jobs, &plan, &e) == 0;
    if (s->sending)
        return;
    if (s->failed == 0)
        daemon_log(d, LOG_WARNING, "sink.failed", NULL, NULL, "%s", e.text);
    pause_sending(s);
}

bool daemon_sinks_wait(const struct daemon *d)
{
    const struct daemon_sink *s = &d->sink;
    return s->place && (s->sending || s->look || may_send(s));
}

int daemon_sinks_start(struct daemon *d, struct err *e)
{
    struct push_place place = {0};
    if (!d->sink.place)
        return d->sink.labels.len ? err_set(e, ERR_USAGE, "--label is for --sink") : 0;
    if (push_place_parse(&place, d->sink.place) && place.kind == PUSH_FILES)
        (void)mkdir(place.place, 0777); /* reported with the first send */
    if (d->http.dir < 0)
        d->http.dir = open(d->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (d->http.dir < 0)
        return err_errno(e, ERR_OUTPUT, "%s", d->dir);
    sent_files_open(&d->sink.passed, d->http.dir, mark_of(&d->sink));
    d->sink.look = true;
    return 0;
}
