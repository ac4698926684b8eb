#ifndef TIDEMARK_SYMBOLS_INDEX_INDEX_H
#define TIDEMARK_SYMBOLS_INDEX_INDEX_H

/*
 * From addresses of one image to functions, inlined calls, files and lines: our own sorted index,
 * filled by walking its DWARF (symbols/dwarf/dwarf.h).
 *
 * First come the ranges of all units, then, in parallel, the units themselves: all of them, or
 * those that cover the addresses that will be asked for. An index can be kept in a cache file with
 * what it has so far, and be extended later.
 *
 * Addresses are those of the ELF file (what the linker gave; a load bias is the caller's business).
 * They are looked up as they are: who has a return address asks for the one before it (pc - 1).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"

struct elf_file;
struct symbol_index;

/* Who walks the DWARF. */
enum index_back_end {
    INDEX_AUTO, /* libdwarf where the version at hand reads this image exactly, else libdw */
    INDEX_LIBDWARF,
    INDEX_LIBDW,
};

/* Bounds against files that are made to cost much; 0 stands for what fits the file's size. */
struct index_limits {
    uint64_t memory;      /* bytes that the index may take */
    uint64_t work;        /* entries and line rows that may be read */
    uint64_t deadline_ns; /* of CLOCK_MONOTONIC; 0: none */
};

struct index_options {
    enum index_back_end back_end;
    unsigned threads; /* 0: as many as there are processors */
    struct index_limits limits;
    /*
     * The addresses that will be asked for, in any order: units that cover none of them are not
     * read. NULL: all are.
     */
    const uint64_t *addresses;
    size_t n_addresses;
    /*
     * Opens the file with the rest of a split unit (a .dwo file), which the index closes; NULL when
     * it is not to be found. `name` and `directory` are the file's own words. Called by one thread
     * at a time. May be NULL.
     */
    struct elf_file *(*open_split)(void *user, const char *directory, const char *name,
                                   uint64_t id);
    void *user;
    /* The .dwp file that has the split units; asked before open_split. May be NULL. */
    struct elf_file *package;
};

struct symbol_frame {
    struct view function; /* demangled; no bytes when the function has no name or there is none */
    struct view linkage;  /* as the linker knows it (mangled), or the plain name */
    struct view file;     /* path, with the directory of compilation; no bytes: not known */
    uint32_t line;        /* from 1; 0: not known */
    uint32_t column;      /* from 1; 0: not known */
    bool inlined;         /* into the next frame */
    uint64_t function_address; /* lowest address of the function's code; 0: not known */
    /* Of one index, texts with equal numbers are equal; 0: none */
    uint32_t function_number, file_number;
};

/* What an index holds, and what had to be left out. */
struct index_facts {
    size_t units; /* that have code */
    size_t units_built;
    size_t units_incomplete; /* of those built: something in them cannot be read, or is too much */
    size_t splits_missing; /* .dwo files that are not there: only lines are known of these units */
    uint64_t bytes;        /* memory taken */
    enum index_back_end back_end; /* that was taken; INDEX_AUTO when loaded from a file */
    char first_fault[160];        /* the first reason for an incomplete unit; "" */
};

/*
 * Makes the index of `debug`, the file with debug information (the image itself or its separate
 * debug file). `alternate` is the file that dwz put common parts into, or NULL. Both must stay open
 * as long as symbol_index_extend may be called. `options` may be NULL. ERR_INPUT when the file has
 * no debug information that can be used, or its sections cannot be inflated. Units that cannot be
 * read are left out and counted.
 */
int symbol_index_build(struct symbol_index **out, struct elf_file *debug,
                       struct elf_file *alternate, const struct index_options *options,
                       struct err *e);

/* NULL is harmless. */
void symbol_index_free(struct symbol_index *x);

/* Whether a unit that covers one of these addresses has not been read yet. */
bool symbol_index_lacks(const struct symbol_index *x, const uint64_t *addresses, size_t n);

/*
 * Reads what is lacking for options->addresses (or all). For an index that was loaded, `debug` and
 * `alternate` are the files that it was made of, and options->back_end may differ.
 */
int symbol_index_extend(struct symbol_index *x, struct elf_file *debug, struct elf_file *alternate,
                        const struct index_options *options, struct err *e);

/*
 * The frames at an address, innermost first, at most `max` (the outermost are left out); *n says
 * how many there are in all. Returns true when something is known of the address. A frame may have
 * a file and a line but no function (assembly). Views are valid as long as the index. Not for two
 * threads at once: names are made when first asked for.
 */
bool symbol_index_lookup(struct symbol_index *x, uint64_t address, struct symbol_frame *frames,
                         size_t max, size_t *n);

/*
 * Names of the image's symbols (symbols/elf/elf_symbols.h), kept with the index by their numbers.
 * How many symbols there are is told first; false when memory is short.
 */
struct symbol_index_name {
    struct view linkage, function; /* as in a frame */
    uint32_t number;
};
bool symbol_index_expect_symbols(struct symbol_index *x, size_t n);
/* False when the symbol's name was not told yet. */
bool symbol_index_symbol(const struct symbol_index *x, uint32_t symbol,
                         struct symbol_index_name *out);
/* Tells it; `linkage` must stay as long as the index. False when memory is short. */
bool symbol_index_name_symbol(struct symbol_index *x, uint32_t symbol, struct view linkage,
                              struct symbol_index_name *out);

/* The address ranges of all units, to know what an index could answer. */
bool symbol_index_covers(const struct symbol_index *x, uint64_t address);

void symbol_index_facts(const struct symbol_index *x, struct index_facts *out);

/*
 * The cache file. `key` is what tells this build of the image from others (build id, size, hash of
 * headers); a file with another key, of another version or cut short is not taken (ERR_INPUT). What
 * is in it may be anything: every place in it is checked when it is used. Saving writes to `fd` at
 * its start, and cuts the file to its length; who wants it to be there at once or not at all
 * renames (base/outfile.h).
 */
int symbol_index_save(const struct symbol_index *x, int fd, struct view key, struct err *e);
int symbol_index_load(struct symbol_index **out, int fd, struct view key, struct err *e);

#endif
