#pragma once

/*
 * A filter that keeps a range of time. List lengths precede the lists, so the trace is read twice,
 * first by the counting sink, then by the writing one. Both must see the same records.
 *
 * The range is half open: it contains a moment t when begin ≤ t < end. Anything with a duration is
 * kept whole, with its begin and end unchanged, when it began before `end` and did not end before
 * `begin`:
 *
 *     memory events      blocks that were live in the range, or freed at its very begin
 *     zones, GPU zones   that overlap it (GPU zones by either clock), and their parents
 *     frames             that overlap it; of the base set also the first ones, which stand for the
 *                        time before; the next frame of a continuous set, which ends the last one
 *     plot points        of the range, and the one before, whose value holds at its begin
 *     lock events        up to its end, since a lock's state at the begin follows from all before
 *     messages, samples, context switches, sections, hardware samples: that lie in or overlap it
 *     frame images       of the frames kept
 *
 * Empty lists are dropped (plots, context switches of a thread, hardware samples of an address,
 * frame sets but the base one); threads, locks, pools and GPU contexts stay. Names, source
 * locations, call stacks, symbols, crash and GPU annotations are not events and stay unchanged. A
 * thread's CPU totals are recomputed from the CPUs' switches, of which the part within the range
 * counts. If all switches do not add up to the trace's own totals, those stay. A thread's number of
 * kernel samples is capped at its number of samples: counting them again would need the call
 * stacks.
 *
 * Memory: tables of a few MiB, 16 bytes for each kept message, 4 for each kept frame image. All
 * other data kept between the passes goes to a temporary file.
 */

#include <stdint.h>

#include "base/err.h"
#include "trace/file/record.h"

struct range;

struct range_options {
    int64_t begin, end;    /* ns since the trace began */
    const char *spill_dir; /* folder of temporary files; NULL: $TMPDIR, else /var/tmp */
};

int range_open(struct range **out, const struct range_options *options, struct err *e);
void range_free(struct range *r);

/* First pass. */
struct record_sink range_count_sink(struct range *r);

/* Clears in `wanted` (REC_TYPE_COUNT flags) the types that the first pass does not need. */
void range_count_wanted(bool *wanted);

/* Between the passes. */
int range_counted(struct range *r, struct err *e);

/* Second pass. `next` is copied. ERR_INPUT when the records differ from the first pass. */
struct record_sink range_sink(struct range *r, const struct record_sink *next);
