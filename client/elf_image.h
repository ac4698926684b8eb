#pragma once

/* Reads a loaded module: segments, relocations, and the functions that it defines. */

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct elf_image {
    uint64_t base;
    const struct dl_phdr_info *info;
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *hash;     /* of DT_GNU_HASH; NULL: none */
    const uint16_t *versions; /* of DT_VERSYM; NULL: none */
    const ElfW(Rela) * tables[2];
    size_t sizes[2]; /* relocations */
    uint64_t relro_low, relro_high;
};

/* False: the module has no symbols, or relocations of a kind other than RELA. */
bool elf_image_read(struct elf_image *m, const struct dl_phdr_info *info);

/* Whether a loaded segment with all of these permissions (PF_X, …) contains the address. */
bool elf_image_covers(const struct elf_image *m, uint64_t address, uint32_t flags);

/* The address of a function that the module defines; 0: it defines none of this name. */
uint64_t elf_image_function(const struct elf_image *m, const char *name);

/* Its bytes, as its symbol has them: without parts that the compiler put elsewhere. */
uint64_t elf_image_function_size(const struct elf_image *m, const char *name);

/* Like elf_image_function, for data. */
uint64_t elf_image_object(const struct elf_image *m, const char *name);

/*
 * The function at `address`, which dlsym returned for `name`. In an executable at a fixed address
 * whose code takes the function's address, dlsym returns the executable's PLT entry: then it is the
 * first definition in the other modules, in load order. 0: there is none.
 */
uint64_t elf_image_definition(uint64_t address, const char *name);
