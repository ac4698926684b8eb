#pragma once

/*
 * Names of code that a program generates while it runs, from its perf map, /tmp/perf-PID.map: a
 * line "START SIZE NAME" for each function, numbers hexadecimal (tools/perf/Documentation/
 * jit-interface.txt of Linux). Runtimes append to it and take nothing back, and lines have no
 * times. So if several functions were at an address, a frame's name says that it may be any. The
 * same table holds the functions of a jitdump (naming/jitdump.h), which have times.
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

/* Code from `offset` of its function on is of this line. */
struct perf_line {
    uint64_t offset;
    struct view file; /* empty: the function's */
    uint32_t line;
};

/* A function at a place; views point into the text. */
struct perf_entry {
    uint64_t start, end;
    uint64_t reach;  /* the highest `end` in its subtree */
    uint64_t from;   /* ns of CLOCK_MONOTONIC: when it came there; 0: not known */
    uint32_t number; /* in the file's order */
    uint32_t line;   /* where the function begins; 0: not known */
    struct view function;
    struct view file;           /* empty: not known */
    uint32_t first_line, lines; /* in perf_map.lines, by offset */
};

struct perf_map {
    VEC(struct perf_entry) list; /* by start, then by number */
    VEC(struct perf_line) lines;
    bool timed;         /* each entry's `from` is known */
    uint64_t malformed; /* lines or records */
};

/* `text` must outlive the map. */
int perf_map_parse(struct perf_map *m, struct view text, struct err *e);
void perf_map_release(struct perf_map *m);

/* For other readers: takes a function's name apart; then, when the list is complete, orders it. */
void perf_entry_name(struct perf_entry *entry, struct view text);
void perf_map_order(struct perf_map *m);

/* The line of an address in a function; `line` 0: not known. */
struct perf_line perf_map_line(const struct perf_map *m, const struct perf_entry *entry,
                               uint64_t address);

/* Whether two functions are the same one, and the address is of the same line in both. */
bool perf_map_same(const struct perf_map *m, const struct perf_entry *a, const struct perf_entry *b,
                   uint64_t address);

/* Entries over one address that a search takes; there may be more. */
#define PERF_MAP_SEARCHED 512u

struct perf_search {
    uint64_t address;
    const struct perf_entry *found[PERF_MAP_SEARCHED];
    size_t n;
    bool more; /* than there is room for */
};

/* The entries over an address, in the list's order. */
void perf_map_search(const struct perf_map *m, uint64_t address, struct perf_search *s);

struct perf_found {
    const struct perf_entry *last;  /* the newest function at an address, of those searched */
    const struct perf_entry *other; /* one of those before it; NULL: none is known */
    unsigned others;                /* how many there were, or at least as many */
};

/* False: there is none. A function's own earlier code is no other function. */
bool perf_map_find(const struct perf_map *m, uint64_t address, struct perf_found *f);

/* For lists of address ranges: takes a hexadecimal number and the character behind it. */
bool perf_map_number(struct view *rest, char end, uint64_t *number);

/* The functions, file and line of an entry, for frame_book_rename. `name` 0: its own. */
int perf_map_inline(const struct perf_map *m, const struct perf_entry *entry, uint64_t address,
                    uint32_t name, struct trace *t, struct rec_inline_frame *in, struct err *e);
