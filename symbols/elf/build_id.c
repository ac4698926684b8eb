#include "symbols/elf/build_id.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cursor.h"

#define HEADERS_MAX 4096u    /* program headers to read at most */
#define NOTES_MAX (1u << 20) /* bytes of one note segment to read at most */

/* Where the program headers are, for both file classes. */
struct layout {
    bool wide;
    uint64_t offset;
    uint16_t size;
    uint16_t count;
};

static bool read_at(int fd, void *out, size_t n, uint64_t at)
{
    if (at > INT64_MAX - n)
        return false;
    ssize_t got = pread(fd, out, n, (off_t)at);
    return got >= 0 && (size_t)got == n;
}

static bool read_layout(int fd, struct layout *l)
{
    uint8_t ident[EI_NIDENT];
    if (!read_at(fd, ident, sizeof ident, 0) || memcmp(ident, ELFMAG, SELFMAG) != 0 ||
        ident[EI_DATA] != ELFDATA2LSB)
        return false;
    if (ident[EI_CLASS] == ELFCLASS64) {
        Elf64_Ehdr h;
        if (!read_at(fd, &h, sizeof h, 0))
            return false;
        *l = (struct layout){true, h.e_phoff, h.e_phentsize, h.e_phnum};
        return l->size >= sizeof(Elf64_Phdr);
    }
    Elf32_Ehdr h;
    if (ident[EI_CLASS] != ELFCLASS32 || !read_at(fd, &h, sizeof h, 0))
        return false;
    *l = (struct layout){false, h.e_phoff, h.e_phentsize, h.e_phnum};
    return l->size >= sizeof(Elf32_Phdr);
}

/* The file range of the i-th program header if it holds notes. */
static bool read_note_range(int fd, const struct layout *l, unsigned i, uint64_t *offset,
                            uint64_t *size, uint64_t *align)
{
    uint64_t at = l->offset + (uint64_t)i * l->size;
    if (at < l->offset)
        return false;
    if (l->wide) {
        Elf64_Phdr p;
        if (!read_at(fd, &p, sizeof p, at) || p.p_type != PT_NOTE)
            return false;
        *offset = p.p_offset;
        *size = p.p_filesz;
        *align = p.p_align;
    } else {
        Elf32_Phdr p;
        if (!read_at(fd, &p, sizeof p, at) || p.p_type != PT_NOTE)
            return false;
        *offset = p.p_offset;
        *size = p.p_filesz;
        *align = p.p_align;
    }
    return *size > 0 && *size <= NOTES_MAX;
}

static uint64_t padded(uint64_t n, uint64_t align)
{
    uint64_t a = align == 8 ? 8 : 4;
    return (n + a - 1) & ~(a - 1);
}

/* Layout of a note: u32 name size, u32 size, u32 type, name, contents; both padded. */
bool build_id_in_notes(const uint8_t *notes, size_t len, uint64_t align, struct build_id *out)
{
    struct cursor c = cursor_over(notes, len);
    while (cursor_left(&c) >= 12) {
        uint32_t name_size = cursor_u32(&c);
        uint32_t size = cursor_u32(&c);
        uint32_t type = cursor_u32(&c);
        const uint8_t *name = cursor_take(&c, (size_t)padded(name_size, align));
        const uint8_t *bytes = cursor_left(&c) >= size ? c.pos : NULL;
        if (!name || !bytes)
            return false;
        if (type == NT_GNU_BUILD_ID && name_size == 4 && memcmp(name, "GNU", 4) == 0 && size > 0 &&
            size <= BUILD_ID_MAX) {
            memcpy(out->bytes, bytes, size);
            out->len = (uint8_t)size;
            return true;
        }
        if (!cursor_take(&c, (size_t)padded(size, align)))
            return false;
    }
    return false;
}

bool build_id_read(int fd, struct build_id *out)
{
    struct layout l;
    bool found = false;
    *out = (struct build_id){0};
    if (!read_layout(fd, &l))
        return false;
    for (unsigned i = 0; i < l.count && i < HEADERS_MAX && !found; i++) {
        uint64_t offset, size, align;
        if (!read_note_range(fd, &l, i, &offset, &size, &align))
            continue;
        uint8_t *notes = malloc((size_t)size);
        if (notes && read_at(fd, notes, (size_t)size, offset))
            found = build_id_in_notes(notes, (size_t)size, align, out);
        free(notes);
    }
    return found;
}

void build_id_text(const struct build_id *id, char out[2 * BUILD_ID_MAX + 1])
{
    static const char digits[] = "0123456789abcdef";
    if (id->len == 0) {
        memcpy(out, "-", 2);
        return;
    }
    for (unsigned i = 0; i < id->len; i++) {
        out[(size_t)2 * i] = digits[id->bytes[i] >> 4];
        out[(size_t)2 * i + 1] = digits[id->bytes[i] & 15];
    }
    out[(size_t)2 * id->len] = 0;
}
