#pragma once

#include <stdint.h>

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t monotonic_ns(void);
