/*
 * tidemark recover: makes a trace of what an interrupted recording left on disk. The first bytes
 * identify its kind.
 */

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

static const char usage[] =
    "usage: tidemark recover [OPTIONS] JOURNAL\n"
    "\n"
    "Makes a trace of the journal that a capture left when it was killed, or found no room to\n"
    "save: everything up to the last whole frame that arrived. The journal of OUT is the folder\n"
    "OUT.journal. When all of it is saved it is removed; a damaged one is moved to\n"
    "OUT.journal.damaged. Of a folder with journals each is finished that no capture is writing.\n"
    "JOURNAL may also be a recording of `tidemark run`, tidemark-run.PID/*.recording.\n";

static const char footer[] =
    "Exit status: 0 saved; 2 usage; 3 the journal is damaged, or the client's bytes cannot be\n"
    "decoded (what came before is saved); 4 output exists or cannot be written, or the journal is\n"
    "in use, or there is not memory for all of it (what came before is saved).\n";

struct recovering {
    struct recover_options options;
    bool quiet;
};

static bool take_output(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    ((struct recovering *)ctx)->options.output = value;
    return *value || (err_set(e, ERR_USAGE, "-o wants a name"), false);
}

#define FIELD(NAME) OPTION_FIELD(struct recovering, options.NAME)

static const struct option_row rows[] = {
    {"--output", "FILE", "the trace to write (x.recovered.tracy beside x.tracy.journal)",
     .letter = 'o', .take = take_output},
    {"--force", NULL, "replace FILE", .letter = 'f', FIELD(replace)},
    {"--keep", NULL, "leave the journal where it is", FIELD(keep)},
    {"--trace-version", "V", "file version to write (default: the client's generation)",
     .type = VALUE_FILE_VERSION, FIELD(trace_version)},
    {"--compression", "SPEC", "lz4, lz4hc, zstd or zstd:LEVEL (default: by version)",
     .type = VALUE_COMPRESSION, FIELD(container)},
    {"--spool", "DIR", "where event data that does not fit in memory goes (FILE's folder)",
     FIELD(spool_dir)},
    {"--memory-limit", "SIZE|PERCENT%",
     "keep this process's memory below by moving event data to the spool: 96M at least",
     .type = VALUE_MEMORY_BOUND, FIELD(memory)},
    QUIET_ROW(struct recovering, quiet),
    OPTION_HELP_ROW,
    {0},
};
static const struct option_group groups[] = {{.rows = rows}, {0}};
static const struct option_row positional[] = {{"journal", FIELD(journal)}, {0}};

/* The argument is a segment: its folder is the journal. */
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
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .positional = positional};
    struct recovering c = {.options.container = container_options_default()};
    struct err e = {0};
    int status = command_line_parse(&line, &c, argc, argv);
    if (status >= 0)
        return status;
    c.options.progress = !c.quiet;
    status = recover_any(&c.options, &e);
    if (e.code != ERR_NONE)
        print_error(&e);
    return status;
}
