#include "run/run_join.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/print_error.h"
#include "run/run_memory.h"
#include "server/capture/recovery.h"
#include "trace/file/file_version.h"

/* Keys of pools of the recording: outside the range of a program's pointers. */
#define POOL_TAG (UINT64_C(1) << 62)

/* ---- one trace of both */

struct joining {
    struct run_record *record, *own;
    int fd;
    bool lives; /* the program has not ended */
    struct ingest *in;
};

static uint64_t pool_of(uint64_t key)
{
    return key | POOL_TAG;
}

static bool has_thread_name(const struct trace *t, uint64_t id)
{
    const uint64_t *number = map_find(&t->threads.numbers, id);
    return number && t->threads.list.at[*number].name;
}

/*
 * The program's zones and messages also went to its client, which has the better names of threads.
 */
static int take_event(void *ctx, const struct event *ev, struct err *e)
{
    const struct joining *j = ctx;
    struct event own = *ev;
    switch (ev->kind) {
    case EVENT_STRING: /* name of a pool */
        own.name.key = pool_of(ev->name.key);
        break;
    case EVENT_MEM_DISCARD:
        own.mem.pool = pool_of(ev->mem.pool);
        break;
    case EVENT_THREAD_NAME:
        if (has_thread_name(j->in->trace, ev->name.key))
            return 0;
        break;
    default:
        return 0;
    }
    return j->in->sink.event(j->in->sink.ctx, &own, e);
}

static int take_memory(void *ctx, const struct memory_event *events, size_t n, struct err *e)
{
    const struct joining *j = ctx;
    for (size_t i = 0; i < n; i++) {
        struct memory_event own = events[i];
        own.pool = pool_of(own.pool);
        if (j->in->sink.memory(j->in->sink.ctx, &own, 1, e) != 0)
            return -1;
    }
    return 0;
}

static int take_callstack(void *ctx, const uint64_t *frames, uint32_t n, uint32_t *id, bool *fresh,
                          struct err *e)
{
    const struct joining *j = ctx;
    return j->in->sink.callstack(j->in->sink.ctx, frames, n, id, fresh, e);
}

static int take_custom_frame(void *ctx, struct view function, struct view file, uint32_t line,
                             uint64_t *frame, struct err *e)
{
    const struct joining *j = ctx;
    return j->in->sink.custom_frame(j->in->sink.ctx, function, file, line, frame, e);
}

/* From the recording's time to the client's: a straight line through the header's pairs. */
struct clocks {
    double from, to; /* ns; the same moment on both */
    double slope;
};

static int64_t client_time(const void *ctx, int64_t time)
{
    const struct clocks *c = ctx;
    return (int64_t)fmax(-1e18, fmin(c->to + ((double)time - c->from) * c->slope, 1e18));
}

/* `h` was read when the program had ended; without a last pair it was killed, or goes on. */
static int add_memory(struct trace *from, uint64_t begin, const struct rec_header *h,
                      const struct recording_target *target, struct ingest *in, struct err *e)
{
    struct clocks c = {.from = (double)(int64_t)(h->first.ns - begin),
                       .to =
                           (double)(int64_t)(h->first.stamp - target->zero_stamp) * target->tick_ns,
                       .slope = 1};
    if (h->last.ns > h->first.ns && h->last.stamp > h->first.stamp)
        c.slope = (double)(h->last.stamp - h->first.stamp) * target->tick_ns /
                  (double)(h->last.ns - h->first.ns);
    return run_memory_copy(from, client_time, &c, in, e);
}

static int add_recording(void *ctx, struct ingest *in, const struct intake_start *start,
                         struct err *e)
{
    struct joining *j = ctx;
    struct rec_header h;
    struct ingest ours = {.trace = in->trace,
                          .sink = {.ctx = j,
                                   .event = take_event,
                                   .memory = take_memory,
                                   .callstack = take_callstack,
                                   .custom_frame = take_custom_frame}};
    struct recording_target target;
    struct recording *r = NULL;
    const struct event name = {.kind = EVENT_STRING,
                               .name = {.key = POOL_TAG, .text = view_of("malloc")}};
    j->in = in;
    recording_target_init(&target, &ours);
    target.last = INT64_MIN;
    target.tick_ns = start->welcome.timer_mul;
    target.zero_stamp = (uint64_t)start->welcome.init_begin;
    int status = recording_open(&r, j->fd, &target, e);
    if (status == 0)
        status = recording_header(r, &h, e);
    if (status == 0) {
        in->unknown_frees_expected = run_record_expects_strangers(&h, false);
        status = in->sink.event(in->sink.ctx, &name, e);
    }
    if (status == 0 && j->lives)
        status = recording_stop(r, e);
    if (status == 0)
        status = run_record_end(j->record, r, false, e);
    if (status == 0)
        status = add_memory(&j->own->trace, j->own->target.begin, &h, &target, in, e);
    if (status == 0)
        status = trace_add_fact(in->trace, e, "joined", "0x%" PRIx64, POOL_TAG);
    recording_free(r);
    recording_target_release(&target);
    return status;
}

/* Reads how the connection began; returns a reader at the journal's beginning, NULL with `e`. */
static struct journal_reader *open_journal(const struct run_client *c, struct recovery *found,
                                           struct err *e)
{
    struct journal_reader *reader = journal_reader_open(c->journal, e);
    int status = reader ? recovery_look(reader, found, e) : -1;
    if (status > 0)
        return reader;
    if (status == 0)
        err_set(e, ERR_INPUT, "the Tracy client at port %u sent nothing", c->port);
    journal_reader_close(reader);
    return NULL;
}

/*
 * Bounds: a day before the recording, and years after its beginning. Different clocks never agree
 * that closely.
 */
#define BEFORE_NS 1e14
#define BEHIND_NS 3e17

/* Whether the client's clock is the recording's. 1 or 0; -1 with `e`: its data cannot be read. */
static int fits(const struct run_client *c, int fd, struct err *e)
{
    struct rec_header h;
    struct recovery found;
    struct journal_reader *reader = open_journal(c, &found, e);
    if (!reader)
        return -1;
    journal_reader_close(reader);
    if (recording_read_header(fd, &h, e) != 0)
        return -1;
    const struct welcome *w = &found.welcome;
    if (w->pid && w->pid != (uint64_t)h.pid)
        return err_set(e, ERR_CONNECT, "port %u is that of the Tracy client of process %" PRIu64,
                       c->port, w->pid);
    double ahead = (double)(int64_t)((uint64_t)w->init_begin - h.first.stamp) * w->timer_mul;
    /* Clients without such a counter send nanoseconds. */
    return h.clock == REC_CLOCK_TSC && w->timer_mul != 1.0 && ahead > -BEFORE_NS &&
           ahead < BEHIND_NS;
}

/* The collector may not have noticed yet that the root has ended. */
static bool lives(const struct run_tree *t, const struct run_process *p)
{
    return !p->collected->ended && !(p->collected->is_root && t->root_ended);
}

/* Reads the client's journal and, unless `fd` is -1, the recording there. NULL with `e`. */
static struct run_record *read_both(const struct run_tree *t, const struct run_process *p, int fd,
                                    struct err *e)
{
    struct joining j = {.record = run_record_new_empty(t->spool, e),
                        .own = p->record,
                        .fd = fd,
                        .lives = lives(t, p)};
    const struct recovery_options options = {.more = fd < 0 ? NULL : add_recording, .more_ctx = &j};
    struct recovery found;
    struct journal_reader *reader = j.record ? open_journal(&p->client, &found, e) : NULL;
    int status = reader ? recovery_run(reader, &j.record->trace, &options, &found, e) : -1;
    journal_reader_close(reader);
    if (status == 0) {
        const uint8_t *v = found.version->facts.file_version;
        j.record->version = FILE_VERSION(v[0], v[1], v[2]);
        return j.record;
    }
    run_record_free(j.record);
    return NULL;
}

/* ---- what is printed */

/* "the program's Tracy client", or that of a child. */
static const char *whose(const struct run_process *p, struct buf *out)
{
    if (p->collected->is_root) {
        buf_puts(out, "the program's Tracy client");
    } else {
        const char *slash = strrchr(p->collected->hello.exe, '/');
        buf_printf(out, "the Tracy client of process %d (", (int)p->collected->pid);
        format_terminal(out, view_of(slash ? slash + 1 : p->collected->hello.exe));
        buf_puts(out, ")");
    }
    return buf_str(out);
}

static int save_separately(struct run_tree *t, const struct run_process *p, const char *output,
                           const char *client, struct err *e)
{
    struct run_record *record = read_both(t, p, -1, e);
    char *name = record ? run_trace_name(output, "client") : NULL;
    if (record && !name)
        err_no_memory(e, "the output's name");
    int status = name ? run_trace_save(t->traces, &record->trace, record->version, name, e) : -1;
    if (status == 0)
        fprintf(stderr, "tidemark: %s has a separate trace, %s: %s\n", client, name,
                t->options->when_full != RUN_FULL_STOP
                    ? "with --buffer what was read of the recording is given back"
                    : "its times and those of malloc are not both of the processor's "
                      "time stamp counter");
    free(name);
    run_record_free(record);
    return status;
}

static int join(struct run_tree *t, struct run_process *p, const char *output, const char *client,
                struct err *e)
{
    char n[FORMAT_SIZE];
    int fit = t->options->when_full != RUN_FULL_STOP ? 0 : fits(&p->client, p->collected->fd, e);
    if (fit <= 0)
        return fit < 0 ? -1 : save_separately(t, p, output, client, e);
    p->joined = read_both(t, p, p->collected->fd, e);
    if (p->joined && p->record->notes)
        fprintf(stderr,
                "tidemark: not in the trace beside the Tracy client's: %s of tidemark.h; "
                "--no-client records them with malloc alone\n",
                format_counted(n, p->record->notes, "report"));
    return p->joined ? 0 : -1;
}

static void say_missed(struct run_process *p, uint32_t port, const char *client, struct err *e)
{
    bool kept = run_client_has_journal(&p->client);
    fprintf(stderr, "tidemark: the trace has malloc alone, and nothing of %s at port %u%s\n",
            client, port,
            kept || e->code
                ? ""
                : ": the program ended before a server was connected; with TRACY_NO_EXIT=1 the "
                  "client waits for it, and --no-client leaves it alone");
    if (e->code)
        print_error(e);
    else
        err_set(e, ERR_CONNECT, "a Tracy client was not recorded");
    if (kept)
        fprintf(stderr,
                "tidemark: what that client sent is kept in %s; `tidemark recover` makes a trace "
                "of it\n",
                p->client.journal);
    p->client.keep = kept;
}

void run_join(struct run_tree *t, struct run_process *p, const char *output)
{
    struct rec_header h;
    struct err e = {0};
    struct buf client = {0};
    if (!t->joins || recording_read_header(p->collected->fd, &h, &e) != 0 || h.client_port == 0)
        return;
    run_client_wait(&p->client, lives(t, p));
    whose(p, &client);
    bool joined = p->client.connected && h.client_port == p->client.port &&
                  join(t, p, output, buf_str(&client), &e) == 0;
    if (!e.code)
        e = p->client.failure;
    if (!joined)
        say_missed(p, h.client_port, buf_str(&client), &e);
    else if (e.code) /* it has what came before */
        print_error(&e);
    if (e.code && !t->failure.code && (p->collected->is_root || !t->options->this_process))
        t->failure = e;
    buf_release(&client);
}
