#include "server/capture/session_internal.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "server/capture/capture_save.h"

#define PAGE ((size_t)4096)

/* ---- beginning */

bool session_is_local(const struct session *s)
{
    /* The socket's owner may be a tunnel, whose modules are not the client's. */
    return modules_has_pid(&s->modules, s->pid);
}

bool session_lacks_memory(const struct session *s)
{
    return s->lacks_memory;
}

struct process_root session_root(const struct session *s)
{
    return session_is_local(s) ? process_root_copy(&s->modules.root) : PROCESS_ROOT_NONE;
}

/*
 * The kinds of queries to send to this client. Code only if it offers code; source texts always for
 * older clients, as the official server does. Clients before protocol 66 would read code without
 * checking that it is still mapped.
 */
static uint32_t session_asks(const struct session *s, const struct intake_start *start,
                             const struct session_options *options)
{
    uint32_t ask = QUERY_ASK_DEFAULT;
    bool offered = start->welcome.flags & WELCOME_CODE_TRANSFER;
    if (!options->no_code && offered && start->version->facts.code_checked)
        ask |= 1u << QUERY_SYMBOL_CODE;
    if (!options->no_sources && (offered || !start->version->facts.sources_with_code))
        ask |= 1u << QUERY_SOURCE_CODE;
    if (options->no_symbols && session_is_local(s))
        ask &= ~(1u << QUERY_CALLSTACK_FRAME | 1u << QUERY_SYMBOL | 1u << QUERY_SYMBOL_CODE);
    return ask;
}

/* A collector of `tidemark run --listen` sends such plots itself. */
static void session_open_memory(struct session *s, const struct intake_start *start,
                                const struct session_options *options)
{
    pid_t pid = session_is_local(s) ? s->modules.pid : 0;
    uint64_t hz = options->memory_hz;
    bool looks = !options->no_resident && !options->figures; /* pages are joined with blocks */
    if (!hz && !looks)
        return;
    const struct look_times *times = looks ? &options->looks.times : NULL;
    s->lacks_memory = !client_memory_init(&s->memory, hz, times, start, pid, &s->modules.early) &&
                      hz && !strstr(start->welcome.host_info, WELCOME_RECORDED);
    s->modules.early.rollup = s->modules.early.pagemap = -1;
}

static int session_open(struct session *s, struct connection *c,
                        const struct session_options *options, struct err *e)
{
    int sndbuf = 0;
    socklen_t len = sizeof sndbuf;
    if (getsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, &len) != 0 || sndbuf < 0)
        sndbuf = 0;
    int sampler = options->sampler ? *options->sampler : -1;
    if (modules_init(&s->modules, s->fd, c->welcome.pid, sampler, e) != 0)
        return -1;
    /* The socket's owner is not the program. */
    if (strstr(c->welcome.host_info, WELCOME_RECORDED))
        s->modules.pid = 0;
    struct intake_start start = {.version = c->version,
                                 .welcome = c->welcome,
                                 .on_demand = c->on_demand,
                                 .space = query_space_for((size_t)sndbuf),
                                 .strict = options->strict,
                                 .as_released = options->as_released,
                                 .figures = options->figures};
    start.ask = session_asks(s, &start, options);
    session_open_memory(s, &start, options);
    s->buffer = aligned_alloc(PAGE, RECEIVE_SIZE + PAGE);
    s->packets = malloc(PACKETS_SIZE);
    if (!s->buffer || !s->packets)
        return err_no_memory(e, "the session");
    if (s->journal && journal_put_start(s->journal, &start, e) != 0)
        return -1;
    return intake_open(&s->r, s->trace, &start, e);
}

struct session *session_new(struct connection *c, struct trace *t,
                            const struct session_options *options, struct err *e)
{
    struct session *s = calloc(1, sizeof *s);
    if (!s) {
        close(c->fd);
        c->fd = -1;
        err_no_memory(e, "the session");
        return NULL;
    }
    s->modules.early = PROCESS_EARLY_NONE;
    s->memory.process = PROCESS_MEMORY_NONE;
    s->modules.root = PROCESS_ROOT_NONE;
    s->fd = c->fd;
    s->pid = c->welcome.pid;
    s->trace = t;
    s->journal = options->journal;
    c->fd = -1;
    if (session_open(s, c, options, e) == 0)
        return s;
    session_free(s);
    return NULL;
}

void session_free(struct session *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    intake_release(&s->r);
    modules_release(&s->modules);
    client_memory_release(&s->memory);
    free(s->buffer);
    free(s->packets);
    free(s);
}

/* ---- the loop */

/*
 * Whether a client that has ended stopped making progress: items must have arrived lately, and an
 * answer not too long ago. Keep-alives and bytes of unfinished frames do not count.
 */
static bool session_quiet(struct session *s, long long now)
{
    const struct decoder_stats *stats = decoder_stats(s->r.decoder);
    uint64_t items = stats->items - stats->kinds[WIRE_KEEP_ALIVE];
    struct query_stats queries;
    uint64_t answers = 0;
    query_stats(s->r.query, &queries);
    for (int i = 0; i < QUERY_KIND_COUNT; i++)
        answers += queries.asked[i] - queries.pending[i];
    bool waits = decoder_terminated(s->r.decoder) && !pace_rest_ms(&s->pace, now);
    if (items != s->items_seen || !waits)
        s->last_item = now;
    if (answers != s->answers_seen)
        s->drain_answer = now;
    if (answers != s->answers_seen || !waits)
        s->last_answer = now;
    s->items_seen = items;
    s->answers_seen = answers;
    return now - s->last_item > (long long)(s->limits->quiet_seconds * 1e9) ||
           now - s->last_answer > 20 * (long long)(s->limits->quiet_seconds * 1e9);
}

/* Whether the session is over, and how. */
static bool session_over(struct session *s, long long now, enum session_end *end)
{
    bool quiet = session_quiet(s, now);
    if (session_must_end(s, now)) {
        *end = s->drain_end;
        return true;
    }
    if (s->left_len) /* those bytes count as received */
        return false;
    if (decoder_terminated(s->r.decoder)) {
        *end = SESSION_COMPLETE;
        if (s->closed || decoder_settled(s->r.decoder) || quiet)
            return true;
    }
    if (s->closed) {
        *end = SESSION_VANISHED;
        return true;
    }
    if (!s->drain_until)
        return false;
    *end = s->drain_end;
    /* Answers may exceed the byte limit only by an eighth. */
    uint64_t most = s->limits->max_bytes + s->limits->max_bytes / 8;
    if (*end == SESSION_SIZE_LIMIT && frame_reader_stats(s->r.frames)->bytes_in >= most)
        return true;
    return now - s->drain_answer > (long long)(s->limits->silent_seconds * 1e9) ||
           (query_idle(s->r.query) && !decoder_in_group(s->r.decoder));
}

/*
 * Whether a client does not finish the frame that it began. The timer restarts when this process
 * itself was suspended.
 */
static bool session_is_stuck(struct session *s, long long now, struct err *e)
{
    const double seconds = s->limits->frame_seconds;
    uint64_t frames = frame_reader_stats(s->r.frames)->frames;
    bool ran = now - s->looped < 1000000000LL;
    s->looped = now;
    if (!ran || frames != s->frames_seen || frame_reader_partial(s->r.frames) == 0) {
        s->frame_began = now;
        s->frames_seen = frames;
    }
    if (seconds <= 0 || s->left_len || now - s->frame_began < (long long)(seconds * 1e9))
        return false;
    err_set(e, ERR_INPUT, "a frame that the client began is not whole after %g s", seconds);
    return true;
}

/*
 * Waits for the socket, or until it may be read again. Returns whether there are bytes to decode.
 */
static bool session_wait(struct session *s, long long now)
{
    int rest = s->left_len ? 0 : pace_rest_ms(&s->pace, now);
    if (rest) {
        (void)stop_wait(s->stop, -1, 0, rest < TICK_MS ? rest : TICK_MS);
        return false;
    }
    bool sending = s->packets_sent < s->packets_len;
    short events = (short)(POLLIN | (sending ? POLLOUT : 0));
    int pause = client_memory_pause(&s->memory, TICK_MS);
    short ready = stop_wait(s->stop, s->fd, events, s->left_len ? 0 : pause);
    return s->left_len || ready & (POLLIN | POLLHUP | POLLERR);
}

static enum session_end session_loop(struct session *s, struct err *e)
{
    enum session_end end;
    for (;;) {
        long long now = monotonic_ns();
        if (session_tick(s, now, e) != 0)
            return intake_end_of(e);
        if (stop_asked(s->stop))
            session_begin_drain(s, now, SESSION_STOPPED);
        if (s->stop->count > 1 && s->drain_until > now)
            s->drain_until = now;
        if (session_over(s, now, &end))
            return end;
        if (session_is_stuck(s, now, e))
            return SESSION_VANISHED;
        bool received = session_wait(s, now);
        if (received && session_receive(s, e) != 0)
            return intake_end_of(e);
        session_send(s);
    }
}

/* ---- the end */

void session_note_looks(const struct session *s)
{
    for (size_t i = s->memory.passed; i < s->memory.times.len; i++)
        fprintf(stderr, "tidemark: the capture ended before --resident-at %g\n",
                s->memory.times.at[i]);
}

bool session_has_dropped(const struct session *s)
{
    return s->dropped;
}

uint8_t *session_take_rest(struct session *s, size_t *len)
{
    uint8_t *rest = s->rest ? s->buffer : NULL;
    *len = s->rest;
    if (rest) {
        memmove(rest, s->rest_end - s->rest, s->rest);
        s->buffer = NULL;
    }
    s->rest = 0;
    return rest;
}

bool session_lacks(const struct session *s)
{
    return s->lacks;
}

size_t session_undecoded(const struct session *s)
{
    return s->undecoded;
}

bool session_is_torn(const struct session *s)
{
    return s->r.ingest.torn;
}

uint64_t session_unanswered(const struct session *s)
{
    return intake_unanswered(&s->r);
}

/* An end that could not be written because the disk is full must not spoil the trace. */
static void session_put_end(struct session *s, enum session_end end, const struct err *cause)
{
    struct err ignored = {0};
    if (s->journal)
        (void)journal_put_end(s->journal, end, cause, &ignored);
}

static int session_finish(struct session *s, enum session_end end, const struct err *cause,
                          struct err *e)
{
    session_report(s, monotonic_ns(), true);
    int status = session_last_modules(s, e);
    if (status == 0 && end == SESSION_VANISHED)
        status = client_memory_vanished(&s->memory, &s->r.ingest, s->journal, e);
    session_put_end(s, end, cause);
    if (status != 0 || session_finish_store(s, end, cause, e) != 0)
        return -1;
    if (s->undecoded == 0 || cause->code)
        return 0;
    return trace_add_fact(s->trace, e, "incomplete", "%s: %zu received bytes were not decoded",
                          session_end_text(end), s->undecoded);
}

/* Ends a session whose store is torn: nothing is added to the store or reported. */
static void session_abandon(struct session *s, enum session_end end, const struct err *cause)
{
    session_put_end(s, end, cause);
    s->lacks = true;
}

enum session_end session_run(struct session *s, const struct session_limits *limits,
                             struct stop *stop, struct err *e)
{
    s->limits = limits;
    s->stop = stop;
    s->began = s->last_tick = s->part_began = monotonic_ns();
    *e = (struct err){0};
    if (limits->parts || limits->forget) {
        s->r.ingest.part_full = session_part_full;
        s->r.ingest.part_full_ctx = s;
    }
    enum session_end end = session_loop(s, e);
    s->undecoded = s->left_len;
    s->lacks |= s->undecoded > 0;
    if (s->undecoded && s->full.code && e->code == ERR_NONE) {
        *e = s->full;
        end = SESSION_NO_ROOM;
    }
    if (end == SESSION_NO_ROOM && e->code == ERR_MEMORY && limits->memory && limits->memory->gated)
        err_prefix(e, "the memory limit is reached");
    memory_limit_open_gate(limits->memory);
    if (end == SESSION_NO_ROOM && e->code == ERR_OUTPUT && limits->parts &&
        capture_is_homeless(limits->parts))
        end = SESSION_HOMELESS;
    struct err late = {0};
    if (session_is_torn(s)) {
        session_abandon(s, end, e);
    } else if (session_finish(s, end, e, &late) != 0) {
        if (e->code == ERR_NONE)
            *e = late;
        end = SESSION_NO_ROOM;
    }
    if (!s->closed)
        session_terminate(s);
    /* shutdown also works while a child that saves a part has the socket, too. */
    (void)shutdown(s->fd, SHUT_RDWR);
    close(s->fd);
    s->fd = -1;
    return end;
}
