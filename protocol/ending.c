#include "protocol/ending.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "protocol/handshake.h"
#include "protocol/wire.h"
#include "protocol/wire_frame.h"

struct ending {
    const struct wire_version *version;
    uint8_t head[1 + WELCOME_SIZE_MAX]; /* status byte and welcome */
    size_t have;
    size_t skip; /* bytes before the first frame, known after the welcome */
    struct frame_reader *frames;
    bool said, broken;
};

struct ending *ending_new(const struct wire_version *version)
{
    struct ending *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->version = version;
    g->frames = frame_reader_new();
    if (g->frames)
        return g;
    free(g);
    return NULL;
}

void ending_free(struct ending *g)
{
    if (!g)
        return;
    frame_reader_free(g->frames);
    free(g);
}

bool ending_said(const struct ending *g)
{
    return g->said;
}

/* The size of an item with its tail; more than `left` when it is truncated. */
static size_t item_size(const struct wire_item *it, const uint8_t *p, size_t left)
{
    size_t start = (size_t)it->size + wire_tail_size((enum wire_tail)it->tail);
    if (left < start)
        return start;
    switch (it->tail) {
    case WIRE_TAIL_8:
        return start + p[it->size];
    case WIRE_TAIL_16:
        return start + load_u16(p + it->size);
    case WIRE_TAIL_16_PLUS_256:
        return start + load_u16(p + it->size) + 256;
    case WIRE_TAIL_32:
        return start + load_u32(p + it->size);
    default:
        return start;
    }
}

static void look_into(struct ending *g, const struct wire_frame *frame)
{
    const uint8_t *p = frame->bytes, *end = p + frame->len;
    while (p < end && *p < g->version->item_count) {
        const struct wire_item *it = &g->version->items[*p];
        size_t size = item_size(it, p, (size_t)(end - p));
        if (size > (size_t)(end - p))
            break;
        g->said |= it->kind == WIRE_TERMINATE || it->kind == WIRE_CRASH;
        p += size;
    }
    g->broken |= p < end;
}

/* Collects missing bytes of the head and advances over them. */
static void take_head(struct ending *g, const uint8_t **bytes, size_t *n)
{
    size_t whole = 1 + wire_version_welcome_size(g->version);
    size_t part = whole - g->have < *n ? whole - g->have : *n;
    struct welcome w;
    memcpy(g->head + g->have, *bytes, part);
    g->have += part;
    *bytes += part;
    *n -= part;
    if (g->have < whole)
        return;
    g->broken = g->head[0] != HANDSHAKE_WELCOME ||
                welcome_parse(g->version, g->head + 1, whole - 1, &w, NULL) != 0;
    g->skip = !g->broken && (w.flags & WELCOME_ON_DEMAND) ? ON_DEMAND_SIZE : 0;
}

void ending_feed(struct ending *g, const uint8_t *bytes, size_t n)
{
    struct wire_frame frame;
    int got;
    if (g->have < 1 + wire_version_welcome_size(g->version))
        take_head(g, &bytes, &n);
    size_t part = g->skip < n ? g->skip : n;
    bytes += part;
    n -= part;
    g->skip -= part;
    while (n > 0 && !g->broken && !g->said) {
        got = frame_reader_feed(g->frames, &bytes, &n, &frame, NULL);
        g->broken |= got < 0;
        if (got > 0)
            look_into(g, &frame);
    }
}
