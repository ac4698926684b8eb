/*
 * A trace through csvexport. The first byte picks the mode, the second a file version, the rest is
 * the inner stream behind the version number. Rows must come in order of their source locations.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/csvexport/export.h"
#include "trace/file/codec.h"
#include "trace/file/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The number of the version, then what was given. */
struct bytes {
    uint8_t magic[INNER_MAGIC_SIZE];
    bool begun;
    const uint8_t *p;
    size_t left;
};

static ssize_t read_bytes(void *ctx, uint8_t *out, size_t room, struct err *e)
{
    struct bytes *b = ctx;
    size_t n = b->left < room ? b->left : room;
    (void)e;
    if (!b->begun) {
        b->begun = true;
        memcpy(out, b->magic, sizeof b->magic);
        return sizeof b->magic;
    }
    memcpy(out, b->p, n);
    b->p += n;
    b->left -= n;
    return (ssize_t)n;
}

struct seen {
    int64_t place;
    uint32_t rank;
    uint64_t bytes;
    bool any;
};

static void expect(bool holds)
{
    if (!holds)
        abort();
}

/* Every byte of a name is looked at. */
static void look(struct seen *s, struct view text)
{
    for (size_t i = 0; i < text.len; i++)
        s->bytes += (uint8_t)text.p[i];
}

static int take_begin(void *ctx, uint64_t messages, struct err *e)
{
    (void)ctx, (void)messages, (void)e;
    return 0;
}

static int take_stat(void *ctx, const struct export_place *p, const struct zone_figures *f,
                     int64_t last_time, struct err *e)
{
    struct seen *s = ctx;
    (void)last_time, (void)e;
    look(s, p->name);
    look(s, p->file);
    expect(f->count > 0 && f->min <= f->max && (!s->any || p->rank > s->rank));
    s->any = true;
    s->rank = p->rank;
    return 0;
}

static int take_gpu_zone(void *ctx, const struct export_place *p, const struct zone_row *z,
                         struct err *e)
{
    struct seen *s = ctx;
    (void)e;
    look(s, p->name);
    look(s, p->file);
    expect(!s->any || z->place > s->place);
    s->any = true;
    s->place = z->place;
    return 0;
}

static int take_zone(void *ctx, const struct export_place *p, const struct zone_row *z,
                     struct view text, struct err *e)
{
    look(ctx, text);
    return take_gpu_zone(ctx, p, z, e);
}

static int take_message(void *ctx, struct view text, int64_t time, struct err *e)
{
    (void)time, (void)e;
    look(ctx, text);
    return 0;
}

static int take_points(void *ctx, struct view plot, const struct listed_point *points, size_t n,
                       struct err *e)
{
    (void)points, (void)e;
    expect(n > 0);
    look(ctx, plot);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen seen = {0};
    struct err e = {0};
    struct trace_info info;
    bool wanted[REC_TYPE_COUNT];
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    if (size < 2)
        return 0;
    const struct export_options options = {.kind = data[0] % 4,
                                           .self = data[0] >> 2 & 1,
                                           .plots = data[0] >> 3 & 1,
                                           .percent = data[0] >> 4 & 1 ? 90 : 0,
                                           .filter = {data[0] >> 5 & 1 ? "o" : NULL, false}};
    const struct export_rows rows = {&seen,         take_begin,   take_stat,  take_zone,
                                     take_gpu_zone, take_message, take_points};
    struct bytes bytes = {.p = data + 2, .left = size - 2};
    codec_write_magic(all[data[1] % n].version, bytes.magic);
    struct export *x = export_open(&options, &rows, &e);
    if (!x)
        return 0;
    const struct trace_read_options read = {.wanted = wanted, .record_max = 1 << 20};
    struct record_sink sink = export_sink(x);
    export_wanted(x, wanted);
    if (trace_read_inner((struct byte_source){&bytes, read_bytes}, &sink, &read, &info, &e) == 0)
        (void)export_finish(x, &e);
    export_free(x);
    return 0;
}
