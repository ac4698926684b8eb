#pragma once

/*
 * The rows of the official csvexport, in its order, from one pass over the file. Memory grows with
 * names and source locations, not with events.
 *
 * Source: csvexport/src/csvexport.cpp @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/csvexport/plot_list.h"
#include "analysis/csvexport/zone_groups.h"
#include "analysis/csvexport/zone_list.h"
#include "analysis/csvexport/zone_stats.h"
#include "base/err.h"
#include "base/view.h"
#include "trace/file/record.h"

enum export_kind {
    EXPORT_ZONE_STATS, /* a row for each source location */
    EXPORT_ZONES,      /* a row for each zone */
    EXPORT_GPU_ZONES,  /* a row for each GPU zone */
    EXPORT_MESSAGES,   /* a row for each message */
};

struct export_options {
    enum export_kind kind;
    bool self;   /* times without those of the zones inside */
    bool plots;  /* with EXPORT_ZONES: plots after the zones */
    int percent; /* with EXPORT_ZONE_STATS: a percentile, 1 to 99; 0: none */
    struct name_filter filter;
    const char *spool_dir; /* for temporary files; NULL: $TMPDIR, else /var/tmp */
};

struct export_place {
    uint32_t rank; /* of the source location among the rows */
    struct view name;
    struct view file;
    uint32_t line;
};

/*
 * Takes the rows. A function returns 0, or -1 with `e` to stop. Views are valid as long as the
 * export. `begin` is called once before the rows, with the number of messages if messages are
 * exported.
 */
struct export_rows {
    void *ctx;
    int (*begin)(void *ctx, uint64_t messages, struct err *e);
    int (*stat)(void *ctx, const struct export_place *p, const struct zone_figures *f,
                int64_t last_time, struct err *e);
    /* `text`: of the zone; p == NULL if it has none */
    int (*zone)(void *ctx, const struct export_place *p, const struct zone_row *z, struct view text,
                struct err *e);
    int (*gpu_zone)(void *ctx, const struct export_place *p, const struct zone_row *z,
                    struct err *e);
    int (*message)(void *ctx, struct view text, int64_t time, struct err *e);
    int (*points)(void *ctx, struct view plot, const struct listed_point *points, size_t n,
                  struct err *e);
};

struct export;

/* `rows` is copied; strings in `options` must outlive the export. NULL with `e`. */
struct export *export_open(const struct export_options *options, const struct export_rows *rows,
                           struct err *e);
void export_free(struct export *x);

/* Marks the record types that are needed, for struct trace_read_options. */
void export_wanted(const struct export *x, bool wanted[REC_TYPE_COUNT]);

/* The first root record that is not needed: `until` of struct trace_read_options. */
enum record_type export_until(const struct export *x);

struct record_sink export_sink(struct export *x);

/* After the last record: passes on the remaining rows. */
int export_finish(struct export *x, struct err *e);
