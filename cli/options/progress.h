#pragma once

/*
 * A line on standard error that says how much is done and how long the rest takes. It appears after
 * a second, if standard error is a terminal.
 */

#include <stdbool.h>
#include <stdint.h>

struct progress {
    uint64_t total;       /* 0: unknown, nothing is shown */
    uint64_t began, next; /* monotonic ns; `next`: of the next change of the line */
    bool shown;
};

/* `quiet`: never shows anything. */
struct progress progress_begin(uint64_t total, bool quiet);
void progress_show(struct progress *p, uint64_t done);

/* Removes the line, and begins anew with the same total. */
struct progress progress_again(struct progress *p);

/* Removes the line; call it before anything else is printed. */
void progress_clear(struct progress *p);
