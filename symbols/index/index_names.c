/*
 * The names of an index. Each text has one number across all units and symbol tables, so clients
 * recognise texts by number. The cache file keeps the names by number: a name used before is
 * neither demangled nor read again.
 */

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "symbols/elf/demangle.h"
#include "symbols/index/index_parts.h"

void index_names_release(struct symbol_index *x)
{
    for (size_t i = 0; i < x->names.len; i++) {
        if (x->names.at[i].owned)
            free((void *)x->names.at[i].function.p);
    }
    vec_release(&x->names);
    map_release(&x->name_by_hash);
    buf_release(&x->room);
    if (x->own_symbols)
        free(x->symbols);
}

/* ---- by number */

static bool get_cached(const struct symbol_index *x, const struct cached_name *c,
                       struct index_name *out)
{
    bool plain = c->function_len == CACHED_PLAIN;
    uint64_t function = plain ? 0 : c->function_len;
    if (c->at > x->cached_texts.len ||
        (uint64_t)c->linkage_len + 1 + function > x->cached_texts.len - c->at)
        return false;
    const char *p = x->cached_texts.p + c->at;
    *out = (struct index_name){.linkage = {p, c->linkage_len}, .plain = plain};
    out->function = out->linkage;
    if (function > 0)
        out->function = (struct view){p + c->linkage_len + 1, (size_t)function};
    return true;
}

bool index_name_get(const struct symbol_index *x, uint32_t number, struct index_name *out)
{
    if (number == 0 || number > index_name_count(x))
        return false;
    if (number <= x->n_cached)
        return get_cached(x, &x->cached[number - 1], out);
    *out = x->names.at[number - 1 - x->n_cached];
    return true;
}

/* ---- by text */

static uint64_t hash_of(struct view linkage, bool plain)
{
    return XXH3_64bits_withSeed(linkage.p, linkage.len, plain);
}

/* Of several names with one hash only the first is found; the others are added again each time. */
static bool note_hash(struct symbol_index *x, uint64_t hash, uint32_t number)
{
    bool fresh;
    uint64_t *slot = map_add(&x->name_by_hash, hash, &fresh);
    if (slot && fresh)
        *slot = number;
    return slot != NULL;
}

static bool hash_cached(struct symbol_index *x)
{
    struct index_name name;
    for (size_t i = 0; i < x->n_cached && !x->hashed; i++) {
        if (get_cached(x, &x->cached[i], &name) &&
            !note_hash(x, hash_of(name.linkage, name.plain), (uint32_t)(i + 1)))
            return false;
    }
    return x->hashed = true;
}

static uint32_t find_name(const struct symbol_index *x, uint64_t hash, struct view linkage,
                          bool plain)
{
    struct index_name name;
    const uint64_t *slot = map_find(&x->name_by_hash, hash);
    if (!slot || !index_name_get(x, (uint32_t)*slot, &name))
        return 0;
    return name.plain == plain && view_equal(name.linkage, linkage) ? (uint32_t)*slot : 0;
}

/* Makes the demangled name, in separate memory if it differs. False if memory is short. */
static bool make_function(struct symbol_index *x, struct index_name *name)
{
    struct buf mangled = {0};
    if (name->linkage.len == 0 || name->linkage.len > MANGLED_MAX ||
        (name->linkage.p[0] != '_' && !memchr(name->linkage.p, '?', name->linkage.len)))
        return true;
    /* Symbol names are not always NUL-terminated. */
    buf_put(&mangled, name->linkage.p, name->linkage.len);
    buf_clear(&x->room);
    x->room.failed = false;
    const char *text = buf_str(&mangled);
    bool fits = !mangled.failed;
    if (fits && demangle(text, &x->room) && !x->room.failed && x->room.len > 0) {
        char *p = malloc(x->room.len + 1);
        fits = p != NULL;
        if (p) {
            memcpy(p, x->room.data, x->room.len);
            p[x->room.len] = 0;
            name->function = (struct view){p, x->room.len};
            name->owned = true;
            x->bytes += x->room.len + 1;
        }
    }
    buf_release(&mangled);
    return fits;
}

static uint32_t intern(struct symbol_index *x, struct view linkage, bool plain)
{
    uint64_t hash = hash_of(linkage, plain);
    if (!hash_cached(x) || index_name_count(x) >= UINT32_MAX - 1)
        return 0;
    uint32_t number = find_name(x, hash, linkage, plain);
    if (number)
        return number;
    struct index_name name = {.linkage = linkage, .function = linkage, .plain = plain};
    if (!vec_reserve(&x->names, x->names.len + 1) || (!plain && !make_function(x, &name)))
        return 0;
    x->names.at[x->names.len++] = name;
    number = (uint32_t)index_name_count(x);
    return note_hash(x, hash, number) ? number : 0;
}

uint32_t index_name_of_text(struct symbol_index *x, const struct block *b, uint32_t text,
                            bool plain)
{
    struct index_name unused;
    if (text == 0 || text > b->header.n_texts)
        return 0;
    uint32_t *number = &b->names[text - 1];
    if (!index_name_get(x, *number, &unused)) {
        const char *p = block_text(b, text);
        *number = *p ? intern(x, view_of(p), plain) : 0;
    }
    return *number;
}

/* ---- symbols */

bool symbol_index_expect_symbols(struct symbol_index *x, size_t n)
{
    if (x->n_symbols == n)
        return true;
    uint32_t *symbols = calloc(n + 1, sizeof *symbols);
    if (!symbols)
        return false;
    if (x->own_symbols)
        free(x->symbols);
    x->symbols = symbols;
    x->n_symbols = n;
    x->own_symbols = true;
    return true;
}

static bool give(const struct symbol_index *x, uint32_t number, struct symbol_index_name *out)
{
    struct index_name name;
    if (!index_name_get(x, number, &name))
        return false;
    *out = (struct symbol_index_name){name.linkage, name.function, number};
    return true;
}

bool symbol_index_symbol(const struct symbol_index *x, uint32_t symbol,
                         struct symbol_index_name *out)
{
    return symbol < x->n_symbols && give(x, x->symbols[symbol], out);
}

bool symbol_index_name_symbol(struct symbol_index *x, uint32_t symbol, struct view linkage,
                              struct symbol_index_name *out)
{
    if (symbol >= x->n_symbols || linkage.len == 0)
        return false;
    x->symbols[symbol] = intern(x, linkage, false);
    return give(x, x->symbols[symbol], out);
}
