#pragma once

/*
 * Functions that a program generates while it runs, from the jitdump that it writes:
 * tools/perf/Documentation/jitdump-specification.txt of Linux. It has the times at which code came
 * to a place and moved, and lines. Read are the records JIT_CODE_LOAD, JIT_CODE_MOVE and
 * JIT_CODE_DEBUG_INFO; JIT_CODE_UNWINDING_INFO is not needed, since call stacks are taken while the
 * program runs.
 *
 * Peculiarities of V8: its debug information counts addresses as if an ELF header of 64 bytes lay
 * before the code (src/diagnostics/perf-jit.cc). That of baseline code ("JS:^load") has offsets in
 * the bytecode and is not used. In Node.js 20 the first 16 bytes of a file's name there are those
 * of freed memory; the function's own name has the file, too.
 */

#include "naming/perf_map.h"

/*
 * `bytes` must outlive the map. ERR_INPUT: it is no jitdump. The last record may be cut short, as
 * the program may be writing. Records that make no sense are counted in m->malformed.
 */
int jitdump_parse(struct perf_map *m, struct view bytes, struct err *e);
