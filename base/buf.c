#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void buf_release(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
    if (b->cap - b->len >= n && b->data)
        return b->data + b->len;
    if (n > SIZE_MAX / 2 - b->len) {
        b->failed = true;
        return NULL;
    }
    size_t cap = b->cap ? b->cap : 64;
    while (cap - b->len < n)
        cap *= 2;
    uint8_t *data = realloc(b->data, cap);
    if (!data) {
        b->failed = true;
        return NULL;
    }
    b->data = data;
    b->cap = cap;
    return data + b->len;
}

void buf_put(struct buf *b, const void *bytes, size_t n)
{
    if (n == 0)
        return;
    uint8_t *p = buf_reserve(b, n);
    if (p) {
        memcpy(p, bytes, n);
        b->len += n;
    }
}

void buf_puts(struct buf *b, const char *s)
{
    buf_put(b, s, strlen(s));
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    uint8_t *p = n < 0 ? NULL : buf_reserve(b, (size_t)n + 1);
    if (p) {
        vsnprintf((char *)p, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(b, fmt, ap);
    va_end(ap);
}

const char *buf_str(struct buf *b)
{
    uint8_t *p = buf_reserve(b, 1);
    if (!p)
        return "";
    *p = 0;
    return (const char *)b->data;
}
