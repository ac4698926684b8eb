#pragma once

/* `tidemark top` of a client that is being recorded. */

#include <stdbool.h>

#include "analysis/questions/tree.h"
#include "server/net/connect_client.h"

struct top_live {
    struct connect_options connect;
    bool asked;         /* -a or -p was given */
    const char *output; /* NULL: recorded data is dropped at the end */
    bool replace;
    bool as_released; /* as in session_options */
    struct tree_options tree;
};

/* Records until the user quits. Prints errors and returns the exit status. */
int top_live_run(const struct top_live *l);
