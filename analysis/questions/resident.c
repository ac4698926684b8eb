#include "analysis/questions/resident.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/figures/sites.h"
#include "analysis/figures/summary_facts.h"
#include "base/map.h"
#include "base/saturate.h"

/* Of looks that differ by less than this share, the last one counts: more is freed then. */
#define NEARLY 100u

struct block {
    uint64_t first, last; /* addresses */
    int64_t time;         /* ns; of its allocation */
    uint32_t row;
    bool is_mapping; /* of a pool "mmap": it contains blocks of others, and covers nothing */
    bool elsewhere;  /* on a GPU, or another block of its pool overlaps: the address is not one of
                        memory, or is wrong */
    bool inside;     /* others, which are no mappings and keep its pages, cover it */
};

/* What blocks have of a page. */
struct page_use {
    uint32_t covered; /* bytes in at least one block */
    uint32_t blocks;
};

struct builder {
    struct resident *r;
    struct selection *s;
    struct sites sites;
    struct map numbers; /* pool << 32 | call stack → row */
    VEC(struct block) blocks;
    VEC(uint32_t) around; /* blocks that may contain the next one, by first address */
    struct map within;    /* pool << 32 | keeper → index in r->within */
    struct page_use *use; /* of the pages of each chunk of the look */
    bool *has_blocks;     /* each area of the look */
    size_t hint;          /* page_look_chunk */
};

/* ---- live blocks */

static bool row_of(struct builder *b, uint32_t pool, uint32_t callstack, uint32_t *row)
{
    bool fresh;
    uint32_t site =
        callstack < b->sites.callstack_count ? b->sites.of_callstack[callstack] : SITE_NO_CALLSTACK;
    uint64_t *at = map_add(&b->numbers, (uint64_t)pool << 32 | callstack, &fresh);
    if (at && fresh) {
        const struct resident_row new = {.pool = pool,
                                         .site = site,
                                         .frame = b->sites.list.at[site].frame,
                                         .no_callstack = site == SITE_NO_CALLSTACK};
        *at = b->r->stacks.len;
        if (!vec_push(&b->r->stacks, new))
            return false;
    }
    *row = at ? (uint32_t)*at : 0;
    return at != NULL;
}

static bool take_block(struct builder *b, uint32_t pool, const struct memory_alloc *a)
{
    struct view name = b->s->pools.at[pool].name;
    struct block block = {.first = a->ptr,
                          .time = a->time,
                          .is_mapping = view_equal(name, view_of("mmap")),
                          .elsewhere = gpu_is_device(name)};
    uint64_t size = memory_alloc_size(a);
    if (!row_of(b, pool, a->callstack, &block.row))
        return false;
    struct resident_row *row = &b->r->stacks.at[block.row];
    row->count++;
    row->bytes = saturating_add(row->bytes, size);
    if (size >= row->largest) {
        row->largest = size;
        row->callstack = a->callstack;
    }
    block.last = saturating_add(a->ptr, size ? size - 1 : 0);
    return size == 0 || vec_push(&b->blocks, block);
}

static bool is_live(const struct selection_block *b, int64_t time)
{
    return b->time <= time && (b->freed == NEVER_FREED || b->freed > time);
}

static int take_pool(struct builder *b, struct pool *p, struct err *e)
{
    struct column_walk allocs = column_walk(&p->allocs), frees = column_walk(&p->frees);
    int status = 0;
    for (struct column_two pair; (pair = column_walk_two(&allocs, &frees, &status, e)).first;) {
        const struct memory_alloc *a = pair.first;
        const struct selection_block one = {.pool = p->number,
                                            .thread = memory_alloc_thread(a),
                                            .callstack = a->callstack,
                                            .size = memory_alloc_size(a),
                                            .time = a->time,
                                            .freed = memory_free_time(a, pair.second)};
        if (is_live(&one, b->r->look->begin) && selection_wants(b->s, &one) &&
            !take_block(b, b->s->pool_of[p->number], a))
            status = err_no_memory(e, "resident pages");
    }
    return status;
}

/* A block comes before those that lie in it: of equal ones, that which was allocated first. */
static int compare_blocks(const void *a, const void *b)
{
    const struct block *x = a, *y = b;
    if (x->first != y->first)
        return x->first > y->first ? 1 : -1;
    if (x->last != y->last)
        return x->last < y->last ? 1 : -1;
    if (x->time != y->time)
        return x->time > y->time ? 1 : -1;
    return (x->row > y->row) - (x->row < y->row);
}

/* Blocks of one pool that overlap cannot both be memory: handles of a GPU, or frees were missed. */
static int mark_overlaps(struct builder *b, struct err *e)
{
    size_t *last = calloc(b->s->pools.len + 1, sizeof *last); /* by pool: index + 1 */
    if (!last)
        return err_no_memory(e, "resident pages");
    for (size_t i = 0; i < b->blocks.len; i++) {
        struct block *block = &b->blocks.at[i];
        size_t *before = &last[b->r->stacks.at[block->row].pool];
        if (block->is_mapping)
            continue;
        if (*before && b->blocks.at[*before - 1].last >= block->first)
            b->blocks.at[*before - 1].elsewhere = block->elsewhere = true;
        if (*before == 0 || b->blocks.at[*before - 1].last < block->last)
            *before = i + 1;
    }
    free(last);
    return 0;
}

static int find_blocks(struct builder *b, struct err *e)
{
    struct trace *t = b->s->trace;
    for (size_t i = 0; i < t->memory.pools.len; i++) {
        struct pool *p = t->memory.pools.at[i];
        if (b->s->pool_of[p->number] != UINT32_MAX && take_pool(b, p, e) != 0)
            return -1;
    }
    if (b->blocks.len)
        qsort(b->blocks.at, b->blocks.len, sizeof *b->blocks.at, compare_blocks);
    return mark_overlaps(b, e);
}

/* ---- pages */

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void count_bytes(struct resident_bytes *r, enum page_state state, uint64_t n)
{
    uint64_t *const counts[] = {[PAGE_ABSENT] = &r->absent,
                                [PAGE_PRESENT] = &r->present,
                                [PAGE_SWAPPED] = &r->swapped,
                                [PAGE_UNSURE] = &r->unsure};
    *counts[state] += n;
}

/* Addresses to count. */
struct range {
    uint64_t first, last;
    struct resident_bytes *to;
    bool covers;    /* it is a block that is no mapping */
    bool keeps;     /* the same, within no other */
    uint64_t fresh; /* the first address that no block before covers */
};

/* Counts the bytes from `from` to `to`, which are in one chunk. */
static void count_part(struct builder *b, const struct range *r, uint64_t from, uint64_t to)
{
    const struct page_look *l = b->r->look;
    size_t chunk = page_look_chunk(l, from, &b->hint);
    if (chunk == l->chunks.len) {
        r->to->absent += to - from + 1;
        return;
    }
    while (from <= to) {
        uint64_t end = lower(from | (l->page - 1), to);
        struct page_use *use =
            &b->use[chunk * LOOK_CHUNK_PAGES + from / l->page % LOOK_CHUNK_PAGES];
        count_bytes(r->to, page_look_at(l, from, &b->hint), end - from + 1);
        if (r->covers) {
            uint64_t begin = from > r->fresh ? from : r->fresh;
            use->covered += end >= begin ? (uint32_t)(end - begin + 1) : 0;
            use->blocks += r->keeps;
        }
        from = end + 1;
    }
}

static void count_range(struct builder *b, const struct range *r)
{
    const struct page_look *l = b->r->look;
    const uint64_t chunk = (uint64_t)LOOK_CHUNK_PAGES * l->page;
    for (uint64_t at = r->first; at <= r->last;) {
        size_t i = page_look_area(l, at);
        const struct look_area *a = i < l->areas.len ? &l->areas.at[i] : NULL;
        uint64_t end = r->last;
        if (a && a->start > at)
            end = lower(end, a->start - 1);
        else if (a)
            end = lower(end, a->end - 1);
        if (!a || a->start > at || a->unread || a->kind == AREA_FILE) {
            r->to->outside += end - at + 1;
        } else {
            end = lower(end, at | (chunk - 1));
            b->has_blocks[i] |= r->covers;
            count_part(b, r, at, end);
        }
        if (end == UINT64_MAX)
            return;
        at = end + 1;
    }
}

/* ---- blocks within blocks of other pools */

static int note_within(struct builder *b, uint32_t pool, uint32_t keeper, uint64_t present,
                       struct err *e)
{
    struct resident *r = b->r;
    const struct resident_within new = {pool, keeper, 0};
    bool fresh;
    uint64_t *number = map_add(&b->within, (uint64_t)pool << 32 | keeper, &fresh);
    if (!number || (fresh && !vec_push(&r->within, new)))
        return err_no_memory(e, "resident pages");
    if (fresh)
        *number = r->within.len - 1;
    r->within.at[*number].present += present;
    return 0;
}

/* No later block begins before its end. */
static void leave(struct builder *b, size_t i)
{
    uint32_t *at = b->around.at + i;
    memmove(at, at + 1, (b->around.len - i - 1) * sizeof *at);
    b->around.len--;
}

/* Counts what lies in the blocks around it, the innermost first, as nested in them. */
static int count_nested(struct builder *b, const struct block *block, struct err *e)
{
    struct resident *r = b->r;
    uint64_t at = block->first;
    for (size_t i = b->around.len; i-- > 0 && at <= block->last;) {
        const struct block *outer = &b->blocks.at[b->around.at[i]];
        if (outer->last < block->first) {
            leave(b, i);
            continue;
        }
        struct resident_row *row = &r->stacks.at[outer->row];
        struct resident_bytes part = {0};
        const struct range range = {
            .first = at, .last = lower(outer->last, block->last), .to = &part};
        if (range.last < at)
            continue;
        count_range(b, &range);
        row->nested.present += part.present;
        row->nested.swapped += part.swapped;
        row->nested.absent += part.absent;
        row->nested.unsure += part.unsure;
        row->nested.outside += part.outside;
        if (part.present &&
            note_within(b, r->stacks.at[block->row].pool, row->pool, part.present, e) != 0)
            return -1;
        if (range.last == UINT64_MAX)
            return 0;
        at = range.last + 1;
    }
    return 0;
}

static int count_blocks(struct builder *b, struct err *e)
{
    uint64_t fresh = 0;
    for (size_t i = 0; i < b->blocks.len; i++) {
        struct block *block = &b->blocks.at[i];
        struct resident_bytes *to = &b->r->stacks.at[block->row].of;
        if (block->elsewhere) {
            to->outside += block->last - block->first + 1;
            continue;
        }
        block->inside = !block->is_mapping && block->last < fresh;
        const struct range range = {.first = block->first,
                                    .last = block->last,
                                    .to = to,
                                    .covers = !block->is_mapping,
                                    .keeps = !block->is_mapping && !block->inside,
                                    .fresh = fresh};
        count_range(b, &range);
        if (count_nested(b, block, e) != 0)
            return -1;
        if (!vec_push(&b->around, (uint32_t)i))
            return err_no_memory(e, "resident pages");
        if (!block->is_mapping && block->last >= fresh)
            fresh = saturating_add(block->last, 1);
    }
    return 0;
}

/* Only the first and the last page of a block can have bytes that are free. */
static void count_pinned(struct builder *b)
{
    const struct page_look *l = b->r->look;
    for (size_t i = 0; i < b->blocks.len; i++) {
        const struct block *block = &b->blocks.at[i];
        const uint64_t ends[] = {block->first, block->last};
        bool one = block->first / l->page == block->last / l->page;
        if (block->is_mapping || block->elsewhere || block->inside)
            continue;
        for (size_t k = 0; k < (one ? 1 : 2); k++) {
            size_t chunk = page_look_chunk(l, ends[k], &b->hint);
            size_t page = ends[k] / l->page % LOOK_CHUNK_PAGES;
            if (chunk == l->chunks.len || page_look_at(l, ends[k], &b->hint) != PAGE_PRESENT)
                continue;
            const struct page_use *use = &b->use[chunk * LOOK_CHUNK_PAGES + page];
            if (use->blocks)
                b->r->stacks.at[block->row].pinned += (l->page - use->covered) / use->blocks;
        }
    }
}

/* ---- shares */

static enum resident_class class_of(const struct look_area *a, bool has_blocks)
{
    if (a->kind == AREA_FILE)
        return RESIDENT_LIBRARIES;
    if (a->kind == AREA_STACK) /* with blocks, it is a mapping of more than a stack */
        return has_blocks ? RESIDENT_OTHER : RESIDENT_STACKS;
    return a->kind == AREA_HEAP || a->kind == AREA_ARENA || (has_blocks && a->kind != AREA_RECORDER)
               ? RESIDENT_OVERHEAD
               : RESIDENT_OTHER;
}

/* Resident bytes of blocks in an area, and of its pages without any. */
static void count_area(struct builder *b, const struct look_area *a, uint64_t *blocks,
                       uint64_t *empty)
{
    const struct page_look *l = b->r->look;
    const uint64_t bytes = (uint64_t)LOOK_CHUNK_PAGES * l->page;
    for (uint64_t at = a->start, end; at < a->end; at = end) {
        size_t chunk = page_look_chunk(l, at, &b->hint);
        end = lower(a->end, (at | (bytes - 1)) + 1);
        for (; at < end && chunk < l->chunks.len; at += l->page) {
            const struct page_use *use =
                &b->use[chunk * LOOK_CHUNK_PAGES + at / l->page % LOOK_CHUNK_PAGES];
            if (page_look_at(l, at, &b->hint) != PAGE_PRESENT)
                continue;
            *blocks += use->covered;
            *empty += use->blocks ? 0 : l->page;
        }
    }
}

static void count_shares(struct builder *b)
{
    struct resident *r = b->r;
    const struct page_look *l = r->look;
    r->shares = (struct resident_shares){.time = l->begin,
                                         .reason = l->reason,
                                         .rss = l->rss,
                                         .reported = resident_is_reported(b->s->trace)};
    for (size_t i = 0; i < l->areas.len; i++) {
        const struct look_area *a = &l->areas.at[i];
        enum resident_class c = class_of(a, b->has_blocks[i]);
        uint64_t blocks = 0, empty = 0, present = a->present * l->page;
        r->shares.unsure += a->unsure * l->page;
        r->shares.swapped += a->swapped * l->page;
        if (a->kind != AREA_FILE && !a->unread)
            count_area(b, a, &blocks, &empty);
        blocks = lower(blocks, present);
        r->shares.bytes[RESIDENT_BLOCKS] += blocks;
        r->shares.bytes[c] += present - blocks;
        r->empty += c == RESIDENT_OVERHEAD ? empty : 0;
        if (a->kind == AREA_ARENA) {
            r->arenas.heaps += (a->end - a->start + LOOK_HEAP_BYTES - 1) / LOOK_HEAP_BYTES;
            r->arenas.present += present;
            r->arenas.blocks += blocks;
        }
        r->recorder += a->kind == AREA_RECORDER ? present : 0;
    }
}

/* ---- all of it */

static int compare_rows(const void *a, const void *b)
{
    const struct resident_row *x = a, *y = b;
    uint64_t p = x->of.present + x->pinned, q = y->of.present + y->pinned;
    if (p != q)
        return p < q ? 1 : -1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->callstack > y->callstack) - (x->callstack < y->callstack);
}

/* By site. */
static int compare_stacks(const void *a, const void *b)
{
    const struct resident_row *x = a, *y = b;
    if (x->pool != y->pool)
        return x->pool > y->pool ? 1 : -1;
    if (x->site != y->site)
        return x->site > y->site ? 1 : -1;
    return compare_rows(a, b);
}

static void add_bytes(struct resident_bytes *to, const struct resident_bytes *from)
{
    to->present = saturating_add(to->present, from->present);
    to->swapped = saturating_add(to->swapped, from->swapped);
    to->absent = saturating_add(to->absent, from->absent);
    to->unsure = saturating_add(to->unsure, from->unsure);
    to->outside = saturating_add(to->outside, from->outside);
}

static void add_row(struct resident_row *to, const struct resident_row *from)
{
    to->count += from->count;
    to->bytes = saturating_add(to->bytes, from->bytes);
    add_bytes(&to->of, &from->of);
    add_bytes(&to->nested, &from->nested);
    to->pinned = saturating_add(to->pinned, from->pinned);
    if (from->largest > to->largest || to->stack_count == 0) {
        to->largest = from->largest;
        to->callstack = from->callstack;
    }
    to->stack_count++;
}

/* Bytes that lie in blocks of two pools count once. */
static void count_once(struct resident_row *total)
{
    struct resident_bytes *of = &total->of;
    const struct resident_bytes *nested = &total->nested;
    of->present = saturating_sub(of->present, nested->present);
    of->swapped = saturating_sub(of->swapped, nested->swapped);
    of->absent = saturating_sub(of->absent, nested->absent);
    of->unsure = saturating_sub(of->unsure, nested->unsure);
    of->outside = saturating_sub(of->outside, nested->outside);
    total->bytes = saturating_sub(total->bytes, nested->present + nested->swapped + nested->absent +
                                                    nested->unsure + nested->outside);
}

static int compare_within(const void *a, const void *b)
{
    const struct resident_within *x = a, *y = b;
    if (x->present != y->present)
        return x->present < y->present ? 1 : -1;
    return x->pool != y->pool ? (x->pool > y->pool ? 1 : -1)
                              : (x->keeper > y->keeper) - (x->keeper < y->keeper);
}

static int sum_rows(struct resident *r, struct err *e)
{
    if (r->stacks.len)
        qsort(r->stacks.at, r->stacks.len, sizeof *r->stacks.at, compare_stacks);
    for (size_t i = 0; i < r->stacks.len; i++) {
        const struct resident_row *from = &r->stacks.at[i], *before = i ? from - 1 : from;
        const struct resident_row fresh = {.pool = from->pool,
                                           .site = from->site,
                                           .frame = from->frame,
                                           .no_callstack = from->no_callstack,
                                           .first_stack = i};
        bool same = i && before->pool == from->pool && before->site == from->site;
        if (!same && !vec_push(&r->rows, fresh))
            return err_no_memory(e, "resident pages");
        add_row(&r->rows.at[r->rows.len - 1], from);
        add_row(&r->total, from);
    }
    count_once(&r->total);
    if (r->rows.len)
        qsort(r->rows.at, r->rows.len, sizeof *r->rows.at, compare_rows);
    if (r->within.len)
        qsort(r->within.at, r->within.len, sizeof *r->within.at, compare_within);
    return 0;
}

int resident_build(struct resident *r, struct selection *s, const struct skiplist *skip,
                   const struct page_look *look, struct err *e)
{
    static const struct skiplist built_in = {0};
    *r = (struct resident){.look = look};
    struct builder b = {.r = r, .s = s};
    b.use = calloc(look->chunks.len + 1, LOOK_CHUNK_PAGES * sizeof *b.use);
    b.has_blocks = calloc(look->areas.len + 1, sizeof *b.has_blocks);
    int status = b.use && b.has_blocks ? 0 : err_no_memory(e, "resident pages");
    if (status == 0)
        status = sites_build(&b.sites, s->trace, skip ? skip : &built_in, SITE_BY_LINE, e);
    if (status == 0) {
        status = find_blocks(&b, e);
        sites_release(&b.sites);
    }
    if (status == 0)
        status = count_blocks(&b, e);
    if (status == 0) {
        count_pinned(&b);
        count_shares(&b);
        status = sum_rows(r, e);
    }
    map_release(&b.numbers);
    vec_release(&b.blocks);
    vec_release(&b.around);
    map_release(&b.within);
    free(b.use);
    free(b.has_blocks);
    if (status != 0)
        resident_release(r);
    return status;
}

void resident_release(struct resident *r)
{
    vec_release(&r->rows);
    vec_release(&r->stacks);
    vec_release(&r->within);
    *r = (struct resident){0};
}

uint64_t resident_bytes(const struct page_look *l)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < l->areas.len; i++)
        pages += l->areas.at[i].present;
    return pages * l->page;
}

const struct page_look *resident_highest(const struct trace *t)
{
    const struct page_look *best = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < t->looks.list.len; i++) {
        uint64_t bytes = resident_bytes(&t->looks.list.at[i]);
        most = bytes > most ? bytes : most;
    }
    for (size_t i = 0; i < t->looks.list.len; i++) {
        if (resident_bytes(&t->looks.list.at[i]) >= most - most / NEARLY)
            best = &t->looks.list.at[i];
    }
    return best;
}

const struct page_look *resident_find_look(const struct trace *t, uint64_t number, struct err *e)
{
    if (t->looks.list.len == 0)
        err_set(e, ERR_INPUT,
                "the trace has no look at the pages of its process: `tidemark run` adds one when "
                "the program exits, `tidemark capture` when its client on this host ends, to "
                "traces compressed with zstd of versions from 0.11.0 on");
    else if (number > t->looks.list.len)
        err_set(e, ERR_USAGE, "there is no look %llu: the trace has %zu",
                (unsigned long long)number, t->looks.list.len);
    else
        return number ? &t->looks.list.at[number - 1] : resident_highest(t);
    return NULL;
}

/* Client pointers of a selection's pool: the first of them. */
static uint64_t key_of_pool(const struct selection *s, uint32_t pool)
{
    const struct memory *m = &s->trace->memory;
    size_t i = 0;
    while (s->pool_of[i] != pool)
        i++;
    return m->pools.at[i]->key;
}

static int note_stacks(struct trace *t, const struct resident *r, const struct selection *s,
                       struct err *e)
{
    resident_stacks_release(&t->resident);
    t->resident.known = true;
    for (size_t i = 0; i < r->stacks.len; i++) {
        const struct resident_row *row = &r->stacks.at[i];
        const struct resident_stack one = {.pool = key_of_pool(s, row->pool),
                                           .callstack = row->callstack,
                                           .present = row->of.present,
                                           .nested = row->nested.present};
        if (!vec_push(&t->resident.list, one))
            return err_no_memory(e, "resident pages");
    }
    return 0;
}

int resident_note(struct trace *t, struct err *e)
{
    const struct page_look *look = resident_highest(t);
    const struct selection_options all = {0};
    struct selection s;
    struct resident r;
    if (!look)
        return 0;
    if (selection_init(&s, t, &all, e) != 0)
        return -1;
    int status = resident_build(&r, &s, NULL, look, e);
    if (status == 0) {
        status = resident_fact_add(t, &r.shares, e);
        if (status == 0)
            status = note_stacks(t, &r, &s, e);
        resident_release(&r);
    }
    selection_release(&s);
    return status;
}
