#include "symbols/elf/elf_symbols.h"

#include <elf.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "base/order.h"
#include "base/vec.h"
#include "symbols/elf/eh_frame.h"
#include "symbols/elf/inflate.h"
#include "symbols/pdb/pdb_file.h"
#include "symbols/pdb/pe_image.h"

#define NO_SYMBOL UINT32_MAX
#define NAME_MAX_BYTES ((size_t)1 << 20) /* longer names are cut: finding their end takes time */
#define HAS_TWINS 4u                     /* set in `place` */
#define TABLES 4u                        /* numbered by enum elf_symbol_source */

struct symbol {
    uint64_t address;
    uint64_t size;
    uint32_t name;  /* offset in the names of its table */
    uint32_t place; /* index in its table times 8, plus the number of the table, plus HAS_TWINS */
};

/* `symbol` covers the addresses from `address` to the next point. */
struct point {
    uint64_t address;
    uint32_t symbol; /* NO_SYMBOL: none */
};

struct range {
    uint64_t start, end;
};

struct elf_symbols {
    VEC(struct symbol) symbols; /* by address, one each */
    VEC(struct symbol) twins;   /* by address: others of the same table, address and size */
    VEC(struct point) points;   /* sorted by address */
    VEC(struct range) code;     /* executable sections */
    struct view names[TABLES];
    struct eh_ranges unwind;
    struct inflated debugdata;
    struct elf_file *nested; /* opened from `debugdata` */
    struct err problem;
};

uint64_t elf_debug_shift(const struct elf_file *image, const struct elf_file *debug)
{
    if (elf_file_segment_count(image) == 0 || elf_file_segment_count(debug) == 0)
        return 0;
    return elf_file_base(image) - elf_file_base(debug);
}

/* ---- executable sections */

static int by_range(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static bool is_code(const struct elf_section *s)
{
    return (s->flags & SHF_EXECINSTR) && (s->flags & SHF_ALLOC);
}

static int read_code(struct elf_symbols *s, const struct elf_file *f, uint64_t shift, struct err *e)
{
    for (size_t i = 0; i < elf_file_section_count(f); i++) {
        const struct elf_section *section = elf_file_section_at(f, i);
        uint64_t start = section->address + shift;
        if (!is_code(section) || section->size == 0 || section->size > UINT64_MAX - start)
            continue;
        if (!vec_push(&s->code, (struct range){start, start + section->size}))
            return err_no_memory(e, "sections of an ELF file");
    }
    if (s->code.len > 0)
        qsort(s->code.at, s->code.len, sizeof *s->code.at, by_range);
    return 0;
}

/* The section that contains `address`, or NULL. */
static const struct range *code_at(const struct elf_symbols *s, uint64_t address)
{
    size_t low = 0;
    BISECT(low, s->code.len, i, s->code.at[i].start <= address);
    return low > 0 && address < s->code.at[low - 1].end ? &s->code.at[low - 1] : NULL;
}

/* ---- reading tables */

/* One table while it is read. */
struct table {
    struct elf_file *file;
    enum elf_symbol_source source;
    uint64_t shift;
    size_t entry_size;
    struct view entries;
};

struct entry {
    uint32_t name;
    uint8_t info;
    uint16_t section;
    uint64_t value, size;
};

static bool read_entry(const struct table *t, size_t i, struct entry *out)
{
    struct cursor c = cursor_over(t->entries.p + i * t->entry_size, t->entry_size);
    bool wide = elf_file_is_64(t->file);
    *out = (struct entry){0};
    out->name = cursor_u32(&c);
    if (!wide) {
        out->value = cursor_u32(&c);
        out->size = cursor_u32(&c);
    }
    out->info = cursor_u8(&c);
    (void)cursor_u8(&c); /* visibility */
    out->section = cursor_u16(&c);
    if (wide) {
        out->value = cursor_u64(&c);
        out->size = cursor_u64(&c);
    }
    return !c.short_read;
}

/* $x and $d separate code from data for disassemblers on AArch64. */
static bool is_mapping_symbol(const struct table *t, const char *name, size_t left)
{
    return elf_file_machine(t->file) == EM_AARCH64 && left > 1 && name[0] == '$' &&
           (name[1] == 'x' || name[1] == 'd');
}

static bool is_function(const struct elf_symbols *s, const struct table *t, const struct entry *x)
{
    const struct view *names = &s->names[t->source];
    uint8_t type = ELF64_ST_TYPE(x->info);
    if (type != STT_NOTYPE && type != STT_FUNC && type != STT_OBJECT && type != STT_GNU_IFUNC)
        return false;
    if (x->name >= names->len || names->p[x->name] == 0 ||
        is_mapping_symbol(t, names->p + x->name, names->len - x->name))
        return false;
    if (x->section == SHN_XINDEX)
        return code_at(s, x->value + t->shift) != NULL;
    return x->section != SHN_UNDEF && x->section < elf_file_section_count(t->file) &&
           is_code(elf_file_section_at(t->file, x->section));
}

static int take_entries(struct elf_symbols *s, const struct table *t, struct err *e)
{
    size_t n = t->entries.len / t->entry_size;
    for (size_t i = 1; i < n && i < UINT32_MAX / 8; i++) {
        struct entry x;
        if (!read_entry(t, i, &x) || !is_function(s, t, &x))
            continue;
        struct symbol symbol = {x.value + t->shift, x.size, x.name,
                                (uint32_t)(i * 8 + (unsigned)t->source)};
        if (symbol.size > UINT64_MAX - symbol.address)
            symbol.size = UINT64_MAX - symbol.address;
        if (!vec_push(&s->symbols, symbol))
            return err_no_memory(e, "symbols of an ELF file");
    }
    return 0;
}

/* The index of the first non-empty section of a type, or the section count. */
static size_t find_table(const struct elf_file *f, uint32_t type)
{
    size_t i = 0;
    while (i < elf_file_section_count(f) &&
           (elf_file_section_at(f, i)->type != type || elf_file_section_at(f, i)->size == 0))
        i++;
    return i;
}

/*
 * `found` reports whether there is such a table with functions in it. A file has one table of each
 * type.
 */
static int read_table(struct elf_symbols *s, struct elf_file *f, uint32_t type,
                      enum elf_symbol_source source, uint64_t shift, bool *found, struct err *e)
{
    size_t least = elf_file_is_64(f) ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
    size_t i = find_table(f, type), before = s->symbols.len;
    struct table t = {.file = f, .source = source, .shift = shift, .entry_size = least};
    *found = false;
    if (i == elf_file_section_count(f))
        return 0;
    const struct elf_section *section = elf_file_section_at(f, i);
    if (section->entry_size > least && section->entry_size <= section->size)
        t.entry_size = (size_t)section->entry_size;
    if (section->link >= elf_file_section_count(f)) {
        (void)err_set(&s->problem, ERR_INPUT, "section %.*s: there is no section %u for names",
                      (int)section->name.len, section->name.p, section->link);
        return 0;
    }
    if (elf_file_section_bytes(f, i, &t.entries, &s->problem) != 0 ||
        elf_file_section_bytes(f, section->link, &s->names[source], &s->problem) != 0 ||
        !s->names[source].p)
        return 0;
    int status = take_entries(s, &t, e);
    *found = s->symbols.len > before;
    return status;
}

/*
 * Reads .gnu_debugdata, where distributions keep symbols of stripped programs: a small ELF file
 * packed with xz.
 */
static int read_debugdata(struct elf_symbols *s, struct elf_file *image,
                          const struct elf_limits *limits, struct err *e)
{
    struct view packed;
    struct elf_limits l = limits ? *limits : ELF_LIMITS_DEFAULT;
    bool found;
    if (elf_file_section(image, ".gnu_debugdata", &packed, &s->problem) != 0 || !packed.p)
        return 0;
    if (inflate_xz(&s->debugdata, packed, l.inflated_bytes, &s->problem) != 0 ||
        elf_file_open_bytes(&s->nested,
                            (struct view){(const char *)s->debugdata.bytes, s->debugdata.size}, &l,
                            &s->problem) != 0) {
        if (s->problem.code == ERR_MEMORY)
            return err_no_memory(e, "section .gnu_debugdata");
        (void)err_prefix(&s->problem, "section .gnu_debugdata");
        return 0;
    }
    return read_table(s, s->nested, SHT_SYMTAB, ELF_SYMBOL_DEBUGDATA,
                      elf_debug_shift(image, s->nested), &found, e);
}

struct image_sink {
    struct elf_symbols *s;
    enum elf_symbol_source source;
    uint64_t shift;
};

/* A symbol of a PE image. It states no size; the image's unwind entry does. */
static bool take_of_image(void *user, uint64_t address, uint32_t name)
{
    const struct image_sink *sink = user;
    struct elf_symbols *s = sink->s;
    size_t i = s->symbols.len;
    address += sink->shift;
    if (!code_at(s, address) || i >= UINT32_MAX / 8)
        return true;
    const struct eh_range *bounds = eh_ranges_find(&s->unwind, address);
    uint64_t size = bounds && bounds->start == address ? bounds->end - address : 0;
    return vec_push(&s->symbols,
                    (struct symbol){address, size, name, (uint32_t)(i * 8 + sink->source)});
}

/* Reads the public symbols of a PDB file. */
static int read_publics(struct elf_symbols *s, struct elf_file *image, const struct elf_file *file,
                        uint64_t shift, struct err *e)
{
    struct image_sink sink = {s, ELF_SYMBOL_PUBLIC, shift};
    if (image && eh_ranges_read(&s->unwind, image, e) != 0)
        return -1;
    if (pdb_file_publics(elf_file_pdb(file), &s->names[ELF_SYMBOL_PUBLIC], take_of_image, &sink,
                         &s->problem) == 0 ||
        s->problem.code != ERR_MEMORY)
        return 0;
    return err_no_memory(e, "public symbols");
}

static int read_exports(struct elf_symbols *s, struct elf_file *image, struct err *e)
{
    struct image_sink sink = {s, ELF_SYMBOL_DYNSYM, 0};
    struct pe_image pe;
    if (eh_ranges_read(&s->unwind, image, e) != 0)
        return -1;
    bool fits = pe_image_read(&pe, elf_file_bytes(image), &s->problem) == 0
                    ? pe_image_exports(&pe, take_of_image, &sink)
                    : s->problem.code != ERR_MEMORY;
    s->names[ELF_SYMBOL_DYNSYM] = pe.exports;
    pe_image_release(&pe);
    return fits ? 0 : err_no_memory(e, "exported symbols");
}

static int read_tables(struct elf_symbols *s, struct elf_file *image, struct elf_file *debug,
                       const struct elf_limits *limits, struct err *e)
{
    bool found = false, ignored;
    uint64_t shift = image && debug ? elf_debug_shift(image, debug) : 0;
    if (image ? read_code(s, image, 0, e) != 0 : debug && read_code(s, debug, 0, e) != 0)
        return -1;
    const struct elf_file *pdb = debug ? debug : image;
    if (pdb && elf_file_pdb(pdb))
        return read_publics(s, image, pdb, shift, e);
    if (image && !elf_file_is_elf(image))
        return read_exports(s, image, e);
    if (debug && read_table(s, debug, SHT_SYMTAB, ELF_SYMBOL_SYMTAB, shift, &found, e) != 0)
        return -1;
    if (!image)
        return 0;
    if (!found && read_table(s, image, SHT_SYMTAB, ELF_SYMBOL_SYMTAB, 0, &found, e) != 0)
        return -1;
    if (read_table(s, image, SHT_DYNSYM, ELF_SYMBOL_DYNSYM, 0, &ignored, e) != 0)
        return -1;
    if (found)
        return 0;
    if (read_debugdata(s, image, limits, e) != 0)
        return -1;
    return eh_ranges_read(&s->unwind, image, e);
}

/* ---- which symbol covers which addresses */

#define DIGIT_BITS 11u
#define DIGITS (1u << DIGIT_BITS)

/*
 * One pass of a stable radix sort: moves `n` symbols to `to`, ordered by one digit of their
 * addresses.
 */
static void sort_by_digit(const struct symbol *from, struct symbol *to, size_t n, unsigned shift)
{
    size_t next[DIGITS] = {0}, at = 0;
    for (size_t i = 0; i < n; i++)
        next[from[i].address >> shift & (DIGITS - 1)]++;
    for (size_t d = 0; d < DIGITS; d++) {
        size_t count = next[d];
        next[d] = at;
        at += count;
    }
    for (size_t i = 0; i < n; i++)
        to[next[from[i].address >> shift & (DIGITS - 1)]++] = from[i];
}

/*
 * Sorts by address. An image has up to millions of symbols, whose addresses differ in few digits.
 */
static int sort_by_address(struct elf_symbols *s, struct err *e)
{
    uint64_t differs = 0;
    for (size_t i = 1; i < s->symbols.len; i++)
        differs |= s->symbols.at[i].address ^ s->symbols.at[0].address;
    if (!differs)
        return 0;
    struct symbol *other = malloc(s->symbols.len * sizeof *other);
    if (!other)
        return err_no_memory(e, "symbols of an ELF file");
    size_t cap = s->symbols.len;
    for (unsigned shift = 0; shift < 64 && differs >> shift; shift += DIGIT_BITS) {
        if (!(differs >> shift & (DIGITS - 1)))
            continue;
        sort_by_digit(s->symbols.at, other, s->symbols.len, shift);
        struct symbol *sorted = other;
        size_t sorted_cap = cap;
        other = s->symbols.at;
        cap = s->symbols.cap;
        s->symbols.at = sorted;
        s->symbols.cap = sorted_cap;
    }
    free(other);
    return 0;
}

/* Whether `x` takes precedence over `y` at the same address. */
static bool goes_before(const struct symbol *x, const struct symbol *y)
{
    if (x->place % 4 != y->place % 4)
        return x->place % 4 > y->place % 4;
    if (x->size != y->size)
        return x->size > y->size;
    return x->place > y->place;
}

/* Of symbols i … end - 1, at one address, the one to keep. The others may be its twins. */
static struct symbol choose(struct elf_symbols *s, size_t i, size_t end, bool *ok)
{
    const struct symbol *at = s->symbols.at;
    size_t before = s->twins.len;
    size_t best = i;
    for (size_t k = i + 1; k < end; k++) {
        if (goes_before(&at[k], &at[best]))
            best = k;
    }
    for (size_t k = i; k < end && *ok; k++) {
        unsigned source = at[k].place % 4;
        if (k != best && source == at[best].place % 4 && source != ELF_SYMBOL_PUBLIC &&
            at[k].size > 0 && at[k].size == at[best].size)
            *ok = vec_push(&s->twins, at[k]);
    }
    struct symbol chosen = at[best];
    chosen.place |= s->twins.len > before ? HAS_TWINS : 0;
    return chosen;
}

/* Keeps one symbol per address, sorted. */
static int sort_symbols(struct elf_symbols *s, struct err *e)
{
    size_t kept = 0, end;
    bool ok = true;
    if (sort_by_address(s, e) != 0)
        return -1;
    for (size_t i = 0; i < s->symbols.len && ok; i = end) {
        for (end = i + 1; end < s->symbols.len; end++) {
            if (s->symbols.at[end].address != s->symbols.at[i].address)
                break;
        }
        s->symbols.at[kept++] = choose(s, i, end, &ok);
    }
    s->symbols.len = kept;
    return ok ? 0 : err_no_memory(e, "symbols of an ELF file");
}

/* The exclusive end of symbol i. A symbol without a size ends where the next item begins. */
static uint64_t symbol_end(const struct elf_symbols *s, size_t i)
{
    const struct symbol *x = &s->symbols.at[i];
    if (x->size > 0)
        return x->address + x->size;
    const struct range *code = code_at(s, x->address);
    uint64_t end = code ? code->end : x->address;
    uint64_t next = eh_ranges_next(&s->unwind, x->address);
    if (next < end)
        end = next;
    if (i + 1 < s->symbols.len && s->symbols.at[i + 1].address < end)
        end = s->symbols.at[i + 1].address;
    return end;
}

static bool put_point(struct elf_symbols *s, uint64_t address, uint32_t symbol)
{
    if (s->points.len > 0 && s->points.at[s->points.len - 1].address == address) {
        s->points.at[s->points.len - 1].symbol = symbol;
        return true;
    }
    return vec_push(&s->points, (struct point){address, symbol});
}

/* A symbol whose end is not reached yet. */
struct open_symbol {
    uint64_t end;
    uint32_t symbol;
};

struct open_symbols {
    VEC(struct open_symbol) stack;
};

/* Closes the symbols that end at or before `limit`; after each, the one around it applies again. */
static bool close_symbols(struct elf_symbols *s, struct open_symbols *open, uint64_t limit)
{
    while (open->stack.len > 0 && open->stack.at[open->stack.len - 1].end <= limit) {
        uint64_t at = open->stack.at[open->stack.len - 1].end;
        while (open->stack.len > 0 && open->stack.at[open->stack.len - 1].end <= at)
            open->stack.len--;
        uint32_t around =
            open->stack.len > 0 ? open->stack.at[open->stack.len - 1].symbol : NO_SYMBOL;
        if (!put_point(s, at, around))
            return false;
    }
    return true;
}

/* Flattens nested symbols into points: a later start covers the symbols around it. */
static int make_points(struct elf_symbols *s, struct err *e)
{
    struct open_symbols open = {0};
    bool ok = true;
    for (size_t i = 0; i < s->symbols.len && ok; i++) {
        uint64_t start = s->symbols.at[i].address, end = symbol_end(s, i);
        ok = close_symbols(s, &open, start);
        if (end > start)
            ok = ok && vec_push(&open.stack, (struct open_symbol){end, (uint32_t)i}) &&
                 put_point(s, start, (uint32_t)i);
    }
    ok = ok && close_symbols(s, &open, UINT64_MAX);
    vec_release(&open.stack);
    return ok ? 0 : err_no_memory(e, "symbols of an ELF file");
}

int elf_symbols_read(struct elf_symbols **out, struct elf_file *image, struct elf_file *debug,
                     const struct elf_limits *limits, struct err *e)
{
    struct elf_symbols *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return err_no_memory(e, "symbols of an ELF file");
    if (read_tables(s, image, debug, limits, e) != 0)
        goto failed;
    if (sort_symbols(s, e) != 0 || make_points(s, e) != 0)
        goto failed;
    *out = s;
    return 0;
failed:
    elf_symbols_free(s);
    return -1;
}

void elf_symbols_free(struct elf_symbols *s)
{
    if (!s)
        return;
    vec_release(&s->symbols);
    vec_release(&s->twins);
    vec_release(&s->points);
    vec_release(&s->code);
    eh_ranges_release(&s->unwind);
    elf_file_close(s->nested);
    inflated_release(&s->debugdata);
    free(s);
}

const char *elf_symbols_problem(const struct elf_symbols *s)
{
    return s->problem.code == ERR_NONE ? NULL : s->problem.text;
}

size_t elf_symbols_count(const struct elf_symbols *s)
{
    return s->symbols.len;
}

/* ---- look-ups */

static void describe(const struct elf_symbols *s, const struct symbol *x, struct elf_symbol *out)
{
    enum elf_symbol_source source = (enum elf_symbol_source)(x->place % 4);
    const char *name = s->names[source].p + x->name;
    size_t most = s->names[source].len - x->name;
    *out = (struct elf_symbol){
        .name = {name, strnlen(name, most < NAME_MAX_BYTES ? most : NAME_MAX_BYTES)},
        .address = x->address,
        .size = x->size,
        .source = source,
    };
}

static void give(const struct elf_symbols *s, size_t i, struct elf_symbol *out)
{
    describe(s, &s->symbols.at[i], out);
}

/* Searches from `near`, the position of the last result. */
static uint32_t symbol_near(const struct elf_symbols *s, uint64_t address, size_t *near)
{
    size_t low = 0, high = s->points.len;
    if (*near > 0 && *near <= high && s->points.at[*near - 1].address <= address) {
        low = *near;
        for (size_t step = 1; step <= s->points.len - *near; step *= 2) {
            if (s->points.at[*near + step - 1].address > address) {
                high = *near + step - 1;
                break;
            }
            low = *near + step;
        }
    }
    BISECT(low, high, i, s->points.at[i].address <= address);
    *near = low;
    return low > 0 ? s->points.at[low - 1].symbol : NO_SYMBOL;
}

/* The symbol around an address; NO_SYMBOL if there is none. */
static uint32_t symbol_around(const struct elf_symbols *s, uint64_t address)
{
    size_t near = 0;
    return symbol_near(s, address, &near);
}

bool elf_symbols_number(const struct elf_symbols *s, uint64_t address, size_t *near,
                        uint32_t *number)
{
    *number = symbol_near(s, address, near);
    return *number != NO_SYMBOL;
}

uint64_t elf_symbols_start(const struct elf_symbols *s, uint32_t number)
{
    return s->symbols.at[number].address;
}

enum elf_symbol_source elf_symbols_source(const struct elf_symbols *s, uint32_t number)
{
    return (enum elf_symbol_source)(s->symbols.at[number].place % 4);
}

void elf_symbols_get(const struct elf_symbols *s, uint32_t number, struct elf_symbol *out)
{
    give(s, number, out);
}

bool elf_symbols_twin(const struct elf_symbols *s, uint32_t number, size_t i,
                      struct elf_symbol *out)
{
    uint64_t address = s->symbols.at[number].address;
    size_t first = 0;
    if (!(s->symbols.at[number].place & HAS_TWINS))
        return false;
    BISECT(first, s->twins.len, k, s->twins.at[k].address < address);
    if (i >= s->twins.len - first || s->twins.at[first + i].address != address)
        return false;
    describe(s, &s->twins.at[first + i], out);
    return true;
}

bool elf_symbols_find(const struct elf_symbols *s, uint64_t address, struct elf_symbol *out)
{
    uint32_t symbol = symbol_around(s, address);
    if (symbol != NO_SYMBOL) {
        give(s, symbol, out);
        return true;
    }
    const struct eh_range *range = eh_ranges_find(&s->unwind, address);
    if (range)
        *out = (struct elf_symbol){
            {"", 0}, range->start, range->end - range->start, ELF_SYMBOL_EH_FRAME};
    return range != NULL;
}

bool elf_symbols_bounds(const struct elf_symbols *s, uint64_t address, struct elf_symbol *out)
{
    if (!elf_symbols_find(s, address, out))
        return false;
    if (out->size == 0)
        out->size = symbol_end(s, symbol_around(s, address)) - out->address;
    return true;
}

bool elf_symbols_nearest(const struct elf_symbols *s, uint64_t address, struct elf_symbol *out)
{
    const struct range *code = code_at(s, address);
    size_t low = 0;
    BISECT(low, s->symbols.len, i, s->symbols.at[i].address <= address);
    if (!code || low == 0 || s->symbols.at[low - 1].address < code->start)
        return false;
    give(s, low - 1, out);
    return true;
}
