#include "report/export/thrift.h"

static void put_varint(struct thrift *t, uint64_t n)
{
    for (; n >= 0x80; n >>= 7)
        buf_u8(t->buf, (uint8_t)(n | 0x80));
    buf_u8(t->buf, (uint8_t)n);
}

static void put_zigzag(struct thrift *t, int64_t n)
{
    put_varint(t, (uint64_t)n << 1 ^ (uint64_t)(n >> 63));
}

static void put_field(struct thrift *t, int field, unsigned type)
{
    int *last = &t->last[t->depth];
    int step = field - *last;
    if (step >= 1 && step <= 15) {
        buf_u8(t->buf, (uint8_t)((unsigned)step << 4 | type));
    } else {
        buf_u8(t->buf, (uint8_t)type);
        put_zigzag(t, field);
    }
    *last = field;
}

static void put_binary(struct thrift *t, struct view bytes)
{
    put_varint(t, bytes.len);
    buf_put(t->buf, bytes.p, bytes.len);
}

void thrift_bool(struct thrift *t, int field, bool value)
{
    put_field(t, field, value ? THRIFT_TRUE : THRIFT_FALSE);
}

void thrift_i8(struct thrift *t, int field, int8_t value)
{
    put_field(t, field, THRIFT_I8);
    buf_u8(t->buf, (uint8_t)value);
}

void thrift_i32(struct thrift *t, int field, int32_t value)
{
    put_field(t, field, THRIFT_I32);
    put_zigzag(t, value);
}

void thrift_i64(struct thrift *t, int field, int64_t value)
{
    put_field(t, field, THRIFT_I64);
    put_zigzag(t, value);
}

void thrift_binary(struct thrift *t, int field, struct view bytes)
{
    put_field(t, field, THRIFT_BINARY);
    put_binary(t, bytes);
}

static void open_struct(struct thrift *t)
{
    t->depth++;
    t->last[t->depth] = 0;
}

void thrift_struct(struct thrift *t, int field)
{
    put_field(t, field, THRIFT_STRUCT);
    open_struct(t);
}

void thrift_list(struct thrift *t, int field, enum thrift_type type, uint32_t n)
{
    put_field(t, field, THRIFT_LIST);
    if (n < 15) {
        buf_u8(t->buf, (uint8_t)(n << 4 | type));
    } else {
        buf_u8(t->buf, (uint8_t)(0xf0 | type));
        put_varint(t, n);
    }
}

void thrift_element_i32(struct thrift *t, int32_t value)
{
    put_zigzag(t, value);
}

void thrift_element_binary(struct thrift *t, struct view bytes)
{
    put_binary(t, bytes);
}

void thrift_element_struct(struct thrift *t)
{
    open_struct(t);
}

void thrift_end(struct thrift *t)
{
    buf_u8(t->buf, 0);
    if (t->depth > 0)
        t->depth--;
}
