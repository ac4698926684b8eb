#include <stdlib.h>

#include <zstd.h>

#include "analysis/figures/figure_bytes.h"
#include "analysis/figures/only_state.h"
#include "trace/file/appendix.h"

/* Of compression: most figures are few. */
#define LEVEL 19
#define LEVEL_LARGE 6
#define LARGE ((size_t)1 << 20)

/* Minimum size of a pool, a call stack and a group, in bytes. */
#define POOL_LEAST (6 + POOL_FIELDS + 4)
#define CALLSTACK_LEAST (1 + COUNTER_FIELDS)
#define GROUP_LEAST (8u + 1)

static uint64_t count_keys(const struct accounting *a, uint32_t pool)
{
    uint64_t iter = 0, n = 0;
    uint32_t key;
    struct counter c;
    while (accounting_next(a, pool, &iter, &key, &c))
        n++;
    return n;
}

/* Numbers of threads change in a file: by their ids. */
static void put_threads(const struct only *o, uint32_t pool, struct buf *out)
{
    const struct trace_threads *threads = &o->trace->threads;
    uint64_t iter = 0;
    uint32_t number;
    figures_put(out, count_keys(&o->figures.threads, pool));
    for (struct counter c; accounting_next(&o->figures.threads, pool, &iter, &number, &c);) {
        figures_put(out, number < threads->list.len ? threads->list.at[number].id : 0);
        figures_put_all(out, &c, COUNTER_FIELDS);
    }
}

static void put_parts(const struct feed *f, struct buf *out)
{
    figures_put(out, FIGURES_PARTS_MAX);
    for (size_t i = 0; i < FIGURES_PARTS_MAX; i++) {
        figures_put(out, f->bytes[i].len);
        buf_put(out, f->bytes[i].data, f->bytes[i].len);
    }
}

static void put_pool(const struct only *o, uint32_t number, struct buf *out)
{
    const struct pool *p = o->trace->memory.pools.at[number];
    const struct map *peaks = &o->feeds.at[number]->peaks;
    const uint64_t head[] = {p->key,      p->totals.low_address,   p->totals.high_address,
                             p->disorder, (uint64_t)p->first_time, (uint64_t)p->last_time};
    struct pool_figures figures;
    accounting_pool(&o->figures.callstacks, number, &figures);
    figures_put_all(out, head, sizeof head / sizeof *head);
    figures_put_all(out, &figures, POOL_FIELDS);
    figures_put(out, count_keys(&o->figures.callstacks, number));
    figures_put(out, peaks->count);
    uint64_t iter = 0;
    uint32_t id, before = 0;
    for (struct counter c; accounting_next(&o->figures.callstacks, number, &iter, &id, &c);) {
        figures_put(out, id - before);
        figures_put_all(out, &c, COUNTER_FIELDS);
        before = id;
    }
    size_t at = 0;
    for (const struct map_slot *slot; (slot = map_next(peaks, &at));) {
        buf_u64(out, slot->key);
        figures_put(out, slot->value);
    }
    put_threads(o, number, out);
    put_parts(o->feeds.at[number], out);
}

static int no_room(struct err *e)
{
    return err_no_memory(e, "figures of call stacks");
}

static int compress(struct view plain, struct buf *out, struct err *e)
{
    size_t bound = ZSTD_compressBound(plain.len);
    uint8_t *p = buf_reserve(out, bound);
    if (!p)
        return no_room(e);
    size_t len =
        ZSTD_compress(p, bound, plain.p, plain.len, plain.len < LARGE ? LEVEL : LEVEL_LARGE);
    if (ZSTD_isError(len))
        return no_room(e);
    out->len += len;
    return 0;
}

int only_encode(const struct only *o, struct buf *out, struct err *e)
{
    struct buf plain = {0};
    buf_u64(out, APPENDIX_SECTIONS);
    buf_u32(out, APPENDIX_ONLY);
    buf_u32(out, APPENDIX_VERSION);
    size_t length = out->len;
    buf_u64(out, 0);
    figures_put(&plain, o->figures.pools.len);
    for (uint32_t i = 0; i < o->feeds.len; i++) {
        if (o->feeds.at[i])
            put_pool(o, i, &plain);
    }
    int status = plain.failed ? no_room(e) : 0;
    if (status == 0 && plain.len > FIGURES_BYTES_MAX)
        status = err_set(e, ERR_OUTPUT, "they would exceed 256 MiB");
    if (status == 0)
        status = compress(buf_view(&plain), out, e);
    buf_release(&plain);
    if (status == 0 && out->failed)
        status = no_room(e);
    if (status == 0)
        store_u64(out->data + length, out->len - length - 8);
    return status;
}

static int refuse(const struct cursor *c, const char *what, struct err *e)
{
    return err_set(e, ERR_INPUT, "figures behind the trace, offset %zu: %s", cursor_offset(c),
                   c->short_read ? "they end before they should" : what);
}

static int take_stacks(struct only *o, struct cursor *c, uint32_t pool, uint64_t n, struct err *e)
{
    struct memory *m = &o->trace->memory;
    const struct pool_account *account = o->feeds.at[pool]->counting.account;
    uint64_t count = 0, live = 0, id = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct counter one;
        uint64_t step = figures_take(c);
        figures_take_all(c, &one, COUNTER_FIELDS);
        if (c->short_read || (i && step == 0) || step > o->trace->callstacks.list.len - id)
            return refuse(c, "call stacks out of order", e);
        if (one.count == 0 || one.live_count > one.count)
            return refuse(c, "a call stack without allocations", e);
        id += step;
        count += one.count;
        live += one.live_count;
        if (accounting_put_counter(&o->figures.callstacks, pool, (uint32_t)id, &one, e) != 0 ||
            memory_sum_stack(m, (uint32_t)id, one.count, one.bytes, e) != 0)
            return -1;
    }
    const struct pool_figures *f = &account->figures;
    bool right = count == f->allocations && live == f->live && f->frees <= count &&
                 f->live == count - f->frees;
    return right ? 0 : refuse(c, "they do not add up", e);
}

static int take_groups(struct cursor *c, struct map *peaks, uint64_t n, struct err *e)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t hash = cursor_u64(c), peak = figures_take(c);
        if (c->short_read)
            return refuse(c, "", e);
        uint64_t *to = map_add(peaks, hash, NULL);
        if (!to)
            return no_room(e);
        *to = peak;
    }
    return 0;
}

static int take_threads(struct only *o, struct cursor *c, uint32_t pool, struct err *e)
{
    const struct pool_figures *figures = &o->feeds.at[pool]->counting.account->figures;
    uint64_t n = figures_take(c), count = 0;
    if (c->short_read || n > cursor_left(c) / CALLSTACK_LEAST)
        return refuse(c, "more threads than there are bytes", e);
    if (accounting_put_pool(&o->figures.threads, pool, figures, e) != 0)
        return -1;
    for (uint64_t i = 0; i < n; i++) {
        struct counter one;
        const uint64_t *number = map_find(&o->trace->threads.numbers, figures_take(c));
        figures_take_all(c, &one, COUNTER_FIELDS);
        if (c->short_read || !number || one.count == 0)
            return refuse(c, "an unknown thread", e);
        count += one.count;
        if (accounting_put_counter(&o->figures.threads, pool, (uint32_t)*number, &one, e) != 0)
            return -1;
    }
    return count == figures->allocations ? 0 : refuse(c, "they do not add up", e);
}

static int take_parts(struct feed *f, struct cursor *c, struct err *e)
{
    uint64_t n = figures_take(c);
    if (c->short_read || n > cursor_left(c))
        return refuse(c, "more parts than there are bytes", e);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t len = figures_take(c);
        if (c->short_read || len > cursor_left(c))
            return refuse(c, "a part is longer than what is left", e);
        const uint8_t *part = cursor_take(c, (size_t)len);
        if (i < FIGURES_PARTS_MAX) /* later releases may have more */
            buf_put(&f->bytes[i], part, (size_t)len);
        if (i < FIGURES_PARTS_MAX && f->bytes[i].failed)
            return no_room(e);
    }
    return 0;
}

static int take_pool(struct only *o, struct cursor *c, struct err *e)
{
    uint64_t head[6];
    uint32_t number;
    struct pool_figures figures;
    figures_take_all(c, head, 6);
    figures_take_all(c, &figures, POOL_FIELDS);
    uint64_t stacks = figures_take(c), groups = figures_take(c);
    if (c->short_read || stacks > cursor_left(c) / CALLSTACK_LEAST ||
        groups > (cursor_left(c) - stacks * CALLSTACK_LEAST) / GROUP_LEAST)
        return refuse(c, "more call stacks or groups than there are bytes", e);
    if (memory_pool(&o->trace->memory, head[0], &number, e) != 0)
        return -1;
    if (number < o->feeds.len && o->feeds.at[number])
        return refuse(c, "a pool twice", e);
    struct feed *f = only_feed(o, number, e);
    if (!f)
        return -1;
    struct pool *p = o->trace->memory.pools.at[number];
    p->totals = (struct pool_totals){.frees = figures.frees,
                                     .allocations = figures.allocations,
                                     .live = figures.live,
                                     .total_bytes = figures.total_bytes,
                                     .live_bytes = figures.live_bytes,
                                     .low_address = head[1],
                                     .high_address = head[2]};
    p->disorder = head[3];
    p->first_time = (int64_t)head[4];
    p->last_time = (int64_t)head[5];
    f->counting.account->figures = figures;
    o->figures.pools.at[o->figures.pools.len - 1].peaks = &f->peaks;
    if (take_stacks(o, c, number, stacks, e) != 0 || take_groups(c, &f->peaks, groups, e) != 0 ||
        take_threads(o, c, number, e) != 0)
        return -1;
    return take_parts(f, c, e);
}

static int take_pools(struct only *o, struct view bytes, struct err *e)
{
    struct cursor c = cursor_over(bytes.p, bytes.len);
    uint64_t n = figures_take(&c);
    if (c.short_read || n > cursor_left(&c) / POOL_LEAST || n > POOLS_MAX)
        return refuse(&c, "more pools than there are bytes", e);
    for (uint64_t i = 0; i < n; i++) {
        if (take_pool(o, &c, e) != 0)
            return -1;
    }
    o->figures.counted = o->sealed = true;
    return cursor_left(&c) ? refuse(&c, "bytes behind them", e) : 0;
}

int only_decode(struct only *o, struct view bytes, struct err *e)
{
    unsigned long long size = ZSTD_getFrameContentSize(bytes.p, bytes.len);
    if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR ||
        size > FIGURES_BYTES_MAX)
        return err_set(e, ERR_INPUT, "figures behind the trace: they are damaged");
    char *plain = malloc((size_t)size + 1);
    if (!plain)
        return no_room(e);
    size_t len = ZSTD_decompress(plain, (size_t)size, bytes.p, bytes.len);
    int status = ZSTD_isError(len)
                     ? err_set(e, ERR_INPUT, "figures behind the trace: they are damaged")
                     : take_pools(o, (struct view){plain, len}, e);
    free(plain);
    return status;
}
