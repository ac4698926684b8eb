#ifndef TIDEMARK_TRACE_STORE_ZONES_H
#define TIDEMARK_TRACE_STORE_ZONES_H

/*
 * Zones of threads and fibers. Each thread has its zones in the order in which they began, which is
 * the file's order too: a zone, then its children. What a zone's end tells stands in a column of
 * its own beside them. Only open zones are in memory, with the texts that they were given so far;
 * the columns are file-backed.
 *
 * Source of the rules: server/TracyWorker.cpp ProcessZoneBegin … ProcessZoneValue, NewZone @
 * v0.9.1 … v0.14.0. Where that server ends the capture, a zone that cannot be is counted in
 * `faults` here, and the rest goes on.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/spool.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/file/limits.h"
#include "trace/store/strings.h"

struct zone_begin {
    int64_t start;  /* ns */
    int16_t srcloc; /* number in the file */
} __attribute__((packed));

struct zone_end {
    uint64_t length;   /* 1 + zigzag(end - start) ns; 0 = still open */
    uint32_t children; /* direct ones */
    uint32_t extra;    /* index in zones.extras, 0 = none */
} __attribute__((packed));

/* What few zones have. */
struct zone_extra {
    uint32_t callstack;
    uint32_t text, name; /* string numbers */
    uint32_t color;      /* 0xBBGGRR, 0 = none */
};

/* The extra of an open zone: texts are joined in `text` and become a string at the end. */
struct zone_notes {
    struct zone_extra values;
    struct buf text;
    bool has_text;
    uint32_t index; /* its place in zones.extras */
};

struct live_zone {
    uint64_t index; /* in the thread's columns */
    int64_t start;
    struct zone_notes *notes; /* NULL: none */
    uint32_t children;
    uint32_t validation; /* id that ends and notes must repeat; 0 = none */
    int16_t srcloc;
};

struct zone_thread {
    struct column begins; /* struct zone_begin */
    struct column ends;   /* struct zone_end, same indices */
    VEC(struct live_zone) open;
    uint64_t roots;
    uint32_t next_validation; /* id that the client said ahead of the next zone event */
};

struct zone_faults {
    uint64_t ends;        /* with no zone open */
    uint64_t validations; /* ends of another zone than the innermost, taken for its end */
    uint64_t notes;       /* texts, names, colours and values with no zone to take them */
    uint64_t depth;       /* zones deeper than ZONE_DEPTH_MAX */
    uint64_t extras;      /* notes beyond the format's 2^32 */
    uint64_t texts;       /* that would have made a zone's text longer than CLIENT_TEXT_MAX */
};

struct zones {
    struct spool *spool;
    struct strings *strings;
    VEC(struct zone_thread *) threads; /* by thread number; NULL: no zone yet */
    struct column extras;              /* struct zone_extra; the first is empty, as in the file */
    VEC(struct zone_notes *) spare;
    VEC(uint64_t) ended; /* zones ended, by source location; see zones_ended */
    uint64_t count;
    uint64_t parents; /* zones with children */
    struct zone_faults faults;
    uint32_t depth_limit; /* ZONE_DEPTH_MAX, or less in tests */
};

/* `strings` takes the texts; it and the spool must outlive the zones. */
int zones_init(struct zones *z, struct spool *spool, struct strings *strings, struct err *e);
void zones_release(struct zones *z);

/* A zone begins on a thread. `callstack` 0 is none. */
int zones_begin(struct zones *z, uint16_t thread, int64_t time, int16_t srcloc, uint32_t callstack,
                struct err *e);

/* The innermost zone of the thread ends. *found is false when there is none, which is a fault. */
int zones_end(struct zones *z, uint16_t thread, int64_t time, bool *found, struct err *e);

/* The next event of a zone on this thread is meant for the zone with that id. */
int zones_validate(struct zones *z, uint16_t thread, uint32_t id, struct err *e);

/*
 * What is said of the innermost zone: a text is appended to those before it on a new line, a name
 * and a colour replace the one before. A fault when there is no such zone.
 */
int zones_add_text(struct zones *z, uint16_t thread, struct view text, struct err *e);
int zones_set_name(struct zones *z, uint16_t thread, struct view name, struct err *e);
int zones_set_color(struct zones *z, uint16_t thread, uint32_t color, struct err *e);

/*
 * Writes what is known of the open zones to the columns, so that they can be saved as they stand:
 * without an end. They stay open.
 */
int zones_settle(struct zones *z, struct err *e);

/*
 * Puts a zone of a saved trace behind the others of its thread, in the order of the file; its end
 * is said afterwards at *index, when it has one.
 */
int zones_put(struct zones *z, uint16_t thread, const struct zone_begin *b, uint32_t children,
              uint64_t *index, struct err *e);
int zones_put_end(struct zones *z, uint16_t thread, uint64_t index, int64_t start, int64_t end,
                  uint32_t children, struct err *e);

/* Begins a new part: drops all zones and begins those that are open anew at time 0. */
int zones_carry(struct zones *z, struct err *e);

/* The zones of a thread, made when it has none; NULL when memory is short. */
struct zone_thread *zones_thread(struct zones *z, uint16_t thread, struct err *e);

/* The zones of a thread, or NULL when it has none. */
static inline struct zone_thread *zones_of(const struct zones *z, uint16_t thread)
{
    return thread < z->threads.len ? z->threads.at[thread] : NULL;
}

/* How many zones of a source location have ended: the file's ZONE_STATS. */
uint64_t zones_ended(const struct zones *z, int16_t srcloc);

/* When the zone ended, ns, or -1 while it is open, as the file has it. */
static inline int64_t zone_end_time(const struct zone_begin *b, const struct zone_end *end)
{
    uint64_t zigzag = end->length - 1;
    return end->length ? b->start + (int64_t)(zigzag >> 1 ^ (0 - (zigzag & 1))) : -1;
}

#endif
