/*
 * Recovers journals of captures that were cut off: at the start in the daemon itself; later, when a
 * session was killed or leftover journals are found, in a child process. Journals in use are
 * skipped.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/format.h"
#include "base/monotonic.h"
#include "base/outfile.h"
#include "base/print_error.h"
#include "server/capture/recover.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_events.h"
#include "server/daemon/daemon_limits.h"
#include "server/daemon/daemon_recovery.h"
#include "server/daemon/daemon_sinks.h"
#include "trace/file/container.h"

/* By then the session's process group has released the locks of its journal. */
#define AFTER_NS 1000000000LL

#define SECONDS_MAX 86400.0

#define LOOK_NS 2000000000LL

/*
 * A journal that could not be recovered is retried after a pause that doubles each time, and
 * reported as often. Other journals do not wait for it.
 */
#define PAUSE_NS 60000000000LL
#define PAUSES_MAX 7u /* about an hour */

/*
 * Or earlier, when free space has grown: by this part of the journal's size, and at least so much.
 */
#define ROOM_PART 8u
#define ROOM_LEAST ((uint64_t)1 << 20)
#define TURN_PART 4 /* retries take a fifth of the time */

/*
 * Returns the exit status. Errors of a journal are printed; else `e` is filled. `wanted` selects
 * journals by id; NULL: all.
 */
static int recover_all(struct daemon *d, bool (*wanted)(void *ctx, uint64_t id), struct err *e)
{
    struct recover_options options = {.unasked = true,
                                      .wanted = wanted,
                                      .wanted_ctx = d,
                                      .container = d->container,
                                      .trace_version = d->trace_version,
                                      .spool_dir = d->spool,
                                      .memory = d->memory};
    unsigned found;
    int status = recover_folder(d->dir, &options, &found, e);
    options.outputs = d->dir; /* the spool folder may be shared with others */
    if (!e->code && d->spool) {
        int spooled = recover_folder(d->spool, &options, &found, e);
        status = spooled > status ? spooled : status;
    }
    return status;
}

/* ---- output of a recovery: each line is an event */

/*
 * A recovery prints its progress and its errors to different streams. For a JSON log both first go
 * to one file in memory, which preserves their order.
 */
struct words {
    int out, err; /* the original descriptors */
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

/* Redirects standard error to standard output, line-buffered. */
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

/* ---- leftovers and their retries */

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct leftover *)a)->is.id, y = ((const struct leftover *)b)->is.id;
    return (x > y) - (x < y);
}

static const struct leftover *find(const struct daemon_leftovers *l, uint64_t id)
{
    const struct leftover key = {.is.id = id};
    return l->list.len ? bsearch(&key, l->list.at, l->list.len, sizeof key, by_id) : NULL;
}

struct look {
    struct daemon_leftovers before, now;
};

static void take(void *ctx, const struct journal_left *left)
{
    struct look *look = ctx;
    const struct leftover *known = find(&look->before, left->id);
    struct leftover one = known ? *known : (struct leftover){0};
    one.is = *left;
    (void)vec_push(&look->now.list, one); /* after an allocation failure the next scan finds it */
}

/* Journals that are unchanged keep their state. */
static void list_left(struct daemon *d)
{
    struct look look = {.before = d->left, .now = d->left};
    memset(&look.now.list, 0, sizeof look.now.list);
    recover_list_left(d->dir, NULL, take, &look);
    if (d->spool)
        recover_list_left(d->spool, d->dir, take, &look);
    if (look.now.list.len)
        qsort(look.now.list.at, look.now.list.len, sizeof *look.now.list.at, by_id);
    vec_release(&look.before.list);
    d->left = look.now;
}

static size_t count_tried(const struct daemon_leftovers *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->list.len; i++)
        n += l->list.at[i].tried;
    return n;
}

static long long pause_after(unsigned failures)
{
    return PAUSE_NS << (failures < PAUSES_MAX ? failures : PAUSES_MAX - 1);
}

static void put_off(struct leftover *one, long long now, uint64_t room)
{
    uint64_t more = one->is.bytes / ROOM_PART + ROOM_LEAST;
    one->not_before = now + pause_after(one->failures);
    one->room = room < UINT64_MAX / 2 ? room + more : UINT64_MAX;
    one->failures++;
}

/*
 * Journals that were tried and still exist wait for more room or for a pause. If the process was
 * killed before it reached all of them, the cause is unknown: each is then tried alone.
 */
static void note_left(struct daemon *d, bool killed)
{
    struct daemon_leftovers *l = &d->left;
    bool together = killed && count_tried(l) > 1;
    long long now = monotonic_ns(), took = now - l->began;
    uint64_t room = daemon_free_bytes(d);
    list_left(d);
    for (size_t i = 0; i < l->list.len; i++) {
        struct leftover *one = &l->list.at[i];
        if (!one->tried)
            continue;
        one->tried = false;
        put_off(one, now, room);
        if (together)
            one->not_before = now;
        l->or_with = now + TURN_PART * took;
    }
}

static bool is_due(const struct daemon *d, const struct leftover *one, long long now, uint64_t room)
{
    return now >= one->not_before || (now >= d->left.or_with && room >= one->room);
}

/* Of the failed journals, the one that has waited longest. */
static struct leftover *choose_again(struct daemon *d, long long now)
{
    struct leftover *again = NULL;
    uint64_t room = daemon_free_bytes(d);
    for (size_t i = 0; i < d->left.list.len; i++) {
        struct leftover *one = &d->left.list.at[i];
        if (one->failures && is_due(d, one, now, room) &&
            (!again || one->not_before < again->not_before))
            again = one;
    }
    return again;
}

/*
 * Chooses what to recover now: all new journals, or alternately one failed journal. That one is
 * recovered alone, so that it cannot crash or delay the others. False: there is nothing to do.
 */
static bool choose(struct daemon *d, long long now, bool settled)
{
    struct daemon_leftovers *l = &d->left;
    struct leftover *again = choose_again(d, now);
    bool any = false;
    for (size_t i = 0; i < l->list.len; i++) {
        struct leftover *one = &l->list.at[i];
        one->tried = !(again && l->had_new) && !one->failures && (one->is.settled || !settled);
        any = any || one->tried;
    }
    l->had_new = any;
    if (!any && again)
        again->tried = true;
    return any || again;
}

/*
 * A trace needs space before its journal is removed, and --min-free must be kept. --total-quota
 * does not matter: the trace is usually smaller than the journal.
 */
static bool has_room(struct daemon *d)
{
    char text[FORMAT_SIZE], least[FORMAT_SIZE];
    if (!d->min_free || daemon_free_bytes(d) >= d->min_free)
        return true;
    if (d->left.list.len && !d->left.low_told)
        daemon_log(d, LOG_WARNING, "recovery", NULL, NULL,
                   "%s that captures left: recovered when %s are free on disk (--min-free)",
                   format_counted(text, d->left.list.len, "journal"),
                   format_bytes(least, d->min_free));
    d->left.low_told = d->left.list.len > 0;
    return false;
}

static bool is_tried(void *ctx, uint64_t id)
{
    const struct daemon *d = ctx;
    const struct leftover *one = find(&d->left, id);
    return one && one->tried;
}

void daemon_recovery_release(struct daemon *d)
{
    vec_release(&d->left.list);
}

/* ---- at the start */

void daemon_recover(struct daemon *d)
{
    struct err e = {0};
    struct words before = {-1, -1};
    if (d->no_recover)
        return;
    d->left.began = monotonic_ns();
    list_left(d);
    if (!has_room(d))
        return;
    (void)choose(d, d->left.began, false);
    if (!d->log_json || divert_words(&before, &e) == 0) {
        (void)recover_all(d, NULL, &e);
        if (d->log_json)
            restore_words(d, &before);
        note_left(d, false);
    }
    if (e.code)
        daemon_log_error(d, &e);
}

/* ---- while it serves */

void daemon_recover_soon(struct daemon *d)
{
    if (!d->no_recover)
        d->recover_at = monotonic_ns() + AFTER_NS;
}

/* Leftovers of a killed daemon take space that this one may need. */
static int recover_beside(void *arg)
{
    const struct daemon *d = arg;
    struct err e = {0};
    (void)outfile_remove_left(d->dir, container_begins);
    int status = join_streams() == 0 ? recover_all(arg, is_tried, &e) : 1;
    if (e.code)
        print_error(&e);
    return status;
}

struct recovery_job {
    struct daemon *daemon;
    int words; /* both its output streams */
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
    note_left(d, job->status >= 128);
    forget(r);
}

static int begin(struct daemon *d, struct err *e)
{
    struct recovery_job *r = calloc(1, sizeof *r);
    if (!r)
        return err_no_memory(e, "recovery");
    *r = (struct recovery_job){d, memfd_create("words", MFD_CLOEXEC)};
    if (r->words < 0) {
        err_errno(e, ERR_OUTPUT, "recovery");
        free(r);
        return -1;
    }
    const struct job_plan plan = {.body = recover_beside,
                                  .arg = d,
                                  .in = -1,
                                  .out = r->words,
                                  .seconds = SECONDS_MAX,
                                  .with_parent = true,
                                  .done = recovered,
                                  .dropped = forget,
                                  .ctx = r};
    if (jobs_begin(&d->jobs, &plan, e) != 0) {
        forget(r);
        return -1;
    }
    d->recovering = true;
    d->left.low_told = false;
    return 0;
}

/*
 * Reports that the process could not be started. It is retried at the next scan; reports come after
 * growing pauses.
 */
static void tell_unbegun(struct daemon *d, long long now, const struct err *e)
{
    struct daemon_leftovers *l = &d->left;
    if (l->unbegun && now < l->tell_at)
        return;
    daemon_log_error(d, e);
    l->tell_at = now + pause_after(l->unbegun++);
}

void daemon_recovery_turn(struct daemon *d)
{
    struct err e = {0};
    long long now = monotonic_ns();
    bool asked = d->recover_at && now >= d->recover_at;
    if (d->no_recover || d->recovering ||
        (!asked && (d->recover_at || now - d->left.looked < LOOK_NS)))
        return;
    d->recover_at = 0;
    d->left.looked = d->left.began = now;
    list_left(d);
    if (!has_room(d) || !choose(d, now, !asked))
        return;
    if (begin(d, &e) != 0)
        tell_unbegun(d, now, &e);
    else
        d->left.unbegun = 0;
}
