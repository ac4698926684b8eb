#pragma once

/*
 * `tidemark top`: a trace, saved or still being recorded, as a tree on a terminal. All of it runs
 * in one thread: a recorder calls top_turn regularly, while no data is being added to the store.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/selection.h"
#include "cli/top/browser.h"
#include "analysis/questions/timeline.h"
#include "analysis/questions/tree_stacks.h"
#include "cli/top/top_screen.h"
#include "server/net/stop.h"

#define TOP_SEARCH_SIZE 128
#define TOP_CHILDREN 1000u     /* rows of a node; another row stands for the smaller ones */
#define TOP_SPARKS 512u        /* time steps of the usage line */
#define TOP_POOL_SPARKS 32768u /* of those of all pools, one after the other; at least one each */

struct top {
    struct trace *trace;
    const char *file;              /* the trace's; NULL: of a running client */
    struct selection_options only; /* the selection on the command line */
    struct tree_options options;
    struct screen screen;

    /* The content: figures as of the last build. */
    struct tree_stacks stacks;
    struct tree tree;
    struct timeline usage;      /* of all pools */
    struct timeline pool_usage; /* of each one */
    struct browser browser;
    VEC(char *) pools; /* names to choose from */
    uint32_t pool;     /* the chosen one, or TREE_ALL_POOLS */

    /* The state of the view. */
    size_t first;   /* row at the top */
    size_t details; /* first line of the details */
    bool show_details, show_help;
    bool searching; /* letters go to the search text */
    char search[TOP_SEARCH_SIZE];
    char message[512];    /* in the last line until the next key */
    long long work_look;  /* monotonic ns: when work next shows how far it is; 0: not at all */
    bool search_works;    /* the search shows it */
    uint64_t work_before; /* steps of call stacks before the key */
    bool quit;

    /* For a trace that is being recorded. */
    bool live;            /* events may still arrive */
    bool frozen;          /* the user has frozen the figures */
    const char *end;      /* how the recording ended; NULL: it goes on, or there was none */
    long long built_at;   /* monotonic ns */
    long long build_cost; /* duration of the last build, ns */
};

/* ---- top.c */

/* The caller keeps ownership. `t` must be zero except for trace, file, only, options, live. */
int top_open(struct top *t, bool stdin_taken, struct err *e);
void top_close(struct top *t);

/* Rebuilds the content from the trace. */
int top_build(struct top *t, struct err *e);

/* Makes the tree anew, for another direction or grouping. */
int top_build_tree(struct top *t, struct err *e);

/* Shows a pool, or TREE_ALL_POOLS. */
int top_choose_pool(struct top *t, uint32_t pool, struct err *e);

/* The use over time of what is shown; NULL: there is none. */
const struct timeline_series *top_usage(const struct top *t, const struct timeline **of);

/* ---- top_draw.c */

void top_draw(struct top *t);

/* Shows a text in the last line; the others stay. */
void top_draw_last(struct top *t, const char *text);

/* ---- top_keys.c */

/* Handles pending keys, rebuilds when it is time, draws. For recorders. */
int top_turn(struct top *t, struct err *e);

/* Handles keys until the user quits or a signal arrives. */
int top_loop(struct top *t, struct stop *stop, struct err *e);
