#ifndef TIDEMARK_CLI_TOP_TOP_H
#define TIDEMARK_CLI_TOP_TOP_H

/*
 * `tidemark top`: a trace, saved or still being recorded, as a tree on a terminal. All of it is one
 * thread: whoever records calls top_turn now and then, when nothing of the store is in between.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/selection.h"
#include "analysis/questions/browser.h"
#include "analysis/questions/timeline.h"
#include "cli/top/top_screen.h"
#include "server/net/stop.h"

#define TOP_SEARCH_SIZE 128
#define TOP_SPARKS 512u /* pieces of time of the line of usage */

struct top {
    struct trace *trace;
    struct selection_options only; /* what the command line selects */
    struct tree_options options;
    struct screen screen;

    /* What is shown: figures as of when it was built. */
    struct tree tree;
    struct timeline usage;
    struct browser browser;
    bool built;
    VEC(char *) pools; /* names to choose from */
    char *pool;        /* the chosen one; NULL: all */

    /* How it is shown. */
    size_t first;   /* row at the top */
    size_t details; /* first line of the details */
    bool show_details, show_help;
    bool searching; /* letters go to the search text */
    char search[TOP_SEARCH_SIZE];
    char message[512]; /* in the last line until the next key */
    bool quit;

    /* While something is being recorded. */
    bool live;            /* events may still come */
    bool frozen;          /* the user wants figures to stay */
    const char *end;      /* how the recording ended; NULL: it goes on, or there was none */
    long long built_at;   /* monotonic ns */
    long long build_cost; /* ns that building took */
};

/* ---- top.c */

/* Takes over nothing. `t` zero-initialised but for trace, only, options, live. */
int top_open(struct top *t, bool stdin_taken, struct err *e);
void top_close(struct top *t);

/* Builds what is shown anew from the trace. */
int top_build(struct top *t, struct err *e);

/* Builds the tree only: after another direction or grouping was chosen. */
int top_build_tree(struct top *t, struct err *e);

/* ---- top_draw.c */

void top_draw(struct top *t);

/* Says in the last line that something takes long. */
void top_draw_wait(struct top *t);

/* ---- top_keys.c */

/* Takes the keys that were pressed, builds when it is time, draws. For whoever records. */
int top_turn(struct top *t, struct err *e);

/* Waits for keys until the user wants to go, or a signal asks for it. */
int top_loop(struct top *t, struct stop *stop, struct err *e);

#endif
