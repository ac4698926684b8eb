/* Feeds one unit, its entries and its line table, to a maker. */

#include <dwarf.h>

#include "base/monotonic.h"
#include "symbols/index/index_walk.h"

#define SPEND_AT_ONCE 1024u

void walk_reset(struct unit_walk *w)
{
    map_release(&w->names);
}

bool walk_spend(struct unit_walk *w)
{
    struct walk_budget *b = w->budget;
    if (++w->spent < SPEND_AT_ONCE)
        return !w->maker->failed;
    w->spent = 0;
    uint64_t left = atomic_fetch_sub(&b->left, SPEND_AT_ONCE);
    if (left < SPEND_AT_ONCE || left > UINT64_MAX / 2) {
        atomic_store(&b->left, 0);
        w->maker->fault = "more entries than the file's size allows for";
        return false;
    }
    if (b->deadline_ns && !atomic_load(&b->late) && (uint64_t)monotonic_ns() > b->deadline_ns)
        atomic_store(&b->late, true);
    if (atomic_load(&b->late)) {
        w->maker->fault = "the time for this image is over";
        return false;
    }
    if (maker_bytes(w->maker) > b->maker_bytes) {
        w->maker->fault = "one unit needs more memory than is allowed";
        return false;
    }
    return !w->maker->failed;
}

/* ---- names */

#define NAME_KNOWN ((uint64_t)1 << 32)

static uint64_t entry_key(bool alternate, uint64_t offset)
{
    return offset << 1 | alternate;
}

/* The name that the entry itself has. True if it is the linkage name, which ends the search. */
static bool own_name(const struct dwarf_entry *entry, const char **name)
{
    if (entry->linkage_name && entry->linkage_name[0]) {
        *name = entry->linkage_name;
        return true;
    }
    if (!*name && entry->name && entry->name[0])
        *name = entry->name;
    return false;
}

/*
 * The name of a function. Follows abstract origins and specifications, which may be in other units,
 * to a linkage name; without one, uses the plain name.
 */
static uint32_t far_name(struct unit_walk *w, const struct dwarf_entry *first)
{
    struct dwarf_reference todo[WALK_HOPS];
    struct dwarf_entry entry = *first;
    const char *name = NULL;
    unsigned n = 0;
    for (unsigned next = 0; !own_name(&entry, &name); next++) {
        struct dwarf_node node;
        if (entry.origin.present && n < WALK_HOPS)
            todo[n++] = entry.origin;
        if (entry.specification.present && n < WALK_HOPS)
            todo[n++] = entry.specification;
        entry = (struct dwarf_entry){0};
        if (next == n)
            break;
        if (dwarf_node_at(w->reader, todo[next].alternate, todo[next].offset, &node) != 1)
            continue;
        if (dwarf_node_read(&node, &entry) != 1)
            entry = (struct dwarf_entry){0};
    }
    return maker_string(w->maker, name);
}

/* As far_name, cached by the entry that this one refers to. */
static uint32_t name_of(struct unit_walk *w, const struct dwarf_entry *entry)
{
    struct dwarf_reference from = entry->origin.present ? entry->origin : entry->specification;
    if (!from.present || entry->name || entry->linkage_name)
        return far_name(w, entry);
    uint64_t *known = map_add(&w->names, entry_key(from.alternate, from.offset), NULL);
    if (!known) {
        w->maker->failed = true;
        return 0;
    }
    if (*known & NAME_KNOWN)
        return (uint32_t)*known;
    uint32_t name = far_name(w, entry);
    *known = NAME_KNOWN | name;
    return name;
}

/* ---- functions */

struct range_sink {
    struct unit_walk *walk;
    uint32_t scope;
};

static bool take_range(void *user, uint64_t low, uint64_t high)
{
    struct range_sink *sink = user;
    maker_scope_range(sink->walk->maker, sink->scope, low, high);
    return walk_spend(sink->walk);
}

static bool has_code(const struct dwarf_entry *entry)
{
    return entry->has_ranges || (entry->has_low && entry->has_high);
}

/*
 * Adds the scope of a function with code, or of an inlined one. Returns its number + 1, else
 * `outer`.
 */
static uint32_t add_function(struct unit_walk *w, struct dwarf_node *node,
                             const struct dwarf_entry *entry, bool inlined, uint32_t outer)
{
    if (!has_code(entry))
        return inlined ? outer : 0;
    struct block_scope scope = {.parent = inlined ? outer : 0,
                                .name = name_of(w, entry),
                                .flags = inlined ? SCOPE_INLINED : 0,
                                .call_line = entry->call_line,
                                .call_column = entry->call_column};
    if (inlined) /* a missing call file reads as 0, valid only in DWARF 5 */
        scope.call_file = maker_file_number(w->maker, entry->call_file);
    struct range_sink sink = {w, maker_scope(w->maker, &scope)};
    if (!entry->has_ranges)
        maker_scope_range(w->maker, sink.scope, entry->low, entry->high);
    else if (dwarf_node_ranges(node, w->base, take_range, &sink) < 0 && !w->maker->fault)
        w->maker->fault = "ranges that cannot be read";
    return sink.scope;
}

/* Whether entries with this tag may contain functions. */
static bool may_hold_functions(unsigned tag)
{
    switch (tag) {
    case DW_TAG_enumeration_type:
    case DW_TAG_array_type:
    case DW_TAG_subroutine_type:
    case DW_TAG_call_site:
    case DW_TAG_GNU_call_site:
    case DW_TAG_formal_parameter:
    case DW_TAG_variable:
    case DW_TAG_template_type_parameter:
    case DW_TAG_GNU_template_template_param:
    case DW_TAG_GNU_template_parameter_pack:
    case DW_TAG_GNU_formal_parameter_pack:
        return false;
    default:
        return true;
    }
}

/* An entry on the path from the unit's first entry to the current one. */
struct level {
    struct dwarf_node node;
    uint32_t scope; /* the scope of its parent */
};

/*
 * Whether the walk moved forward from the last offset, *before. Sibling attributes are untrusted.
 * If one leads back, the walk of the unit stops, since it would never end.
 */
static bool is_behind(struct unit_walk *w, struct dwarf_node *node, uint64_t *before)
{
    uint64_t offset = dwarf_dieoffset(&node->die);
    bool behind = offset > *before;
    if (!behind)
        w->maker->fault = "an entry that comes after itself";
    *before = offset;
    return behind;
}

/* Visits one entry; *inner becomes the scope of its children. Returns whether to visit them. */
static bool visit(struct unit_walk *w, struct level *at, uint32_t *inner)
{
    struct dwarf_entry entry;
    unsigned tag = dwarf_node_tag(&at->node);
    *inner = at->scope;
    if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine)
        return may_hold_functions(tag);
    if (!dwarf_node_has_code(&at->node)) {
        if (tag == DW_TAG_subprogram)
            *inner = 0;
        return tag != DW_TAG_subprogram || !dwarf_node_declares(&at->node);
    }
    if (dwarf_node_read(&at->node, &entry) != 1) {
        w->maker->fault = "an entry that cannot be read";
        return false;
    }
    *inner = add_function(w, &at->node, &entry, tag == DW_TAG_inlined_subroutine, at->scope);
    return true;
}

/* Moves to the next entry after this one or its nearest ancestor. Returns the remaining depth. */
static size_t advance(struct unit_walk *w, struct level *levels, size_t depth)
{
    while (depth > 0) {
        struct level *top = &levels[depth - 1];
        struct dwarf_node next;
        int status = dwarf_node_sibling(&top->node, &next);
        if (status == 1) {
            top->node = next;
            return depth;
        }
        if (status < 0)
            w->maker->fault = "an entry whose end cannot be found";
        depth--;
    }
    return 0;
}

void walk_functions(struct unit_walk *w, struct dwarf_node *root)
{
    size_t depth = 0, cap = 64;
    uint64_t before = 0;
    struct level *levels = malloc(cap * sizeof *levels);
    if (!levels) {
        w->maker->failed = true;
        return;
    }
    int status = dwarf_node_child(root, &levels[0].node);
    levels[0].scope = 0;
    depth = status == 1;
    if (status < 0)
        w->maker->fault = "the first entry cannot be read";
    while (depth > 0 && is_behind(w, &levels[depth - 1].node, &before) && walk_spend(w)) {
        struct dwarf_node child;
        uint32_t inner;
        bool down = visit(w, &levels[depth - 1], &inner);
        if (down && depth == WALK_DEPTH) {
            w->maker->fault = "entries that lie too deep";
            down = false;
        }
        if (depth == cap && !vec_grow_raw((void **)&levels, &cap, depth + 1, sizeof *levels)) {
            w->maker->failed = true;
            break;
        }
        if (down && dwarf_node_child(&levels[depth - 1].node, &child) == 1)
            levels[depth++] = (struct level){child, inner};
        else
            depth = advance(w, levels, depth);
    }
    free(levels);
}

/* ---- lines */

static bool take_file(void *user, uint32_t number, struct view path)
{
    struct unit_walk *w = user;
    maker_file(w->maker, number, path);
    return walk_spend(w);
}

static bool take_row(void *user, const struct dwarf_row *row)
{
    struct unit_walk *w = user;
    maker_row(w->maker, row);
    return walk_spend(w);
}

void walk_lines(struct unit_walk *w, struct dwarf_node *root)
{
    const struct dwarf_line_sink sink = {.file = take_file, .row = take_row, .user = w};
    if (dwarf_node_lines(root, &sink) < 0 && !w->maker->fault)
        w->maker->fault = "a line table that cannot be read";
}

bool walk_unit_ranges(struct dwarf_node *root, const struct dwarf_entry *entry, dwarf_range_fn *fn,
                      void *user)
{
    struct dwarf_base base = {.address = entry->has_low ? entry->low : 0};
    if (entry->has_ranges)
        return dwarf_node_ranges(root, base, fn, user) == 1;
    if (entry->has_low && entry->has_high && entry->high > entry->low)
        return fn(user, entry->low, entry->high);
    return false;
}
