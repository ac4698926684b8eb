#pragma once

/*
 * Cache files of data read from images, by a key that identifies the build. They are in a folder
 * that only the user can read, and only the symbol helper parses them. When the folder exceeds a
 * size limit, the least recently used files are deleted.
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
    uint64_t most; /* total size limit in bytes; 0: SYMBOL_CACHE_BYTES */
    /* Valid while a file is written. */
    struct outfile out;
    bool writing;
};

/* Returns a descriptor of the entry under a key, or -1. */
int symbol_cache_open(const struct symbol_cache *c, struct view key);

/*
 * Returns a descriptor to write to, which the caller closes; -1: the cache is unavailable. One
 * entry at a time.
 */
int symbol_cache_begin(struct symbol_cache *c, struct view key);

/* Gives the complete entry its name. */
void symbol_cache_commit(struct symbol_cache *c);

/* Drops an incomplete entry. */
void symbol_cache_release(struct symbol_cache *c);
