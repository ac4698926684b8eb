/*
 * Merges many runs of records into one stream of events. Few chunks are read at any time, one or
 * two per thread; later chunks wait until the merge reaches their first stamp.
 */

#include <linux/membarrier.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/monotonic.h"
#include "run/recording/recording_internal.h"
#include "trace/store/frame_name.h"

#define SIZE_MAX_KEPT ((UINT64_C(1) << 48) - 1)
#define POOLS_MOST (1u << 20)

/* ---- heaps of runs */

static bool before(const struct run *a, const struct run *b)
{
    return a->stamp != b->stamp ? a->stamp < b->stamp : a->chunk.unit < b->chunk.unit;
}

/* Restores the heap after its first or its last element changed. */
static void sift_down(struct run **at, size_t n)
{
    HEAP_DOWN(at, n, 0, a, b, before(at[a], at[b]));
}

static void sift_up(struct run **at, size_t last)
{
    HEAP_UP(at, last, a, b, before(at[a], at[b]));
}

#define heap_push(h, run) (vec_push((h), (run)) ? (sift_up((h)->at, (h)->len - 1), true) : false)
#define heap_drop(h) ((h)->at[0] = (h)->at[--(h)->len], sift_down((h)->at, (h)->len))

static void free_run(struct run *run)
{
    run_release(run);
    free(run);
}

/* ---- events */

static inline int callstack(struct recording *r, uint64_t number, uint32_t *id, struct err *e)
{
    const struct nodes *n = &r->nodes;
    if (__builtin_expect(number < n->list.len && n->list.at[number].callstack, 1)) {
        *id = n->list.at[number].callstack;
        return 0;
    }
    return recording_callstack(r, number, id, e);
}

static inline int put(struct recording *r, const struct memory_event *ev, struct err *e)
{
    r->events[r->n++] = *ev;
    return __builtin_expect(r->n == BATCH, 0) ? recording_flush(r, e) : 0;
}

/*
 * The size that a sampled allocation represents: sums of these are unbiased estimates. UINT64_MAX
 * if it is beyond SIZE_MAX_KEPT.
 */
static uint64_t sampled_size(const struct recording *r, uint64_t size)
{
    double kept = -expm1(-(double)size / r->sample);
    double stands_for = size ? (double)size / kept : 0;
    return stands_for < (double)SIZE_MAX_KEPT ? (uint64_t)(stands_for + 0.5) : UINT64_MAX;
}

/* ---- reallocs in progress */

static int put_free(struct recording *r, const struct held *h, uint64_t stamp, struct err *e)
{
    const struct memory_event ev = {.kind = EVENT_MEM_FREE,
                                    .callstack = h->callstack,
                                    .thread = h->thread,
                                    .time = recording_time(r, stamp),
                                    .pool = h->pool,
                                    .ptr = h->ptr};
    return put(r, &ev, e);
}

static uint64_t who_of(const struct run *run)
{
    return run->thread | (uint64_t)run->chunk.level << 32;
}

/*
 * Frees a block once its realloc is known to have succeeded: its thread records something else, or
 * the address is allocated again. `callstack` is the realloc's, 0: unknown.
 */
static int settle(struct recording *r, const struct run *run, uint64_t pool, uint64_t ptr,
                  bool alloc, uint32_t callstack, struct err *e)
{
    uint64_t who = who_of(run);
    for (size_t i = 0; i < r->held.len; i++) {
        struct held h = r->held.at[i];
        if (h.who != who && !(alloc && h.pool == pool && h.ptr == ptr))
            continue;
        r->held.at[i--] = r->held.at[--r->held.len];
        if (h.who == who && !h.callstack)
            h.callstack = callstack;
        if (put_free(r, &h, run->stamp, e) != 0)
            return -1;
    }
    return 0;
}

static void put_back(struct recording *r, const struct run *run, uint64_t pool, uint64_t ptr)
{
    uint64_t who = who_of(run);
    for (size_t i = 0; i < r->held.len; i++) {
        if (r->held.at[i].who != who || r->held.at[i].pool != pool || r->held.at[i].ptr != ptr)
            continue;
        r->held.at[i] = r->held.at[--r->held.len];
        r->counts.put_back++;
        r->counts.frees--;
        return;
    }
    r->counts.damaged++;
}

/* ---- records of the frequent kinds */

/* Fields of a record. */
struct memory_record {
    uint8_t how;
    uint64_t pool, size, stack;
};

/* False when it is incomplete. */
static inline bool read_memory(struct run *run, struct memory_record *m)
{
    const uint8_t *p = run->pos;
    uint8_t kind = run->kind;
    *m = (struct memory_record){0};
    if (kind & REC_FLAG_HOW)
        m->how = *p++;
    if (__builtin_expect(kind & REC_FLAG_POOL, 0))
        m->pool = run_varint(&p);
    uint64_t step = (uint64_t)run_signed(&p);
    run->address += kind & REC_FLAG_BY16 ? step << 4 : step;
    if ((kind & REC_KIND_MASK) == REC_ALLOC)
        m->size = run_varint(&p);
    if ((kind & REC_KIND_MASK) != REC_FREE && (kind & REC_KIND_MASK) != REC_PUT_BACK)
        m->stack = run_varint(&p);
    run->pos = p;
    return p <= run->window + run->len && m->pool < POOLS_MOST;
}

static inline int take_alloc(struct recording *r, struct run *run, const struct memory_record *m,
                             struct err *e)
{
    uint64_t pool = POOL_KEY(m->pool);
    struct memory_event ev;
    bool moves = m->how == REC_HOW_REALLOC || m->how == REC_HOW_MREMAP;
    if (callstack(r, m->stack, &ev.callstack, e) != 0)
        return -1;
    if (__builtin_expect(r->held.len, 0) &&
        settle(r, run, pool, run->address, true, moves ? ev.callstack : 0, e) != 0)
        return -1;
    ev.kind = EVENT_MEM_ALLOC;
    ev.thread = run->thread;
    ev.time = recording_time(r, run->stamp);
    ev.pool = pool;
    ev.ptr = run->address;
    ev.size = __builtin_expect(r->sample > 0, 0) ? sampled_size(r, m->size) : m->size;
    if (__builtin_expect(ev.size > SIZE_MAX_KEPT, 0)) {
        ev.size = SIZE_MAX_KEPT;
        r->counts.capped_sizes++;
    }
    r->counts.allocations++;
    return put(r, &ev, e);
}

static inline int take_free(struct recording *r, struct run *run, const struct memory_record *m,
                            struct err *e)
{
    uint64_t pool = POOL_KEY(m->pool);
    struct memory_event ev;
    if (__builtin_expect(r->held.len, 0) && settle(r, run, pool, run->address, false, 0, e) != 0)
        return -1;
    ev.callstack = 0;
    if (m->stack && callstack(r, m->stack, &ev.callstack, e) != 0)
        return -1;
    r->counts.frees++;
    if (m->how == REC_HOW_REALLOC || m->how == REC_HOW_MREMAP) {
        const struct held h = {.who = who_of(run),
                               .pool = pool,
                               .ptr = run->address,
                               .thread = run->thread,
                               .callstack = ev.callstack};
        return vec_push(&r->held, h) ? 0 : err_no_memory(e, "a recording");
    }
    ev.kind = EVENT_MEM_FREE;
    ev.thread = run->thread;
    ev.time = recording_time(r, run->stamp);
    ev.pool = pool;
    ev.ptr = run->address;
    ev.size = 0;
    return put(r, &ev, e);
}

/* Takes the record that was peeked at. Damage ends its chunk. */
static inline int take(struct recording *r, struct run *run, struct err *e)
{
    struct memory_record m;
    uint8_t kind = run->kind & REC_KIND_MASK;
    if (__builtin_expect(kind >= REC_SIZED_KINDS, 0)) {
        const uint8_t *end = run->end;
        if ((r->held.len && settle(r, run, 0, 0, false, 0, e) != 0) ||
            recording_rare(r, run, e) != 0)
            return -1;
        run->pos = end;
        return 0;
    }
    if (!read_memory(run, &m) || kind == REC_NOTHING || kind > REC_PUT_BACK) {
        run->damaged = true;
        return 0;
    }
    if (kind == REC_ALLOC)
        return take_alloc(r, run, &m, e);
    if (kind != REC_PUT_BACK)
        return take_free(r, run, &m, e);
    put_back(r, run, POOL_KEY(m.pool), run->address);
    return 0;
}

/* ---- merging */

/* Puts a run aside: it waits for more, or is finished. */
static int put_aside(struct recording *r, struct run *run, struct err *e)
{
    run_release(run);
    if (run->damaged) {
        r->counts.damaged++;
        free_run(run);
        return 0;
    }
    if (r->dead || run->chunk.closed) {
        if (!r->dead && r->gives_back && !vec_push(&r->read, run->chunk))
            chunks_give_back(&r->file, &run->chunk);
        free_run(run);
        return 0;
    }
    if (vec_push(&r->parked, run))
        return 0;
    free_run(run);
    return err_no_memory(e, "a recording");
}

static int begin(struct recording *r, struct run *run, struct err *e)
{
    int there = run_peek(run, &r->file, e);
    if (there == 0)
        return put_aside(r, run, e);
    if (there > 0 && heap_push(&r->merging, run))
        return 0;
    free_run(run);
    return there < 0 ? -1 : err_no_memory(e, "a recording");
}

/* The stamp up to which the heap's first run can be read without comparing it with others. */
static uint64_t limit_of(const struct recording *r)
{
    uint64_t limit = r->below;
    for (size_t i = 1; i <= 2 && i < r->merging.len; i++) {
        if (r->merging.at[i]->stamp < limit)
            limit = r->merging.at[i]->stamp;
    }
    if (r->waiting.len && r->waiting.at[0]->stamp < limit)
        limit = r->waiting.at[0]->stamp;
    if (r->pauses.len && r->pauses.at[0].stamp < limit)
        limit = r->pauses.at[0].stamp;
    return limit;
}

/* Takes the first record of a run, and those after it below `limit`. */
static int take_some(struct recording *r, struct run *run, uint64_t limit, struct err *e)
{
    int there;
    do {
        if (take(r, run, e) != 0)
            return -1;
        there = run->damaged ? 0 : run_peek(run, &r->file, e);
    } while (there > 0 && run->stamp < limit);
    if (run->damaged)
        run->peeked = false;
    return there < 0 ? -1 : 0;
}

static uint64_t events_of(const struct recording *r)
{
    return r->counts.allocations + r->counts.frees;
}

/* Adds messages for the pauses before `stamp`. */
static int say_pauses(struct recording *r, uint64_t stamp, struct err *e)
{
    size_t n = 0;
    while (n < r->pauses.len && r->pauses.at[n].stamp <= stamp) {
        const struct pause p = r->pauses.at[n++];
        if (recording_say_pause(r, p.stamp, (uint32_t)r->header.pid, p.paused, e) != 0)
            return -1;
    }
    if (n) {
        r->pauses.len -= n;
        memmove(r->pauses.at, r->pauses.at + n, r->pauses.len * sizeof *r->pauses.at);
    }
    return 0;
}

static int merge(struct recording *r, uint64_t most, struct err *e)
{
    uint64_t enough = events_of(r) + most;
    while (events_of(r) < enough) {
        while (r->waiting.len && r->waiting.at[0]->stamp < r->below &&
               (r->merging.len == 0 || before(r->waiting.at[0], r->merging.at[0]))) {
            struct run *run = r->waiting.at[0];
            heap_drop(&r->waiting);
            if (begin(r, run, e) != 0)
                return -1;
        }
        if (r->merging.len == 0 || r->merging.at[0]->stamp >= r->below)
            break;
        struct run *run = r->merging.at[0];
        if (say_pauses(r, run->stamp, e) != 0)
            return -1;
        if (take_some(r, run, limit_of(r), e) != 0)
            return -1;
        if (run->peeked) {
            sift_down(r->merging.at, r->merging.len);
        } else {
            heap_drop(&r->merging);
            if (put_aside(r, run, e) != 0)
                return -1;
        }
    }
    if (r->merging.len == 0 && r->dead && say_pauses(r, UINT64_MAX, e) != 0)
        return -1;
    return recording_flush(r, e);
}

/* ---- scanning the file */

struct looking {
    struct recording *r;
    uint64_t below;
    VEC(struct rec_pair) pairs; /* from the chunks found */
};

static int found(void *ctx, const struct chunk *c, struct err *e)
{
    struct looking *l = ctx;
    struct recording *r = l->r;
    if (c->kind == REC_CHUNK_NODES)
        return nodes_add(&r->nodes, c, e);
    struct run *run = malloc(sizeof *run);
    if (!run)
        return err_no_memory(e, "a recording");
    run_init(run, c);
    if (c->pending < l->below)
        l->below = c->pending;
    if (!heap_push(&r->waiting, run)) {
        free_run(run);
        return err_no_memory(e, "a recording");
    }
    const struct rec_pair pair = {c->base_stamp, c->base_ns};
    return vec_push(&l->pairs, pair) ? 0 : err_no_memory(e, "a recording");
}

static void look_at(struct looking *l, struct run *run)
{
    if (run->damaged || run->chunk.closed)
        return;
    if (!chunks_look(&l->r->file, &run->chunk)) {
        run->chunk.closed = true;
        l->r->counts.damaged++;
    } else if (run->chunk.pending < l->below) {
        l->below = run->chunk.pending;
    }
}

static int look_at_chunks(struct looking *l, uint32_t units_taken, struct err *e)
{
    struct recording *r = l->r;
    /* Before the scan: chunks that it finds are up to date already. */
    for (size_t i = 0; i < r->merging.len; i++)
        look_at(l, r->merging.at[i]);
    for (size_t i = 0; i < r->waiting.len; i++)
        look_at(l, r->waiting.at[i]);
    for (size_t i = 0; i < r->parked.len; i++)
        look_at(l, r->parked.at[i]);
    return chunks_scan(&r->file, units_taken, found, l, e);
}

/* Continues parked runs that got more data; they go to the front of the heap if necessary. */
static int unpark(struct recording *r, struct err *e)
{
    size_t n = r->parked.len;
    r->parked.len = 0;
    /* begin() may park some of them again, but only at indices already visited. */
    for (size_t i = 0; i < n; i++) {
        struct run *run = r->parked.at[i];
        if (begin(r, run, e) != 0) {
            while (++i < n)
                r->parked.at[r->parked.len++] = r->parked.at[i];
            return -1;
        }
    }
    return 0;
}

static int compare_pairs(const void *a, const void *b)
{
    const struct rec_pair *x = a, *y = b;
    return (x->stamp > y->stamp) - (x->stamp < y->stamp);
}

static struct rec_pair pair_now(const struct recording *r)
{
    struct rec_header h;
    struct err e;
    struct rec_pair pair = {0};
    pair.ns = (uint64_t)monotonic_ns();
#if defined __x86_64__
    if (r->header.clock == REC_CLOCK_TSC) {
        pair.stamp = __builtin_ia32_rdtsc();
        return pair;
    }
#endif
    if (chunks_header(&r->file, &h, &e) == 0)
        pair.stamp = h.counter;
    return pair;
}

/* Whether the recording's clock is still valid: the host has not rebooted since. */
static bool is_of_this_boot(const struct recording *r, const struct rec_pair *now)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    double zero = (double)t.tv_sec * 1e9 - (double)now->ns;
    double then = (double)r->header.realtime_ns - (double)r->header.first.ns;
    return fabs(zero - then) < 60e9 && now->stamp > r->header.first.stamp;
}

/*
 * With REC_CLOCK_COUNTER the times in chunks are the only source. For a steady clock the longest
 * line is the most precise.
 */
static int add_pairs(struct looking *l, const struct rec_header *h, const struct rec_pair *now,
                     bool alive, struct err *e)
{
    struct recording *r = l->r;
    bool even = r->header.clock == REC_CLOCK_TSC;
    if (l->pairs.len > 1)
        qsort(l->pairs.at, l->pairs.len, sizeof *l->pairs.at, compare_pairs);
    size_t first = l->pairs.len;
    if (!even)
        first = 0;
    else if (!alive && !h->last.stamp && first > 0)
        first--;
    if (even && (alive || is_of_this_boot(r, now)))
        return recording_clock_add(&r->clock, *now, e);
    for (size_t i = first; i < l->pairs.len; i++) {
        if (recording_clock_add(&r->clock, l->pairs.at[i], e) != 0)
            return -1;
    }
    return recording_clock_add(&r->clock, alive ? *now : h->last, e);
}

/* Executes a memory barrier in all threads of the process. False: not supported by the kernel. */
static bool pass_barrier(const struct rec_header *h)
{
    if (h->expedited && syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0)
        return true;
    return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0;
}

/* Scans the file and determines up to which stamp the order is final. */
static int look(struct recording *r, bool alive, struct err *e)
{
    struct looking l = {.r = r, .below = UINT64_MAX};
    struct rec_header h;
    const struct rec_pair now = pair_now(r);
    if (alive) {
        /* A stamp of the counter that was drawn is not drawn again; one of the TSC may be. */
        l.below = now.stamp + (r->header.clock == REC_CLOCK_COUNTER);
        /* Without a barrier no order is final before the process ends. */
        if (!pass_barrier(&r->header))
            l.below = 0;
    }
    r->dead = !alive;
    int status = chunks_header(&r->file, &h, e);
    if (status == 0)
        status = look_at_chunks(&l, h.units_taken, e);
    if (status == 0)
        status = nodes_refresh(&r->nodes, &r->file, !alive, e);
    if (status == 0)
        status = add_pairs(&l, &h, &now, alive, e);
    if (status == 0)
        status = unpark(r, e);
    if (!alive)
        l.below = UINT64_MAX;
    if (l.below > r->limit)
        l.below = r->limit;
    if (l.below > r->below)
        r->below = l.below;
    vec_release(&l.pairs);
    return status;
}

int recording_note_pause(struct recording *r, bool paused, struct err *e)
{
    const struct pause p = {pair_now(r).stamp, paused};
    return vec_push(&r->pauses, p) ? 0 : err_no_memory(e, "a recording");
}

int recording_stop(struct recording *r, struct err *e)
{
    int status = look(r, true, e);
    if (status == 0)
        r->limit = r->below;
    return status;
}

/* Only when the process needs the space: until then the whole recording can be recovered. */
static void give_back(struct recording *r)
{
    struct rec_header h;
    struct err e = {0};
    if (r->read.len == 0 ||
        (recording_header(r, &h, &e) == 0 &&
         (uint64_t)(uint32_t)(h.units_taken - h.released) * REC_UNIT < h.options.file_bytes / 2))
        return;
    for (size_t i = 0; i < r->read.len; i++)
        chunks_give_back(&r->file, &r->read.at[i]);
    r->read.len = 0;
}

int recording_advance(struct recording *r, bool alive, uint64_t most, uint64_t *taken,
                      struct err *e)
{
    uint64_t had = events_of(r);
    int status = 0;
    if (alive || !r->dead)
        status = look(r, alive, e);
    if (status == 0)
        status = merge(r, most, e);
    if (alive)
        give_back(r);
    *taken = events_of(r) - had;
    return status;
}

/* ---- beginning and end */

int recording_open(struct recording **out, int fd, struct recording_target *target, struct err *e)
{
    struct recording *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return err_no_memory(e, "a recording");
    chunks_init(&r->file, fd);
    if (chunks_header(&r->file, &r->header, e) != 0) {
        free(r);
        return -1;
    }
    r->target = target;
    r->limit = UINT64_MAX;
    r->images.places = &target->places;
    recording_clock_init(&r->clock, r->header.clock, r->header.first);
    r->gives_back =
        r->header.options.file_bytes > 0 && r->header.options.when_full != REC_FULL_STOP;
    r->sample = (double)r->header.options.sample_bytes;
    if (target->begin == 0)
        target->begin = r->clock.from.ns;
    r->offset = -(int64_t)(target->begin < (uint64_t)1 << 61 ? target->begin : 0);
    *out = r;
    return 0;
}

void recording_free(struct recording *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->merging.len; i++)
        free_run(r->merging.at[i]);
    for (size_t i = 0; i < r->waiting.len; i++)
        free_run(r->waiting.at[i]);
    for (size_t i = 0; i < r->parked.len; i++)
        free_run(r->parked.at[i]);
    vec_release(&r->merging);
    vec_release(&r->waiting);
    vec_release(&r->parked);
    vec_release(&r->held);
    vec_release(&r->read);
    vec_release(&r->pauses);
    for (size_t i = 0; i < r->starts.len; i++)
        free(r->starts.at[i].path);
    vec_release(&r->starts);
    chunks_release(&r->file);
    recording_clock_release(&r->clock);
    nodes_release(&r->nodes);
    process_images_release(&r->images);
    map_release(&r->thread_names);
    map_release(&r->names);
    map_release(&r->pools);
    map_release(&r->sources);
    free(r);
}

int recording_read_header(int fd, struct rec_header *h, struct err *e)
{
    const struct chunks file = {.fd = fd};
    return chunks_header(&file, h, e);
}

int recording_header(const struct recording *r, struct rec_header *h, struct err *e)
{
    return chunks_header(&r->file, h, e);
}

struct view recording_thread_name(const struct recording *r, uint64_t thread)
{
    const uint64_t *number = map_find(&r->thread_names, thread);
    return strings_get(&r->target->in->trace->strings, number ? (uint32_t)*number : 0);
}

const struct recording_counts *recording_counts(const struct recording *r)
{
    return &r->counts;
}
