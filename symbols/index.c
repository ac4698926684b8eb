/* Looking up, in what was built or loaded. */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#include "symbols/demangle.h"
#include "symbols/index_ahead.h"
#include "symbols/index_parts.h"

void symbol_index_free(struct symbol_index *x)
{
    if (!x)
        return;
    for (size_t i = 0; i < x->units.len; i++) {
        if (x->units.at[i].owned)
            free((void *)x->units.at[i].block.p);
    }
    vec_release(&x->units);
    vec_release(&x->ranges);
    for (size_t i = 0; i < x->names.len; i++) {
        if (x->names.at[i].owned)
            free((void *)x->names.at[i].function.p);
    }
    vec_release(&x->names);
    map_release(&x->name_by_hash);
    buf_release(&x->room);
    if (x->mapped)
        munmap(x->mapped, x->mapped_size);
    free(x);
}

/* ---- units by address */

static const struct index_range *range_at(const struct symbol_index *x, uint64_t address)
{
    size_t low = 0, high = x->ranges.len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (x->ranges.at[middle].low <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct index_range *r = low > 0 ? &x->ranges.at[low - 1] : NULL;
    return r && address < r->high && r->unit < x->units.len ? r : NULL;
}

struct index_unit *index_unit_at(const struct symbol_index *x, uint64_t address)
{
    const struct index_range *r = range_at(x, address);
    return r ? &x->units.at[r->unit] : NULL;
}

bool symbol_index_covers(const struct symbol_index *x, uint64_t address)
{
    return range_at(x, address) != NULL;
}

bool symbol_index_lacks(const struct symbol_index *x, const uint64_t *addresses, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct index_unit *u = index_unit_at(x, addresses[i]);
        if (u && u->state == UNIT_WAITING)
            return true;
    }
    return false;
}

struct claim_end {
    uint64_t address;
    uint32_t unit;
    bool begins;
};

static int compare_ends(const void *a, const void *b)
{
    const struct claim_end *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

/* How often each unit claims the address at hand, and which do, as a heap with the lowest on top.
 */
struct claimants {
    uint32_t *count;
    uint32_t *heap;
    size_t len;
};

static void claimants_push(struct claimants *c, uint32_t unit)
{
    size_t i = c->len++;
    for (; i > 0 && c->heap[(i - 1) / 2] > unit; i = (i - 1) / 2)
        c->heap[i] = c->heap[(i - 1) / 2];
    c->heap[i] = unit;
}

static void claimants_pop(struct claimants *c)
{
    uint32_t last = c->heap[--c->len];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < c->len; i = child) {
        if (child + 1 < c->len && c->heap[child + 1] < c->heap[child])
            child++;
        if (c->heap[child] >= last)
            break;
        c->heap[i] = c->heap[child];
    }
    c->heap[i] = last;
}

static bool add_range(struct symbol_index *x, uint64_t low, uint64_t high, struct claimants *c)
{
    struct index_range *last = x->ranges.len ? &x->ranges.at[x->ranges.len - 1] : NULL;
    if (last && last->high == low && c->count[last->unit] > 0) {
        last->high = high;
        return true;
    }
    while (c->len > 0 && c->count[c->heap[0]] == 0)
        claimants_pop(c);
    if (c->len == 0)
        return true;
    return vec_push(&x->ranges, (struct index_range){.low = low, .high = high, .unit = c->heap[0]});
}

static bool sweep(struct symbol_index *x, const struct claim_end *ends, size_t n,
                  struct claimants *c)
{
    size_t open = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && ends[i - 1].address < ends[i].address && open > 0 &&
            !add_range(x, ends[i - 1].address, ends[i].address, c))
            return false;
        if (ends[i].begins) {
            open++;
            c->count[ends[i].unit]++;
            claimants_push(c, ends[i].unit);
        } else {
            open--;
            c->count[ends[i].unit]--;
        }
    }
    return true;
}

bool index_settle(struct symbol_index *x, unit_claims *claims)
{
    size_t n = claims->len;
    struct claim_end *ends = calloc(2 * n + 1, sizeof *ends);
    struct claimants c = {.count = calloc(x->units.len + 1, sizeof(uint32_t)),
                          .heap = calloc(n + 1, sizeof(uint32_t))};
    bool fits = ends && c.count && c.heap;
    x->ranges.len = 0;
    if (fits) {
        for (size_t i = 0; i < n; i++) {
            const struct unit_claim *claim = &claims->at[i];
            ends[2 * i] = (struct claim_end){claim->low, claim->unit, true};
            ends[2 * i + 1] = (struct claim_end){claim->high, claim->unit, false};
        }
        qsort(ends, 2 * n, sizeof *ends, compare_ends);
        fits = sweep(x, ends, 2 * n, &c);
    }
    free(ends);
    free(c.count);
    free(c.heap);
    return fits;
}

/* ---- names */

uint64_t index_hash(struct view linkage)
{
    return XXH3_64bits(linkage.p, linkage.len);
}

bool index_add_name(struct symbol_index *x, uint64_t hash, const struct index_name *name)
{
    bool fresh;
    uint64_t *slot = map_add(&x->name_by_hash, hash, &fresh);
    if (!slot || !vec_push(&x->names, *name))
        return false;
    if (fresh || *slot == 0)
        *slot = x->names.len;
    return true;
}

static const struct index_name *find_name(const struct symbol_index *x, uint64_t hash,
                                          struct view linkage)
{
    const uint64_t *slot = map_find(&x->name_by_hash, hash);
    if (!slot || *slot == 0)
        return NULL;
    const struct index_name *name = &x->names.at[*slot - 1];
    return view_equal(name->linkage, linkage) ? name : NULL;
}

/* The name as people write it; the linkage name where there is none or memory is short. */
static struct view function_name(struct symbol_index *x, struct view linkage)
{
    if (linkage.len == 0 || linkage.p[0] != '_')
        return linkage;
    uint64_t hash = index_hash(linkage);
    const struct index_name *known = find_name(x, hash, linkage);
    if (known)
        return known->function;
    struct index_name name = {.linkage = linkage, .function = linkage};
    buf_clear(&x->room);
    x->room.failed = false;
    if (demangle(linkage.p, &x->room) && !x->room.failed) {
        char *text = malloc(x->room.len + 1);
        if (!text)
            return linkage;
        memcpy(text, x->room.data, x->room.len);
        text[x->room.len] = 0;
        name.function = (struct view){text, x->room.len};
        name.owned = true;
    }
    if (!index_add_name(x, hash, &name)) {
        if (name.owned)
            free((void *)name.function.p);
        return linkage;
    }
    x->bytes += name.owned ? name.function.len + 1 : 0;
    return name.function;
}

/* The name as people write it, of memory of its own behind which the linkage name is, too. */
static bool make_name(struct symbol_index *x, struct view linkage, struct index_name *name)
{
    buf_clear(&x->room);
    x->room.failed = false;
    buf_put(&x->room, linkage.p, linkage.len);
    struct buf function = {0};
    bool changed = demangle(buf_str(&x->room), &function) && !function.failed;
    struct view text = changed ? (struct view){(const char *)function.data, function.len} : linkage;
    char *p = x->room.failed || function.failed ? NULL : malloc(text.len + linkage.len + 2);
    if (p) {
        memcpy(p, text.p, text.len);
        p[text.len] = 0;
        memcpy(p + text.len + 1, linkage.p, linkage.len);
        p[text.len + 1 + linkage.len] = 0;
        *name = (struct index_name){
            .linkage = {p + text.len + 1, linkage.len}, .function = {p, text.len}, .owned = true};
    }
    buf_release(&function);
    return p != NULL;
}

struct view symbol_index_name(struct symbol_index *x, struct view linkage)
{
    struct index_name name;
    if (linkage.len == 0 || linkage.len > MANGLED_MAX || linkage.p[0] != '_')
        return linkage;
    uint64_t hash = index_hash(linkage);
    const struct index_name *known = find_name(x, hash, linkage);
    if (known)
        return known->function;
    if (!make_name(x, linkage, &name))
        return linkage;
    if (!index_add_name(x, hash, &name)) {
        free((void *)name.function.p);
        return linkage;
    }
    x->bytes += name.function.len + linkage.len + 2;
    return name.function;
}

static size_t text_slot(const char *p)
{
    return ((uintptr_t)p * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & (INDEX_TEXTS - 1);
}

/* A text of a block, and if `named` the name that people write for it. */
static struct index_text text_at(struct symbol_index *x, const char *p, bool named)
{
    struct index_text *t = &x->texts[text_slot(p)];
    if (t->text.p != p)
        *t = (struct index_text){.text = view_of(p)};
    if (named && !t->function.p)
        t->function = function_name(x, t->text);
    return *t;
}

/* ---- frames */

/* What is known of the place in a frame: of the address itself, or of a call. */
struct place {
    uint32_t file, line, column;
};

static void set_place(struct symbol_index *x, struct symbol_frame *f, const struct block *b,
                      const struct place *p)
{
    f->file = text_at(x, block_file(b, p->file), false).text;
    f->line = p->line;
    f->column = p->column;
}

static void set_function(struct symbol_index *x, struct symbol_frame *f, const struct block *b,
                         const struct block_scope *scope)
{
    struct index_text name = text_at(x, block_string(b, scope->name), true);
    f->linkage = name.text;
    f->function = name.function;
    f->inlined = (scope->flags & SCOPE_INLINED) != 0;
    f->function_address = scope->low == UINT32_MAX ? 0 : b->header.base + scope->low;
}

/* From the innermost scope outwards; each says where it was called, in the frame after it. */
static size_t give_frames(struct symbol_index *x, const struct block *b, uint32_t scope,
                          struct place at, struct symbol_frame *frames, size_t max)
{
    size_t n = 0;
    while (scope != 0) {
        const struct block_scope *s = &b->scopes[scope - 1];
        if (n < max) {
            frames[n] = (struct symbol_frame){0};
            set_place(x, &frames[n], b, &at);
            set_function(x, &frames[n], b, s);
        }
        n++;
        at = (struct place){s->call_file, s->call_line, s->call_column};
        /* Lower numbers only, so that it comes to an end whatever a cache file says. */
        scope = (s->flags & SCOPE_INLINED) && s->parent < scope ? s->parent : 0;
    }
    return n;
}

/* The unit's block; the next look-up is often in the same. NULL when it is none. */
static const struct block *open_block(struct symbol_index *x, const struct index_unit *u)
{
    if (!u || u->state == UNIT_WAITING)
        return NULL;
    if (x->at_hand_bytes == u->block.p)
        return &x->at_hand;
    x->at_hand_bytes = NULL;
    x->near_row = x->near_segment = 0;
    if (!block_open(&x->at_hand, u->block))
        return NULL;
    x->at_hand_bytes = u->block.p;
    return &x->at_hand;
}

void symbol_index_find(struct symbol_index *x, uint64_t address, struct symbol_index_place *at)
{
    const struct block *b = open_block(x, index_unit_at(x, address));
    *at = (struct symbol_index_place){.known = b != NULL};
    if (!b)
        return;
    at->block = *b;
    at->row = block_row_at(b, address, &x->near_row);
    at->scope = block_scope_at(b, address, &x->near_segment);
    if (at->scope)
        __builtin_prefetch(&b->scopes[at->scope - 1]);
}

static void fetch_text(const struct symbol_index *x, const struct block *b, uint32_t string)
{
    if (string < b->header.n_strings)
        __builtin_prefetch(&x->texts[text_slot(b->strings + string)]);
}

static void fetch_file(const struct symbol_index *x, const struct block *b, uint32_t file)
{
    if (file > 0 && file <= b->header.n_files)
        fetch_text(x, b, b->files[file - 1]);
}

/* As give_frames goes, but not far: few frames are deeper, and more would drive each other out. */
void symbol_index_fetch(const struct symbol_index *x, const struct symbol_index_place *at)
{
    uint32_t scope = at->scope;
    if (at->row)
        fetch_file(x, &at->block, at->row->file);
    for (unsigned depth = 0; depth < 8 && scope != 0; depth++) {
        const struct block_scope *s = &at->block.scopes[scope - 1];
        fetch_text(x, &at->block, s->name);
        fetch_file(x, &at->block, s->call_file);
        scope = (s->flags & SCOPE_INLINED) && s->parent < scope ? s->parent : 0;
    }
}

bool symbol_index_take(struct symbol_index *x, const struct symbol_index_place *found,
                       struct symbol_frame *frames, size_t max, size_t *n)
{
    const struct block_row *row = found->row;
    struct place at = {0};
    *n = 0;
    if (!found->known)
        return false;
    if (row)
        at = (struct place){row->file, row->line, row->column};
    *n = give_frames(x, &found->block, found->scope, at, frames, max);
    if (found->scope != 0 || !row)
        return found->scope != 0;
    *n = 1;
    if (max > 0) {
        frames[0] = (struct symbol_frame){0};
        set_place(x, &frames[0], &found->block, &at);
    }
    return true;
}

bool symbol_index_lookup(struct symbol_index *x, uint64_t address, struct symbol_frame *frames,
                         size_t max, size_t *n)
{
    struct symbol_index_place at;
    symbol_index_find(x, address, &at);
    return symbol_index_take(x, &at, frames, max, n);
}

void symbol_index_facts(const struct symbol_index *x, struct index_facts *out)
{
    *out = (struct index_facts){
        .units = x->units.len, .bytes = x->bytes + x->mapped_size, .back_end = x->back_end};
    for (size_t i = 0; i < x->units.len; i++) {
        const struct index_unit *u = &x->units.at[i];
        out->units_built += u->state != UNIT_WAITING;
        out->units_incomplete += u->state == UNIT_PARTLY;
        out->splits_missing += (u->flags & UNIT_SPLIT_MISSING) != 0;
    }
    memcpy(out->first_fault, x->fault, sizeof out->first_fault);
}
