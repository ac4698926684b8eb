#include "cli/top/top_live.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/figures/summary.h"
#include "base/format.h"
#include "base/outfile.h"
#include "base/print_error.h"
#include "cli/top/top.h"
#include "server/capture/journal.h"
#include "server/capture/recover.h"
#include "server/capture/session.h"
#include "server/net/address.h"
#include "trace/save/save_file.h"

struct live {
    const struct top_live *l;
    char *journal_name;      /* NULL: no journal is kept */
    struct journal *journal; /* NULL: not begun, or removed */
    bool recorded;           /* there is data to save */
    bool lacks;              /* some received data is in the journal only */
    struct connection connection;
    struct trace trace;
    struct stop stop;
    struct top top;
    struct err failed;     /* the error of the display */
    struct err cause;      /* the error that ended the recording of a trace to be saved */
    unsigned stops_before; /* requests to stop before the save began */
    bool told_saving;      /* the effect of a second request to stop was printed */
};

/*
 * Fails before recording begins rather than at its end. Leaves no file behind. Until the trace is
 * saved its data is in a journal, as in a capture.
 */
static int check_output(struct live *r, struct err *e)
{
    const struct container_options container = container_options_default();
    struct outfile probe;
    struct stat st;
    const char *output = r->l->output;
    if (!output || (stat(output, &st) == 0 && !S_ISREG(st.st_mode)))
        return 0;
    if (outfile_open(&probe, output, r->l->replace, e) != 0)
        return -1;
    outfile_abort(&probe);
    r->journal_name = journal_name(output, NULL, e);
    return r->journal_name ? recover_leftover(r->journal_name, output, &container, e) : -1;
}

/* Called by the session about ten times a second, while no data is being added to the store. */
static void turn(void *ctx, const struct session_progress *p)
{
    struct live *r = ctx;
    (void)p;
    if (r->top.quit || r->failed.code)
        return;
    if (top_turn(&r->top, &r->failed) != 0 || r->top.quit)
        r->stop.count++; /* as a signal would */
}

/* Without an output, data that no figure needs is not queried, and names are not waited for. */
static int record(struct live *r, struct err *e)
{
    bool saves = r->l->output != NULL;
    const struct session_options options = {.no_code = !saves,
                                            .no_sources = !saves,
                                            .as_released = r->l->as_released,
                                            .journal = r->journal};
    const struct session_limits limits = {.seconds = -1,
                                          .drain_seconds = saves ? 2 : 0,
                                          .silent_seconds = 0.5,
                                          .quiet_seconds = 3,
                                          .progress = turn,
                                          .progress_ctx = r};
    struct session *s = session_new(&r->connection, &r->trace, &options, e);
    if (!s)
        return -1;
    if (top_open(&r->top, false, e) != 0) {
        session_free(s);
        return -1;
    }
    top_draw(&r->top);
    r->recorded = true;
    enum session_end end = session_run(s, &limits, &r->stop, e);
    r->lacks = saves && session_lacks(s);
    session_free(s);
    r->top.live = false;
    r->top.end = session_end_text(end);
    if (e->code)
        snprintf(r->top.message, sizeof r->top.message, "%s", e->text);
    if (saves)
        r->cause = *e;
    *e = r->failed;
    return e->code ? -1 : 0;
}

/* If the recording ends by itself, its data stays on display. */
static int look_on(struct live *r, struct err *e)
{
    if (r->top.quit || r->stop.count)
        return 0;
    return top_build(&r->top, e) != 0 ? -1 : top_loop(&r->top, &r->stop, e);
}

/*
 * As in a capture: the first request to stop during a save prints a message; the second one stops
 * the save.
 */
static int still_saving(void *ctx, struct err *e)
{
    struct live *r = ctx;
    (void)stop_asked(&r->stop);
    unsigned asked = r->stop.count - r->stops_before;
    if (asked > 1)
        return err_set(e, ERR_OUTPUT, "interrupted, nothing is saved");
    if (asked && !r->told_saving) {
        r->told_saving = true;
        fprintf(stderr, "tidemark: saving; a second signal gives the trace up\n");
    }
    return 0;
}

static int save(struct live *r, struct err *e)
{
    struct trace_write_stats stats;
    struct buf losses = {0};
    char bytes[FORMAT_SIZE];
    const uint8_t *v = r->connection.version->facts.file_version;
    struct save_options options = {.layout = file_layout_find(FILE_VERSION(v[0], v[1], v[2])),
                                   .container = container_options_default(),
                                   .replace = r->l->replace,
                                   .going = still_saving,
                                   .going_ctx = r};
    r->stops_before = r->stop.count;
    printf("Saving trace...");
    fflush(stdout);
    int status = summary_write_facts(&r->trace, e);
    if (status == 0)
        status = trace_save_file(&r->trace, r->l->output, &options, &stats, &losses, e);
    if (status != 0)
        printf(" failed!\n");
    else
        printf(" done!\nTrace size %s\n", format_bytes(bytes, stats.file_bytes));
    if (losses.len)
        fprintf(stderr, "tidemark: the file's version cannot hold: %s\n", buf_str(&losses));
    buf_release(&losses);
    return status;
}

/* Removes the journal of a trace that has all; else the received data stays in it. */
static void end_journal(struct live *r, bool saved)
{
    if (r->journal && (saved || !journal_has_data(r->journal))) {
        journal_remove(r->journal, saved ? r->l->output : NULL);
    } else if (r->journal) {
        fprintf(stderr,
                "tidemark: what was recorded is kept in %s; `tidemark recover` makes a trace of it "
                "when there is room\n",
                journal_path(r->journal));
        journal_close(r->journal);
    }
    r->journal = NULL;
}

/* Saves the recorded data even if the display failed. */
static int end_connected(struct live *r, int status, struct err *e)
{
    struct err saving = {0};
    bool saved = r->recorded && r->l->output && save(r, &saving) == 0;
    if (saved && r->cause.code) {
        saving = r->cause;
        err_prefix(&saving, "the recording ended early");
    } else if (saved && r->lacks) {
        err_set(&saving, ERR_OUTPUT, "%s lacks the last received data", r->l->output);
    }
    end_journal(r, saved && !r->lacks);
    if (saving.code && status != 0)
        print_error(&saving);
    else if (saving.code)
        *e = saving;
    return saving.code ? -1 : status;
}

static int run_connected(struct live *r, struct err *e)
{
    const struct journal_options journaling = {0};
    int status = trace_init(&r->trace, NULL, e);
    bool has_trace = status == 0;
    if (has_trace && r->journal_name) {
        r->journal = journal_create(r->journal_name, &journaling, e);
        status = r->journal ? 0 : -1;
    }
    if (status != 0) {
        close(r->connection.fd);
    } else {
        r->top = (struct top){.trace = &r->trace, .options = r->l->tree, .live = true};
        status = record(r, e);
        if (status == 0)
            status = look_on(r, e);
        top_close(&r->top);
        status = end_connected(r, status, e);
    }
    if (has_trace)
        trace_release(&r->trace);
    return status;
}

int top_live_run(const struct top_live *l)
{
    struct live r = {.l = l, .stop = {.fd = -1}};
    struct err e = {0};
    char address[ADDRESS_TEXT_SIZE];
    int status = check_output(&r, &e);
    if (status == 0)
        status = stop_init(&r.stop, &e);
    if (status == 0) {
        printf("Connecting to %s...\n", address_text(address, l->connect.address, l->connect.port));
        fflush(stdout);
        status = connect_client(&l->connect, &r.stop, &r.connection, &e) == CONNECT_OK ? 0 : -1;
    }
    if (status == 0)
        status = run_connected(&r, &e);
    stop_release(&r.stop);
    free(r.journal_name);
    if (status == 0)
        return 0;
    print_error(&e);
    return err_exit_status(&e);
}
