#include "cli/options/tree_options.h"

static bool take_by(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    (void)e;
    return tree_by_parse(value, &((struct tree_choice *)ctx)->tree.by);
}

static bool take_metric(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    (void)e;
    return tree_metric_parse(value, &((struct tree_choice *)ctx)->tree.sort);
}

static bool take_skip(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    return skiplist_add(&((struct tree_choice *)ctx)->skip, value, e) == 0;
}

static bool take_no_skip(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    return skiplist_keep(&((struct tree_choice *)ctx)->skip, value, e) == 0;
}

#define FIELD(NAME) OPTION_FIELD(struct tree_choice, NAME)

const struct option_row tree_rows[] = {
    {"--top-down", NULL, "from the outermost callers inwards (the default)", .type = VALUE_SET,
     .least = false, FIELD(tree.bottom_up)},
    {"--bottom-up", NULL, "from the functions that allocated outwards to their callers",
     FIELD(tree.bottom_up)},
    {"--by", "WHAT", "a node for each {} (function)",
     .words = "function, line, file, image, module, thread or type", .take = take_by},
    {"--metric", "WHAT",
     "{}: the highest comes first (tree: bytes; top: at-peak, of a running client live; resident: "
     "tree alone)",
     .words = "bytes, count, live, live-count, at-peak, at-peak-count, temporary or resident",
     .take = take_metric},
    {"--no-inlines", NULL, "a node for each frame, not for each function that was inlined into it",
     FIELD(tree.no_inlines)},
    {"--all-frames", NULL, "with the allocator's functions and Tracy's own",
     FIELD(tree.all_frames)},
    {"--skip", "REGEX",
     "pass over functions or files that match at the inner end (as in Perl); may be given several "
     "times",
     .take = take_skip},
    {"--no-skip", "REGEX",
     "do not pass over functions or files that match, whatever else says so; may be given several "
     "times",
     .take = take_no_skip},
    {0},
};
