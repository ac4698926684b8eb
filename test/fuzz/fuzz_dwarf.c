/*
 * Any bytes as an ELF file with debug information: its units, entries and line tables walked, and
 * addresses looked up. The index keeps to its bounds, and each frame can be read.
 */

#include <stdint.h>
#include <stdlib.h>

#include "symbols/elf/elf_file.h"
#include "symbols/index/index.h"

#define FRAMES 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t touch(struct view v)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < v.len; i++)
        sum += (uint8_t)v.p[i];
    return sum;
}

static void ask(struct symbol_index *x, uint64_t address)
{
    struct symbol_frame frames[FRAMES];
    uint64_t sum = 0;
    size_t n;
    if (symbol_index_lookup(x, address, frames, FRAMES, &n) && !symbol_index_covers(x, address))
        abort();
    for (size_t i = 0; i < n && i < FRAMES; i++)
        sum += touch(frames[i].function) + touch(frames[i].linkage) + touch(frames[i].file);
    if (n > 0 && n <= FRAMES && frames[n - 1].inlined && sum == UINT64_MAX)
        abort();
}

static void walk(struct elf_file *f)
{
    struct symbol_index *x;
    struct index_facts facts;
    struct err e = {0};
    const struct index_options o = {.threads = 1};
    if (symbol_index_build(&x, f, NULL, &o, &e) != 0) {
        if (e.code == ERR_NONE)
            abort();
        return;
    }
    symbol_index_facts(x, &facts);
    if (facts.units_built > facts.units || facts.bytes > ((uint64_t)1 << 30))
        abort();
    for (size_t i = 0; i < elf_file_section_count(f) && i < 32; i++) {
        const struct elf_section *s = elf_file_section_at(f, i);
        for (uint64_t at = 0; at < 8; at++)
            ask(x, s->address + s->size / 8 * at);
    }
    symbol_index_free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct elf_limits limits = {.inflated_bytes = (uint64_t)16 << 20};
    struct elf_file *f;
    struct err e = {0};
    if (elf_file_open_bytes(&f, (struct view){(const char *)data, size}, &limits, &e) != 0)
        return 0;
    walk(f);
    elf_file_close(f);
    return 0;
}
