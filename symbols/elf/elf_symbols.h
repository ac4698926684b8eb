#pragma once

/*
 * The functions of an image by address, from its symbol tables: .symtab of the debug file or of the
 * image. Without .symtab: .dynsym, the .symtab in .gnu_debugdata (an ELF file packed with xz), and
 * for the rest the function bounds in .eh_frame.
 *
 * Names are the mangled ones of the table. The choice at an address follows llvm-symbolizer: the
 * symbol that begins last at or before it; of several at one address the longest, of those the last
 * in the table. A symbol without a size extends to the next one. After the end of a symbol
 * llvm-symbolizer finds nothing; this code returns the longer symbol still around the address.
 *
 * Immutable once read: any number of threads may use it.
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
    ELF_SYMBOL_PUBLIC,   /* a public symbol of a PDB file */
    ELF_SYMBOL_EH_FRAME, /* a function without a name */
};

struct elf_symbol {
    struct view name; /* empty for ELF_SYMBOL_EH_FRAME; longer names are cut at 1 MiB */
    uint64_t address; /* its start in the image */
    uint64_t size;    /* bytes; 0: not stated */
    enum elf_symbol_source source;
};

struct elf_symbols;

/*
 * Reads the functions of `image` and of its separate debug file `debug`. Either may be NULL; both
 * must stay open while the result is used. `limits` (may be NULL) bounds the inflated size of
 * .gnu_debugdata. Damaged tables are skipped, see elf_symbols_problem. Fails with ERR_MEMORY only.
 */
int elf_symbols_read(struct elf_symbols **out, struct elf_file *image, struct elf_file *debug,
                     const struct elf_limits *limits, struct err *e);
void elf_symbols_free(struct elf_symbols *s);

/* What was wrong with a table, for the user; NULL if nothing was. */
const char *elf_symbols_problem(const struct elf_symbols *s);

/* The number of symbols, one per address. Functions known only from .eh_frame do not count. */
size_t elf_symbols_count(const struct elf_symbols *s);

/*
 * The number of the symbol around `address`; the same files give the same numbers. False if no
 * named symbol is there. *near, initially 0, is the position of the last result; it makes look-ups
 * of rising addresses fast.
 */
bool elf_symbols_number(const struct elf_symbols *s, uint64_t address, size_t *near,
                        uint32_t *number);
/* The start address and the table of a symbol. */
uint64_t elf_symbols_start(const struct elf_symbols *s, uint32_t number);
enum elf_symbol_source elf_symbols_source(const struct elf_symbols *s, uint32_t number);
void elf_symbols_get(const struct elf_symbols *s, uint32_t number, struct elf_symbol *out);

/*
 * Another symbol of the same table for the same code, by its place among those, from 0: an alias,
 * or a function that the compiler or linker merged with this one. False if there are no more.
 */
bool elf_symbols_twin(const struct elf_symbols *s, uint32_t number, size_t i,
                      struct elf_symbol *out);

/* The function around `address`. False if there is none. */
bool elf_symbols_find(const struct elf_symbols *s, uint64_t address, struct elf_symbol *out);

/*
 * As elf_symbols_find. If the symbol states no size, `size` extends to the next symbol, unwind
 * entry or end of its section.
 */
bool elf_symbols_bounds(const struct elf_symbols *s, uint64_t address, struct elf_symbol *out);

/*
 * The symbol that begins last at or before `address` in the same section, even if it ends before
 * `address`: a fallback to count from. False if there is none.
 */
bool elf_symbols_nearest(const struct elf_symbols *s, uint64_t address, struct elf_symbol *out);

/*
 * The difference, modulo 2^64, to add to an address of the debug file to get the image's. 0 unless
 * prelink moved the image after its debug file was split off.
 */
uint64_t elf_debug_shift(const struct elf_file *image, const struct elf_file *debug);
