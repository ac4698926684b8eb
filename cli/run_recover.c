#include "cli/run_recover.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/record.h"
#include "cli/options.h"
#include "cli/run_record.h"
#include "cli/run_trace.h"

/* "x.recording" → "x.tracy", allocated. */
static char *name_after(const char *recording)
{
    static const char ending[] = ".recording";
    size_t len = strlen(recording);
    size_t cut = sizeof ending - 1;
    if (len > cut && strcmp(recording + len - cut, ending) == 0)
        len -= cut;
    char *name = malloc(len + sizeof ".tracy");
    if (name)
        snprintf(name, len + sizeof ".tracy", "%.*s.tracy", (int)len, recording);
    return name;
}

static int recover_into(struct run_traces *traces, const struct run_options *o,
                        struct run_record *record, const char *path, struct err *e)
{
    int fd = open(o->recover, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_INPUT, "cannot open %s", o->recover);
    int status = run_record_add(record, fd, false, e);
    close(fd);
    if (status != 0)
        return err_prefix(e, "%s", o->recover);
    if (trace_add_fact(&record->trace, e, "recovered", "%s", o->recover) != 0 ||
        run_record_close(record, e) != 0)
        return -1;
    return run_trace_finish(traces, &record->trace, path, o->replace, e);
}

/* -1 with `e`; else whether a budget was exceeded. */
static int recover(const struct run_options *o, struct err *e)
{
    struct run_traces traces;
    char *path = o->output ? strdup(o->output) : name_after(o->recover);
    if (!path)
        return err_no_memory(e, "the output's name");
    run_traces_init(&traces, o);
    struct run_record *record = run_record_new(o->spool, e);
    bool done = record && recover_into(&traces, o, record, path, e) == 0;
    run_record_free(record);
    bool exceeded = traces.exceeded;
    run_traces_release(&traces);
    free(path);
    return done ? exceeded : -1;
}

int run_recover(const struct run_options *o)
{
    struct err e = {0};
    int status = recover(o, &e);
    if (status < 0)
        print_error(&e);
    return status < 0 ? err_exit_status(&e) : status;
}

int run_recover_recording(struct recover_options *o, struct err *e)
{
    struct run_options options = RUN_OPTIONS_EMPTY;
    options.recover = o->journal;
    options.output = o->output;
    options.replace = o->replace;
    options.spool = o->spool_dir;
    options.report = RUN_NONE;
    options.container = o->container;
    options.resolving.no_debuginfod = true;
    if (o->trace_version)
        options.version = o->trace_version;
    struct stat before, now;
    bool is_file = lstat(o->journal, &before) == 0 && S_ISREG(before.st_mode);
    int status = recover(&options, e);
    if (status < 0)
        return err_exit_status(e);
    /* A symlink to it is not ours to remove. */
    if (!o->keep && is_file && lstat(o->journal, &now) == 0 && now.st_dev == before.st_dev &&
        now.st_ino == before.st_ino)
        (void)unlink(o->journal);
    return status;
}
