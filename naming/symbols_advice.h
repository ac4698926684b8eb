#pragma once

/* Which images lack source lines for most bytes of a summary, and where their debug symbols are. */

#include "analysis/figures/summary.h"
#include "base/buf.h"

/*
 * Appends to `out`, for people, a line for each image whose functions are sites of at least 5 % of
 * all bytes and have no source file, three at most:
 *
 *     no source lines for 98.9 % of bytes, at functions of libsqlite3.so.0.8.6, named from .dynsym:
 *     its package is libsqlite3-0, and the debug symbols' is libsqlite3-0-dbgsym if Debian's naming
 *     holds
 *
 * Only images of the trace's module table count. A package is named, or said to be none, only if
 * the image's file on this machine is the recorded one, by its build id, and if dpkg-query runs;
 * else the line has the recorded build id. Below is the command that asks a debuginfod server, if a
 * line is of an image with a build id that may be of a package. Images whose debug file is
 * installed are left out.
 *
 * Call it before summary_select, which drops rows. `trace`: path of the saved trace; NULL or "-":
 * it has none. Starts dpkg-query and waits for it. Memory that is short makes `out` fail.
 */
void symbols_advice(struct buf *out, const struct summary *s, const char *trace);
