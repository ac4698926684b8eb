#include "cli/options/parse_daemon.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/format.h"
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

#define PAUSE_FREE ((uint64_t)64 << 20) /* free bytes that pausing waits for without --min-free */

static const char usage[] =
    "usage: tidemark daemon -o DIR [OPTIONS]\n"
    "\n"
    "Receives the announcements of Tracy clients and captures every client that matches, each to "
    "a\n"
    "separate file in DIR. Journals that a capture left there or in --spool's folder, whatever "
    "ended\n"
    "it, are finished first.\n"
    "\n"
    "  -o, --output DIR        where the traces go; made when it is not there\n"
    "  -p, --port PORT         UDP port of the announcements (8086)\n"
    "      --name TEMPLATE     of the traces: {program}_{host}_{port}.tracy, also {pid} and "
    "{time};\n"
    "                          with _1, _2 and so on when that exists already\n"
    "      --target HOST[:PORT]  a client that is tried again and again (8086); repeat for more\n"
    "      --scan HOST         the same for all ports from 8086 to 8105 of a host\n"
    "  -m, --memory PERCENT    end a capture that holds so much of the physical memory\n"
    "      --filter-name TEXT  only clients whose program name contains TEXT\n"
    "      --filter-port PORT  only clients that listen on PORT\n"
    "      --filter-pid PID    only the client with that process id\n"
    "      --filter-address A  only clients at that address, or in that network (10.0.0.0/8)\n"
    "      --local             only clients of this host\n"
    "      --max-clients N     capture so many at a time (64)\n"
    "      --memory-limit SIZE|PERCENT%  what all captures together hold, kept by spilling: 96M "
    "at\n"
    "                          least for each, so it also limits how many there are at a time\n"
    "      --rotate TIME|SIZE  go on in another trace each time so long has passed, or so much "
    "came\n"
    "      --keep-last TIME|SIZE  keep only the last stretch of each client\n"
    "      --max-size SIZE     end a capture when so much was received\n"
    "      --max-time TIME     end it after so long\n"
    "      --quota SIZE        what each capture may take on disk; then it is ended and saved\n"
    "      --total-quota SIZE  what is in DIR may take; then all are, and no more begin\n"
    "      --min-free SIZE     the same when less than this is free on DIR's disk\n"
    "      --when-full HOW     what --min-free does: end (default), or pause all captures until "
    "there is\n"
    "                          room, while the clients keep what they have to send\n"
    "      --stop-timeout TIME after a request to end: time for saving captures, else "
    "their\n"
    "                          journals stay (5m; 0: no limit)\n"
    "      --no-recover        leave the journals that are there alone\n"
    "      --trace-version V   file version to write (default: each client's generation)\n"
    "      --compression SPEC  lz4, lz4hc, zstd or zstd:LEVEL (default: by version)\n"
    "      --spool DIR         where event data that does not fit in memory goes\n"
    "      --buffer SIZE       event data of a client kept in memory (96M)\n"
    "      --http ADDRESS:PORT a page for a browser, a JSON interface (/openapi.json) and metrics\n"
    "                          for Prometheus (/metrics), such as on 127.0.0.1:8088\n"
    "      --token TOKEN       what they ask for; needed for other addresses than the loopback's;\n"
    "                          @FILE: what is in FILE\n"
    "      --alert EXPRESSION  alert when it becomes true of a client, such as\n"
    "                          'live_bytes(pool=\"gpu.vram\")>20G'; can be given several times\n"
    "      --alert-pause TIME  time it must be over before the next alert (1m)\n"
    "      --on-finish PROGRAM started with the words client.finished and the trace when a client\n"
    "                          has ended; its standard input is the event in JSON\n"
    "      --on-part PROGRAM   the same for each part saved of one that goes on (part.saved)\n"
    "      --on-alert PROGRAM  the same for alerts, full disks and lost traces\n"
    "      --webhook URL       the same events, sent to a web server\n"
    "      --sink SINK         add each trace to the tables of a fleet when it is whole:\n"
    "                          clickhouse=URL or files=FOLDER, as `tidemark push` takes them\n"
    "      --label NAME=VALUE  a label that each of them gets there; repeat for more\n"
    "      --log text|json     json: each line of standard output is an object\n"
    "  -h, --help              this text\n"
    "  -V, --version           the version\n"
    "\n"
    "A program that ends has its trace saved, and is captured again when it comes back. SIGINT,\n"
    "SIGTERM and SIGHUP stop all captures and save them.\n"
    "Exit status: 0 all saved; 2 usage; 4 a trace or DIR cannot be written; 5 cannot listen.\n";

enum {
    OPTION_FILTER_NAME = 256,
    OPTION_FILTER_PORT,
    OPTION_LOCAL,
    OPTION_MAX_CLIENTS,
    OPTION_TRACE_VERSION,
    OPTION_COMPRESSION,
    OPTION_SPOOL,
    OPTION_BUFFER,
    OPTION_NAME,
    OPTION_TARGET,
    OPTION_SCAN,
    OPTION_FILTER_PID,
    OPTION_FILTER_ADDRESS,
    OPTION_MEMORY_LIMIT,
    OPTION_ROTATE,
    OPTION_KEEP_LAST,
    OPTION_MAX_SIZE,
    OPTION_MAX_TIME,
    OPTION_NO_RECOVER,
    OPTION_HTTP,
    OPTION_TOKEN,
    OPTION_ALERT,
    OPTION_ALERT_PAUSE,
    OPTION_ON_FINISH,
    OPTION_ON_PART,
    OPTION_ON_ALERT,
    OPTION_WEBHOOK,
    OPTION_SINK,
    OPTION_LABEL,
    OPTION_LOG,
    OPTION_QUOTA,
    OPTION_TOTAL_QUOTA,
    OPTION_MIN_FREE,
    OPTION_WHEN_FULL,
    OPTION_STOP_TIMEOUT,
};

static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'},
    {"port", required_argument, NULL, 'p'},
    {"memory", required_argument, NULL, 'm'},
    {"filter-name", required_argument, NULL, OPTION_FILTER_NAME},
    {"filter-port", required_argument, NULL, OPTION_FILTER_PORT},
    {"local", no_argument, NULL, OPTION_LOCAL},
    {"max-clients", required_argument, NULL, OPTION_MAX_CLIENTS},
    {"trace-version", required_argument, NULL, OPTION_TRACE_VERSION},
    {"compression", required_argument, NULL, OPTION_COMPRESSION},
    {"spool", required_argument, NULL, OPTION_SPOOL},
    {"buffer", required_argument, NULL, OPTION_BUFFER},
    {"name", required_argument, NULL, OPTION_NAME},
    {"target", required_argument, NULL, OPTION_TARGET},
    {"scan", required_argument, NULL, OPTION_SCAN},
    {"filter-pid", required_argument, NULL, OPTION_FILTER_PID},
    {"filter-address", required_argument, NULL, OPTION_FILTER_ADDRESS},
    {"memory-limit", required_argument, NULL, OPTION_MEMORY_LIMIT},
    {"rotate", required_argument, NULL, OPTION_ROTATE},
    {"keep-last", required_argument, NULL, OPTION_KEEP_LAST},
    {"max-size", required_argument, NULL, OPTION_MAX_SIZE},
    {"max-time", required_argument, NULL, OPTION_MAX_TIME},
    {"no-recover", no_argument, NULL, OPTION_NO_RECOVER},
    {"http", required_argument, NULL, OPTION_HTTP},
    {"token", required_argument, NULL, OPTION_TOKEN},
    {"alert", required_argument, NULL, OPTION_ALERT},
    {"alert-pause", required_argument, NULL, OPTION_ALERT_PAUSE},
    {"on-finish", required_argument, NULL, OPTION_ON_FINISH},
    {"on-part", required_argument, NULL, OPTION_ON_PART},
    {"on-alert", required_argument, NULL, OPTION_ON_ALERT},
    {"webhook", required_argument, NULL, OPTION_WEBHOOK},
    {"sink", required_argument, NULL, OPTION_SINK},
    {"label", required_argument, NULL, OPTION_LABEL},
    {"log", required_argument, NULL, OPTION_LOG},
    {"quota", required_argument, NULL, OPTION_QUOTA},
    {"total-quota", required_argument, NULL, OPTION_TOTAL_QUOTA},
    {"min-free", required_argument, NULL, OPTION_MIN_FREE},
    {"when-full", required_argument, NULL, OPTION_WHEN_FULL},
    {"stop-timeout", required_argument, NULL, OPTION_STOP_TIMEOUT},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

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

/* Rejects a bad value now rather than at the first client. */
static bool hand_on(struct daemon *d, const char *option, const char *value, struct err *e)
{
    daemon_hand_on(d, option, value);
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

/* Options of `capture` that each session gets. */
static bool parse_handed_on(struct daemon *d, int option, const char *value, struct err *e)
{
    switch (option) {
    case 'm':
        return hand_on(d, "-m", value, e);
    case OPTION_TRACE_VERSION:
        return hand_on(d, "--trace-version", value, e) &&
               file_version_parse(value, &d->trace_version, e) == 0;
    case OPTION_COMPRESSION:
        return hand_on(d, "--compression", value, e) && option_compression(value, &d->container, e);
    case OPTION_SPOOL:
        free(d->spool);
        d->spool = from_here(value, e);
        return d->spool && hand_on(d, "--spool", d->spool, e);
    case OPTION_BUFFER:
        return hand_on(d, "--buffer", value, e);
    case OPTION_ROTATE:
        return hand_on(d, "--rotate", value, e);
    case OPTION_KEEP_LAST:
        return hand_on(d, "--keep-last", value, e);
    case OPTION_MAX_SIZE:
        return hand_on(d, "--max-size", value, e);
    case OPTION_MAX_TIME:
        return hand_on(d, "--max-time", value, e);
    default:
        return false;
    }
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

static bool parse_target(struct daemon *d, const char *value, struct err *e)
{
    const char *port;
    uint64_t n = BROADCAST_PORT;
    const char *host = take_host(d, "--target", value, &port, e);
    return host && (!port || option_u64(port, "--target", 1, 65535, &n, e)) &&
           add_target(d, host, (uint16_t)n, e);
}

/* Its ports are added after all single targets: parse_rest. */
static bool parse_scan(struct daemon *d, const char *value, struct err *e)
{
    const char *port;
    const char *host = take_host(d, "--scan", value, &port, e);
    if (host && port)
        err_set(e, ERR_USAGE, "--scan takes a host without a port, not '%s'", value);
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
static bool parse_filter_address(struct client_filter *f, const char *value, struct err *e)
{
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
        err_set(e, ERR_USAGE, "--filter-address takes an address or ADDRESS/BITS, not '%s'", value);
        return false;
    }
    bits = f->family == AF_INET ? 32 : 128;
    f->bits = (unsigned)bits;
    if (slash && !option_u64(slash + 1, "--filter-address", 0, bits, &bits, e))
        return false;
    f->bits = (unsigned)bits;
    return true;
}

static bool parse_filter(struct daemon *d, int option, const char *value, struct err *e)
{
    uint64_t n;
    switch (option) {
    case OPTION_FILTER_NAME:
        d->filter.name = value;
        return true;
    case OPTION_FILTER_PORT:
        if (!option_u64(value, "--filter-port", 0, 65535, &n, e))
            return false;
        d->filter.port = (uint16_t)n;
        return true;
    case OPTION_FILTER_PID:
        return option_u64(value, "--filter-pid", 1, INT64_MAX, &d->filter.pid, e);
    default:
        return parse_filter_address(&d->filter, value, e);
    }
}

/* Runs without a shell: the value is the path of a program. */
static bool take_command(const char *option, const char *value, const char **out, struct err *e)
{
    *out = value;
    if (strchr(value, '/') && access(value, X_OK) == 0)
        return true;
    err_set(e, ERR_USAGE, "%s takes the path of a program, not '%s'", option, value);
    return false;
}

static bool take_webhook(struct daemon *d, const char *value, struct err *e)
{
    struct web_post *p = web_post_open(value, NULL, NULL, e);
    d->webhook = value;
    web_post_close(p);
    if (!p)
        err_prefix(e, "--webhook");
    return p != NULL;
}

static bool parse_telling(struct daemon *d, int option, const char *value, struct err *e)
{
    int64_t pause;
    switch (option) {
    case OPTION_ALERT:
        return daemon_add_alert(d, value, e);
    case OPTION_ALERT_PAUSE:
        if (!option_time(value, "--alert-pause", &pause, e))
            return false;
        d->alert_pause = (double)pause / 1e9;
        return pause >= 0 || (err_set(e, ERR_USAGE, "--alert-pause cannot be negative"), false);
    case OPTION_ON_FINISH:
        return take_command("--on-finish", value, &d->on_finish, e);
    case OPTION_ON_PART:
        return take_command("--on-part", value, &d->on_part, e);
    case OPTION_ON_ALERT:
        return take_command("--on-alert", value, &d->on_alert, e);
    case OPTION_WEBHOOK:
        return take_webhook(d, value, e);
    default:
        d->log_json = strcmp(value, "json") == 0;
        return d->log_json || strcmp(value, "text") == 0 ||
               refuse_value(e, "--log", "text or json", value);
    }
}

static bool parse_disk(struct daemon *d, int option, const char *value, struct err *e)
{
    int64_t timeout;
    switch (option) {
    case OPTION_QUOTA:
        return format_parse_bytes("--quota", value, &d->quota, e) == 0;
    case OPTION_TOTAL_QUOTA:
        return format_parse_bytes("--total-quota", value, &d->total_quota, e) == 0;
    case OPTION_MIN_FREE:
        return format_parse_bytes("--min-free", value, &d->min_free, e) == 0;
    case OPTION_WHEN_FULL:
        d->pause_when_full = strcmp(value, "pause") == 0;
        return d->pause_when_full || strcmp(value, "end") == 0 ||
               refuse_value(e, "--when-full", "end or pause", value);
    default:
        if (!option_time(value, "--stop-timeout", &timeout, e))
            return false;
        d->stop_timeout = (double)timeout / 1e9;
        return timeout >= 0 || (err_set(e, ERR_USAGE, "--stop-timeout cannot be negative"), false);
    }
}

static bool parse_option(void *ctx, int option, const char *value, struct err *e)
{
    struct daemon *d = ctx;
    uint64_t n;
    switch (option) {
    case 'o':
        d->dir = value;
        return true;
    case 'p':
        if (!option_u64(value, "-p", 1, 65535, &n, e))
            return false;
        d->port = (uint16_t)n;
        return true;
    case OPTION_NAME:
        d->name = value;
        return trace_name_check(value, "--name", e) == 0;
    case OPTION_TARGET:
        return parse_target(d, value, e);
    case OPTION_SCAN:
        return parse_scan(d, value, e);
    case OPTION_FILTER_NAME:
    case OPTION_FILTER_PORT:
    case OPTION_FILTER_PID:
    case OPTION_FILTER_ADDRESS:
        return parse_filter(d, option, value, e);
    case OPTION_LOCAL:
        d->filter.local = true;
        return true;
    case OPTION_MAX_CLIENTS:
        if (!option_u64(value, "--max-clients", 1, 10000, &n, e))
            return false;
        d->max_clients = (unsigned)n;
        return true;
    case OPTION_MEMORY_LIMIT:
        return option_memory_bound(value, &d->memory, e);
    case OPTION_HTTP:
        d->http.address = value;
        return true;
    case OPTION_TOKEN:
        free(d->http.token);
        d->http.token = token_parse(value, e);
        d->http.token_at = *value == '@' ? value : NULL;
        return d->http.token != NULL;
    case OPTION_QUOTA:
    case OPTION_TOTAL_QUOTA:
    case OPTION_MIN_FREE:
    case OPTION_WHEN_FULL:
    case OPTION_STOP_TIMEOUT:
        return parse_disk(d, option, value, e);
    case OPTION_ALERT:
    case OPTION_ALERT_PAUSE:
    case OPTION_ON_FINISH:
    case OPTION_ON_PART:
    case OPTION_ON_ALERT:
    case OPTION_WEBHOOK:
    case OPTION_LOG:
        return parse_telling(d, option, value, e);
    case OPTION_SINK:
        return daemon_set_sink(d, value, e);
    case OPTION_LABEL:
        return daemon_add_label(d, value, e);
    case OPTION_NO_RECOVER:
        d->no_recover = true;
        return true;
    default:
        return parse_handed_on(d, option, value, e);
    }
}

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct daemon *d = ctx;
    if (n > 0)
        err_set(e, ERR_USAGE, "what is '%s' for?", arguments[0]);
    else if (!d->dir || !*d->dir)
        err_set(e, ERR_USAGE, "Output directory is required (-o)");
    else
        return settle_temporary(e) && add_scans(d, e);
    return false;
}

int daemon_parse(struct daemon *d, int argc, char **argv)
{
    const struct command_line line = {
        .letters = "o:p:m:hV",
        .names = long_options,
        .usage = usage,
        .hint = "usage: capture-daemon -o DIR [-p PORT] [-m PERCENT] [--filter-name TEXT] "
                "[--filter-port PORT]\nTry 'tidemark daemon --help'.\n",
        .refused = d->drop_in ? 1 : 2,
        .take = parse_option,
        .rest = parse_rest};
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
