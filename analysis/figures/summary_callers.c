/* The functions through which most bytes of a row were allocated. */

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "analysis/figures/summary_parts.h"
#include "base/map.h"

/* A share of a row, by the content of its caller's frame. */
struct caller_share {
    size_t row;
    uint64_t key;
    struct stack_place place;
    struct view function;
    uint64_t count, bytes;
};

static struct frame_view frame_at(const struct summary *s, struct stack_place at)
{
    return frame_describe(s->trace, s->trace->callstacks.nodes.at[at.node].frame, at.inlined);
}

/* Equal for frames that are shown alike, up to collisions of 64 bits of a seeded hash. */
static uint64_t content_key(const struct frame_view *f, uint64_t seed)
{
    uint64_t key = XXH3_64bits_withSeed(f->function.p, f->function.len, seed + f->line);
    key = XXH3_64bits_withSeed(f->file.p, f->file.len, key);
    return XXH3_64bits_withSeed(f->image.p, f->image.len, key);
}

static int by_row_and_key(const void *a, const void *b)
{
    const struct caller_share *x = a;
    const struct caller_share *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

/* Equal sums by name, so that a trace loaded again has the same order. */
static int by_row_and_bytes(const void *a, const void *b)
{
    const struct caller_share *x = a;
    const struct caller_share *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    size_t n = x->function.len < y->function.len ? x->function.len : y->function.len;
    int order = memcmp(x->function.p, y->function.p, n);
    if (order == 0)
        order = (x->function.len > y->function.len) - (x->function.len < y->function.len);
    return order ? order : (x->place.node > y->place.node) - (x->place.node < y->place.node);
}

/* Adds up neighbours with the same caller. Returns how many remain. */
static size_t join_shares(struct caller_share *list, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        struct caller_share *last = kept ? &list[kept - 1] : NULL;
        if (!last || by_row_and_key(last, &list[i]) != 0) {
            list[kept++] = list[i];
            continue;
        }
        last->count += list[i].count;
        last->bytes += list[i].bytes;
        if (list[i].place.node < last->place.node)
            last->place = list[i].place;
    }
    return kept;
}

static int keep_callers(struct summary *s, struct row_list *rows, const struct caller_share *list,
                        size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct summary_row *r = &rows->at[list[i].row];
        const struct summary_caller caller = {frame_at(s, list[i].place), list[i].count,
                                              list[i].bytes};
        if (r->caller_count == SUMMARY_CALLERS)
            continue;
        if (r->caller_count == 0)
            r->first_caller = s->callers.len;
        if (!pageable_push(s->pageable, &s->callers, caller))
            return err_no_memory(e, "callers");
        r->caller_count++;
    }
    return 0;
}

int summary_attach_callers(struct summary *s, struct row_list *rows, struct program_frames *program,
                           const struct stack_share *shares, size_t n, struct err *e)
{
    const size_t size = (n + 1) * sizeof(struct caller_share);
    struct caller_share *list = pageable_zeroed(s->pageable, size);
    uint64_t seed = map_hash(UINT64_C(0x63616c6c6572));
    size_t len = 0;
    if (!list)
        return err_no_memory(e, "callers");
    for (size_t i = 0; i < n; i++) {
        trace_swept_block(s->trace, i, n);
        struct stack_place site = program_frames_begin(program, shares[i].callstack);
        struct stack_place at = program_frames_caller(program, site);
        if (at.node == 0)
            continue;
        const struct frame_view f = frame_at(s, at);
        list[len++] = (struct caller_share){.row = shares[i].row,
                                            .key = content_key(&f, seed),
                                            .place = at,
                                            .function = f.function,
                                            .count = shares[i].count,
                                            .bytes = shares[i].bytes};
    }
    trace_loaded(s->trace);
    qsort(list, len, sizeof *list, by_row_and_key);
    len = join_shares(list, len);
    qsort(list, len, sizeof *list, by_row_and_bytes);
    int status = keep_callers(s, rows, list, len, e);
    pageable_free(s->pageable, list, size);
    return status;
}
