#include "run/run_client.h"

#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/monotonic.h"
#include "base/print_error.h"
#include "server/capture/recovery.h"
#include "server/capture/session.h"
#include "trace/file/file_version.h"

/* Keys of pools of the recording: outside the range of a program's pointers. */
#define POOL_TAG (UINT64_C(1) << 62)

/* Timeout of the handshake with a busy client, in seconds. */
#define CONNECT_SECONDS 10

/* After the program's end: the time for the client's last bytes, and for the journal to appear. */
#define WAIT_NS UINT64_C(10000000000)
#define BEGIN_NS UINT64_C(200000000)
#define PAUSE_NS 5000000

/* ---- the server, in a child process */

static int serve(const struct run_client *c, struct err *e)
{
    const struct connect_options to = {
        .address = "127.0.0.1", .port = c->port, .timeout = CONNECT_SECONDS, .quiet = true};
    const struct session_limits limits = {.seconds = -1, .drain_seconds = 2, .quiet_seconds = 3};
    const struct journal_options journaling = {0};
    const struct trace_options options = {.resident_budget = TRACE_BUDGET};
    struct session_options session = {0};
    struct connection connection;
    struct stop stop = {.fd = -1};
    struct trace t;
    if (connect_client(&to, &stop, &connection, e) != CONNECT_OK)
        return -1;
    session.journal = journal_create(c->journal, &journaling, e);
    if (!session.journal || trace_init(&t, &options, e) != 0)
        return -1;
    struct session *s = session_new(&connection, &t, &session, e);
    if (!s)
        return -1;
    enum session_end end = session_run(s, &limits, &stop, e);
    bool lacks = session_lacks(s);
    session_free(s);
    trace_release(&t);
    journal_close(session.journal);
    return end == SESSION_NO_ROOM || lacks ? -1 : 0;
}

/* Closes the collector's descriptors: the program must not depend on copies of them. */
static _Noreturn void become_server(const struct run_client *c)
{
    struct err e = {0};
    (void)close_range(3, ~0u, 0);
    int status = serve(c, &e);
    if (e.code)
        print_error(&e);
    _exit(status != 0);
}

/* Whether the client has sent its welcome: the journal is made then. */
static bool has_begun(const struct run_client *c)
{
    return access(c->journal, F_OK) == 0;
}

static void start_server(struct run_client *c, int fd, const char *folder)
{
    uint32_t port = 0;
    struct buf path = {0};
    if (pread(fd, &port, sizeof port, offsetof(struct rec_header, client_port)) !=
        (ssize_t)sizeof port)
        return;
    if (port == 0 || port > UINT16_MAX)
        return;
    c->port = (uint16_t)port;
    buf_printf(&path, "%s/client.journal", folder);
    c->journal = path.failed ? NULL : strdup(buf_str(&path));
    buf_release(&path);
    if (!c->journal)
        return;
    c->pid = fork();
    if (c->pid == 0)
        become_server(c);
    if (c->pid < 0)
        c->pid = 0;
}

/* The server process ended early: there is no client, or another server has it. */
static bool has_ended(const struct run_client *c)
{
    siginfo_t info = {.si_pid = 0};
    return c->pid <= 0 || waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
}

void run_client_look(struct run_client *c, int fd, const char *folder)
{
    const uint32_t yes = 1;
    if (!c->port)
        start_server(c, fd, folder);
    if (c->served || !c->journal || !(has_begun(c) || has_ended(c)))
        return;
    c->served = true;
    (void)!pwrite(fd, &yes, sizeof yes, offsetof(struct rec_header, client_served));
}

void run_client_wait(struct run_client *c)
{
    int status = 0;
    uint64_t began = monotonic_ns(), now = began;
    pid_t got = 0;
    while (c->pid > 0 && (got = waitpid(c->pid, &status, WNOHANG)) == 0 &&
           now - began < (has_begun(c) ? WAIT_NS : BEGIN_NS)) {
        (void)nanosleep(&(const struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        now = monotonic_ns();
    }
    if (c->pid > 0 && got == 0) {
        (void)kill(c->pid, SIGKILL);
        (void)waitpid(c->pid, &status, 0);
    }
    c->connected = c->pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    c->pid = 0;
}

/* ---- joining the traces */

struct joining {
    struct run_record *record;
    int fd;
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
    if (status == 0)
        status = run_record_end(j->record, r, false, e);
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

int run_client_fits(const struct run_client *c, int fd, struct err *e)
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
    double ahead = (double)(int64_t)((uint64_t)w->init_begin - h.first.stamp) * w->timer_mul;
    /* Clients without such a counter send nanoseconds. */
    return h.clock == REC_CLOCK_TSC && w->timer_mul != 1.0 && ahead > -BEFORE_NS &&
           ahead < BEHIND_NS;
}

struct run_record *run_client_read(const struct run_client *c, int fd, const char *spool,
                                   uint32_t *version, struct err *e)
{
    struct joining j = {.fd = fd, .record = run_record_new_empty(spool, e)};
    const struct recovery_options options = {.more = fd < 0 ? NULL : add_recording, .more_ctx = &j};
    struct recovery found;
    struct journal_reader *reader = j.record ? open_journal(c, &found, e) : NULL;
    int status = reader ? recovery_run(reader, &j.record->trace, &options, &found, e) : -1;
    journal_reader_close(reader);
    if (status == 0) {
        const uint8_t *v = found.version->facts.file_version;
        *version = FILE_VERSION(v[0], v[1], v[2]);
        return j.record;
    }
    run_record_free(j.record);
    return NULL;
}

void run_client_release(struct run_client *c, bool keep)
{
    struct err e = {0};
    struct journal_reader *reader = c->journal && !keep && access(c->journal, F_OK) == 0
                                        ? journal_reader_open(c->journal, &e)
                                        : NULL;
    if (reader)
        (void)journal_reader_remove(reader, &e);
    free(c->journal);
    c->journal = NULL;
}
