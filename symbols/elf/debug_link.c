#include "symbols/elf/debug_link.h"

#include <zlib.h>

#include "base/cursor.h"

uint32_t debug_link_crc(struct view bytes)
{
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), (const Bytef *)bytes.p, bytes.len);
}

/* Reads a NUL-terminated name at the start of a section. */
static bool link_name(struct elf_file *f, const char *section, struct cursor *c, struct view *name)
{
    struct view bytes;
    if (elf_file_section(f, section, &bytes, NULL) != 0 || !bytes.p)
        return false;
    size_t len = strnlen(bytes.p, bytes.len);
    *c = cursor_over(bytes.p, bytes.len);
    *name = (struct view){bytes.p, len};
    return len > 0 && cursor_take(c, len + 1) != NULL;
}

/* Layout: the name, padded to 4 bytes, then a CRC. */
bool debug_link_read(struct elf_file *f, struct debug_link *out)
{
    struct cursor c;
    *out = (struct debug_link){0};
    if (!link_name(f, ".gnu_debuglink", &c, &out->name))
        return false;
    (void)cursor_take(&c, (4 - cursor_offset(&c) % 4) % 4);
    out->crc = cursor_u32(&c);
    return !c.short_read;
}

/* Layout: the name, then a build id up to the end of the section. */
bool debug_altlink_read(struct elf_file *f, struct debug_link *out)
{
    struct cursor c;
    *out = (struct debug_link){0};
    if (!link_name(f, ".gnu_debugaltlink", &c, &out->name))
        return false;
    size_t len = cursor_left(&c);
    if (len == 0 || len > BUILD_ID_MAX)
        return false;
    memcpy(out->build_id.bytes, c.pos, len);
    out->build_id.len = (uint8_t)len;
    return true;
}
