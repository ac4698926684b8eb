#include "server/capture/client_memory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

#include "base/bytes.h"
#include "base/format.h"
#include "base/monotonic.h"
#include "base/print_error.h"
#include "proc/memory_plots.h"

/* Clocks may drift apart by so much: 100 ppm. */
#define DRIFT 10000

/* i64 time, u32 values that are known, an f64 for each value. */
#define RECORD_HEAD 12u
#define RECORD_SIZE (RECORD_HEAD + 8u * MEMORY_VALUES)

/* The client's age by its clock and by the seconds of its welcome differ by less. */
#define AGE_DIFFERS 3.0

/* See Profiler::GetTime of public/client/TracyProfiler.hpp @ v0.14.0. */
static int64_t clients_now(const struct welcome *w)
{
    struct timespec t = {0};
#ifdef __x86_64__
    if (w->timer_mul != 1)
        return welcome_time(w, (int64_t)__rdtsc());
#endif
    (void)clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return welcome_time(w, t.tv_sec * INT64_C(1000000000) + t.tv_nsec);
}

static bool shares_clock(const struct welcome *w)
{
    double age = (double)time(NULL) - (double)w->epoch;
    return fabs((double)clients_now(w) / 1e9 - age) < AGE_DIFFERS;
}

bool client_memory_init(struct client_memory *m, uint64_t hz, const struct look_times *times,
                        const struct intake_start *start, pid_t pid,
                        const struct process_early *early)
{
    struct memory_reading first = {0};
    *m = (struct client_memory){.process = PROCESS_MEMORY_NONE,
                                .clock = start->welcome,
                                .shared = shares_clock(&start->welcome),
                                .began = monotonic_ns(),
                                .blind = !times};
    if (times)
        m->times = *times;
    if (start->welcome.flags & WELCOME_ON_DEMAND)
        m->least = welcome_time(&start->welcome, start->on_demand.time);
    if (pid > 0 && process_memory_open(&m->process, pid))
        process_memory_read(&m->process, &first);
    m->process.early = *early;
    if (early->maps >= 0)
        m->process.early.maps = fcntl(early->maps, F_DUPFD_CLOEXEC, 0);
    if (first.known)
        m->rounds = memory_rounds(hz);
    page_watch_take(&m->watch, &first);
    return first.known != 0;
}

void client_memory_release(struct client_memory *m)
{
    process_memory_close(&m->process);
}

/* The time on a clock that is not read here, of which `latest` is over. */
static int64_t guess_now(struct client_memory *m, int64_t latest)
{
    latest = latest < m->least ? m->least : latest;
    int64_t now = monotonic_ns(), most = m->ahead + (now - m->seen) / DRIFT;
    m->ahead = !m->seen || now - latest < most ? now - latest : most;
    m->seen = now;
    return now - m->ahead;
}

static void keep(const struct memory_reading *r, int64_t time, struct journal *journal)
{
    uint8_t record[RECORD_SIZE];
    store_i64(record, time);
    store_u32(record + 8, r->known);
    for (size_t i = 0; i < MEMORY_VALUES; i++)
        store_f64(record + RECORD_HEAD + 8 * i, r->value[i]);
    /* A journal that cannot be written returns its error when the next bytes arrive. */
    (void)journal_append(journal, JOURNAL_MEMORY, record, sizeof record, NULL);
}

/* The journal's older segments may have been removed since it got the last one. */
static void keep_cgroup(struct client_memory *m, struct journal *journal)
{
    struct buf note = {0};
    if (m->cgroups != m->process.cgroups && process_memory_note(&m->process, &note))
        (void)journal_append(journal, JOURNAL_CGROUP, note.data, note.len, NULL);
    m->cgroups = m->process.cgroups;
    buf_release(&note);
}

/* ---- looks */

/* A record is a piece of a look: u8 whether it is the last one, then bytes of page_looks_encode. */
#define PIECE (JOURNAL_RECORD_MAX - 1)

/* More than any process can have: 64 KiB for each resident GiB. */
#define LOOK_BYTES_MOST ((size_t)256 << 20)

static void keep_look(const struct page_look *look, struct journal *journal)
{
    struct page_look one = *look;
    const struct page_looks list = {.list = {.at = &one, .len = 1}};
    struct buf bytes = {0}, record = {0};
    page_looks_encode(&list, &bytes);
    for (size_t at = 0; at < bytes.len && !bytes.failed; at += PIECE) {
        size_t rest = bytes.len - at;
        buf_clear(&record);
        buf_u8(&record, rest <= PIECE);
        buf_put(&record, bytes.data + at, rest < PIECE ? rest : PIECE);
        if (record.failed ||
            journal_append(journal, JOURNAL_PAGES, record.data, record.len, NULL) != 0)
            break;
    }
    buf_release(&bytes);
    buf_release(&record);
}

/* Takes the look over. Its times are the client's. One from before this part is dropped. */
static int add_look(struct page_look *look, struct ingest *in, struct err *e)
{
    struct page_looks *to = &in->trace->looks;
    if (__builtin_sub_overflow(look->begin, in->time_base, &look->begin) ||
        __builtin_sub_overflow(look->end, in->time_base, &look->end) || look->begin < 0 ||
        look->end < look->begin || to->list.len == LOOKS_MOST) {
        page_look_release(look);
        return 0;
    }
    if (!page_looks_keep(to, look))
        return err_no_memory(e, "a look at the pages");
    page_looks_sort(to);
    return 0;
}

static int64_t time_of_client(struct client_memory *m, const struct ingest *in)
{
    return m->shared ? clients_now(&m->clock) : guess_now(m, ingest_latest(in));
}

static bool is_wish(enum look_reason reason)
{
    return reason == LOOK_ASKED || reason == LOOK_AT_TIME;
}

static int read_pages(struct client_memory *m, enum look_reason reason, struct page_look *look,
                      struct err *e)
{
    if (m->blind || m->process.folder < 0)
        return err_set(e, ERR_INPUT, "its pages may not be read");
    int status = page_watch_look(&m->watch, &m->process, reason, look, e);
    m->blind = status != 0;
    return status;
}

static int look_at(struct client_memory *m, enum look_reason reason, struct ingest *in,
                   struct journal *journal, struct err *e)
{
    struct page_look look;
    struct err unread = {0};
    int64_t time = time_of_client(m, in);
    if (read_pages(m, reason, &look, &unread) != 0) {
        err_prefix(&unread, "no look at the client");
        if (is_wish(reason))
            print_error(&unread);
        return 0;
    }
    if (reason == LOOK_ASKED)
        fprintf(stderr, "tidemark: looked at the client's pages\n");
    look.end = time + (look.end - look.begin);
    look.begin = time;
    if (journal)
        keep_look(&look, journal);
    return add_look(&look, in, e);
}

/* ---- readings */

/* *known: whether it can be read. */
static int read_values(struct client_memory *m, bool pss, struct ingest *in,
                       struct journal *journal, bool *known, struct err *e)
{
    struct memory_reading r;
    int64_t time = time_of_client(m, in);
    if (pss)
        process_memory_pss(&m->process, &r);
    else
        process_memory_read(&m->process, &r);
    *known = r.known;
    if (r.known && journal) {
        keep_cgroup(m, journal);
        keep(&r, time, journal);
    }
    if (!pss)
        page_watch_take(&m->watch, &r);
    return memory_plots_add(&r, time, &m->named, &in->sink, e);
}

int client_memory_end(struct client_memory *m, enum look_reason reason, struct ingest *in,
                      struct journal *journal, struct err *e)
{
    bool known;
    if (m->ended)
        return 0;
    m->ended = true;
    if (look_at(m, reason, in, journal, e) != 0)
        return -1;
    return m->rounds.period ? read_values(m, false, in, journal, &known, e) : 0;
}

int client_memory_vanished(struct client_memory *m, struct ingest *in, struct journal *journal,
                           struct err *e)
{
    struct memory_reading r = {.known = UINT32_C(1) << MEMORY_CGROUP_KILLS};
    char words[PAGE_WATCH_WORDS];
    uint64_t kills;
    if (!m->rounds.period || !process_memory_kills(&m->process, &kills) || kills == 0)
        return 0;
    process_kills_words(kills, (uint64_t)m->watch.limit.limit, words, sizeof words);
    fprintf(stderr, "tidemark: the client vanished %s\n", words);
    r.value[MEMORY_CGROUP_KILLS] = (double)kills;
    int64_t time = time_of_client(m, in);
    if (journal)
        keep(&r, time, journal);
    return memory_plots_add(&r, time, &m->named, &in->sink, e);
}

static void say_near(struct client_memory *m)
{
    char words[PAGE_WATCH_WORDS];
    m->nears = true;
    page_watch_words(&m->watch, words, sizeof words);
    fprintf(stderr, "tidemark: the client is near the end of its memory: %s\n", words);
}

static double seconds_of(const struct client_memory *m)
{
    return (double)(monotonic_ns() - m->began) / 1e9;
}

int client_memory_pause(const struct client_memory *m, int most)
{
    return look_times_pause(&m->times, seconds_of(m), m->passed,
                            memory_rounds_pause(&m->rounds, most));
}

/* Requests that arrive together are one. */
static int look_as_wished(struct client_memory *m, struct ingest *in, struct journal *journal,
                          bool *asked, struct err *e)
{
    bool once = *asked;
    *asked = false;
    if (look_times_due(&m->times, seconds_of(m), &m->passed) &&
        look_at(m, LOOK_AT_TIME, in, journal, e) != 0)
        return -1;
    if (!once)
        return 0;
    if (m->asked++ < LOOKS_ASKED_MOST)
        return look_at(m, LOOK_ASKED, in, journal, e);
    fprintf(stderr, "tidemark: no look at the client: there were %u on request already\n",
            LOOKS_ASKED_MOST);
    return 0;
}

int client_memory_tick(struct client_memory *m, struct ingest *in, struct journal *journal,
                       bool *asked, struct err *e)
{
    enum look_reason reason;
    bool known;
    if (look_as_wished(m, in, journal, asked, e) != 0)
        return -1;
    if (!memory_rounds_begin(&m->rounds))
        return 0;
    if (read_values(m, m->rounds.pss, in, journal, &known, e) != 0)
        return -1;
    memory_rounds_end(&m->rounds, !known);
    if (m->ended || !page_watch_due(&m->watch, &reason))
        return 0;
    if (reason == LOOK_AT_LIMIT)
        say_near(m);
    return m->blind ? 0 : look_at(m, reason, in, journal, e);
}

/* ---- replay */

int client_memory_play(struct client_memory_player *p, struct view record, struct ingest *in,
                       struct err *e)
{
    struct memory_reading r = {0};
    /* Earlier versions had fewer values. */
    if (record.len < RECORD_HEAD || record.len > RECORD_SIZE || (record.len - RECORD_HEAD) % 8 != 0)
        return 0;
    const size_t values = (record.len - RECORD_HEAD) / 8;
    r.known = load_u32(record.p + 8) & ((UINT32_C(1) << values) - 1);
    for (size_t i = 0; i < values; i++)
        r.value[i] = load_f64(record.p + RECORD_HEAD + 8 * i);
    return memory_plots_add(&r, load_i64(record.p), &p->named, &in->sink, e);
}

int client_memory_play_pages(struct client_memory_player *p, struct view record, struct ingest *in,
                             struct err *e)
{
    struct page_looks looks;
    struct err malformed = {0};
    int status = 0;
    if (record.len == 0 || record.len > LOOK_BYTES_MOST - p->look.len)
        return 0;
    buf_put(&p->look, record.p + 1, record.len - 1);
    if (p->look.failed)
        return err_no_memory(e, "a look at the pages");
    if (!record.p[0])
        return 0;
    if (page_looks_decode(&looks, buf_view(&p->look), &malformed) == 0) {
        for (size_t i = 0; i < looks.list.len && status == 0; i++) {
            status = add_look(&looks.list.at[i], in, e);
            looks.list.at[i] = (struct page_look){0};
        }
        page_looks_release(&looks);
    }
    buf_clear(&p->look);
    return status;
}

int client_memory_play_cgroup(struct client_memory_player *p, struct view record, struct err *e)
{
    buf_clear(&p->cgroup);
    buf_put(&p->cgroup, record.p, record.len);
    return p->cgroup.failed ? err_no_memory(e, "the cgroup") : 0;
}

void client_memory_player_release(struct client_memory_player *p)
{
    buf_release(&p->look);
    buf_release(&p->cgroup);
}

int client_memory_kills_since(struct view note, struct trace *t, struct err *e)
{
    struct process_memory then;
    char n[FORMAT_SIZE], bytes[FORMAT_SIZE];
    uint64_t kills;
    if (!process_memory_from_note(&then, note) || !process_memory_kills(&then, &kills) || !kills)
        return 0;
    uint64_t limit = process_memory_limit(&then);
    fprintf(stderr,
            "tidemark: the OOM killer has killed %s in the program's memory cgroup since it was "
            "first read; the cgroup's limit is %s\n",
            format_counted(n, kills, "program"), limit ? format_bytes(bytes, limit) : "not known");
    return trace_add_fact(t, e, "oom_kills", "%" PRIu64 " limit %" PRIu64 " at recovery", kills,
                          limit);
}
