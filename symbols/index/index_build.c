/* Builds an index: first the ranges of all units, then the units in parallel. */

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols/elf/elf_file.h"
#include "symbols/index/dwarf_lines.h"
#include "symbols/index/index_build.h"
#include "symbols/index/index_pdb.h"

#define MAX_THREADS 64u
/* libdw caches what it reads. After this many entries and rows, or units, a reader is reopened. */
#define REOPEN_AFTER 400000u
#define REOPEN_UNITS 1000u
#define MEMORY_MIN ((uint64_t)64 << 20)
#define WORK_MIN ((uint64_t)1 << 20)
#define SPLIT_SIZE ((uint64_t)2 << 30)

static uint64_t sections_size(const struct dwarf_sections *s)
{
    uint64_t sum = 0;
    for (int i = 0; i < DWARF_SECTIONS; i++)
        sum += s->at[i].len;
    return sum;
}

/* The contents of .dwo files are unknown until opened, so the limits are generous. */
static void build_limits(struct index_build *b)
{
    const struct index_limits *l = &b->options.limits;
    uint64_t size = sections_size(&b->sections) + sections_size(&b->package.sections);
    if (b->pdb)
        size = elf_file_bytes(b->file).len;
    else if (b->options.open_split)
        size += SPLIT_SIZE;
    b->memory = l->memory ? l->memory : size > MEMORY_MIN ? size : MEMORY_MIN;
    atomic_init(&b->budget.left, l->work ? l->work : 4 * size + WORK_MIN);
    atomic_init(&b->budget.late, false);
    b->budget.deadline_ns = l->deadline_ns;
    b->budget.maker_bytes = b->memory;
}

/* The image that libdw reads; the pages of the file are not needed any more. */
static int make_image(struct dwarf_image *m, const struct dwarf_sections *s, struct elf_file *f,
                      struct err *e)
{
    int status = dwarf_image_make(m, s, e);
    for (int i = 0; i < DWARF_SECTIONS; i++)
        elf_file_let_go(f, s->at[i]);
    return status;
}

static int build_init(struct index_build *b, struct symbol_index *x, struct elf_file *debug,
                      struct elf_file *alternate, const struct index_options *options,
                      struct err *e)
{
    *b = (struct index_build){.x = x, .file = debug, .pdb = elf_file_pdb(debug)};
    if (options)
        b->options = *options;
    pthread_mutex_init(&b->lock, NULL);
    atomic_init(&b->next, 0);
    atomic_init(&b->failed, false);
    if (!code_map_read(&b->code, debug))
        return err_no_memory(e, "ranges of code");
    if (b->pdb) {
        build_limits(b);
        return index_pdb_init(b, e);
    }
    if (dwarf_sections_read(&b->sections, debug, false, e) != 0)
        return -1;
    if (b->sections.at[DWARF_INFO].len == 0)
        return err_set(e, ERR_INPUT, "no .debug_info");
    if (alternate) {
        struct dwarf_sections s;
        if (dwarf_sections_read(&s, alternate, false, e) != 0)
            return err_prefix(e, "alternate debug file");
        if (s.at[DWARF_INFO].len > 0 && make_image(&b->alternate, &s, alternate, e) != 0)
            return -1;
    }
    if (b->options.package && split_package_read(&b->package, b->options.package, e) != 0)
        return err_prefix(e, ".dwp file");
    build_limits(b);
    if (make_image(&b->image, &b->sections, debug, e) != 0)
        return -1;
    dwarf_lines_set_apart(b->image.lines, b->image.lines_len, &b->code);
    return 0;
}

static void build_release(struct index_build *b)
{
    buf_release(&b->image.bytes);
    buf_release(&b->alternate.bytes);
    code_map_release(&b->code);
    vec_release(&b->todo);
    vec_release(&b->claims);
    pthread_mutex_destroy(&b->lock);
}

static void note_fault(struct symbol_index *x, const char *fault)
{
    if (!x->fault[0])
        snprintf(x->fault, sizeof x->fault, "%.*s", (int)sizeof x->fault - 1, fault);
}

/* ---- units and their code ranges */

struct claim_sink {
    struct index_build *build;
    uint32_t unit;
    bool any;
    bool failed;
};

static bool take_claim(void *user, uint64_t low, uint64_t high)
{
    struct claim_sink *sink = user;
    struct index_build *b = sink->build;
    sink->any = true;
    if (low >= high || !code_map_has(&b->code, low, low + 1))
        return true;
    sink->failed = !vec_push(&b->claims, (struct unit_claim){low, high, sink->unit});
    return !sink->failed;
}

/*
 * Whether the range in a unit's first entry may be incomplete. DWARF 2 cannot express several
 * ranges, and compilers that follow it strictly state only the main one.
 */
static bool says_too_little(const struct dwarf_unit *unit, const struct dwarf_entry *entry,
                            bool says_anything)
{
    return !says_anything || (unit->version == 2 && !entry->has_ranges);
}

/* Adds the unit if it has code or may have. False if memory is short. */
static bool scan_unit(struct index_build *b, struct dwarf_reader *reader,
                      const struct dwarf_unit *unit)
{
    struct dwarf_node root;
    struct dwarf_entry entry;
    struct claim_sink sink = {.build = b, .unit = (uint32_t)b->x->units.len};
    size_t before = b->claims.len;
    bool wanted = false, walked = false;
    if (unit->types || dwarf_node_at(reader, false, unit->root, &root) != 1)
        return true;
    unsigned tag = dwarf_node_tag(&root);
    if ((tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit) &&
        dwarf_node_read(&root, &entry) == 1) {
        walk_unit_ranges(&root, &entry, take_claim, &sink);
        walked = says_too_little(unit, &entry, sink.any);
        wanted = walked || b->claims.len > before;
    }
    if (sink.failed || b->x->units.len >= UINT32_MAX)
        return false;
    struct index_unit added = {.root = unit->root, .split_id = unit->id};
    if (wanted && !vec_push(&b->x->units, added))
        return false;
    /* The code ranges come from the unit's functions. */
    return !walked || vec_push(&b->todo, (struct todo){sink.unit, 0});
}

static const struct dwarf_image *alternate_of(const struct index_build *b)
{
    return b->alternate.bytes.len > 0 ? &b->alternate : NULL;
}

static int scan_units(struct index_build *b, struct err *e)
{
    struct dwarf_reader *reader;
    struct dwarf_unit unit;
    struct err why = {0};
    int status;
    if (b->pdb)
        return index_pdb_scan(b, e);
    if (dwarf_reader_open(&reader, &b->image, alternate_of(b), e) != 0)
        return -1;
    while ((status = dwarf_reader_next(reader, &unit, &why)) == 1) {
        if (!scan_unit(b, reader, &unit)) {
            dwarf_reader_close(reader);
            return err_no_memory(e, "the units of an image");
        }
    }
    dwarf_reader_close(reader);
    if (status < 0)
        note_fault(b->x, why.text);
    return 0;
}

/* ---- one unit */

struct worker {
    struct index_build *build;
    struct unit_maker maker;
    struct unit_walk walk;
    uint64_t work;  /* since the reader was opened */
    uint32_t units; /* since the reader was opened */
};

static void publish(struct index_build *b, uint32_t unit, struct unit_maker *m, void *block,
                    size_t size, bool split_missing)
{
    struct index_unit *u = &b->x->units.at[unit];
    pthread_mutex_lock(&b->lock);
    u->block = (struct view){block, size};
    u->owned = true;
    u->state = m->fault ? UNIT_PARTLY : UNIT_BUILT;
    u->flags = split_missing ? UNIT_SPLIT_MISSING : 0;
    b->x->bytes += size;
    if (m->fault)
        note_fault(b->x, m->fault);
    pthread_mutex_unlock(&b->lock);
}

static bool room_left(struct index_build *b)
{
    pthread_mutex_lock(&b->lock);
    bool room = b->x->bytes < b->memory;
    if (!room)
        note_fault(b->x, "the index needs more memory than is allowed");
    pthread_mutex_unlock(&b->lock);
    return room;
}

/*
 * Walks the line table and functions of a unit; sets *split_missing if its functions are in a
 * missing file.
 */
static void walk_unit(struct worker *w, struct dwarf_node *root, uint64_t split_id,
                      bool *split_missing)
{
    struct dwarf_entry entry;
    if (dwarf_node_read(root, &entry) != 1) {
        w->maker.fault = "the first entry of a unit cannot be read";
        return;
    }
    w->walk.base = (struct dwarf_base){.address = entry.has_low ? entry.low : 0};
    if (entry.has_lines)
        walk_lines(&w->walk, root);
    if (split_id == 0)
        split_id = entry.split_id;
    *split_missing = entry.split_name && !split_walk(w->build, &w->walk, &entry, split_id);
    if (!entry.split_name || *split_missing)
        walk_functions(&w->walk, root);
}

static bool open_reader(struct worker *w)
{
    struct index_build *b = w->build;
    struct err e = {0};
    if (w->walk.reader && w->work < REOPEN_AFTER && w->units < REOPEN_UNITS)
        return true;
    dwarf_reader_close(w->walk.reader);
    w->walk.reader = NULL;
    w->work = w->units = 0;
    return dwarf_reader_open(&w->walk.reader, &b->image, alternate_of(b), &e) == 0;
}

static void build_unit(struct worker *w, const struct todo *t)
{
    uint32_t unit = t->unit;
    struct index_build *b = w->build;
    struct dwarf_node root;
    bool split_missing = false;
    size_t size = 0;
    maker_reset(&w->maker);
    walk_reset(&w->walk);
    if (b->pdb) {
        index_pdb_walk(b, &w->walk, b->x->units.at[unit].root);
    } else if (!open_reader(w) ||
               dwarf_node_at(w->walk.reader, false, b->x->units.at[unit].root, &root) != 1) {
        w->maker.fault = "a unit cannot be opened";
    } else {
        walk_unit(w, &root, b->x->units.at[unit].split_id, &split_missing);
    }
    w->work += w->maker.rows.len + w->maker.scopes.len;
    w->units++;
    void *block = maker_finish(&w->maker, &size);
    if (!block)
        atomic_store(&b->failed, true);
    else
        publish(b, unit, &w->maker, block, size, split_missing);
}

static void *work(void *user)
{
    struct index_build *b = user;
    struct worker w = {.build = b};
    maker_init(&w.maker, &b->code);
    w.walk = (struct unit_walk){.maker = &w.maker, .budget = &b->budget};
    while (!atomic_load(&b->failed) && room_left(b)) {
        size_t next = atomic_fetch_add(&b->next, 1);
        if (next >= b->todo.len)
            break;
        build_unit(&w, &b->todo.at[next]);
    }
    dwarf_reader_close(w.walk.reader);
    walk_reset(&w.walk);
    maker_release(&w.maker);
    return NULL;
}

/* ---- all units */

static int largest_first(const void *a, const void *b)
{
    const struct todo *x = a, *y = b;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return (x->unit > y->unit) - (x->unit < y->unit);
}

/*
 * A unit's size is the distance to the next unit with code: accurate enough to start with the large
 * ones.
 */
static void order_todo(struct index_build *b)
{
    for (size_t i = 0; i < b->todo.len; i++) {
        uint32_t unit = b->todo.at[i].unit;
        if (b->pdb) {
            b->todo.at[i].size = index_pdb_size(b, b->x->units.at[unit].root);
            continue;
        }
        uint64_t end = b->sections.at[DWARF_INFO].len;
        if (unit + 1 < b->x->units.len)
            end = b->x->units.at[unit + 1].root;
        b->todo.at[i].size = end - b->x->units.at[unit].root;
    }
    if (b->todo.len > 0)
        qsort(b->todo.at, b->todo.len, sizeof *b->todo.at, largest_first);
}

static int build_todo(struct index_build *b, struct err *e)
{
    pthread_t threads[MAX_THREADS];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = b->options.threads ? b->options.threads : processors > 0 ? processors : 1;
    size_t n = 0;
    order_todo(b);
    atomic_store(&b->next, 0);
    if (wanted > b->todo.len)
        wanted = b->todo.len;
    if (wanted > MAX_THREADS)
        wanted = MAX_THREADS;
    while (n + 1 < wanted && pthread_create(&threads[n], NULL, work, b) == 0)
        n++;
    work(b);
    while (n > 0)
        pthread_join(threads[--n], NULL);
    b->todo.len = 0;
    return atomic_load(&b->failed) ? err_no_memory(e, "the index of an image") : 0;
}

/* Claims the ranges of the code found in units without stated ranges. */
static bool claim_segments(struct index_build *b, uint32_t unit)
{
    struct block block;
    const struct index_unit *u = &b->x->units.at[unit];
    if (u->state == UNIT_WAITING || !block_open(&block, u->block))
        return true;
    for (uint32_t i = 0; i + 1 < block.header.n_segments; i++) {
        const struct block_segment *s = &block.segments[i];
        struct unit_claim claim = {block.header.base + s[0].start, block.header.base + s[1].start,
                                   unit};
        if (s->scope != 0 && !vec_push(&b->claims, claim))
            return false;
    }
    return true;
}

/* Builds units without stated ranges at once. */
static int build_unstated(struct index_build *b, struct err *e)
{
    VEC(uint32_t) unstated = {0};
    int status = 0;
    for (size_t i = 0; i < b->todo.len; i++) {
        if (!vec_push(&unstated, b->todo.at[i].unit))
            status = err_no_memory(e, "the units of an image");
    }
    if (status == 0 && unstated.len > 0)
        status = build_todo(b, e);
    for (size_t i = 0; status == 0 && i < unstated.len; i++) {
        if (!claim_segments(b, unstated.at[i]))
            status = err_no_memory(e, "the units of an image");
    }
    vec_release(&unstated);
    return status;
}

static int build_wanted(struct index_build *b, struct err *e)
{
    struct symbol_index *x = b->x;
    bool fits = true;
    bool *wanted = calloc(x->units.len + 1, sizeof *wanted);
    if (!wanted)
        return err_no_memory(e, "the units of an image");
    for (size_t i = 0; i < b->options.n_addresses && b->options.addresses; i++) {
        const struct index_unit *u = index_unit_at(x, b->options.addresses[i]);
        if (u)
            wanted[u - x->units.at] = true;
    }
    for (size_t i = 0; fits && i < x->units.len; i++) {
        if (x->units.at[i].state == UNIT_WAITING && (wanted[i] || !b->options.addresses))
            fits = vec_push(&b->todo, (struct todo){(uint32_t)i, 0});
    }
    free(wanted);
    return fits ? build_todo(b, e) : err_no_memory(e, "the units of an image");
}

int symbol_index_build(struct symbol_index **out, struct elf_file *debug,
                       struct elf_file *alternate, const struct index_options *options,
                       struct err *e)
{
    struct index_build b;
    struct symbol_index *x = calloc(1, sizeof *x);
    if (!x)
        return err_no_memory(e, "the index of an image");
    int status = build_init(&b, x, debug, alternate, options, e);
    if (status == 0)
        status = scan_units(&b, e);
    if (status == 0)
        status = build_unstated(&b, e);
    if (status == 0 && !index_settle(x, &b.claims))
        status = err_no_memory(e, "the units of an image");
    if (status == 0)
        status = build_wanted(&b, e);
    build_release(&b);
    if (status != 0) {
        symbol_index_free(x);
        return -1;
    }
    *out = x;
    return 0;
}

int symbol_index_extend(struct symbol_index *x, struct elf_file *debug, struct elf_file *alternate,
                        const struct index_options *options, struct err *e)
{
    struct index_build b;
    int status = build_init(&b, x, debug, alternate, options, e);
    if (status == 0)
        status = build_wanted(&b, e);
    build_release(&b);
    return status;
}
