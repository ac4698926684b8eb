/*
 * tidemark daemon, and the drop-in for tracy-capture-daemon: hears clients announce themselves and
 * captures every one that matches, each in a process of its own and to a trace of its own.
 */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "cli/captures.h"
#include "cli/commands.h"
#include "cli/official.h"
#include "cli/options.h"
#include "cli/preload.h"
#include "protocol/version.h"
#include "server/discovery.h"
#include "server/stop.h"
#include "trace/version.h"

#define REFRESH_MS 500
#define CLIENTS_DEFAULT 64
#define ANNOUNCEMENTS_MAX 256u /* taken before signals and captures are looked after */

static const char usage[] =
    "usage: tidemark daemon -o DIR [OPTIONS]\n"
    "\n"
    "Hears Tracy clients announce themselves and captures every one that matches, each to a file\n"
    "of its own in DIR: PROGRAM_ADDRESS_PORT.tracy, with _1, _2, … when that exists already.\n"
    "\n"
    "  -o, --output DIR        where the traces go; made when it is not there\n"
    "  -p, --port PORT         UDP port of the announcements (8086)\n"
    "  -m, --memory PERCENT    end a capture that holds so much of the physical memory\n"
    "      --filter-name TEXT  only clients whose program name contains TEXT\n"
    "      --filter-port PORT  only clients that listen on PORT\n"
    "      --local             only clients of this host\n"
    "      --max-clients N     capture so many at a time (64)\n"
    "      --trace-version V   file version to write (default: each client's generation)\n"
    "      --compression SPEC  lz4, lz4hc, zstd (default) or zstd:LEVEL\n"
    "      --spool DIR         where event data that does not fit in memory goes\n"
    "      --buffer SIZE       event data of a client kept in memory (96M)\n"
    "  -h, --help              this text\n"
    "  -V, --version           the version\n"
    "\n"
    "A program that ends has its trace saved, and is captured again when it comes back. SIGINT,\n"
    "SIGTERM and SIGHUP stop all captures and save them.\n"
    "Exit status: 0 all saved; 2 usage; 4 a trace or DIR cannot be written; 5 cannot listen.\n";

#define OPTIONS_MAX 16

struct daemon {
    const char *dir;
    uint16_t port;
    const char *filter_name;
    uint16_t filter_port; /* 0: any */
    bool local;
    unsigned max_clients;
    bool drop_in;
    bool terminal;
    const char *options[OPTIONS_MAX + 1]; /* for each capture, NULL at the end */
    unsigned option_count;
    struct captures captures;
    struct stop stop;
    unsigned stops; /* passed on to the captures */
    int socket;
    bool full_told;   /* that no more clients can be captured now */
    bool save_failed; /* a trace could not be written */
    struct pollfd *polled;
    size_t polled_room;
};

enum {
    OPTION_FILTER_NAME = 256,
    OPTION_FILTER_PORT,
    OPTION_LOCAL,
    OPTION_MAX_CLIENTS,
    OPTION_TRACE_VERSION,
    OPTION_COMPRESSION,
    OPTION_SPOOL,
    OPTION_BUFFER,
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
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

/* An option that is handed on to each capture. The last of a kind counts, as everywhere. */
static void hand_on(struct daemon *d, const char *option, const char *value)
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

/* Better to refuse a bad value now than at the first client. */
static bool parse_handed_on(struct daemon *d, int option, const char *value, struct err *e)
{
    struct container_options container = container_options_default();
    uint32_t version;
    uint64_t n;
    switch (option) {
    case 'm':
        hand_on(d, "-m", value);
        return option_u64(value, "-m", 1, 999, &n, e);
    case OPTION_TRACE_VERSION:
        hand_on(d, "--trace-version", value);
        return file_version_parse(value, &version, e) == 0;
    case OPTION_COMPRESSION:
        hand_on(d, "--compression", value);
        return option_compression(value, &container, e);
    case OPTION_SPOOL:
        hand_on(d, "--spool", value);
        return true;
    case OPTION_BUFFER:
        hand_on(d, "--buffer", value);
        return format_parse_bytes("--buffer", value, &n, e) == 0;
    default:
        return false;
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
    case OPTION_FILTER_NAME:
        d->filter_name = value;
        return true;
    case OPTION_FILTER_PORT:
        if (!option_u64(value, "--filter-port", 0, 65535, &n, e))
            return false;
        d->filter_port = (uint16_t)n;
        return true;
    case OPTION_LOCAL:
        d->local = true;
        return true;
    case OPTION_MAX_CLIENTS:
        if (!option_u64(value, "--max-clients", 1, 10000, &n, e))
            return false;
        d->max_clients = (unsigned)n;
        return true;
    default:
        return parse_handed_on(d, option, value, e);
    }
}

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    const struct daemon *d = ctx;
    if (n > 0)
        err_set(e, ERR_USAGE, "what is '%s' for?", arguments[0]);
    else if (!d->dir || !*d->dir)
        err_set(e, ERR_USAGE, "Output directory is required (-o)");
    else
        return true;
    return false;
}

/* Returns -1 to go on, else the exit status. */
static int parse_arguments(struct daemon *d, int argc, char **argv)
{
    const struct command_line line = {
        .letters = "o:p:m:hV",
        .names = long_options,
        .usage = usage,
        .hint = "usage: capture-daemon -o DIR [-p PORT] [-m PERCENT] [--filter-name TEXT] "
                "[--filter-port PORT]\n`tidemark daemon --help` tells more.\n",
        .refused = d->drop_in ? 1 : 2,
        .take = parse_option,
        .rest = parse_rest};
    return command_line_parse(&line, d, argc, argv);
}

/* mkdir -p */
static int make_folder(const char *path, struct err *e)
{
    char *copy = strdup(path);
    if (!copy)
        return err_no_memory(e, "a folder's name");
    for (char *p = copy + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        (void)mkdir(copy, 0777);
        *p = '/';
    }
    free(copy);
    struct stat st;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return err_errno(e, ERR_OUTPUT, "cannot make the folder %s", path);
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return err_set(e, ERR_OUTPUT, "%s is no folder", path);
    if (access(path, W_OK | X_OK) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot write into %s", path);
    return 0;
}

/* ---- what is shown */

static const char *bytes_text(const struct daemon *d, char out[FORMAT_SIZE], uint64_t bytes)
{
    return d->drop_in ? official_bytes(out, bytes) : format_bytes(out, bytes);
}

static void print_client(const struct capture *one)
{
    struct buf name = {0};
    format_terminal(&name, view_of(one->client.broadcast.name));
    printf("[%u] %s @ %s:%u", one->number, buf_str(&name), one->client.address,
           one->client.broadcast.port);
    buf_release(&name);
}

/* A line for each thing that happens, where no screen can be drawn. */
static void said(void *ctx, const struct capture *one)
{
    const struct daemon *d = ctx;
    if (d->terminal)
        return;
    print_client(one);
    printf(": %s\n", one->last_words);
    fflush(stdout);
}

static void draw(const struct daemon *d)
{
    if (!d->terminal)
        return;
    printf("\033[H\033[J[%u client%s] Listening on UDP port %u... Press Ctrl+C to stop\n\n",
           d->captures.running, d->captures.running == 1 ? "" : "s", d->port);
    for (size_t i = 0; i < d->captures.list.len; i++) {
        const struct capture *one = d->captures.list.at[i];
        char bytes[FORMAT_SIZE];
        printf("  ");
        print_client(one);
        if (one->state == CAPTURE_SAVED)
            printf("    finished (%s)\n", bytes_text(d, bytes, one->bytes));
        else
            printf("    %s\n", one->last_words ? one->last_words : "connecting...");
    }
    fflush(stdout);
}

static void print_summary(const struct daemon *d)
{
    uint64_t total = 0;
    unsigned files = 0;
    char bytes[FORMAT_SIZE];
    printf("\n=== Capture Summary ===\n");
    for (size_t i = 0; i < d->captures.list.len; i++) {
        const struct capture *one = d->captures.list.at[i];
        printf("  ");
        print_client(one);
        if (one->state == CAPTURE_SAVED) {
            printf(" -> %s (%s)\n", one->output, bytes_text(d, bytes, one->bytes));
            total += one->bytes;
            files++;
        } else {
            printf(" not captured: %s\n", one->last_words ? one->last_words : "it said nothing");
        }
    }
    printf("\nTotal: %u file%s, %s\n", files, files == 1 ? "" : "s", bytes_text(d, bytes, total));
}

/* ---- clients */

static bool matches(const struct daemon *d, const struct broadcast *b)
{
    return b->active_time >= 0 && (!d->filter_name || strstr(b->name, d->filter_name)) &&
           (!d->filter_port || b->port == d->filter_port);
}

/*
 * Whether a client that announces itself is to be captured now. One that was saved announces itself
 * again when it can be captured on demand, or when its process id has gone to another program.
 */
static bool is_wanted(const struct capture *known, const struct broadcast *b)
{
    if (!known || known->state == CAPTURE_SAVED || known->state == CAPTURE_FAILED)
        return true;
    return known->state == CAPTURE_REFUSED && b->active_time < known->active_time;
}

static void consider(struct daemon *d, const struct announcement *a)
{
    struct err e = {0};
    struct capture *known = captures_find(&d->captures, a);
    if (!matches(d, &a->broadcast) || !is_wanted(known, &a->broadcast)) {
        if (known)
            known->active_time = a->broadcast.active_time;
        return;
    }
    if (d->captures.running >= d->max_clients) {
        if (!d->full_told)
            fprintf(stderr,
                    "tidemark: %u clients are being captured, further ones must wait "
                    "(--max-clients)\n",
                    d->captures.running);
        d->full_told = true;
        return;
    }
    d->full_told = false;
    const int ours[] = {d->socket, d->stop.fd};
    const struct capture *one = captures_begin(&d->captures, a, ours, 2, &e);
    if (!one)
        print_error(&e);
}

static void finished(struct daemon *d, const struct capture *one)
{
    if (one->status == 4 || one->status == 5 || one->status >= 128)
        d->save_failed = true;
    if (one->status >= 128)
        fprintf(stderr, "tidemark: the capture of %s:%u was killed by signal %d\n",
                one->client.address, one->client.broadcast.port, one->status - 128);
}

/* Waits until something happens, and takes note of it. */
static int turn(struct daemon *d, bool listening, struct err *e)
{
    size_t n = 0, most = d->captures.list.len + 2;
    if (d->polled_room < most) {
        struct pollfd *grown = realloc(d->polled, most * 2 * sizeof *grown);
        if (!grown)
            return err_no_memory(e, "waiting for clients");
        d->polled = grown;
        d->polled_room = most * 2;
    }
    d->polled[n++] = (struct pollfd){.fd = d->stop.fd, .events = POLLIN};
    d->polled[n++] = (struct pollfd){.fd = listening ? d->socket : -1, .events = POLLIN};
    for (size_t i = 0; i < d->captures.list.len; i++)
        d->polled[n++] = (struct pollfd){.fd = d->captures.list.at[i]->words, .events = POLLIN};
    if (poll(d->polled, n, REFRESH_MS) < 0 && errno != EINTR)
        return err_errno(e, ERR_CONNECT, "cannot wait for clients");
    for (size_t i = 2; i < n; i++) {
        struct capture *one = d->captures.list.at[i - 2];
        if (one->words < 0 || !d->polled[i].revents)
            continue;
        captures_listen(&d->captures, one, said, d);
        if (one->state != CAPTURE_RUNNING)
            finished(d, one);
    }
    struct announcement a;
    for (unsigned i = 0; listening && i < ANNOUNCEMENTS_MAX; i++) {
        if (!discovery_next(d->socket, d->local, &a))
            break;
        consider(d, &a);
    }
    return 0;
}

/* Until a signal; then until all captures are saved. A further signal is passed on too. */
static int serve(struct daemon *d, struct err *e)
{
    while (!stop_asked(&d->stop)) {
        if (turn(d, true, e) != 0)
            return -1;
        captures_forget(&d->captures);
        draw(d);
    }
    printf("\nShutting down... waiting for %u client%s to finish\n", d->captures.running,
           d->captures.running == 1 ? "" : "s");
    fflush(stdout);
    while (d->captures.running) {
        (void)stop_asked(&d->stop);
        if (d->stops < d->stop.count) {
            captures_stop(&d->captures);
            d->stops = d->stop.count;
        }
        if (turn(d, false, e) != 0)
            return -1;
    }
    return 0;
}

static int daemon_run(struct daemon *d)
{
    struct err e = {0};
    if (make_folder(d->dir, &e) != 0 || stop_init(&d->stop, &e) != 0 ||
        (d->socket = discovery_open(d->port, &e)) < 0) {
        print_error(&e);
        return d->drop_in ? 1 : err_exit_status(&e);
    }
    printf("Listening on 0.0.0.0:%u... Press Ctrl+C to stop\nOutput directory: %s\n", d->port,
           d->dir);
    fflush(stdout);
    int status = serve(d, &e);
    if (status != 0)
        print_error(&e);
    print_summary(d);
    if (d->drop_in)
        return 0;
    return status != 0 ? err_exit_status(&e) : d->save_failed ? 4 : 0;
}

static int daemon_main(int argc, char **argv, bool drop_in)
{
    struct daemon d = {.port = BROADCAST_PORT,
                       .max_clients = CLIENTS_DEFAULT,
                       .drop_in = drop_in,
                       .socket = -1,
                       .stop = {.fd = -1},
                       .terminal = isatty(STDOUT_FILENO)};
    int status = parse_arguments(&d, argc, argv);
    d.captures.dir = d.dir;
    d.captures.options = d.options;
    if (d.terminal) {
        hand_on(&d, "--progress", "0.5");
    }
    if (status < 0) {
        preload_drop(!drop_in, argv, NULL, 0);
        signal(SIGPIPE, SIG_IGN);
        status = daemon_run(&d);
    }
    captures_release(&d.captures);
    free(d.polled);
    if (d.socket >= 0)
        close(d.socket);
    stop_release(&d.stop);
    return status;
}

int cmd_daemon(int argc, char **argv)
{
    return daemon_main(argc, argv, false);
}

int cmd_daemon_drop_in(int argc, char **argv)
{
    return daemon_main(argc, argv, true);
}
