#include "symbols/symbolizer.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "symbols/elf/debug_files.h"
#include "symbols/elf/demangle.h"
#include "symbols/elf/elf_file.h"
#include "symbols/elf/elf_symbols.h"
#include "symbols/elf/merged_name.h"
#include "symbols/index/index.h"
#include "symbols/index/index_ahead.h"
#include "symbols/place/bias.h"

#define PAGE 4096u

/* Size of the cache key, which identifies an image together with its debug file. */
#define KEY_SIZE 48u

#define TEXTS_MAX (2 * HELPER_RULES_MAX + 2)

/* A recently looked-up name from a symbol table, for images without an index. */
struct symbol_name {
    const char *p; /* address of the name in the table; NULL: unused */
    struct view linkage;
    struct buf function;
};

#define SYMBOL_NAMES 256u

/* A place announced by symbolizer_ahead. */
struct awaited {
    struct place place;
    uint64_t address; /* in the image */
    bool inside;      /* the place is in a segment */
    struct symbol_index_place at;
};

/* Bytes from a symbol to a function near it. */
#define NEIGHBOUR_MOST 65536u

struct symbolizer {
    symbolizer_wish *wish;
    void *ctx;
    struct helper_open open; /* its texts are in `texts` */
    char *texts[TEXTS_MAX];  /* copies of the texts in `open` */
    size_t text_count;
    const char *dirs[HELPER_RULES_MAX];
    struct substitutions rules;
    struct debug_search search;
    struct debug_file image;
    struct debug_file separate;  /* the separate debug file; elf NULL: none */
    struct debug_file alternate; /* the alternate file of dwz */
    struct debug_file package;   /* the split DWARF package */
    struct elf_file *debug;      /* the file with debug information: image or separate; or NULL */
    struct elf_symbols *symbols;
    struct symbol_index *index; /* NULL until first needed, or if it cannot be built */
    bool index_failed;
    bool from_cache;
    bool changed;   /* the index has entries that the cache lacks */
    uint64_t shift; /* added to debug-file addresses to get image addresses */
    uint64_t base;  /* the image's lowest segment address, rounded down to a page */
    size_t near;    /* position of the last symbol found; where the next search starts */
    uint8_t key[KEY_SIZE];
    size_t key_len;
    /* Storage of the last answer. */
    struct symbol_frame frames[PLACE_FRAMES_MAX];
    struct symbol_name names[SYMBOL_NAMES]; /* hash table by address of the name */
    struct buf mangled, name;
    struct buf merged, other; /* names of merged functions */
    uint32_t merged_number;   /* the symbol that `merged` is of, plus 1; 0: none */
    struct awaited awaited[HELPER_AHEAD];
    size_t told, taken; /* counts of announced places and of those looked up since */
};

/* ---- how files are found */

static const char *keep_text(struct symbolizer *s, struct view text)
{
    if (s->text_count == TEXTS_MAX)
        return NULL;
    return s->texts[s->text_count++] = strndup(text.p ? text.p : "", text.len);
}

static int open_wished(void *ctx, const char *path)
{
    const struct symbolizer *s = ctx;
    const struct file_wish wish = {.need = NEED_PATH, .name = view_of(path)};
    int fd = s->wish(s->ctx, &wish);
    errno = fd < 0 ? ENOENT : 0;
    return fd;
}

static int fetch_wished(void *ctx, const struct build_id *id, bool executable, int *fd,
                        struct err *e)
{
    const struct symbolizer *s = ctx;
    const struct file_wish wish = {
        .need = NEED_FETCH, .flag = executable, .id = {(const char *)id->bytes, id->len}};
    (void)e;
    *fd = s->wish(s->ctx, &wish);
    return 0;
}

static int take_rules(struct symbolizer *s, const struct helper_open *open, struct err *e)
{
    for (size_t i = 0; i < open->dir_count; i++) {
        if (!(s->dirs[i] = keep_text(s, open->dirs[i])))
            return err_no_memory(e, "debug directories");
    }
    for (size_t i = 0; i < open->rule_count; i++) {
        const char *rule = keep_text(s, open->rules[i]);
        if (!rule)
            return err_no_memory(e, "substitutions");
        if (substitutions_add(&s->rules, rule, e) != 0)
            return -1;
    }
    const char *sysroot = open->sysroot.len ? keep_text(s, open->sysroot) : NULL;
    if (open->sysroot.len && !sysroot)
        return err_no_memory(e, "the system root");
    s->search = (struct debug_search){.dirs = open->dir_count ? s->dirs : NULL,
                                      .dir_count = open->dir_count,
                                      .sysroot = sysroot,
                                      .substitutions = &s->rules,
                                      .trust_paths = open->trust_paths};
    if (s->wish) {
        s->search.open = open_wished;
        s->search.open_ctx = s;
        s->search.fetch = fetch_wished;
        s->search.fetch_ctx = s;
    }
    return 0;
}

static struct elf_file *open_split(void *user, const char *directory, const char *name, uint64_t id)
{
    struct symbolizer *s = user;
    struct debug_file dwo = {0};
    (void)id; /* the index checks it */
    if (!name || !*name ||
        debug_dwo_find(&s->search, &s->image, s->separate.elf ? &s->separate : NULL,
                       view_of(directory ? directory : ""), view_of(name), NULL, NULL, &dwo,
                       NULL) != 0)
        return NULL;
    struct elf_file *elf = dwo.elf;
    dwo.elf = NULL;
    debug_file_release(&dwo);
    return elf;
}

/* Finds the files that belong to the image. */
static int find_files(struct symbolizer *s, struct err *e)
{
    if (debug_file_find(&s->search, &s->image, NULL, &s->separate, e) != 0)
        return -1;
    struct debug_file *debug = &s->image;
    if (s->separate.elf && elf_file_has_debug_info(s->separate.elf))
        debug = &s->separate;
    else if (!elf_file_has_debug_info(s->image.elf))
        return 0;
    s->debug = debug->elf;
    if (debug_alt_find(&s->search, debug, &s->alternate, e) != 0)
        return -1;
    /* Split units refer to .debug_addr, which stays in the main file. */
    if (!elf_file_has_section(s->debug, ".debug_addr"))
        return 0;
    return debug_dwp_find(&s->search, &s->image, debug == &s->image ? NULL : debug, &s->package, e);
}

/* ---- the cache */

static void make_key(struct symbolizer *s)
{
    struct elf_key image, debug;
    elf_file_key(s->image.elf, &image);
    elf_file_key(s->debug, &debug);
    store_u64(s->key, image.size);
    store_u64(s->key + 8, image.hash[0]);
    store_u64(s->key + 16, image.hash[1]);
    store_u64(s->key + 24, debug.size);
    store_u64(s->key + 32, debug.hash[0]);
    store_u64(s->key + 40, debug.hash[1]);
    s->key_len = KEY_SIZE;
}

static struct view key_view(const struct symbolizer *s)
{
    return (struct view){(const char *)s->key, s->key_len};
}

static void load_cache(struct symbolizer *s)
{
    const struct file_wish wish = {.need = NEED_CACHE, .id = key_view(s)};
    int fd = s->wish ? s->wish(s->ctx, &wish) : -1;
    if (fd < 0)
        return;
    if (symbol_index_load(&s->index, fd, key_view(s), NULL) == 0)
        s->from_cache = true;
    else
        s->index = NULL;
    close(fd);
}

void symbolizer_keep(struct symbolizer *s)
{
    struct file_wish wish = {.need = NEED_STORE, .id = key_view(s)};
    if (!s->index || !s->changed || !s->wish)
        return;
    s->changed = false;
    int fd = s->wish(s->ctx, &wish);
    if (fd < 0)
        return;
    bool kept = symbol_index_save(s->index, fd, key_view(s), NULL) == 0;
    close(fd);
    wish.flag = true;
    if (kept && (fd = s->wish(s->ctx, &wish)) >= 0)
        close(fd);
}

/* ---- open and close */

int symbolizer_open(struct symbolizer **out, const struct helper_open *open, symbolizer_wish *wish,
                    void *ctx, struct err *e)
{
    struct symbolizer *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return err_no_memory(e, "an image");
    s->wish = wish;
    s->ctx = ctx;
    s->open = (struct helper_open){.threads = open->threads};
    const char *path = keep_text(s, open->path);
    if (!path) {
        err_no_memory(e, "an image");
        goto failed;
    }
    if (take_rules(s, open, e) != 0 ||
        debug_image_open(&s->search, path, &open->build_id, &s->image, e) != 0 ||
        find_files(s, e) != 0)
        goto failed;
    if (s->debug) {
        make_key(s);
        load_cache(s);
    }
    if (elf_symbols_read(&s->symbols, s->image.elf, s->separate.elf, NULL, e) != 0)
        goto failed;
    s->base = elf_file_base(s->image.elf) & ~(uint64_t)(PAGE - 1);
    if (s->separate.elf && s->debug != s->image.elf)
        s->shift = elf_debug_shift(s->image.elf, s->separate.elf);
    *out = s;
    return 0;
failed:
    symbolizer_close(s);
    return -1;
}

void symbolizer_close(struct symbolizer *s)
{
    if (!s)
        return;
    symbol_index_free(s->index);
    elf_symbols_free(s->symbols);
    debug_file_release(&s->package);
    debug_file_release(&s->alternate);
    debug_file_release(&s->separate);
    debug_file_release(&s->image);
    substitutions_release(&s->rules);
    for (size_t i = 0; i < s->text_count; i++)
        free(s->texts[i]);
    for (size_t i = 0; i < SYMBOL_NAMES; i++)
        buf_release(&s->names[i].function);
    buf_release(&s->mangled);
    buf_release(&s->merged);
    buf_release(&s->other);
    buf_release(&s->name);
    free(s);
}

void symbolizer_facts(const struct symbolizer *s, struct image_facts *facts)
{
    const char *path = s->image.path, *debug = s->separate.path;
    *facts = (struct image_facts){
        .machine = elf_file_machine(s->image.elf),
        .is_64 = elf_file_is_64(s->image.elf),
        .has_symbols = elf_symbols_count(s->symbols) > 0,
        .has_debug = s->debug != NULL,
        .from_cache = s->from_cache,
        .base = s->base,
        .path = view_of(path ? path : ""),
        .debug_path = view_of(debug ? debug : ""),
        .debug_separate = s->separate.elf != NULL,
    };
}

int symbolizer_infer(struct symbolizer *s, const struct helper_hint *hints, size_t n,
                     struct helper_bias *bias, struct err *e)
{
    /* If prelink moved the image after the debug file was split off, their addresses differ. */
    return bias_infer(s->image.elf, s->shift == 0 ? s->separate.elf : NULL, hints, n, bias, e);
}

/* ---- places */

static bool in_segment(const struct elf_file *f, uint64_t address)
{
    for (size_t i = 0; i < elf_file_segment_count(f); i++) {
        const struct elf_segment *g = elf_file_segment_at(f, i);
        if (address >= g->address && address - g->address < g->memory_size)
            return true;
    }
    return false;
}

/* Converts a place to an address of the image. False if no segment contains it. */
static bool address_of(const struct symbolizer *s, const struct place *place, uint64_t *address)
{
    *address = place->value;
    if (place->kind == PLACE_FILE)
        return elf_file_address_of_offset(s->image.elf, place->value, address);
    /* For a shared library that is not linked at 0, loaders still report the offset from 0. */
    if (place->kind == PLACE_OFFSET &&
        (elf_file_type(s->image.elf) == ET_EXEC || place->value < s->base))
        *address += s->base;
    return in_segment(s->image.elf, *address);
}

int symbolizer_prepare(struct symbolizer *s, const struct place *places, size_t n, struct err *e)
{
    s->told = s->taken = 0;
    if (!s->debug || s->index_failed || n == 0)
        return 0;
    uint64_t *addresses = malloc(n * sizeof *addresses);
    size_t count = 0;
    if (!addresses)
        return err_no_memory(e, "addresses");
    for (size_t i = 0; i < n; i++) {
        uint64_t address;
        if (address_of(s, &places[i], &address))
            addresses[count++] = address - s->shift;
    }
    const struct index_options options = {.threads = s->open.threads,
                                          .addresses = addresses,
                                          .n_addresses = count,
                                          .open_split = open_split,
                                          .user = s,
                                          .package = s->package.elf};
    struct err cause = {0};
    int status = 0;
    if (!s->index) {
        status = symbol_index_build(&s->index, s->debug, s->alternate.elf, &options, &cause);
        s->changed = status == 0;
    } else if (symbol_index_lacks(s->index, addresses, count)) {
        status = symbol_index_extend(s->index, s->debug, s->alternate.elf, &options, &cause);
        s->changed = status == 0;
    }
    free(addresses);
    if (status == 0 && symbol_index_expect_symbols(s->index, elf_symbols_count(s->symbols)))
        return 0;
    if (status == 0)
        err_no_memory(&cause, "symbols");
    /* The symbol tables may still answer, so only lack of memory is an error. */
    s->index_failed = true;
    if (cause.code != ERR_MEMORY)
        return 0;
    if (e)
        *e = cause;
    return -1;
}

/*
 * Cuts the version off "name@VERSION", as tables of shared libraries have it. Names that
 * Microsoft's compiler mangled begin with "?" and are full of "@".
 */
static struct view without_version(struct view name)
{
    if (name.len > 0 && name.p[0] == '?')
        return name;
    const char *at = memchr(name.p, '@', name.len);
    return (struct view){name.p, at && at > name.p ? (size_t)(at - name.p) : name.len};
}

/* Demangles a symbol name. Consecutive places are often in the same function. */
static bool make_name(struct symbolizer *s, struct view name, struct symbol_index_name *out)
{
    struct symbol_name *known =
        &s->names[((uintptr_t)name.p * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & (SYMBOL_NAMES - 1)];
    if (known->p != name.p || known->function.failed) {
        known->p = name.p;
        known->linkage = without_version(name);
        known->function.failed = s->mangled.failed = false;
        buf_clear(&known->function);
        buf_clear(&s->mangled);
        buf_put(&s->mangled, name.p, known->linkage.len);
        if (!demangle(buf_str(&s->mangled), &known->function))
            buf_put(&known->function, name.p, known->linkage.len);
    }
    *out = (struct symbol_index_name){
        .linkage = known->linkage,
        .function = {(const char *)known->function.data, known->function.len}};
    return !known->function.failed;
}

/* Twins beyond these have no part in the name. */
#define TWINS_MOST 1024u

/* The name of a symbol with twins. */
static bool name_merged(struct symbolizer *s, uint32_t number, struct symbol_index_name *out)
{
    struct elf_symbol symbol;
    struct symbol_index_name name;
    elf_symbols_get(s->symbols, number, &symbol);
    struct view linkage = without_version(symbol.name);
    if (s->merged_number != number + 1) {
        buf_clear(&s->merged);
        if (!make_name(s, symbol.name, &name))
            return false;
        buf_put(&s->merged, name.function.p, name.function.len);
        for (size_t i = 0; i < TWINS_MOST && elf_symbols_twin(s->symbols, number, i, &symbol);
             i++) {
            struct view before = {(const char *)s->merged.data, s->merged.len};
            if (!make_name(s, symbol.name, &name))
                return false;
            buf_clear(&s->other);
            if (!merged_name(before, name.function, &s->other))
                return false;
            struct buf swap = s->merged;
            s->merged = s->other;
            s->other = swap;
        }
        s->merged_number = s->merged.failed ? 0 : number + 1;
    }
    *out = (struct symbol_index_name){.linkage = linkage,
                                      .function = {(const char *)s->merged.data, s->merged.len}};
    return !s->merged.failed;
}

static bool name_symbol(struct symbolizer *s, uint32_t number, struct symbol_index_name *out)
{
    struct elf_symbol symbol;
    if (elf_symbols_twin(s->symbols, number, 0, &symbol))
        return name_merged(s, number, out);
    if (s->index && symbol_index_symbol(s->index, number, out))
        return true;
    elf_symbols_get(s->symbols, number, &symbol);
    if (symbol.name.len == 0)
        return false;
    if (s->index && symbol_index_name_symbol(s->index, number, without_version(symbol.name), out))
        return true;
    return make_name(s, symbol.name, out);
}

static void take_name(struct symbol_frame *f, const struct symbol_index_name *name, uint64_t start)
{
    f->function = name->function;
    f->function_number = name->number;
    f->linkage = name->linkage;
    f->start = start;
}

/* For an address outside all symbols: the nearest symbol before it. */
static bool symbol_before(struct symbolizer *s, uint64_t address, struct symbol_frame *f,
                          enum elf_symbol_source *table)
{
    struct elf_symbol symbol;
    struct symbol_index_name name;
    if (!elf_symbols_nearest(s->symbols, address, &symbol) || symbol.name.len == 0 ||
        !make_name(s, symbol.name, &name))
        return false;
    *table = symbol.source;
    take_name(f, &name, symbol.address);
    buf_clear(&s->name);
    buf_put(&s->name, f->function.p, f->function.len);
    buf_printf(&s->name, " + %" PRIu64, address - symbol.address);
    f->function = (struct view){buf_str(&s->name), s->name.len};
    return !s->name.failed;
}

/* The function around an address, or the nearest one before it unless `around_only`. */
static bool symbol_at(struct symbolizer *s, uint64_t address, bool around_only,
                      struct symbol_frame *f, enum elf_symbol_source *table)
{
    struct elf_symbol unnamed;
    struct symbol_index_name name;
    uint32_t number;
    *f = (struct symbol_frame){0};
    if (elf_symbols_number(s->symbols, address, &s->near, &number)) {
        if (!name_symbol(s, number, &name))
            return false;
        take_name(f, &name, elf_symbols_start(s->symbols, number));
        *table = elf_symbols_source(s->symbols, number);
        return true;
    }
    /* A known function without a name is not part of the function before it. */
    if (around_only || elf_symbols_find(s->symbols, address, &unnamed))
        return false;
    return symbol_before(s, address, f, table);
}

/* For an address in a function without a name: the symbol before it, unless that is far away. */
static bool neighbour_of(struct symbolizer *s, uint64_t address, struct symbol_frame *f)
{
    struct elf_symbol unnamed, symbol;
    struct symbol_index_name name;
    if (!elf_symbols_find(s->symbols, address, &unnamed) || unnamed.name.len ||
        !elf_symbols_nearest(s->symbols, unnamed.address, &symbol) || symbol.name.len == 0 ||
        unnamed.address - symbol.address > NEIGHBOUR_MOST || !make_name(s, symbol.name, &name))
        return false;
    buf_clear(&s->name);
    buf_printf(&s->name, "near %.*s+0x%" PRIx64, (int)name.function.len, name.function.p,
               unnamed.address - symbol.address);
    *f = (struct symbol_frame){.function = {buf_str(&s->name), s->name.len}};
    return !s->name.failed;
}

/* Also prefetches the place announced HELPER_AHEAD / 2 calls ago. */
void symbolizer_ahead(struct symbolizer *s, const struct place *place)
{
    struct awaited *a = &s->awaited[s->told++ % HELPER_AHEAD];
    a->place = *place;
    a->inside = address_of(s, place, &a->address);
    if (s->index && a->inside)
        symbol_index_find(s->index, a->address - s->shift, &a->at);
    else
        a->at.known = false;
    if (s->index && s->told - s->taken > HELPER_AHEAD / 2) {
        a = &s->awaited[(s->told - 1 - HELPER_AHEAD / 2) % HELPER_AHEAD];
        if (a->at.known)
            symbol_index_fetch(s->index, &a->at);
    }
}

/* Returns the next announced place if it is `place`, else NULL. */
static const struct awaited *next_awaited(struct symbolizer *s, const struct place *place)
{
    if (s->taken == s->told)
        return NULL;
    const struct awaited *a = &s->awaited[s->taken++ % HELPER_AHEAD];
    return a->place.kind == place->kind && a->place.value == place->value ? a : NULL;
}

/* Looks the address up in the index. Returns the number of frames; 0 if unknown. */
static size_t indexed(struct symbolizer *s, uint64_t address, const struct awaited *a)
{
    struct symbol_index_place at;
    size_t n = 0;
    if (!s->index)
        return 0;
    if (!a)
        symbol_index_find(s->index, address - s->shift, &at);
    if (!symbol_index_take(s->index, a ? &a->at : &at, s->frames, PLACE_FRAMES_MAX, &n))
        return 0;
    n = n < PLACE_FRAMES_MAX ? n : PLACE_FRAMES_MAX;
    for (size_t i = 0; i < n; i++)
        s->frames[i].start += s->frames[i].start ? s->shift : 0;
    return n;
}

void symbolizer_lookup(struct symbolizer *s, const struct place *place, struct place_answer *answer)
{
    struct symbol_frame symbol;
    enum elf_symbol_source table;
    const struct awaited *awaited = next_awaited(s, place);
    *answer = (struct place_answer){.source = SOURCE_NONE, .frames = s->frames};
    if (awaited)
        answer->address = awaited->inside ? awaited->address : 0;
    if (awaited ? !awaited->inside : !address_of(s, place, &answer->address)) {
        answer->address = 0;
        return;
    }
    answer->source = SOURCE_IMAGE;
    answer->n = indexed(s, answer->address, awaited);
    if (answer->n > 0) {
        struct symbol_frame *outermost = &s->frames[answer->n - 1];
        answer->source = SOURCE_DEBUG;
        /*
         * Symbol tables have whole signatures; debug information may have bare names. Public
         * symbols of a PDB file are mangled, and only its functions know where they end.
         */
        if (elf_file_pdb(s->debug) && outermost->function.len > 0)
            return;
        if (symbol_at(s, answer->address, outermost->function.len > 0, &symbol, &table)) {
            outermost->function = symbol.function;
            outermost->function_number = symbol.function_number;
            outermost->linkage = symbol.linkage;
            outermost->start = symbol.start;
        }
        return;
    }
    if (symbol_at(s, answer->address, false, &s->frames[0], &table)) {
        answer->source = SOURCE_DYNSYM + table;
        answer->n = 1;
    } else if (neighbour_of(s, answer->address, &s->frames[0])) {
        answer->source = SOURCE_NEIGHBOUR;
        answer->n = 1;
    }
}

static bool is_executable(const struct elf_file *f, uint64_t address)
{
    for (size_t i = 0; i < elf_file_segment_count(f); i++) {
        const struct elf_segment *g = elf_file_segment_at(f, i);
        if ((g->flags & PF_X) && address >= g->address && address - g->address < g->file_size)
            return true;
    }
    return false;
}

bool symbolizer_code(struct symbolizer *s, const struct place *place, struct place_code *code)
{
    struct elf_symbol symbol;
    struct symbol_index_name name;
    struct view bytes;
    uint64_t address;
    if (!address_of(s, place, &address) || !elf_symbols_bounds(s->symbols, address, &symbol) ||
        !is_executable(s->image.elf, symbol.address))
        return false;
    elf_file_at_address(s->image.elf, symbol.address, &bytes);
    if (bytes.p && bytes.len < symbol.size)
        symbol.size = bytes.len;
    if (!bytes.p || address - symbol.address >= symbol.size)
        return false;
    *code = (struct place_code){.address = address,
                                .start = symbol.address,
                                .size = symbol.size,
                                .by_unwind = symbol.source == ELF_SYMBOL_EH_FRAME};
    code->bytes =
        (struct view){bytes.p, symbol.size < PLACE_CODE_MAX ? (size_t)symbol.size : PLACE_CODE_MAX};
    if (symbol.name.len > 0 && make_name(s, symbol.name, &name))
        code->name = name.function;
    return true;
}
