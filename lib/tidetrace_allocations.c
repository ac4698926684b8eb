/* Iterates over allocations. */

#include <stdlib.h>

#include "analysis/figures/moment.h"
#include "lib/tidetrace_internal.h"

struct tidetrace_allocations {
    struct tidetrace *owner;
    struct question question;
    struct selection selection;
    bool selected; /* `selection` is valid */
    size_t pool;   /* the current pool */
    bool reading;  /* its readers are open */
    struct column_reader allocs, frees;
    const struct memory_alloc *a; /* the rest of the current run of both columns */
    const struct memory_free *f;
    size_t left;
    struct moments moments; /* of this pool; only with zones */
    bool watching;
    int64_t *latest; /* by thread: latest time. If time goes back, the zone is unknown */
    size_t threads;
    bool failed;
};

static int start(struct tidetrace_allocations *it, const struct tidetrace_selection *selection,
                 struct err *e)
{
    if (question_init(&it->question, it->owner, selection, NULL, e) != 0 ||
        selection_init(&it->selection, &it->owner->trace, &it->question.only, e) != 0)
        return -1;
    it->selected = true;
    it->threads = it->owner->trace.threads.list.len;
    if (it->owner->zones)
        it->latest = malloc((it->threads ? it->threads : 1) * sizeof *it->latest);
    return it->owner->zones && !it->latest ? err_no_memory(e, "threads") : 0;
}

int tidetrace_allocations_open(struct tidetrace *trace, const struct tidetrace_selection *selection,
                               struct tidetrace_allocations **iterator,
                               struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    struct tidetrace_allocations *it = calloc(1, sizeof *it);
    int status = it ? 0 : err_no_memory(&c.err, "an iterator");
    *iterator = NULL;
    if (it) {
        it->owner = trace;
        lib_keep(trace);
        status = start(it, selection, &c.err);
        if (status == 0)
            *iterator = it;
        else
            tidetrace_allocations_close(it);
    }
    return call_end(&c, status);
}

static void end_pool(struct tidetrace_allocations *it)
{
    if (it->reading) {
        column_reader_release(&it->allocs);
        column_reader_release(&it->frees);
    }
    if (it->watching)
        moments_release(&it->moments);
    it->reading = it->watching = false;
    it->left = 0;
}

void tidetrace_allocations_close(struct tidetrace_allocations *iterator)
{
    if (!iterator)
        return;
    end_pool(iterator);
    free(iterator->latest);
    if (iterator->selected)
        selection_release(&iterator->selection);
    question_release(&iterator->question);
    lib_drop(iterator->owner);
    free(iterator);
}

static int begin_pool(struct tidetrace_allocations *it, struct err *e)
{
    struct pool *p = it->owner->trace.memory.pools.at[it->pool];
    if (p->counted)
        return memory_refuse("there are no single allocations", e);
    column_reader_init(&it->allocs, &p->allocs);
    column_reader_init(&it->frees, &p->frees);
    it->reading = true;
    if (!it->owner->zones)
        return 0;
    for (size_t i = 0; i < it->threads; i++)
        it->latest[i] = INT64_MIN;
    it->watching = true;
    return moments_init(&it->moments, &it->owner->trace, e);
}

/* Reads the next run of allocations of a wanted pool. Sets left to 0 at the end. */
static int read_on(struct tidetrace_allocations *it, struct err *e)
{
    const struct memory *m = &it->owner->trace.memory;
    while (it->pool < m->pools.len) {
        if (it->selection.pool_of[it->pool] != UINT32_MAX) {
            size_t same = 0;
            if (!it->reading && begin_pool(it, e) != 0)
                return -1;
            it->a = column_reader_next(&it->allocs, &it->left, e);
            if (it->a)
                it->f = column_reader_next(&it->frees, &same, e);
            if (e->code)
                return -1;
            if (it->a && it->f && it->left)
                return 0;
            end_pool(it);
        }
        it->pool++;
    }
    it->left = 0;
    return 0;
}

static int find_zone(struct tidetrace_allocations *it, struct tidetrace_allocation *out,
                     struct err *e)
{
    uint32_t label;
    out->zone = lib_text((struct view){"", 0});
    if (!it->watching || out->thread >= it->threads || out->time < it->latest[out->thread])
        return 0;
    it->latest[out->thread] = out->time;
    if (moments_zone(&it->moments, (uint16_t)out->thread, out->time, &label, e) != 0)
        return -1;
    if (label != MOMENT_NO_ZONE)
        out->zone = lib_text(it->moments.labels.at[label]);
    return 0;
}

/* Takes the next allocation; *wanted is whether it is selected. */
static int take(struct tidetrace_allocations *it, struct tidetrace_allocation *out, bool *wanted,
                struct err *e)
{
    const struct memory_alloc *a = it->a++;
    const struct memory_free *f = it->f++;
    const struct selection_block block = {.pool = (uint32_t)it->pool,
                                          .thread = memory_alloc_thread(a),
                                          .callstack = a->callstack,
                                          .size = memory_alloc_size(a),
                                          .time = a->time,
                                          .freed = memory_free_time(a, f)};
    it->left--;
    *wanted = selection_wants(&it->selection, &block);
    if (!*wanted)
        return 0;
    bool freed = is_freed(block.freed);
    *out = (struct tidetrace_allocation){.address = a->ptr,
                                         .size = block.size,
                                         .time = block.time,
                                         .free_time = block.freed,
                                         .pool = block.pool,
                                         .callstack = block.callstack,
                                         .free_callstack = freed ? f->callstack : 0,
                                         .thread = block.thread,
                                         .free_thread = freed ? memory_free_thread(f) : 0};
    return find_zone(it, out, e);
}

static int next(struct tidetrace_allocations *it, struct tidetrace_allocation *array, size_t size,
                size_t room, size_t *count, struct err *e)
{
    struct tidetrace_allocation one;
    bool wanted;
    if (it->failed)
        return err_set(e, ERR_USAGE, "reading the allocations failed before");
    if (lib_check_element(size, e) != 0)
        return -1;
    while (*count < room) {
        if (it->left == 0) {
            if (read_on(it, e) != 0)
                break;
            if (it->left == 0)
                return 0;
        }
        if (take(it, &one, &wanted, e) != 0)
            break;
        if (wanted)
            lib_give_element(array, (*count)++, size, &one, sizeof one);
    }
    it->failed = e->code != ERR_NONE;
    return it->failed ? -1 : 0;
}

int tidetrace_allocations_next(struct tidetrace_allocations *iterator,
                               struct tidetrace_allocation *out, size_t allocation_size,
                               size_t room, size_t *count, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    *count = 0;
    return call_end(&c, next(iterator, out, allocation_size, room, count, &c.err));
}
