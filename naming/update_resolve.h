#pragma once

/*
 * `tidemark update -r`: names the unresolved frames of a trace with addr2line and prints its
 * progress as the official tool does. Without addr2line the symbol helper answers. Lines are the
 * same; function names differ where calls were inlined, because addr2line without -i returns
 * sometimes the inner and sometimes the outer function. `tidemark symbols` returns all of them.
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
    struct substitutions substitutions; /* in paths of images */
    bool verbose;                       /* print each newly named frame */
    FILE *say;
    struct resolve_options options; /* of the helper */
    struct resolver resolver;
    bool own;      /* the helper runs */
    bool replaces; /* it answers for ELF images, too, since addr2line is missing */
};

/* For rewrite_options.resolve. Images that cannot be read are reported and left unchanged. */
int update_resolve(void *resolve, struct symbolize *s, struct err *e);
