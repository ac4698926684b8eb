#pragma once

/*
 * Maps addresses of one image to functions, inlined calls, files and lines. The index is sorted and
 * built by walking the image's DWARF (symbols/dwarf/dwarf.h).
 *
 * Building reads the ranges of all units first, then, in parallel, the units themselves: all of
 * them, or those that cover given addresses. A partial index can be kept in a cache file and
 * extended later.
 *
 * Addresses are those of the ELF file, as the linker assigned them; the caller subtracts a load
 * bias. For a return address the caller looks up the address before it (pc - 1).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"
#include "symbols/elf/symbol_frame.h"

struct elf_file;
struct symbol_index;

/* Limits for files made to be expensive; 0: derived from the file's size. */
struct index_limits {
    uint64_t memory;      /* bytes of the index */
    uint64_t work;        /* entries and line rows read */
    uint64_t deadline_ns; /* of CLOCK_MONOTONIC; 0: none */
};

struct index_options {
    unsigned threads; /* 0: one per processor */
    struct index_limits limits;
    /*
     * Addresses that will be looked up, in any order. Units that cover none of them are not read.
     * NULL: all units are read.
     */
    const uint64_t *addresses;
    size_t n_addresses;
    /*
     * Opens the .dwo file of a split unit, which the index closes; NULL if not found. `name` and
     * `directory` come from the file and are untrusted. Called by one thread at a time. May be
     * NULL.
     */
    struct elf_file *(*open_split)(void *user, const char *directory, const char *name,
                                   uint64_t id);
    void *user;
    /* The .dwp file with the split units; tried before open_split. May be NULL. */
    struct elf_file *package;
};

/* What an index holds, and what had to be left out. */
struct index_facts {
    size_t units; /* with code */
    size_t units_built;
    size_t units_incomplete; /* built, but with unreadable or excessive parts */
    size_t splits_missing;   /* missing .dwo files: their units have lines only */
    uint64_t bytes;          /* memory in use */
    char first_fault[160];   /* the first reason for an incomplete unit; "" */
};

/*
 * Builds the index of `debug`, the file with debug information (the image or its separate debug
 * file). `alternate` is dwz's file with the common parts, or NULL. Both must stay open until the
 * last call of symbol_index_extend. `options` may be NULL. Fails with ERR_INPUT if the file has no
 * usable debug information or its sections cannot be inflated. Unreadable units are left out and
 * counted.
 */
int symbol_index_build(struct symbol_index **out, struct elf_file *debug,
                       struct elf_file *alternate, const struct index_options *options,
                       struct err *e);

/* `x` may be NULL. */
void symbol_index_free(struct symbol_index *x);

/* Whether a unit that covers one of these addresses has not been read yet. */
bool symbol_index_lacks(const struct symbol_index *x, const uint64_t *addresses, size_t n);

/*
 * Reads the missing units for options->addresses (or all). For a loaded index, `debug` and
 * `alternate` must be the files that it was made from.
 */
int symbol_index_extend(struct symbol_index *x, struct elf_file *debug, struct elf_file *alternate,
                        const struct index_options *options, struct err *e);

/*
 * The frames at an address, innermost first. Writes at most `max` and leaves out the outermost; *n
 * is their total number. Returns true if anything is known of the address. A frame may have a file
 * and a line but no function (assembly). Views are valid as long as the index. Not thread-safe:
 * names are made on first use.
 */
bool symbol_index_lookup(struct symbol_index *x, uint64_t address, struct symbol_frame *frames,
                         size_t max, size_t *n);

/*
 * Names of the image's symbols (symbols/elf/elf_symbols.h), stored in the index by number. The
 * caller first states the number of symbols; false if memory is short.
 */
struct symbol_index_name {
    struct view linkage, function; /* as in a frame */
    uint32_t number;
};
bool symbol_index_expect_symbols(struct symbol_index *x, size_t n);
/* False if the symbol's name is not stored yet. */
bool symbol_index_symbol(const struct symbol_index *x, uint32_t symbol,
                         struct symbol_index_name *out);
/* Stores the name; `linkage` must stay valid as long as the index. False if memory is short. */
bool symbol_index_name_symbol(struct symbol_index *x, uint32_t symbol, struct view linkage,
                              struct symbol_index_name *out);

/* Whether a unit covers the address, so that the index might have an answer. */
bool symbol_index_covers(const struct symbol_index *x, uint64_t address);

void symbol_index_facts(const struct symbol_index *x, struct index_facts *out);

#define INDEX_CACHE_MAGIC "tidemark" /* the first 8 bytes of a cache file */

/*
 * The cache file. `key` identifies the build of the image (build id, size, hash of headers). A file
 * with another key or version, or a truncated one, is rejected (ERR_INPUT). The contents are
 * untrusted: every offset is checked on use. Saving overwrites `fd` from its start and truncates it
 * to the new length. For an atomic update, the caller renames the file (base/outfile.h).
 */
int symbol_index_save(const struct symbol_index *x, int fd, struct view key, struct err *e);
int symbol_index_load(struct symbol_index **out, int fd, struct view key, struct err *e);
