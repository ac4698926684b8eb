#ifndef TIDEMARK_ANALYSIS_STREAM_PARTS_H
#define TIDEMARK_ANALYSIS_STREAM_PARTS_H

/* What is left of a step when a stream has passed, for the figures by group. */

#include <stdint.h>

struct log_step {
    uint32_t what; /* call stack << 2 | LOG_FREE | LOG_LATER */
    uint32_t size_low;
    uint16_t size_high;
} __attribute__((packed));

#define LOG_LATER 1u /* than the step before: a new nanosecond */
#define LOG_FREE 2u

#endif
