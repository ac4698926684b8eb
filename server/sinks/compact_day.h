#pragma once

/* One day of a folder that is compacted. For compact_folder.c and compact_table.c. */

#include "base/buf.h"
#include "server/sinks/compact_folder.h"
#include "server/sinks/trace_set.h"

#define COMPACT_STAGE ".compact"

struct compact_day {
    const char *folder, *day; /* "day=2026-11-27" */
    int64_t age;              /* days; negative: unknown, which drops nothing */
    struct trace_set whole;   /* traces of the table `traces`, before anything was dropped */
    struct trace_set limits;  /* trace → most days + 1, of those with a label that has a rule */
    uint64_t limit;           /* of all others; UINT64_MAX: none */
    struct compact_told *told;
};

/* Whether the trace is to be dropped. */
bool compact_drops(const struct compact_day *d, struct view trace);

/* Compacts a table of the day. */
int compact_table(struct compact_day *d, unsigned table, struct err *e);
