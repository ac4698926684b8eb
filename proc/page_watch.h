#pragma once

/*
 * Decides from readings of a process's memory (proc/process_memory.h) when to look at its pages
 * (proc/page_reader.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proc/process_memory.h"
#include "trace/store/limit_watch.h"
#include "trace/store/page_look.h"

/* Zero-initialise. */
struct page_watch {
    /* bytes: in the last reading, in the one before, at the last LOOK_AT_PEAK */
    double rss, before, looked;
    int64_t next; /* CLOCK_MONOTONIC, ns: when the last look has cost 2 % of a processor */
    struct limit_watch limit;
    bool near;  /* the end of its memory, and has not been far from it since */
    bool nears; /* since page_watch_due was asked last */
};

void page_watch_take(struct page_watch *w, const struct memory_reading *reading);

/*
 * Whether a look is due, and its reason. To be asked after each reading:
 *
 * LOOK_AT_LIMIT: it is near the end of its memory (trace/store/limit_watch.h), and was far from it
 * or had no such look before.
 *
 * LOOK_AT_PEAK, from 32 MiB on: the RSS has grown by a fifth since the last one, or by a hundredth
 * and no longer grows. The former looks together take at most six times as long as the last one,
 * the latter 2 % of a processor.
 */
bool page_watch_due(struct page_watch *w, enum look_reason *reason);

/* How near it is, after such a look: "its memory cgroup uses 95.1 MiB of 100 MiB". */
#define PAGE_WATCH_WORDS 128u
void page_watch_words(const struct page_watch *w, char *out, size_t size);

/* "while the OOM killer killed 1 program in its memory cgroup, whose limit was 100 MiB"; 0: none.
 */
void process_kills_words(uint64_t kills, uint64_t limit, char *out, size_t size);

/* Looks at the pages, as page_look_read, with the reason. */
int page_watch_look(struct page_watch *w, const struct process_memory *of, enum look_reason reason,
                    struct page_look *out, struct err *e);
