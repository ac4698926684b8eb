#include "symbols/x86_encoding.h"

#include <string.h>

#define LENGTH_MAX 15u

/*
 * What follows an opcode, by opcode map:
 *   .  undefined         -  nothing
 *   r  ModRM             B  ModRM, imm8      Z  ModRM, imm16 or imm32
 *   b  imm8              w  imm16            z  imm16 or imm32
 *   q  imm16 to imm64    e  imm16, imm8      a  address      f  far pointer
 *   t  ModRM; imm8 when ModRM.reg is 0 or 1  T  the same with imm16 or imm32
 *   x  ModRM; two imm8 behind a prefix 66 or F2
 *   D  ModRM, imm32
 * Prefixes and escapes are '.': they never reach the table.
 */
static const char one_byte_map[] = "rrrrbz--rrrrbz-."  /* 00 */
                                   "rrrrbz--rrrrbz--"  /* 10 */
                                   "rrrrbz.-rrrrbz.-"  /* 20 */
                                   "rrrrbz.-rrrrbz.-"  /* 30 */
                                   "----------------"  /* 40 */
                                   "----------------"  /* 50 */
                                   "--rr....zZbB----"  /* 60 */
                                   "bbbbbbbbbbbbbbbb"  /* 70 */
                                   "BZBBrrrrrrrrrrrr"  /* 80 */
                                   "----------f-----"  /* 90 */
                                   "aaaa----bz------"  /* a0 */
                                   "bbbbbbbbqqqqqqqq"  /* b0 */
                                   "BBw-rrBZe-w--b--"  /* c0 */
                                   "rrrrbb.-rrrrrrrr"  /* d0 */
                                   "bbbbbbbbzzfb----"  /* e0 */
                                   ".-..--tT------rr"; /* f0 */

static const char two_byte_map[] = "rrrr.-----.-.r-B"  /* 00 */
                                   "rrrrrrrrrrrrrrrr"  /* 10 */
                                   "bbbb....rrrrrrrr"  /* 20 */
                                   "------.-........"  /* 30 */
                                   "rrrrrrrrrrrrrrrr"  /* 40 */
                                   "rrrrrrrrrrrrrrrr"  /* 50 */
                                   "rrrrrrrrrrrrrrrr"  /* 60 */
                                   "BBBBrrr-xr..rrrr"  /* 70 */
                                   "zzzzzzzzzzzzzzzz"  /* 80 */
                                   "rrrrrrrrrrrrrrrr"  /* 90 */
                                   "---rBrrr---rBrrr"  /* a0 */
                                   "rrrrrrrrrrBrrrrr"  /* b0 */
                                   "rrBrBBBr--------"  /* c0 */
                                   "rrrrrrrrrrrrrrrr"  /* d0 */
                                   "rrrrrrrrrrrrrrrr"  /* e0 */
                                   "rrrrrrrrrrrrrrrr"; /* f0 */

/* One-byte opcodes that 64-bit mode does not have. */
static const char not_wide[] = "\x06\x07\x0e\x16\x17\x1e\x1f\x27\x2f\x37\x3f\x60\x61\x62\x82\x9a"
                               "\xc4\xc5\xce\xd4\xd5\xea";

/* Opcodes of map 1 that have an imm8 after a VEX or EVEX prefix. */
static const char vector_imm8[] = "\x70\x71\x72\x73\xc2\xc4\xc5\xc6";

struct reader {
    const uint8_t *p;
    size_t len, at;
    bool wide;          /* 64-bit mode */
    bool short_address; /* prefix 67 */
    bool lock;          /* prefix F0 */
    struct x86_encoding *to;
};

/* Returns the byte `ahead` of the cursor; 0 past the end, where skip() fails. */
static uint8_t peek(const struct reader *r, size_t ahead)
{
    return r->at + ahead < r->len ? r->p[r->at + ahead] : 0;
}

static bool skip(struct reader *r, size_t n)
{
    if (n > r->len - r->at)
        return false;
    r->at += n;
    return true;
}

static bool has(const char *list, size_t n, uint8_t opcode)
{
    return memchr(list, opcode, n) != NULL;
}

/* ---- prefixes */

static bool legacy_prefix(struct reader *r, uint8_t byte)
{
    switch (byte) {
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x64:
    case 0x65:
        return true;
    case 0x66:
        r->to->late_66 = r->to->prefix_f2 || r->to->prefix_f3;
        return r->to->prefix_66 = true;
    case 0x67:
        return r->short_address = true;
    case 0xf0:
        return r->lock = true;
    case 0xf2:
        return r->to->prefix_f2 = true;
    case 0xf3:
        return r->to->prefix_f3 = true;
    default:
        return false;
    }
}

/* A REX prefix counts only directly before the opcode. */
static void prefixes(struct reader *r)
{
    for (; r->at < r->len; r->at++) {
        uint8_t byte = peek(r, 0);
        bool is_rex = r->wide && (byte & 0xf0) == 0x40;
        if (!is_rex && !legacy_prefix(r, byte))
            return;
        r->to->rex = is_rex;
        r->to->w = is_rex && (byte & 8);
    }
}

/* ---- what follows the opcode */

/* Skips ModRM, SIB and displacement. */
static bool skip_modrm(struct reader *r)
{
    uint8_t modrm = peek(r, 0), mod = modrm >> 6, rm = modrm & 7;
    r->to->modrm = modrm;
    if (!skip(r, 1))
        return false;
    if (mod == 3)
        return true;
    if (!r->wide && r->short_address)
        return skip(r, mod == 0 && rm == 6 ? 2 : mod);
    bool far_base = mod == 0 && rm == 5;
    if (rm == 4) {
        far_base = mod == 0 && (peek(r, 0) & 7) == 5;
        if (!skip(r, 1))
            return false;
    }
    return skip(r, mod == 2 || far_base ? 4 : mod);
}

static bool skip_both(struct reader *r, size_t immediate)
{
    return skip_modrm(r) && skip(r, immediate);
}

static bool skip_operands(struct reader *r, char form)
{
    const struct x86_encoding *x = r->to;
    size_t z = x->prefix_66 && !x->w ? 2 : 4;
    bool is_test = (peek(r, 0) >> 3 & 7) < 2;
    switch (form) {
    case '-':
        return true;
    case 'b':
        return skip(r, 1);
    case 'w':
        return skip(r, 2);
    case 'e':
        return skip(r, 3);
    case 'z':
        return skip(r, z);
    case 'q':
        return skip(r, x->w ? 8 : z);
    case 'a':
        return skip(r, (r->wide ? 8u : 4u) >> r->short_address);
    case 'f':
        return skip(r, z + 2);
    case 'r':
        return skip_modrm(r);
    case 'B':
        return skip_both(r, 1);
    case 'Z':
        return skip_both(r, z);
    case 'D':
        return skip_both(r, 4);
    case 't':
        return skip_both(r, is_test ? 1 : 0);
    case 'T':
        return skip_both(r, is_test ? z : 0);
    case 'x':
        return skip_both(r, x->prefix_66 || x->prefix_f2 ? 2 : 0);
    default:
        return false;
    }
}

/* ---- opcodes */

static bool finish(struct reader *r, unsigned map, uint8_t opcode, char form)
{
    r->to->map = (uint8_t)map;
    r->to->opcode = opcode;
    return skip_operands(r, form);
}

/* Map 4 of EVEX: the instructions that APX adopts from the two older maps. */
static char promoted_form(uint8_t opcode)
{
    if (opcode == 0x24 || opcode == 0x2c)
        return 'B';
    return has("\x69\x6b\x80\x81\x83\xc0\xc1\xf6\xf7", 9, opcode) ? one_byte_map[opcode] : 'r';
}

static char vector_form(unsigned map, uint8_t opcode)
{
    switch (map) {
    case X86_MAP_0F:
        return has(vector_imm8, sizeof vector_imm8 - 1, opcode) ? 'B' : 'r';
    case X86_MAP_0F38:
    case 5:
    case 6:
    case 9: /* XOP */
        return 'r';
    case X86_MAP_0F3A:
    case 8: /* XOP */
        return 'B';
    case 4:
        return promoted_form(opcode);
    case 7:
    case 10: /* XOP */
        return 'D';
    default:
        return '.';
    }
}

/* Reads on after a vector prefix of `n` bytes; `fields` is its byte that ends in pp. */
static bool vector(struct reader *r, size_t n, unsigned map, uint8_t fields)
{
    struct x86_encoding *x = r->to;
    uint8_t opcode = peek(r, n);
    if (x->prefix_66 || x->prefix_f2 || x->prefix_f3 || r->lock || x->rex)
        return false;
    x->is_vector = true;
    x->prefix_66 = (fields & 3) == 1;
    x->prefix_f3 = (fields & 3) == 2;
    x->prefix_f2 = (fields & 3) == 3;
    bool zeroes_all = n < 4 && map == X86_MAP_0F && opcode == 0x77; /* vzeroupper, vzeroall */
    return skip(r, n + 1) && finish(r, map, opcode, zeroes_all ? '-' : vector_form(map, opcode));
}

static bool vex_or_xop(struct reader *r, bool xop)
{
    unsigned map = peek(r, 1) & 0x1f;
    uint8_t fields = peek(r, 2);
    r->to->w = fields >> 7;
    r->to->ll = fields >> 2 & 1;
    return (xop ? map >= 8 && map <= 10 : map < 8) && vector(r, 3, map, fields);
}

static bool short_vex(struct reader *r)
{
    uint8_t fields = peek(r, 1);
    r->to->ll = fields >> 2 & 1;
    return vector(r, 2, X86_MAP_0F, fields);
}

static bool evex(struct reader *r)
{
    unsigned map = peek(r, 1) & 7;
    uint8_t fields = peek(r, 2);
    r->to->w = fields >> 7;
    r->to->ll = peek(r, 3) >> 5 & 3;
    return (map != 4 || r->wide) && vector(r, 4, map, fields);
}

static bool rex2(struct reader *r)
{
    uint8_t payload = peek(r, 1), opcode = peek(r, 2);
    unsigned map = payload >> 7;
    r->to->w = payload >> 3 & 1;
    return skip(r, 3) && finish(r, map, opcode, (map ? two_byte_map : one_byte_map)[opcode]);
}

static bool escaped(struct reader *r)
{
    uint8_t second = peek(r, 1), third = peek(r, 2);
    if (second == 0x38)
        return skip(r, 3) && finish(r, X86_MAP_0F38, third, 'r');
    if (second == 0x3a)
        return skip(r, 3) && finish(r, X86_MAP_0F3A, third, 'B');
    return skip(r, 2) && finish(r, X86_MAP_0F, second, two_byte_map[second]);
}

static bool opcode(struct reader *r)
{
    uint8_t first = peek(r, 0), second = peek(r, 1);
    /*
     * In 32-bit mode these opcodes are older instructions, which need a memory operand. So mod 3
     * marks a vector prefix.
     */
    bool is_vector = r->wide || second >= 0xc0;
    if (first == 0x0f)
        return escaped(r);
    if (first == 0xc5 && is_vector)
        return short_vex(r);
    if (first == 0xc4 && is_vector)
        return vex_or_xop(r, false);
    if (first == 0x62 && is_vector)
        return evex(r);
    if (first == 0x8f && (second & 0x1f) >= 8)
        return vex_or_xop(r, true);
    if (first == 0xd5 && r->wide)
        return rex2(r);
    if (r->wide && has(not_wide, sizeof not_wide - 1, first))
        return false;
    return skip(r, 1) && finish(r, X86_MAP_ONE_BYTE, first, one_byte_map[first]);
}

bool x86_encoding_read(struct x86_encoding *to, struct view code, bool wide)
{
    struct reader r = {.p = (const uint8_t *)code.p,
                       .len = code.len < LENGTH_MAX ? code.len : LENGTH_MAX,
                       .wide = wide,
                       .to = to};
    *to = (struct x86_encoding){0};
    prefixes(&r);
    if (!opcode(&r))
        return false;
    to->length = (uint8_t)r.at;
    return true;
}
