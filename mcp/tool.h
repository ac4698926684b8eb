#pragma once

/* A tool, and a call of it. For mcp/tools*.c only. */

#include "mcp/result_cursor.h"
#include "mcp/tools.h"
#include "mcp/params.h"

struct tool_call {
    struct tools *tools;
    const struct tool *tool;
    const json_t *arguments;
    struct tidetrace *trace; /* "trace" */
    struct tidetrace *base;  /* "base", if the tool compares */
    struct tidetrace_selection selection;
    struct param_texts skip, no_skip;
};

struct tool {
    const char *name, *what;
    struct param_lists params;
    /* Makes the document of a tool that asks no trace; NULL: the members below do. */
    json_t *(*list)(struct tool_call *c, const struct page *p, struct err *e);
    const char *rows; /* the list of rows in its answer; NULL: none */
    bool compares;    /* takes two traces */
    bool plots;       /* needs plots and messages */
    int (*ask)(struct tool_call *c, struct tidetrace_result **r, struct tidetrace_error *error);
    /* Makes the document if rows are in more than one list; NULL: they are all in `rows`. */
    json_t *(*make)(struct tool_call *c, struct tidetrace_result *r, const struct page *p,
                    struct err *e);
    /* Adds what the result lacks; may be NULL. */
    int (*add)(struct tool_call *c, json_t *document, struct err *e);
};

/* The table ends with a tool without a name. */
extern const struct tool tool_table[];

/* The lists of a report to choose from; 0 is the list of rows. */
extern const char *const report_lists[];
