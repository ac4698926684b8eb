#include "run/run_recover.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/format.h"
#include "base/print_error.h"
#include "client/recording_format.h"
#include "run/run_memory.h"
#include "run/run_record.h"
#include "run/run_trace.h"

/* "x.recording" → "x.tracy"; the caller frees it. */
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

/* Of a recording with --buffer: a trace of what is left is no trace of the program. */
static int note_given_back(struct run_record *record, int fd, uint64_t *bytes, struct err *e)
{
    struct rec_header h;
    char n[FORMAT_SIZE];
    if (recording_read_header(fd, &h, e) != 0)
        return -1;
    *bytes = (uint64_t)h.released * REC_UNIT;
    return *bytes == 0 ? 0
                       : trace_add_fact(&record->trace, e, "incomplete",
                                        "%s of the recording had been given back for --buffer",
                                        format_bytes(n, *bytes));
}

static int recover_into(struct run_traces *traces, const struct run_options *o, const char *from,
                        struct run_record *record, const char *path, struct err *e)
{
    char n[FORMAT_SIZE];
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_INPUT, "cannot open %s", from);
    uint64_t given_back;
    int status = run_record_add(record, fd, false, e);
    if (status == 0)
        status = note_given_back(record, fd, &given_back, e);
    close(fd);
    if (status != 0)
        return err_prefix(e, "%s", from);
    if (trace_add_fact(&record->trace, e, "recovered", "%s", from) != 0 ||
        run_memory_recover(from, record, e) != 0 || run_record_close(record, e) != 0)
        return -1;
    status = run_trace_finish(traces, &record->trace, 0, path, o->replace, e);
    if (status != 0 || given_back == 0)
        return status;
    return err_set(e, ERR_INPUT,
                   "%s: what is saved lacks %s of the recording, which had been given back for "
                   "--buffer",
                   from, format_bytes(n, given_back));
}

/* -1 with `e`; else whether a budget was exceeded. */
static int recover(const struct run_options *o, const char *from, struct err *e)
{
    struct run_traces traces;
    char *path = o->output ? strdup(o->output) : name_after(from);
    if (!path)
        return err_no_memory(e, "the output's name");
    run_traces_init(&traces, o);
    struct run_record *record = run_record_new(o->spool, o->figures, e);
    if (record)
        record->quiet = o->quiet;
    bool done = record && recover_into(&traces, o, from, record, path, e) == 0;
    run_record_free(record);
    bool exceeded = traces.exceeded;
    run_traces_release(&traces);
    free(path);
    return done ? exceeded : -1;
}

static int recover_one(const struct run_options *o, const char *from)
{
    struct err e = {0};
    int status = recover(o, from, &e);
    if (status < 0)
        print_error(&e);
    return status < 0 ? err_exit_status(&e) : status;
}

static int is_recording(const struct dirent *entry)
{
    static const char ending[] = ".recording";
    size_t len = strlen(entry->d_name), tail = sizeof ending - 1;
    return len > tail && strcmp(entry->d_name + len - tail, ending) == 0;
}

/* A process that ended before it recorded anything has left an empty file. */
static bool is_empty(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_size == 0;
}

/* Recovers each to a trace beside it. Returns the highest exit status. */
static int recover_list(const struct run_options *o, struct dirent *const *list, int count)
{
    int status = 0;
    for (int i = 0; i < count; i++) {
        struct buf path = {0};
        buf_printf(&path, "%s/%s", o->recover, list[i]->d_name);
        if (!is_empty(buf_str(&path))) {
            int one = recover_one(o, buf_str(&path));
            status = one > status ? one : status;
        }
        buf_release(&path);
    }
    return status;
}

static int finish_folder(const struct run_options *o)
{
    struct err e = {0};
    struct dirent **list = NULL;
    int count = scandir(o->recover, &list, is_recording, alphasort);
    if (count < 0)
        err_errno(&e, ERR_INPUT, "cannot read %s", o->recover);
    else if (count == 0)
        err_set(&e, ERR_INPUT, "%s: no recording is in this folder", o->recover);
    else if (count > 1 && o->output)
        err_set(&e, ERR_USAGE,
                "-o names one trace, but %s holds %d recordings; leave it out, or name one of them",
                o->recover, count);
    int status = e.code ? err_exit_status(&e) : recover_list(o, list, count);
    if (e.code)
        print_error(&e);
    for (int i = 0; i < count; i++)
        free(list[i]);
    free(list);
    return status;
}

int run_recover(const struct run_options *o)
{
    struct stat st;
    bool folder = stat(o->recover, &st) == 0 && S_ISDIR(st.st_mode);
    return folder ? finish_folder(o) : recover_one(o, o->recover);
}

int run_recover_recording(struct recover_options *o, struct err *e)
{
    struct run_options options = RUN_OPTIONS_EMPTY;
    options.recover = o->journal;
    options.output = o->output;
    options.replace = o->replace;
    options.quiet = !o->progress;
    options.spool = o->spool_dir;
    options.report = RUN_NONE;
    options.container = o->container;
    options.resolving.no_debuginfod = true;
    if (o->trace_version)
        options.version = o->trace_version;
    struct stat before, now;
    bool is_file = lstat(o->journal, &before) == 0 && S_ISREG(before.st_mode);
    int status = recover(&options, o->journal, e);
    if (status < 0)
        return err_exit_status(e);
    /* A symlink to the recording is not removed. */
    if (!o->keep && is_file && lstat(o->journal, &now) == 0 && now.st_dev == before.st_dev &&
        now.st_ino == before.st_ino)
        collected_unlink(o->journal);
    return status;
}
