#include "report/export/thrift_read.h"

#define INLINE_LIST 15u /* a list of this size or more has its size behind its type */
#define VARINT_BITS 64u

static bool fail(struct cursor *c)
{
    c->short_read = true;
    c->pos = c->end;
    return false;
}

uint64_t thrift_read_varint(struct cursor *c)
{
    uint64_t n = 0;
    for (unsigned shift = 0; shift < VARINT_BITS; shift += 7) {
        uint8_t byte = cursor_u8(c);
        n |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return n;
    }
    fail(c);
    return 0;
}

static int64_t read_zigzag(struct cursor *c)
{
    uint64_t n = thrift_read_varint(c);
    return (int64_t)(n >> 1 ^ (0 - (n & 1)));
}

bool thrift_read_field(struct cursor *c, struct thrift_field *f)
{
    uint8_t head = cursor_u8(c);
    if (head == 0)
        return false;
    int64_t number = head >> 4 ? f->number + (head >> 4) : read_zigzag(c);
    if (number <= f->number || number > INT16_MAX || c->short_read)
        return fail(c);
    *f = (struct thrift_field){(int)number, head & 15u};
    return true;
}

static bool is_type(struct cursor *c, const struct thrift_field *f, unsigned type)
{
    return f->type == type || fail(c);
}

int64_t thrift_read_integer(struct cursor *c, const struct thrift_field *f)
{
    bool whole = f->type == THRIFT_I16 || f->type == THRIFT_I32 || f->type == THRIFT_I64;
    return whole || fail(c) ? read_zigzag(c) : 0;
}

static struct view read_bytes(struct cursor *c)
{
    uint64_t n = thrift_read_varint(c);
    const uint8_t *p = n <= cursor_left(c) ? cursor_take(c, (size_t)n) : NULL;
    if (!p)
        fail(c);
    return p ? (struct view){(const char *)p, (size_t)n} : (struct view){"", 0};
}

struct view thrift_read_binary(struct cursor *c, const struct thrift_field *f)
{
    return is_type(c, f, THRIFT_BINARY) ? read_bytes(c) : (struct view){"", 0};
}

static uint32_t read_list(struct cursor *c, unsigned *type)
{
    uint8_t head = cursor_u8(c);
    uint64_t n = head >> 4 == INLINE_LIST ? thrift_read_varint(c) : head >> 4;
    *type = head & 15u;
    if (n <= cursor_left(c) && n <= UINT32_MAX)
        return (uint32_t)n;
    fail(c);
    return 0;
}

uint32_t thrift_read_list(struct cursor *c, const struct thrift_field *f, enum thrift_type type)
{
    unsigned got;
    uint32_t n = is_type(c, f, THRIFT_LIST) ? read_list(c, &got) : 0;
    if (n && got != type) {
        fail(c);
        return 0;
    }
    return n;
}

bool thrift_read_struct(struct cursor *c, const struct thrift_field *f)
{
    return is_type(c, f, THRIFT_STRUCT);
}

/* What is open while a value is skipped: a list, or a struct. */
struct open {
    uint32_t left; /* elements of the list */
    unsigned type; /* of these; 0: a struct */
    struct thrift_field field;
};

/* Skips a value, or the begin of one: a list or struct is added to `o`. Returns how many are. */
static unsigned skip_value(struct cursor *c, unsigned type, bool element, struct open *o)
{
    *o = (struct open){0};
    switch (type) {
    case THRIFT_TRUE:
    case THRIFT_FALSE:
        if (element)
            (void)cursor_u8(c);
        return 0;
    case THRIFT_I8:
        (void)cursor_u8(c);
        return 0;
    case THRIFT_I16:
    case THRIFT_I32:
    case THRIFT_I64:
        (void)thrift_read_varint(c);
        return 0;
    case THRIFT_DOUBLE:
        (void)cursor_u64(c);
        return 0;
    case THRIFT_BINARY:
        (void)read_bytes(c);
        return 0;
    case THRIFT_LIST:
        o->left = read_list(c, &o->type);
        if (o->left && !o->type)
            fail(c);
        return o->left ? 1 : 0;
    case THRIFT_STRUCT:
        return 1;
    default:
        fail(c);
        return 0;
    }
}

void thrift_skip(struct cursor *c, const struct thrift_field *f)
{
    struct open open[THRIFT_DEPTH + 1];
    unsigned depth = skip_value(c, f->type, false, &open[0]);
    while (depth && !c->short_read) {
        struct open *o = &open[depth - 1];
        if (depth > THRIFT_DEPTH) {
            fail(c);
        } else if (o->type) {
            if (o->left-- == 0)
                depth--;
            else
                depth += skip_value(c, o->type, true, &open[depth]);
        } else if (thrift_read_field(c, &o->field)) {
            depth += skip_value(c, o->field.type, false, &open[depth]);
        } else {
            depth--;
        }
    }
}
