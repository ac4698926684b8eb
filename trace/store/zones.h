#pragma once

/*
 * Zones of threads and fibers. Each thread has its zones in order of their begin, which is the
 * file's order: a zone, then its children. The data of ends is in a parallel column. Only open
 * zones are in memory, with their texts so far; the columns are file-backed.
 *
 * Source of the rules: server/TracyWorker.cpp ProcessZoneBegin … ProcessZoneValue, NewZone @ v0.9.1
 * … v0.14.0. Where that server ends the capture, an invalid zone event is counted in `faults`, and
 * the capture continues.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/pageable.h"
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
    uint64_t length;   /* 1 + zigzag(end - start) ns; 0: still open */
    uint32_t children; /* direct children */
    uint32_t extra;    /* index in zones.extras; 0: none */
} __attribute__((packed));

/* Data that few zones have. */
struct zone_extra {
    uint32_t callstack;
    uint32_t text, name; /* string numbers */
    uint32_t color;      /* 0xBBGGRR; 0: none */
};

/* What zones_settle will write. */
struct zones_open {
    uint64_t zones;
    uint64_t texts; /* zones with a text */
    uint64_t bytes; /* of their texts */
};

/* The extra of an open zone: texts are joined in `text` and become a string at the zone's end. */
struct zone_notes {
    struct zone_extra values;
    struct buf text;
    bool has_text;
    uint32_t index; /* its index in zones.extras */
};

struct live_zone {
    uint64_t index; /* in the thread's columns */
    int64_t start;
    struct zone_notes *notes; /* NULL: none */
    uint32_t children;
    uint32_t validation; /* id that ends and notes must repeat; 0: none */
    int16_t srcloc;
};

struct zone_thread {
    struct column begins; /* struct zone_begin */
    struct column ends;   /* struct zone_end, same indices */
    VEC(struct live_zone) open;
    uint64_t roots;
    uint32_t next_validation; /* id that the client sent for the next zone event */
};

struct zone_faults {
    uint64_t ends;        /* ends without an open zone */
    uint64_t validations; /* ends with the id of another zone than the innermost, which they end */
    uint64_t notes;       /* texts, names, colours and values without an open zone */
    uint64_t depth;       /* zones deeper than ZONE_DEPTH_MAX */
    uint64_t extras;      /* notes beyond the format's 2^32 */
    uint64_t texts;       /* texts that would exceed CLIENT_TEXT_MAX in their zone */
};

struct zones {
    struct spool *spool;
    struct strings *strings;
    struct pageable *pageable;         /* allocator of the lists of open zones; NULL: the heap */
    VEC(struct zone_thread *) threads; /* by thread number; NULL: no zone */
    struct column extras;              /* struct zone_extra; the first is empty, as in the file */
    VEC(struct zone_notes *) spare;
    VEC(uint64_t) ended; /* zones ended, by source location; see zones_ended */
    uint64_t count;
    uint64_t parents; /* zones with children */
    struct zones_open open;
    struct zone_faults faults;
    uint32_t depth_limit; /* ZONE_DEPTH_MAX, or less in tests */
};

/* `strings` receives the texts; it and the spool must outlive the zones. */
int zones_init(struct zones *z, struct spool *spool, struct strings *strings, struct err *e);
void zones_release(struct zones *z);

/* Begins a zone on a thread. `callstack` 0: none. */
int zones_begin(struct zones *z, uint16_t thread, int64_t time, int16_t srcloc, uint32_t callstack,
                struct err *e);

/* Ends the innermost zone of the thread. *found is false when there is none, which is a fault. */
int zones_end(struct zones *z, uint16_t thread, int64_t time, bool *found, struct err *e);

/* The next zone event on this thread applies to the zone with that id. */
int zones_validate(struct zones *z, uint16_t thread, uint32_t id, struct err *e);

/*
 * Notes of the innermost zone: a text is appended on a new line; a name or a colour replaces the
 * previous one. Without an open zone they are a fault.
 */
int zones_add_text(struct zones *z, uint16_t thread, struct view text, struct err *e);
int zones_set_name(struct zones *z, uint16_t thread, struct view name, struct err *e);
int zones_set_color(struct zones *z, uint16_t thread, uint32_t color, struct err *e);

/*
 * Writes the known data of open zones to the columns, so that they can be saved without an end. The
 * zones stay open.
 */
int zones_settle(struct zones *z, struct err *e);

/* Estimated bytes of memory that zones_settle, and saving the zones after it, will take. */
uint64_t zones_settle_needs(const struct zones *z);

/*
 * Appends a zone of a saved trace to its thread, in file order. The caller sets its end afterwards
 * at *index, if it has one.
 */
int zones_put(struct zones *z, uint16_t thread, const struct zone_begin *b, uint32_t children,
              uint64_t *index, struct err *e);
int zones_put_end(struct zones *z, uint16_t thread, uint64_t index, int64_t start, int64_t end,
                  uint32_t children, struct err *e);

/* Begins a new part: drops all zones; open ones begin again at time 0. */
int zones_carry(struct zones *z, struct err *e);

/* The zones of a thread, created if it has none; NULL when memory is short. */
struct zone_thread *zones_thread(struct zones *z, uint16_t thread, struct err *e);

/* The zones of a thread, or NULL when it has none. */
static inline struct zone_thread *zones_of(const struct zones *z, uint16_t thread)
{
    return thread < z->threads.len ? z->threads.at[thread] : NULL;
}

/* How many zones of a source location have ended: the file's ZONE_STATS. */
uint64_t zones_ended(const struct zones *z, int16_t srcloc);

/* The end of the zone in ns, or -1 while it is open, as in the file. */
static inline int64_t zone_end_time(const struct zone_begin *b, const struct zone_end *end)
{
    uint64_t zigzag = end->length - 1;
    return end->length ? b->start + (int64_t)(zigzag >> 1 ^ (0 - (zigzag & 1))) : -1;
}
