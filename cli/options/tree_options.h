#pragma once

/* Options of `tree` and `top`: which call-stack tree is made. */

#include "analysis/names/skiplist.h"
#include "analysis/questions/tree.h"
#include "cli/options/option_table.h"

struct tree_choice {
    struct tree_options tree; /* tree.skip: the caller points it to `skip` */
    struct skiplist skip;
};

extern const struct option_row tree_rows[]; /* of struct tree_choice */
