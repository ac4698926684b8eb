#include "base/line_sort.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/heap.h"
#include "base/tempfile.h"

#define WRITE_BYTES ((size_t)256 << 10)
#define READ_BYTES_MIN ((size_t)64 << 10)
#define LENGTH_SIZE sizeof(uint64_t) /* precedes each line of a run */

void line_sort_init(struct line_sort *s, size_t capacity, const char *dir)
{
    *s = (struct line_sort){.capacity = capacity ? capacity : LINE_SORT_BYTES,
                            .dir = tempfile_dir(dir),
                            .in_order = true,
                            .fd = -1};
}

void line_sort_release(struct line_sort *s)
{
    buf_release(&s->lines);
    buf_release(&s->last);
    buf_release(&s->out);
    vec_release(&s->entries);
    vec_release(&s->runs);
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

/* ---- order */

static uint64_t big_endian(const uint8_t *p, size_t len)
{
    uint8_t padded[8] = {0};
    if (len > 0)
        memcpy(padded, p, len < 8 ? len : 8);
    return __builtin_bswap64(load_u64(padded));
}

static void set_head(struct line_entry *entry, const uint8_t *p)
{
    entry->head[0] = big_endian(p, entry->len);
    entry->head[1] = entry->len > 8 ? big_endian(p + 8, entry->len - 8) : 0;
}

/* Compares lines `a` and `b`, whose bytes are at `pa` and `pb`. */
static int compare_lines(const struct line_entry *a, const uint8_t *pa, const struct line_entry *b,
                         const uint8_t *pb)
{
    if (a->head[0] != b->head[0])
        return a->head[0] < b->head[0] ? -1 : 1;
    if (a->head[1] != b->head[1])
        return a->head[1] < b->head[1] ? -1 : 1;
    size_t len = a->len < b->len ? a->len : b->len;
    int order = len > 0 ? memcmp(pa, pb, len) : 0;
    return order != 0 ? order : a->len < b->len ? -1 : a->len > b->len;
}

static int compare_entries(const void *a, const void *b, void *lines)
{
    const struct line_entry *x = a;
    const struct line_entry *y = b;
    const uint8_t *base = lines;
    return compare_lines(x, base + x->offset, y, base + y->offset);
}

static void sort_entries(struct line_sort *s)
{
    if (!s->in_order)
        qsort_r(s->entries.at, s->entries.len, sizeof *s->entries.at, compare_entries,
                s->lines.data);
    s->in_order = true;
}

/* ---- writing runs */

static int flush_out(struct line_sort *s, struct err *e)
{
    if (s->out.failed)
        return err_no_memory(e, "sorting");
    if (tempfile_write(s->fd, s->dir, s->out.data, s->out.len, s->end, e) != 0)
        return -1;
    s->end += s->out.len;
    buf_clear(&s->out);
    return 0;
}

/* True when the current lines continue the last run in order. */
static bool extends_run(const struct line_sort *s)
{
    if (s->runs.len == 0)
        return false;
    struct line_entry last = {.len = s->last.len};
    set_head(&last, s->last.data);
    const struct line_entry *first = &s->entries.at[0];
    return compare_lines(&last, s->last.data, first, s->lines.data + first->offset) <= 0;
}

static int remember_last(struct line_sort *s, struct err *e)
{
    const struct line_entry *last = &s->entries.at[s->entries.len - 1];
    buf_clear(&s->last);
    buf_put(&s->last, s->lines.data + last->offset, last->len);
    return s->last.failed ? err_no_memory(e, "sorting") : 0;
}

static int write_run(struct line_sort *s, struct err *e)
{
    sort_entries(s);
    if (s->fd < 0 && (s->fd = tempfile_open(s->dir, e)) < 0)
        return -1;
    if (!extends_run(s) && !vec_push(&s->runs, (struct line_run){s->end, 0}))
        return err_no_memory(e, "sorting");
    for (size_t i = 0; i < s->entries.len; i++) {
        const struct line_entry *entry = &s->entries.at[i];
        buf_u64(&s->out, entry->len);
        buf_put(&s->out, s->lines.data + entry->offset, entry->len);
        if (s->out.len >= WRITE_BYTES && flush_out(s, e) != 0)
            return -1;
    }
    if (flush_out(s, e) != 0 || remember_last(s, e) != 0)
        return -1;
    struct line_run *run = &s->runs.at[s->runs.len - 1];
    run->bytes = s->end - run->offset;
    buf_clear(&s->lines);
    s->entries.len = 0;
    return 0;
}

int line_sort_add(struct line_sort *s, struct view key, struct view text, struct err *e)
{
    struct line_entry entry = {.offset = s->lines.len, .len = key.len + text.len};
    size_t used = s->lines.len + s->entries.len * sizeof entry;
    if (s->entries.len > 0 && used + entry.len > s->capacity) {
        if (write_run(s, e) != 0)
            return -1;
        entry.offset = 0;
    }
    uint8_t *p = buf_reserve(&s->lines, entry.len);
    if (!p)
        return err_no_memory(e, "sorting");
    if (key.len > 0)
        memcpy(p, key.p, key.len);
    if (text.len > 0)
        memcpy(p + key.len, text.p, text.len);
    s->lines.len += entry.len;
    set_head(&entry, p);
    if (s->in_order && s->entries.len > 0) {
        const struct line_entry *last = &s->entries.at[s->entries.len - 1];
        s->in_order = compare_lines(last, s->lines.data + last->offset, &entry, p) <= 0;
    }
    return vec_push(&s->entries, entry) ? 0 : err_no_memory(e, "sorting");
}

/* ---- merging runs */

/* The part of a run that is loaded in memory. */
struct merge_input {
    struct buf buf;
    size_t pos;           /* of the current line, after its length */
    struct line_run rest; /* the part still on disk */
    struct line_entry line;
};

struct merge {
    struct line_sort *s;
    struct merge_input *inputs;
    struct run_heap heap; /* of inputs, smallest line at the top */
    size_t piece;         /* bytes read from a run at a time */
};

/* Makes `n` bytes from in->pos on contiguous. */
static int input_need(struct merge *m, struct merge_input *in, size_t n, struct err *e)
{
    size_t have = in->buf.len - in->pos;
    if (have >= n)
        return 0;
    if (have > 0)
        memmove(in->buf.data, in->buf.data + in->pos, have);
    in->buf.len = have;
    in->pos = 0;
    size_t want = n - have > m->piece ? n - have : m->piece;
    if (want > in->rest.bytes)
        want = (size_t)in->rest.bytes;
    uint8_t *p = buf_reserve(&in->buf, want);
    if (!p)
        return err_no_memory(e, "sorting");
    if (tempfile_read(m->s->fd, m->s->dir, p, want, in->rest.offset, e) != 0)
        return -1;
    in->buf.len += want;
    in->rest.offset += want;
    in->rest.bytes -= want;
    return 0;
}

/* Advances a run to its next line. Returns 1, 0 at its end, or -1 on an error. */
static int input_next(struct merge *m, struct merge_input *in, struct err *e)
{
    in->pos += in->line.len;
    in->line.len = 0;
    if (in->pos == in->buf.len && in->rest.bytes == 0)
        return 0;
    if (input_need(m, in, LENGTH_SIZE, e) != 0)
        return -1;
    size_t len = (size_t)load_u64(in->buf.data + in->pos);
    in->pos += LENGTH_SIZE;
    if (input_need(m, in, len, e) != 0)
        return -1;
    in->line.len = len;
    set_head(&in->line, in->buf.data + in->pos);
    return 1;
}

static bool before(const void *ctx, size_t a, size_t b)
{
    const struct merge *m = ctx;
    const struct merge_input *x = &m->inputs[a];
    const struct merge_input *y = &m->inputs[b];
    int order = compare_lines(&x->line, x->buf.data + x->pos, &y->line, y->buf.data + y->pos);
    return order < 0 || (order == 0 && a < b);
}

static int merge_init(struct merge *m, struct line_sort *s, struct err *e)
{
    size_t k = s->runs.len;
    *m = (struct merge){.s = s, .piece = s->capacity / (k + 1)};
    if (m->piece < READ_BYTES_MIN)
        m->piece = READ_BYTES_MIN;
    m->inputs = calloc(k, sizeof *m->inputs);
    if (!run_heap_init(&m->heap, k) || !m->inputs)
        return err_no_memory(e, "sorting");
    for (size_t i = 0; i < k; i++) {
        m->inputs[i].rest = s->runs.at[i];
        if (input_next(m, &m->inputs[i], e) < 0)
            return -1;
    }
    run_heap_order(&m->heap, before, m);
    return 0;
}

static void merge_release(struct merge *m)
{
    for (size_t i = 0; m->inputs && i < m->s->runs.len; i++)
        buf_release(&m->inputs[i].buf);
    free(m->inputs);
    run_heap_release(&m->heap);
}

static int merge_runs(struct line_sort *s, line_sort_put *put, void *ctx, struct err *e)
{
    struct merge m;
    int status = merge_init(&m, s, e);
    while (status == 0 && m.heap.n > 0) {
        struct merge_input *in = &m.inputs[m.heap.at[0]];
        struct view line = {(const char *)in->buf.data + in->pos, in->line.len};
        status = put(ctx, line, e);
        int more = status == 0 ? input_next(&m, in, e) : 0;
        if (more < 0)
            status = -1;
        run_heap_advance(&m.heap, more == 0, before, &m);
    }
    merge_release(&m);
    return status;
}

static int put_entries(struct line_sort *s, line_sort_put *put, void *ctx, struct err *e)
{
    sort_entries(s);
    for (size_t i = 0; i < s->entries.len; i++) {
        const struct line_entry *entry = &s->entries.at[i];
        struct view line = {(const char *)s->lines.data + entry->offset, entry->len};
        if (put(ctx, line, e) != 0)
            return -1;
    }
    return 0;
}

int line_sort_drain(struct line_sort *s, line_sort_put *put, void *ctx, struct err *e)
{
    int status = 0;
    if (s->runs.len == 0) {
        status = put_entries(s, put, ctx, e);
    } else {
        if (s->entries.len > 0)
            status = write_run(s, e);
        buf_release(&s->lines); /* frees memory for the merge */
        vec_release(&s->entries);
        if (status == 0)
            status = merge_runs(s, put, ctx, e);
    }
    buf_clear(&s->lines);
    s->entries.len = 0;
    s->in_order = true;
    s->runs.len = 0;
    s->end = 0;
    return status;
}
