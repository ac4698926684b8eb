#include "cli/run_input.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/figures/stream_figures.h"
#include "base/format.h"
#include "base/print_error.h"
#include "report/write/progress.h"
#include "server/capture/stored_summary.h"
#include "trace/load/load.h"
#include "trace/load/load_beside.h"

/* ---- traces */

static int take_summary(struct run_inputs *r, const char *path, struct trace *t,
                        const struct summary_options *options, struct err *e)
{
    struct summary s;
    struct run_figures f;
    if (summary_build(&s, t, options, e) != 0)
        return -1;
    int status = run_figures_take(&f, path, &s, e);
    f.summary.all_leaks = options->all_leaks;
    summary_release(&s);
    if (status != 0)
        return -1;
    if (vec_push(&r->list, f))
        return 0;
    run_figures_release(&f);
    return err_no_memory(e, "runs");
}

/* Counts while the file passes, since no question needs the events. */
static int count_trace(struct run_inputs *r, const char *path, struct trace *t,
                       const struct summary_options *options, struct err *e)
{
    struct summary_options wanted = *options;
    struct stream_figures stream;
    struct stored_figures stored;
    int found = stored_summary_load(&stored, t, path, options->skip, e);
    if (found < 0)
        return -1;
    if (found == 1) {
        wanted.stored = &stored;
        int status = take_summary(r, path, t, &wanted, e);
        stored_figures_release(&stored);
        return status;
    }
    int status = summary_load(&stream, t, path, &wanted, NULL, NULL, e);
    if (status == 0)
        status = trace_load_resident(t, path, e);
    if (status == 0)
        status = take_summary(r, path, t, &wanted, e);
    stream_figures_release(&stream);
    return status;
}

static int add_trace(struct run_inputs *r, const char *path,
                     const struct run_input_options *options, struct err *e)
{
    static const struct skiplist built_in = {0};
    struct skiplist skip = options->skip ? *options->skip : built_in;
    skip.names_alone = true;
    struct summary_options wanted = {
        .by = GROUP_SITE, .only = options->only, .skip = &skip, .all_leaks = options->all_leaks};
    const struct trace_load_options more = {.zones = options->only && options->only->zone,
                                            .frames = options->only && options->only->has_frame};
    const struct trace_options store = {.resident_budget = options->resident_budget};
    struct trace t;
    if (trace_init(&t, &store, e) != 0)
        return -1;
    struct progress progress = progress_of_file(path, options->quiet);
    progress_watch(&progress, &t);
    bool narrow = options->only && selection_is_narrow(options->only);
    int status = narrow ? trace_load_with(&t, path, &more, NULL, NULL, e) : 0;
    if (status == 0)
        status =
            narrow ? take_summary(r, path, &t, &wanted, e) : count_trace(r, path, &t, &wanted, e);
    trace_release(&t);
    return status;
}

/* ---- figures */

/* 1: the file is JSON and its text is in *text; 0: it is not; -1 with `e`. */
static int read_json(const char *path, struct buf *text, struct err *e)
{
    uint8_t begin[64];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_INPUT, "cannot open %s", path);
    ssize_t got = pread(fd, begin, sizeof begin, 0);
    int status =
        got > 0 && run_figures_is_json((struct view){(const char *)begin, (size_t)got}) ? 1 : 0;
    while (status == 1) {
        uint8_t *room = buf_reserve(text, 65536);
        got = room ? read(fd, room, 65536) : 0;
        if (!room)
            status = err_no_memory(e, "the figures of a run");
        else if (got < 0)
            status = err_errno(e, ERR_INPUT, "cannot read %s", path);
        else if (text->len + (size_t)got > RUN_FIGURES_MAX)
            status = err_set(e, ERR_INPUT, "%.200s: too long for the figures of a run", path);
        if (got <= 0 || status != 1)
            break;
        text->len += (size_t)got;
    }
    close(fd);
    return status;
}

static int add_json(struct run_inputs *r, const char *path, const struct buf *text,
                    const struct run_input_options *options, struct err *e)
{
    struct run_figures f;
    if (options->only && (options->only->pool || selection_is_narrow(options->only)))
        return err_set(e, ERR_USAGE,
                       "%.200s: options that choose allocations need traces, and these are figures "
                       "alone",
                       path);
    if (run_figures_read(&f, path, buf_view(text), e) != 0)
        return -1;
    f.summary.all_leaks = options->all_leaks;
    if (vec_push(&r->list, f))
        return 0;
    run_figures_release(&f);
    return err_no_memory(e, "runs");
}

static int add_file(struct run_inputs *r, const char *path, const struct run_input_options *options,
                    struct err *e)
{
    struct buf text = {0};
    int is_json = read_json(path, &text, e);
    int status = is_json < 0    ? -1
                 : is_json == 1 ? add_json(r, path, &text, options, e)
                                : add_trace(r, path, options, e);
    buf_release(&text);
    return status;
}

/* ---- folders */

static int is_run(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');
    return d->d_name[0] != '.' && dot && (strcmp(dot, ".json") == 0 || strcmp(dot, ".tracy") == 0);
}

/* What is no regular file was not put there as a run, and reading it may never end. */
static int add_listed(struct run_inputs *r, const char *path,
                      const struct run_input_options *options, struct err *e)
{
    struct stat s;
    if (stat(path, &s) != 0)
        return err_errno(e, ERR_INPUT, "cannot open %s", path);
    if (!S_ISREG(s.st_mode))
        return err_set(e, ERR_INPUT, "%.200s: not a regular file", path);
    return add_file(r, path, options, e);
}

static int add_folder(struct run_inputs *r, const char *path,
                      const struct run_input_options *options, struct err *e)
{
    struct dirent **names;
    struct buf file = {0};
    size_t before = r->list.len;
    int n = scandir(path, &names, is_run, alphasort);
    int status = n < 0 ? err_errno(e, ERR_INPUT, "cannot read %s", path) : 0;
    if (n == 0)
        status = err_set(e, ERR_INPUT, "%.200s: no runs (*.json, *.tracy) in this folder", path);
    for (int i = 0; i < n; i++) {
        buf_clear(&file);
        buf_printf(&file, "%s/%s", path, names[i]->d_name);
        if (status == 0)
            status = file.failed ? err_no_memory(e, "a name")
                                 : add_listed(r, buf_str(&file), options, e);
        if (status != 0 && e->code == ERR_INPUT) {
            print_error(e);
            *e = (struct err){0};
            buf_printf(&r->unread_names, "%s%s", r->unread++ ? ", " : "", buf_str(&file));
            status = 0;
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    if (status == 0 && r->list.len == before)
        status = err_set(e, ERR_INPUT, "%.200s: no run in this folder can be read", path);
    buf_release(&file);
    return status;
}

int run_inputs_add(struct run_inputs *r, const char *path, const struct run_input_options *options,
                   struct err *e)
{
    struct stat s;
    if (strcmp(path, "-") == 0)
        return err_set(e, ERR_USAGE, "several runs cannot come from standard input");
    if (stat(path, &s) != 0)
        return err_errno(e, ERR_INPUT, "cannot open %s", path);
    return S_ISDIR(s.st_mode) ? add_folder(r, path, options, e) : add_file(r, path, options, e);
}

int run_inputs_check(const struct run_inputs *r, struct err *e)
{
    char n[FORMAT_SIZE];
    if (r->unread == 0)
        return 0;
    return err_set(e, ERR_INPUT, "%s of a folder cannot be read: see above",
                   format_counted(n, r->unread, "file"));
}

void run_inputs_release(struct run_inputs *r)
{
    for (size_t i = 0; i < r->list.len; i++)
        run_figures_release(&r->list.at[i]);
    vec_release(&r->list);
    buf_release(&r->unread_names);
}
