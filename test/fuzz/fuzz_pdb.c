/*
 * Any bytes as a PE image or a PDB file: the index of its modules, its public symbols, and
 * addresses looked up. The id of a PDB file is not compared, so every input is walked.
 */

#include <stdint.h>
#include <stdlib.h>

#include "symbols/elf/elf_file.h"
#include "symbols/elf/elf_symbols.h"
#include "symbols/index/index.h"
#include "symbols/pdb/inline_site.h"
#include "symbols/pdb/msvc_names.h"

#define FRAMES 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

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
    check(!symbol_index_lookup(x, address, frames, FRAMES, &n) || symbol_index_covers(x, address));
    for (size_t i = 0; i < n && i < FRAMES; i++) {
        sum += touch(frames[i].function) + touch(frames[i].file);
        check(frames[i].start <= UINT32_MAX + (uint64_t)UINT32_MAX);
    }
    check(sum != UINT64_MAX);
}

static void walk(struct elf_file *f, size_t size)
{
    struct symbol_index *x;
    struct index_facts facts;
    struct err e = {0};
    const struct index_options o = {.threads = 1};
    if (symbol_index_build(&x, f, NULL, &o, &e) != 0) {
        check(e.code != ERR_NONE);
        return;
    }
    symbol_index_facts(x, &facts);
    check(facts.bytes <= ((uint64_t)64 << 20) + 64 * size);
    for (size_t i = 0; i < elf_file_section_count(f) && i < 8; i++) {
        const struct elf_section *s = elf_file_section_at(f, i);
        for (uint64_t a = 0; a < 512 && a < s->size; a++)
            ask(x, s->address + a * (s->size / 512 + 1));
    }
    ask(x, UINT64_MAX);
    symbol_index_free(x);
}

static void read_symbols(struct elf_file *f)
{
    struct elf_symbols *s;
    struct elf_symbol symbol;
    struct buf text = {0}, name = {0};
    struct err e = {0};
    if (elf_symbols_read(&s, f, NULL, NULL, &e) != 0)
        abort(); /* damage costs names, no more */
    for (size_t i = 0; i < elf_symbols_count(s) && i < 4096; i++) {
        elf_symbols_get(s, (uint32_t)i, &symbol);
        check(touch(symbol.name) > 0);
        buf_clear(&text);
        buf_clear(&name);
        buf_put(&text, symbol.name.p, symbol.name.len);
        check(msvc_name(buf_str(&text), &name) == (name.len > 0));
        (void)elf_symbols_bounds(s, symbol.address, &symbol);
    }
    elf_symbols_free(s);
    buf_release(&text);
    buf_release(&name);
}

static void run_annotations(const uint8_t *data, size_t size)
{
    struct inline_site site = {.c = cursor_over(data, size), .file = UINT32_MAX};
    struct inline_step step;
    size_t steps = 0;
    while (inline_site_next(&site, &step)) {
        check(step.low <= step.offset);
        check(++steps <= size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct elf_file *f;
    struct elf_key key;
    struct err e = {0};
    run_annotations(data, size < 4096 ? size : 4096);
    if (elf_file_open_bytes(&f, (struct view){(const char *)data, size}, NULL, &e) != 0) {
        check(e.code == ERR_INPUT && !f);
        return 0;
    }
    elf_file_key(f, &key);
    check(elf_file_build_id(f)->len <= BUILD_ID_MAX);
    check(touch(elf_file_pdb_name(f)) != UINT64_MAX);
    if (elf_file_pdb(f))
        walk(f, size);
    read_symbols(f);
    elf_file_close(f);
    return 0;
}
