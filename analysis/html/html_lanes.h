#pragma once

/*
 * The program's zones, messages and plots for each slot of the page's timeline (PAGE_SLOTS). Of the
 * whole process, whatever is selected.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/html/html_data.h"
#include "analysis/questions/related_input.h"
#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/store/store.h"

#define PAGE_LANE_THREADS 6u /* those with most time in zones */
#define PAGE_LANE_DEPTHS 2u  /* outermost zones, and those directly within */
#define PAGE_LANE_PLOTS 8u

#define PAGE_LANE_NONE INT32_MIN

struct page_zone_lane {
    uint16_t thread;
    uint64_t busy; /* ns of its outermost zones within the timeline */
    /* The source location that was open longest in a slot, the first of equal ones. */
    int32_t open[PAGE_LANE_DEPTHS][PAGE_SLOTS];
};

struct page_message {
    uint64_t count;
    int64_t time;  /* ns; of the first one */
    uint64_t text; /* string number; 0: unknown */
};

struct page_plot {
    struct view name;
    bool known[PAGE_SLOTS]; /* it has a point in the slot */
    double high[PAGE_SLOTS];
};

struct page_lanes {
    VEC(struct page_zone_lane) zones; /* most time first */
    struct page_message *messages;    /* PAGE_SLOTS; NULL: there are none */
    VEC(struct page_plot) plots;      /* the program's own first */
    uint64_t threads_left_out, plots_left_out;
};

/*
 * `t` was loaded with zones, and `input` with its plots and messages. `l` need not be initialised;
 * release it in any case.
 */
int page_lanes_build(struct page_lanes *l, const struct page_data *d, struct trace *t,
                     struct related_input *input, struct err *e);
void page_lanes_release(struct page_lanes *l);
