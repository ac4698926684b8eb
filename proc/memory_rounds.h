#pragma once

/*
 * When to read the memory of processes. Reading takes at most 0.5 % of a processor, however many
 * processes there are: a round that took T of processor time is followed by a pause of 250 T, and
 * one of the PSS by 1,000 T.
 */

#include <stdbool.h>
#include <stdint.h>

/* The default. */
#define MEMORY_HZ 10u

struct memory_rounds {
    int64_t period; /* ns; 0: nothing is read */
    /* CLOCK_MONOTONIC, ns */
    int64_t next, next_pss;
    /* the current round */
    bool pss;
    int64_t began, used; /* when, and the thread's processor time then */
};

/* `hz`: rounds per second, 0: none. */
struct memory_rounds memory_rounds(uint64_t hz);

/* Whether a round is due; then it begins, and memory_rounds_end ends it. `empty`: nothing was read.
 */
bool memory_rounds_begin(struct memory_rounds *r);
void memory_rounds_end(struct memory_rounds *r, bool empty);

/* Milliseconds until the next round, at most `most`. */
int memory_rounds_pause(const struct memory_rounds *r, int most);

/* The processor time of this thread, in ns. */
int64_t memory_rounds_used(void);
