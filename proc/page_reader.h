#pragma once

/*
 * Reads the pages of a process: /proc/PID/maps, pagemap and task. Sources: proc(5);
 * Documentation/admin-guide/mm/pagemap.rst of Linux; bits of an entry: 63 resident, 62 swapped, 61
 * of a file or shared, 56 mapped once. A resident private page that is not mapped once is the zero
 * page, or one that a forked process shares. Pages freed with MADV_FREE count as resident until the
 * kernel takes them. Huge pages: ioctl PAGEMAP_SCAN of Linux 6.7, else smaps_rollup, which takes
 * more time than all else.
 */

#include <stdbool.h>

#include "base/view.h"
#include "proc/process_memory.h"
#include "trace/store/page_look.h"

/*
 * Sets everything but the reason; times are of CLOCK_MONOTONIC. `out` need not be initialised.
 * If the process may not be inspected any more, stacks of threads and arenas are areas like others.
 * ERR_INPUT when nothing of it may be read, or it has no memory any more.
 */
int page_look_read(struct page_look *out, const struct process_memory *of, struct err *e);

/*
 * A line of /proc/PID/maps as an area, without its pages. `before`: the area of the line before, or
 * NULL. False: it is no line of this file, or memory that is not the process's own.
 */
bool page_reader_area(struct view line, const struct look_area *before, struct look_area *out);
