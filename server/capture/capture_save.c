#include "server/capture/capture_save.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_io.h"
#include "base/format.h"
#include "base/print_error.h"
#include "base/tempfile.h"
#include "report/write/official_units.h"
#include "report/write/progress.h"
#include "server/capture/part_name.h"
#include "server/capture/recovery.h"
#include "server/capture/stored_summary.h"
#include "trace/save/save_file.h"

#define SAVE_TRIES 4u

/* Memory that compressing and sorting take. */
#define SAVING_NEEDS ((uint64_t)24 << 20)

/* Returns the next part's name: the first free one, unless an existing file may be replaced. */
static char *next_part_name(struct capture *c, bool replace)
{
    char *name = NULL;
    do {
        free(name);
        name = part_name(c->o.output, ++c->parts);
    } while (name && !replace && file_is_there(name));
    return name;
}

const char *capture_output(const struct capture *c)
{
    return c->part_output ? c->part_output : c->o.output;
}

/* ---- the output folder was removed */

bool capture_is_homeless(const struct capture *c)
{
    if (c->watched)
        return working_folder_is_removed();
    return c->folder && output_folder_is_removed(c->folder);
}

int capture_go_elsewhere(struct capture *c, struct trace *t, struct err *e)
{
    const char *folder = tempfile_dir(NULL);
    const char *slash = strrchr(capture_output(c), '/');
    char *path = part_name_unused(folder, slash ? slash + 1 : capture_output(c));
    if (!path)
        return err_no_memory(e, "the output's name");
    free(c->part_output);
    c->part_output = path;
    c->homeless = true;
    (void)umask(077);
    return spool_set_dir(&t->spool, folder, e);
}

/* ---- saving */

/* A file that another process made under the output's name during the recording is not replaced. */
static bool is_newcomer_there(const struct capture *c)
{
    struct stat st;
    const char *output = capture_output(c);
    if (c->o.replace)
        return false;
    /* A dangling symlink counts as a file. */
    return stat(output, &st) == 0 ? S_ISREG(st.st_mode) : file_is_there(output);
}

static int make_way(struct capture *c, struct err *e)
{
    char *name = next_part_name(c, c->o.replace);
    if (!name)
        return err_no_memory(e, "the output's name");
    fprintf(stderr, "tidemark: %s came to exist meanwhile; saving to %s\n", capture_output(c),
            name);
    free(c->part_output);
    c->part_output = name;
    return 0;
}

/* The first request to stop during a save prints a message; the second one stops the save. */
static int still_saving(void *ctx, struct err *e)
{
    struct capture *c = ctx;
    (void)stop_asked(&c->stop);
    unsigned asked = c->stop.count - c->stops_before;
    if (asked > 1)
        return err_set(e, ERR_OUTPUT, "interrupted, nothing is saved");
    if (asked && !c->told_saving) {
        c->told_saving = true;
        fprintf(stderr, "tidemark: saving; a second signal %s\n",
                c->journal ? "ends it, and leaves the journal" : "gives the trace up");
    }
    return 0;
}

/* Writes the trace. If another process takes its name meanwhile, chooses another one. */
static int save_somewhere(struct capture *c, struct trace *t, const struct save_options *options,
                          struct trace_write_stats *stats, struct buf *losses, struct err *e)
{
    for (unsigned tries = 1;; tries++) {
        if (is_newcomer_there(c) && make_way(c, e) != 0)
            return -1;
        buf_clear(losses);
        if (trace_save_file(t, capture_output(c), options, stats, losses, e) == 0)
            return 0;
        if (tries == SAVE_TRIES || !is_newcomer_there(c))
            return -1;
        *e = (struct err){0};
    }
}

/* The same with a line on a terminal that says how much is written. */
static int save_shown(struct capture *c, struct trace *t, const struct save_options *options,
                      struct trace_write_stats *stats, struct buf *losses, struct err *e)
{
    static const char what[] = "Saving trace...";
    struct progress progress = {.before = "Saving trace... "};
    fputs(what, stdout);
    fflush(stdout);
    progress_watch_events(&progress, t, 1, !c->terminal || c->o.drop_in);
    int status = save_somewhere(c, t, options, stats, losses, e);
    bool shown = progress.shown;
    progress_unwatch_events(&progress, t);
    if (shown)
        fputs(what, stdout);
    return status;
}

/* Makes the summary within the memory limit. The trace itself is saved even beyond the limit. */
static int append_summary(void *ctx, int fd, struct err *e)
{
    struct capture *c = ctx;
    memory_limit_close_gate(&c->memory, memory_limit_reserve(&c->memory, NULL));
    int status = saved_summary_append(&c->summary, fd, e);
    memory_limit_open_gate(&c->memory);
    return status;
}

/* Saves the trace; also makes the summary if `made` is given. `last`: no save follows. */
static int save(struct capture *c, struct trace *t, struct saved_summary *made, bool last,
                struct err *e)
{
    uint32_t version = c->version;
    /* The trace is saved even if memory is beyond its bound. */
    uint64_t counting = made ? saved_summary_needs(t) : 0;
    int room = memory_limit_keep(&c->memory, t, SAVING_NEEDS + counting, e);
    if (room < 0)
        return -1;
    struct trace_write_stats stats;
    struct buf losses = {0};
    char bytes[FORMAT_SIZE], text[FILE_VERSION_TEXT_SIZE];
    struct save_options options = {.layout = file_layout_find(version),
                                   .container = c->o.container,
                                   .replace = c->o.replace,
                                   .going = still_saving,
                                   .going_ctx = c};
    struct saved_summary pages;
    saved_pages_attach(&pages, t, &options);
    if (made) {
        saved_summary_attach(made, t, &options);
        made->bounded = c->memory.bytes != 0;
        made->no_counting = room > 0;
        options.append = append_summary;
        options.append_ctx = c;
    }
    (void)stop_asked(&c->stop);
    c->stops_before = c->stop.count;
    c->told_saving = false;
    if (save_shown(c, t, &options, &stats, &losses, e) != 0) {
        printf(" failed!\n");
        buf_release(&losses);
        return -1;
    }
    monitor_saved(&c->monitor, capture_output(c), stats.file_bytes, last);
    file_version_text(version, text);
    printf(" done!\nTrace size %s (%.2f%% ratio)%s%s\n",
           c->o.drop_in ? official_bytes(bytes, stats.file_bytes)
                        : format_bytes(bytes, stats.file_bytes),
           100.0 * (double)stats.file_bytes / (double)stats.inner_bytes,
           c->o.drop_in ? "" : ", version ", c->o.drop_in ? "" : text);
    if (losses.len)
        fprintf(stderr, "tidemark: version %s cannot hold: %s\n", text, buf_str(&losses));
    buf_release(&losses);
    return 0;
}

/* ---- names */

bool capture_start_resolver(struct capture *c)
{
    struct err e = {0};
    if (!c->resolver_runs && resolver_init(&c->resolver, &c->o.resolving, &e) != 0)
        print_error(&e);
    else
        c->resolver_runs = true;
    c->resolver.root = &c->root;
    return c->resolver_runs;
}

/* Whether names are resolved here. Prints the reason if they are. */
static bool wants_names(struct capture *c, const struct trace *t)
{
    char n[FORMAT_SIZE];
    if (c->o.namer == NAMER_SERVER || c->o.namer == NAMER_BOTH)
        return true;
    uint64_t open = c->o.namer == NAMER_DEFAULT && !c->o.drop_in ? resolve_count_unresolved(t) : 0;
    if (open == 0)
        return false;
    printf("The client was built to resolve later: %s to name here\n",
           format_counted(n, open, "frame"));
    /* No debuginfod server is queried unless the user asked for names. */
    c->o.resolving.no_debuginfod = true;
    return true;
}

/* Failures to resolve names do not keep the trace from being saved. */
static void find_names(struct capture *c, struct trace *t)
{
    struct resolve_summary names;
    struct buf fact = {0};
    struct err e = {0};
    char n[FORMAT_SIZE];
    if (!wants_names(c, t) || !capture_start_resolver(c))
        return;
    printf("Finding names...");
    fflush(stdout);
    int status = resolve_trace(&c->resolver, t, FRAME_BETTER, &names, &e);
    if (status == 0) {
        printf(" %s of ", format_count(n, names.named));
        printf("%s named, ", format_counted(n, names.frames, "frame"));
        printf("%s by the client\n", format_count(n, names.named_before));
        resolve_summary_warn(&names);
        resolve_summary_fact(&names, &fact);
        status = fact.failed ? err_no_memory(&e, "a fact")
                             : trace_add_fact(t, &e, "symbols", "%s", buf_str(&fact));
    } else {
        printf(" failed!\n");
    }
    if (status != 0)
        print_error(&e);
    buf_release(&fact);
    resolve_summary_release(&names);
}

/* Records the saved part in the journal, so that a recovery does not save it again. */
static void journal_part(struct capture *c, const char *output)
{
    char *path = c->journal ? realpath(output, NULL) : NULL;
    if (path)
        (void)journal_put_part(c->journal, ++c->parts_saved, path, NULL);
    free(path);
}

/* ---- parts, during the capture */

/*
 * Runs in the child. Its signals are blocked, as in the parent, which gets the requests to stop and
 * waits. The parent no longer has this part; if the folder was removed, it has no journal either.
 */
static void save_in_child(void *ctx, struct part_result *r)
{
    struct capture *c = ctx;
    const struct save_options options = {.layout = file_layout_find(c->version),
                                         .container = c->o.container,
                                         .replace = c->o.replace};
    struct trace_write_stats stats = {0};
    struct buf losses = {0};
    journal_abandon(c->journal);
    r->saved = saved_facts_write(c->trace, &r->e) == 0 &&
               save_somewhere(c, c->trace, &options, &stats, &losses, &r->e) == 0;
    if (!r->saved && capture_is_homeless(c) && capture_go_elsewhere(c, c->trace, &r->e) == 0)
        r->saved = save_somewhere(c, c->trace, &options, &stats, &losses, &r->e) == 0;
    r->elsewhere = c->homeless;
    r->file_bytes = stats.file_bytes;
    r->inner_bytes = stats.inner_bytes;
    snprintf(r->path, sizeof r->path, "%s", capture_output(c));
    snprintf(r->losses, sizeof r->losses, "%s", losses.len ? buf_str(&losses) : "");
}

/*
 * Whether memory suffices for a child that saves and a parent that goes on. Each gets a share of
 * the memory bound. A save in a child may fail late, so the journal must hold all data.
 */
static bool has_room_for_two(struct capture *c)
{
    struct err ignored = {0};
    uint64_t bound = c->memory.bytes;
    if (!c->journal || c->fifo >= 0)
        return false;
    if (bound == 0)
        return true;
    return memory_limit_keep(&c->memory, c->trace, bound / 4 + SAVING_NEEDS, &ignored) == 0 &&
           memory_anonymous() + SAVING_NEEDS < bound / 2;
}

/* Pages are shared with the child until one side writes to them; copies count in addition. */
static void share_memory(struct capture *c)
{
    struct err ignored = {0};
    if (c->memory.bytes)
        c->memory.lent = memory_anonymous() + SAVING_NEEDS;
    else
        (void)spool_set_budget(&c->trace->spool, c->memory.budget / 2, &ignored);
}

static void take_memory_back(struct capture *c)
{
    struct err ignored = {0};
    size_t wanted = c->o.buffer ? c->o.buffer : TRACE_BUDGET;
    c->memory.lent = 0;
    if (!c->trace)
        return;
    if (c->memory.bytes)
        (void)memory_limit_change(&c->memory, c->trace, c->memory.bytes, wanted, &ignored);
    else
        (void)spool_set_budget(&c->trace->spool, c->memory.budget, &ignored);
}

int capture_part_saved(struct capture *c, bool wait, struct err *e)
{
    struct part_result r;
    char bytes[FORMAT_SIZE];
    if (c->saver.pid == 0)
        return 1;
    if (!part_saver_ended(&c->saver, wait, &r))
        return 0;
    take_memory_back(c);
    if (c->o.keep_last && !r.saved) {
        print_error(&r.e);
        return 1;
    }
    if (!r.saved) {
        c->part_lost = true;
        *e = r.e;
        return -1;
    }
    if (c->terminal)
        printf("\r\033[K");
    monitor_saved(&c->monitor, r.path, r.file_bytes, false);
    printf("%s is saved, %s\n", r.path, format_bytes(bytes, r.file_bytes));
    if (r.elsewhere)
        fprintf(stderr, "tidemark: the folder was removed: a part of the trace is %s\n", r.path);
    if (r.losses[0])
        fprintf(stderr, "tidemark: the file's version cannot hold: %s\n", r.losses);
    fflush(stdout);
    if (!c->o.keep_last)
        journal_part(c, r.path);
    return 1;
}

static int go_on_in_next(struct capture *c, struct err *e)
{
    free(c->part_output);
    c->part_output = next_part_name(c, c->o.replace);
    if (!c->part_output)
        return err_no_memory(e, "the output's name");
    printf("going on in %s\n", c->part_output);
    return 0;
}

/*
 * If the folder was removed, no file can be made in it: the part is then the last one. It is saved
 * at the end, and the client is captured again into an existing folder.
 */
int capture_save_part(struct capture *c, struct err *e)
{
    char time[FORMAT_SIZE];
    if (capture_is_homeless(c))
        return err_set(e, ERR_OUTPUT, "no other part can be made there");
    if (c->terminal)
        printf("\r\033[K");
    printf("this part of the trace ends after %s of the client's time\n",
           format_duration(time, c->trace->facts.last_time));
    find_names(c, c->trace);
    if (has_room_for_two(c) && part_saver_start(&c->saver, save_in_child, c)) {
        share_memory(c);
        return go_on_in_next(c, e) == 0 ? 1 : -1;
    }
    if (!c->facts_written && saved_facts_write(c->trace, e) != 0)
        return -1;
    c->facts_written = true;
    if (save(c, c->trace, NULL, false, e) != 0)
        return -1;
    c->facts_written = false; /* of the next part */
    journal_part(c, capture_output(c));
    return go_on_in_next(c, e);
}

/* ---- saving what a flight recorder keeps, during the capture */

/* Reads the journal's present content into a new store and saves that. */
static int save_kept(struct capture *c, struct trace *t, struct part_result *r, struct err *e)
{
    struct save_options options = {
        .layout = file_layout_find(c->version), .container = c->o.container, .replace = false};
    struct saved_summary pages;
    const struct recovery_options playing = {.goes_on = true};
    struct trace_write_stats stats = {0};
    struct recovery found;
    struct buf losses = {0};
    struct journal_reader *reader = journal_reader_peek(c->journal_name, e);
    int status = reader ? recovery_run(reader, t, &playing, &found, e) : -1;
    journal_reader_close(reader);
    if (status == 0)
        status = saved_facts_write(t, e);
    saved_pages_attach(&pages, t, &options);
    if (status == 0)
        status = save_somewhere(c, t, &options, &stats, &losses, e);
    r->file_bytes = stats.file_bytes;
    snprintf(r->path, sizeof r->path, "%s", capture_output(c));
    snprintf(r->losses, sizeof r->losses, "%s", losses.len ? buf_str(&losses) : "");
    buf_release(&losses);
    return status;
}

static int kept_to(struct capture *c, struct part_result *r, struct err *e)
{
    const struct trace_options store = {.spool_dir = c->o.spool_dir,
                                        .resident_budget = c->memory.budget / 2};
    struct trace *t = malloc(sizeof *t);
    if (!t)
        return err_no_memory(e, "saving");
    int status = trace_init(t, &store, e);
    if (status == 0) {
        status = save_kept(c, t, r, e);
        trace_release(t);
    }
    free(t);
    r->saved = status == 0;
    return status;
}

/* Runs in the child. All data in the recorder's store is in the journal, too. */
static void kept_in_child(void *ctx, struct part_result *r)
{
    struct capture *c = ctx;
    journal_abandon(c->journal);
    trace_release(c->trace);
    (void)kept_to(c, r, &r->e);
}

int capture_save_kept(struct capture *c, struct err *e)
{
    char *before = c->part_output;
    struct part_result *r = calloc(1, sizeof *r);
    struct err cause = {0};
    char bytes[FORMAT_SIZE];
    c->part_output = next_part_name(c, false);
    int status = r && c->part_output ? 0 : err_no_memory(e, "saving");
    if (status == 0 && has_room_for_two(c) && part_saver_start(&c->saver, kept_in_child, c)) {
        share_memory(c);
        status = 1;
    } else if (status == 0 && kept_to(c, r, &cause) == 0) {
        if (c->terminal)
            printf("\r\033[K");
        monitor_saved(&c->monitor, r->path, r->file_bytes, false);
        printf("%s is saved, %s\n", r->path, format_bytes(bytes, r->file_bytes));
        fflush(stdout);
    } else if (status == 0) {
        print_error(&cause);
    }
    free(r);
    free(c->part_output);
    c->part_output = before;
    return status;
}

/* A second signal ends the wait: the journal holds all unsaved data. */
static int wait_for_part(struct capture *c, struct err *e)
{
    c->stops_before = c->stop.count;
    c->told_saving = false;
    for (;;) {
        int status = capture_part_saved(c, false, e);
        if (status != 0)
            return status < 0 ? -1 : 0;
        if (still_saving(c, e) != 0)
            return -1;
        (void)stop_wait(&c->stop, c->saver.fd, POLLIN, 100);
    }
}

/*
 * If the part before was not saved, the last one is not saved either, since the journal has both;
 * unless the journal was removed.
 */
int capture_settle_part(struct capture *c, struct err *e)
{
    int status = c->part_lost ? err_set(e, ERR_OUTPUT, "a part of the trace could not be saved")
                              : wait_for_part(c, e);
    if (status == 0 || !c->part_lost || !capture_is_homeless(c) ||
        (c->journal && access(journal_path(c->journal), F_OK) == 0))
        return status;
    err_prefix(e, "a part is lost");
    print_error(e);
    *e = (struct err){0};
    return 0;
}

int capture_save(struct capture *c, struct trace *t, struct err *e)
{
    if (capture_settle_part(c, e) != 0)
        return -1;
    find_names(c, t);
    if (!c->facts_written && saved_facts_write(t, e) != 0)
        return -1;
    c->facts_written = true; /* another save may follow */
    return save(c, t, c->o.summary ? &c->summary : NULL, true, e);
}
