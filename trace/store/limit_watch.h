#pragma once

/*
 * Whether a process is near the end of its memory, from readings of what the kernel counts
 * (kernel_plot.h). Near: its memory cgroup uses 90 % of the limit without pages of files, or in the
 * last second or so all tasks of the cgroup, or of the system, waited for memory for 10 % of the
 * time (pressure "full", Documentation/accounting/psi.rst). Far: less than 80 %, and less than 5 %.
 *
 * Pages of files fill a cgroup up to its limit whenever enough is read or written. The kernel drops
 * them before it kills.
 */

#include <stdbool.h>
#include <stdint.h>

#include "trace/store/kernel_plot.h"

/* Zero-initialise. */
struct limit_watch {
    int64_t time;      /* of the last reading, ns */
    double use, limit; /* in it, in bytes: without pages of files; limit 0: none */
    double waited;     /* percent of the last second */
};

enum limit_state { LIMIT_FAR, LIMIT_BETWEEN, LIMIT_NEAR };

/* Takes a reading: values[i] if bit i of `known` is set. Readings come in order of time. */
enum limit_state limit_watch_take(struct limit_watch *w, uint32_t known, const double *values,
                                  int64_t time);

/* Whether the use is near the limit, not only the pressure high. */
bool limit_watch_is_full(const struct limit_watch *w);
