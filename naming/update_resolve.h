#ifndef TIDEMARK_NAMING_UPDATE_RESOLVE_H
#define TIDEMARK_NAMING_UPDATE_RESOLVE_H

/*
 * `tidemark update -r`: asks addr2line what the unresolved frames of a trace are called, and tells
 * on the way what it does, as the official tool does. Where there is no addr2line, our own symbol
 * helper answers: the same lines; names of functions differ where calls were inlined, for of those
 * addr2line without -i tells sometimes the inner one and sometimes the outer. `tidemark symbols`
 * has them all.
 * Source: update/src/OfflineSymbolResolver*.cpp @ v0.11.0 … v0.14.0.
 */

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "naming/resolver.h"
#include "symbols/addr2line.h"
#include "symbols/elf/substitute.h"
#include "trace/filter/symbolize.h"

struct update_resolve {
    struct addr2line_options tool;
    struct substitutions substitutions; /* of paths of images */
    bool verbose;                       /* tell each frame that gets a name */
    FILE *say;
    struct resolve_options options; /* of the helper */
    struct resolver resolver;
    bool own; /* the helper answers, as there is no addr2line */
};

/* For rewrite_options.resolve. Images that cannot be read are told and left as they are. */
int update_resolve(void *resolve, struct symbolize *s, struct err *e);

#endif
