#ifndef TIDEMARK_SYMBOLS_ELF_ELF_SYMBOLS_H
#define TIDEMARK_SYMBOLS_ELF_ELF_SYMBOLS_H

/*
 * The functions of an image by address, from its symbol tables: .symtab of the debug file or of the
 * image; without one, .dynsym and the .symtab in .gnu_debugdata (an ELF file packed with xz), and
 * for the rest where functions begin and end according to .eh_frame.
 *
 * Names are as they stand there, mangled. Which one is given at an address is what llvm-symbolizer
 * gives: the symbol that begins last at or before it; of several at one address the longest, of
 * those the last in the table. A symbol without a size reaches to the next one. Beyond the end of a
 * symbol llvm-symbolizer gives up; here the longer one that is still around the address is given.
 *
 * Immutable once read: any number of threads may ask.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"
#include "symbols/elf/elf_file.h"

enum elf_symbol_source {
    ELF_SYMBOL_DYNSYM,
    ELF_SYMBOL_DEBUGDATA,
    ELF_SYMBOL_SYMTAB,
    ELF_SYMBOL_EH_FRAME, /* a function without a name */
};

struct elf_symbol {
    struct view name; /* empty for ELF_SYMBOL_EH_FRAME; the first MiB of a longer one */
    uint64_t address; /* where it begins, as addresses of the image */
    uint64_t size;    /* bytes; 0: not stated */
    enum elf_symbol_source source;
};

struct elf_symbols;

/*
 * Reads the functions of `image`, with `debug` for its separate debug file; either may be NULL, and
 * both stay open as long as the result is used. `limits` (may be NULL) is for what .gnu_debugdata
 * inflates to. Tables that are damaged are passed over, see elf_symbols_problem. Errors: ERR_MEMORY
 * only.
 */
int elf_symbols_read(struct elf_symbols **out, struct elf_file *image, struct elf_file *debug,
                     const struct elf_limits *limits, struct err *e);
void elf_symbols_free(struct elf_symbols *s);

/* What was wrong with a table, for the user; NULL when nothing was. */
const char *elf_symbols_problem(const struct elf_symbols *s);

/* Symbols that have an address of their own, names only. */
size_t elf_symbols_count(const struct elf_symbols *s);

/*
 * The number of the symbol around `address`; the same files give the same numbers. False when there
 * is none with a name. *near, 0 at the beginning, is where the last one was found: addresses that
 * rise are found close behind it.
 */
bool elf_symbols_number(const struct elf_symbols *s, uint64_t address, size_t *near,
                        uint32_t *number);
/* Where the symbol of a number begins. */
uint64_t elf_symbols_start(const struct elf_symbols *s, uint32_t number);
void elf_symbols_get(const struct elf_symbols *s, uint32_t number, struct elf_symbol *out);

/* The function around `address`. False when it is in none that is known. */
bool elf_symbols_find(const struct elf_symbols *s, uint64_t address, struct elf_symbol *out);

/*
 * The same; of a symbol that does not say how long it is, `size` is what it reaches to: the next
 * symbol, unwind entry or end of its section.
 */
bool elf_symbols_bounds(const struct elf_symbols *s, uint64_t address, struct elf_symbol *out);

/*
 * The symbol that begins last at or before `address` in the same section, whether or not it reaches
 * so far: a place to count from where there is nothing better. False when there is none.
 */
bool elf_symbols_nearest(const struct elf_symbols *s, uint64_t address, struct elf_symbol *out);

/*
 * What is added to an address of the debug file to get the image's: 0, but for an image that was
 * moved after its debug file was split off (prelink). Modulo 2^64.
 */
uint64_t elf_debug_shift(const struct elf_file *image, const struct elf_file *debug);

#endif
