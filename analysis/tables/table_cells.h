#pragma once

/* Filling the cells of a row, and the two sources of rows. For analysis/ only. */

#include "analysis/figures/stream_figures.h"
#include "analysis/tables/tables.h"
#include "analysis/tables/zone_texts.h"
#include "analysis/tables/zone_walk.h"
#include "base/line_sort.h"
#include "base/map.h"
#include "base/vec.h"
#include "trace/file/record_takers.h"
#include "trace/store/spill.h"
#include "trace/store/store.h"

static inline struct cell cell_none(void)
{
    return (struct cell){.null = true};
}

static inline struct cell cell_integer(int64_t n)
{
    return (struct cell){.integer = n};
}

static inline struct cell cell_count(uint64_t n)
{
    return (struct cell){.count = n};
}

/* NULL for 0. */
static inline struct cell cell_nonzero(uint64_t n)
{
    return (struct cell){.null = n == 0, .count = n};
}

static inline struct cell cell_bool(bool truth)
{
    return (struct cell){.truth = truth};
}

static inline struct cell cell_text(struct view text)
{
    return (struct cell){.text = text};
}

/* NULL for an empty text. */
static inline struct cell cell_nonempty(struct view text)
{
    return (struct cell){.null = text.len == 0, .text = text};
}

/* ---- rows made while the trace is read */

enum { EXTRA_TEXT, EXTRA_NAME, EXTRA_COLOR, EXTRA_CALLSTACK, EXTRA_PARTS };

struct frame_set_row {
    uint64_t name; /* client pointer */
    uint64_t marks;
    bool continuous;
};

/* A message whose thread is not known yet. Begins with its sort key. */
struct message_row {
    int64_t id;
    int64_t time;
    uint64_t thread;
    uint32_t text;
    uint32_t color;
    uint32_t callstack;
    uint8_t source;
    uint8_t severity;
    bool claimed; /* the thread is known */
};

struct open_gpu_row {
    struct rec_gpu_zone_begin begin;
    uint64_t id;
};

struct table_records {
    const struct table_sink *sink;
    struct trace *t;
    VEC(struct frame_set_row) frame_sets;
    struct rec_frame mark;       /* of a continuous set, until the start of the next one is known */
    uint64_t mark_number;        /* 0: none */
    struct map location_numbers; /* client pointer → position in `locations` */
    VEC(struct rec_source_location) locations;
    VEC(uint8_t) expands; /* whether source location i has a row */
    uint64_t payloads;
    struct line_sort joined; /* keys of messages with threads and messages */
    struct spill messages;
    uint64_t message_count;
    struct zone_texts extras[EXTRA_PARTS];
    struct zone_walk walk;
    uint64_t thread; /* id of the thread of the current zones */
    uint64_t plots;
    uint64_t gpu_contexts, gpu_zones, locks;
    VEC(struct open_gpu_row) open_gpu_zones;
    VEC(uint64_t) lock_threads; /* ids, of the current lock */
};

void table_records_init(struct table_records *r, const struct table_sink *sink, struct trace *t,
                        const char *spool_dir);
void table_records_release(struct table_records *r);

/* Marks the record types that the wanted tables need. */
void table_records_wanted(const struct table_sink *sink, bool wanted[REC_TYPE_COUNT]);

struct record_sink table_records_sink(struct table_records *r);

/* Helpers for rows, for table_record*.c only. */
static inline int table_put_row(const struct table_records *r, enum table_id table,
                                const struct cell *cells, struct err *e)
{
    return r->sink->wanted[table] ? r->sink->row(r->sink->ctx, table, cells, e) : 0;
}

static inline struct cell table_text_cell(const struct table_records *r, uint32_t number)
{
    return cell_nonempty(strings_get(&r->t->strings, number));
}

/* NULL for a location without a row. */
static inline struct cell table_location_cell(const struct table_records *r, int16_t srcloc)
{
    bool known = srcloc < 0 ? (uint64_t) - (int64_t)srcloc <= r->payloads
                            : (size_t)srcloc < r->expands.len && r->expands.at[srcloc];
    return known ? cell_integer(srcloc) : cell_none();
}

/* A taker of records, and the tables that need it: a bit for each. */
struct table_taker {
    record_taker *take;
    uint32_t tables;
};

#define TABLE_BIT(TABLE) (UINT32_C(1) << TABLE_OF_##TABLE)

/* table_record_lists.c: of GPU zones, locks and samples. */
extern const struct table_taker table_list_takers[REC_TYPE_COUNT];

/* After the last record: makes the pending rows. */
int table_records_finish(struct table_records *r, struct err *e);

/* ---- rows made from the store */

/* Whether a wanted table needs memory events. */
static inline bool tables_need_events(const bool wanted[TABLE_COUNT])
{
    return wanted[TABLE_OF_POOLS] || wanted[TABLE_OF_USAGE] || wanted[TABLE_OF_ALLOCATIONS] ||
           wanted[TABLE_OF_TOTALS] || wanted[TABLE_OF_RESIDENT];
}

int table_store_rows(const struct table_sink *sink, struct trace *t, struct stream_figures *counted,
                     struct err *e);
