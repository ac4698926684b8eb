#include "server/capture/capture_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analysis/figures/summary.h"
#include "base/file_io.h"
#include "base/format.h"
#include "base/monotonic.h"
#include "base/outfile.h"
#include "base/print_error.h"
#include "naming/symbols_advice.h"
#include "report/report.h"
#include "report/write/official_units.h"
#include "server/capture/capture_save.h"
#include "server/capture/capture_stand_in.h"
#include "server/capture/monitor.h"
#include "server/capture/recover.h"
#include "server/capture/recovery.h"
#include "server/capture/run_signpost.h"
#include "server/capture/session.h"
#include "server/capture/trace_name.h"
#include "server/guard/session_guard.h"
#include "server/net/address.h"
#include "server/net/connect_client.h"
#include "trace/save/save_file.h"

/* The summary at the end is for a terminal; `tidemark report` shows all sites. */
#define SITES_SHOWN 20

/* A daemon's session ends if its client does not finish a frame within this time. */
#define FRAME_SECONDS 30

/* Limit of the names of traces that are tried while names are taken. */
#define NAMES_MAX 100000u

/* Whether it exits with the official tool's codes, which are fewer. */
static bool exits_as_official(const struct capture *c)
{
    return c->o.drop_in && !c->watched;
}

/*
 * An error's exit status: Tidemark's, or the official tool's (capture/src/capture.cpp @ v0.14.0).
 */
static int fail(const struct capture *c, const struct err *e, int official)
{
    print_error(e);
    return exits_as_official(c) ? official : err_exit_status(e);
}

/* Fails before recording begins rather than at its end. Leaves no file behind. */
static int check_output(struct capture *c, struct err *e)
{
    struct outfile probe;
    struct stat st;
    if (stat(c->o.output, &st) == 0 && S_ISFIFO(st.st_mode)) {
        /* A FIFO that is closed and reopened signals end of file to its reader. */
        c->fifo = open(c->o.output, O_WRONLY | O_CLOEXEC);
        return c->fifo < 0 ? err_errno(e, ERR_OUTPUT, "cannot write %s", c->o.output) : 0;
    }
    if (outfile_open(&probe, c->o.output, c->o.replace, e) != 0)
        return -1;
    outfile_abort(&probe);
    return 0;
}

/* By default data is spilled beside the output, where the trace has to fit too. */
static int choose_spool(struct capture *c, struct err *e)
{
    struct stat st;
    if (c->o.spool_dir && access(c->o.spool_dir, W_OK | X_OK) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot spool into %s", c->o.spool_dir);
    if (c->o.name && access(c->o.output, W_OK | X_OK) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot write into %s", c->o.output);
    if (c->o.name && (stat(c->o.output, &st) != 0 || !S_ISDIR(st.st_mode)))
        return err_set(e, ERR_OUTPUT, "%s is no folder", c->o.output);
    if (c->o.spool_dir)
        return 0;
    if (c->o.name) {
        c->o.spool_dir = strdup(c->o.output);
        return c->o.spool_dir ? 0 : err_no_memory(e, "options");
    }
    if (stat(c->o.output, &st) == 0 && !S_ISREG(st.st_mode))
        return 0;
    c->o.spool_dir = outfile_folder(c->o.output);
    return c->o.spool_dir ? 0 : err_no_memory(e, "options");
}

/*
 * Chooses the journal's path and finishes a journal that an earlier capture left there. An output
 * that is a pipe or a device has no journal: no later capture could recover it.
 */
static int choose_journal(struct capture *c, struct err *e)
{
    struct stat st;
    bool file = stat(c->o.output, &st) != 0 || S_ISREG(st.st_mode);
    if (!file && c->o.keep_last)
        return err_set(e, ERR_OUTPUT,
                       "%s is no file: what --keep-last keeps has no place beside it", c->o.output);
    if (c->o.no_journal || !file)
        return 0;
    c->journal_name = journal_name(c->o.output, c->o.spool_given ? c->o.spool_dir : NULL, e);
    if (!c->journal_name)
        return -1;
    return recover_leftover(c->journal_name, c->o.output, &c->o.container, e);
}

/* ---- while it runs */

static void show_progress(void *ctx, const struct session_progress *p)
{
    struct capture *c = ctx;
    monitor_tick(&c->monitor, c->trace, p, &c->memory);
    char rate[FORMAT_SIZE], in[FORMAT_SIZE], events[FORMAT_SIZE];
    char live[FORMAT_SIZE], bytes[FORMAT_SIZE], time[FORMAT_SIZE];
    if (!c->terminal && (c->o.progress < 0 || p->seconds - c->last_progress < c->o.progress))
        return;
    c->last_progress = p->seconds;
    printf("%s%s/s | %s, %.1f%% | %s events | %s live, %s | %s", c->terminal ? "\r\033[K" : "",
           format_bytes(rate, (uint64_t)p->bytes_per_second), format_bytes(in, p->bytes_in),
           p->compression * 100, format_count(events, p->memory_events),
           format_count(live, p->live_allocations), format_bytes(bytes, p->live_bytes),
           format_duration(time, p->last_time));
    if (p->queries)
        printf(" | %s asked", format_counted(time, p->queries, "name"));
    if (!c->terminal)
        putchar('\n');
    fflush(stdout);
}

/* ---- the trace */

static uint32_t version_to_write(const struct capture *c, const struct wire_version *wire)
{
    const uint8_t *v = wire->facts.file_version;
    return c->o.trace_version ? c->o.trace_version : FILE_VERSION(v[0], v[1], v[2]);
}

/*
 * While it writes into a pipe, signals have their default actions: a stalled reader must not keep
 * the process from being ended.
 */
static void let_go_of_signals(struct capture *c)
{
    struct stat st;
    if (stat(c->o.output, &st) == 0 && !S_ISREG(st.st_mode))
        stop_release(&c->stop);
}

static int print_summary(struct capture *c, struct trace *t, struct err *e)
{
    const struct summary_options options = {.by = GROUP_SITE, .callers = true};
    struct summary *s = &c->summary.summary;
    if (!c->summary.made) {
        memory_limit_close_gate(&c->memory, memory_limit_reserve(&c->memory, NULL));
        c->summary.made = summary_build(s, t, &options, e) == 0;
        memory_limit_open_gate(&c->memory);
    }
    if (!c->summary.made)
        return -1;
    struct buf advice = {0};
    symbols_advice(&advice, s, c->fifo < 0 ? capture_output(c) : NULL);
    const struct summary_selection selection = {.sort = SORT_AT_PEAK, .limit = SITES_SHOWN};
    summary_select(&s->sites, &selection);
    const struct report_options report = {
        .format = REPORT_TEXT, .sort = SORT_AT_PEAK, .advice = &advice};
    printf("\n");
    int status = report_write(s, &report, stdout, e);
    buf_release(&advice);
    return status;
}

/*
 * As the official tool prints them: capture/src/capture.cpp @ v0.14.0. Its base set of frames
 * includes those for the time before the first mark.
 */
static void print_figures(const struct trace *t, int64_t elapsed)
{
    const struct trace_facts *f = &t->facts;
    char span[FORMAT_SIZE], zones[FORMAT_SIZE], time[FORMAT_SIZE];
    printf("\nFrames: %" PRIu64 "\nTime span: %s\nZones: %s\nElapsed time: %s\n",
           t->frame_sets.list.at[FRAME_SET_BASE].count + (f->on_demand ? 3 : 2),
           official_time(span, f->last_time - (f->on_demand ? f->on_demand_time : 0)),
           format_count(zones, t->zones.count), official_time(time, elapsed));
}

static bool listens_for_save(const struct capture *c)
{
    return c->o.keep_last && !c->watched;
}

/* The request to save what a flight recorder keeps: set by the daemon, or else by SIGUSR1. */
static bool *save_asked(struct capture *c)
{
    return c->watched ? &c->monitor.turn : &c->stop.asked[STOP_SAVE];
}

/* Adds a note for the user if the preload library also records the client's process. */
static void look_beside(const struct session *s, uint64_t pid, struct buf *text)
{
    struct buf signs[RUN_SIGNPOSTS] = {0};
    if (session_is_local(s) && run_signpost_read((pid_t)pid, signs)) {
        buf_puts(text, "the preload library records malloc of this process: not in this trace, but "
                       "in ");
        if (signs[RUN_SIGNPOST_TRACE].len)
            format_terminal(text, view_of(buf_str(&signs[RUN_SIGNPOST_TRACE])));
        else
            buf_puts(text, "a separate one");
        if (signs[RUN_SIGNPOST_LISTENER].len) {
            buf_puts(text, ", and until then at ");
            format_terminal(text, view_of(buf_str(&signs[RUN_SIGNPOST_LISTENER])));
        }
    }
    for (size_t i = 0; i < RUN_SIGNPOSTS; i++)
        buf_release(&signs[i]);
}

/* Prints how many received bytes the trace lacks; a flight recorder reads them from its journal. */
static void tell_undecoded(const struct capture *c, enum session_end end, size_t undecoded)
{
    char bytes[FORMAT_SIZE];
    if (undecoded == 0 || c->dropped)
        return;
    fprintf(stderr, "tidemark: the last %s received were not decoded: %s%s\n",
            format_bytes(bytes, undecoded),
            end == SESSION_MEMORY_LIMIT ? "the memory limit is exceeded" : "that takes too long",
            c->journal ? "" : "; without a journal they are lost");
}

static int record(struct capture *c, struct connection *connection, struct trace *t,
                  enum session_end *end, struct err *e)
{
    const struct session_limits limits = {.seconds = c->o.seconds,
                                          .memory_bytes = c->o.memory_limit,
                                          .memory = &c->memory,
                                          .max_bytes = c->o.max_bytes,
                                          .rotate_seconds = c->o.rotate_seconds,
                                          .rotate_bytes = c->o.rotate_bytes,
                                          .turn = save_asked(c),
                                          .forget = c->o.keep_last,
                                          .frame_seconds = c->watched ? FRAME_SECONDS : 0,
                                          .drain_seconds = 2,
                                          .silent_seconds = 0.5,
                                          .quiet_seconds = 3,
                                          .parts = c,
                                          .progress_ctx = c,
                                          .progress = show_progress};
    c->o.session.journal = c->journal;
    uint64_t pid = connection->welcome.pid;
    struct session *s = session_new(connection, t, &c->o.session, e);
    if (!s)
        return -1;
    struct buf beside = {0};
    if (!c->guarded)
        look_beside(s, pid, &beside);
    process_root_close(&c->root);
    c->root = session_root(s);
    if (c->guarded && session_look(s, e) != 0) {
        session_free(s);
        buf_release(&beside);
        return -1;
    }
    if (c->guarded)
        session_guard_looked(c->guarded, c->o.spool_dir, c->root.folder);
    if (c->o.session.no_symbols && !session_is_local(s))
        fprintf(stderr, "tidemark: the client is not a process of this host that we may look at: "
                        "it is asked for names after all\n");
    if (c->o.memory_asked && session_lacks_memory(s))
        fprintf(stderr, "tidemark: no plots of the client's memory: its process is not found on "
                        "this host, or belongs to another user\n");
    char time[FORMAT_SIZE];
    if (c->o.drop_in)
        printf("Timer resolution: %s\n", official_time(time, t->facts.resolution));
    long long began = monotonic_ns();
    *end = session_run(s, &limits, &c->stop, e);
    uint64_t unanswered = session_unanswered(s);
    c->dropped = session_has_dropped(s);
    c->lacks = session_lacks(s);
    c->torn = session_is_torn(s);
    c->rest = session_take_rest(s, &c->rest_len);
    c->cause = *e;
    size_t undecoded = session_undecoded(s);
    if (!c->watched)
        session_note_looks(s);
    session_free(s);
    if (c->terminal)
        printf("\r\033[K");
    if (c->torn)
        printf("%s\n", session_end_text(*end));
    else
        printf("%s after %s of the client's time\n", session_end_text(*end),
               format_duration(time, t->facts.last_time));
    if (beside.len)
        fprintf(stderr, "tidemark: %s\n", buf_str(&beside));
    buf_release(&beside);
    if (e->code != ERR_NONE)
        print_error(e);
    *e = (struct err){0}; /* printed; the next step begins without an error */
    tell_undecoded(c, *end, undecoded);
    if (unanswered)
        fprintf(stderr, "tidemark: %s requested and never received\n",
                format_counted(time, unanswered, "name"));
    if (c->o.drop_in && !c->torn)
        print_figures(t, monotonic_ns() - began);
    return 0;
}

/*
 * The exit status when the trace is saved. The official tool ends in fewer ways: where received
 * data is not in the trace, its code for an output that cannot be written is used.
 */
static int status_of(const struct capture *c, enum session_end end)
{
    const bool official = exits_as_official(c);
    const int lost = official ? 5 : 4;
    if (c->homeless)
        return lost;
    switch (end) {
    case SESSION_FAULT: /* the official tool exits with 0 */
        return official ? 0 : 1;
    case SESSION_BROKEN:
        return 3;
    case SESSION_NO_ROOM:
    case SESSION_HOMELESS:
        return lost;
    default:
        return c->lacks ? lost : 0;
    }
}

static void print_client(const struct connection *connection)
{
    struct buf name = {0};
    format_terminal(&name, view_of(connection->welcome.program_name));
    printf("%s, protocol %u (%s)\n", buf_str(&name), connection->version->protocol,
           connection->version->facts.releases);
    fflush(stdout);
    buf_release(&name);
}

/* Opens the journal, then the store. */
static int prepare(struct capture *c, struct trace *t, struct err *e)
{
    if (c->o.memory_bound == 0)
        c->o.memory_bound = memory_limit_of_group();
    c->memory = memory_limit_of(c->o.memory_bound, c->o.buffer ? c->o.buffer : TRACE_BUDGET);
    const struct trace_options options = {.spool_dir = c->o.spool_dir,
                                          .resident_budget = c->memory.budget};
    if (trace_init(t, &options, e) != 0)
        return -1;
    if (c->journal_name)
        c->journal = journal_create(c->journal_name, &c->o.journaling, e);
    if (!c->journal_name || c->journal)
        return 0;
    trace_release(t);
    return -1;
}

/* ---- the end of a capture */

static void keep_memory(void *ctx, uint64_t done, uint64_t total)
{
    struct capture *c = ctx;
    struct err ignored = {0};
    (void)done;
    (void)total;
    (void)memory_limit_keep(&c->memory, c->trace, 0, &ignored);
}

/*
 * A flight recorder: reads the interval to keep from the journal into a new store, since the live
 * store has dropped most of it.
 */
static int gather_last(struct capture *c, struct trace *t, enum session_end end, struct err *e)
{
    const struct recovery_options options = {.rest = c->rest,
                                             .rest_len = c->rest_len,
                                             .has_end = true,
                                             .end = end,
                                             .cause = c->cause,
                                             .progress = keep_memory,
                                             .progress_ctx = c};
    struct recovery found;
    journal_close(c->journal);
    c->journal = NULL;
    c->trace = t;
    c->kept = journal_reader_open(c->journal_name, e);
    if (!c->kept || recovery_run(c->kept, t, &options, &found, e) != 0)
        return -1;
    c->lacks = false;
    return 0;
}

/*
 * Prints where the journal is. Its folder may have been moved or removed, and a daemon's session
 * knows only a relative path.
 */
static void tell_kept(const struct capture *c, const char *journal, bool saved)
{
    char *now = NULL;
    if (access(journal, F_OK) != 0 && errno == ENOENT) {
        fprintf(stderr, "tidemark: what %s is lost: its journal was removed\n",
                saved ? "arrived last" : "was recorded");
        return;
    }
    if (c->watched)
        now = realpath(journal, NULL);
    fprintf(stderr,
            "tidemark: what was recorded is kept in %s; `tidemark recover` makes a trace of it "
            "when there is room\n",
            now ? now : journal);
    free(now);
}

/* The trace was not saved, or it lacks something: the journal stays. */
static void leave_journal(struct capture *c, bool saved)
{
    if (c->dropped && !c->journal) {
        tell_kept(c, c->journal_name, saved);
    } else if (c->journal && !journal_has_data(c->journal)) {
        journal_remove(c->journal, NULL);
    } else if (c->journal) {
        tell_kept(c, journal_path(c->journal), saved);
        journal_close(c->journal);
    }
    c->journal = NULL;
}

/*
 * The result is complete: from now on a signal ends the process with `status`. A daemon learns how
 * the session ended before that can happen.
 */
static void end_on_signals(struct capture *c, int status)
{
    monitor_tell_end(&c->monitor, &c->ended);
    stop_end_with(&c->stop, status);
}

/* The trace is saved: removes the journal and prints the summary. */
static int after_saving(struct capture *c, struct trace *t, enum session_end end)
{
    struct err e = {0};
    const int status = status_of(c, end);
    if (c->journal && c->lacks)
        leave_journal(c, true);
    else if (c->journal)
        journal_remove(c->journal, capture_output(c));
    else if (c->kept && journal_reader_remove(c->kept, &e) != 0)
        print_error(&e);
    e = (struct err){0};
    c->journal = NULL;
    c->kept = NULL;
    if (c->homeless) /* the last thing that is printed, so that a daemon reads it */
        fprintf(stderr, "tidemark: the folder was removed: the trace is %s\n", capture_output(c));
    end_on_signals(c, status);
    if (!c->o.summary || print_summary(c, t, &e) == 0)
        return status;
    err_prefix(&e, "the trace is saved, but there is no summary");
    print_error(&e);
    return status == 0 && !exits_as_official(c) ? err_exit_status(&e) : status;
}

/*
 * Makes the journal to claim a name, so that captures that begin at the same time get different
 * names. Journals that other captures left there are not recovered here.
 */
static int prepare_named(struct capture *c, const struct connection *connection, struct trace *t,
                         struct err *e)
{
    const struct trace_name_facts facts = {.program = connection->welcome.program_name,
                                           .host = c->o.connect.address,
                                           .port = c->o.connect.port,
                                           .pid = connection->welcome.pid,
                                           .unix_time = (uint64_t)time(NULL)};
    const char *folder = c->o.output;
    for (unsigned n = 0; n < NAMES_MAX; n++) {
        free(c->named_output);
        free(c->journal_name);
        c->journal_name = NULL;
        c->named_output = trace_name_make(folder, c->o.name, &facts, n);
        if (!c->named_output)
            return err_no_memory(e, "the output's name");
        if (file_is_there(c->named_output))
            continue;
        c->journal_name =
            c->o.no_journal
                ? NULL
                : journal_name(c->named_output, c->o.spool_given ? c->o.spool_dir : NULL, e);
        if (!c->o.no_journal && !c->journal_name)
            return -1;
        if (c->journal_name && file_is_there(c->journal_name))
            continue;
        c->o.output = c->named_output;
        if (prepare(c, t, e) == 0)
            return 0;
        if (!c->journal_name || !file_is_there(c->journal_name))
            return -1;
        *e = (struct err){0};
    }
    return err_set(e, ERR_OUTPUT, "%s: all names for this client are taken", folder);
}

/*
 * Saves what a flight recorder kept. Releases one store before it fills the other, to save memory.
 */
static int save_last(struct capture *c, struct trace *t, enum session_end end, struct err *e)
{
    const struct trace_options options = {.spool_dir = c->o.spool_dir,
                                          .resident_budget = c->memory.budget};
    trace_release(t);
    if (trace_init(t, &options, e) != 0)
        return -1;
    return gather_last(c, t, end, e) == 0 ? capture_save(c, t, e) : -1;
}

/* The folder may be removed even during the save. */
static int save_all(struct capture *c, struct trace *t, struct err *e)
{
    if (!capture_is_homeless(c)) {
        if (capture_save(c, t, e) == 0)
            return 0;
        if (!capture_is_homeless(c))
            return -1;
        print_error(e);
        *e = (struct err){0};
    }
    return capture_go_elsewhere(c, t, e) == 0 ? capture_save(c, t, e) : -1;
}

/*
 * A torn store is not saved: all of its data is in the journal or in the part before. The journal
 * is not replayed at once, because memory or disk space was too short even for less.
 */
static int lose_part(struct capture *c, struct err *e)
{
    c->trace = NULL;
    if (capture_settle_part(c, e) != 0)
        return -1;
    return err_set(e, c->cause.code, "%s is not saved: there was no room to begin it",
                   capture_output(c));
}

static int save_recorded(struct capture *c, struct trace *t, enum session_end end, struct err *e)
{
    if (c->dropped)
        return save_last(c, t, end, e);
    return c->torn ? lose_part(c, e) : save_all(c, t, e);
}

/* Discards the recorded data and its journal. */
static void drop_recorded(struct capture *c, struct trace *t)
{
    if (c->journal)
        journal_remove(c->journal, NULL);
    c->journal = NULL;
    c->trace = NULL;
    free(c->rest);
    c->rest = NULL;
    trace_release(t);
}

static int capture_connected(struct capture *c, struct connection *connection)
{
    struct trace t;
    struct connection own;
    struct err e = {0};
    enum session_end end;
    c->version = version_to_write(c, connection->version);
    print_client(connection);
    if (c->o.session.figures && save_check_figures(c->version, &c->o.container, &e) != 0) {
        close(connection->fd);
        return fail(c, &e, 5);
    }
    if (c->watched && c->o.name)
        c->guarded = session_guard_connected(connection->fd, c->o.output, c->o.spool_dir)
                         ? NULL
                         : c->o.output;
    if ((c->o.name ? prepare_named(c, connection, &t, &e) : prepare(c, &t, &e)) != 0) {
        close(connection->fd);
        return fail(c, &e, 5);
    }
    c->trace = &t;
    if (listens_for_save(c) && stop_watch(&c->stop, STOP_SAVE, SIGUSR1, &e) != 0)
        print_error(&e); /* recording goes on */
    int look_signal = c->o.session.looks.signal;
    if (look_signal && stop_watch(&c->stop, STOP_LOOK, look_signal, &e) != 0)
        print_error(&e);
    e = (struct err){0};
    monitor_hello(&c->monitor, connection, c->o.output);
    int status = record(c, connection, &t, &end, &e);
    if (status == 0 && capture_stand_in_left(c, connection, end, &own)) {
        drop_recorded(c, &t);
        return capture_connected(c, &own);
    }
    if (status == 0)
        c->ended.end = (int)end;
    let_go_of_signals(c);
    if (status == 0)
        status = save_recorded(c, &t, end, &e);
    if (status != 0) {
        status = fail(c, &e, 5);
        leave_journal(c, c->torn && !c->dropped);
    } else {
        c->ended.saved = !c->homeless;
        status = after_saving(c, &t, end);
    }
    c->trace = NULL;
    saved_summary_release(&c->summary);
    trace_release(&t);
    return status;
}

/* Holds the output folder open, to notice its removal. A daemon's session works in its folder. */
static void hold_folder(struct capture *c)
{
    char *folder = c->watched || c->fifo >= 0 ? NULL : outfile_folder(c->o.output);
    c->folder = folder ? output_folder_take(NULL, folder) : NULL;
    free(folder);
}

static int run(struct capture *c)
{
    /* enum connect_failure → the official tool's exit status: capture/src/CaptureOutput.cpp */
    static const int official[] = {[CONNECT_NO_CLIENT] = 3,
                                   [CONNECT_MISMATCH] = 1,
                                   [CONNECT_NOT_AVAILABLE] = 2,
                                   [CONNECT_DROPPED] = 3,
                                   [CONNECT_STOPPED] = 3};
    struct connection connection;
    struct err e = {0};
    if (!c->o.name && check_output(c, &e) != 0) {
        bool there = access(c->o.output, F_OK) == 0 && !c->o.replace;
        if (c->o.drop_in) /* the official tool prints its errors there */
            printf(there ? "Output file %s already exists! Use -f to force overwrite.\n"
                         : "Cannot open output file %s for writing!\n",
                   c->o.output);
        return fail(c, &e, there ? 4 : 5);
    }
    hold_folder(c);
    /* Start the helper before the connection. */
    if ((c->o.namer == NAMER_SERVER || c->o.namer == NAMER_BOTH) && !capture_start_resolver(c))
        return exits_as_official(c) ? 5 : 4;
    if (choose_spool(c, &e) != 0 || (!c->o.name && choose_journal(c, &e) != 0) ||
        stop_init(&c->stop, &e) != 0)
        return fail(c, &e, 5);
    char address[ADDRESS_TEXT_SIZE];
    printf("Connecting to %s...\n", address_text(address, c->o.connect.address, c->o.connect.port));
    fflush(stdout);
    enum connect_failure failure = connect_client(&c->o.connect, &c->stop, &connection, &e);
    c->ended.refused = failure == CONNECT_MISMATCH || failure == CONNECT_NOT_AVAILABLE;
    if (failure != CONNECT_OK)
        return fail(c, &e, official[failure]);
    return capture_connected(c, &connection);
}

int capture_run(struct capture *c)
{
    /* A closed reader of the output must not end the recording. */
    signal(SIGPIPE, SIG_IGN);
    /* Exceeding RLIMIT_FSIZE has to be an error like a full disk. */
    signal(SIGXFSZ, SIG_IGN);
    /* Before a client is connected, a request to save has no effect. */
    if (listens_for_save(c))
        signal(SIGUSR1, SIG_IGN);
    int status = run(c);
    end_on_signals(c, status);
    return status;
}

void capture_init(struct capture *c, int channel)
{
    *c = (struct capture){.parts = 1,
                          .watched = channel >= 0,
                          .ended = {.end = MONITOR_NEVER_BEGAN},
                          .fifo = -1,
                          .stop = {.fd = -1},
                          .resolver = RESOLVER_NONE,
                          .root = PROCESS_ROOT_NONE,
                          .terminal = isatty(STDOUT_FILENO)};
    monitor_init(&c->monitor, channel);
}

void capture_release(struct capture *c)
{
    monitor_tell_end(&c->monitor, &c->ended);
    monitor_release(&c->monitor);
    stop_release(&c->stop);
    if (c->fifo >= 0)
        close(c->fifo);
    part_saver_stop(&c->saver);
    resolver_release(&c->resolver);
    process_root_close(&c->root);
    output_folder_leave(c->folder);
    free(c->named_output);
    free(c->journal_name);
    free(c->part_output);
    free(c->rest);
    journal_reader_close(c->kept);
}
