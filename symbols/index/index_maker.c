/* Turns the data that a walk found in one unit into a block. */

#include <elf.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/order.h"
#include "symbols/elf/elf_file.h"
#include "symbols/index/index_maker.h"

/* ---- code ranges */

static int compare_ranges(const void *a, const void *b)
{
    const struct code_range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

static void merge_ranges(struct code_map *m)
{
    size_t n = 0;
    if (m->ranges.len > 0)
        qsort(m->ranges.at, m->ranges.len, sizeof *m->ranges.at, compare_ranges);
    for (size_t i = 0; i < m->ranges.len; i++) {
        struct code_range r = m->ranges.at[i];
        if (n > 0 && r.low <= m->ranges.at[n - 1].high) {
            if (r.high > m->ranges.at[n - 1].high)
                m->ranges.at[n - 1].high = r.high;
        } else {
            m->ranges.at[n++] = r;
        }
    }
    m->ranges.len = n;
}

static bool add_code(struct code_map *m, uint64_t low, uint64_t size)
{
    uint64_t high;
    if (size == 0 || __builtin_add_overflow(low, size, &high))
        return true;
    return vec_push(&m->ranges, (struct code_range){low, high});
}

bool code_map_read(struct code_map *m, const struct elf_file *f)
{
    bool fits = true;
    for (size_t i = 0; fits && i < elf_file_section_count(f); i++) {
        const struct elf_section *s = elf_file_section_at(f, i);
        if ((s->flags & SHF_EXECINSTR) && (s->flags & SHF_ALLOC))
            fits = add_code(m, s->address, s->size);
    }
    for (size_t i = 0; fits && m->ranges.len == 0 && i < elf_file_segment_count(f); i++) {
        const struct elf_segment *s = elf_file_segment_at(f, i);
        if (s->flags & PF_X)
            fits = add_code(m, s->address, s->memory_size);
    }
    merge_ranges(m);
    return fits;
}

void code_map_release(struct code_map *m)
{
    vec_release(&m->ranges);
}

bool code_map_has(const struct code_map *m, uint64_t low, uint64_t high)
{
    size_t first = 0, last = m->ranges.len;
    if (last == 0)
        return low != 0;
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (m->ranges.at[middle].low <= low)
            first = middle + 1;
        else
            last = middle;
    }
    return first > 0 && high <= m->ranges.at[first - 1].high && low < m->ranges.at[first - 1].high;
}

/* ---- collecting */

void maker_init(struct unit_maker *m, const struct code_map *code)
{
    *m = (struct unit_maker){.code = code};
    maker_reset(m);
}

void maker_release(struct unit_maker *m)
{
    vec_release(&m->scopes);
    vec_release(&m->ranges);
    vec_release(&m->rows);
    vec_release(&m->paths);
    vec_release(&m->slots);
    vec_release(&m->files);
    vec_release(&m->texts);
    buf_release(&m->path_text);
    buf_release(&m->strings);
    map_release(&m->string_places);
}

void maker_reset(struct unit_maker *m)
{
    m->scopes.len = m->ranges.len = m->rows.len = 0;
    m->paths.len = m->slots.len = m->files.len = m->texts.len = 0;
    m->failed = m->scoped = false;
    m->fault = NULL;
    buf_clear(&m->path_text);
    buf_clear(&m->strings);
    m->path_text.failed = m->strings.failed = false;
    map_release(&m->string_places);
    buf_u8(&m->strings, 0);
}

uint64_t maker_bytes(const struct unit_maker *m)
{
    return m->scopes.cap * sizeof *m->scopes.at + m->ranges.cap * sizeof *m->ranges.at +
           m->rows.cap * sizeof *m->rows.at +
           (m->paths.cap + m->slots.cap + m->files.cap + m->texts.cap) * sizeof(uint32_t) +
           m->path_text.cap + m->strings.cap +
           (m->string_places.slots ? (m->string_places.mask + 1) * 17 : 0);
}

/* Appends a string to one of the two text buffers. Returns its offset; 0 if it does not fit. */
static uint32_t add_text(struct unit_maker *m, struct buf *to, const char *text, size_t len)
{
    size_t at = to->len;
    if (len >= UINT32_MAX - at) {
        m->fault = "more than 4 GiB of names";
        return 0;
    }
    buf_put(to, text, len);
    buf_u8(to, 0);
    m->failed = m->failed || to->failed;
    return (uint32_t)at;
}

uint32_t maker_string(struct unit_maker *m, const char *text)
{
    bool fresh;
    if (!text || !text[0])
        return 0;
    uint64_t *place = map_add(&m->string_places, (uintptr_t)text, &fresh);
    if (!place) {
        m->failed = true;
        return 0;
    }
    if (fresh)
        *place = add_text(m, &m->strings, text, strlen(text));
    return (uint32_t)*place;
}

uint32_t maker_text(struct unit_maker *m, struct view text)
{
    return text.len ? add_text(m, &m->strings, text.p, text.len) : 0;
}

uint32_t maker_scope(struct unit_maker *m, const struct block_scope *scope)
{
    if (m->scopes.len >= UINT32_MAX - 1 ||
        !vec_push(&m->scopes, (struct maker_scope){.scope = *scope, .low = UINT64_MAX})) {
        m->failed = true;
        return 0;
    }
    return (uint32_t)m->scopes.len;
}

void maker_scope_range(struct unit_maker *m, uint32_t scope, uint64_t low, uint64_t high)
{
    if (scope == 0 || low >= high || !code_map_has(m->code, low, high))
        return;
    struct maker_scope *s = &m->scopes.at[scope - 1];
    if (low < s->low)
        s->low = low;
    if (m->ranges.len >= UINT32_MAX / 2 ||
        !vec_push(&m->ranges, (struct maker_range){low, high, scope}))
        m->failed = true;
}

void maker_file(struct unit_maker *m, uint32_t number, struct view path)
{
    /* File numbers grow by one per file, so this loop is bounded by the number of files. */
    while (m->paths.len <= number && !m->failed) {
        if (!vec_push(&m->paths, 0) || !vec_push(&m->slots, 0))
            m->failed = true;
    }
    if (m->failed)
        return;
    if (m->path_text.len == 0)
        buf_u8(&m->path_text, 0);
    m->paths.at[number] = add_text(m, &m->path_text, path.p, path.len);
}

uint32_t maker_file_number(struct unit_maker *m, uint32_t number)
{
    if (number >= m->paths.len || m->paths.at[number] == 0 || m->failed)
        return 0;
    if (m->slots.at[number] == 0) {
        const char *path = (const char *)m->path_text.data + m->paths.at[number];
        uint32_t place = add_text(m, &m->strings, path, strlen(path));
        if (!vec_push(&m->files, place))
            m->failed = true;
        else
            m->slots.at[number] = (uint32_t)m->files.len;
    }
    return m->slots.at[number];
}

uint32_t maker_path(struct unit_maker *m, const char *path)
{
    uint32_t place = maker_string(m, path);
    if (place && !vec_push(&m->files, place))
        m->failed = true;
    return place && !m->failed ? (uint32_t)m->files.len : 0;
}

/*
 * Code that the linker discarded still has rows, far from all code (symbols/index/dwarf_lines.h).
 */
void maker_row(struct unit_maker *m, const struct dwarf_row *row)
{
    if (!row->end && !code_map_has(m->code, row->address, row->address + 1))
        return;
    struct maker_row out = {.address = row->address,
                            .order = (uint32_t)m->rows.len,
                            .line = row->line,
                            .column = row->column <= UINT16_MAX ? (uint16_t)row->column : 0,
                            .end = row->end};
    if (!row->end)
        out.file = maker_file_number(m, row->file);
    if (m->rows.len >= UINT32_MAX / 2 || !vec_push(&m->rows, out))
        m->failed = true;
}

void maker_scope_row(struct unit_maker *m, uint32_t scope, const struct dwarf_row *row)
{
    struct maker_row out = {.address = row->address,
                            .order = (uint32_t)m->rows.len,
                            .scope = scope,
                            .line = row->line,
                            .file = row->file,
                            .column = row->column <= UINT16_MAX ? (uint16_t)row->column : 0,
                            .end = row->end};
    m->scoped = true;
    if (scope == 0 && !row->end && !code_map_has(m->code, row->address, row->address + 1))
        return;
    if (m->rows.len >= UINT32_MAX / 2 || !vec_push(&m->rows, out))
        m->failed = true;
}

/* ---- rows sorted by address, one for each change */

static int compare_rows(const void *a, const void *b)
{
    const struct maker_row *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    if (x->end != y->end)
        return x->end ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static bool same_row(const struct maker_row *a, const struct maker_row *b)
{
    if (a->end || b->end)
        return a->end == b->end;
    return a->line == b->line && a->file == b->file && a->column == b->column;
}

/* Of rows with the same address, keeps the last. Drops a row that repeats the one before it. */
static void thin_rows(struct unit_maker *m)
{
    size_t n = 0;
    struct maker_row *rows = m->rows.at;
    bool in_order = true;
    for (size_t i = 1; i < m->rows.len && in_order; i++)
        in_order = compare_rows(&rows[i - 1], &rows[i]) <= 0;
    if (!in_order)
        qsort(rows, m->rows.len, sizeof *rows, compare_rows);
    for (size_t i = 0; i < m->rows.len; i++) {
        if (i + 1 < m->rows.len && rows[i + 1].address == rows[i].address)
            continue;
        if (n == 0 ? !rows[i].end : !same_row(&rows[n - 1], &rows[i]))
            rows[n++] = rows[i];
    }
    m->rows.len = n;
}

/* ---- scopes that do not overlap */

static int compare_maker_ranges(const void *a, const void *b)
{
    const struct maker_range *x = a, *y = b;
    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    return (x->scope > y->scope) - (x->scope < y->scope);
}

/* A heap of range numbers, the latest scope on top. */
struct heap {
    uint32_t *at;
    size_t len;
    const struct maker_range *ranges;
};

static void heap_push(struct heap *h, uint32_t range)
{
    const struct maker_range *r = h->ranges;
    h->at[h->len++] = range;
    HEAP_UP(h->at, h->len - 1, a, b, r[h->at[a]].scope > r[h->at[b]].scope);
}

static void heap_pop(struct heap *h)
{
    const struct maker_range *r = h->ranges;
    h->at[0] = h->at[--h->len];
    HEAP_DOWN(h->at, h->len, 0, a, b, r[h->at[a]].scope > r[h->at[b]].scope);
}

struct cut {
    uint64_t start;
    uint32_t scope;
};

typedef VEC(struct cut) cuts;

static bool add_cut(cuts *out, uint64_t start, uint32_t scope)
{
    if (out->len == 0 ? scope == 0 : out->at[out->len - 1].scope == scope)
        return true;
    return vec_push(out, (struct cut){start, scope});
}

/* Splits the ranges where a later scope begins or ends. */
static bool cut_ranges(const struct unit_maker *m, cuts *out)
{
    size_t n = m->ranges.len, next = 0;
    const struct maker_range *r = m->ranges.at;
    struct heap h = {.at = calloc(n ? n : 1, sizeof(uint32_t)), .ranges = r};
    uint64_t at = 0;
    bool fits = h.at != NULL;
    while (fits && (next < n || h.len > 0)) {
        while (h.len > 0 && r[h.at[0]].high <= at)
            heap_pop(&h);
        if (h.len == 0) {
            fits = add_cut(out, at, 0);
            if (next == n)
                break;
            if (r[next].low > at)
                at = r[next].low;
        }
        while (next < n && r[next].low <= at)
            heap_push(&h, (uint32_t)next++);
        while (h.len > 0 && r[h.at[0]].high <= at)
            heap_pop(&h);
        if (h.len == 0)
            continue;
        fits = fits && add_cut(out, at, r[h.at[0]].scope);
        at = r[h.at[0]].high;
        if (next < n && r[next].low < at)
            at = r[next].low;
    }
    free(h.at);
    return fits;
}

/* ---- rows of scopes, cut to where their scope is the innermost one */

static int compare_scope_rows(const void *a, const void *b)
{
    const struct maker_row *x = a, *y = b;
    if (x->scope != y->scope)
        return x->scope < y->scope ? -1 : 1;
    return compare_rows(a, b);
}

/* Adds the rows of a scope between two addresses; at `low` the one that holds there. */
static bool place_rows(struct unit_maker *m, const struct maker_row *rows, size_t n, struct cut cut,
                       uint64_t high)
{
    size_t first = 0;
    BISECT(first, n, i,
           rows[i].scope < cut.scope ||
               (rows[i].scope == cut.scope && rows[i].address <= cut.start));
    struct maker_row at = {.end = true};
    if (first > 0 && rows[first - 1].scope == cut.scope)
        at = rows[first - 1];
    at.address = cut.start;
    at.order = 0;
    bool fits = vec_push(&m->rows, at);
    for (; fits && first < n && rows[first].scope == cut.scope && rows[first].address < high;
         first++)
        fits = vec_push(&m->rows, rows[first]);
    return fits;
}

/* Replaces the rows of scopes by rows that hold for all addresses. */
static bool flatten_rows(struct unit_maker *m, const cuts *cut)
{
    struct maker_row *rows = m->rows.at;
    size_t n = m->rows.len;
    bool fits = true;
    if (!m->scoped)
        return true;
    if (n > 0)
        qsort(rows, n, sizeof *rows, compare_scope_rows);
    m->rows.at = NULL;
    m->rows.len = m->rows.cap = 0;
    if (cut->len == 0 || cut->at[0].start > 0)
        fits = place_rows(m, rows, n, (struct cut){0, 0}, cut->len ? cut->at[0].start : UINT64_MAX);
    for (size_t i = 0; fits && i < cut->len; i++)
        fits = place_rows(m, rows, n, cut->at[i],
                          i + 1 < cut->len ? cut->at[i + 1].start : UINT64_MAX);
    free(rows);
    return fits;
}

/* ---- keeps only reachable data: scopes with addresses, their parents, and their strings */

/* Converts the offset of a string to the number + 1 of a text. */
static bool keep_string(struct unit_maker *m, struct buf *kept, uint32_t *place)
{
    bool fresh;
    if (*place == 0)
        return true;
    const char *text = (const char *)m->strings.data + *place;
    uint64_t *number = map_add(&m->string_places, *place, &fresh);
    if (!number)
        return false;
    if (fresh) {
        if (!vec_push(&m->texts, (uint32_t)kept->len))
            return false;
        *number = m->texts.len;
        buf_put(kept, text, strlen(text) + 1);
    }
    *place = (uint32_t)*number;
    return true;
}

static bool keep_strings(struct unit_maker *m)
{
    struct buf kept = {0};
    bool fits = true;
    map_release(&m->string_places); /* from here on keyed by the old offset */
    buf_u8(&kept, 0);
    for (size_t i = 0; fits && i < m->scopes.len; i++)
        fits = keep_string(m, &kept, &m->scopes.at[i].scope.name);
    for (size_t i = 0; fits && i < m->files.len; i++)
        fits = keep_string(m, &kept, &m->files.at[i]);
    fits = fits && !kept.failed;
    buf_release(&m->strings);
    m->strings = kept;
    return fits;
}

/* Keeps the order of scopes, so that parents still precede children. */
static bool keep_scopes(struct unit_maker *m, cuts *cut)
{
    size_t n = m->scopes.len, kept = 0;
    struct maker_scope *scopes = m->scopes.at;
    uint32_t *numbers = calloc(n + 1, sizeof *numbers); /* new number + 1, by old number + 1 */
    if (!numbers)
        return false;
    for (size_t i = 0; i < cut->len; i++)
        numbers[cut->at[i].scope] = 1;
    for (size_t i = n; i > 0; i--) {
        if (numbers[i])
            numbers[scopes[i - 1].scope.parent] = 1;
    }
    numbers[0] = 0;
    for (size_t i = 1; i <= n; i++) {
        if (!numbers[i])
            continue;
        scopes[kept] = scopes[i - 1];
        scopes[kept].scope.parent = numbers[scopes[kept].scope.parent];
        numbers[i] = (uint32_t)++kept;
    }
    for (size_t i = 0; i < cut->len; i++)
        cut->at[i].scope = numbers[cut->at[i].scope];
    m->scopes.len = kept;
    free(numbers);
    return true;
}

/* ---- the block */

static uint64_t lowest(const struct unit_maker *m, const cuts *cut)
{
    uint64_t low = UINT64_MAX;
    if (m->rows.len > 0)
        low = m->rows.at[0].address;
    if (cut->len > 0 && cut->at[0].start < low)
        low = cut->at[0].start;
    return low == UINT64_MAX ? 0 : low;
}

/* Counts the sorted records whose offset fits into 32 bits. */
#define COUNT_NEAR(RECORDS, MEMBER, BASE, OUT)                                                     \
    for (*(OUT) = (uint32_t)(RECORDS)->len;                                                        \
         *(OUT) > 0 && (RECORDS)->at[*(OUT)-1].MEMBER - (BASE) >= UINT32_MAX; --*(OUT))

static void fill(const struct unit_maker *m, const cuts *cut, struct block *b)
{
    struct block_scope *scopes = (struct block_scope *)b->scopes;
    struct block_segment *segments = (struct block_segment *)b->segments;
    struct block_row *rows = (struct block_row *)b->rows;
    uint64_t base = b->header.base;
    for (uint32_t i = 0; i < b->header.n_scopes; i++) {
        uint64_t low = m->scopes.at[i].low;
        scopes[i] = m->scopes.at[i].scope;
        scopes[i].low = low - base < UINT32_MAX ? (uint32_t)(low - base) : UINT32_MAX;
    }
    for (uint32_t i = 0; cut->at && i < b->header.n_segments; i++)
        segments[i] = (struct block_segment){(uint32_t)(cut->at[i].start - base), cut->at[i].scope};
    for (uint32_t i = 0; i < b->header.n_rows; i++) {
        const struct maker_row *r = &m->rows.at[i];
        rows[i] = (struct block_row){.start = (uint32_t)(r->address - base),
                                     .line = r->line,
                                     .file = r->file,
                                     .column = r->column,
                                     .flags = r->end ? ROW_GAP : 0};
    }
    if (m->files.len > 0)
        memcpy((void *)b->files, m->files.at, m->files.len * sizeof(uint32_t));
    if (m->texts.len > 0)
        memcpy((void *)b->texts, m->texts.at, m->texts.len * sizeof(uint32_t));
    memset(b->names, 0, m->texts.len * sizeof(uint32_t));
    memcpy((void *)b->strings, m->strings.data, m->strings.len);
}

void *maker_finish(struct unit_maker *m, size_t *size)
{
    cuts cut = {0};
    struct block b = {0};
    void *bytes = NULL;
    if (m->ranges.len > 0)
        qsort(m->ranges.at, m->ranges.len, sizeof *m->ranges.at, compare_maker_ranges);
    if (m->failed || m->strings.failed || !cut_ranges(m, &cut) || !flatten_rows(m, &cut))
        goto out;
    thin_rows(m);
    if (!keep_scopes(m, &cut) || !keep_strings(m))
        goto out;
    b.header = (struct block_header){.base = lowest(m, &cut),
                                     .n_scopes = (uint32_t)m->scopes.len,
                                     .n_files = (uint32_t)m->files.len,
                                     .n_strings = (uint32_t)m->strings.len,
                                     .n_texts = (uint32_t)m->texts.len};
    COUNT_NEAR(&cut, start, b.header.base, &b.header.n_segments);
    COUNT_NEAR(&m->rows, address, b.header.base, &b.header.n_rows);
    if (b.header.n_segments < cut.len || b.header.n_rows < m->rows.len)
        m->fault = "a unit's code spans more than 4 GiB";
    *size = block_size(&b.header);
    bytes = malloc(*size);
    if (bytes) {
        memcpy(bytes, &b.header, sizeof b.header);
        /* block_open checks the first and last byte of the strings. */
        ((char *)bytes)[*size - 1] = 0;
        ((char *)bytes)[*size - b.header.n_strings] = 0;
        if (block_open(&b, (struct view){bytes, *size}))
            fill(m, &cut, &b);
    }
out:
    vec_release(&cut);
    return bytes;
}
