/* Reads line programs only as far as needed to find where their sequences begin. */

#include <dwarf.h>

#include "base/cursor.h"
#include "symbols/index/dwarf_lines.h"

#define FAR_64 ((uint64_t)1 << 62)
#define FAR_32 0xfff00000u

static void skip_leb(struct cursor *c)
{
    while (cursor_u8(c) & 0x80)
        ;
}

static uint64_t uleb(struct cursor *c)
{
    uint64_t value = 0;
    uint8_t byte;
    unsigned shift = 0;
    do {
        byte = cursor_u8(c);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    return value;
}

/* Checks the operand of DW_LNE_set_address, `size` bytes at `at`. */
static void look_at_address(const struct code_map *code, uint8_t *at, uint64_t size)
{
    bool wide = size == 8;
    uint64_t address = wide ? load_u64(at) : load_u32(at);
    uint64_t far = wide ? FAR_64 : FAR_32;
    if (code_map_has(code, address, address) || code_map_has(code, far, far))
        return;
    if (address > 0 && code_map_has(code, address - 1, address))
        return; /* the end of a sequence at the end of the code */
    if (wide)
        store_u64(at, far);
    else
        store_u32(at, (uint32_t)far);
}

static void extended(const struct code_map *code, struct cursor *c)
{
    uint64_t length = uleb(c);
    if (length > cursor_left(c)) {
        c->short_read = true;
        return;
    }
    const uint8_t *next = c->pos + length;
    if ((length == 9 || length == 5) && cursor_u8(c) == DW_LNE_set_address)
        look_at_address(code, (uint8_t *)c->pos, length - 1);
    c->pos = next;
}

/* The program of one table; `lengths` are those of the opcodes below `base`. */
static void look_at_program(const struct code_map *code, struct cursor *c, const uint8_t *lengths,
                            uint8_t base)
{
    while (cursor_left(c) > 0 && !c->short_read) {
        uint8_t opcode = cursor_u8(c);
        if (opcode >= base)
            continue;
        if (opcode == 0)
            extended(code, c);
        else if (opcode == DW_LNS_fixed_advance_pc)
            cursor_u16(c);
        else
            for (uint8_t i = 0; i < lengths[opcode - 1] && !c->short_read; i++)
                skip_leb(c);
    }
}

/* One table; `c` spans the bytes after its length. */
static void look_at_table(const struct code_map *code, struct cursor c, bool wide)
{
    uint16_t version = cursor_u16(&c);
    if (version < 2 || version > 5)
        return;
    if (version >= 5)
        cursor_u16(&c); /* sizes of addresses and segments */
    uint64_t header = wide ? cursor_u64(&c) : cursor_u32(&c);
    if (c.short_read || header > cursor_left(&c))
        return;
    const uint8_t *program = c.pos + header;
    cursor_take(&c, version >= 4 ? 5 : 4); /* up to the line range */
    uint8_t base = cursor_u8(&c);
    const uint8_t *lengths = cursor_take(&c, base > 0 ? base - 1 : 0);
    if (c.short_read || base == 0)
        return;
    c.pos = program;
    look_at_program(code, &c, lengths, base);
}

void dwarf_lines_set_apart(uint8_t *lines, size_t len, const struct code_map *code)
{
    if (len == 0 || code->ranges.len == 0)
        return;
    struct cursor c = cursor_over(lines, len);
    while (cursor_left(&c) > 0) {
        uint64_t length = cursor_u32(&c);
        bool wide = length == UINT32_MAX;
        if (wide)
            length = cursor_u64(&c);
        if (c.short_read || length > cursor_left(&c))
            break;
        look_at_table(code, cursor_over(c.pos, (size_t)length), wide);
        c.pos += length;
    }
}
