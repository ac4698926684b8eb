#include "symbols/pdb/pe_image.h"

#include <elf.h>
#include <string.h>

#include "base/cursor.h"

#define SECTIONS_MAX 4096u /* each look-up walks them */
#define DEBUG_ENTRIES_MAX 64u
#define DEBUG_ENTRY 28u    /* bytes */
#define DIRECTORY_DEBUG 6u /* the exports are directory 0 */
#define DEBUG_CODEVIEW 2u
#define MAGIC_32 0x10bu
#define MAGIC_64 0x20bu

struct pdb_id pdb_id_of(const uint8_t guid[16], uint32_t age)
{
    /* The first three fields are stored little-endian. */
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    struct pdb_id id = {.known = true};
    for (unsigned i = 0; i < 16; i++)
        id.bytes[i] = guid[order[i]];
    for (unsigned i = 0; i < 4; i++)
        id.bytes[16 + i] = (uint8_t)(age >> (24 - 8 * i));
    return id;
}

uint16_t pe_elf_machine(uint16_t machine)
{
    switch (machine) {
    case 0x8664:
        return EM_X86_64;
    case 0xaa64:
        return EM_AARCH64;
    case 0x14c:
        return EM_386;
    default:
        return EM_NONE;
    }
}

bool pe_image_is(struct view bytes)
{
    return bytes.len >= 2 && memcmp(bytes.p, "MZ", 2) == 0;
}

bool pe_sections_read(pe_sections *out, struct view headers)
{
    struct cursor c = cursor_over(headers.p, headers.len);
    while (cursor_left(&c) >= PE_SECTION_HEADER && out->len < SECTIONS_MAX) {
        const char *name = (const char *)cursor_take(&c, 8);
        struct pe_section s = {.name = {name, strnlen(name, 8)}};
        s.memory_size = cursor_u32(&c);
        s.address = cursor_u32(&c);
        s.file_size = cursor_u32(&c);
        s.offset = cursor_u32(&c);
        (void)cursor_take(&c, 12); /* relocations and line numbers of object files */
        s.flags = cursor_u32(&c);
        if (s.memory_size == 0)
            s.memory_size = s.file_size;
        if (!vec_push(out, s))
            return false;
    }
    return true;
}

/* The bytes of the file at an address. */
static struct view bytes_at(const struct pe_image *p, struct view file, uint32_t address,
                            uint32_t size)
{
    for (size_t i = 0; i < p->sections.len; i++) {
        const struct pe_section *s = &p->sections.at[i];
        uint32_t from = address - s->address;
        if (address < s->address || from > s->file_size || size > s->file_size - from)
            continue;
        uint64_t at = (uint64_t)s->offset + from;
        if (at <= file.len && size <= file.len - at)
            return (struct view){file.p + at, size};
    }
    return (struct view){"", 0};
}

/* "RSDS", GUID, age, path. */
static bool read_codeview(struct pe_image *p, struct view record)
{
    struct cursor c = cursor_over(record.p, record.len);
    const uint8_t *signature = cursor_take(&c, 4), *guid = cursor_take(&c, 16);
    uint32_t age = cursor_u32(&c);
    if (c.short_read || memcmp(signature, "RSDS", 4) != 0)
        return false;
    p->id = pdb_id_of(guid, age);
    p->pdb_name = (struct view){(const char *)c.pos, strnlen((const char *)c.pos, cursor_left(&c))};
    return true;
}

static void read_debug_directory(struct pe_image *p, struct view file, uint32_t address,
                                 uint32_t size)
{
    struct view directory = bytes_at(p, file, address, size);
    struct cursor c = cursor_over(directory.p, directory.len);
    for (unsigned i = 0; i < DEBUG_ENTRIES_MAX && cursor_left(&c) >= DEBUG_ENTRY; i++) {
        (void)cursor_take(&c, 12); /* flags, time, version */
        uint32_t type = cursor_u32(&c), length = cursor_u32(&c);
        (void)cursor_u32(&c); /* address; 0 unless mapped */
        uint32_t at = cursor_u32(&c);
        if (type == DEBUG_CODEVIEW && at <= file.len && length <= file.len - at &&
            read_codeview(p, (struct view){file.p + at, length}))
            return;
    }
}

/* A part of the export directory. Linkers put its tables and names into it. */
static const uint8_t *part_of_exports(const struct pe_image *p, uint32_t address, uint64_t size)
{
    uint32_t from = address - p->exports_address;
    if (address < p->exports_address || from > p->exports.len || size > p->exports.len - from)
        return NULL;
    return (const uint8_t *)p->exports.p + from;
}

bool pe_image_exports(const struct pe_image *p, pe_take_export *take, void *user)
{
    struct cursor c = cursor_over(p->exports.p, p->exports.len);
    (void)cursor_take(&c, 20); /* flags, time, version, the image's name, first ordinal */
    uint32_t function_count = cursor_u32(&c), count = cursor_u32(&c);
    const uint8_t *functions = part_of_exports(p, cursor_u32(&c), (uint64_t)4 * function_count);
    const uint8_t *names = part_of_exports(p, cursor_u32(&c), (uint64_t)4 * count);
    const uint8_t *numbers = part_of_exports(p, cursor_u32(&c), (uint64_t)2 * count);
    if (c.short_read || !functions || !names || !numbers)
        return true;
    for (uint32_t i = 0; i < count; i++) {
        uint16_t number = load_u16(numbers + 2 * (size_t)i);
        const uint8_t *name = part_of_exports(p, load_u32(names + 4 * (size_t)i), 1);
        if (!name || *name == 0 || number >= function_count)
            continue;
        uint32_t address = load_u32(functions + 4 * (size_t)number);
        /* An address within the directory is the name of another image's function. */
        if (address != 0 && !part_of_exports(p, address, 1) &&
            !take(user, address, (uint32_t)(name - (const uint8_t *)p->exports.p)))
            return false;
    }
    return true;
}

int pe_image_read(struct pe_image *out, struct view bytes, struct err *e)
{
    uint32_t exports_size = 0, debug_at = 0, debug_size = 0;
    struct cursor c = cursor_over(bytes.p, bytes.len);
    *out = (struct pe_image){.exports = {"", 0}};
    (void)cursor_take(&c, 0x3c);
    uint32_t at = cursor_u32(&c);
    if (c.short_read || at > bytes.len)
        return err_set(e, ERR_INPUT, "the PE header lies beyond the end of the file");
    c = cursor_over(bytes.p + at, bytes.len - at);
    const uint8_t *signature = cursor_take(&c, 4);
    if (!signature || memcmp(signature, "PE\0", 4) != 0)
        return err_set(e, ERR_INPUT, "a DOS program without a PE header");
    out->machine = cursor_u16(&c);
    uint16_t sections = cursor_u16(&c);
    (void)cursor_take(&c, 12); /* time, symbols of object files */
    uint16_t optional_size = cursor_u16(&c);
    (void)cursor_u16(&c); /* characteristics */
    const uint8_t *optional = cursor_take(&c, optional_size);
    if (!optional || cursor_left(&c) / PE_SECTION_HEADER < sections)
        return err_set(e, ERR_INPUT, "the PE headers reach beyond the end of the file");
    struct cursor o = cursor_over(optional, optional_size);
    uint16_t magic = cursor_u16(&o);
    if (magic != MAGIC_32 && magic != MAGIC_64)
        return err_set(e, ERR_INPUT, "a PE image of unknown kind 0x%x", magic);
    out->wide = magic == MAGIC_64;
    (void)cursor_take(&o, out->wide ? 22 : 26);
    out->base = out->wide ? cursor_u64(&o) : cursor_u32(&o);
    (void)cursor_take(&o, 28); /* alignments, versions, size of the image */
    out->headers_size = cursor_u32(&o);
    (void)cursor_take(&o, out->wide ? 44 : 28);
    uint32_t directories = cursor_u32(&o);
    struct cursor first = o;
    if (directories > 0) {
        out->exports_address = cursor_u32(&first);
        exports_size = cursor_u32(&first);
    }
    if (directories > DIRECTORY_DEBUG && cursor_take(&o, (size_t)8 * DIRECTORY_DEBUG)) {
        debug_at = cursor_u32(&o);
        debug_size = cursor_u32(&o);
    }
    if (!pe_sections_read(&out->sections,
                          (struct view){(const char *)c.pos, (size_t)sections * PE_SECTION_HEADER}))
        return err_no_memory(e, "sections of a PE image");
    if (!first.short_read)
        out->exports = bytes_at(out, bytes, out->exports_address, exports_size);
    if (!o.short_read && debug_size > 0)
        read_debug_directory(out, bytes, debug_at, debug_size);
    return 0;
}

void pe_image_release(struct pe_image *p)
{
    vec_release(&p->sections);
}
