/*
 * State that lasts from one part to the next: live blocks, open zones and sections, frame sets,
 * plots, locks, CPUs. A snapshot holds only what the `_carry` functions start a part with. After
 * reading, those functions rebuild the rest.
 */

#include <stdlib.h>

#include "trace/ingest/store_snapshot.h"
#include "trace/store/memory_steps.h"

/* ---- memory */

static void save_block(struct snapshot *s, const struct trace *t, uint64_t ptr, uint64_t size,
                       uint16_t thread, uint32_t callstack)
{
    snapshot_u64(s, &ptr);
    snapshot_u64(s, &size);
    snapshot_thread_number(s, t, &thread);
    snapshot_callstack_id(s, t, &callstack);
}

/* Of a pool without columns. */
static void save_counted(struct snapshot *s, const struct trace *t, const struct pool *p)
{
    struct live_block *b = live_set_list(&p->live);
    if (!b)
        snapshot_no_memory(s);
    for (size_t i = 0; b && i < p->live.count && !s->failed; i++)
        save_block(s, t, b[i].ptr, b[i].size, b[i].thread, b[i].callstack);
    free(b);
}

static void save_live(struct snapshot *s, const struct trace *t, struct pool *p)
{
    struct column_walk w = column_walk(&p->allocs);
    int status = s->failed;
    if (p->counted) {
        save_counted(s, t, p);
        return;
    }
    for (const struct memory_alloc *a; (a = column_walk_next(&w, &status, s->e));) {
        save_block(s, t, a->ptr, memory_alloc_size(a), memory_alloc_thread(a), a->callstack);
        status = s->failed;
    }
    s->failed |= status != 0;
}

static void load_live(struct snapshot *s, struct trace *t, struct pool *p, uint64_t n)
{
    for (uint64_t i = 0; i < n && !s->failed; i++) {
        uint64_t ptr = 0, size = 0;
        uint16_t thread = 0;
        uint32_t callstack = 0;
        struct memory_aim aim;
        snapshot_u64(s, &ptr);
        snapshot_u64(s, &size);
        snapshot_thread_number(s, t, &thread);
        snapshot_callstack_id(s, t, &callstack);
        if (size > MEMORY_BITS48)
            snapshot_refuse(s, "the size of a block");
        if (s->failed)
            return;
        const struct memory_place at = {.thread = thread, .callstack = callstack};
        memory_aim_at(&aim, p, ptr);
        int status = memory_alloc(&t->memory, &aim, size, at, s->e);
        if (status > 0)
            snapshot_refuse(s, "a block is live twice");
        s->failed |= status != 0;
    }
}

/* Only for a capture that continues: a replayed checkpoint knows nothing of earlier parts. */
static void snapshot_before(struct snapshot *s, struct pool *p)
{
    if (!s->in_place)
        return;
    snapshot_u64(s, &p->before.allocations);
    snapshot_u64(s, &p->before.frees);
    snapshot_u64(s, &p->before.total_bytes);
}

static void snapshot_memory(struct snapshot *s, struct trace *t)
{
    struct memory *m = &t->memory;
    size_t n = snapshot_count(s, m->pools.len, POOLS_MAX);
    for (size_t i = 0; i < n && !s->failed; i++) {
        uint64_t key = s->loading ? 0 : m->pools.at[i]->key;
        uint64_t live = s->loading ? 0 : m->pools.at[i]->totals.live;
        uint32_t number = (uint32_t)i;
        snapshot_u64(s, &key);
        snapshot_u64(s, &live);
        if (s->failed)
            return;
        if (s->loading && memory_pool(m, key, &number, s->e) != 0)
            s->failed = true;
        else if (number != i)
            snapshot_refuse(s, "a memory pool");
        else if (s->loading)
            load_live(s, t, m->pools.at[i], live);
        else
            save_live(s, t, m->pools.at[i]);
        if (!s->failed)
            snapshot_before(s, m->pools.at[i]);
    }
}

/* ---- zones */

static void snapshot_notes(struct snapshot *s, struct trace *t, struct live_zone *zone)
{
    bool any = zone->notes != NULL;
    snapshot_bool(s, &any);
    if (!any || s->failed)
        return;
    if (s->loading)
        zone->notes = calloc(1, sizeof *zone->notes);
    struct zone_notes *n = zone->notes;
    if (!n) {
        snapshot_no_memory(s);
        return;
    }
    snapshot_callstack_id(s, t, &n->values.callstack);
    snapshot_string(s, t, &n->values.text);
    snapshot_string(s, t, &n->values.name);
    snapshot_u32(s, &n->values.color);
    snapshot_buf(s, &n->text, SIZE_MAX / 2);
    snapshot_bool(s, &n->has_text);
}

static void snapshot_zone_thread(struct snapshot *s, struct trace *t, struct zone_thread *th)
{
    snapshot_u32(s, &th->next_validation);
    SNAPSHOT_EACH(s, &th->open, i, UINT32_MAX) /* zones too deep for the file count as open, too */
    {
        struct live_zone *zone = &th->open.at[i];
        snapshot_u32(s, &zone->validation);
        snapshot_location(s, t, &zone->srcloc);
        snapshot_notes(s, t, zone);
    }
}

/* By thread number; a thread without open zones needs no entry. */
static void save_zones(struct snapshot *s, struct trace *t)
{
    struct zones *z = &t->zones;
    const size_t n = z->threads.len;
    (void)snapshot_count(s, renumber_kept(s, RENUMBER_THREADS, n), t->threads.list.len);
    for (size_t i = 0; i < n && !s->failed; i++) {
        struct zone_thread *th = z->threads.at[i];
        bool any = th && (th->open.len || th->next_validation);
        if (renumber_notes(s) && any)
            (void)renumber(s, RENUMBER_THREADS, (uint32_t)i);
        if (!renumber_keeps(s, RENUMBER_THREADS, i))
            continue;
        snapshot_bool(s, &any);
        if (th && any)
            snapshot_zone_thread(s, t, th);
    }
}

static void load_zones(struct snapshot *s, struct trace *t)
{
    struct zones *z = &t->zones;
    size_t n = snapshot_count(s, 0, t->threads.list.len);
    for (size_t i = 0; i < n && !s->failed; i++) {
        struct zone_thread *th = NULL;
        bool any = false;
        snapshot_bool(s, &any);
        if (any && !s->failed && !(th = zones_thread(z, (uint16_t)i, s->e)))
            s->failed = true;
        if (th)
            snapshot_zone_thread(s, t, th);
    }
    if (!s->failed)
        s->failed = zones_carry(z, s->e) != 0;
}

/* ---- frames, sections, plots */

/* Objects with positions in the file: frame sets or plots. */
struct placed {
    size_t n;
    const void *at;
    size_t size, into, listed; /* of an object, and of its fields within it */
    const uint32_t *order;
    size_t places;
    const struct map *by_text;
    const char *what;
};

static uint32_t placed_into(const struct placed *p, uint64_t number)
{
    uint32_t into;
    memcpy(&into, (const char *)p->at + number * p->size + p->into, sizeof into);
    return into;
}

static bool placed_is_listed(const struct placed *p, uint64_t number)
{
    bool listed;
    memcpy(&listed, (const char *)p->at + number * p->size + p->listed, sizeof listed);
    return listed;
}

/*
 * Checks what a save relies on: each listed object has a position and no other has, and a merged
 * object leads to one that is not merged.
 */
static bool places_hold(struct snapshot *s, const struct placed *p, struct map *seen)
{
    size_t listed = 0, iter = 0;
    for (size_t i = 0; i < p->n; i++) {
        uint32_t into = placed_into(p, i);
        listed += placed_is_listed(p, i);
        if (into >= p->n || placed_into(p, into) != into)
            return false;
    }
    for (size_t i = 0; i < p->places && !s->failed; i++) {
        if (p->order[i] >= p->n || !placed_is_listed(p, p->order[i]))
            return false;
        if (!map_add(seen, p->order[i], NULL))
            snapshot_no_memory(s);
    }
    for (const struct map_slot *slot; (slot = map_next(p->by_text, &iter));) {
        if (placed_into(p, slot->value) != slot->value)
            return false;
    }
    return listed == seen->count && listed == p->places;
}

static void check_places(struct snapshot *s, const struct placed *p)
{
    struct map seen = {0};
    if (s->loading && !s->failed && !places_hold(s, p, &seen))
        snapshot_refuse(s, p->what);
    map_release(&seen);
}

static void snapshot_frame_sets(struct snapshot *s, struct trace *t)
{
    struct frame_sets *f = &t->frame_sets;
    SNAPSHOT_EACH(s, &f->list, i, UINT32_MAX)
    {
        struct frame_set *set = &f->list.at[i];
        snapshot_u64(s, &set->name);
        snapshot_u32(s, &set->into);
        snapshot_bool(s, &set->continuous);
        snapshot_bool(s, &set->listed);
        bool lasts = set->newest != 0;
        snapshot_bool(s, &lasts);
        if (s->loading) {
            set->newest = lasts;
            set->newest_end = FRAME_NO_END;
        }
    }
    SNAPSHOT_EACH(s, &f->order, i, UINT32_MAX)
    snapshot_u32(s, &f->order.at[i]);
    snapshot_map_into(s, &f->numbers, f->list.len, "a frame set");
    snapshot_string_map(s, t, &f->told, MAP_TO_STRING, 0, "a string");
    snapshot_string_map(s, t, &f->by_text, MAP_FROM_STRING, f->list.len, "a frame set");
    snapshot_map_into(s, &f->vsync, f->list.len, "a frame set");
    const struct placed placed = {.n = f->list.len,
                                  .at = f->list.at,
                                  .size = sizeof f->list.at[0],
                                  .into = offsetof(struct frame_set, into),
                                  .listed = offsetof(struct frame_set, listed),
                                  .order = f->order.at,
                                  .places = f->order.len,
                                  .by_text = &f->by_text,
                                  .what = "a frame set"};
    check_places(s, &placed);
    if (f->list.len == 0 || f->list.at[0].into != 0)
        snapshot_refuse(s, "the base set of frames");
    snapshot_i64(s, &t->frame_images.before);
    if (s->loading && !s->failed)
        s->failed = frame_sets_carry(f, s->e) != 0;
}

static void save_open_sections(struct snapshot *s, const struct trace *t, struct sections *c)
{
    struct column_walk list = column_walk(&c->list), ends = column_walk(&c->ends);
    int status = s->failed;
    for (struct column_two both; (both = column_walk_two(&list, &ends, &status, s->e)).first;) {
        const struct section *p = both.first;
        int64_t id = *(const int64_t *)both.second;
        uint16_t category = p->category;
        uint32_t text = p->text;
        snapshot_i64(s, &id);
        snapshot_u16(s, &category);
        snapshot_string(s, t, &text);
        status = s->failed;
    }
    s->failed |= status != 0;
}

static void snapshot_sections(struct snapshot *s, struct trace *t)
{
    struct sections *c = &t->sections;
    SNAPSHOT_EACH(s, &c->category, i, 65536)
    {
        snapshot_u16(s, &c->category.at[i].category);
        snapshot_string(s, t, &c->category.at[i].description);
    }
    snapshot_map_into(s, &c->categories, c->category.len, "a section's category");
    size_t n = snapshot_count(s, (size_t)c->list.len, SIZE_MAX);
    if (!s->loading) {
        save_open_sections(s, t, c);
        return;
    }
    for (size_t i = 0; i < n && !s->failed; i++) {
        int64_t id = 0;
        uint16_t category = 0;
        uint32_t text = 0;
        snapshot_i64(s, &id);
        snapshot_u16(s, &category);
        snapshot_string(s, t, &text);
        if (id >= 0 || id < -(int64_t)UINT32_MAX)
            snapshot_refuse(s, "a section");
        if (!s->failed)
            s->failed = sections_enter(c, (uint32_t)-id, category, text, 0, s->e) != 0;
    }
}

static void snapshot_plots(struct snapshot *s, struct trace *t)
{
    struct plots *p = &t->plots;
    SNAPSHOT_EACH(s, &p->list, i, UINT32_MAX - 1)
    {
        struct plot *plot = &p->list.at[i];
        snapshot_u64(s, &plot->name);
        snapshot_u32(s, &plot->into);
        snapshot_u8(s, &plot->type);
        snapshot_u8(s, &plot->format);
        snapshot_u8(s, &plot->show_steps);
        snapshot_u8(s, &plot->fill);
        snapshot_u32(s, &plot->color);
        snapshot_bool(s, &plot->listed);
        snapshot_i64(s, &plot->newest);
        snapshot_i64(s, &plot->reported);
    }
    SNAPSHOT_EACH(s, &p->order, i, UINT32_MAX)
    snapshot_u32(s, &p->order.at[i]);
    snapshot_map_into(s, &p->numbers, p->list.len, "a plot");
    snapshot_string_map(s, t, &p->told, MAP_TO_STRING, 0, "a string");
    snapshot_string_map(s, t, &p->by_text, MAP_FROM_STRING, p->list.len, "a plot");
    const struct placed placed = {.n = p->list.len,
                                  .at = p->list.at,
                                  .size = sizeof p->list.at[0],
                                  .into = offsetof(struct plot, into),
                                  .listed = offsetof(struct plot, listed),
                                  .order = p->order.at,
                                  .places = p->order.len,
                                  .by_text = &p->by_text,
                                  .what = "a plot"};
    check_places(s, &placed);
    snapshot_map_into(s, &p->power, p->list.len, "a plot");
    snapshot_u32(s, &p->system);
    snapshot_index(s, p->system, p->list.len + 1, "a plot");
}

/* ---- locks and processors */

static void snapshot_lock(struct snapshot *s, struct trace *t, struct lock *lock)
{
    snapshot_u32(s, &lock->id);
    snapshot_string(s, t, &lock->name);
    snapshot_location(s, t, &lock->location);
    snapshot_u8(s, &lock->type);
    snapshot_u64(s, &lock->holder);
    SNAPSHOT_EACH(s, &lock->threads, i, LOCK_THREADS_MAX)
    {
        struct lock_thread *th = &lock->threads.at[i];
        snapshot_u64(s, &th->id);
        snapshot_u32(s, &th->held);
        snapshot_bool(s, &th->waits);
        snapshot_bool(s, &th->shared);
    }
}

static void snapshot_locks(struct snapshot *s, struct trace *t)
{
    SNAPSHOT_EACH(s, &t->locks.list, i, UINT32_MAX)
    snapshot_lock(s, t, &t->locks.list.at[i]);
    if (s->loading && !s->failed)
        s->failed = locks_carry(&t->locks, s->e) != 0;
}

static void snapshot_run(struct snapshot *s, struct trace *t, struct sched_run *r)
{
    uint8_t reason = (uint8_t)r->reason, state = (uint8_t)r->state;
    snapshot_i64(s, &r->wakeup);
    snapshot_i64(s, &r->start);
    snapshot_i64(s, &r->end);
    snapshot_thread_number(s, t, &r->thread);
    snapshot_u8(s, &r->cpu);
    snapshot_u8(s, &r->wakeup_cpu);
    snapshot_u8(s, &reason);
    snapshot_u8(s, &state);
    r->reason = (int8_t)reason;
    r->state = (int8_t)state;
}

static void snapshot_cpus(struct snapshot *s, struct sched *c)
{
    bool any = c->cpus != NULL;
    snapshot_bool(s, &any);
    if (!any || s->failed)
        return;
    if (s->loading)
        c->cpus = calloc(SCHED_CPUS, sizeof *c->cpus);
    if (!c->cpus) {
        snapshot_no_memory(s);
        return;
    }
    for (unsigned i = 0; i < SCHED_CPUS; i++) {
        snapshot_i64(s, &c->cpus[i].end);
        snapshot_u16(s, &c->cpus[i].thread);
        snapshot_u64(s, &c->cpus[i].count);
        if (c->cpus[i].count > 1 || (c->cpus[i].count && c->cpus[i].thread >= c->externals.len))
            snapshot_refuse(s, "a processor");
    }
}

/*
 * Checks that each thread is found at its position and nothing else is: dropping a part's data
 * relies on it.
 */
static void check_sched(struct snapshot *s, const struct sched *c)
{
    size_t named = c->externals.len ? c->externals.len - 1 : 0;
    bool good = c->thread_numbers.count == c->threads.len && c->external_numbers.count == named &&
                (c->externals.len == 0 || c->externals.at[0] == 0);
    for (size_t i = 0; good && i < c->threads.len; i++) {
        const uint64_t *place = map_find(&c->thread_numbers, c->threads.at[i].id);
        good = place && *place == i;
    }
    for (size_t i = 1; good && i < c->externals.len; i++) {
        const uint64_t *place = map_find(&c->external_numbers, c->externals.at[i]);
        good = place && *place == i;
    }
    if (!good)
        snapshot_refuse(s, "a thread that ran");
}

static void snapshot_sched(struct snapshot *s, struct trace *t)
{
    struct sched *c = &t->sched;
    SNAPSHOT_EACH(s, &c->threads, i, SCHED_THREADS_MAX)
    {
        struct sched_thread *th = &c->threads.at[i];
        snapshot_u64(s, &th->id);
        snapshot_u64(s, &th->count);
        snapshot_run(s, t, &th->last);
        snapshot_u8(s, &th->previous_cpu);
        snapshot_u8(s, &th->pending_cpu);
        if (th->count > 1)
            snapshot_refuse(s, "a thread's stretches of running");
    }
    snapshot_map_into(s, &c->thread_numbers, c->threads.len, "a thread that ran");
    SNAPSHOT_EACH(s, &c->externals, i, SCHED_THREADS_MAX)
    snapshot_u64(s, &c->externals.at[i]);
    snapshot_map_into(s, &c->external_numbers, c->externals.len, "a thread that ran");
    SNAPSHOT_EACH(s, &c->names, i, SCHED_NAMES_MAX)
    {
        snapshot_u64(s, &c->names.at[i].id);
        snapshot_string(s, t, &c->names.at[i].program);
        snapshot_string(s, t, &c->names.at[i].thread);
    }
    snapshot_map_into(s, &c->name_numbers, c->names.len, "a thread that ran");
    snapshot_map(s, &c->pids, 0, UINT64_MAX, "a process");
    snapshot_map(s, &c->fibers, 0, UINT64_MAX, "a fiber");
    snapshot_cpus(s, c);
    if (s->loading && !s->failed)
        check_sched(s, c);
    if (s->loading && !s->failed)
        sched_carry(c);
}

static void snapshot_system(struct snapshot *s, struct trace *t)
{
    SNAPSHOT_EACH(s, &t->system.cpus, i, UINT32_MAX)
    {
        struct system_cpu *cpu = &t->system.cpus.at[i];
        snapshot_u32(s, &cpu->package);
        snapshot_u32(s, &cpu->die);
        snapshot_u32(s, &cpu->core);
        snapshot_u32(s, &cpu->cpu);
    }
    snapshot_map(s, &t->system.known, 0, UINT64_MAX, "a processor");
}

void snapshot_lasting(struct snapshot *s, struct trace *t)
{
    snapshot_memory(s, t);
    if (s->loading)
        load_zones(s, t);
    else
        save_zones(s, t);
    snapshot_frame_sets(s, t);
    snapshot_sections(s, t);
    snapshot_plots(s, t);
    snapshot_locks(s, t);
    snapshot_sched(s, t);
    snapshot_system(s, t);
}
