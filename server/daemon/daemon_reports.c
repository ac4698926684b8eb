/*
 * HTML reports of finished traces. Each is made on the first request, by a process that can only
 * read that trace and write that report. It is kept in an unnamed file while the trace is unchanged
 * and there are not too many reports.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/memory_bound.h"
#include "base/monotonic.h"
#include "base/tempfile.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_http.h"
#include "server/guard/guard.h"
#include "symbols/instructions.h"

#define MAKERS_MAX 2u
#define WAITING_MAX 32u
#define SECONDS_MAX 300.0
#define CAUSE_MAX 1024u
#define NO_ROOM 4 /* exit status: memory or disk space ran out */

/*
 * Data limit of a process that makes a report, and its bound, which is lower so that the report
 * fails with a message. A report of most traces takes some hundred MiB.
 */
#define MAKER_MEMORY ((uint64_t)1 << 30)
#define MAKER_KEEPS ((uint64_t)768 << 20)

struct report_page {
    char *name;
    enum report_kind kind;
    struct stat trace; /* as it was then: a changed file gets a new report */
    int input;         /* the trace, until the report is made; else -1 */
    int fd;            /* the report; -1: queued */
    uint64_t bytes;
    bool running, whole;
    long long used; /* last use; monotonic ns */
    VEC(struct http_exchange *) waiting;
    struct daemon *daemon;
};

static void page_free(struct report_page *p)
{
    if (p->input >= 0)
        close(p->input);
    if (p->fd >= 0)
        close(p->fd);
    vec_release(&p->waiting);
    free(p->name);
    free(p);
}

static void drop(struct daemon *d, size_t i)
{
    page_free(d->reports.at[i]);
    d->reports.at[i] = d->reports.at[--d->reports.len];
}

void daemon_reports_release(struct daemon *d)
{
    while (d->reports.len)
        drop(d, 0);
    vec_release(&d->reports);
}

static const char *format_of(const struct report_page *p)
{
    return p->kind == REPORT_PAGE ? "html" : "json";
}

/* ---- making a report, in a child process */

static int make_page(void *arg)
{
    const struct report_page *p = arg;
    const char *words[] = {"report", "-", "--format", format_of(p), NULL};
    const struct guard_folders folders = {.writable = {tempfile_dir(NULL)}};
    /* Loads Capstone now: the guards forbid it later. */
    struct instructions *disassembler = p->kind == REPORT_PAGE ? instructions_new(CODE_X64) : NULL;
    guard_limits(64, MAKER_MEMORY);
    memory_bound_set(MAKER_KEEPS);
    (void)guard_files(&folders);
    (void)guard_calls();
    (void)guard_forks();
    (void)guard_sockets();
    optind = 0;
    int status = p->daemon->commands->report(4, (char **)words);
    instructions_free(disassembler);
    return status;
}

/* ---- answers */

static void send_page(struct report_page *p, struct http_exchange *x)
{
    int fd = dup(p->fd);
    p->used = monotonic_ns();
    if (fd < 0)
        http_refuse(x, 500, "no descriptors are left");
    else if (p->kind == REPORT_PAGE)
        http_reply_document(x, fd, p->bytes, p->name);
    else
        http_reply_fd(x, fd, p->bytes, "application/json");
}

static void answer_waiting(struct report_page *p, unsigned status, const char *why)
{
    for (size_t i = 0; i < p->waiting.len; i++) {
        if (status == 200)
            send_page(p, p->waiting.at[i]);
        else
            http_refuse(p->waiting.at[i], status, why);
    }
    p->waiting.len = 0;
}

/*
 * Its first line of output without the program's name; later lines may be hints for command lines.
 * The daemon's user cannot give a report more memory, but make it with another process.
 */
static void take_cause(const struct report_page *p, const struct job *job, char out[CAUSE_MAX])
{
    char bytes[FORMAT_SIZE];
    static const char *const ours[] = {"tidemark: ", "report: "};
    const char *line = job->words[0] ? job->words : "it failed";
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (strncmp(line, ours[i], strlen(ours[i])) == 0)
            line += strlen(ours[i]);
    }
    int len = snprintf(out, CAUSE_MAX, "%.*s", (int)strcspn(line, "\n"), line);
    if (job->status == NO_ROOM && len > 0 && (size_t)len < CAUSE_MAX)
        snprintf(out + len, CAUSE_MAX - (size_t)len,
                 "; the daemon gives a report %s of memory, `tidemark report --format %s %s` takes "
                 "what it needs",
                 format_bytes(bytes, MAKER_KEEPS), format_of(p), p->name);
}

static void made(void *ctx, const struct job *job)
{
    struct report_page *p = ctx;
    struct daemon *d = p->daemon;
    struct stat st;
    char why[CAUSE_MAX];
    p->running = false;
    d->report_makers--;
    close(p->input);
    p->input = -1;
    if (job->status == 0 && fstat(p->fd, &st) == 0 && st.st_size > 0) {
        p->bytes = (uint64_t)st.st_size;
        p->whole = true;
        answer_waiting(p, 200, "");
        return;
    }
    take_cause(p, job, why);
    if (job->late)
        answer_waiting(p, 504, "it took too long");
    else if (job->status >= 128)
        answer_waiting(p, 500, "the process that makes pages died");
    else
        answer_waiting(p, job->status == 3 ? 422 : 500, why);
    for (size_t i = 0; i < d->reports.len; i++) {
        if (d->reports.at[i] == p) {
            drop(d, i);
            return;
        }
    }
}

/* ---- making */

static void begin(struct daemon *d, struct report_page *p)
{
    struct err e = {0};
    p->fd = tempfile_open(tempfile_dir(NULL), &e);
    const struct job_plan plan = {.body = make_page,
                                  .arg = p,
                                  .in = p->input,
                                  .out = p->fd,
                                  .seconds = SECONDS_MAX,
                                  .with_parent = true,
                                  .done = made,
                                  .ctx = p};
    p->running = p->fd >= 0 && jobs_begin(&d->jobs, &plan, &e) == 0;
    d->report_makers += p->running;
    if (!p->running)
        answer_waiting(p, 500, e.text);
}

void daemon_reports_turn(struct daemon *d)
{
    for (size_t i = 0; i < d->reports.len; i++) {
        struct report_page *p = d->reports.at[i];
        if (!p->whole && !p->running && p->waiting.len && d->report_makers < MAKERS_MAX)
            begin(d, p);
        if (!p->whole && !p->running && !p->waiting.len) /* no request waits for it any more */
            drop(d, i--);
    }
}

void daemon_reports_over(struct daemon *d, const struct http_exchange *x)
{
    for (size_t i = 0; i < d->reports.len; i++) {
        struct report_page *p = d->reports.at[i];
        for (size_t k = 0; k < p->waiting.len; k++) {
            if (p->waiting.at[k] == x)
                p->waiting.at[k--] = p->waiting.at[--p->waiting.len];
        }
    }
}

/* The report of that very file, if there is one. Drops reports of replaced files. */
static struct report_page *find(struct daemon *d, const char *name, enum report_kind kind,
                                const struct stat *st)
{
    for (size_t i = 0; i < d->reports.len; i++) {
        struct report_page *p = d->reports.at[i];
        if (p->kind != kind || strcmp(p->name, name) != 0)
            continue;
        if (daemon_same_file(&p->trace, st))
            return p;
        if (p->whole)
            drop(d, i--);
    }
    return NULL;
}

/* Drops the least recently used one. */
static bool make_room(struct daemon *d)
{
    size_t oldest = SIZE_MAX;
    for (size_t i = 0; i < d->reports.len; i++) {
        if (d->reports.at[i]->whole &&
            (oldest == SIZE_MAX || d->reports.at[i]->used < d->reports.at[oldest]->used))
            oldest = i;
    }
    if (d->reports.len < REPORTS_MAX)
        return true;
    if (oldest == SIZE_MAX)
        return false;
    drop(d, oldest);
    d->reports_dropped++;
    return true;
}

static struct report_page *page_new(struct daemon *d, const char *name, enum report_kind kind,
                                    const struct stat *st)
{
    struct report_page *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (struct report_page){
        .name = strdup(name), .kind = kind, .trace = *st, .input = -1, .fd = -1, .daemon = d};
    if (p->name && vec_push(&d->reports, p))
        return p;
    page_free(p);
    return NULL;
}

void daemon_send_report(struct daemon *d, struct http_exchange *x, const char *name,
                        enum report_kind kind)
{
    struct stat st;
    int fd = daemon_open_trace(d, name, &st);
    if (fd < 0) {
        http_refuse(x, 404, "there is no such trace");
        return;
    }
    struct report_page *p = find(d, name, kind, &st);
    if (!p && !make_room(d))
        http_refuse(x, 503, "too many pages are being made");
    else if (!p && !(p = page_new(d, name, kind, &st)))
        http_refuse(x, 500, "out of memory");
    else if (p->whole)
        send_page(p, x);
    else if (p->waiting.len >= WAITING_MAX)
        http_refuse(x, 503, "too many wait for that page");
    else if (!vec_push(&p->waiting, x))
        http_refuse(x, 500, "out of memory");
    else if (p->input < 0) {
        p->input = fd;
        return;
    }
    close(fd);
}
