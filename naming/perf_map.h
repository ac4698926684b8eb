#ifndef TIDEMARK_NAMING_PERF_MAP_H
#define TIDEMARK_NAMING_PERF_MAP_H

/*
 * Names of code that a program generates while it runs, from its perf map, /tmp/perf-PID.map: a
 * line "START SIZE NAME" for each function, numbers hexadecimal (tools/perf/Documentation/
 * jit-interface.txt of Linux). Runtimes append to it and take nothing back, and lines have no
 * times. So if several functions were at an address, a frame's name says that it may be any.
 *
 * NAME has a special form in some runtimes, from which function, file and line are taken:
 *
 *     JS:*load /srv/app.js:12:3           V8: a tier (* ^ + ~ or nothing), name, file:line:column
 *     void J.load(int)                    Java: class and method
 *     py::load:/srv/app.py                CPython 3.12
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "trace/store/store.h"

/* A line; views point into the text. */
struct perf_entry {
    uint64_t start, end;
    uint64_t reach;  /* the highest `end` in its subtree */
    uint32_t number; /* of the line */
    struct view function;
    struct view file; /* empty: not known */
    uint32_t line;    /* 0: not known */
};

struct perf_map {
    VEC(struct perf_entry) list; /* by start, then by number */
    uint64_t malformed;          /* lines */
};

/* `text` must outlive the map. */
int perf_map_parse(struct perf_map *m, struct view text, struct err *e);
void perf_map_release(struct perf_map *m);

struct perf_found {
    const struct perf_entry *last;  /* the newest function at an address, of those searched */
    const struct perf_entry *other; /* one of those before it; NULL: none is known */
    unsigned others;                /* how many there were, or at least as many */
};

/* False: there is none. A function's own earlier code is no other function. */
bool perf_map_find(const struct perf_map *m, uint64_t address, struct perf_found *f);

struct perf_map_names {
    uint64_t named, ambiguous; /* frames */
};

/* Names the frames of a trace that have no name. */
int perf_map_apply(const struct perf_map *m, struct trace *t, struct perf_map_names *n,
                   struct err *e);

/* The same by the text of a map, with a fact `generated_code` if frames were named. */
int perf_map_name(struct view text, struct trace *t, struct err *e);

#endif
