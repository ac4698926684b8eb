/*
 * The main loop of `tidemark daemon`: waits for announcements, captures, requests and signals, and
 * ends when all captures are saved.
 */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "report/write/json_value.h"
#include "server/capture/trace_name.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_events.h"
#include "server/daemon/daemon_limits.h"
#include "server/guard/guard.h"
#include "server/guard/privileges.h"
#include "server/net/notify.h"

#define REFRESH_MS 500
#define CLIENTS_DEFAULT 64
#define DELIVERY_NS 60000000000LL /* limit for delivering events after the last capture's end */
#define ALERT_PAUSE 60.0
#define STOP_TIMEOUT 300.0
#define CLIENT_HOLDS 2u                             /* descriptors: its words, its channel */
#define OURS_MOST 96u                               /* besides those */
#define HTTP_MOST (2u * HTTP_CONNECTIONS_MAX + 48u) /* with files to send, pages that are kept */
#define OURS_POLLED 4u /* descriptors that are polled besides those of captures and jobs */

static const char *state_word(const struct capture *one)
{
    if (one->state == CAPTURE_SAVED)
        return "was saved";
    return one->state == CAPTURE_REFUSED ? "cannot be captured" : "was not saved";
}

/* A client that was never connected has not finished: it was not begun. */
static void tell_end(struct daemon *d, const struct capture *one)
{
    bool saved = one->state == CAPTURE_SAVED;
    json_t *more = json_with(json_object(), "saved", json_boolean(saved));
    more = json_with(more, "status", json_integer(one->status));
    if (one->end.end != MONITOR_NEVER_BEGAN)
        more = json_with(more, "end", json_string(session_end_text(one->end.end)));
    if (captures_left_alone(one))
        more = json_with(more, "left_alone", json_string(captures_left_alone(one)));
    if (one->output)
        more = json_with(more, "trace", json_text(view_of(one->output)));
    if (saved)
        more = json_with(more, "trace_bytes", json_count(one->bytes));
    if (one->hello)
        more = saved_traces_json(more, &one->saved);
    if (one->no_room)
        daemon_tell(d, LOG_ERROR, "disk.full", one, json_incref(more),
                    "no room is left for client %u: %s", one->number,
                    one->last_words ? one->last_words : "");
    if (one->homeless)
        daemon_tell(d, LOG_ERROR, "client.lost", one, json_incref(more),
                    "the folder that client %u was recorded into was removed meanwhile%s%s",
                    one->number, one->last_words ? ": " : "",
                    one->last_words ? one->last_words : "");
    if (one->hello)
        daemon_tell(d, LOG_INFO, "client.finished", one, more, "client %u %s", one->number,
                    state_word(one));
    else
        daemon_log(d, LOG_INFO, "client.failed", one, more, "client %u %s", one->number,
                   state_word(one));
}

static void finished(struct daemon *d, struct capture *one)
{
    if (captures_lost(one))
        d->save_failed = true;
    if (one->status >= 128)
        daemon_log(d, LOG_ERROR, "client.died", one, NULL,
                   "the capture of %s:%u was killed by signal %d", one->client.address,
                   one->client.broadcast.port, one->status - 128);
    if (one->status >= 128)
        daemon_recover_soon(d);
    if (!daemon_is_repeat(one)) {
        daemon_tell_held(d, one);
        tell_end(d, one);
    }
    daemon_say_left_alone(d, one);
    saved_traces_forget(&one->saved);
    daemon_sinks_look(d);
}

/* It has saved a trace, and goes on. `ctx` is the daemon. */
static void part_saved(void *ctx, struct capture *one)
{
    const struct saved_trace *part = saved_traces_newest(&one->saved);
    json_t *more = json_with(json_object(), "trace", json_text(view_of(part->path)));
    more = json_with(more, "trace_bytes", json_count(part->bytes));
    more = json_with(more, "parts_saved", json_count(one->saved.count));
    daemon_tell(ctx, LOG_INFO, "part.saved", one, more, "client %u goes on, and %s is saved",
                one->number, part->path);
    daemon_sinks_look(ctx);
}

/* Its client is connected. `ctx` is the daemon. */
static void greeted(void *ctx, struct capture *one)
{
    json_t *more = json_object();
    daemon_tell_held(ctx, one);
    if (one->output)
        more = json_with(more, "trace", json_text(view_of(one->output)));
    daemon_log(ctx, LOG_INFO, "client.recording", one, more, "client %u is being recorded",
               one->number);
}

/* ---- waiting */

static int poll_on(struct daemon *d, int fd, short events, struct err *e)
{
    return vec_push(&d->polled, (struct pollfd){.fd = fd, .events = events})
               ? 0
               : err_no_memory(e, "waiting for clients");
}

/* Both of a capture; one that has ended has none, and the kernel bounds how many are polled. */
static int poll_capture(struct daemon *d, const struct capture *one, struct err *e)
{
    short out = channel_wants_out(&one->channel) ? POLLOUT : 0;
    return one->words >= 0 && (poll_on(d, one->words, POLLIN, e) != 0 ||
                               poll_on(d, one->channel.fd, (short)(POLLIN | out), e) != 0)
               ? -1
               : 0;
}

/* What is ours, two for each capture that runs, in their order, and the jobs' behind. */
static int list_polled(struct daemon *d, bool listening, struct err *e)
{
    int http = d->http.server ? http_fd(d->http.server) : -1;
    d->polled.len = 0;
    if (poll_on(d, d->stop.fd, POLLIN, e) != 0 ||
        poll_on(d, listening ? d->socket : -1, POLLIN, e) != 0 ||
        poll_on(d, listening ? d->prober.fd : -1, POLLIN, e) != 0 ||
        poll_on(d, http, POLLIN, e) != 0)
        return -1;
    for (size_t i = 0; i < d->captures.list.len; i++) {
        if (poll_capture(d, d->captures.list.at[i], e) != 0)
            return -1;
    }
    d->captures_polled = d->captures.list.len;
    size_t jobs = jobs_polled(&d->jobs);
    if (!vec_reserve(&d->polled, d->polled.len + jobs))
        return err_no_memory(e, "waiting for clients");
    jobs_poll(&d->jobs, d->polled.at + d->polled.len);
    d->polled.len += jobs;
    return 0;
}

/* Prints a line for each event where no screen can be drawn. `ctx` is the daemon. */
static void said(void *ctx, struct capture *one)
{
    if (!daemon_hold(one))
        daemon_say(ctx, one, one->last_words);
}

static void hear_captures(struct daemon *d)
{
    const struct pollfd *polled = d->polled.at + OURS_POLLED;
    for (size_t i = 0; i < d->captures_polled; i++) {
        struct capture *one = d->captures.list.at[i];
        if (one->words < 0)
            continue;
        short words = polled[0].revents, messages = polled[1].revents;
        polled += 2;
        if (one->channel.fd >= 0 && messages)
            captures_hear(&d->captures, one);
        if (!words)
            continue;
        captures_listen(&d->captures, one, said, d);
        if (one->state != CAPTURE_RUNNING)
            finished(d, one);
    }
}

/* The process that inspects clients ended; that happens once a second at most. */
static void note_sampler(struct daemon *d)
{
    int status;
    enum sampler_state state = sampler_look(&d->captures.sampler, &status);
    if (state == SAMPLER_AGAIN)
        daemon_log(d, LOG_ERROR, "sampler.died", NULL, NULL,
                   "the process that inspects clients ended (%s %d) and is restarted; present "
                   "captures go on without it",
                   WIFSIGNALED(status) ? "signal" : "exit status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (state == SAMPLER_GONE)
        daemon_log(d, LOG_ERROR, "sampler.died", NULL, NULL,
                   "the process that inspects clients ended and cannot be restarted: clients of "
                   "other users cannot be inspected until the daemon is restarted");
}

/* Waits until something happens, and takes note of it. */
static int turn(struct daemon *d, bool listening, struct err *e)
{
    if (list_polled(d, listening, e) != 0)
        return -1;
    int wait = d->http.server && http_has_more(d->http.server) ? 0 : REFRESH_MS;
    if (poll(d->polled.at, d->polled.len, wait) < 0 && errno != EINTR)
        return err_errno(e, ERR_CONNECT, "cannot wait for clients");
    hear_captures(d);
    note_sampler(d);
    captures_end_strays(&d->captures);
    captures_ask_counters(&d->captures);
    daemon_divide_memory(d);
    daemon_keep_folder(d);
    daemon_keep_disk(d);
    jobs_turn(&d->jobs);
    daemon_events_turn(d);
    daemon_sinks_turn(d);
    daemon_http_turn(d);
    if (listening) {
        daemon_recovery_turn(d);
        daemon_mark_busy(d);
        daemon_take_clients(d);
    }
    return 0;
}

/* What is not saved in time stays a journal, of which the next start makes a trace. */
static void give_up_saving(struct daemon *d, long long *asked)
{
    if (d->captures.running)
        daemon_log(d, LOG_ERROR, "stop.late", NULL, NULL,
                   "%u captures were not saved in time: their journals stay", d->captures.running);
    for (size_t i = 0; i < d->captures.list.len; i++) {
        if (d->captures.list.at[i]->state == CAPTURE_RUNNING)
            (void)kill(d->captures.list.at[i]->pid, SIGKILL);
    }
    *asked = monotonic_ns();
}

/*
 * Runs until a signal, then until all captures are saved. A further signal is passed on, too; after
 * the last save, it ends the delivery of events.
 */
static int serve(struct daemon *d, struct err *e)
{
    while (!stop_asked(&d->stop)) {
        if (turn(d, true, e) != 0)
            return -1;
        captures_forget(&d->captures);
        daemon_draw(d);
    }
    if (!d->log_json) {
        printf("\nShutting down... waiting for %u client%s to finish\n", d->captures.running,
               d->captures.running == 1 ? "" : "s");
        fflush(stdout);
    }
    daemon_log(d, LOG_INFO, "daemon.stopping", NULL, NULL, "%u clients are being saved",
               d->captures.running);
    notify_service("STOPPING=1");
    daemon_stop_pausing(d);
    long long asked = monotonic_ns(), began = asked;
    unsigned signals = d->stop.count;
    while (d->captures.running ||
           ((daemon_events_wait(d) || daemon_sinks_wait(d)) && d->stop.count == signals &&
            monotonic_ns() - began < DELIVERY_NS)) {
        if (d->captures.running) {
            began = monotonic_ns();
            signals = d->stop.count;
        }
        if (d->stop_timeout > 0 && (double)(began - asked) >= d->stop_timeout * 1e9)
            give_up_saving(d, &asked);
        (void)stop_asked(&d->stop);
        if (d->stops < d->stop.count) {
            captures_stop(&d->captures);
            d->stops = d->stop.count;
        }
        if (turn(d, false, e) != 0)
            return -1;
    }
    if (daemon_events_wait(d) || daemon_sinks_wait(d))
        daemon_log(d, LOG_WARNING, "stop.untold", NULL, NULL,
                   "%s: not all events were delivered, or traces sent",
                   monotonic_ns() - began < DELIVERY_NS ? "a further signal came"
                                                        : "a minute is over");
    return 0;
}

/* Descriptors for so many clients at a time; where those are not to be had, for fewer clients. */
static void keep_descriptors(struct daemon *d)
{
    uint64_t ours = OURS_MOST + (d->http.address ? HTTP_MOST : 0);
    uint64_t wanted = ours + (uint64_t)CLIENT_HOLDS * d->max_clients;
    uint64_t most = file_limit_raise(&d->jobs.files, wanted);
    if (most >= wanted)
        return;
    uint64_t room = most - (ours < most / 2 ? ours : most / 2);
    unsigned fit = room / CLIENT_HOLDS > 1 ? (unsigned)(room / CLIENT_HOLDS) : 1;
    if (fit > d->max_clients)
        fit = d->max_clients;
    daemon_log(d, LOG_WARNING, "clients.limit", NULL, NULL,
               "%u clients at a time need %" PRIu64 " descriptors, and no more than %" PRIu64
               " are allowed (ulimit -Hn): %u are captured at a time",
               d->max_clients, wanted, most, fit);
    d->max_clients = fit;
}

static void say_start(struct daemon *d)
{
    unsigned http = d->http.server ? http_port(d->http.server) : 0;
    json_t *more = json_with(json_object(), "port", json_count(d->port));
    more = json_with(more, "folder", json_text(view_of(d->dir)));
    more = json_with(more, "version", json_string(TIDEMARK_VERSION));
    if (http)
        more = json_with(more, "http_port", json_count(http));
    daemon_log(d, LOG_INFO, "daemon.started", NULL, more, "listening on port %u", d->port);
    if (d->log_json)
        return;
    printf("Listening on 0.0.0.0:%u... Press Ctrl+C to stop\nOutput directory: %s\n", d->port,
           d->dir);
    if (http)
        printf("Web server: port %u of %s\n", http, d->http.address);
    fflush(stdout);
}

/* What was given stands for what the options say. */
static int take_sockets(struct daemon *d, struct err *e)
{
    if (given_sockets_take(&d->given, e) != 0)
        return -1;
    if (d->given.http >= 0)
        d->http.address = d->given.http_address;
    if (d->given.announcements >= 0)
        d->port = d->given.port;
    d->socket = d->given.announcements;
    d->given.announcements = -1;
    return 0;
}

static void guard_sampler(void)
{
    guard_limits(0, 0);
    (void)guard_calls();
    (void)guard_forks();
}

/* What clients send is read by processes without privileges. A folder that root may write only with
 * them is reported now, before a trace is lost. */
static int give_up_privileges(struct daemon *d, struct err *e)
{
    if (!privileges_held())
        return 0;
    if (sampler_start(&d->captures.sampler, guard_sampler, e) != 0 || privileges_keep(0, e) != 0)
        return -1;
    return access(d->dir, W_OK | X_OK) == 0
               ? 0
               : err_errno(e, ERR_OUTPUT,
                           "%s: cannot write there without capabilities, which a daemon of root "
                           "gives up; start it as the owner of the folder",
                           d->dir);
}

/* Ports and the folder need privileges, and journals have what clients sent. */
static int begin(struct daemon *d, struct err *e)
{
    if (take_sockets(d, e) != 0 || daemon_make_folder(d->dir, e) != 0)
        return -1;
    keep_descriptors(d);
    if ((d->socket < 0 && (d->socket = discovery_open(d->port, e)) < 0) ||
        daemon_http_start(d, e) != 0 || give_up_privileges(d, e) != 0)
        return -1;
    daemon_tidy_folder(d);
    daemon_recover(d);
    return stop_init(&d->stop, e) != 0 || daemon_look(d, e) != 0 ? -1 : daemon_sinks_start(d, e);
}

int daemon_run(struct daemon *d)
{
    struct err e = {0};
    d->captures.dir = d->dir;
    d->captures.name = d->name;
    signal(SIGPIPE, SIG_IGN);
    if (begin(d, &e) != 0) {
        daemon_log_error(d, &e);
        return d->drop_in ? 1 : err_exit_status(&e);
    }
    say_start(d);
    notify_service("READY=1");
    int status = serve(d, &e);
    if (status != 0)
        daemon_log_error(d, &e);
    daemon_print_summary(d);
    daemon_log(d, LOG_INFO, "daemon.stopped", NULL, NULL, "%u traces were saved",
               d->captures.files);
    if (status == 0 && !d->save_failed)
        return 0;
    return d->drop_in ? 1 : status != 0 ? err_exit_status(&e) : 4;
}

void daemon_release(struct daemon *d)
{
    jobs_release(&d->jobs);
    daemon_http_release(d);
    daemon_reports_release(d);
    daemon_events_release(d);
    daemon_sinks_release(d);
    daemon_recovery_release(d);
    budgets_release(&d->alerts);
    prober_release(&d->prober);
    captures_release(&d->captures);
    vec_release(&d->polled);
    vec_release(&d->targets);
    vec_release(&d->scans);
    for (size_t i = 0; i < d->hosts.len; i++)
        free(d->hosts.at[i]);
    vec_release(&d->hosts);
    if (d->socket >= 0)
        close(d->socket);
    given_sockets_close(&d->given);
    free(d->spool);
    stop_release(&d->stop);
}

void daemon_init(struct daemon *d, const struct child_commands *commands, bool drop_in)
{
    *d = (struct daemon){.commands = commands,
                         .port = BROADCAST_PORT,
                         .name = TRACE_NAME_DEFAULT,
                         .max_clients = CLIENTS_DEFAULT,
                         .container = container_options_default(),
                         .drop_in = drop_in,
                         .alert_pause = ALERT_PAUSE,
                         .stop_timeout = STOP_TIMEOUT,
                         .given = GIVEN_SOCKETS_NONE,
                         .socket = -1,
                         .prober = PROBER_NONE,
                         .http = {.dir = -1},
                         .stop = {.fd = -1},
                         .terminal = isatty(STDOUT_FILENO),
                         .captures = {.commands = commands,
                                      .sampler = SAMPLER_NONE,
                                      .options = d->options,
                                      .counted = daemon_counted,
                                      .greeted = greeted,
                                      .part_saved = part_saved,
                                      .counted_ctx = d}};
}
