#include "server/session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/saturate.h"
#include "protocol/decoder.h"
#include "protocol/frame.h"
#include "protocol/query.h"
#include "server/modules.h"
#include "symbols/instructions.h"
#include "trace/carry.h"

/* Small enough that what is received stays in the processor's cache until it is decoded. */
#define RECEIVE_SIZE ((size_t)128 << 10)
#define RECEIVES_PER_TURN 32
#define PACKETS_SIZE ((size_t)QUERY_SPACE_MAX * QUERY_PACKET_SIZE)
#define TICK_MS 100

struct session {
    struct connection c;
    struct trace *trace;
    struct ingest ingest;
    struct query *query;
    struct decoder *decoder;
    struct frame_reader *frames;
    struct modules modules;
    struct instructions *instructions; /* NULL when code is not asked for */
    uint8_t *receive;                  /* RECEIVE_SIZE bytes */
    uint8_t *packets;                  /* queries on their way to the socket */
    size_t packets_len;
    size_t packets_sent;
    bool closed; /* the client's side of the connection */

    const struct session_limits *limits;
    struct stop *stop;
    long long began, last_tick; /* monotonic ns */
    uint64_t tick_bytes;
    uint64_t items_seen, answers_seen; /* as of the times below */
    long long last_item, last_answer;  /* monotonic ns */
    long long drain_until;             /* 0 while not draining */
    enum session_end drain_end;
};

/* ---- beginning */

/* A time that the file can hold, whatever the client claims. */
static int64_t clock_in_trace(int64_t time)
{
    return time < 0 ? 0 : time > INGEST_TIME_LIMIT ? INGEST_TIME_LIMIT : time;
}

static void session_facts(struct session *s)
{
    const struct welcome *w = &s->c.welcome;
    struct trace_facts *f = &s->trace->facts;
    f->timer_mul = w->timer_mul;
    f->resolution = welcome_period(w, w->resolution);
    f->delay = welcome_period(w, w->delay);
    f->init_end = clock_in_trace(welcome_time(w, w->init_end));
    f->last_time = f->init_end;
    f->pid = w->pid;
    f->sampling_period = w->sampling_period;
    f->cpu_arch = w->cpu_arch;
    f->cpu_id = w->cpu_id;
    memcpy(f->cpu_manufacturer, w->cpu_manufacturer, sizeof f->cpu_manufacturer);
    f->capture_time = w->epoch;
    f->executable_time = w->exec_time;
    f->on_demand = (w->flags & WELCOME_ON_DEMAND) != 0;
    if (f->on_demand) {
        f->frame_offset = s->c.on_demand.frames;
        f->on_demand_time = welcome_time(w, s->c.on_demand.time);
    }
}

static int session_texts(struct session *s, struct err *e)
{
    const struct welcome *w = &s->c.welcome;
    struct strings *strings = &s->trace->strings;
    struct trace_facts *f = &s->trace->facts;
    char name[128], date[32] = "";
    time_t began = (time_t)w->epoch;
    struct tm local;
    if (localtime_r(&began, &local))
        strftime(date, sizeof date, "%F %T", &local);
    snprintf(name, sizeof name, "%s @ %s", w->program_name, date);
    f->capture_name = strings_intern(strings, view_of(name), e);
    f->program = strings_intern(strings, view_of(w->program_name), e);
    f->host_info = strings_intern(strings, view_of(w->host_info), e);
    if (!f->capture_name || !f->program || !f->host_info)
        return -1;
    /* The set of frames without a name has one nevertheless, as in official captures. */
    uint32_t frame = strings_intern(strings, view_of("Frame"), e);
    return frame ? strings_bind(strings, 0, frame, e) : -1;
}

/* An on-demand client may have run for longer than a trace's clock can tell: begin where we came.
 */
static void session_place_clock(struct session *s)
{
    struct trace_facts *f = &s->trace->facts;
    if (f->on_demand_time <= s->ingest.time_limit)
        return;
    s->ingest.time_base = f->on_demand_time;
    f->on_demand_time = f->init_end = 0;
    f->last_time = 1;
}

bool session_is_local(const struct session *s)
{
    /* Who holds the other end may be a tunnel: its modules are not the client's. */
    return modules_has_pid(&s->modules, s->c.welcome.pid);
}

/*
 * What to ask of this client. Code only of one that offers it; source texts of older ones in any
 * case, as the official server does. Clients before protocol 66 would read the code without looking
 * whether it is still there.
 */
static uint32_t session_asks(const struct session *s, const struct session_options *options)
{
    uint32_t ask = QUERY_ASK_DEFAULT;
    bool offered = s->c.welcome.flags & WELCOME_CODE_TRANSFER;
    if (!options->no_code && offered && s->c.version->facts.code_checked)
        ask |= 1u << QUERY_SYMBOL_CODE;
    if (!options->no_sources && (offered || !s->c.version->facts.sources_with_code))
        ask |= 1u << QUERY_SOURCE_CODE;
    if (options->no_symbols && session_is_local(s))
        ask &= ~(1u << QUERY_CALLSTACK_FRAME | 1u << QUERY_SYMBOL | 1u << QUERY_SYMBOL_CODE);
    return ask;
}

static int session_instructions(void *ctx, uint64_t address, struct view code, code_found_fn *found,
                                void *found_ctx, struct err *e)
{
    struct session *s = ctx;
    return instructions_walk(s->instructions, address, code, found, found_ctx, e);
}

/* With code goes the line that each instruction comes from: the profiler shows both. */
static void session_read_code(struct session *s, struct decoder_config *decoder)
{
    static const enum instruction_set sets[] = {[ARCH_X86] = CODE_X86,
                                                [ARCH_X64] = CODE_X64,
                                                [ARCH_ARM32] = CODE_ARM32,
                                                [ARCH_ARM64] = CODE_ARM64};
    uint8_t arch = s->c.welcome.cpu_arch;
    if (arch == ARCH_UNKNOWN || arch >= sizeof sets / sizeof sets[0])
        return;
    s->instructions = instructions_new(sets[arch]);
    if (s->instructions)
        decoder->read_code = (struct code_reader){s, session_instructions};
}

static int session_open(struct session *s, const struct session_options *options, struct err *e)
{
    int sndbuf = 0;
    socklen_t len = sizeof sndbuf;
    if (getsockopt(s->c.fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, &len) != 0 || sndbuf < 0)
        sndbuf = 0;
    session_facts(s);
    if (session_texts(s, e) != 0 || ingest_init(&s->ingest, s->trace, e) != 0)
        return -1;
    s->ingest.strict = options->strict;
    s->ingest.unknown_frees_expected =
        (s->c.welcome.flags & (WELCOME_ON_DEMAND | WELCOME_IGNORE_MEM_FAULTS)) != 0;
    s->ingest.zone_values_in_hex = s->c.version->facts.zone_value_hex;
    s->ingest.samples_end_nothing = s->c.version->facts.samples_end_nothing;
    s->trace->samples.combine = (s->c.welcome.flags & WELCOME_COMBINE_SAMPLES) != 0;
    session_place_clock(s);
    if (modules_init(&s->modules, s->c.fd, e) != 0)
        return -1;
    struct query_config query = {.version = s->c.version,
                                 .space = query_space_for((size_t)sndbuf),
                                 .ask = session_asks(s, options)};
    s->query = query_new(&query);
    struct decoder_config decoder = {.version = s->c.version,
                                     .welcome = &s->c.welcome,
                                     .query = s->query,
                                     .sink = s->ingest.sink};
    if (query.ask >> QUERY_SYMBOL_CODE & 1)
        session_read_code(s, &decoder);
    s->decoder = s->query ? decoder_new(&decoder) : NULL;
    s->frames = frame_reader_new();
    s->receive = malloc(RECEIVE_SIZE);
    s->packets = malloc(PACKETS_SIZE);
    if (!s->decoder || !s->frames || !s->receive || !s->packets)
        return err_no_memory(e, "the session");
    return 0;
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
    s->c = *c;
    s->trace = t;
    c->fd = -1;
    if (session_open(s, options, e) == 0)
        return s;
    session_free(s);
    return NULL;
}

void session_free(struct session *s)
{
    if (!s)
        return;
    if (s->c.fd >= 0)
        close(s->c.fd);
    decoder_free(s->decoder);
    query_free(s->query);
    instructions_free(s->instructions);
    frame_reader_free(s->frames);
    ingest_release(&s->ingest);
    modules_release(&s->modules);
    free(s->receive);
    free(s->packets);
    free(s);
}

/* ---- queries out */

/* Sends as much as the socket takes now. A broken socket shows when reading. */
static void session_send(struct session *s)
{
    for (;;) {
        if (s->packets_sent == s->packets_len) {
            s->packets_sent = 0;
            s->packets_len = query_flush(s->query, s->packets, PACKETS_SIZE);
            if (s->packets_len == 0)
                return;
        }
        ssize_t n = send(s->c.fd, s->packets + s->packets_sent, s->packets_len - s->packets_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            return;
        s->packets_sent += (size_t)n;
    }
}

/* Tells the client to let go, waiting a moment for a full socket: its program's exit hangs on it.
 */
static void session_terminate(struct session *s)
{
    uint8_t packet[QUERY_PACKET_SIZE];
    query_encode_terminate(s->c.version, packet);
    if (s->packets_len + sizeof packet <= PACKETS_SIZE) {
        memcpy(s->packets + s->packets_len, packet, sizeof packet);
        s->packets_len += sizeof packet;
    }
    long long until = monotonic_ns() + 1000000000LL;
    while (s->packets_sent < s->packets_len && monotonic_ns() < until) {
        struct pollfd polled = {.fd = s->c.fd, .events = POLLOUT};
        if (poll(&polled, 1, 100) < 0 && errno != EINTR)
            break;
        ssize_t n = send(s->c.fd, s->packets + s->packets_sent, s->packets_len - s->packets_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            break;
        s->packets_sent += n > 0 ? (size_t)n : 0;
    }
}

/* ---- bytes in */

static int session_feed(struct session *s, const uint8_t *bytes, size_t len, struct err *e)
{
    struct wire_frame frame;
    int status;
    while ((status = frame_reader_feed(s->frames, &bytes, &len, &frame, e)) == 1) {
        if (decoder_frame(s->decoder, frame.bytes, frame.len, e) != 0)
            return -1;
        session_send(s);
    }
    return status;
}

/* Takes what the socket has. 0, or -1 with `e` filled. */
static int session_receive(struct session *s, struct err *e)
{
    for (int i = 0; i < RECEIVES_PER_TURN && !s->closed; i++) {
        ssize_t n = recv(s->c.fd, s->receive, RECEIVE_SIZE, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (n <= 0) {
            s->closed = true;
            return 0;
        }
        if (session_feed(s, s->receive, (size_t)n, e) != 0)
            return -1;
        if ((size_t)n < RECEIVE_SIZE / 4)
            return 0;
    }
    return 0;
}

/* ---- limits */

static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f)
        return 0;
    if (fscanf(f, "%*s %llu", &pages) != 1)
        pages = 0;
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void session_report(struct session *s, long long now)
{
    const struct frame_stats *frames = frame_reader_stats(s->frames);
    struct query_stats queries;
    struct session_progress p = {
        .seconds = (double)(now - s->began) / 1e9,
        .bytes_in = frames->bytes_in,
        .compression = frames->bytes_out ? (double)frames->bytes_in / (double)frames->bytes_out : 0,
        .last_time = s->trace->facts.last_time};
    query_stats(s->query, &queries);
    p.queries = queries.queued + queries.flight;
    if (now > s->last_tick)
        p.bytes_per_second =
            (double)(frames->bytes_in - s->tick_bytes) * 1e9 / (double)(now - s->last_tick);
    for (size_t i = 0; i < s->trace->memory.pools.len; i++) {
        const struct pool_totals *t = &s->trace->memory.pools.at[i]->totals;
        p.memory_events += t->allocations + t->frees;
        p.live_allocations += t->live;
        p.live_bytes = saturating_add(p.live_bytes, t->live_bytes);
    }
    s->tick_bytes = frames->bytes_in;
    if (s->limits->progress)
        s->limits->progress(s->limits->progress_ctx, &p);
}

static void session_begin_drain(struct session *s, long long now, enum session_end why)
{
    if (s->drain_until)
        return;
    query_forget_patient(s->query);
    s->drain_end = why;
    s->drain_until = now + (long long)(s->limits->drain_seconds * 1e9) + 1;
}

/* Once a tick: the limits, the module table, the progress line. */
static int session_tick(struct session *s, long long now, struct err *e)
{
    const struct session_limits *l = s->limits;
    if (l->seconds >= 0 && (double)(now - s->began) >= l->seconds * 1e9)
        session_begin_drain(s, now, SESSION_TIME_LIMIT);
    if (now - s->last_tick < TICK_MS * 1000000LL)
        return 0;
    if (l->memory_bytes && resident_bytes() > l->memory_bytes)
        session_begin_drain(s, now, SESSION_MEMORY_LIMIT);
    session_report(s, now);
    s->last_tick = now;
    return modules_refresh(&s->modules, s->trace, now, e);
}

/*
 * Whether a client that has said that it ends is worth waiting for: something came of it lately,
 * and some answer not too long ago. Keep-alives and the bytes of frames never finished do not
 * count.
 */
static bool session_quiet(struct session *s, long long now)
{
    const struct decoder_stats *stats = decoder_stats(s->decoder);
    uint64_t items = stats->items - stats->kinds[WIRE_KEEP_ALIVE];
    struct query_stats queries;
    uint64_t answers = 0;
    query_stats(s->query, &queries);
    for (int i = 0; i < QUERY_KIND_COUNT; i++)
        answers += queries.asked[i] - queries.pending[i];
    if (items != s->items_seen || !decoder_terminated(s->decoder))
        s->last_item = now;
    if (answers != s->answers_seen || !decoder_terminated(s->decoder))
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
    if (decoder_terminated(s->decoder)) {
        *end = SESSION_COMPLETE;
        if (s->closed || decoder_settled(s->decoder) || quiet)
            return true;
    }
    if (s->closed) {
        *end = SESSION_VANISHED;
        return true;
    }
    if (!s->drain_until)
        return false;
    *end = s->drain_end;
    return now >= s->drain_until || s->stop->count > 1 ||
           (query_idle(s->query) && !decoder_in_group(s->decoder));
}

static enum session_end end_of_error(const struct err *e)
{
    switch (e->code) {
    case ERR_CHECK:
        return SESSION_FAULT;
    case ERR_INPUT:
        return SESSION_BROKEN;
    default:
        return SESSION_NO_ROOM;
    }
}

static enum session_end session_loop(struct session *s, struct err *e)
{
    enum session_end end;
    for (;;) {
        long long now = monotonic_ns();
        if (session_tick(s, now, e) != 0)
            return end_of_error(e);
        if (stop_asked(s->stop))
            session_begin_drain(s, now, SESSION_STOPPED);
        if (session_over(s, now, &end))
            return end;
        bool sending = s->packets_sent < s->packets_len;
        short events = (short)(POLLIN | (sending ? POLLOUT : 0));
        short ready = stop_wait(s->stop, s->c.fd, events, TICK_MS);
        if (ready & (POLLIN | POLLHUP | POLLERR) && session_receive(s, e) != 0)
            return end_of_error(e);
        session_send(s);
    }
}

/* ---- the end */

const char *session_end_text(enum session_end end)
{
    switch (end) {
    case SESSION_COMPLETE:
        return "the client ended";
    case SESSION_STOPPED:
        return "stopped by signal";
    case SESSION_TIME_LIMIT:
        return "time limit reached";
    case SESSION_MEMORY_LIMIT:
        return "memory limit reached";
    case SESSION_VANISHED:
        return "the client vanished";
    case SESSION_BROKEN:
        return "bytes that cannot be decoded";
    case SESSION_FAULT:
        return "memory fault";
    case SESSION_NO_ROOM:
        return "no room left";
    case SESSION_PART_FULL:
        return PART_CONTINUED;
    }
    return "?";
}

uint64_t session_unanswered(const struct session *s)
{
    struct query_stats stats;
    uint64_t n = 0;
    query_stats(s->query, &stats);
    for (int i = 0; i < QUERY_KIND_COUNT; i++) {
        /* Source texts are no names, and some clients never say that they have none. */
        if (i != QUERY_SOURCE_CODE && i != QUERY_DATA_TRANSFER && i != QUERY_DATA_TRANSFER_PART)
            n += stats.pending[i];
    }
    return n;
}

/* What the trace itself should say about how it ended. */
static int session_end_facts(struct session *s, enum session_end end, const struct err *cause,
                             struct err *e)
{
    struct trace *t = s->trace;
    bool partial = end == SESSION_VANISHED || end == SESSION_BROKEN || end == SESSION_FAULT ||
                   end == SESSION_NO_ROOM;
    if (trace_add_fact(t, e, "protocol", "%u", s->c.version->protocol) != 0 ||
        trace_add_fact(t, e, "end", "%s", session_end_text(end)) != 0)
        return -1;
    if (partial && trace_add_fact(t, e, "incomplete", "%s%s%s", session_end_text(end),
                                  cause->code ? ": " : "", cause->code ? cause->text : "") != 0)
        return -1;
    uint64_t unanswered = session_unanswered(s);
    if (unanswered &&
        trace_add_fact(t, e, "unanswered", "%llu", (unsigned long long)unanswered) != 0)
        return -1;
    return ingest_finish(&s->ingest, e);
}

/* The ingest's call when the format's clock is at its end. */
static int session_part_full(void *ctx, struct err *e)
{
    struct session *s = ctx;
    const struct err none = {0};
    if (modules_finish(&s->modules, s->trace, e) != 0 ||
        session_end_facts(s, SESSION_PART_FULL, &none, e) != 0)
        return -1;
    return s->limits->part_full(s->limits->part_ctx, e);
}

enum session_end session_run(struct session *s, const struct session_limits *limits,
                             struct stop *stop, struct err *e)
{
    s->limits = limits;
    s->stop = stop;
    s->began = s->last_tick = monotonic_ns();
    *e = (struct err){0};
    if (limits->part_full) {
        s->ingest.part_full = session_part_full;
        s->ingest.part_full_ctx = s;
    }
    enum session_end end = session_loop(s, e);
    session_report(s, monotonic_ns());
    struct err late = {0};
    if (modules_finish(&s->modules, s->trace, &late) != 0 ||
        session_end_facts(s, end, e, &late) != 0) {
        if (e->code == ERR_NONE)
            *e = late;
        end = SESSION_NO_ROOM;
    }
    if (!s->closed)
        session_terminate(s);
    close(s->c.fd);
    s->c.fd = -1;
    return end;
}
