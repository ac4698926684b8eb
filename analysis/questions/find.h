#pragma once

/*
 * The allocations at an address, or in a range of addresses: at a time, with those before and
 * after; or over the whole history.
 */

#include "analysis/questions/history.h"

enum find_when {
    FIND_ANY,    /* no time was given */
    FIND_AT,     /* live at the time */
    FIND_BEFORE, /* the newest that was freed by then, in its pool */
    FIND_AFTER,  /* the oldest that was allocated later */
};

struct find_options {
    uint64_t low, high; /* addresses, both inclusive */
    bool has_time;
    int64_t time;   /* ns */
    uint64_t limit; /* blocks to list; 0: all */
};

struct found_block {
    struct history_block block;
    enum find_when when;
    uint16_t thread, free_thread;
    uint32_t callstack, free_callstack;
};

struct find_result {
    struct find_options options;
    VEC(struct found_block) list; /* in order of time; without a time the newest `limit` */
    uint64_t total;               /* all matches */
    uint64_t live;                /* matches live at the end of the selected time */
    uint64_t live_bytes;
};

int find_run(struct find_result *r, const struct history *h, const struct find_options *options,
             struct err *e);
void find_release(struct find_result *r);
