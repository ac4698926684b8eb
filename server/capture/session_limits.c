/* What a tick checks: limits, parts and checkpoints, the module table, the progress line. */

#include "server/capture/session_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "base/saturate.h"
#include "server/capture/capture_save.h"
#include "server/net/keepalive.h"
#include "trace/store/kernel_plot.h"

/*
 * Limit of the parts begun because a table was full: a hostile client can fill the 32,766 source
 * locations again and again.
 */
#define FULL_PARTS_MAX 1024u
/*
 * After the wait for answers: how long to decode what was received before. 512 KiB of a real client
 * take a few milliseconds.
 */
#define GRACE_NS 500000000LL

/* Between saves because the client is near the end of its memory. */
#define NEAR_PAUSE_NS 60000000000LL

#define RSS_MOST 0x1p62 /* bytes */

/* ---- progress */

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

/*
 * RSS of the client's process: as this session reads it, or as a collector of `tidemark run` says.
 * Names and values come from the client.
 */
static uint64_t client_resident(const struct plots *p)
{
    double sum = 0;
    for (unsigned i = MEMORY_RSS_ANON; i <= MEMORY_RSS_SHMEM; i++)
        sum += plots_latest(p, MEMORY_PLOT_KEY(i));
    return sum > 0 && sum < RSS_MOST ? (uint64_t)sum : 0;
}

void session_report(struct session *s, long long now, bool last)
{
    const struct frame_stats *frames = frame_reader_stats(s->r.frames);
    struct query_stats queries;
    struct session_progress p = {
        .seconds = (double)(now - s->began) / 1e9,
        .bytes_in = frames->bytes_in,
        .compression = frames->bytes_out ? (double)frames->bytes_in / (double)frames->bytes_out : 0,
        .client_resident = client_resident(&s->trace->plots),
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

/* ---- modules */

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

int session_last_modules(struct session *s, struct err *e)
{
    size_t before = s->trace->app_info.len;
    int status = modules_finish(&s->modules, s->trace, e);
    session_keep_facts(s, before);
    return status;
}

/* ---- parts */

bool session_is_full(const struct session *s)
{
    return s->limits->parts && !s->limits->forget && s->full_parts < FULL_PARTS_MAX &&
           trace_is_full_to(s->trace, TRACE_NEARLY_FULL);
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
    s->memory.cgroups = 0;
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

int session_finish_store(struct session *s, enum session_end end, const struct err *cause,
                         struct err *e)
{
    int status = intake_finish(&s->r, end, cause, e);
    s->lacks |= status != 0;
    return status;
}

int session_part_full(void *ctx, struct err *e)
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

/* ---- limits */

void session_begin_drain(struct session *s, long long now, enum session_end why)
{
    if (s->drain_until)
        return;
    query_forget_patient(s->r.query);
    s->drain_end = why;
    s->drain_answer = now;
    s->drain_until = now + (long long)(s->limits->drain_seconds * 1e9) + 1;
    s->grace = GRACE_NS;
}

bool session_must_end(const struct session *s, long long now)
{
    return s->drain_until && now >= s->drain_until + (s->left_len ? s->grace : 0);
}

int session_keep_memory(struct session *s, long long now, struct err *e)
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
    if (beyond > 1) { /* memory matters more than answers and received bytes */
        s->drain_until = now;
        s->grace = 0;
    }
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

/* A client that has ended waits for Terminate with its memory in place. */
static int session_read_memory(struct session *s, struct err *e)
{
    bool exits = decoder_terminated(s->r.decoder);
    if ((exits || s->drain_until) &&
        client_memory_end(&s->memory, exits ? LOOK_AT_EXIT : LOOK_AT_END, &s->r.ingest, s->journal,
                          e) != 0)
        return -1;
    return client_memory_tick(&s->memory, &s->r.ingest, s->journal, &s->stop->asked[STOP_LOOK], e);
}

/*
 * A client near the end of its memory may soon be killed, and this process with it: what a flight
 * recorder keeps is then saved. Otherwise the journal has all.
 */
static void session_heed_limit(struct session *s, long long now)
{
    const struct session_limits *l = s->limits;
    if (!s->memory.nears)
        return;
    s->memory.nears = false;
    if (!l->forget || !l->turn || (s->near_saved && now - s->near_saved < NEAR_PAUSE_NS))
        return;
    s->near_saved = now;
    *l->turn = true;
}

int session_tick(struct session *s, long long now, struct err *e)
{
    const struct session_limits *l = s->limits;
    if (l->seconds >= 0 && (double)(now - s->began) >= l->seconds * 1e9)
        session_begin_drain(s, now, SESSION_TIME_LIMIT);
    if (l->max_bytes && frame_reader_stats(s->r.frames)->bytes_in >= l->max_bytes)
        session_begin_drain(s, now, SESSION_SIZE_LIMIT);
    if (session_rotate(s, now, e) != 0 || session_part_saved(s, false, e) != 0 ||
        session_read_memory(s, e) != 0)
        return -1;
    session_heed_limit(s, now);
    if (session_save_kept(s, e) != 0)
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
