/*
 * Reports events to the log, a command or a web server. An event is one JSON object for all of
 * them. Commands and requests run as jobs, few at a time. If they are too slow, events are queued;
 * if the queue is full, events are dropped.
 */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/file_io.h"
#include "base/format.h"
#include "base/print_error.h"
#include "report/write/json_value.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_events.h"
#include "server/guard/guard.h"
#include "server/net/web_post.h"

#define QUEUE_MAX 1000u
#define TELLERS_MAX 4u
#define COMMAND_SECONDS 60.0
#define REQUEST_SECONDS 120.0
#define REQUEST_TRIES 3u

enum teller { TELL_COMMAND, TELL_SERVER };

/* An event for one destination. */
struct news {
    enum teller way;
    const char *command; /* TELL_COMMAND */
    char *text;          /* the event */
    char *event;
    char *trace; /* "": none */
    struct daemon *daemon;
};

static void news_free(struct news *n)
{
    if (!n)
        return;
    free(n->text);
    free(n->event);
    free(n->trace);
    free(n);
}

void daemon_events_release(struct daemon *d)
{
    for (size_t i = 0; i < d->news.len; i++)
        news_free(d->news.at[i]);
    vec_release(&d->news);
}

/* ---- reporting, in a child process */

static int run_command(void *arg)
{
    const struct news *n = arg;
    char *words[] = {(char *)n->command, n->event, n->trace, NULL};
    execv(n->command, words);
    fprintf(stderr, "%s: cannot be started: %m\n", n->command);
    return 127;
}

/* Retries on server errors; a rejection is final. */
static int send_tries(struct web_post *p, const char *text, struct err *e)
{
    struct buf answer = {0};
    int status = -1;
    for (unsigned tries = 1;; tries++) {
        *e = (struct err){0};
        status = web_post_send(p, NULL, NULL, "application/json", text, strlen(text), &answer, e);
        bool refuses = web_post_status(p) >= 400 && web_post_status(p) < 500;
        if (status == 0 || refuses || tries == REQUEST_TRIES)
            break;
        sleep(tries);
    }
    buf_release(&answer);
    return status;
}

static int send_request(void *arg)
{
    const struct news *n = arg;
    const struct guard_folders folders = {.reads = true};
    struct err e = {0};
    (void)guard_files(&folders);
    struct web_post *p = web_post_open(n->daemon->webhook, NULL, NULL, &e);
    int status = p ? send_tries(p, n->text, &e) : -1;
    web_post_close(p);
    if (status == 0)
        return 0;
    fprintf(stderr, "%s\n", e.text);
    return 1;
}

/* ---- the queue */

static void told(void *ctx, const struct job *job)
{
    struct news *n = ctx;
    struct daemon *d = n->daemon;
    d->tellers--;
    if (job->status != 0) {
        const char *who = n->way == TELL_COMMAND ? n->command : "the web hook";
        d->tell_failures++;
        daemon_log(d, LOG_WARNING, "hook.failed", NULL, NULL, "%s did not receive %s: %s%s%s", who,
                   n->event, job->late ? "it took too long" : "it failed",
                   job->words[0] ? ": " : "", job->words);
    }
    news_free(n);
}

/* The daemon ends before the job could run. */
static void untold(void *ctx)
{
    news_free(ctx);
}

/* In memory, since the event may be that a disk is full. */
static int text_file(const char *text, struct err *e)
{
    int fd = memfd_create("event", MFD_CLOEXEC);
    if (fd >= 0 && file_write(fd, text, strlen(text), 0) == 0)
        return fd;
    err_errno(e, ERR_OUTPUT, "an event cannot be passed on");
    if (fd >= 0)
        close(fd);
    return -1;
}

static void begin_telling(struct daemon *d, struct news *n)
{
    struct err e = {0};
    bool command = n->way == TELL_COMMAND;
    int fd = command ? text_file(n->text, &e) : -1;
    const struct job_plan plan = {.body = command ? run_command : send_request,
                                  .arg = n,
                                  .in = fd,
                                  .out = -1,
                                  .seconds = command ? COMMAND_SECONDS : REQUEST_SECONDS,
                                  .done = told,
                                  .dropped = untold,
                                  .ctx = n};
    if ((fd < 0 && command) || jobs_begin(&d->jobs, &plan, &e) != 0) {
        d->tell_failures++;
        daemon_log(d, LOG_WARNING, "hook.failed", NULL, NULL, "%s", e.text);
        news_free(n);
    } else {
        d->tellers++;
    }
    if (fd >= 0)
        close(fd);
}

/*
 * Reports dropped events only when the queue has much room again, since it may be full with the
 * next event.
 */
static void say_dropped(struct daemon *d)
{
    if (!d->tell_dropped || d->news.len > QUEUE_MAX / 2)
        return;
    daemon_log(d, LOG_WARNING, "hook.failed", NULL, NULL, "%" PRIu64 " events dropped",
               d->tell_dropped);
    d->tell_dropped = 0;
}

void daemon_events_turn(struct daemon *d)
{
    size_t taken = 0;
    while (taken < d->news.len && d->tellers < TELLERS_MAX)
        begin_telling(d, d->news.at[taken++]);
    d->news.len -= taken;
    if (taken)
        memmove(d->news.at, d->news.at + taken, d->news.len * sizeof d->news.at[0]);
    say_dropped(d);
}

bool daemon_events_wait(const struct daemon *d)
{
    return d->news.len || d->tellers;
}

static void queue(struct daemon *d, enum teller way, const char *command, const char *event,
                  const char *text, const char *trace)
{
    struct news *n = d->news.len < QUEUE_MAX ? calloc(1, sizeof *n) : NULL;
    if (n) {
        *n = (struct news){.way = way,
                           .command = command,
                           .text = strdup(text),
                           .event = strdup(event),
                           .trace = strdup(trace),
                           .daemon = d};
        if (n->text && n->event && n->trace && vec_push(&d->news, n))
            return;
        news_free(n);
    }
    d->tell_failures++;
    if (d->tell_dropped++ == 0)
        daemon_log(d, LOG_WARNING, "hook.failed", NULL, NULL, "event queue full; dropping events");
}

/* ---- an event */

static json_t *client_json(const struct capture *one)
{
    const struct broadcast *b = &one->client.broadcast;
    json_t *o = json_with(json_object(), "number", json_count(one->number));
    o = json_with(o, "program", json_text(view_of(b->name)));
    o = json_with(o, "address", json_string(one->client.address));
    o = json_with(o, "port", json_count(b->port));
    return json_with(o, "pid", json_count(b->pid));
}

static json_t *time_json(void)
{
    char text[40], all[64];
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(all, sizeof all, "%s.%03uZ", text, (unsigned)(now.tv_nsec / 1000000) % 1000);
    return json_string(all);
}

static json_t *event_json(enum log_level level, const char *event, const struct capture *one,
                          json_t *more, const char *message)
{
    static const char *const levels[] = {"info", "warning", "error"};
    json_t *o = json_with(json_object(), "schema", json_string("tidemark.event/1"));
    o = json_with(o, "time", time_json());
    o = json_with(o, "level", json_string(levels[level]));
    o = json_with(o, "event", json_string(event));
    o = json_with(o, "message", json_text(view_of(message)));
    if (one)
        o = json_with(o, "client", client_json(one));
    if (o && more && json_object_update(o, more) != 0) {
        json_decref(o);
        o = NULL;
    }
    json_decref(more);
    return o;
}

static void log_line(const struct daemon *d, enum log_level level, const char *message,
                     const char *text)
{
    struct buf safe = {0};
    if (d->log_json) {
        printf("%s\n", text);
        fflush(stdout);
    } else if (level != LOG_INFO) {
        format_terminal(&safe, view_of(message));
        fprintf(stderr, "tidemark: %s\n", buf_str(&safe));
    }
    buf_release(&safe);
}

/* Returns the event's text, which the caller frees; NULL when memory is short. */
__attribute__((format(printf, 6, 0))) static char *compose(struct daemon *d, enum log_level level,
                                                           const char *event,
                                                           const struct capture *one, json_t *more,
                                                           const char *form, va_list values)
{
    struct buf message = {0}, text = {0};
    buf_vprintf(&message, form, values);
    json_t *o = event_json(level, event, one, more, buf_str(&message));
    if (json_put(&text, o, JSON_COMPACT) && !text.failed)
        log_line(d, level, buf_str(&message), buf_str(&text));
    char *copy = text.failed || !text.len ? NULL : strdup(buf_str(&text));
    buf_release(&message);
    buf_release(&text);
    return copy;
}

void daemon_log(struct daemon *d, enum log_level level, const char *event,
                const struct capture *one, json_t *more, const char *form, ...)
{
    va_list values;
    va_start(values, form);
    free(compose(d, level, event, one, more, form, values));
    va_end(values);
}

/* The command for this event, NULL when there is none, and the trace that it concerns. */
static const char *command_for(const struct daemon *d, const char *event, const struct capture *one,
                               const char **trace)
{
    *trace = "";
    if (strcmp(event, "part.saved") == 0) {
        *trace = saved_traces_newest(&one->saved)->path;
        return d->on_part;
    }
    if (one && one->output && one->state == CAPTURE_SAVED)
        *trace = one->output;
    return strcmp(event, "client.finished") == 0 ? d->on_finish : d->on_alert;
}

void daemon_tell(struct daemon *d, enum log_level level, const char *event,
                 const struct capture *one, json_t *more, const char *form, ...)
{
    va_list values;
    va_start(values, form);
    char *text = compose(d, level, event, one, more, form, values);
    va_end(values);
    const char *trace, *command = command_for(d, event, one, &trace);
    if (text && command)
        queue(d, TELL_COMMAND, command, event, text, trace);
    if (text && d->webhook)
        queue(d, TELL_SERVER, NULL, event, text, trace);
    free(text);
}

void daemon_log_error(struct daemon *d, const struct err *e)
{
    if (d->log_json)
        daemon_log(d, LOG_ERROR, "error", NULL, NULL, "%s", e->text);
    else
        print_error(e);
}
