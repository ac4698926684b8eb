#include "server/capture/recover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_io.h"
#include "base/format.h"
#include "base/outfile.h"
#include "base/print_error.h"
#include "base/vec.h"
#include "report/write/progress.h"
#include "server/capture/journal_aside.h"
#include "server/capture/memory_limit.h"
#include "server/capture/part_name.h"
#include "server/capture/recovery.h"
#include "server/capture/stored_summary.h"
#include "trace/save/save_file.h"

struct made {
    char *path;
    uint64_t bytes;
    bool hidden; /* it has a temporary name yet */
};

struct recovering {
    const struct recover_options *options;
    struct journal_reader *reader;
    struct trace trace;
    struct recovery found;
    struct memory_limit memory;
    char *base; /* base of the output's names */
    char *spool_dir;
    unsigned outputs;      /* number of names used */
    VEC(struct made) made; /* the traces that were saved */
    struct progress progress;
};

/* ---- names */

/*
 * The length of a name without the hash that names in a spool folder end with:
 * server/capture/journal.h.
 */
static size_t without_hash(const char *name, size_t len)
{
    const size_t hash = 9;
    if (len <= hash || name[len - hash] != '-' ||
        strspn(name + len - hash + 1, "0123456789abcdef") < hash - 1)
        return len;
    return len - hash;
}

/* "x.tracy.journal" → "x.recovered.tracy"; NULL when memory is short. */
static char *recovered_name(const struct recover_options *o)
{
    size_t len = strlen(o->journal), suffix = sizeof JOURNAL_SUFFIX - 1;
    while (len > 1 && o->journal[len - 1] == '/')
        len--;
    len = journal_without_aside(o->journal, len);
    if (len > suffix && strncmp(o->journal + len - suffix, JOURNAL_SUFFIX, suffix) == 0)
        len = without_hash(o->journal, len - suffix);
    char *output = o->beside ? strdup(o->beside) : strndup(o->journal, len);
    char *name = output ? name_with(output, "recovered") : NULL;
    free(output);
    return name;
}

/* The next output: with -o F, then F.2, …; else the next free name. */
static char *next_output(struct recovering *r)
{
    bool any = r->options->output != NULL;
    char *name = NULL;
    do {
        free(name);
        name = part_name(r->base, ++r->outputs);
    } while (name && !any && file_is_there(name));
    return name;
}

/*
 * A temporary name in the same folder, which outfile_remove_left removes if this process is killed.
 * NULL with `e`.
 */
static char *hidden_output(const struct recovering *r, struct err *e)
{
    char *folder = outfile_folder(r->base), *name = NULL;
    struct buf path = {0};
    uint32_t random;
    do {
        path.len = 0;
        if (getrandom(&random, sizeof random, 0) == (ssize_t)sizeof random)
            buf_printf(&path, "%s/" OUTFILE_HIDDEN "%06x", folder ? folder : "", random >> 8);
    } while (folder && !path.failed && (!path.len || file_is_there(buf_str(&path))));
    if (folder && !path.failed)
        name = strdup(buf_str(&path));
    if (!name)
        err_no_memory(e, "the output's name");
    free(folder);
    buf_release(&path);
    return name;
}

/* ---- saving */

static void tell_saved(const struct made *m)
{
    char bytes[FORMAT_SIZE];
    printf("saved to %s, %s\n", m->path, format_bytes(bytes, m->bytes));
}

/*
 * In an automatic recovery, parts get their names only when all are saved. Otherwise a tool that
 * uploads each trace as soon as it has its name would upload those of interrupted recoveries again
 * and again.
 */
static char *choose_output(struct recovering *r, struct err *e)
{
    char *output = NULL;
    if (!vec_reserve(&r->made, r->made.len + 1) ||
        (!r->options->unasked && !(output = next_output(r))))
        err_no_memory(e, "the output's name");
    else if (!output)
        output = hidden_output(r, e);
    return output;
}

static int save(struct recovering *r, struct err *e)
{
    const uint8_t *v = r->found.version->facts.file_version;
    uint32_t version =
        r->options->trace_version ? r->options->trace_version : FILE_VERSION(v[0], v[1], v[2]);
    char *output = choose_output(r, e);
    struct save_options options = {.layout = file_layout_find(version),
                                   .container = r->options->container,
                                   .replace = r->options->replace};
    struct saved_summary pages;
    struct trace_write_stats stats;
    struct buf losses = {0};
    saved_pages_attach(&pages, &r->trace, &options);
    progress_clear(&r->progress);
    int status = output ? saved_facts_write(&r->trace, e) : -1;
    if (status == 0) {
        struct progress progress = {.before = "writing the trace: "};
        progress_watch_events(&progress, &r->trace, 1, !r->options->progress);
        status = trace_save_file(&r->trace, output, &options, &stats, &losses, e);
        progress_unwatch_events(&progress, &r->trace);
    }
    const struct made made = {output, status == 0 ? stats.file_bytes : 0, r->options->unasked};
    if (status == 0 && !made.hidden)
        tell_saved(&made);
    if (status == 0 && losses.len)
        fprintf(stderr, "tidemark: the file's version cannot hold: %s\n", buf_str(&losses));
    buf_release(&losses);
    if (status == 0)
        r->made.at[r->made.len++] = made;
    else
        free(output);
    return status;
}

/* -1 with errno; EEXIST: the name is taken. */
static int give_name(const char *hidden, const char *name)
{
    if (link(hidden, name) == 0) {
        (void)unlink(hidden);
        return 0;
    }
    if (errno == EEXIST || file_is_there(name))
        return errno = EEXIST, -1;
    return rename(hidden, name); /* for file systems without hard links */
}

/* Renames it to the next free name. */
static int name_one(struct recovering *r, struct made *m, struct err *e)
{
    for (;;) {
        char *name = next_output(r);
        if (!name)
            return err_no_memory(e, "the output's name");
        if (give_name(m->path, name) == 0) {
            free(m->path);
            *m = (struct made){name, m->bytes, false};
            tell_saved(m);
            return 0;
        }
        bool taken = errno == EEXIST;
        if (!taken)
            err_errno(e, ERR_OUTPUT, "cannot make %s", name);
        free(name);
        if (!taken)
            return -1;
    }
}

static int name_all(struct recovering *r, struct err *e)
{
    for (size_t i = 0; i < r->made.len; i++) {
        if (r->made.at[i].hidden && name_one(r, &r->made.at[i], e) != 0)
            return -1;
    }
    return 0;
}

/*
 * Removes the saved traces: the journal stays, and the next recovery would save them again under
 * other names. Files that replaced others stay.
 */
static void undo(struct recovering *r)
{
    while (r->made.len && !r->options->replace) {
        struct made *m = &r->made.at[--r->made.len];
        if (unlink(m->path) == 0 && !m->hidden)
            printf("removed again, the journal has it: %s\n", m->path);
        free(m->path);
    }
}

/* A part that the capture saved is skipped if its file still exists. */
static int save_part(void *ctx, const char *saved, struct err *e)
{
    struct recovering *r = ctx;
    if (saved && access(saved, F_OK) == 0)
        return 0;
    return save(r, e);
}

static int keep_memory(void *ctx, struct trace *t, struct err *e)
{
    struct recovering *r = ctx;
    uint64_t reserve = memory_limit_reserve(&r->memory, t);
    int beyond = memory_limit_keep(&r->memory, t, reserve, e);
    memory_limit_close_gate(&r->memory, reserve);
    return beyond < 0 ? -1 : beyond > 1;
}

static void free_reserve(void *ctx)
{
    struct recovering *r = ctx;
    memory_limit_open_gate(&r->memory);
}

static void show_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct recovering *r = ctx;
    (void)total;
    progress_show(&r->progress, done);
}

/* ---- messages */

static void tell_beginning(const struct recovery *found)
{
    struct buf name = {0};
    char bytes[FORMAT_SIZE];
    format_terminal(&name, view_of(found->welcome.program_name));
    printf("%s, protocol %u: journal of %s\n", buf_str(&name), found->version->protocol,
           format_bytes(bytes, found->tail.bytes));
    buf_release(&name);
}

static void tell_end(struct recovering *r)
{
    const struct recovery *f = &r->found;
    char frames[FORMAT_SIZE], bytes[FORMAT_SIZE], time[FORMAT_SIZE];
    printf("%s of the client, %s; %s after %s of its time\n",
           format_counted(frames, f->frames, "whole frame"), format_bytes_exact(bytes, f->received),
           session_end_text(f->end), format_duration(time, r->trace.facts.last_time));
    if (f->cause.code)
        fprintf(stderr, "tidemark: %s\n", f->cause.text);
    if (f->short_of_memory)
        fprintf(stderr, "tidemark: what the journal has beyond that did not fit in memory\n");
    if (f->tail.lost)
        fprintf(stderr, "tidemark: %s at the journal's end could not be used: %s\n",
                format_bytes_exact(bytes, f->tail.lost), f->tail.why);
    if (f->unanswered)
        fprintf(stderr, "tidemark: %s requested and never received\n",
                format_counted(bytes, f->unanswered, "name"));
}

/* ---- playing a journal */

static int play_and_save(struct recovering *r, struct err *e)
{
    uint64_t bound = r->options->memory ? r->options->memory : memory_limit_of_group();
    r->memory = memory_limit_of(bound, TRACE_BUDGET);
    const struct trace_options store = {.spool_dir = r->spool_dir,
                                        .resident_budget = r->memory.budget};
    const struct recovery_options playing = {.part = save_part,
                                             .part_ctx = r,
                                             .look = bound ? keep_memory : NULL,
                                             .look_ctx = r,
                                             .complete = free_reserve,
                                             .complete_ctx = r,
                                             .progress_ctx = r,
                                             .progress = show_progress};
    if (trace_init(&r->trace, &store, e) != 0)
        return -1;
    if (bound)
        trace_page_tables(&r->trace, r->memory.budget);
    r->progress = progress_begin(r->found.tail.bytes, !r->options->progress);
    r->progress.before = "reading the journal: ";
    int status = recovery_run(r->reader, &r->trace, &playing, &r->found, e);
    progress_clear(&r->progress);
    free_reserve(r);
    if (status == 0) {
        tell_end(r);
        status = save(r, e);
    }
    trace_release(&r->trace);
    return status;
}

/* ---- removing the journal */

/* Whether the journal can be removed or renamed later. An automatic recovery that could not would
 * write another trace of it at each start. */
static int can_let_go(const struct recover_options *o, struct err *e)
{
    if (!o->unasked || access(o->journal, W_OK | X_OK) == 0)
        return 0;
    return err_errno(e, ERR_OUTPUT, "%s is not recovered, since it could not be removed then",
                     o->journal);
}

/* Moves a journal with unusable bytes aside. */
static int keep_damaged(struct recovering *r, struct err *e)
{
    const struct recover_options *o = r->options;
    size_t len = strlen(o->journal);
    bool stays = o->keep || journal_without_aside(o->journal, len) < len;
    char *name = stays ? NULL : journal_move_aside(o->journal, e);
    if (name)
        fprintf(stderr, "tidemark: the journal is damaged: what could not be used is kept in %s\n",
                name);
    else if (stays || !o->unasked)
        fprintf(stderr, "tidemark: the journal is damaged and stays: %s\n", o->journal);
    else
        undo(r);
    bool failed = !name && !stays;
    free(name);
    return failed ? -1 : 3;
}

/* With more memory more of it could be read, but an automatic recovery does not retry. */
static int keep_rest(struct recovering *r, struct err *e)
{
    const char *journal = r->options->journal;
    char *name = r->options->unasked ? journal_move_aside(journal, e) : NULL;
    if (r->options->unasked && !name) {
        undo(r);
        return -1;
    }
    fprintf(stderr,
            "tidemark: not all of the journal fits in memory: it is kept in %s; `tidemark recover "
            "--memory-limit` with more makes a trace of all of it\n",
            name ? name : journal);
    free(name);
    return 4;
}

/* Removes a journal whose data is saved. */
static int let_go(struct recovering *r, struct err *e)
{
    struct journal_reader *reader = r->reader;
    if (r->found.short_of_memory)
        return keep_rest(r, e);
    if (r->found.tail.damaged)
        return keep_damaged(r, e);
    r->reader = NULL;
    if (r->options->keep)
        journal_reader_close(reader);
    else if (journal_reader_remove(reader, e) != 0)
        return -1;
    return r->found.end != SESSION_BROKEN ? 0 : 3;
}

/* The journal cannot be used: not even its client is known. */
static int useless(struct recovering *r, struct err *e)
{
    struct err why = *e;
    if (r->found.tail.damaged && keep_damaged(r, e) < 0)
        print_error(e);
    *e = why;
    return -1;
}

static int recover(struct recovering *r, struct err *e)
{
    const struct recover_options *o = r->options;
    int any = can_let_go(o, e) == 0 ? recovery_look(r->reader, &r->found, e) : -1;
    if (any < 0)
        return useless(r, e);
    if (any == 0) {
        printf("nothing of a client is in %s%s\n", o->journal,
               journal_reader_has_checkpoint(r->reader) ? " that is not in the parts before it"
                                                        : "");
        return let_go(r, e);
    }
    r->base = o->output ? strdup(o->output) : recovered_name(o);
    r->spool_dir = o->spool_dir ? strdup(o->spool_dir) : r->base ? outfile_folder(r->base) : NULL;
    if (!r->base || !r->spool_dir)
        return err_no_memory(e, "the output's name");
    r->found.tail.bytes = journal_reader_tail(r->reader)->bytes;
    tell_beginning(&r->found);
    if (play_and_save(r, e) != 0 || name_all(r, e) != 0) {
        undo(r);
        return err_prefix(e, "the journal %s stays as it was", o->journal);
    }
    return let_go(r, e);
}

/*
 * The target of a symlink that the user named, for a journal that was moved to another disk. NULL
 * for anything else, and for journals found by a scan.
 */
static char *moved_to(const struct recover_options *o)
{
    struct stat st;
    bool is_link = !o->unasked && lstat(o->journal, &st) == 0 && S_ISLNK(st.st_mode);
    return is_link ? realpath(o->journal, NULL) : NULL;
}

int recover_journal(const struct recover_options *options, struct err *e)
{
    struct recovering r = {.options = options};
    char *real = moved_to(options);
    r.reader = journal_reader_open(real ? real : options->journal, e);
    int status = r.reader ? recover(&r, e) : -1;
    journal_reader_close(r.reader);
    if (real && status >= 0 && !file_is_there(real))
        (void)unlink(options->journal); /* a symlink to the removed journal */
    free(real);
    for (size_t i = 0; i < r.made.len; i++)
        free(r.made.at[i].path);
    vec_release(&r.made);
    free(r.base);
    free(r.spool_dir);
    return status < 0 ? err_exit_status(e) : status;
}

/* Its trace was saved, or it was empty: only the removal was interrupted. */
static int remove_done(const char *journal, struct err *e)
{
    struct journal_reader *r = journal_reader_open(journal, e);
    if (r)
        return journal_reader_remove(r, e);
    /* The folder is empty. */
    *e = (struct err){0};
    return journal_remove_empty(journal, e);
}

/* ---- all journals of a folder */

static bool is_journal(const char *name)
{
    size_t len = strlen(name), suffix = sizeof JOURNAL_SUFFIX - 1;
    return len > suffix && strcmp(name + len - suffix, JOURNAL_SUFFIX) == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_wanted(const struct dirent *entry)
{
    return is_journal(entry->d_name);
}

/*
 * The output in the folder `outputs` whose capture left that journal in a spool folder. NULL
 * without an error if the capture's output was in another folder, since several may share a spool
 * folder; NULL with an error if memory is short.
 */
static char *spooled_output(const char *path, const char *outputs, struct err *e)
{
    struct buf output = {0};
    const char *name = strrchr(path, '/') + 1;
    char *spool = outfile_folder(path), *journal = NULL, *found = NULL;
    size_t len = without_hash(name, strlen(name) - (sizeof JOURNAL_SUFFIX - 1));
    buf_printf(&output, "%s/%.*s", outputs, (int)len, name);
    if (!spool || output.failed)
        err_no_memory(e, "the output's name");
    else
        journal = journal_name(buf_str(&output), spool, e);
    if (journal && strcmp(journal, path) == 0 && !(found = strdup(buf_str(&output))))
        err_no_memory(e, "the output's name");
    free(journal);
    free(spool);
    buf_release(&output);
    return found;
}

/* Prints errors and returns the exit status. Does not count folders of other users. */
static int recover_one(const char *path, const char *output, const struct recover_options *all,
                       unsigned *found)
{
    struct recover_options options = *all;
    enum journal_state state;
    struct err e = {0};
    int status = 0;
    options.journal = path;
    options.output = NULL;
    options.beside = output;
    if (journal_look(path, &state, &e) != 0)
        status = err_exit_status(&e);
    else if (state == JOURNAL_DONE)
        status = remove_done(path, &e) == 0 ? 0 : err_exit_status(&e);
    else if (state == JOURNAL_LEFT)
        status = recover_journal(&options, &e);
    if (e.code != ERR_NONE)
        print_error(&e);
    *found += state != JOURNAL_OTHER;
    fflush(stdout);
    return status;
}

static bool is_asked_for(const struct recover_options *o, const char *path)
{
    return !o->wanted || o->wanted(o->wanted_ctx, journal_id(AT_FDCWD, path));
}

/* The same, but skips a journal whose output is in another folder. */
static int recover_ours(const char *path, const struct recover_options *options, unsigned *found)
{
    if (!is_asked_for(options, path))
        return 0;
    struct err e = {0};
    char *output = options->outputs ? spooled_output(path, options->outputs, &e) : NULL;
    int status = 0;
    if (e.code != ERR_NONE) {
        status = print_error(&e);
    } else if (output || !options->outputs) {
        status = recover_one(path, output, options, found);
    }
    free(output);
    return status;
}

int recover_folder(const char *folder, const struct recover_options *options, unsigned *found,
                   struct err *e)
{
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, is_wanted, by_name), worst = 0;
    *found = 0;
    if (n < 0) {
        err_errno(e, ERR_INPUT, "%s", folder);
        return err_exit_status(e);
    }
    for (int i = 0; i < n; i++) {
        struct buf path = {0};
        buf_printf(&path, "%s/%s", folder, entries[i]->d_name);
        int status = path.failed ? 4 : recover_ours(buf_str(&path), options, found);
        worst = status > worst ? status : worst;
        buf_release(&path);
        free(entries[i]);
    }
    free(entries);
    return worst;
}

/* Whether it is a journal in `folder` of a capture to `outputs` (NULL: to any folder). */
static bool is_of(const char *folder, const char *name, const char *outputs)
{
    struct buf path = {0};
    struct err ignored = {0};
    if (!outputs)
        return true;
    buf_printf(&path, "%s/%s", folder, name);
    char *output = path.failed ? NULL : spooled_output(buf_str(&path), outputs, &ignored);
    bool is = output != NULL;
    free(output);
    buf_release(&path);
    return is;
}

void recover_list_left(const char *folder, const char *outputs,
                       void (*each)(void *ctx, const struct journal_left *left), void *ctx)
{
    DIR *d = opendir(folder);
    for (const struct dirent *entry; d && (entry = readdir(d));) {
        struct journal_left left;
        if (is_wanted(entry) && is_of(folder, entry->d_name, outputs) &&
            journal_is_left(dirfd(d), entry->d_name, &left))
            each(ctx, &left);
    }
    if (d)
        closedir(d);
}

/* ---- before a capture */

int recover_leftover(const char *journal, const char *output,
                     const struct container_options *container, struct err *e)
{
    enum journal_state state;
    const struct recover_options options = {
        .journal = journal, .beside = output, .unasked = true, .container = *container};
    if (journal_look(journal, &state, e) != 0)
        return -1;
    switch (state) {
    case JOURNAL_NONE:
        return 0;
    case JOURNAL_DONE:
        return remove_done(journal, e);
    case JOURNAL_OTHER:
        return err_set(e, ERR_OUTPUT,
                       "%s is in the way: it is no journal of tidemark; move it, or choose another "
                       "output",
                       journal);
    case JOURNAL_IN_USE:
        return err_set(e, ERR_OUTPUT, "another capture writes to %s: its journal %s is in use",
                       output, journal);
    case JOURNAL_LEFT:
        break;
    }
    printf("An earlier capture was cut off; recovering what it left in %s\n", journal);
    fflush(stdout);
    int status = recover_journal(&options, e);
    if (access(journal, F_OK) != 0) {
        if (e->code)
            print_error(e);
        *e = (struct err){0};
        return 0;
    }
    if (!e->code)
        err_set(e, ERR_OUTPUT, "%s cannot be got out of the way: %s", journal,
                status == 3 ? "it is damaged" : "it stays");
    return err_prefix(e, "a leftover journal is never overwritten");
}
