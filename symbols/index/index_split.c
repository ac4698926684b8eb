/* Reads split units. */

#include "base/cursor.h"
#include "symbols/elf/elf_file.h"
#include "symbols/index/index_build.h"

/* ---- .dwp files: DWARF 5, section 7.3.5; before, gcc.gnu.org/wiki/DebugFissionDWP */

#define MAX_COLUMNS 16u

/* Section numbers in the package index. */
enum { PACKAGE_INFO = 1, PACKAGE_ABBREV = 3, PACKAGE_STR_OFFSETS = 6, PACKAGE_RNGLISTS_5 = 8 };

struct package_index {
    uint16_t version;
    uint32_t columns, units, slots;
    const uint8_t *ids;     /* one u64 per slot */
    const uint8_t *rows;    /* one u32 per slot: row number + 1 */
    const uint8_t *kinds;   /* one u32 per column */
    const uint8_t *offsets; /* one u32 per row and column */
    const uint8_t *sizes;
};

static bool package_index(struct view v, struct package_index *x)
{
    if (v.len == 0)
        return false;
    struct cursor c = cursor_over(v.p, v.len);
    x->version = cursor_u16(&c);
    cursor_u16(&c);
    x->columns = cursor_u32(&c);
    x->units = cursor_u32(&c);
    x->slots = cursor_u32(&c);
    if (c.short_read || x->columns == 0 || x->columns > MAX_COLUMNS || x->slots == 0 ||
        (x->slots & (x->slots - 1)) != 0)
        return false;
    x->ids = cursor_take(&c, (size_t)x->slots * 8);
    x->rows = cursor_take(&c, (size_t)x->slots * 4);
    x->kinds = cursor_take(&c, (size_t)x->columns * 4);
    x->offsets = cursor_take(&c, (size_t)x->units * x->columns * 4);
    x->sizes = cursor_take(&c, (size_t)x->units * x->columns * 4);
    return !c.short_read;
}

/* Finds the row of a unit, from 0; false if there is none. */
static bool package_row(const struct package_index *x, uint64_t id, uint32_t *row)
{
    uint32_t mask = x->slots - 1, at = (uint32_t)id & mask,
             step = ((uint32_t)(id >> 32) & mask) | 1;
    for (uint32_t i = 0; i < x->slots; i++, at = (at + step) & mask) {
        uint32_t number = load_u32(x->rows + (size_t)at * 4);
        if (number == 0)
            return false;
        if (load_u64(x->ids + (size_t)at * 8) == id) {
            *row = number - 1;
            return number <= x->units;
        }
    }
    return false;
}

static bool slice(struct view *v, uint64_t offset, uint64_t size)
{
    if (offset > v->len || size > v->len - offset)
        return false;
    *v = (struct view){v->p + offset, (size_t)size};
    return true;
}

/* The section of a column; -1 if it is not one that is read. */
static int column_section(const struct package_index *x, uint32_t kind)
{
    switch (kind) {
    case PACKAGE_INFO:
        return DWARF_INFO;
    case PACKAGE_ABBREV:
        return DWARF_ABBREV;
    case PACKAGE_STR_OFFSETS:
        return DWARF_STR_OFFSETS;
    case PACKAGE_RNGLISTS_5:
        return x->version >= 5 ? DWARF_RNGLISTS : -1;
    default:
        return -1;
    }
}

/*
 * The sections of the unit with this id. False if the unit is missing or its index entry is
 * invalid.
 */
static bool split_package_find(const struct split_package *p, uint64_t id,
                               struct dwarf_sections *out)
{
    struct package_index x;
    uint32_t row;
    if (!p->present || !package_index(p->index, &x) || !package_row(&x, id, &row))
        return false;
    *out = p->sections;
    for (uint32_t i = 0; i < x.columns; i++) {
        int section = column_section(&x, load_u32(x.kinds + (size_t)i * 4));
        size_t cell = ((size_t)row * x.columns + i) * 4;
        if (section >= 0 &&
            !slice(&out->at[section], load_u32(x.offsets + cell), load_u32(x.sizes + cell)))
            return false;
    }
    return true;
}

int split_package_read(struct split_package *p, struct elf_file *f, struct err *e)
{
    if (dwarf_sections_read(&p->sections, f, true, e) != 0 ||
        elf_file_section(f, ".debug_cu_index", &p->index, e) != 0)
        return -1;
    p->present = p->index.len > 0;
    return 0;
}

/* ---- walking */

/* The rest of a section of the skeleton's file, from an offset on. */
static struct view rest_of(struct view v, uint64_t offset)
{
    return offset < v.len ? (struct view){v.p + offset, v.len - (size_t)offset} : (struct view){0};
}

/* Opens the .dwo file; NULL if it is missing. */
static struct elf_file *open_file(struct index_build *b, const struct dwarf_entry *skeleton,
                                  uint64_t id)
{
    const struct index_options *o = &b->options;
    struct elf_file *f = NULL;
    if (o->open_split) {
        pthread_mutex_lock(&b->lock);
        f = o->open_split(o->user, skeleton->directory ? skeleton->directory : "",
                          skeleton->split_name, id);
        pthread_mutex_unlock(&b->lock);
    }
    return f;
}

/* Whether this unit is the wanted one. Before DWARF 5 its first entry has the id. */
static bool is_unit(const struct dwarf_unit *unit, struct dwarf_node *root, uint64_t id)
{
    struct dwarf_entry entry;
    uint64_t own = unit->id;
    if (own == 0 && dwarf_node_read(root, &entry) == 1)
        own = entry.split_id;
    return own == id;
}

/* Finds the unit in the reader and walks it; false if it is missing. */
static bool walk_with_id(struct unit_walk *w, uint64_t id)
{
    struct dwarf_unit unit;
    struct dwarf_node root;
    struct err e;
    bool found = false;
    while (!found && dwarf_reader_next(w->reader, &unit, &e) == 1) {
        if (unit.types || dwarf_node_at(w->reader, false, unit.root, &root) != 1)
            continue;
        found = is_unit(&unit, &root, id);
        if (found)
            walk_functions(w, &root);
    }
    return found;
}

static bool walk_sections(const struct index_build *b, struct unit_walk *w,
                          const struct dwarf_entry *skeleton, struct dwarf_sections *s, uint64_t id)
{
    struct unit_walk inner = {.maker = w->maker, .budget = w->budget};
    struct dwarf_image image;
    struct err e;
    bool found = false;
    s->at[DWARF_ADDR] = rest_of(b->sections.at[DWARF_ADDR], skeleton->address_base);
    s->at[DWARF_RANGES] = rest_of(b->sections.at[DWARF_RANGES], skeleton->ranges_base);
    s->at[DWARF_LINE] = (struct view){0}; /* the skeleton's line table has the files */
    inner.base = (struct dwarf_base){.address = w->base.address, .of_skeleton = true};
    if (dwarf_image_make(&image, s, &e) != 0)
        return false;
    if (dwarf_reader_open(&inner.reader, &image, NULL, &e) == 0)
        found = walk_with_id(&inner, id);
    dwarf_reader_close(inner.reader);
    buf_release(&image.bytes);
    walk_reset(&inner);
    return found;
}

bool split_walk(struct index_build *b, struct unit_walk *w, const struct dwarf_entry *skeleton,
                uint64_t id)
{
    struct dwarf_sections s;
    struct err e;
    if (split_package_find(&b->package, id, &s))
        return walk_sections(b, w, skeleton, &s, id);
    struct elf_file *f = open_file(b, skeleton, id);
    bool found =
        f && dwarf_sections_read(&s, f, true, &e) == 0 && walk_sections(b, w, skeleton, &s, id);
    elf_file_close(f);
    return found;
}
