#include "server/capture/session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/monotonic.h"
#include "base/saturate.h"
#include "server/capture/capture_save.h"
#include "server/capture/client_modules.h"
#include "server/capture/pace.h"
#include "server/net/keepalive.h"
#include "trace/ingest/carry.h"

/*
 * Small enough that received bytes stay in the processor's cache until they are decoded; with
 * smaller buffers the kernel makes more calls, more acknowledgements and smaller writes to the
 * journal.
 */
#define RECEIVE_SIZE ((size_t)512 << 10)
#define RECEIVE_FINE ((size_t)128 << 10) /* near a byte limit, or when a table is half full */
/* Piece size near the end of a table, so that the next part begins before the table is full. */
#define RECEIVE_LESS ((size_t)16 << 10)
#define HALF_FULL 50u /* percent */
#define NEARLY_DUE 80u
/*
 * Limit of a turn of the loop, between two checks of signals, clock and limits. A client's 512 KiB
 * can expand to 130 MiB, which can take seconds to decode.
 */
#define TURN_NS 20000000LL
/* Decompressed bytes between two memory checks. */
#define LOOK_BYTES ((uint64_t)128 << 10)
#define PAGE ((size_t)4096)
#define PACKETS_SIZE ((size_t)QUERY_SPACE_MAX * QUERY_PACKET_SIZE)
#define TICK_MS 100
/* A flight recorder makes a checkpoint for each half of the interval that it keeps. */
#define STRETCHES 2u
/*
 * Limit of the parts begun because a table was full: a hostile client can fill the 32,766 source
 * locations again and again.
 */
#define FULL_PARTS_MAX 1024u

struct session {
    int fd;
    uint64_t pid; /* as the client claims */
    struct trace *trace;
    struct journal *journal; /* NULL: no journal is kept */
    struct intake r;
    struct modules modules;
    uint8_t *buffer;     /* JOURNAL_HEADROOM bytes, then RECEIVE_SIZE bytes of received data */
    const uint8_t *left; /* received bytes not decoded yet */
    size_t left_len;
    struct err full; /* why the journal failed; ends the session after the bytes above */
    uint64_t looked; /* decompressed bytes at the last memory check */
    struct pace pace;
    uint8_t *packets; /* queries to be sent */
    size_t packets_len;
    size_t packets_sent;
    bool closed; /* the client closed the connection */

    const struct session_limits *limits;
    struct stop *stop;
    long long began, last_tick; /* monotonic ns */
    uint64_t tick_bytes;
    uint64_t items_seen, answers_seen; /* counts at the times below */
    long long last_item, last_answer;  /* monotonic ns */
    long long drain_until;             /* 0 while not draining */
    long long drain_answer;            /* time of the last answer, or when draining began */
    enum session_end drain_end;
    long long frame_began;    /* monotonic ns; without an open frame, the time of the last check */
    uint64_t frames_seen;     /* frames at that time */
    long long looped;         /* monotonic ns */
    long long part_began;     /* monotonic ns */
    uint64_t part_bytes;      /* bytes received before the current part */
    uint32_t cuts[STRETCHES]; /* segments with the latest checkpoints, newest first */
    unsigned full_parts;      /* parts begun because a table was nearly full */
    bool dropped;
    size_t rest; /* received bytes, at the end, that the journal lacks */
    const uint8_t *rest_end;
    bool lacks;          /* some received data is not in the store */
    bool saving;         /* the previous part is being saved */
    uint32_t saving_cut; /* the segment that begins after it; 0: none */
};

/* ---- beginning */

bool session_is_local(const struct session *s)
{
    /* The socket's owner may be a tunnel, whose modules are not the client's. */
    return modules_has_pid(&s->modules, s->pid);
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

static int session_open(struct session *s, struct connection *c,
                        const struct session_options *options, struct err *e)
{
    int sndbuf = 0;
    socklen_t len = sizeof sndbuf;
    if (getsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, &len) != 0 || sndbuf < 0)
        sndbuf = 0;
    if (modules_init(&s->modules, s->fd, options->sampler ? *options->sampler : -1, e) != 0)
        return -1;
    /* The socket's owner is not the program. */
    if (strstr(c->welcome.host_info, WELCOME_RECORDED))
        s->modules.pid = 0;
    struct intake_start start = {.version = c->version,
                                 .welcome = c->welcome,
                                 .on_demand = c->on_demand,
                                 .space = query_space_for((size_t)sndbuf),
                                 .strict = options->strict,
                                 .as_released = options->as_released};
    start.ask = session_asks(s, &start, options);
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
    s->modules.maps = -1;
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
    free(s->buffer);
    free(s->packets);
    free(s);
}

/* ---- queries out */

/* Sends as much as the socket takes. A broken socket is noticed when reading. */
static void session_send(struct session *s)
{
    for (;;) {
        if (s->packets_sent == s->packets_len) {
            s->packets_sent = 0;
            s->packets_len = query_flush(s->r.query, s->packets, PACKETS_SIZE);
            if (s->packets_len == 0)
                return;
            /* A journal that cannot be written returns its error when the next bytes arrive. */
            if (s->journal)
                (void)journal_append(s->journal, JOURNAL_SENT, s->packets, s->packets_len, NULL);
        }
        ssize_t n = send(s->fd, s->packets + s->packets_sent, s->packets_len - s->packets_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            return;
        s->packets_sent += (size_t)n;
    }
}

/* Sends Terminate and waits a moment if the socket is full: the program's exit waits for it. */
static void session_terminate(struct session *s)
{
    uint8_t packet[QUERY_PACKET_SIZE];
    query_encode_terminate(s->r.start.version, packet);
    if (s->packets_len + sizeof packet <= PACKETS_SIZE) {
        memcpy(s->packets + s->packets_len, packet, sizeof packet);
        s->packets_len += sizeof packet;
    }
    long long until = monotonic_ns() + 1000000000LL;
    while (s->packets_sent < s->packets_len && monotonic_ns() < until) {
        struct pollfd polled = {.fd = s->fd, .events = POLLOUT};
        if (poll(&polled, 1, 100) < 0 && errno != EINTR)
            break;
        ssize_t n = send(s->fd, s->packets + s->packets_sent, s->packets_len - s->packets_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            break;
        s->packets_sent += n > 0 ? (size_t)n : 0;
    }
}

/* ---- bytes in */

static int session_keep_memory(struct session *s, long long now, struct err *e);

/* The size of a decompressed frame is bounded; memory is checked before the next frames. */
static int session_look_at_memory(struct session *s, struct err *e)
{
    uint64_t bytes = frame_reader_stats(s->r.frames)->bytes_out;
    if (bytes - s->looked < LOOK_BYTES)
        return 0;
    s->looked = bytes;
    return session_keep_memory(s, monotonic_ns(), e);
}

/* Whether answers are no longer awaited and received bytes no longer decoded. */
static bool session_must_end(const struct session *s, long long now)
{
    return s->drain_until && (now >= s->drain_until || s->stop->count > 1);
}

/* Decodes received bytes until the turn ends. 0, or -1 with `e` filled. */
static int session_decode(struct session *s, long long turn_ends, struct err *e)
{
    int status;
    while ((status = intake_take(&s->r, &s->left, &s->left_len, e)) == 1) {
        session_send(s);
        if (session_look_at_memory(s, e) != 0)
            return -1;
        long long now = monotonic_ns();
        if (now >= turn_ends || session_must_end(s, now))
            return 0;
    }
    s->left_len = 0;
    s->lacks = status < 0 && intake_end_of(e) == SESSION_NO_ROOM;
    if (status == 0 && s->full.code) {
        *e = s->full;
        status = -1;
    }
    return status;
}

/*
 * Writes received bytes to the journal before they are decoded. If the journal is full, they are
 * still decoded, and then the session ends.
 */
static void session_keep(struct session *s, size_t len)
{
    uint64_t kept = s->journal ? journal_received(s->journal) : 0;
    s->left = s->buffer + JOURNAL_HEADROOM;
    s->left_len = len;
    if (!s->journal ||
        journal_append_received(s->journal, s->buffer + JOURNAL_HEADROOM, len, &s->full) == 0)
        return;
    s->rest = len - (size_t)(journal_received(s->journal) - kept);
    s->rest_end = s->left + len;
}

/*
 * A table of the store is close to the limit of the file format. A flight recorder is exempt, since
 * what it keeps is renumbered at the end.
 */
static bool session_is_full(const struct session *s)
{
    return s->limits->parts && !s->limits->forget && s->full_parts < FULL_PARTS_MAX &&
           trace_is_full_to(s->trace, TRACE_NEARLY_FULL);
}

/* Whether a limit is reached, so that a tick is due. */
static bool session_due(const struct session *s)
{
    const struct session_limits *l = s->limits;
    uint64_t bytes = frame_reader_stats(s->r.frames)->bytes_in;
    uint64_t most = l->forget ? l->rotate_bytes / STRETCHES + 1 : l->rotate_bytes;
    return (l->max_bytes && bytes >= l->max_bytes) ||
           (l->rotate_bytes && bytes - s->part_bytes >= most) || session_is_full(s);
}

/* How many bytes to receive at a time. */
static size_t session_piece(const struct session *s)
{
    const struct session_limits *l = s->limits;
    size_t most = RECEIVE_SIZE;
    if (l->max_bytes || l->rotate_bytes || trace_is_full_to(s->trace, HALF_FULL))
        most = RECEIVE_FINE;
    if (s->pace.expands || trace_is_full_to(s->trace, NEARLY_DUE))
        most = RECEIVE_LESS;
    return s->journal ? journal_piece(s->journal, most) : most;
}

/*
 * Receives for the length of a turn. Bytes left over from the last turn get a turn without
 * receiving, so that a part can begin after them. 0, or -1 with `e` filled.
 */
static int session_take_turn(struct session *s, long long turn_ends, struct err *e)
{
    if (s->left_len)
        return session_decode(s, turn_ends, e);
    while (!s->closed && monotonic_ns() < turn_ends) {
        size_t most = session_piece(s);
        ssize_t n = recv(s->fd, s->buffer + JOURNAL_HEADROOM, most, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (n <= 0) {
            s->closed = true;
            return 0;
        }
        session_keep(s, (size_t)n);
        if (session_decode(s, turn_ends, e) != 0)
            return -1;
        if (s->left_len || (size_t)n < most / 4 || session_due(s))
            return 0;
    }
    return 0;
}

static int session_receive(struct session *s, struct err *e)
{
    const struct frame_stats before = *frame_reader_stats(s->r.frames);
    const struct frame_stats *now = frame_reader_stats(s->r.frames);
    long long began = monotonic_ns();
    int status = session_take_turn(s, began + TURN_NS, e);
    pace_note(&s->pace, now->bytes_in - before.bytes_in, now->bytes_out - before.bytes_out, began,
              monotonic_ns());
    return status;
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

static void session_report(struct session *s, long long now, bool last)
{
    const struct frame_stats *frames = frame_reader_stats(s->r.frames);
    struct query_stats queries;
    struct session_progress p = {
        .seconds = (double)(now - s->began) / 1e9,
        .bytes_in = frames->bytes_in,
        .compression = frames->bytes_out ? (double)frames->bytes_in / (double)frames->bytes_out : 0,
        .last_time = ingest_latest(&s->r.ingest),
        .last = last};
    query_stats(s->r.query, &queries);
    p.queries = queries.queued + queries.flight;
    if (now > s->last_tick)
        p.bytes_per_second =
            (double)(frames->bytes_in - s->tick_bytes) * 1e9 / (double)(now - s->last_tick);
    for (size_t i = 0; i < s->trace->memory.pools.len; i++) {
        const struct pool *pool = s->trace->memory.pools.at[i];
        const struct pool_sums sums = memory_pool_sums(pool);
        p.memory_events += sums.allocations + sums.frees;
        p.live_allocations += pool->totals.live;
        p.live_bytes = saturating_add(p.live_bytes, pool->totals.live_bytes);
    }
    s->tick_bytes = frames->bytes_in;
    if (s->limits->progress)
        s->limits->progress(s->limits->progress_ctx, &p);
}

static void session_begin_drain(struct session *s, long long now, enum session_end why)
{
    if (s->drain_until)
        return;
    query_forget_patient(s->r.query);
    s->drain_end = why;
    s->drain_answer = now;
    s->drain_until = now + (long long)(s->limits->drain_seconds * 1e9) + 1;
}

/* Writes the client's module facts to the journal, too: /proc loses them when the client exits. */
static void session_keep_facts(struct session *s, size_t from)
{
    for (size_t i = from; s->journal && i < s->trace->app_info.len; i++) {
        struct view fact = strings_get(&s->trace->strings, s->trace->app_info.at[i]);
        (void)journal_append(s->journal, JOURNAL_FACT, fact.p, fact.len, NULL);
    }
}

static int session_modules(struct session *s, long long now, struct err *e)
{
    size_t before = s->trace->app_info.len;
    int status = modules_refresh(&s->modules, s->trace, now, e);
    session_keep_facts(s, before);
    return status;
}

int session_look(struct session *s, struct err *e)
{
    return session_modules(s, monotonic_ns(), e);
}

static int session_last_modules(struct session *s, struct err *e)
{
    size_t before = s->trace->app_info.len;
    int status = modules_finish(&s->modules, s->trace, e);
    session_keep_facts(s, before);
    return status;
}

/* Whether another part is due. */
static bool session_is_part_due(struct session *s, long long now)
{
    const struct session_limits *l = s->limits;
    const unsigned stretches = l->forget ? STRETCHES : 1;
    double seconds = l->rotate_seconds / stretches;
    uint64_t most = l->rotate_bytes / stretches + (l->rotate_bytes != 0);
    uint64_t bytes = frame_reader_stats(s->r.frames)->bytes_in;
    bool late = seconds > 0 && (double)(now - s->part_began) >= seconds * 1e9;
    bool large = l->rotate_bytes && bytes - s->part_bytes >= most;
    bool asked = l->turn && *l->turn && !l->forget;
    bool full = session_is_full(s);
    /* A checkpoint needs all bytes in the journal to be decoded. */
    if (s->left_len || s->drain_until || (!late && !large && !asked && !full) ||
        decoder_terminated(s->r.decoder) || (!l->parts && !l->forget))
        return false;
    s->full_parts += full;
    if (asked)
        *l->turn = false;
    s->part_began = now;
    s->part_bytes = bytes;
    return true;
}

/*
 * Makes a checkpoint, so that earlier segments can be removed: what a flight recorder no longer
 * keeps, or a saved part. If that fails, the segments stay, which is no error; a full disk is
 * noticed when the next bytes arrive.
 */
static void session_cut_journal(struct session *s)
{
    struct err ignored = {0};
    uint32_t segment;
    if (!s->journal || journal_cut(s->journal, &s->r, &segment, &ignored) != 0)
        return;
    if (!s->limits->forget && s->saving) {
        s->saving_cut = segment;
        return;
    }
    if (!s->limits->forget) {
        journal_forget(s->journal, segment);
        return;
    }
    if (s->cuts[STRETCHES - 1] && !s->saving)
        journal_forget(s->journal, s->cuts[STRETCHES - 1]);
    memmove(s->cuts + 1, s->cuts, (STRETCHES - 1) * sizeof s->cuts[0]);
    s->cuts[0] = segment;
}

/* Checks whether the previous part is saved, and if so removes it from the journal. */
static int session_part_saved(struct session *s, bool wait, struct err *e)
{
    int status = s->saving ? capture_part_saved(s->limits->parts, wait, e) : 0;
    if (status == 0)
        return 0;
    s->saving = false;
    if (status > 0 && s->saving_cut)
        journal_forget(s->journal, s->saving_cut);
    s->saving_cut = 0;
    return status < 0 ? -1 : 0;
}

/* Saves what a flight recorder keeps, while it goes on recording. One save at a time. */
static int session_save_kept(struct session *s, struct err *e)
{
    const struct session_limits *l = s->limits;
    if (!l->forget || !l->parts || !l->turn || !*l->turn || s->saving)
        return 0;
    *l->turn = false;
    memory_limit_open_gate(l->memory);
    int status = capture_save_kept(l->parts, e);
    s->saving = status > 0;
    return status < 0 ? -1 : 0;
}

/* Begins a part where the one before ends, between two frames. */
static int session_rotate(struct session *s, long long now, struct err *e)
{
    uint8_t frames[8];
    if (!session_is_part_due(s, now))
        return 0;
    store_u64(frames, intake_frames(&s->r));
    if (s->journal && !s->limits->forget)
        (void)journal_append(s->journal, JOURNAL_TURN, frames, sizeof frames, NULL);
    int status = intake_turn(&s->r, e);
    if (status > 0) {
        s->dropped |= s->limits->forget;
        session_cut_journal(s);
    }
    return status < 0 ? -1 : 0;
}

static int session_keep_memory(struct session *s, long long now, struct err *e)
{
    struct memory_limit *l = s->limits->memory;
    uint64_t reserve = l ? memory_limit_reserve(l, s->trace) : 0;
    int beyond = l ? memory_limit_keep(l, s->trace, reserve, e) : 0;
    if (beyond > 0 && s->saving) { /* the child that saves a part has a share of it */
        if (session_part_saved(s, true, e) != 0)
            return -1;
        beyond = memory_limit_keep(l, s->trace, reserve, e);
    }
    if (l)
        memory_limit_close_gate(l, reserve);
    if (beyond > 0)
        session_begin_drain(s, now, SESSION_MEMORY_LIMIT);
    if (beyond > 1) /* memory matters more than answers */
        s->drain_until = now;
    return beyond < 0 ? -1 : 0;
}

/* A journal that cannot be written ends the session once all received bytes are decoded. */
static int session_tick_journal(struct session *s, struct err *e)
{
    if (!s->journal || journal_tick(s->journal, &s->full) == 0 || s->left_len)
        return 0;
    *e = s->full;
    return -1;
}

/* Once per tick: checks the limits, reads the module table, prints the progress line. */
static int session_tick(struct session *s, long long now, struct err *e)
{
    const struct session_limits *l = s->limits;
    if (l->seconds >= 0 && (double)(now - s->began) >= l->seconds * 1e9)
        session_begin_drain(s, now, SESSION_TIME_LIMIT);
    if (l->max_bytes && frame_reader_stats(s->r.frames)->bytes_in >= l->max_bytes)
        session_begin_drain(s, now, SESSION_SIZE_LIMIT);
    if (session_rotate(s, now, e) != 0 || session_part_saved(s, false, e) != 0 ||
        session_save_kept(s, e) != 0)
        return -1;
    if (now - s->last_tick < TICK_MS * 1000000LL)
        return 0;
    if (l->memory_bytes && resident_bytes() > l->memory_bytes)
        session_begin_drain(s, now, SESSION_MEMORY_LIMIT);
    session_report(s, now, false);
    s->last_tick = now;
    if (keepalive_is_lost(s->fd)) /* all pending data was read, and the end follows */
        (void)shutdown(s->fd, SHUT_RD);
    if (session_keep_memory(s, now, e) != 0)
        return -1;
    if (session_tick_journal(s, e) != 0)
        return -1;
    return session_modules(s, now, e);
}

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
    short ready = stop_wait(s->stop, s->fd, events, s->left_len ? 0 : TICK_MS);
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

bool session_is_torn(const struct session *s)
{
    return s->r.ingest.torn;
}

uint64_t session_unanswered(const struct session *s)
{
    return intake_unanswered(&s->r);
}

/* If decoding cannot go on, the journal has more than the store. */
static int session_finish_store(struct session *s, enum session_end end, const struct err *cause,
                                struct err *e)
{
    int status = intake_finish(&s->r, end, cause, e);
    s->lacks |= status != 0;
    return status;
}

/* The ingest calls this when the format's clock is at its end. */
static int session_part_full(void *ctx, struct err *e)
{
    struct session *s = ctx;
    const struct err none = {0};
    memory_limit_open_gate(s->limits->memory);
    if (s->limits->forget) {
        s->dropped = true;
        return session_last_modules(s, e);
    }
    /* One save at a time. */
    if (session_part_saved(s, true, e) != 0 || session_last_modules(s, e) != 0 ||
        session_finish_store(s, SESSION_PART_FULL, &none, e) != 0)
        return -1;
    int status = capture_save_part(s->limits->parts, e);
    s->saving = status > 0;
    return status < 0 ? -1 : 0;
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
    session_put_end(s, end, cause);
    return status == 0 ? session_finish_store(s, end, cause, e) : -1;
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
    s->lacks |= end == SESSION_NO_ROOM && s->left_len;
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
