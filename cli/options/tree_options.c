#include "cli/options/tree_options.h"

#include "cli/options/options.h"

#define FIELD(NAME) OPTION_FIELD(struct tree_choice, NAME)

const struct option_row tree_rows[] = {
    {"--top-down", NULL, "from the outermost callers inwards (the default)", .type = VALUE_SET,
     .least = false, FIELD(tree.bottom_up)},
    {"--bottom-up", NULL, "from the functions that allocated outwards to their callers",
     FIELD(tree.bottom_up)},
    {"--by", "WHAT", "a node for each {} (function)",
     .words = "function, line, file, image, module, thread or type", .type = VALUE_WORD,
     FIELD(tree.by)},
    {"--metric", "WHAT",
     "{}: the highest comes first (tree: bytes; top: at-peak, of a running client live; resident: "
     "tree alone)",
     .words = "bytes, count, live, live-count, at-peak, at-peak-count, temporary or resident",
     .type = VALUE_WORD, FIELD(tree.sort)},
    {"--no-inlines", NULL, "a node for each frame, not for each function that was inlined into it",
     FIELD(tree.no_inlines)},
    {"--all-frames", NULL, "with the allocator's functions and Tracy's own",
     FIELD(tree.all_frames)},
    SKIP_ROWS(struct tree_choice, skip, "at the inner end"),
    {0},
};
