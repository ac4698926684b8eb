#include "symbols/x86_misread.h"

#include <stddef.h>

struct opcodes {
    uint8_t map, first, last;
};

/* Opcodes whose F3 variant Capstone knows. */
static const struct opcodes known_f3[] = {
    {X86_MAP_0F, 0x10, 0x12}, {X86_MAP_0F, 0x16, 0x16}, {X86_MAP_0F, 0x1e, 0x1e},
    {X86_MAP_0F, 0x2a, 0x2d}, {X86_MAP_0F, 0x51, 0x53}, {X86_MAP_0F, 0x58, 0x5f},
    {X86_MAP_0F, 0x6f, 0x70}, {X86_MAP_0F, 0x7e, 0x7f}, {X86_MAP_0F, 0xae, 0xae},
    {X86_MAP_0F, 0xb8, 0xb8}, {X86_MAP_0F, 0xbc, 0xbd}, {X86_MAP_0F, 0xc2, 0xc2},
    {X86_MAP_0F, 0xd6, 0xd6}, {X86_MAP_0F, 0xe6, 0xe6}, {X86_MAP_0F38, 0xf6, 0xf6},
};

/* Opcodes whose F2 variant Capstone knows; before a jump, F2 is "bnd". */
static const struct opcodes known_f2[] = {
    {X86_MAP_0F, 0x10, 0x12}, {X86_MAP_0F, 0x2a, 0x2d}, {X86_MAP_0F, 0x51, 0x51},
    {X86_MAP_0F, 0x58, 0x5a}, {X86_MAP_0F, 0x5c, 0x5f}, {X86_MAP_0F, 0x70, 0x70},
    {X86_MAP_0F, 0x78, 0x79}, {X86_MAP_0F, 0x7c, 0x7d}, {X86_MAP_0F, 0x80, 0x8f},
    {X86_MAP_0F, 0xc2, 0xc2}, {X86_MAP_0F, 0xd0, 0xd0}, {X86_MAP_0F, 0xd6, 0xd6},
    {X86_MAP_0F, 0xe6, 0xe6}, {X86_MAP_0F, 0xf0, 0xf0}, {X86_MAP_0F38, 0xf0, 0xf1},
};

/* Opcodes where F2 or F3 selects the instruction and 66 selects its operand size. */
static const struct opcodes sized[] = {
    {X86_MAP_0F, 0xb8, 0xb8},
    {X86_MAP_0F, 0xbc, 0xbd},
    {X86_MAP_0F38, 0xf0, 0xf1},
};

/* String instructions, which F2 or F3 repeats. */
static const struct opcodes strings[] = {
    {X86_MAP_ONE_BYTE, 0x6c, 0x6f}, {X86_MAP_ONE_BYTE, 0xa4, 0xa7}, {X86_MAP_ONE_BYTE, 0xaa, 0xaf}};

/*
 * EVEX scalars of double precision. The processor ignores their vector length; Capstone does not.
 */
static const struct opcodes scalars[] = {
    {X86_MAP_0F38, 0x4d, 0x4d}, {X86_MAP_0F38, 0x4f, 0x4f}, {X86_MAP_0F38, 0x99, 0x99},
    {X86_MAP_0F38, 0x9b, 0x9b}, {X86_MAP_0F38, 0x9d, 0x9d}, {X86_MAP_0F38, 0x9f, 0x9f},
    {X86_MAP_0F38, 0xa9, 0xa9}, {X86_MAP_0F38, 0xab, 0xab}, {X86_MAP_0F38, 0xad, 0xad},
    {X86_MAP_0F38, 0xaf, 0xaf}, {X86_MAP_0F38, 0xb9, 0xb9}, {X86_MAP_0F38, 0xbb, 0xbb},
    {X86_MAP_0F38, 0xbd, 0xbd}, {X86_MAP_0F38, 0xbf, 0xbf}, {X86_MAP_0F38, 0xcb, 0xcb},
    {X86_MAP_0F38, 0xcd, 0xcd},
};

static bool has(const struct opcodes *list, size_t n, const struct x86_encoding *x)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].map == x->map && list[i].first <= x->opcode && x->opcode <= list[i].last)
            return true;
    }
    return false;
}

#define HAS(list, x) has(list, sizeof(list) / sizeof *(list), x)

static bool is_register(const struct x86_encoding *x)
{
    return x->modrm >= 0xc0;
}

/* In opcode groups, ModRM.reg and the prefix select the instruction. */
static bool is_misread_group(const struct x86_encoding *x)
{
    unsigned reg = x->modrm >> 3 & 7;
    switch (x->opcode) {
    case 0x01:
        return x->prefix_66;
    case 0x1a: /* MPX */
    case 0x1b:
    case 0x1c: /* cldemote */
        return true;
    case 0xae:
        if (x->prefix_f3)
            return !is_register(x) || reg > 3;
        return x->prefix_66 && (is_register(x) || reg < 6 || x->w);
    default:
        return false;
    }
}

bool x86_is_misread(const struct x86_encoding *x)
{
    bool repeats = x->prefix_f2 || x->prefix_f3;
    if (x->is_vector)
        return x->w && x->ll != 0 && HAS(scalars, x);
    if (repeats && x->prefix_66 && !HAS(strings, x) && (x->late_66 || !HAS(sized, x)))
        return true;
    if (x->map == X86_MAP_ONE_BYTE)
        return x->opcode == 0x90 && x->prefix_f3 && x->rex; /* pause */
    if ((x->prefix_f2 && !HAS(known_f2, x)) || (x->prefix_f3 && !HAS(known_f3, x)))
        return true;
    return x->map == X86_MAP_0F && is_misread_group(x);
}
