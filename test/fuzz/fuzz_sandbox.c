/*
 * Any filter of system calls, asked by the preload library as the kernel would. The first 64 bytes
 * of the input are the call; instructions follow. With the first bit of the byte between them they
 * are made such that the kernel may accept them, since few bytes are so by chance. What it accepts
 * must give what the other interpreter here gives, which was written from the kernel's rules
 * (kernel/seccomp.c and net/core/filter.c); the rest must do no harm.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/seccomp.c" /* its folder is no library: it becomes one object of its own */

#define MOST 4096u /* instructions of a filter, BPF_MAXINSNS */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All that seccomp takes, by what must be true of the operand. */
enum operand { ANY, WORD, MEMORY, NOT_ZERO, SHIFT };

static const struct {
    uint16_t code;
    enum operand k;
} codes[] = {
    {0x20, WORD},   {0x80, ANY},    {0x81, ANY}, {0x06, ANY},   {0x16, ANY},    {0x04, ANY},
    {0x0c, ANY},    {0x14, ANY},    {0x1c, ANY}, {0x24, ANY},   {0x2c, ANY},    {0x34, NOT_ZERO},
    {0x3c, ANY},    {0x54, ANY},    {0x5c, ANY}, {0xa4, ANY},   {0xac, ANY},    {0x44, ANY},
    {0x4c, ANY},    {0x64, SHIFT},  {0x6c, ANY}, {0x74, SHIFT}, {0x7c, ANY},    {0x84, ANY},
    {0x00, ANY},    {0x01, ANY},    {0x07, ANY}, {0x87, ANY},   {0x60, MEMORY}, {0x61, MEMORY},
    {0x02, MEMORY}, {0x03, MEMORY}, {0x05, ANY}, {0x15, ANY},   {0x1d, ANY},    {0x25, ANY},
    {0x2d, ANY},    {0x35, ANY},    {0x3d, ANY}, {0x45, ANY},   {0x4d, ANY},
};

#define CODES (sizeof codes / sizeof *codes)

static bool is_jump(uint16_t code)
{
    return (code & 7) == 5;
}

static bool takes_operand(enum operand what, uint32_t k)
{
    switch (what) {
    case WORD:
        return k % 4 == 0 && k < 64;
    case MEMORY:
        return k < 16;
    case NOT_ZERO:
        return k != 0;
    case SHIFT:
        return k < 32;
    default:
        return true;
    }
}

/* ---- what the kernel accepts */

static bool takes_one(const struct sock_filter *i, size_t left)
{
    for (size_t c = 0; c < CODES; c++) {
        if (codes[c].code != i->code)
            continue;
        if (i->code == 0x05)
            return i->k < left;
        return takes_operand(codes[c].k, i->k) &&
               (!is_jump(i->code) || (i->jt < left && i->jf < left));
    }
    return false;
}

/* A word of memory must have been stored on each way to where it is loaded. */
static bool stores_before_loads(const struct sock_filter *f, size_t n)
{
    static uint16_t masks[MOST];
    uint16_t stored = 0;
    memset(masks, 0xff, n * sizeof *masks);
    for (size_t at = 0; at < n; at++) {
        stored &= masks[at];
        switch (f[at].code) {
        case 0x02:
        case 0x03:
            stored |= (uint16_t)(1u << f[at].k);
            break;
        case 0x60:
        case 0x61:
            if (!(stored >> f[at].k & 1))
                return false;
            break;
        case 0x05:
            masks[at + 1 + f[at].k] &= stored;
            stored = 0xffff;
            break;
        default:
            if (is_jump(f[at].code)) {
                masks[at + 1 + f[at].jt] &= stored;
                masks[at + 1 + f[at].jf] &= stored;
                stored = 0xffff;
            }
        }
    }
    return true;
}

static bool kernel_takes(const struct sock_filter *f, size_t n)
{
    if (n == 0 || n > MOST)
        return false;
    for (size_t at = 0; at < n; at++) {
        if (!takes_one(&f[at], n - at - 1))
            return false;
    }
    return (f[n - 1].code == 0x06 || f[n - 1].code == 0x16) && stores_before_loads(f, n);
}

/* ---- the other interpreter */

struct registers {
    uint32_t a, x, m[16];
};

/* Of codes 0xX4 and 0xXc. False: the filter ends. */
static bool calculates(struct registers *r, const struct sock_filter *i)
{
    uint64_t a = r->a, b = i->code & 8 ? r->x : i->k;
    uint64_t results[] = {a + b,         a - b, a * b, b ? a / b : 0, a | b, a & b, a << (b % 32),
                          a >> (b % 32), -a,    0,     a ^ b};
    r->a = (uint32_t)results[i->code >> 4];
    return i->code >> 4 != 3 || b != 0;
}

static size_t jumps(const struct registers *r, const struct sock_filter *i)
{
    uint32_t b = i->code & 8 ? r->x : i->k;
    bool results[] = {true, r->a == b, r->a > b, r->a >= b, (r->a & b) != 0};
    if (i->code == 0x05)
        return i->k;
    return results[i->code >> 4] ? i->jt : i->jf;
}

static void moves(struct registers *r, const struct sock_filter *i, const uint8_t call[64])
{
    switch (i->code) {
    case 0x20:
        memcpy(&r->a, call + i->k, 4);
        break;
    case 0x80:
        r->a = 64;
        break;
    case 0x81:
        r->x = 64;
        break;
    case 0x00:
        r->a = i->k;
        break;
    case 0x01:
        r->x = i->k;
        break;
    case 0x60:
        r->a = r->m[i->k];
        break;
    case 0x61:
        r->x = r->m[i->k];
        break;
    case 0x02:
        r->m[i->k] = r->a;
        break;
    case 0x03:
        r->m[i->k] = r->x;
        break;
    case 0x07:
        r->x = r->a;
        break;
    case 0x87:
        r->a = r->x;
        break;
    default:
        abort();
    }
}

static uint32_t interpret(const struct sock_filter *f, const uint8_t call[64])
{
    struct registers r = {0};
    for (const struct sock_filter *i = f;; i++) {
        if (i->code == 0x06)
            return i->k;
        if (i->code == 0x16)
            return r.a;
        if ((i->code & 7) == 4) {
            if (!calculates(&r, i))
                return 0;
        } else if (is_jump(i->code)) {
            i += jumps(&r, i);
        } else {
            moves(&r, i, call);
        }
    }
}

/* ---- */

/* Makes an instruction acceptable where it stands, but for loads of what was not stored. */
static void shape(struct sock_filter *i, size_t left)
{
    size_t c = i->code % CODES;
    i->code = codes[c].code;
    if (left == 0 || (is_jump(i->code) && left == 1))
        *i = (struct sock_filter){.code = left && i->k % 2 ? 0x16 : 0x06, .k = i->k};
    if (i->code == 0x05)
        i->k %= (uint32_t)left;
    else if (is_jump(i->code))
        i->jt %= left < 256 ? left : 256, i->jf %= left < 256 ? left : 256;
    if (codes[c].k == WORD)
        i->k = i->k % 16 * 4;
    else if (codes[c].k == MEMORY)
        i->k %= 16;
    else if (codes[c].k == SHIFT)
        i->k %= 32;
    else if (codes[c].k == NOT_ZERO)
        i->k |= 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seccomp_data call;
    if (size < sizeof call + 1)
        return 0;
    memcpy(&call, data, sizeof call);
    bool shaped = data[sizeof call] & 1;
    data += sizeof call + 1;
    size -= sizeof call + 1;
    size_t n = size / sizeof(struct sock_filter);
    if (n > UINT16_MAX)
        n = UINT16_MAX;
    struct sock_filter *code = calloc(n ? n : 1, sizeof *code);
    if (!code)
        abort();
    if (n)
        memcpy(code, data, n * sizeof *code);
    for (size_t i = 0; shaped && i < n; i++)
        shape(&code[i], n - i - 1);
    const struct sock_fprog filter = {(unsigned short)n, code};
    uint32_t verdict = sandbox_verdict(&filter, &call);
    if (kernel_takes(code, n)) {
        uint8_t bytes[sizeof call];
        memcpy(bytes, &call, sizeof bytes);
        if (interpret(code, bytes) != verdict)
            abort();
    }
    (void)sandbox_ends_us(&filter);
    (void)sandbox_hides_names(&filter);
    free(code);
    return 0;
}
