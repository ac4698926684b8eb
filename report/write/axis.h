#pragma once

/* Positions and labels of the tick marks of a chart's axes. */

#include <stdint.h>

#include "base/format.h"

enum axis_unit { AXIS_BYTES, AXIS_COUNT, AXIS_TIME };

struct axis {
    enum axis_unit unit;
    int64_t first; /* the first mark */
    uint64_t step; /* distance between marks */
    unsigned marks;
    int64_t end; /* end of the axis: for times the end of the window */
};

/* An axis from 0 to a round number of at least `most`, with at most 6 marks. */
struct axis axis_of_values(enum axis_unit unit, uint64_t most);

/* An axis of round times in [begin, end], ns, with at most `marks` + 1 marks. */
struct axis axis_of_times(int64_t begin, int64_t end, unsigned marks);

int64_t axis_mark(const struct axis *a, unsigned i);

/* "1.5 GiB", "20,000", "0.25 s". Returns `out`. */
const char *axis_label(char out[FORMAT_SIZE], const struct axis *a, unsigned i);
