#include "symbols/pdb/inline_site.h"

enum operation {
    OP_END,
    OP_CODE_OFFSET,
    OP_CODE_BASE,
    OP_CHANGE_OFFSET,
    OP_CHANGE_LENGTH,
    OP_CHANGE_FILE,
    OP_CHANGE_LINE,
    OP_LINE_END,
    OP_RANGE_KIND,
    OP_COLUMN_START,
    OP_COLUMN_END_DELTA,
    OP_CHANGE_OFFSET_AND_LINE,
    OP_CHANGE_LENGTH_AND_OFFSET,
    OP_COLUMN_END,
};

/* A number in 1, 2 or 4 bytes, by its first bits. */
static uint32_t number(struct cursor *c)
{
    uint32_t first = cursor_u8(c);
    if (!(first & 0x80))
        return first;
    if (!(first & 0x40))
        return (first & 0x3f) << 8 | cursor_u8(c);
    uint32_t rest = cursor_u8(c);
    rest = rest << 8 | cursor_u8(c);
    rest = rest << 8 | cursor_u8(c);
    if (first & 0x20)
        c->short_read = true; /* no such form */
    return (first & 0x1f) << 24 | rest;
}

/* The lowest bit is the sign. */
static int32_t signed_of(uint32_t n)
{
    return n & 1 ? -(int32_t)(n >> 1) : (int32_t)(n >> 1);
}

static void add_line(struct inline_site *s, int32_t delta)
{
    if (__builtin_add_overflow(s->line, delta, &s->line))
        s->c.short_read = true;
}

static void add_offset(struct inline_site *s, uint32_t delta)
{
    if (__builtin_add_overflow(s->offset, delta, &s->offset))
        s->c.short_read = true;
}

static bool give_row(struct inline_site *s, uint32_t delta, struct inline_step *step)
{
    add_offset(s, delta);
    if (!s->open)
        s->low = s->offset;
    s->open = true;
    *step = (struct inline_step){false, s->low, s->offset, s->line, s->file};
    return !s->c.short_read;
}

/* Ends the piece `length` bytes behind the current offset. */
static bool give_end(struct inline_site *s, uint32_t length, struct inline_step *step)
{
    uint32_t end;
    if (__builtin_add_overflow(s->offset, length, &end))
        s->c.short_read = true;
    *step = (struct inline_step){true, s->low, end, s->line, s->file};
    s->open = false;
    return !s->c.short_read;
}

bool inline_site_next(struct inline_site *s, struct inline_step *step)
{
    if (s->pending) {
        uint32_t length = s->pending;
        s->pending = 0;
        return give_end(s, length, step);
    }
    while (cursor_left(&s->c) > 0 && !s->c.short_read) {
        uint32_t op = number(&s->c), n;
        if (op == OP_END)
            return false; /* padding */
        n = number(&s->c);
        switch (op) {
        case OP_CODE_OFFSET:
        case OP_CHANGE_OFFSET:
            return give_row(s, n, step);
        case OP_CHANGE_OFFSET_AND_LINE:
            add_line(s, signed_of(n >> 4));
            return give_row(s, n & 15, step);
        case OP_CHANGE_LENGTH_AND_OFFSET:
            s->pending = n;
            return give_row(s, number(&s->c), step);
        case OP_CHANGE_LENGTH:
            add_offset(s, n); /* what follows counts from the end; in the combined form not */
            if (s->open)
                return give_end(s, 0, step);
            break;
        case OP_CHANGE_FILE:
            s->file = n;
            break;
        case OP_CHANGE_LINE:
            add_line(s, signed_of(n));
            break;
        case OP_CODE_BASE:
        case OP_LINE_END:
        case OP_RANGE_KIND:
        case OP_COLUMN_START:
        case OP_COLUMN_END_DELTA:
        case OP_COLUMN_END:
            break;
        default:
            s->c.short_read = true;
        }
    }
    return false;
}
