#include "mcp/tool_params.h"

const struct param trace_params[] = {
    {.name = "trace",
     .type = PARAM_TEXT,
     .what = "path of a .tracy file, of any version from 0.9.0 to 0.14.0",
     .required = true,
     .common = true},
    {.name = NULL},
};

const struct param skip_params[] = {
    {.name = "skip",
     .type = PARAM_REGEXES,
     .what = "functions and files to pass over when looking for the site",
     .common = true},
    {.name = "no_skip",
     .type = PARAM_REGEXES,
     .what = "functions and files that may be the site although they look like allocators",
     .common = true},
    {.name = NULL},
};

const struct param selection_members[] = {
    {.name = "pool", .type = PARAM_TEXT, .what = "only allocations of the pools of this name"},
    {.name = "thread",
     .type = PARAM_TEXT,
     .what = "only those made by the threads of this name or id"},
    {.name = "begin_ns",
     .type = PARAM_INTEGER,
     .what = "only those made from this time on",
     .least = -TIMES_MAX,
     .most = TIMES_MAX},
    {.name = "end_ns",
     .type = PARAM_INTEGER,
     .what = "only those made before this time; what happens from then on is not seen",
     .least = -TIMES_MAX,
     .most = TIMES_MAX},
    {.name = "at_ns",
     .type = PARAM_INTEGER,
     .what = "only those live at this time",
     .least = -TIMES_MAX,
     .most = TIMES_MAX},
    {.name = "size_min",
     .type = PARAM_INTEGER,
     .what = "only those of so many bytes or more",
     .most = TIMES_MAX},
    {.name = "size_max",
     .type = PARAM_INTEGER,
     .what = "only those of so many bytes or less",
     .most = TIMES_MAX},
    {.name = "match",
     .type = PARAM_REGEX,
     .what = "only those with a function, file or image in the call stack that this regular "
             "expression (Perl's) matches"},
    {.name = "frame",
     .type = PARAM_INTEGER,
     .what = "only those made within this frame of the program, by its number in the profiler",
     .most = WHOLE_MAX},
    {.name = "zone",
     .type = PARAM_TEXT,
     .what = "only those made within a zone of this name on the same thread"},
    {.name = NULL},
};

const struct param first_selection_params[] = {
    {.name = "only",
     .type = PARAM_OBJECT,
     .what = "pool thread begin_ns end_ns at_ns size_min size_max match frame zone",
     .members = selection_members},
    {.name = NULL},
};

const struct param selection_params[] = {
    {.name = "only",
     .type = PARAM_OBJECT,
     .what = "members as in verify",
     .members = selection_members},
    {.name = NULL},
};

const struct param bytes_params[] = {
    {.name = "bytes",
     .type = PARAM_INTEGER,
     .what = "how long the answer may be (8192; at most 262144)",
     .least = 1024,
     .most = PAGE_BYTES_MAX,
     .common = true},
    {.name = "frames",
     .type = PARAM_INTEGER,
     .what = "how many frames of each call stack to show, from the site on (3)",
     .most = 1000,
     .common = true},
    {.name = NULL},
};

const struct param page_params[] = {
    {.name = "limit",
     .type = PARAM_INTEGER,
     .what = "rows in this page (15; at most 1000), fewer where `bytes` has no room",
     .least = 1,
     .most = 1000,
     .common = true},
    {.name = "cursor",
     .type = PARAM_TEXT,
     .what = "next_cursor of the page before, with all other arguments as they were",
     .common = true},
    {.name = NULL},
};
