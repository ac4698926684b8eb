#pragma once

/*
 * A filter between a reader and a writer that converts the records of one file version to another,
 * up or down, in one pass. Data that the target cannot hold is dropped and counted. Fields that the
 * source lacks get the value that official readers assume.
 *
 * Two targets promise an order that older files do not keep (plots by time from 0.13.3,
 * context-switch samples from 0.13.6). The filter sorts those lists, through a temporary file when
 * they are long.
 */

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "trace/file/file_version.h"
#include "trace/file/record.h"

/* Kinds of losses: LOSS(NAME, singular, plural). */
#define CONVERT_LOSSES(LOSS)                                                                       \
    LOSS(DELAY, "queue delay", "queue delays")                                                     \
    LOSS(ON_DEMAND, "on-demand flag", "on-demand flags")                                           \
    LOSS(HEADER_TEXT, "header text over 1023 bytes", "header texts over 1023 bytes")               \
    LOSS(DIE, "processor die", "processor dies")                                                   \
    LOSS(SECTION, "section", "sections")                                                           \
    LOSS(SECTION_CATEGORY, "section category", "section categories")                               \
    LOSS(NO_LOCATION, "event marked as without a source location",                                 \
         "events marked as without a source location")                                             \
    LOSS(MESSAGE_SOURCE, "message source", "message sources")                                      \
    LOSS(MESSAGE_SEVERITY, "message severity", "message severities")                               \
    LOSS(GROUP_HINT, "thread group", "thread groups")                                              \
    LOSS(GPU_TYPE, "GPU context type", "GPU context types")                                        \
    LOSS(GPU_NOTE_NAME, "GPU annotation name", "GPU annotation names")                             \
    LOSS(GPU_NOTE, "GPU annotation value", "GPU annotation values")                                \
    LOSS(GPU_QUERY, "GPU query number", "GPU query numbers")                                       \
    LOSS(PLOT_TYPE, "plot type", "plot types")                                                     \
    LOSS(PLOT_FORMAT, "plot format", "plot formats")                                               \
    LOSS(WAKEUP_CPU, "wakeup processor", "wakeup processors")

enum convert_loss {
#define LOSS(NAME, ONE, SEVERAL) LOSS_##NAME,
    CONVERT_LOSSES(LOSS)
#undef LOSS
        CONVERT_LOSS_COUNT
};

struct convert;

struct convert_options {
    const struct file_layout *target; /* NULL: the source's layout */
    const char *spill_dir;            /* folder of temporary files; NULL: $TMPDIR, else /var/tmp */
    size_t spill_records;             /* records sorted in memory; 0: a generous default */
};

int convert_open(struct convert **out, const struct record_sink *next,
                 const struct convert_options *options, struct err *e);
void convert_free(struct convert *c);

/* Takes the records of the source, whose HEADER record has its version. */
struct record_sink convert_sink(struct convert *c);

/* The number of losses of a kind so far. */
uint64_t convert_loss(const struct convert *c, enum convert_loss loss);

/*
 * Appends "12 GPU annotation values, 3 message severities" to `out`; nothing when nothing was lost.
 */
void convert_losses(const struct convert *c, struct buf *out);
