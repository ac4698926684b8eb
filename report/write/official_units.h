#pragma once

/*
 * Formats numbers as the official tools do, for output under their names, which scripts may parse.
 * Source: server/TracyPrint.cpp @ v0.14.0.
 */

#include <stdint.h>

#include "base/format.h"

/* "9999 bytes", "140.39 KB" (of 1024), "75.5 MB". Writes to `out` and returns it. */
const char *official_bytes(char out[FORMAT_SIZE], uint64_t bytes);

/*
 * "318 ns", "4.21 μs", "282.07 ms", "12 s", "2:05.1", "3:12:00", "1d03:12:00". Writes to `out` and
 * returns it.
 */
const char *official_time(char out[FORMAT_SIZE], int64_t ns);
