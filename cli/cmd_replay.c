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
    "Prints \"listening on ADDRESS:PORT\" when it is ready.\n";

static const char footer[] =
    "Exit status: 0 played; 2 usage; 3 the recording cannot be read; 5 it cannot listen, or was\n"
    "stopped before any server came.\n";

static bool take_broadcast(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    (void)e;
    ((struct replay_options *)ctx)->announce = value ? value : "127.0.0.1";
    return true;
}

#define FIELD(NAME) OPTION_FIELD(struct replay_options, NAME)

static const struct option_row rows[] = {
    {"--protocol", "N", "the client's protocol number (default: from NAME.s2c.bin)",
     .type = VALUE_NUMBER, .least = 1, FIELD(protocol)},
    {"-a", "ADDRESS", "listen there", "127.0.0.1", FIELD(address)},
    {"-p", "PORT", "listen on this port, 0: on any free one", "8086", .type = VALUE_NUMBER,
     FIELD(port)},
    {"--once", NULL, "end after one server received it (the default)", .type = VALUE_SET,
     .least = 1, FIELD(connections)},
    {"--count", "N", "end after N servers received it; 0: play until stopped", .type = VALUE_NUMBER,
     FIELD(connections)},
    {"--hold", NULL,
     "keep the connection open behind the end, also of a recording without the client's farewell",
     FIELD(hold)},
    {"--rate", "BYTES", "send at most so many bytes per second (64K, 1.5M)", .type = VALUE_BYTES,
     FIELD(rate)},
    {"--broadcast", "[=ADDR]",
     "announce the client by UDP to a loopback address (127.0.0.1:8086) while no server is "
     "connected",
     .take = take_broadcast},
    OPTION_HELP_ROW,
    {0},
};
static const struct option_group groups[] = {{.rows = rows}, {0}};
static const struct option_row positional[] = {{"recording", FIELD(recording)}, {0}};

/* Returns -1 to continue, else the exit status. */
static int parse_arguments(struct replay_options *o, int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .positional = positional};
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
 * If `path` is a journal, opens the recording in it. Returns a descriptor, to which `path` then
 * refers; -1 if it is no journal; -2 with `e`.
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
    struct replay_options options = {.connections = 1};
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
    status = print_error(&e);
out:
    stop_release(&stop);
    replay_free(r);
    if (journal >= 0)
        close(journal);
    return status;
}
