#pragma once

/* When the user wants a look at the pages, besides what page_watch.h decides. */

#include <stdbool.h>
#include <stddef.h>

/* Chosen times, and looks on request; page_looks_decode takes LOOKS_MOST looks in all. */
#define LOOK_TIMES_MOST 32u
#define LOOKS_ASKED_MOST 24u

struct look_times {
    double at[LOOK_TIMES_MOST]; /* seconds since the recording began, ascending */
    size_t len;
};

struct look_wishes {
    struct look_times times;
    int signal; /* on which the pages are looked at; 0: none */
};

/* Whether the next of the times has come by `seconds`. `*passed` of them have; begin with 0. */
bool look_times_due(const struct look_times *t, double seconds, size_t *passed);

/* Milliseconds until the next, at most `most`. */
int look_times_pause(const struct look_times *t, double seconds, size_t passed, int most);
