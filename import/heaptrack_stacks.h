#pragma once

/*
 * Call stacks of a heaptrack file. A trace is an instruction pointer and the trace of its caller.
 * Its number is its position among the "t" lines, from 1; instruction pointers are numbered
 * likewise by the "i" lines of interpreted files. Raw files have a module map and no names.
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
    uint32_t image; /* string number in the trace */
    uint32_t first; /* first of its functions, innermost first */
    uint32_t n;
    uint64_t offset; /* raw files: offset within the image */
    bool told;       /* the ingest has its functions */
};

struct heaptrack_trace {
    uint32_t ip; /* index in ips */
    uint32_t parent;
    uint32_t callstack; /* 0: not interned yet */
};

struct heaptrack_module {
    uint64_t start, end; /* address range of a segment */
    uint64_t base;       /* address of the image's offset 0 */
    uint32_t image;
};

struct heaptrack_stacks {
    struct ingest *in;
    bool raw;
    bool sized;            /* texts are prefixed with their length */
    uint32_t exe;          /* string number */
    VEC(uint32_t) strings; /* the n-th "s" line → string number in the trace */
    VEC(struct heaptrack_function) functions;
    VEC(struct heaptrack_ip) ips;
    VEC(struct heaptrack_trace) traces;
    VEC(struct heaptrack_module) modules; /* the first `in_order` are sorted by address */
    size_t in_order;
    struct map by_address; /* raw files: address → index in ips */
};

void heaptrack_stacks_release(struct heaptrack_stacks *s);

/* Handle the lines "s", "i", "t", "m" and "x". Return 1 if understood, 0 if not, -1 on an error. */
int heaptrack_string_line(struct heaptrack_stacks *s, struct heaptrack_line *line, struct err *e);
int heaptrack_ip_line(struct heaptrack_stacks *s, struct heaptrack_line *line, struct err *e);
int heaptrack_trace_line(struct heaptrack_stacks *s, struct heaptrack_line *line, struct err *e);
int heaptrack_module_line(struct heaptrack_stacks *s, struct heaptrack_line *line, struct err *e);
int heaptrack_exe_line(struct heaptrack_stacks *s, struct heaptrack_line *line, struct err *e);

/* The ingest's call stack of a trace; 0: none. *known is false when there is no such trace. */
int heaptrack_callstack(struct heaptrack_stacks *s, uint64_t trace, uint32_t *callstack,
                        bool *known, struct err *e);
