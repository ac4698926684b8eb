/*
 * tidemark recover: makes a trace of what an interrupted recording left on disk. The first bytes
 * identify its kind.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options/options.h"
#include "client/recording_format.h"
#include "run/run_recover.h"
#include "server/capture/journal.h"
#include "server/capture/recover.h"
#include "trace/file/file_version.h"

static const char usage[] =
    "usage: tidemark recover [OPTIONS] JOURNAL\n"
    "\n"
    "Makes a trace of the journal that a capture left when it was killed, or found no room to\n"
    "save: everything up to the last whole frame that arrived. The journal of OUT is the folder\n"
    "OUT.journal. When all of it is saved it is removed; a damaged one is moved to\n"
    "OUT.journal.damaged. Of a folder with journals each is finished that no capture is writing.\n"
    "JOURNAL may also be a recording of `tidemark run`, tidemark-run.PID/*.recording.\n"
    "\n"
    "  -o, --output FILE       the trace to write (x.recovered.tracy beside x.tracy.journal)\n"
    "  -f, --force             replace FILE\n"
    "      --keep              leave the journal where it is\n"
    "      --trace-version V   file version to write (default: the client's generation)\n"
    "      --compression SPEC  lz4, lz4hc, zstd or zstd:LEVEL (default: by version)\n"
    "      --spool DIR         where event data that does not fit in memory goes (FILE's folder)\n"
    "      --memory-limit SIZE|PERCENT%  keep this process's memory below by moving event data to\n"
    "                          the spool: 96M at least\n"
    "  -h, --help              this text\n"
    "\n"
    "Exit status: 0 saved; 2 usage; 3 the journal is damaged, or the client's bytes cannot be\n"
    "decoded (what came before is saved); 4 output exists or cannot be written, or the journal is\n"
    "in use, or there is not memory for all of it (what came before is saved).\n";

enum { OPTION_KEEP = 256, OPTION_TRACE_VERSION, OPTION_COMPRESSION, OPTION_SPOOL, OPTION_MEMORY };

static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'},
    {"force", no_argument, NULL, 'f'},
    {"keep", no_argument, NULL, OPTION_KEEP},
    {"trace-version", required_argument, NULL, OPTION_TRACE_VERSION},
    {"compression", required_argument, NULL, OPTION_COMPRESSION},
    {"spool", required_argument, NULL, OPTION_SPOOL},
    {"memory-limit", required_argument, NULL, OPTION_MEMORY},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool parse_option(void *ctx, int option, const char *value, struct err *e)
{
    struct recover_options *o = ctx;
    switch (option) {
    case 'o':
        o->output = value;
        return *value || (err_set(e, ERR_USAGE, "-o wants a name"), false);
    case 'f':
        o->replace = true;
        return true;
    case OPTION_KEEP:
        o->keep = true;
        return true;
    case OPTION_TRACE_VERSION:
        return file_version_parse(value, &o->trace_version, e) == 0;
    case OPTION_COMPRESSION:
        return option_compression(value, &o->container, e);
    case OPTION_SPOOL:
        o->spool_dir = value;
        return true;
    case OPTION_MEMORY:
        return option_memory_bound(value, &o->memory, e);
    default:
        return false;
    }
}

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct recover_options *o = ctx;
    if (n == 1)
        o->journal = arguments[0];
    else if (n == 0)
        err_set(e, ERR_USAGE, "no journal");
    else
        err_set(e, ERR_USAGE, "what is '%s' for?", arguments[1]);
    return n == 1;
}

/* A segment was named: the journal is the folder that it lies in. */
static int recover_segment(struct recover_options *o, struct err *e)
{
    const char *slash = strrchr(o->journal, '/');
    char *folder = slash
                       ? strndup(o->journal, slash == o->journal ? 1 : (size_t)(slash - o->journal))
                       : realpath(".", NULL);
    if (!folder) {
        err_no_memory(e, "the journal's name");
        return err_exit_status(e);
    }
    o->journal = folder;
    int status = recover_journal(o, e);
    free(folder);
    return status;
}

/* The function that finishes a file with this magic number. */
static const struct {
    const char *magic;
    size_t size;
    int (*recover)(struct recover_options *o, struct err *e);
} kinds[] = {
    {journal_magic, sizeof journal_magic, recover_segment},
    {REC_MAGIC, sizeof REC_MAGIC - 1, run_recover_recording},
};

/* Reads up to 16 bytes of a regular file; -1 with `e`. */
static ssize_t first_bytes(const char *path, uint8_t out[16], struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, out, 16);
    if (n < 0)
        err_errno(e, ERR_INPUT, "%s", path);
    if (fd >= 0)
        close(fd);
    return n;
}

/* A journal, or a folder with journals. */
static int recover_what_is_in(struct recover_options *o, struct err *e)
{
    unsigned found = 0;
    int status = o->output ? 0 : recover_folder(o->journal, o, &found, e);
    return found || e->code != ERR_NONE ? status : recover_journal(o, e);
}

static int recover_any(struct recover_options *o, struct err *e)
{
    struct stat st;
    uint8_t bytes[16] = {0};
    if (stat(o->journal, &st) == 0 && S_ISDIR(st.st_mode))
        return recover_what_is_in(o, e);
    ssize_t n = first_bytes(o->journal, bytes, e);
    for (size_t i = 0; n >= 0 && i < sizeof kinds / sizeof kinds[0]; i++) {
        if ((size_t)n >= kinds[i].size && memcmp(bytes, kinds[i].magic, kinds[i].size) == 0)
            return kinds[i].recover(o, e);
    }
    if (n >= 0)
        err_set(e, ERR_INPUT, "%s is nothing that can be recovered", o->journal);
    return err_exit_status(e);
}

int cmd_recover(int argc, char **argv)
{
    static const struct command_line line = {.letters = "o:fh",
                                             .names = long_options,
                                             .usage = usage,
                                             .hint = "Try 'tidemark recover --help'.\n",
                                             .take = parse_option,
                                             .rest = parse_rest};
    struct recover_options options = {.container = container_options_default(),
                                      .progress = isatty(STDOUT_FILENO)};
    struct err e = {0};
    int status = command_line_parse(&line, &options, argc, argv);
    if (status >= 0)
        return status;
    status = recover_any(&options, &e);
    if (e.code != ERR_NONE)
        print_error(&e);
    return status;
}
