#ifndef TIDEMARK_CLI_UPDATE_RESOLVE_H
#define TIDEMARK_CLI_UPDATE_RESOLVE_H

/*
 * `tidemark update -r`: asks addr2line what the unresolved frames of a trace are called, and tells
 * on the way what it does, as the official tool does.
 * Source: update/src/OfflineSymbolResolver*.cpp @ v0.11.0 … v0.14.0.
 */

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "symbols/addr2line.h"
#include "symbols/substitute.h"
#include "trace/symbolize.h"

struct update_resolve {
    struct addr2line_options tool;
    struct substitutions substitutions; /* of paths of images */
    bool verbose;                       /* tell each frame that gets a name */
    FILE *say;
};

/* For rewrite_options.resolve. Images that cannot be read are told and left as they are. */
int update_resolve(void *resolve, struct symbolize *s, struct err *e);

#endif
