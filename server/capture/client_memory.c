#include "server/capture/client_memory.h"

#include <math.h>
#include <time.h>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

#include "base/bytes.h"
#include "base/monotonic.h"
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

bool client_memory_init(struct client_memory *m, uint64_t hz, const struct intake_start *start,
                        pid_t pid, int rollup)
{
    struct memory_reading first = {0};
    *m = (struct client_memory){.process = PROCESS_MEMORY_NONE,
                                .clock = start->welcome,
                                .shared = shares_clock(&start->welcome)};
    if (start->welcome.flags & WELCOME_ON_DEMAND)
        m->least = welcome_time(&start->welcome, start->on_demand.time);
    if (pid > 0 && process_memory_open(&m->process, pid))
        process_memory_read(&m->process, &first);
    m->process.rollup = rollup;
    if (first.known)
        m->rounds = memory_rounds(hz);
    return first.known != 0;
}

void client_memory_release(struct client_memory *m)
{
    process_memory_close(&m->process);
}

/* The time on a clock that is not read here. */
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

int client_memory_tick(struct client_memory *m, int64_t latest, const struct event_sink *sink,
                       struct journal *journal, struct err *e)
{
    struct memory_reading r;
    if (!memory_rounds_begin(&m->rounds))
        return 0;
    int64_t time = m->shared ? clients_now(&m->clock) : guess_now(m, latest);
    if (m->rounds.pss)
        process_memory_pss(&m->process, &r);
    else
        process_memory_read(&m->process, &r);
    if (r.known && journal)
        keep(&r, time, journal);
    int status = memory_plots_add(&r, time, &m->named, sink, e);
    memory_rounds_end(&m->rounds, !r.known);
    return status;
}

int client_memory_play(struct view record, uint32_t *named, const struct event_sink *sink,
                       struct err *e)
{
    struct memory_reading r = {0};
    if (record.len != RECORD_SIZE)
        return 0;
    r.known = load_u32(record.p + 8);
    for (size_t i = 0; i < MEMORY_VALUES; i++)
        r.value[i] = load_f64(record.p + RECORD_HEAD + 8 * i);
    return memory_plots_add(&r, load_i64(record.p), named, sink, e);
}
