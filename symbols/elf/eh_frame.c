#include "symbols/elf/eh_frame.h"

#include <elf.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "base/order.h"

/* Pointer encodings of the LSB that compilers use for code addresses. */
enum {
    PE_ABSOLUTE = 0x00,
    PE_UDATA2 = 0x02,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SDATA2 = 0x0a,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
    PE_PC_RELATIVE = 0x10,
    PE_OMITTED = 0xff,
};

#define AUGMENTATION_MAX 16u /* no known augmentation is longer */

struct eh_reader {
    struct cursor all;
    uint64_t address; /* address of the first byte */
    bool wide;
    size_t cie;       /* offset of the CIE read last; SIZE_MAX: none */
    uint8_t encoding; /* address encoding of its entries; PE_OMITTED: unknown */
};

/* Ten bytes hold 64 bits; a longer number is damaged. */
static void skip_leb128(struct cursor *c)
{
    for (int i = 0; i < 10; i++) {
        if (!(cursor_u8(c) & 0x80))
            return;
    }
    c->short_read = true;
}

/* Reads the value without adding its base. False if the encoding is unknown. */
static bool read_encoded(const struct eh_reader *r, struct cursor *c, uint8_t encoding,
                         uint64_t *value)
{
    switch (encoding & 0x0f) {
    case PE_ABSOLUTE:
        *value = r->wide ? cursor_u64(c) : cursor_u32(c);
        break;
    case PE_UDATA2:
        *value = cursor_u16(c);
        break;
    case PE_UDATA4:
        *value = cursor_u32(c);
        break;
    case PE_SDATA2:
        *value = (uint64_t)(int16_t)cursor_u16(c);
        break;
    case PE_SDATA4:
        *value = (uint64_t)(int64_t)cursor_i32(c);
        break;
    case PE_UDATA8:
    case PE_SDATA8:
        *value = cursor_u64(c);
        break;
    default:
        return false;
    }
    return !c->short_read;
}

/* The address encoding that a CIE's augmentation states, if all its letters are known. */
static uint8_t read_augmentation(const struct eh_reader *r, struct cursor *c, const char *text)
{
    uint8_t encoding = PE_ABSOLUTE;
    uint64_t ignored;
    if (text[0] != 'z')
        return text[0] == 0 ? PE_ABSOLUTE : PE_OMITTED;
    skip_leb128(c);
    for (const char *p = text + 1; *p; p++) {
        switch (*p) {
        case 'L':
            (void)cursor_u8(c);
            break;
        case 'P':
            if (!read_encoded(r, c, cursor_u8(c), &ignored))
                return PE_OMITTED;
            break;
        case 'R':
            encoding = cursor_u8(c);
            break;
        case 'S': /* a signal frame */
        case 'B': /* AArch64: return addresses signed with the B key */
        case 'G': /* AArch64: tagged stack */
            break;
        default:
            return PE_OMITTED;
        }
    }
    return c->short_read ? PE_OMITTED : encoding;
}

/* `c` is after the CIE's id. */
static uint8_t read_cie(const struct eh_reader *r, struct cursor *c)
{
    char text[AUGMENTATION_MAX + 1];
    size_t n = 0;
    uint8_t version = cursor_u8(c);
    do {
        text[n] = (char)cursor_u8(c);
    } while (text[n] && n++ < AUGMENTATION_MAX - 1);
    if (text[n] != 0 || (version != 1 && version != 3))
        return PE_OMITTED;
    skip_leb128(c); /* code alignment */
    skip_leb128(c); /* data alignment */
    if (version == 1)
        (void)cursor_u8(c); /* return address column */
    else
        skip_leb128(c);
    return read_augmentation(r, c, text);
}

/* Reads the next entry; `entry` spans the bytes after its length. False at the end or on damage. */
static bool next_entry(struct cursor *all, struct cursor *entry)
{
    uint64_t len = cursor_u32(all);
    if (len == UINT32_MAX)
        len = cursor_u64(all);
    if (all->short_read || len == 0 || len > cursor_left(all))
        return false;
    *entry = cursor_over(all->pos, (size_t)len);
    (void)cursor_take(all, (size_t)len);
    return true;
}

static void look_up_cie(struct eh_reader *r, size_t at)
{
    struct cursor c = cursor_over(r->all.start + at, (size_t)(r->all.end - r->all.start) - at);
    struct cursor cie;
    if (r->cie == at)
        return;
    r->cie = at;
    r->encoding = PE_OMITTED;
    if (next_entry(&c, &cie) && cursor_u32(&cie) == 0)
        r->encoding = read_cie(r, &cie);
}

/* `c` spans an entry: distance back to its CIE, code address, code length, more. */
static bool read_entry(struct eh_reader *r, struct cursor *c, struct eh_range *range)
{
    size_t at = (size_t)(c->pos - r->all.start);
    uint32_t back = cursor_u32(c);
    uint64_t start, len;
    if (c->short_read || back == 0 || back > at)
        return false;
    look_up_cie(r, at - back);
    uint8_t relative = r->encoding & 0xf0;
    if (r->encoding == PE_OMITTED || (relative != PE_ABSOLUTE && relative != PE_PC_RELATIVE))
        return false;
    uint64_t here = r->address + (uint64_t)(c->pos - r->all.start);
    if (!read_encoded(r, c, r->encoding, &start) || !read_encoded(r, c, r->encoding & 0x07, &len))
        return false;
    if (relative == PE_PC_RELATIVE)
        start += here;
    if (!r->wide)
        start &= UINT32_MAX;
    *range = (struct eh_range){start, start + len};
    return start != 0 && range->end > start;
}

/* Finds the bytes of .eh_frame and their address in the image. */
static bool find_bytes(struct elf_file *f, struct view *bytes, uint64_t *address)
{
    uint64_t size, value;
    struct view hdr;
    for (size_t i = 0; i < elf_file_section_count(f); i++) {
        const struct elf_section *s = elf_file_section_at(f, i);
        if (view_equal(s->name, view_of(".eh_frame")) && !(s->flags & SHF_COMPRESSED) &&
            elf_file_section_bytes(f, i, bytes, NULL) == 0 && bytes->p) {
            *address = s->address;
            return true;
        }
    }
    if (!elf_file_eh_frame_hdr(f, address, &size))
        return false;
    /* Header: version, then the encodings of the .eh_frame pointer, the count and the table. */
    elf_file_at_address(f, *address, &hdr);
    if (!hdr.p)
        return false;
    struct cursor c = cursor_over(hdr.p, hdr.len);
    struct eh_reader r = {.wide = elf_file_is_64(f)};
    uint8_t version = cursor_u8(&c), encoding = cursor_u8(&c);
    (void)cursor_u16(&c);
    if (version != 1 || !read_encoded(&r, &c, encoding, &value))
        return false;
    *address = (encoding & 0xf0) == PE_PC_RELATIVE ? *address + 4 + value : value;
    elf_file_at_address(f, *address, bytes);
    return bytes->p != NULL;
}

static int by_start(const void *a, const void *b)
{
    const struct eh_range *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* ---- .pdata of PE images for x86-64: begin, end, unwind information */

#define PDATA_ENTRY 12u /* bytes */
#define PDATA_CHAINED 4u

/* Whether an entry continues the one before it. */
static bool is_chained(const struct elf_file *f, uint32_t unwind)
{
    struct view bytes;
    elf_file_at_address(f, unwind, &bytes);
    return bytes.len > 0 && ((unsigned char)bytes.p[0] >> 3 & PDATA_CHAINED);
}

static int read_pdata(struct eh_ranges *out, struct elf_file *f, struct err *e)
{
    struct view bytes;
    if (elf_file_machine(f) != EM_X86_64 || elf_file_section(f, ".pdata", &bytes, NULL) != 0 ||
        !bytes.p)
        return 0;
    struct cursor c = cursor_over(bytes.p, bytes.len);
    while (cursor_left(&c) >= PDATA_ENTRY) {
        struct eh_range range = {.start = cursor_u32(&c)};
        range.end = cursor_u32(&c);
        uint32_t unwind = cursor_u32(&c);
        struct eh_range *last = out->list.len ? &out->list.at[out->list.len - 1] : NULL;
        if (range.start >= range.end)
            continue;
        if (last && last->end == range.start && is_chained(f, unwind))
            last->end = range.end;
        else if (!vec_push(&out->list, range)) {
            eh_ranges_release(out);
            return err_no_memory(e, "unwind entries");
        }
    }
    if (out->list.len > 0)
        qsort(out->list.at, out->list.len, sizeof *out->list.at, by_start);
    return 0;
}

int eh_ranges_read(struct eh_ranges *out, struct elf_file *f, struct err *e)
{
    struct view bytes = {0};
    struct eh_reader r = {.wide = elf_file_is_64(f), .cie = SIZE_MAX};
    struct cursor entry;
    *out = (struct eh_ranges){0};
    if (!elf_file_is_elf(f))
        return read_pdata(out, f, e);
    if (!find_bytes(f, &bytes, &r.address))
        return 0;
    r.all = cursor_over(bytes.p, bytes.len);
    while (next_entry(&r.all, &entry)) {
        struct eh_range range;
        if (read_entry(&r, &entry, &range) && !vec_push(&out->list, range)) {
            eh_ranges_release(out);
            return err_no_memory(e, "unwind entries");
        }
    }
    if (out->list.len > 0)
        qsort(out->list.at, out->list.len, sizeof *out->list.at, by_start);
    return 0;
}

void eh_ranges_release(struct eh_ranges *r)
{
    vec_release(&r->list);
}

/* The number of ranges that begin at or before `address`. */
static size_t count_up_to(const struct eh_ranges *r, uint64_t address)
{
    size_t low = 0;
    BISECT(low, r->list.len, i, r->list.at[i].start <= address);
    return low;
}

const struct eh_range *eh_ranges_find(const struct eh_ranges *r, uint64_t address)
{
    size_t n = count_up_to(r, address);
    return n > 0 && address < r->list.at[n - 1].end ? &r->list.at[n - 1] : NULL;
}

uint64_t eh_ranges_next(const struct eh_ranges *r, uint64_t address)
{
    size_t n = count_up_to(r, address);
    return n < r->list.len ? r->list.at[n].start : UINT64_MAX;
}
