#ifndef TIDEMARK_IMPORT_HEAPTRACK_STACKS_H
#define TIDEMARK_IMPORT_HEAPTRACK_STACKS_H

/*
 * Call stacks of a heaptrack file. A trace is an instruction pointer and the trace of its caller;
 * it is named by its place among the "t" lines, from 1, as instruction pointers are by theirs among
 * the "i" lines of interpreted files. Raw files tell which module lies where, and have no names.
 */

#include "base/map.h"
#include "import/heaptrack_lines.h"
#include "import/import.h"

struct heaptrack_function {
    uint32_t function, file; /* numbers of "s" lines, 0 none */
    uint32_t line;
};

struct heaptrack_ip {
    uint64_t address;
    uint32_t image; /* string number of the trace */
    uint32_t first; /* of its functions, innermost first */
    uint32_t n;
    uint64_t offset; /* raw: within the image */
    bool told;       /* the ingest knows what it stands for */
};

struct heaptrack_trace {
    uint32_t ip; /* index in ips */
    uint32_t parent;
    uint32_t callstack; /* 0: not made yet */
};

struct heaptrack_module {
    uint64_t start, end; /* of a segment */
    uint64_t base;       /* where offset 0 of the image lies */
    uint32_t image;
};

struct heaptrack_stacks {
    struct ingest *in;
    bool raw;
    bool sized;            /* texts have their length before them */
    uint32_t exe;          /* string number */
    VEC(uint32_t) strings; /* the n-th "s" line → string number of the trace */
    VEC(struct heaptrack_function) functions;
    VEC(struct heaptrack_ip) ips;
    VEC(struct heaptrack_trace) traces;
    VEC(struct heaptrack_module) modules; /* the first `in_order` in order of their addresses */
    size_t in_order;
    struct map by_address; /* raw: address → index in ips */
};

void heaptrack_stacks_release(struct heaptrack_stacks *s);

/* Lines "s", "i", "t", "m", "x". 1 understood, 0 not, -1 error. */
int heaptrack_string_line(struct heaptrack_stacks *s, struct heaptrack_line *line, struct err *e);
int heaptrack_ip_line(struct heaptrack_stacks *s, struct heaptrack_line *line, struct err *e);
int heaptrack_trace_line(struct heaptrack_stacks *s, struct heaptrack_line *line, struct err *e);
int heaptrack_module_line(struct heaptrack_stacks *s, struct heaptrack_line *line, struct err *e);
int heaptrack_exe_line(struct heaptrack_stacks *s, struct heaptrack_line *line, struct err *e);

/* The ingest's call stack of a trace; 0 for none. False in *known when there is no such trace. */
int heaptrack_callstack(struct heaptrack_stacks *s, uint64_t trace, uint32_t *callstack,
                        bool *known, struct err *e);

#endif
