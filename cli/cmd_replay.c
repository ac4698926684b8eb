/* tidemark replay: a recorded client, played to the server that connects. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "server/capture/journal_read.h"
#include "server/capture/replay.h"
#include "server/net/stop.h"

static const char usage[] =
    "usage: tidemark replay RECORDING [OPTIONS]\n"
    "\n"
    "Plays a recorded client to the server that connects: RECORDING (NAME.c2s.bin, or - for\n"
    "standard input) holds the bytes that the client sent. Another protocol number than the\n"
    "client's is answered as a client would, so a server may try several. RECORDING may also be\n"
    "the journal of a capture that was cut off, see `tidemark recover`.\n"
    "Prints \"listening on ADDRESS:PORT\" when it is ready.\n"
    "\n"
    "      --protocol N        the client's protocol number (default: from NAME.s2c.bin)\n"
    "  -a ADDRESS              listen there (127.0.0.1)\n"
    "  -p PORT                 listen on this port (8086); 0 takes any free one\n"
    "      --once              end after one server had it (the default)\n"
    "      --count N           end after N servers had it; 0: play until stopped\n"
    "      --hold              keep the connection open behind the end, also of a recording\n"
    "                          without the client's farewell\n"
    "      --rate BYTES        send at most so many bytes per second (64K, 1.5M)\n"
    "      --broadcast[=ADDR]  announce the client by UDP to a loopback address\n"
    "                          (127.0.0.1:8086) while no server is connected\n"
    "  -h, --help              this text\n"
    "\n"
    "Exit status: 0 played; 2 usage; 3 the recording cannot be read; 5 it cannot listen, or was\n"
    "stopped before any server came.\n";

enum {
    OPTION_PROTOCOL = 256,
    OPTION_ONCE,
    OPTION_COUNT,
    OPTION_HOLD,
    OPTION_RATE,
    OPTION_BROADCAST,
};

static const struct option long_options[] = {
    {"protocol", required_argument, NULL, OPTION_PROTOCOL},
    {"once", no_argument, NULL, OPTION_ONCE},
    {"count", required_argument, NULL, OPTION_COUNT},
    {"hold", no_argument, NULL, OPTION_HOLD},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"broadcast", optional_argument, NULL, OPTION_BROADCAST},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool parse_option(void *ctx, int option, const char *value, struct err *e)
{
    struct replay_options *o = ctx;
    uint64_t n;
    switch (option) {
    case 'a':
        o->address = value;
        return true;
    case 'p':
        if (!option_u64(value, "-p", 0, 65535, &n, e))
            return false;
        o->port = (uint16_t)n;
        return true;
    case OPTION_PROTOCOL:
        if (!option_u64(value, "--protocol", 1, UINT32_MAX, &n, e))
            return false;
        o->protocol = (uint32_t)n;
        return true;
    case OPTION_ONCE:
        o->connections = 1;
        return true;
    case OPTION_COUNT:
        return option_u64(value, "--count", 0, UINT64_MAX, &o->connections, e);
    case OPTION_HOLD:
        o->hold = true;
        return true;
    case OPTION_RATE:
        return format_parse_bytes("--rate", value, &o->rate, e) == 0;
    case OPTION_BROADCAST:
        o->announce = value ? value : "127.0.0.1";
        return true;
    default:
        return false;
    }
}

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct replay_options *o = ctx;
    if (n == 1)
        o->recording = arguments[0];
    else if (n == 0)
        err_set(e, ERR_USAGE, "no recording");
    else
        err_set(e, ERR_USAGE, "what is '%s' for?", arguments[1]);
    return n == 1;
}

/* Returns -1 to go on, else the exit status. */
static int parse_arguments(struct replay_options *o, int argc, char **argv)
{
    const struct command_line line = {.letters = "a:p:h",
                                      .names = long_options,
                                      .usage = usage,
                                      .hint = "Try 'tidemark replay --help'.\n",
                                      .take = parse_option,
                                      .rest = parse_rest};
    return command_line_parse(&line, o, argc, argv);
}

static void print_end(const struct replay_stats *s)
{
    char bytes[FORMAT_SIZE], queries[FORMAT_SIZE];
    fprintf(stderr, "played to %" PRIu64 " %s: %s sent, %s queries drained", s->connections,
            s->connections == 1 ? "server" : "servers", format_bytes_exact(bytes, s->bytes),
            format_count(queries, s->queries));
    if (s->mismatches)
        fprintf(stderr, "; %" PRIu64 " sent away with a protocol mismatch", s->mismatches);
    fputc('\n', stderr);
}

/*
 * A journal is played as the recording that it holds. Returns the descriptor that `path` names
 * then, -1 when it is no journal, -2 with `e`.
 */
static int open_journal(struct replay_options *o, char path[32], struct err *e)
{
    struct stat st;
    uint32_t protocol;
    if (stat(o->recording, &st) != 0 || !S_ISDIR(st.st_mode))
        return -1;
    struct journal_reader *r = journal_reader_open(o->recording, e);
    int fd = r ? journal_read_recording(r, &protocol, e) : -1;
    journal_reader_close(r);
    if (fd < 0)
        return -2;
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    o->recording = path;
    if (o->protocol == 0)
        o->protocol = protocol;
    return fd;
}

int cmd_replay(int argc, char **argv)
{
    struct replay_options options = {.address = "127.0.0.1", .port = 8086, .connections = 1};
    struct err e = {0};
    struct stop stop = {.fd = -1};
    bool stopped = false;
    int status = parse_arguments(&options, argc, argv);
    if (status >= 0)
        return status;
    char path[32];
    int journal = open_journal(&options, path, &e);
    struct replay *r = journal == -2 ? NULL : replay_new(&options, &e);
    if (!r || stop_init(&stop, &e) < 0)
        goto bad;
    printf("listening on %s\n", replay_address(r));
    if (fflush(stdout) != 0) {
        err_errno(&e, ERR_OUTPUT, "standard output");
        goto bad;
    }
    if (replay_run(r, &stop, &stopped, &e) < 0)
        goto bad;
    print_end(replay_stats(r));
    status = stopped && replay_stats(r)->connections == 0 ? 5 : 0;
    goto out;
bad:
    print_error(&e);
    status = err_exit_status(&e);
out:
    stop_release(&stop);
    replay_free(r);
    if (journal >= 0)
        close(journal);
    return status;
}
