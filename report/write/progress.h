#pragma once

/*
 * A line on standard error that says how much is done and how long the rest takes. It appears after
 * a second, if standard error is a terminal.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace;
struct err;

struct progress {
    uint64_t total;       /* 0: unknown, nothing is shown */
    uint64_t began, next; /* monotonic ns, of the stage and of the next change of the line */
    uint64_t from;        /* what was done when the stage began; */
    uint64_t last, of;    /* and at the last look, of how much. Less than before: another stage */
    bool shown;
    const char *before; /* what the line begins with; NULL: nothing */
    uint64_t done;      /* of what progress_add counts */
};

/* `quiet`: never shows anything. */
struct progress progress_begin(uint64_t total, bool quiet);
void progress_show(struct progress *p, uint64_t done);

/* The same for a file, which is read once; no line if it is none, as standard input. */
struct progress progress_of_file(const char *path, bool quiet);

/* Shows the progress `ctx`: for struct trace_read_options, and for the loading of a trace. */
int progress_read(void *ctx, uint64_t file_bytes, struct err *e);

/* Shows `p` whenever the trace is loaded or its memory events are swept, until progress_unwatch. */
void progress_watch(struct progress *p, struct trace *t);
void progress_unwatch(struct trace *t);

/* A callback for readers: adds what was read to what the progress `ctx` has done, and shows it. */
void progress_add(void *ctx, size_t n);

/*
 * Shows `p` while the trace's memory events are read `passes` times, to save them for instance.
 * progress_unwatch_events removes the line and ends that; call it before `p` ends.
 */
void progress_watch_events(struct progress *p, struct trace *t, unsigned passes, bool quiet);
void progress_unwatch_events(struct progress *p, struct trace *t);

/* Removes the line; another stage begins. */
void progress_again(struct progress *p);

/* Removes the line; call it before anything else is printed. */
void progress_clear(struct progress *p);
