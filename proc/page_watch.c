#include "proc/page_watch.h"

#include <stdio.h>

#include "base/format.h"
#include "base/monotonic.h"
#include "proc/memory_rounds.h"
#include "proc/page_reader.h"

#define LOOK_PAUSE 50 /* 2 % of a processor */

#define GROWN 1.2
#define GROWN_LITTLE 1.01
#define GROWN_LEAST (32.0 * 1048576)

static bool has(const struct memory_reading *r, enum memory_value value)
{
    return r->known & UINT32_C(1) << value;
}

void page_watch_take(struct page_watch *w, const struct memory_reading *r)
{
    w->before = w->rss;
    if (has(r, MEMORY_RSS_ANON))
        w->rss = r->value[MEMORY_RSS_ANON] + r->value[MEMORY_RSS_FILE] + r->value[MEMORY_RSS_SHMEM];
    if (!r->known)
        return;
    enum limit_state state = limit_watch_take(&w->limit, r->known, r->value, r->time);
    w->nears |= state == LIMIT_NEAR && !w->near;
    if (state != LIMIT_BETWEEN)
        w->near = state == LIMIT_NEAR;
}

void page_watch_words(const struct page_watch *w, char *out, size_t size)
{
    char use[FORMAT_SIZE], limit[FORMAT_SIZE];
    if (limit_watch_is_full(&w->limit))
        snprintf(out, size, "its memory cgroup uses %s of %s",
                 format_bytes(use, (uint64_t)w->limit.use),
                 format_bytes(limit, (uint64_t)w->limit.limit));
    else
        snprintf(out, size, "tasks waited for memory for %.0f %% of the last second",
                 w->limit.waited);
}

void process_kills_words(uint64_t kills, uint64_t limit, char *out, size_t size)
{
    char n[FORMAT_SIZE], bytes[FORMAT_SIZE];
    snprintf(out, size, "while the OOM killer killed %s in its memory cgroup, whose limit was %s",
             format_counted(n, kills, "program"), limit ? format_bytes(bytes, limit) : "not known");
}

static bool has_grown(const struct page_watch *w)
{
    bool stopped = w->rss <= w->before && monotonic_ns() >= w->next;
    return w->rss >= GROWN_LEAST && w->rss >= w->looked * (stopped ? GROWN_LITTLE : GROWN);
}

bool page_watch_due(struct page_watch *w, enum look_reason *reason)
{
    bool near = w->nears;
    w->nears = false;
    *reason = near ? LOOK_AT_LIMIT : LOOK_AT_PEAK;
    return near || has_grown(w);
}

int page_watch_look(struct page_watch *w, const struct process_memory *of, enum look_reason reason,
                    struct page_look *out, struct err *e)
{
    int64_t used = memory_rounds_used();
    if (reason == LOOK_AT_PEAK)
        w->looked = w->rss;
    if (page_look_read(out, of, e) != 0)
        return -1;
    w->next = monotonic_ns() + LOOK_PAUSE * (memory_rounds_used() - used);
    out->reason = reason;
    return 0;
}
