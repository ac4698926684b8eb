#include "cli/options/parse_daemon.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/options/options.h"
#include "cli/options/parse_capture.h"
#include "cli/options/question.h"
#include "server/capture/memory_limit.h"
#include "server/capture/trace_name.h"
#include "server/daemon/daemon_events.h"
#include "server/daemon/token.h"
#include "server/net/address.h"
#include "server/net/web_post.h"
#include "trace/file/file_version.h"
#include "trace/save/save_file.h"

#define PAUSE_FREE ((uint64_t)64 << 20) /* free bytes that pausing waits for without --min-free */

static const char usage[] =
    "usage: tidemark daemon -o DIR [OPTIONS]\n"
    "\n"
    "Receives the announcements of Tracy clients and captures every client that matches, each to\n"
    "a separate file in DIR. Journals that a capture left there or in --spool's folder, whatever\n"
    "ended it, are finished first.\n";

static const char footer[] =
    "A program that ends has its trace saved, and is captured again when it comes back. SIGINT,\n"
    "SIGTERM and SIGHUP stop all captures and save them.\n"
    "Exit status: 0 all saved; 2 usage; 4 a trace or DIR cannot be written; 5 cannot listen.\n";

void daemon_hand_on(struct daemon *d, const char *option, const char *value)
{
    for (unsigned i = 0; i + 1 < d->option_count; i += 2) {
        if (strcmp(d->options[i], option) == 0) {
            d->options[i + 1] = value;
            return;
        }
    }
    d->options[d->option_count++] = option;
    d->options[d->option_count++] = value;
}

/*
 * An option of `capture` that each session gets. Rejects a bad value now rather than at the first
 * client.
 */
static bool hand_on(void *ctx, const char *option, const char *value, struct err *e)
{
    daemon_hand_on(ctx, option, value);
    return capture_option_check(option, value, e);
}

/*
 * An absolute path, since sessions work in another folder. NULL when it cannot be resolved, or
 * memory is short.
 */
static char *from_here(const char *path, struct err *e)
{
    struct buf out = {0};
    char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
    if (path[0] != '/' && !here) {
        err_errno(e, ERR_USAGE, "cannot find out where %s is", path);
        return NULL;
    }
    if (here)
        buf_printf(&out, "%s/", here);
    buf_puts(&out, path);
    char *text = out.failed ? NULL : strdup(buf_str(&out));
    if (!text)
        err_no_memory(e, "options");
    buf_release(&out);
    free(here);
    return text;
}

/* Makes the folder of temporary files absolute, for sessions too. */
static bool settle_temporary(struct err *e)
{
    const char *given = getenv("TMPDIR");
    if (!given || !*given || *given == '/')
        return true;
    char *path = from_here(given, e);
    bool done = path && (setenv("TMPDIR", path, 1) == 0 || (err_no_memory(e, "options"), false));
    free(path);
    return done;
}

static bool take_memory(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    return hand_on(ctx, "-m", value, e);
}

static bool take_version(void *ctx, const char *option, const char *value, struct err *e)
{
    return hand_on(ctx, option, value, e) &&
           file_version_parse(value, &((struct daemon *)ctx)->trace_version, e) == 0;
}

static bool take_compression(void *ctx, const char *option, const char *value, struct err *e)
{
    return hand_on(ctx, option, value, e) &&
           option_compression(value, &((struct daemon *)ctx)->container, e);
}

static bool take_spool(void *ctx, const char *option, const char *value, struct err *e)
{
    struct daemon *d = ctx;
    free(d->spool);
    d->spool = from_here(value, e);
    return d->spool && hand_on(d, option, d->spool, e);
}

/* ---- targets and filters */

static bool add_target(struct daemon *d, const char *host, uint16_t port, struct err *e)
{
    if (d->targets.len >= PROBES_MAX) {
        err_set(e, ERR_USAGE, "more than %u targets", PROBES_MAX);
        return false;
    }
    return vec_push(&d->targets, (struct probe_target){host, port}) ||
           (err_no_memory(e, "targets"), false);
}

/* Stores the host without brackets. */
static const char *take_host(struct daemon *d, const char *option, const char *value,
                             const char **port, struct err *e)
{
    char host[NI_MAXHOST];
    if (address_split(value, host, port) != 0 || !host[0]) {
        err_set(e, ERR_USAGE, "%s takes a host, not '%s'", option, value);
        return NULL;
    }
    char *copy = strdup(host);
    if (!copy || !vec_push(&d->hosts, copy)) {
        free(copy);
        err_no_memory(e, "targets");
        return NULL;
    }
    return copy;
}

static bool take_target(void *ctx, const char *option, const char *value, struct err *e)
{
    struct daemon *d = ctx;
    const char *port;
    uint64_t n = BROADCAST_PORT;
    const char *host = take_host(d, option, value, &port, e);
    return host && (!port || option_u64(port, option, 1, 65535, &n, e)) &&
           add_target(d, host, (uint16_t)n, e);
}

/* Its ports are added after all single targets: parse_rest. */
static bool take_scan(void *ctx, const char *option, const char *value, struct err *e)
{
    struct daemon *d = ctx;
    const char *port;
    const char *host = take_host(d, option, value, &port, e);
    if (host && port)
        err_set(e, ERR_USAGE, "%s takes a host without a port, not '%s'", option, value);
    return host && !port && (vec_push(&d->scans, host) || (err_no_memory(e, "targets"), false));
}

static bool add_scans(struct daemon *d, struct err *e)
{
    d->scanned = d->targets.len;
    for (size_t i = 0; i < d->scans.len; i++) {
        for (unsigned port = SCAN_PORT_FIRST; port <= SCAN_PORT_LAST; port++) {
            if (!add_target(d, d->scans.at[i], (uint16_t)port, e))
                return false;
        }
    }
    return true;
}

/* "10.0.0.7", "10.0.0.0/8", "fe80::/10". */
static bool take_filter_address(void *ctx, const char *option, const char *value, struct err *e)
{
    struct client_filter *f = &((struct daemon *)ctx)->filter;
    char text[INET6_ADDRSTRLEN];
    const char *slash = strchr(value, '/');
    size_t len = slash ? (size_t)(slash - value) : strlen(value);
    uint64_t bits;
    if (len < sizeof text) {
        memcpy(text, value, len);
        text[len] = 0;
        f->family = inet_pton(AF_INET, text, f->address) == 1    ? AF_INET
                    : inet_pton(AF_INET6, text, f->address) == 1 ? AF_INET6
                                                                 : 0;
    }
    if (!f->family) {
        return refuse_value(e, option, "an address or ADDRESS/BITS", value);
    }
    bits = f->family == AF_INET ? 32 : 128;
    f->bits = (unsigned)bits;
    if (slash && !option_u64(slash + 1, option, 0, bits, &bits, e))
        return false;
    f->bits = (unsigned)bits;
    return true;
}

/* Runs without a shell: the value is the path of a program. */
static bool take_command(void *program, const char *option, const char *value, struct err *e)
{
    *(const char **)program = value;
    if (strchr(value, '/') && access(value, X_OK) == 0)
        return true;
    err_set(e, ERR_USAGE, "%s takes the path of a program, not '%s'", option, value);
    return false;
}

static bool take_webhook(void *ctx, const char *option, const char *value, struct err *e)
{
    struct web_post *p = web_post_open(value, NULL, NULL, e);
    ((struct daemon *)ctx)->webhook = value;
    web_post_close(p);
    if (!p)
        err_prefix(e, "%s", option);
    return p != NULL;
}

/* A time that is not negative, in seconds. */
static bool take_time(void *seconds, const char *option, const char *value, struct err *e)
{
    int64_t time;
    if (!option_time(value, option, &time, e))
        return false;
    *(double *)seconds = (double)time / 1e9;
    return time >= 0 || (err_set(e, ERR_USAGE, "%s cannot be negative", option), false);
}

static bool take_alert(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    return daemon_add_alert(ctx, value, e);
}

static bool take_sink(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    return daemon_set_sink(ctx, value, e);
}

static bool take_label(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    return daemon_add_label(ctx, value, e);
}

static bool take_name(void *ctx, const char *option, const char *value, struct err *e)
{
    ((struct daemon *)ctx)->name = value;
    return trace_name_check(value, option, e) == 0;
}

static bool take_token(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    struct daemon *d = ctx;
    free(d->http.token);
    d->http.token = token_parse(value, e);
    d->http.token_at = *value == '@' ? value : NULL;
    return d->http.token != NULL;
}

#define FIELD(NAME) OPTION_FIELD(struct daemon, NAME)

static const struct option_row rows[] = {
    {"--output", "DIR", "where the traces go; made when it is not there", .letter = 'o',
     FIELD(dir)},
    {"--port", "PORT", "UDP port of the announcements (8086)", .letter = 'p', .type = VALUE_NUMBER,
     .least = 1, FIELD(port)},
    {"--name", "TEMPLATE",
     "of the traces: {program}_{host}_{port}.tracy, also {pid} and {time}; with _1, _2 and so on "
     "when that exists already",
     .take = take_name},
    {"--target", "HOST[:PORT]",
     "a client that is tried again and again (8086); may be given several times",
     .take = take_target},
    {"--scan", "HOST", "the same for all ports from 8086 to 8105 of a host", .take = take_scan},
    {"--memory", "PERCENT", "end a capture that holds so much of the physical memory",
     .letter = 'm', .take = take_memory},
    {"--filter-name", "TEXT", "only clients whose program name contains TEXT", FIELD(filter.name)},
    {"--filter-port", "PORT", "only clients that listen on PORT", .type = VALUE_NUMBER,
     FIELD(filter.port)},
    {"--filter-pid", "PID", "only the client with that process id", .type = VALUE_NUMBER,
     .least = 1, .most = INT64_MAX, FIELD(filter.pid)},
    {"--filter-address", "A", "only clients at that address, or in that network (10.0.0.0/8)",
     .take = take_filter_address},
    {"--local", NULL, "only clients of this host", FIELD(filter.local)},
    {"--max-clients", "N", "capture so many at a time (64)", .type = VALUE_NUMBER, .least = 1,
     .most = 10000, FIELD(max_clients)},
    {"--memory-limit", "SIZE|PERCENT%",
     "what all captures together hold, kept by spilling: 96M at least for each, so it also limits "
     "how many there are at a time",
     .type = VALUE_MEMORY_BOUND, FIELD(memory)},
    {"--rotate", "TIME|SIZE",
     "go on in another trace each time so long has passed, or so much was received",
     .take = hand_on},
    {"--keep-last", "TIME|SIZE", "keep only the last stretch of each client", .take = hand_on},
    {"--figures", NULL,
     "keep no memory events, only their exact figures by call stack, site and pool, behind each "
     "trace",
     FIELD(captures.figures)},
    {"--max-size", "SIZE", "end a capture when so much was received", .take = hand_on},
    {"--max-time", "TIME", "end it after so long", .take = hand_on},
    {"--quota", "SIZE", "what each capture may take on disk; then it is ended and saved",
     .type = VALUE_BYTES, FIELD(quota)},
    {"--total-quota", "SIZE", "what is in DIR may take; then all are, and no more begin",
     .type = VALUE_BYTES, FIELD(total_quota)},
    {"--min-free", "SIZE", "the same when less than this is free on DIR's disk",
     .type = VALUE_BYTES, FIELD(min_free)},
    {"--when-full", "HOW",
     "what --min-free does: {} all captures until there is room, while the clients keep what they "
     "have to send",
     "end", .type = VALUE_WORD, .words = "end or pause", FIELD(pause_when_full)},
    {"--stop-timeout", "TIME",
     "after a request to end: time for saving captures, else their journals stay (5m; 0: no limit)",
     .take = take_time, FIELD(stop_timeout)},
    {"--no-recover", NULL, "leave the journals that are there alone", FIELD(no_recover)},
    {"--trace-version", "V", "file version to write (default: each client's generation)",
     .take = take_version},
    {"--compression", "SPEC", "lz4, lz4hc, zstd or zstd:LEVEL (default: by version)",
     .take = take_compression},
    {"--spool", "DIR", "where event data that does not fit in memory goes", .take = take_spool},
    {"--buffer", "SIZE", "event data of a client kept in memory (96M)", .take = hand_on},
    {"--memory-plots", "HZ",
     "readings per second of what the kernel counts of each client on this host, as plots of its "
     "trace (10; 0: none)",
     .take = hand_on},
    {"--resident-at", "LIST",
     "look at its pages also so many seconds after its capture began, such as 60,3600",
     .take = hand_on},
    {"--http", "ADDRESS:PORT",
     "a page for a browser, a JSON interface (/openapi.json) and metrics for Prometheus "
     "(/metrics), such as on 127.0.0.1:8088",
     FIELD(http.address)},
    {"--token", "TOKEN",
     "what they ask for; needed for other addresses than the loopback's; @FILE: what is in FILE",
     .take = take_token},
    {"--alert", "EXPRESSION",
     "alert when it becomes true of a client, such as 'live_bytes(pool=\"gpu.vram\")>20G'; may be "
     "given several times",
     .take = take_alert},
    {"--alert-pause", "TIME", "time it must be over before the next alert (1m)", .take = take_time,
     FIELD(alert_pause)},
    {"--on-finish", "PROGRAM",
     "started with the words client.finished and the trace when a client has ended; its standard "
     "input is the event in JSON",
     .take = take_command, FIELD(on_finish)},
    {"--on-part", "PROGRAM", "the same for each part saved of one that goes on (part.saved)",
     .take = take_command, FIELD(on_part)},
    {"--on-alert", "PROGRAM", "the same for alerts, full disks and lost traces",
     .take = take_command, FIELD(on_alert)},
    {"--webhook", "URL", "the same events, sent to a web server", .take = take_webhook},
    {"--sink", "SINK",
     "add each trace to the tables of a fleet when it is complete: clickhouse=URL or "
     "files=FOLDER, as `tidemark push` takes them",
     .take = take_sink},
    {"--label", "NAME=VALUE", "a label that each of them gets there; may be given several times",
     .take = take_label},
    {"--log", "FORMAT", "{}; json: each line of standard output is an object", "text",
     .type = VALUE_WORD, .words = "text or json", FIELD(log_json)},
    OPTION_HELP_ROW,
    OPTION_VERSION_ROW,
    {0},
};

static const struct option_group groups[] = {{.rows = rows}, {0}};
static const struct option_row positional[] = {{0}};
static const struct option_rule rules[] = {
    {"--figures", OPTION_EXCLUDES, "--keep-last --resident-at --sink",
     "--figures keep no events: they do not go with --keep-last, --resident-at and --sink"},
    {0},
};

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct daemon *d = ctx;
    (void)n;
    (void)arguments;
    if (!d->dir || !*d->dir)
        err_set(e, ERR_USAGE, "Output directory is required (-o)");
    else if (!d->captures.figures ||
             save_check_figures(d->trace_version ? d->trace_version : FILE_VERSION(0, 11, 0),
                                &d->container, e) == 0)
        return settle_temporary(e) && add_scans(d, e);
    return false;
}

int daemon_parse(struct daemon *d, int argc, char **argv)
{
    const struct command_line line = {
        .options = groups,
        .usage = usage,
        .footer = footer,
        .positional = positional,
        .rules = rules,
        .hint = "usage: capture-daemon -o DIR [-p PORT] [-m PERCENT] [--filter-name TEXT] "
                "[--filter-port PORT]\nTry 'tidemark daemon --help'.\n",
        .refused = d->drop_in ? 1 : 2,
        .help_refused = d->drop_in,
        .rest = parse_rest};
    if (d->drop_in)
        daemon_hand_on(d, "--memory-plots", "0");
    int status = command_line_parse(&line, d, argc, argv);
    d->memory_given = d->memory != 0;
    if (!d->memory)
        d->memory = memory_limit_of_group();
    if (d->memory && d->memory < DAEMON_SESSION_LEAST)
        d->memory = DAEMON_SESSION_LEAST;
    uint64_t most = d->memory / DAEMON_SESSION_LEAST;
    if (d->pause_when_full && !d->min_free)
        d->min_free = PAUSE_FREE;
    if (d->memory && most < d->max_clients)
        d->max_clients = (unsigned)most;
    if (d->memory)
        d->captures.memory_each = DAEMON_SESSION_LEAST;
    return status;
}
