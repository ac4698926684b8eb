#pragma once

/*
 * Blocks that the C library, the C++ library and the loader keep until the process ends: live at
 * the end, and no leaks. A call stack is theirs if, from its innermost frame outwards, a function
 * of the table comes before the first frame of another image. So what a program gets from strdup
 * or fopen stays the program's.
 */

#include <stdint.h>

#include "analysis/names/program_frames.h"
#include "base/err.h"

#define PERMANENT_NOT 0u

/* Why blocks of this kind are kept: "buffers of stdio streams, …". `kind` is not PERMANENT_NOT. */
const char *permanent_reason(unsigned kind);

/* The kinds are 1 to this. */
unsigned permanent_kinds(void);

/*
 * The kind of each call stack's blocks, PERMANENT_NOT for most, by call stack id:
 * callstacks.list.len + 1 bytes of the trace's memory.pageable, which the caller frees. NULL with
 * `e` filled if memory is short.
 */
uint8_t *permanent_of_callstacks(struct program_frames *program, struct err *e);
