#include "mcp/tool_params.h"

const struct param trace_params[] = {
    {"trace", PARAM_TEXT, .what = "path of a .tracy file, of any version from 0.9.0 to 0.14.0",
     .required = true, .common = true},
    {0},
};

const struct param skip_params[] = {
    {"skip", PARAM_REGEXES, .what = "functions and files to pass over when looking for the site",
     .common = true},
    {"no_skip", PARAM_REGEXES,
     .what = "functions and files that may be the site although they look like allocators",
     .common = true},
    {0},
};

const struct param selection_members[] = {
    {"pool", PARAM_TEXT, .what = "only allocations of the pools of this name"},
    {"thread", PARAM_TEXT, .what = "only those made by the threads of this name or id"},
    {"begin_ns", PARAM_INTEGER, .what = "only those made from this time on", .least = -TIMES_MAX,
     .most = TIMES_MAX},
    {"end_ns", PARAM_INTEGER,
     .what = "only those made before this time; what happens from then on is not seen",
     .least = -TIMES_MAX, .most = TIMES_MAX},
    {"at_ns", PARAM_INTEGER, .what = "only those live at this time", .least = -TIMES_MAX,
     .most = TIMES_MAX},
    {"size_min", PARAM_INTEGER, .what = "only those of so many bytes or more", .most = TIMES_MAX},
    {"size_max", PARAM_INTEGER, .what = "only those of so many bytes or less", .most = TIMES_MAX},
    {"match", PARAM_REGEX,
     .what = "only those with a function, file or image in the call stack that this regular "
             "expression (Perl's) matches"},
    {"frame", PARAM_INTEGER,
     .what = "only those made within this frame of the program, by its number in the profiler",
     .most = WHOLE_MAX},
    {"zone", PARAM_TEXT, .what = "only those made within a zone of this name on the same thread"},
    {0},
};

const struct param first_selection_params[] = {
    {"only", PARAM_OBJECT,
     .what = "pool thread begin_ns end_ns at_ns size_min size_max match frame zone",
     .members = selection_members},
    {0},
};

const struct param selection_params[] = {
    {"only", PARAM_OBJECT, .what = "members as in verify", .members = selection_members},
    {0},
};

const struct param bytes_params[] = {
    {"bytes", PARAM_INTEGER, .what = "how long the answer may be (8192; at most 262144)",
     .least = 1024, .most = PAGE_BYTES_MAX, .common = true},
    {"frames", PARAM_INTEGER,
     .what = "how many frames of each call stack to show, from the site on (3)", .most = 1000,
     .common = true},
    {0},
};

const struct param page_params[] = {
    {"limit", PARAM_INTEGER,
     .what = "rows in this page (15; at most 1000), fewer where `bytes` has no room", .least = 1,
     .most = 1000, .common = true},
    {"cursor", PARAM_TEXT,
     .what = "next_cursor of the page before, with all other arguments as they were",
     .common = true},
    {0},
};
