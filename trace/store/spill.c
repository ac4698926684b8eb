#include "trace/store/spill.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/heap.h"
#include "base/tempfile.h"

/*
 * Records of a block. Merging keeps a block of each run in memory, so that BLOCKS runs take as much
 * as the buffer did.
 */
#define BLOCKS 256u
#define BLOCK_LEAST 16u
#define BLOCK_MOST 4096u
#define BLOCK_HEAD sizeof(uint32_t) /* the length of the packed records that follow */

void spill_init(struct spill *s, size_t size, size_t capacity, const char *dir)
{
    *s = (struct spill){.size = size, .dir = tempfile_dir(dir), .fd = -1};
    s->capacity = capacity ? capacity : SPILL_BYTES / size;
    s->block = s->capacity / BLOCKS < BLOCK_LEAST  ? BLOCK_LEAST
               : s->capacity / BLOCKS > BLOCK_MOST ? BLOCK_MOST
                                                   : s->capacity / BLOCKS;
    s->layout.element = (uint8_t)size;
    for (; s->layout.count < size / 8; s->layout.count++)
        s->layout.fields[s->layout.count] =
            (struct pack_field){(uint8_t)(s->layout.count * 8u), 8, PACK_STEP};
}

void spill_release(struct spill *s)
{
    free(s->buf);
    free(s->packed);
    s->buf = s->packed = NULL;
    vec_release(&s->runs);
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

/* ---- in memory */

static int64_t time_of(const uint8_t *rec)
{
    int64_t t;
    memcpy(&t, rec, sizeof t);
    return t;
}

static bool is_sorted(const struct spill *s)
{
    for (size_t i = 1; i < s->n; i++) {
        if (time_of(s->buf + (i - 1) * s->size) > time_of(s->buf + i * s->size))
            return false;
    }
    return true;
}

/*
 * Merges from[lo, mid) and from[mid, hi) into to[lo, hi); at equal times the first range goes
 * first.
 */
static void merge_halves(uint8_t *to, const uint8_t *from, size_t size, size_t lo, size_t mid,
                         size_t hi)
{
    size_t a = lo, b = mid;
    for (size_t i = lo; i < hi; i++) {
        bool first = b == hi || (a < mid && time_of(from + a * size) <= time_of(from + b * size));
        memcpy(to + i * size, from + (first ? a++ : b++) * size, size);
    }
}

/* Bottom-up merge sort between the two buffers; returns the sorted one. */
static uint8_t *merge_sort(uint8_t *from, uint8_t *to, size_t size, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = n - lo < width ? n : lo + width;
            size_t hi = n - lo < 2 * width ? n : lo + 2 * width;
            merge_halves(to, from, size, lo, mid, hi);
        }
        uint8_t *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

/* Long lists are sorted digit by digit, lowest first; digits equal in all records are skipped. */
#define DIGIT_BITS 11
#define DIGIT_COUNT ((64 + DIGIT_BITS - 1) / DIGIT_BITS)
#define DIGIT_VALUES (1u << DIGIT_BITS)
#define RADIX_MIN 4096u

struct digits {
    uint32_t place[DIGIT_COUNT][DIGIT_VALUES]; /* first the counts, then the target positions */
};

/* Flips the sign so that negative times come first. */
static inline unsigned digit_of(const uint8_t *rec, unsigned digit)
{
    uint64_t key = (uint64_t)time_of(rec) ^ UINT64_C(1) << 63;
    return (unsigned)(key >> (digit * DIGIT_BITS)) & (DIGIT_VALUES - 1);
}

static void count_digits(struct digits *d, const uint8_t *from, size_t size, size_t n)
{
    memset(d, 0, sizeof *d);
    for (size_t i = 0; i < n; i++) {
        for (unsigned k = 0; k < DIGIT_COUNT; k++)
            d->place[k][digit_of(from + i * size, k)]++;
    }
}

static inline __attribute__((always_inline)) void
scatter(uint32_t *place, unsigned digit, uint8_t *to, const uint8_t *from, size_t size, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *rec = from + i * size;
        memcpy(to + (size_t)place[digit_of(rec, digit)]++ * size, rec, size);
    }
}

/* Copies of a compile-time length are much faster. */
static void move_by_digit(uint32_t *place, unsigned digit, uint8_t *to, const uint8_t *from,
                          size_t size, size_t n)
{
    switch (size) {
    case 8:
        scatter(place, digit, to, from, 8, n);
        break;
    case 16:
        scatter(place, digit, to, from, 16, n);
        break;
    case 32:
        scatter(place, digit, to, from, 32, n);
        break;
    default:
        scatter(place, digit, to, from, size, n);
    }
}

static uint8_t *radix_sort(struct digits *d, uint8_t *from, uint8_t *to, size_t size, size_t n)
{
    count_digits(d, from, size, n);
    for (unsigned k = 0; k < DIGIT_COUNT; k++) {
        uint32_t next = 0;
        if (d->place[k][digit_of(from, k)] == n)
            continue;
        for (unsigned v = 0; v < DIGIT_VALUES; v++) {
            uint32_t count = d->place[k][v];
            d->place[k][v] = next;
            next += count;
        }
        move_by_digit(d->place[k], k, to, from, size, n);
        uint8_t *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

static int sort_buffer(struct spill *s, struct err *e)
{
    if (is_sorted(s))
        return 0;
    bool by_digits = s->n >= RADIX_MIN && s->n <= UINT32_MAX;
    uint8_t *other = malloc(s->capacity * s->size);
    struct digits *digits = by_digits ? malloc(sizeof *digits) : NULL;
    int status = 0;
    if (!other || (by_digits && !digits)) {
        status = err_no_memory(e, "sorting");
    } else {
        uint8_t *sorted = digits ? radix_sort(digits, s->buf, other, s->size, s->n)
                                 : merge_sort(s->buf, other, s->size, s->n);
        if (sorted == other) {
            other = s->buf;
            s->buf = sorted;
        }
    }
    free(other);
    free(digits);
    return status;
}

/* ---- on disk */

static bool has_room_to_pack(struct spill *s)
{
    if (!s->packed)
        s->packed = malloc(BLOCK_HEAD + pack_bound(&s->layout, s->block));
    return s->packed != NULL;
}

/* Appends records to the file, block by block. */
static int write_blocks(struct spill *s, const uint8_t *recs, size_t n, struct err *e)
{
    for (size_t done = 0, part; done < n; done += part) {
        part = n - done < s->block ? n - done : s->block;
        size_t len = pack_elements(&s->layout, recs + done * s->size, part, s->packed + BLOCK_HEAD);
        store_u32(s->packed, (uint32_t)len);
        if (tempfile_write(s->fd, s->dir, s->packed, BLOCK_HEAD + len, s->end, e) != 0)
            return -1;
        s->end += BLOCK_HEAD + len;
    }
    return 0;
}

/* Reads the next block of a run, which has records left. Returns how many it has, or 0. */
static size_t read_block(struct spill *s, struct spill_run *rest, uint8_t *recs, struct err *e)
{
    size_t n = rest->n < s->block ? (size_t)rest->n : s->block;
    if (tempfile_read(s->fd, s->dir, s->packed, BLOCK_HEAD, rest->offset, e) != 0)
        return 0;
    size_t len = load_u32(s->packed);
    rest->offset += BLOCK_HEAD;
    if (tempfile_read(s->fd, s->dir, s->packed, len, rest->offset, e) != 0)
        return 0;
    unpack_elements(&s->layout, s->packed, n, recs);
    rest->offset += len;
    rest->n -= n;
    return n;
}

static int write_run(struct spill *s, struct err *e)
{
    if (sort_buffer(s, e) != 0 || (s->fd < 0 && (s->fd = tempfile_open(s->dir, e)) < 0))
        return -1;
    s->unordered |= s->runs.len && time_of(s->buf) < s->last;
    s->last = time_of(s->buf + (s->n - 1) * s->size);
    if (!has_room_to_pack(s) || !vec_push(&s->runs, (struct spill_run){s->end, s->n}))
        return err_no_memory(e, "sorting");
    if (write_blocks(s, s->buf, s->n, e) != 0)
        return -1;
    s->n = 0;
    return 0;
}

int spill_add(struct spill *s, const void *recs, size_t n, struct err *e)
{
    const uint8_t *p = recs;
    if (!s->buf) {
        s->buf = malloc(s->capacity * s->size);
        if (!s->buf)
            return err_no_memory(e, "sorting");
    }
    while (n > 0) {
        if (s->n == s->capacity && write_run(s, e) != 0)
            return -1;
        size_t part = s->capacity - s->n < n ? s->capacity - s->n : n;
        memcpy(s->buf + s->n * s->size, p, part * s->size);
        s->n += part;
        p += part * s->size;
        n -= part;
    }
    return 0;
}

/* ---- merging runs */

/* The block of a run that is loaded in memory. */
struct merge_input {
    uint8_t *buf;
    size_t pos, n;         /* records in buf */
    struct spill_run rest; /* the part still on disk */
};

struct merge {
    struct spill *s;
    struct merge_input *inputs;
    struct run_heap heap; /* of inputs, earliest record at the top */
    uint8_t *buf;         /* one block per input, and one for the output */
};

static int input_fill(struct merge *m, struct merge_input *in, struct err *e)
{
    in->pos = 0;
    in->n = read_block(m->s, &in->rest, in->buf, e);
    return in->n ? 0 : -1;
}

static const uint8_t *head(const struct merge *m, size_t i)
{
    const struct merge_input *in = &m->inputs[i];
    return in->buf + in->pos * m->s->size;
}

/* Runs are in list order, so at equal times the earlier run goes first. */
static bool before(const void *ctx, size_t a, size_t b)
{
    const struct merge *m = ctx;
    int64_t ta = time_of(head(m, a)), tb = time_of(head(m, b));
    return ta < tb || (ta == tb && a < b);
}

/* Moves the earliest record to `out`. */
static int take(struct merge *m, uint8_t *out, struct err *e)
{
    struct merge_input *in = &m->inputs[m->heap.at[0]];
    memcpy(out, head(m, m->heap.at[0]), m->s->size);
    bool empty = ++in->pos == in->n, ended = empty && in->rest.n == 0;
    if (empty && !ended && input_fill(m, in, e) != 0)
        return -1;
    run_heap_advance(&m->heap, ended, before, m);
    return 0;
}

static int merge_init(struct merge *m, struct spill *s, struct err *e)
{
    size_t k = s->runs.len;
    *m = (struct merge){.s = s};
    m->inputs = calloc(k, sizeof *m->inputs);
    bool heap = run_heap_init(&m->heap, k);
    m->buf = malloc((k + 1) * s->block * s->size);
    if (!m->inputs || !heap || !m->buf)
        return err_no_memory(e, "sorting");
    for (size_t i = 0; i < k; i++) {
        m->inputs[i].buf = m->buf + i * s->block * s->size;
        m->inputs[i].rest = s->runs.at[i];
        if (input_fill(m, &m->inputs[i], e) != 0)
            return -1;
    }
    run_heap_order(&m->heap, before, m);
    return 0;
}

static int merge_runs(struct spill *s, spill_put *put, void *ctx, struct err *e)
{
    struct merge m;
    int status = merge_init(&m, s, e);
    uint8_t *out = status == 0 ? m.buf + s->runs.len * s->block * s->size : NULL;
    while (status == 0 && m.heap.n > 0) {
        size_t n = 0;
        while (status == 0 && n < s->block && m.heap.n > 0)
            status = take(&m, out + n++ * s->size, e);
        if (status == 0)
            status = put(ctx, out, n, e);
    }
    free(m.inputs);
    run_heap_release(&m.heap);
    free(m.buf);
    return status;
}

/* Delivers disjoint ascending runs one after another without merging. */
static int concatenate_runs(struct spill *s, spill_put *put, void *ctx, struct err *e)
{
    uint8_t *buf = malloc(s->block * s->size);
    int status = buf ? 0 : err_no_memory(e, "sorting");
    for (size_t i = 0; i < s->runs.len && status == 0; i++) {
        struct spill_run rest = s->runs.at[i];
        while (status == 0 && rest.n > 0) {
            size_t n = read_block(s, &rest, buf, e);
            status = n ? put(ctx, buf, n, e) : -1;
        }
    }
    free(buf);
    return status;
}

int spill_drain(struct spill *s, spill_put *put, void *ctx, struct err *e)
{
    int status = 0;
    if (s->runs.len == 0) {
        status = sort_buffer(s, e);
        if (status == 0 && s->n > 0)
            status = put(ctx, s->buf, s->n, e);
    } else {
        if (s->n > 0)
            status = write_run(s, e);
        free(s->buf); /* frees memory for the merge */
        s->buf = NULL;
        if (status == 0)
            status = (s->unordered ? merge_runs : concatenate_runs)(s, put, ctx, e);
    }
    s->n = 0;
    s->runs.len = 0;
    s->end = 0;
    s->unordered = false;
    return status;
}
