#ifndef TIDEMARK_BASE_MONOTONIC_H
#define TIDEMARK_BASE_MONOTONIC_H

#include <stdint.h>

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t monotonic_ns(void);

#endif
