#include "symbols/pdb/pdb_lines.h"

#include <stdlib.h>

#include "base/cursor.h"
#include "symbols/pdb/codeview.h"

#define HAS_COLUMNS 1u
#define WITH_MORE_FILES 1u
/* Lines from here on have no source: the compiler made the code ("never step into"). */
#define LINE_NONE 0xf00000u

void pdb_lines_release(struct pdb_lines *l)
{
    vec_release(&l->rows);
    vec_release(&l->files);
    vec_release(&l->inlinees);
    map_release(&l->file_at);
    map_release(&l->inlinee_of);
}

uint32_t pdb_lines_file(const struct pdb_lines *l, uint32_t position)
{
    const uint64_t *at = map_find(&l->file_at, position);
    return at ? (uint32_t)*at : 0;
}

const struct pdb_inlinee *pdb_lines_inlinee(const struct pdb_lines *l, uint32_t id)
{
    const uint64_t *at = map_find(&l->inlinee_of, id);
    return at ? &l->inlinees.at[*at - 1] : NULL;
}

static bool take_checksums(struct pdb_lines *l, const struct pdb_file *f, struct cursor c)
{
    while (cursor_left(&c) > 0) {
        uint32_t position = (uint32_t)cursor_offset(&c);
        uint32_t text = cursor_u32(&c);
        uint8_t size = cursor_u8(&c);
        (void)cursor_u8(&c); /* kind */
        (void)cursor_take(&c, size);
        if (c.short_read) {
            l->damaged = true;
            return true;
        }
        size_t odd = cursor_offset(&c) % 4;
        (void)cursor_take(&c, odd && 4 - odd <= cursor_left(&c) ? 4 - odd : 0);
        uint64_t *at = map_add(&l->file_at, position, NULL);
        if (!at || !vec_push(&l->files, pdb_file_text(f, text)))
            return false;
        *at = l->files.len;
    }
    return true;
}

static bool take_inlinees(struct pdb_lines *l, struct cursor c)
{
    uint32_t signature = cursor_u32(&c);
    while (cursor_left(&c) > 0) {
        uint32_t id = cursor_u32(&c), file = cursor_u32(&c), line = cursor_u32(&c);
        if (signature == WITH_MORE_FILES) {
            uint32_t more = cursor_u32(&c);
            (void)cursor_take(&c, (size_t)4 * more);
        }
        bool fresh;
        if (c.short_read) {
            l->damaged = true;
            return true;
        }
        uint64_t *at = map_add(&l->inlinee_of, id, &fresh);
        if (!at)
            return false;
        if (!fresh)
            continue;
        if (!vec_push(&l->inlinees, (struct pdb_inlinee){pdb_lines_file(l, file), line}))
            return false;
        *at = l->inlinees.len;
    }
    return true;
}

/* Rows of one file; columns follow all rows. */
static bool take_block(struct pdb_lines *l, struct cursor *c, uint64_t low, bool columns)
{
    uint32_t file = pdb_lines_file(l, cursor_u32(c));
    uint32_t count = cursor_u32(c);
    (void)cursor_u32(c); /* bytes of the block */
    size_t each = columns ? 12 : 8;
    if (c->short_read || count > cursor_left(c) / each) {
        c->short_read = true;
        return true;
    }
    struct cursor column = cursor_over(c->pos + (size_t)8 * count, (size_t)4 * count);
    for (uint32_t i = 0; i < count; i++) {
        struct pdb_line row = {
            .address = low + cursor_u32(c), .file = file, .order = (uint32_t)l->rows.len};
        row.line = cursor_u32(c) & 0xffffff;
        if (columns) {
            row.column = cursor_u16(&column);
            (void)cursor_u16(&column);
        }
        row.end = row.line >= LINE_NONE;
        if (!vec_push(&l->rows, row))
            return false;
    }
    (void)cursor_take(c, columns ? (size_t)4 * count : 0);
    return true;
}

static bool take_lines(struct pdb_lines *l, const struct pdb_file *f, struct cursor c)
{
    uint64_t low;
    uint32_t offset = cursor_u32(&c);
    uint16_t section = cursor_u16(&c), flags = cursor_u16(&c);
    uint32_t size = cursor_u32(&c);
    if (!c.short_read && section == 0)
        return true; /* code that the linker discarded */
    if (c.short_read || !pdb_file_address(f, section, offset, &low)) {
        l->damaged = true;
        return true;
    }
    while (cursor_left(&c) > 0 && !c.short_read) {
        if (!take_block(l, &c, low, (flags & HAS_COLUMNS) != 0))
            return false;
    }
    l->damaged = l->damaged || c.short_read;
    return vec_push(&l->rows, (struct pdb_line){.address = low + size, .end = true});
}

static int compare_rows(const void *a, const void *b)
{
    const struct pdb_line *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    if (x->end != y->end)
        return x->end ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* The subsections of one kind. The files come last in a module and are needed first. */
static bool take_kind(struct pdb_lines *l, const struct pdb_file *f, struct view bytes,
                      unsigned wanted)
{
    struct cursor c = cursor_over(bytes.p, bytes.len);
    bool ok = true;
    while (ok && cursor_left(&c) >= 8) {
        uint32_t kind = cursor_u32(&c), size = cursor_u32(&c);
        const uint8_t *p = cursor_take(&c, size);
        if (!p) {
            l->damaged = true;
            break;
        }
        struct cursor part = cursor_over(p, size);
        if (kind == wanted && kind == LINES_CHECKSUMS)
            ok = take_checksums(l, f, part);
        else if (kind == wanted && kind == LINES_INLINEES)
            ok = take_inlinees(l, part);
        else if (kind == wanted)
            ok = take_lines(l, f, part);
        size_t odd = cursor_offset(&c) % 4;
        (void)cursor_take(&c, odd && 4 - odd <= cursor_left(&c) ? 4 - odd : 0);
    }
    return ok;
}

bool pdb_lines_read(struct pdb_lines *l, const struct pdb_file *f, struct view bytes)
{
    *l = (struct pdb_lines){0};
    if (!take_kind(l, f, bytes, LINES_CHECKSUMS) || !take_kind(l, f, bytes, LINES_INLINEES) ||
        !take_kind(l, f, bytes, LINES_LINES))
        return false;
    bool sorted = true;
    for (size_t i = 1; i < l->rows.len && sorted; i++)
        sorted = compare_rows(&l->rows.at[i - 1], &l->rows.at[i]) <= 0;
    if (!sorted)
        qsort(l->rows.at, l->rows.len, sizeof *l->rows.at, compare_rows);
    return true;
}
