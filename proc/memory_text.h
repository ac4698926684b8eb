#pragma once

/* Numbers in texts of the kernel: /proc and the files of a cgroup. */

#include <stdbool.h>
#include <stdint.h>

/*
 * The decimal number after `key` in the first line that begins with `line`; both may be "". A
 * number begins after blanks. False: there is none, or it exceeds 64 bits.
 */
bool memory_text_number(const char *text, const char *line, const char *key, uint64_t *number);

/*
 * Field `n` of /proc/PID/stat, counted from 1 as in proc(5), after the process's name, which may
 * contain any character. n ≥ 4. False: there is none.
 */
bool memory_text_stat(const char *text, unsigned n, uint64_t *number);
