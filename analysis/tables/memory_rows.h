#pragma once

/*
 * The memory events of a trace in file order: by pool, then by time. One pass; memory grows with
 * the names of the trace.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/names/names.h"
#include "base/err.h"
#include "base/view.h"
#include "trace/file/record.h"

/* Views are valid until the next row of another pool or thread. */
struct memory_row {
    struct view pool; /* "default" for the unnamed pool, "pool 0x…" for one whose name is unknown */
    uint64_t address;
    uint64_t size;                 /* bytes */
    int64_t alloc_time;            /* ns */
    int64_t free_time;             /* ns; NEVER_FREED: the fields of the free are empty */
    uint64_t alloc_thread;         /* OS id */
    uint64_t free_thread;          /* OS id */
    struct view alloc_thread_name; /* empty if unknown */
    struct view free_thread_name;
    uint32_t alloc_callstack; /* position in the trace from 1; 0: none */
    uint32_t free_callstack;
};

typedef int memory_row_put(void *ctx, const struct memory_row *row, struct err *e);

struct memory_rows {
    struct names names;
    memory_row_put *put;
    void *ctx;
    char pool_room[32];
    struct view pool;
};

void memory_rows_init(struct memory_rows *m, memory_row_put *put, void *ctx);
void memory_rows_release(struct memory_rows *m);

/* Marks the record types that are needed, for struct trace_read_options. */
void memory_rows_wanted(bool wanted[REC_TYPE_COUNT]);

struct record_sink memory_rows_sink(struct memory_rows *m);
