#include "symbols/place/bias.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/vec.h"
#include "symbols/elf/demangle.h"

#define PAGE 4096u

/* Limit of symbols tried for one name (local symbols of many files). */
#define SAME_NAME_MAX 64u

/* The bias that one hint and one symbol of that name imply. */
struct vote {
    uint64_t bias;
    uint32_t hint;
};

struct election {
    const struct helper_hint *hints;
    size_t n;
    struct map by_name;    /* hash of a name → 1 + its first hint */
    VEC(uint32_t) next;    /* by hint: the next one with the same hash, + 1 */
    VEC(uint32_t) symbols; /* by hint: symbols of that name so far */
    VEC(struct vote) votes;
    struct buf demangled;
};

static uint64_t hash_name(struct view name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ (uint8_t)name.p[i]) * 0x100000001b3u;
    return hash;
}

static int add_hints(struct election *v, struct err *e)
{
    for (size_t i = 0; i < v->n; i++) {
        uint64_t *first = map_add(&v->by_name, hash_name(v->hints[i].name), NULL);
        if (!first || !vec_push(&v->next, (uint32_t)*first) || !vec_push(&v->symbols, 0u))
            return err_no_memory(e, "names of symbols");
        *first = i + 1;
    }
    return 0;
}

static int vote(struct election *v, uint32_t hint, uint64_t value, struct err *e)
{
    uint64_t bias = v->hints[hint].address - value;
    if (v->symbols.at[hint] >= SAME_NAME_MAX)
        return 0;
    v->symbols.at[hint]++;
    if (value > v->hints[hint].address || bias % PAGE != 0)
        return 0;
    return vec_push(&v->votes, (struct vote){bias, hint}) ? 0
                                                          : err_no_memory(e, "names of symbols");
}

static int vote_by_name(struct election *v, struct view name, uint64_t value, struct err *e)
{
    const uint64_t *first = map_find(&v->by_name, hash_name(name));
    for (size_t i = first ? *first : 0; i > 0 && i <= v->next.len; i = v->next.at[i - 1]) {
        if (view_equal(v->hints[i - 1].name, name) && vote(v, (uint32_t)(i - 1), value, e) != 0)
            return -1;
    }
    return 0;
}

static int count_symbol(struct election *v, struct view name, uint64_t value, struct err *e)
{
    if (vote_by_name(v, name, value, e) != 0)
        return -1;
    buf_clear(&v->demangled);
    if (!demangle(name.p, &v->demangled))
        return v->demangled.failed ? err_no_memory(e, "names of symbols") : 0;
    struct view text = {(const char *)v->demangled.data, v->demangled.len};
    return vote_by_name(v, text, value, e);
}

/* The NUL-terminated text at an offset of a string table; empty if out of range. */
static struct view text_at(struct view strings, uint32_t offset)
{
    const char *end =
        offset < strings.len ? memchr(strings.p + offset, 0, strings.len - offset) : NULL;
    if (!end)
        return (struct view){"", 0};
    return (struct view){strings.p + offset, (size_t)(end - strings.p) - offset};
}

static int count_table(struct election *v, struct elf_file *f, const struct elf_section *table,
                       size_t number, struct err *e)
{
    struct view bytes, strings;
    bool wide = elf_file_is_64(f);
    size_t size = wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
    int status = 0;
    if (table->link >= elf_file_section_count(f) ||
        elf_file_section_bytes(f, number, &bytes, NULL) != 0 ||
        elf_file_section_bytes(f, table->link, &strings, NULL) != 0 || !bytes.p || !strings.p)
        return 0;
    for (size_t at = 0; at + size <= bytes.len && status == 0; at += size) {
        Elf64_Sym s = {0};
        if (wide) {
            memcpy(&s, bytes.p + at, sizeof s);
        } else {
            Elf32_Sym narrow;
            memcpy(&narrow, bytes.p + at, sizeof narrow);
            s = (Elf64_Sym){.st_name = narrow.st_name,
                            .st_info = narrow.st_info,
                            .st_shndx = narrow.st_shndx,
                            .st_value = narrow.st_value};
        }
        unsigned type = ELF64_ST_TYPE(s.st_info);
        if (s.st_shndx == SHN_UNDEF || s.st_shndx >= SHN_LORESERVE || s.st_value == 0 ||
            (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
            continue;
        struct view name = text_at(strings, s.st_name);
        if (name.len > 0)
            status = count_symbol(v, name, s.st_value, e);
    }
    return status;
}

static int count_file(struct election *v, struct elf_file *f, struct err *e)
{
    int status = 0;
    for (size_t i = 0; f && i < elf_file_section_count(f) && status == 0; i++) {
        const struct elf_section *s = elf_file_section_at(f, i);
        if (s->type == SHT_DYNSYM || s->type == SHT_SYMTAB)
            status = count_table(v, f, s, i, e);
    }
    return status;
}

static int compare_votes(const void *a, const void *b)
{
    const struct vote *x = a, *y = b;
    if (x->bias != y->bias)
        return x->bias < y->bias ? -1 : 1;
    return (x->hint > y->hint) - (x->hint < y->hint);
}

/* A hint has one vote for each bias, however many symbols have its name. */
static void elect(struct election *v, struct helper_bias *out)
{
    uint32_t agree = 0;
    for (size_t i = 0; i < v->n; i++)
        out->hints += v->symbols.at[i] > 0;
    if (v->votes.len > 1)
        qsort(v->votes.at, v->votes.len, sizeof *v->votes.at, compare_votes);
    for (size_t i = 0; i < v->votes.len; i++) {
        const struct vote *at = &v->votes.at[i];
        if (i == 0 || at->bias != at[-1].bias)
            agree = 1;
        else
            agree += at->hint != at[-1].hint;
        if (agree > out->agree) {
            out->agree = agree;
            out->bias = at->bias;
        }
    }
    out->found = out->agree * 2 > out->hints;
    if (!out->found)
        out->bias = out->agree = 0;
}

int bias_infer(struct elf_file *image, struct elf_file *debug, const struct helper_hint *hints,
               size_t n, struct helper_bias *out, struct err *e)
{
    struct election v = {.hints = hints, .n = n};
    *out = (struct helper_bias){0};
    int status = add_hints(&v, e);
    if (status == 0)
        status = count_file(&v, image, e);
    /* Without a debug file an image may have only .dynsym; with both, a name may count twice. */
    if (status == 0 && debug != image)
        status = count_file(&v, debug, e);
    if (status == 0)
        elect(&v, out);
    map_release(&v.by_name);
    vec_release(&v.next);
    vec_release(&v.symbols);
    vec_release(&v.votes);
    buf_release(&v.demangled);
    return status;
}
