/*
 * What captures left that were cut off: when the daemon starts, by itself; when a session of its
 * own was killed, or journals are found that nobody writes, by a process beside it. Those that are
 * in use are left alone each time.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/daemon.h"
#include "cli/options.h"
#include "cli/recover.h"

/* What the session's process group holds of its journal is let go of before that. */
#define AFTER_NS 1000000000LL

#define SECONDS_MAX 86400.0

#define LOOK_NS 2000000000LL

/* When it failed it is tried again after a pause, each time twice as long. */
#define PAUSE_NS 60000000000LL
#define PAUSES_MAX 7u /* about an hour */

/* Or earlier, when there is more room: as a part of the journals' size, and at least. */
#define ROOM_PART 8u
#define ROOM_LEAST ((uint64_t)1 << 20)
#define TURN_PART 4 /* one part of five of the time */

/* The exit status. What is wrong with a journal was said; else `e` is filled. */
static int recover_all(const struct daemon *d, struct err *e)
{
    struct recover_options options = {.unasked = true,
                                      .container = d->container,
                                      .trace_version = d->trace_version,
                                      .spool_dir = d->spool};
    unsigned found;
    int status = recover_folder(d->dir, &options, &found, e);
    options.outputs = d->dir; /* where journals are that lie elsewhere is for others, too */
    if (!e->code && d->spool) {
        int spooled = recover_folder(d->spool, &options, &found, e);
        status = spooled > status ? spooled : status;
    }
    return status;
}

/* ---- its words: a line is an event */

/*
 * Recovery tells what it does in text, and what is wrong on the other stream. Where that is to be
 * events both go to one file in memory first, so that they keep their order.
 */
struct words {
    int out, err; /* where they went before */
};

#define ERROR_HEAD "tidemark: "

static void log_line(struct daemon *d, char *line)
{
    const size_t head = sizeof ERROR_HEAD - 1;
    line[strcspn(line, "\n")] = 0;
    if (strncmp(line, ERROR_HEAD, head) == 0) {
        daemon_log(d, LOG_WARNING, "recovery", NULL, NULL, "%s", line + head);
    } else if (line[0]) {
        daemon_log(d, LOG_INFO, "recovery", NULL, NULL, "%s", line);
        if (!d->log_json && !d->terminal)
            printf("%s\n", line);
    }
}

/* Closes the file. */
static void log_lines(struct daemon *d, int file)
{
    char *line = NULL;
    size_t room = 0;
    FILE *words = file >= 0 && lseek(file, 0, SEEK_SET) == 0 ? fdopen(file, "r") : NULL;
    while (words && getline(&line, &room, words) > 0)
        log_line(d, line);
    fflush(stdout);
    free(line);
    if (words)
        fclose(words);
    else if (file >= 0)
        close(file);
}

/* Both streams go to where standard output goes, line by line. */
static int join_streams(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    return dup2(STDOUT_FILENO, STDERR_FILENO) < 0 ? -1 : 0;
}

static int divert_words(struct words *before, struct err *e)
{
    int file = memfd_create("words", MFD_CLOEXEC);
    fflush(stdout);
    before->out = file < 0 ? -1 : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    before->err = before->out < 0 ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    bool done = before->err >= 0 && dup2(file, STDOUT_FILENO) >= 0 && join_streams() == 0;
    if (!done) {
        err_errno(e, ERR_OUTPUT, "recovery");
        if (before->out >= 0)
            close(before->out);
        if (before->err >= 0)
            close(before->err);
    }
    if (file >= 0)
        close(file);
    return done ? 0 : -1;
}

static void restore_words(struct daemon *d, const struct words *before)
{
    fflush(stdout);
    int file = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    (void)dup2(before->out, STDOUT_FILENO);
    (void)dup2(before->err, STDERR_FILENO);
    close(before->out);
    close(before->err);
    log_lines(d, file);
}

/* ---- what is left, and when it is tried again */

static unsigned count_left(const struct daemon *d, uint64_t *bytes)
{
    uint64_t spooled = 0;
    unsigned left = recover_count_left(d->dir, NULL, bytes);
    if (d->spool)
        left += recover_count_left(d->spool, d->dir, &spooled);
    *bytes += spooled;
    return left;
}

/* It was tried. What is still there waits for more room, or for a while. */
static void note_left(struct daemon *d)
{
    struct daemon_leftovers *l = &d->left;
    uint64_t bytes = 0, room = daemon_free_bytes(d);
    long long now = monotonic_ns(), took = now - l->began;
    if (count_left(d, &bytes) == 0) {
        l->failures = 0;
        return;
    }
    l->not_before = now + (PAUSE_NS << (l->failures < PAUSES_MAX ? l->failures : PAUSES_MAX - 1));
    l->or_with = now + TURN_PART * took;
    l->room = room < UINT64_MAX / 2 ? room + bytes / ROOM_PART + ROOM_LEAST : UINT64_MAX;
    l->failures++;
}

static bool may_try(const struct daemon *d, long long now)
{
    const struct daemon_leftovers *l = &d->left;
    uint64_t room = daemon_free_bytes(d);
    if (d->min_free && room < d->min_free)
        return false;
    return l->failures == 0 || now >= l->not_before || (now >= l->or_with && room >= l->room);
}

static void look_for_leftovers(struct daemon *d, long long now)
{
    uint64_t bytes;
    if (d->no_recover || d->recover_at || d->recovering || now - d->left.looked < LOOK_NS)
        return;
    d->left.looked = now;
    if (count_left(d, &bytes) == 0)
        d->left.failures = 0;
    else if (may_try(d, now))
        d->recover_at = now;
}

/* ---- at the start */

void daemon_recover(struct daemon *d)
{
    struct err e = {0};
    struct words before = {-1, -1};
    if (d->no_recover)
        return;
    d->left.began = monotonic_ns();
    if (!d->log_json || divert_words(&before, &e) == 0) {
        (void)recover_all(d, &e);
        if (d->log_json)
            restore_words(d, &before);
    }
    if (e.code)
        daemon_log_error(d, &e);
    note_left(d);
}

/* ---- while it serves */

void daemon_recover_soon(struct daemon *d)
{
    if (!d->no_recover)
        d->recover_at = monotonic_ns() + AFTER_NS;
}

static int recover_beside(void *arg)
{
    struct err e = {0};
    int status = join_streams() == 0 ? recover_all(arg, &e) : 1;
    if (e.code)
        print_error(&e);
    return status;
}

struct recovery_job {
    struct daemon *daemon;
    int words; /* both its streams */
};

static void forget(void *ctx)
{
    struct recovery_job *r = ctx;
    r->daemon->recovering = false;
    if (r->words >= 0)
        close(r->words);
    free(r);
}

static void recovered(void *ctx, const struct job *job)
{
    struct recovery_job *r = ctx;
    struct daemon *d = r->daemon;
    log_lines(d, r->words);
    r->words = -1;
    if (job->status >= 128)
        daemon_log(d, LOG_ERROR, "recovery", NULL, NULL,
                   "what a session left could not be made a trace: %s",
                   job->late ? "it took too long" : "the process that does so was killed");
    daemon_sinks_look(d);
    note_left(d);
    forget(r);
}

static int begin(struct daemon *d, struct err *e)
{
    struct recovery_job *r = calloc(1, sizeof *r);
    if (!r)
        return err_no_memory(e, "recovery");
    *r = (struct recovery_job){d, memfd_create("words", MFD_CLOEXEC)};
    const struct job_plan plan = {.body = recover_beside,
                                  .arg = d,
                                  .in = -1,
                                  .out = r->words,
                                  .seconds = SECONDS_MAX,
                                  .with_parent = true,
                                  .done = recovered,
                                  .dropped = forget,
                                  .ctx = r};
    if (jobs_begin(&d->jobs, &plan, e) == 0)
        return 0;
    forget(r);
    return -1;
}

void daemon_recovery_turn(struct daemon *d)
{
    struct err e = {0};
    long long now = monotonic_ns();
    look_for_leftovers(d, now);
    if (!d->recover_at || d->recovering || now < d->recover_at)
        return;
    d->recover_at = 0;
    d->left.began = now;
    d->recovering = true;
    if (begin(d, &e) != 0)
        daemon_log_error(d, &e);
}
