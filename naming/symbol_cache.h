#ifndef TIDEMARK_NAMING_SYMBOL_CACHE_H
#define TIDEMARK_NAMING_SYMBOL_CACHE_H

/*
 * Files in which what was read of images is kept, by a key that tells one build from another. They
 * are the user's own, in a folder that nobody else can look into; what is in them is read by the
 * symbol helper only. What was not used for longest goes when the folder has grown beyond a bound.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/outfile.h"
#include "base/view.h"

#define SYMBOL_CACHE_BYTES ((uint64_t)2 << 30)

struct symbol_cache {
    const char *folder; /* NULL: $XDG_CACHE_HOME/tidemark/symbols, else in ~/.cache */
    bool off;
    uint64_t most; /* bytes of all files; 0: SYMBOL_CACHE_BYTES */
    /* while a file is written */
    struct outfile out;
    bool writing;
};

/* A descriptor of what is kept under a key, or -1. */
int symbol_cache_open(const struct symbol_cache *c, struct view key);

/* A descriptor to write to, the caller's to close; -1: nothing can be kept. One at a time. */
int symbol_cache_begin(struct symbol_cache *c, struct view key);

/* What was written is whole: gives it its name. */
void symbol_cache_commit(struct symbol_cache *c);

/* Drops what is not whole. */
void symbol_cache_release(struct symbol_cache *c);

#endif
