#include "client/elf_image.h"

#include <string.h>

#include "client/kernel_map.h"

#define VERSION_HIDDEN 0x8000u

/* Addresses in the dynamic section are relocated, except in modules that the kernel provides. */
static uint64_t at_base(const struct elf_image *m, uint64_t value)
{
    return value < m->base ? m->base + value : value;
}

bool elf_image_covers(const struct elf_image *m, uint64_t address, uint32_t flags)
{
    for (size_t i = 0; i < m->info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &m->info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && (p->p_flags & flags) == flags &&
            address - m->base - p->p_vaddr < p->p_memsz)
            return true;
    }
    return false;
}

static bool read_dynamic(struct elf_image *m, const ElfW(Dyn) * d)
{
    bool rela = true;
    for (; d->d_tag != DT_NULL; d++) {
        uint64_t value = d->d_un.d_val;
        switch (d->d_tag) {
        case DT_SYMTAB:
            m->symbols = (const ElfW(Sym) *)(uintptr_t)at_base(m, value);
            break;
        case DT_STRTAB:
            m->names = (const char *)(uintptr_t)at_base(m, value);
            break;
        case DT_GNU_HASH:
            m->hash = (const uint32_t *)(uintptr_t)at_base(m, value);
            break;
        case DT_VERSYM:
            m->versions = (const uint16_t *)(uintptr_t)at_base(m, value);
            break;
        case DT_JMPREL:
            m->tables[0] = (const ElfW(Rela) *)(uintptr_t)at_base(m, value);
            break;
        case DT_PLTRELSZ:
            m->sizes[0] = value / sizeof(ElfW(Rela));
            break;
        case DT_PLTREL:
            rela = value == DT_RELA;
            break;
        case DT_RELA:
            m->tables[1] = (const ElfW(Rela) *)(uintptr_t)at_base(m, value);
            break;
        case DT_RELASZ:
            m->sizes[1] = value / sizeof(ElfW(Rela));
            break;
        default:
            break;
        }
    }
    return rela && m->symbols && m->names;
}

bool elf_image_read(struct elf_image *m, const struct dl_phdr_info *info)
{
    *m = (struct elf_image){.base = info->dlpi_addr, .info = info};
    const ElfW(Dyn) *dynamic = NULL;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(uintptr_t)(m->base + p->p_vaddr);
        if (p->p_type == PT_GNU_RELRO) {
            m->relro_low = (m->base + p->p_vaddr) & ~(system_page() - 1);
            m->relro_high = (m->base + p->p_vaddr + p->p_memsz) & ~(system_page() - 1);
        }
    }
    return dynamic && read_dynamic(m, dynamic);
}

static uint32_t hash_of(const char *name)
{
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (uint8_t)*name;
    return h;
}

/* A non-default version, for old programs only (foo@V, not foo@@V). */
static bool is_hidden(const struct elf_image *m, uint32_t symbol)
{
    return m->versions && m->versions[symbol] & VERSION_HIDDEN;
}

static const ElfW(Sym) * find_symbol(const struct elf_image *m, const char *name, unsigned type)
{
    if (!m->hash || !m->hash[0] || !m->hash[2])
        return NULL;
    uint32_t hash = hash_of(name), buckets = m->hash[0], first = m->hash[1], words = m->hash[2];
    const uint64_t *bloom = (const uint64_t *)(const void *)(m->hash + 4);
    const uint32_t *bucket = (const uint32_t *)(const void *)(bloom + words);
    const uint32_t *chain = bucket + buckets;
    uint64_t mask = UINT64_C(1) << hash % 64 | UINT64_C(1) << (hash >> m->hash[3]) % 64;
    uint32_t i = bucket[hash % buckets];
    if ((bloom[hash / 64 % words] & mask) != mask || i < first)
        return NULL;
    for (;; i++) {
        const ElfW(Sym) *symbol = &m->symbols[i];
        if ((chain[i - first] | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
            !is_hidden(m, i) && ELF64_ST_TYPE(symbol->st_info) == type &&
            strcmp(m->names + symbol->st_name, name) == 0)
            return symbol;
        if (chain[i - first] & 1)
            return NULL;
    }
}

uint64_t elf_image_function(const struct elf_image *m, const char *name)
{
    const ElfW(Sym) *symbol = find_symbol(m, name, STT_FUNC);
    return symbol ? m->base + symbol->st_value : 0;
}

uint64_t elf_image_object(const struct elf_image *m, const char *name)
{
    const ElfW(Sym) *symbol = find_symbol(m, name, STT_OBJECT);
    return symbol ? m->base + symbol->st_value : 0;
}

uint64_t elf_image_function_size(const struct elf_image *m, const char *name)
{
    const ElfW(Sym) *symbol = find_symbol(m, name, STT_FUNC);
    return symbol ? symbol->st_size : 0;
}

struct definition {
    const char *name;
    uint64_t address;
    uint32_t module; /* index of the next one; the executable is the first */
};

static int find_definition(struct dl_phdr_info *info, size_t size, void *definition)
{
    struct definition *d = definition;
    struct elf_image m;
    (void)size;
    bool read = elf_image_read(&m, info);
    uint64_t defined = read ? elf_image_function(&m, d->name) : 0;
    if (d->module++ == 0) {
        if (defined || !elf_image_covers(&m, d->address, PF_X))
            return 1;
        d->address = 0;
        return 0;
    }
    d->address = defined;
    return defined != 0;
}

uint64_t elf_image_definition(uint64_t address, const char *name)
{
    struct definition d = {.name = name, .address = address};
    (void)dl_iterate_phdr(find_definition, &d);
    return d.address;
}
