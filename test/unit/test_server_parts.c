/*
 * Parts of a trace that begin with smaller tables: each is, line for line of its dump, the part
 * that goes on with the tables of before, but for names of what it does not have.
 */

#include "intake_side.h"

#include "analysis/dump/dump.h"
#include "base/vec.h"
#include "report/dump_format.h"
#include "trace/save/save.h"

/* Tables of which a smaller part lists less. */
static const enum dump_section listed[] = {DUMP_THREAD_NAMES, DUMP_LOCATIONS,
                                           DUMP_ALLOCATED_LOCATIONS, DUMP_THREADS, DUMP_CALLSTACKS};

/* ---- dumps of a store */

static int read_store(void *ctx, const struct record_sink *sink, const bool *wanted, struct err *e)
{
    (void)wanted;
    return trace_save(ctx, sink, e);
}

static int write_to_buf(void *ctx, const void *bytes, size_t n, struct err *e)
{
    (void)e;
    buf_put(ctx, bytes, n);
    return 0;
}

static struct buf dump_of(struct trace *t, bool tables)
{
    struct buf out = {0};
    struct err e = {0};
    const struct dump_source source = {t, read_store};
    struct dump_options o = {.limit = UINT64_MAX,
                             .own = true,
                             .format = &dump_format_text,
                             .write = write_to_buf,
                             .write_ctx = &out};
    memset(o.sections, !tables, sizeof o.sections);
    for (size_t i = 0; i < sizeof listed / sizeof listed[0]; i++)
        o.sections[listed[i]] = tables;
    must(dump_run(&source, &o, &e), &e);
    assert_false(out.failed);
    return out;
}

/* What a trace's parts say: events, and what its tables list. */
struct part_dump {
    struct buf events, tables;
};

struct parts {
    VEC(struct part_dump) list;
};

static void parts_take(struct parts *p, struct trace *t)
{
    const struct part_dump one = {dump_of(t, false), dump_of(t, true)};
    assert_true(vec_push(&p->list, one));
}

static void parts_release(struct parts *p)
{
    for (size_t i = 0; i < p->list.len; i++) {
        buf_release(&p->list.at[i].events);
        buf_release(&p->list.at[i].tables);
    }
    vec_release(&p->list);
}

/* Says where two dumps part. */
static void assert_same_lines(struct buf *a, struct buf *b)
{
    size_t i = 0, line = 0;
    for (; i < a->len && i < b->len && a->data[i] == b->data[i]; i++)
        line = a->data[i] == '\n' ? i + 1 : line;
    if (i < a->len || i < b->len)
        fail_msg("'%.200s' against '%.200s'", buf_str(a) + line, buf_str(b) + line);
}

/* Lines of `few` are lines of `all`, in the same order; how many are missing. */
static size_t lines_missing(struct buf *few, struct buf *all)
{
    const char *at = buf_str(few), *in = buf_str(all);
    size_t missing = 0;
    while (*in) {
        size_t len = strcspn(in, "\n") + 1;
        if (strncmp(at, in, len) == 0)
            at += len;
        else
            missing++;
        in += len;
    }
    if (*at)
        fail_msg("not in the other: '%.200s'", at);
    return missing;
}

static size_t assert_same_parts(struct parts *small, struct parts *large)
{
    size_t missing = 0;
    assert_int_equal(small->list.len, large->list.len);
    for (size_t i = 0; i < small->list.len; i++) {
        assert_same_lines(&small->list.at[i].events, &large->list.at[i].events);
        missing += lines_missing(&small->list.at[i].tables, &large->list.at[i].tables);
    }
    return missing;
}

/* ---- recordings */

struct played {
    struct side side;
    struct parts parts;
};

static int take_part(void *ctx, struct err *e)
{
    struct played *p = ctx;
    const struct err none = {0};
    if (intake_finish(&p->side.r, SESSION_PART_FULL, &none, e) != 0)
        return -1;
    parts_take(&p->parts, &p->side.trace);
    return 0;
}

static void play(struct played *p, const struct recording *rec, const struct buf *stream,
                 size_t turns, uint32_t compact_least)
{
    struct err e = {0};
    *p = (struct played){0};
    side_open(&p->side, rec);
    p->side.r.ingest.compact_least = compact_least;
    p->side.r.ingest.part_full = take_part;
    p->side.r.ingest.part_full_ctx = p;
    for (size_t i = 0; i <= turns; i++) {
        size_t from = stream->len * i / (turns + 1), to = stream->len * (i + 1) / (turns + 1);
        feed(&p->side, stream->data + from, to - from);
        assert_true(i == turns || intake_turn(&p->side.r, &e) == 1);
    }
    must(take_part(p, &e), &e);
}

/* What a capture has had in all does not depend on its parts, nor on the size of their tables. */
static void assert_same_sums(const struct trace *t, const struct trace *whole)
{
    assert_int_equal(t->memory.pools.len, whole->memory.pools.len);
    for (size_t i = 0; i < whole->memory.pools.len; i++) {
        const struct pool_sums a = memory_pool_sums(t->memory.pools.at[i]);
        const struct pool_totals *b = &whole->memory.pools.at[i]->totals;
        assert_int_equal(a.allocations, b->allocations);
        assert_int_equal(a.frees, b->frees);
        assert_int_equal(a.total_bytes, b->total_bytes);
    }
}

static void parts_of_recordings(void **state)
{
    (void)state;
    size_t missing = 0;
    for (size_t i = 0; i < 2 * sizeof side_tags / sizeof side_tags[0]; i++) {
        struct recording rec;
        recording_load(&rec, side_tags[i / 2], i % 2 ? "allscen" : "memscen");
        struct buf stream = short_frames(&rec);
        struct played small, large, whole;
        play(&small, &rec, &stream, 2 + i, 1);
        play(&large, &rec, &stream, 2 + i, UINT32_MAX);
        play(&whole, &rec, &stream, 0, UINT32_MAX);
        assert_same_sums(&small.side.trace, &whole.side.trace);
        assert_same_sums(&large.side.trace, &whole.side.trace);
        parts_release(&whole.parts);
        side_release(&whole.side);
        missing += assert_same_parts(&small.parts, &large.parts);
        assert_int_equal(small.side.asked.len, large.side.asked.len);
        assert_memory_equal(buf_str(&small.side.asked), buf_str(&large.side.asked),
                            small.side.asked.len);
        parts_release(&small.parts);
        parts_release(&large.parts);
        side_release(&small.side);
        side_release(&large.side);
        buf_release(&stream);
        recording_release(&rec);
    }
    assert_true(missing > 100);
}

/* ---- a client that has more of everything than a trace can number */

#define STRINGS 220u
#define STACKS 100u
#define THREADS 60u
#define LOCATIONS 50u
#define STEPS 40000u
#define LIVE 25u
enum { FULL_STRINGS, FULL_STACKS, FULL_THREADS, FULL_LOCATIONS, FULL_PAYLOADS, TABLES };
#define OPEN 10u

struct store {
    struct trace t;
    struct ingest in;
    struct parts parts;
    uint32_t waiting; /* a call stack that the decoder holds */
    struct err e;
};

static int take_store(void *ctx, struct err *e)
{
    struct store *s = ctx;
    const uint32_t limit = s->t.strings.limit;
    s->t.strings.limit = STRINGS_MAX; /* facts of a part that is full */
    if (ingest_finish(&s->in, e) != 0)
        return -1;
    parts_take(&s->parts, &s->t);
    s->t.strings.limit = limit;
    return 0;
}

static void store_init(struct store *s)
{
    *s = (struct store){0};
    must(trace_init(&s->t, NULL, &s->e), &s->e);
    must(ingest_init(&s->in, &s->t, &s->e), &s->e);
    s->in.part_full = take_store;
    s->in.part_full_ctx = s;
}

static void store_limits(struct store *s)
{
    s->t.strings.limit = STRINGS;
    s->t.callstacks.limit = STACKS;
    s->t.threads.limit = THREADS;
    s->t.location_limit = LOCATIONS;
}

static void store_release(struct store *s)
{
    parts_release(&s->parts);
    ingest_release(&s->in);
    trace_release(&s->t);
}

static void each_waiting(void *ctx, void (*visit)(void *visit_ctx, uint32_t *id), void *visit_ctx)
{
    visit(visit_ctx, &((struct store *)ctx)->waiting);
}

static void store_turn(struct store *s)
{
    const struct ingest_holder holder = {s, each_waiting};
    must(ingest_begin_part(&s->in, &s->e), &s->e);
    must(ingest_compact(&s->in, &holder, &s->e), &s->e);
}

/* The same happens to both. */
struct twins {
    struct store small, large;
    uint64_t random;
    int64_t time;
    struct map told; /* keys that were told of: once, as a client does */
    uint64_t live[LIVE];
    uint64_t open[OPEN]; /* threads with a zone, 0 none */
    uint64_t address, around;
    unsigned full;          /* the table that there is much for at the time */
    unsigned turns[TABLES]; /* by the table that was nearly full */
};

static uint64_t pick(struct twins *w, uint64_t below)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (w->random >> 33) % below;
}

static void put_both(struct twins *w, const struct event *ev)
{
    must(w->small.in.sink.event(&w->small.in, ev, &w->small.e), &w->small.e);
    must(w->large.in.sink.event(&w->large.in, ev, &w->large.e), &w->large.e);
}

static bool is_new(struct twins *w, uint64_t key)
{
    bool fresh;
    assert_non_null(map_add(&w->told, key, &fresh));
    return fresh;
}

/* A text at a client's address, which the client tells once. */
static uint64_t text_at(struct twins *w, const char *kind, uint64_t number)
{
    char text[32];
    uint64_t key = UINT64_C(1) << 40 | (uint64_t)(uint8_t)kind[0] << 32 | number;
    snprintf(text, sizeof text, "%s %u", kind, (unsigned)number);
    struct event ev = {.kind = EVENT_STRING, .name = {.key = key, .text = view_of(text)}};
    if (is_new(w, key))
        put_both(w, &ev);
    return key;
}

static uint64_t a_thread(struct twins *w)
{
    /* Few at a time, later others, and now and then one of before. */
    w->around += w->full == FULL_THREADS && pick(w, 4) == 0;
    uint64_t id = 100 + (pick(w, 9) ? w->around + pick(w, 8) : pick(w, w->around + 8));
    char name[32];
    snprintf(name, sizeof name, "thread %u", (unsigned)(id % 20));
    struct event ev = {.kind = EVENT_THREAD_NAME, .name = {.key = id, .text = view_of(name)}};
    if (is_new(w, id))
        put_both(w, &ev);
    return id;
}

static void tell_frame(struct twins *w, uint64_t address)
{
    char name[32];
    snprintf(name, sizeof name, "function %u", (unsigned)address);
    struct event_inline one = {.function = view_of(name), .file = view_of("x.c"), .line = 7};
    struct event ev = {.kind = EVENT_CALLSTACK_FRAME};
    ev.frames.address = address;
    ev.frames.image = view_of("prog");
    ev.frames.n = 1;
    ev.frames.inlines = &one;
    if (is_new(w, UINT64_C(1) << 50 | address))
        put_both(w, &ev);
}

static void a_stack(struct twins *w, uint32_t ids[2])
{
    uint64_t frames[3];
    bool fresh[2];
    for (int i = 0; i < 3; i++)
        frames[i] = 0x1000 + pick(w, w->full == FULL_STACKS ? 12 : 2);
    struct store *s = &w->small;
    must(s->in.sink.callstack(&s->in, frames, 3, &ids[0], &fresh[0], &s->e), &s->e);
    s = &w->large;
    must(s->in.sink.callstack(&s->in, frames, 3, &ids[1], &fresh[1], &s->e), &s->e);
    for (int i = 0; i < 3; i++)
        tell_frame(w, frames[i]);
}

/* An event with a call stack, whose number is each store's own. */
static void put_with_stack(struct twins *w, struct event *ev)
{
    uint32_t ids[2];
    a_stack(w, ids);
    ev->callstack = ids[0];
    must(w->small.in.sink.event(&w->small.in, ev, &w->small.e), &w->small.e);
    ev->callstack = ids[1];
    must(w->large.in.sink.event(&w->large.in, ev, &w->large.e), &w->large.e);
}

static void step_memory(struct twins *w)
{
    uint64_t *block = &w->live[pick(w, LIVE)];
    struct event ev = {
        .kind = *block ? EVENT_MEM_FREE : EVENT_MEM_ALLOC, .thread = a_thread(w), .time = w->time};
    ev.mem.ptr = *block ? *block : (w->address += 64);
    ev.mem.size = *block ? 0 : 1 + pick(w, 64);
    *block = *block ? 0 : ev.mem.ptr;
    put_with_stack(w, &ev);
}

static void begin_zone(struct twins *w, struct event *ev)
{
    char function[32], file[32];
    const unsigned scripts = w->full == FULL_PAYLOADS ? 300 : 5;
    snprintf(function, sizeof function, "script %u", (unsigned)pick(w, scripts));
    snprintf(file, sizeof file, "%u.lua", (unsigned)pick(w, 5));
    const struct event_location payload = {
        .function = view_of(function), .file = view_of(file), .line = 3};
    if (pick(w, 2)) {
        ev->zone.payload = &payload;
        put_both(w, ev);
        return;
    }
    const uint64_t pointer = ev->zone.srcloc =
        0x900000 + pick(w, w->full == FULL_LOCATIONS ? 300 : 5);
    struct event told = {.kind = EVENT_SOURCE_LOCATION};
    told.srcloc_reply.pointer = pointer;
    told.srcloc_reply.function = text_at(w, "place", pointer & 31);
    told.srcloc_reply.file = text_at(w, "file", 1);
    told.srcloc_reply.line = (uint32_t)pointer;
    put_with_stack(w, ev);
    if (is_new(w, UINT64_C(1) << 51 | pointer))
        put_both(w, &told);
}

static void step_zone(struct twins *w)
{
    uint64_t *open = &w->open[pick(w, OPEN)];
    struct event ev = {.kind = *open ? EVENT_ZONE_END : EVENT_ZONE_BEGIN,
                       .thread = *open ? *open : a_thread(w),
                       .time = w->time};
    *open = *open ? 0 : ev.thread;
    if (ev.kind == EVENT_ZONE_BEGIN)
        begin_zone(w, &ev);
    else
        put_both(w, &ev);
}

static void step_text(struct twins *w)
{
    char text[32];
    snprintf(text, sizeof text, "text %u", (unsigned)w->time);
    struct event ev = {.thread = a_thread(w), .time = w->time};
    ev.kind = pick(w, 2) ? EVENT_MESSAGE : EVENT_APP_INFO;
    if (ev.kind == EVENT_MESSAGE)
        ev.message.text = view_of(text);
    else
        ev.text = view_of(text);
    if (ev.kind == EVENT_MESSAGE ? w->full == FULL_STRINGS : pick(w, 200) == 0)
        put_both(w, &ev);
}

static void note_cause(struct twins *w)
{
    const struct trace *t = &w->small.t;
    w->turns[0] += t->strings.list.len >= STRINGS * 95 / 100;
    w->turns[1] += t->callstacks.list.len >= STACKS * 95 / 100;
    w->turns[2] += t->threads.list.len >= THREADS * 95 / 100;
    w->turns[3] += t->locations.len >= LOCATIONS * 95 / 100;
    w->turns[4] += t->location_payloads.len >= LOCATIONS * 95 / 100;
}

static void full_tables_turn(void **state)
{
    (void)state;
    struct twins w = {.random = 7};
    store_init(&w.small);
    store_init(&w.large);
    w.large.in.compact_least = UINT32_MAX;
    store_limits(&w.small);
    for (unsigned i = 0; i < STEPS; i++) {
        w.time += 1 + (int64_t)pick(&w, 2);
        w.full = i / 2000 % TABLES;
        if (pick(&w, 3) == 0)
            step_memory(&w);
        else if (pick(&w, 2))
            step_zone(&w);
        else
            step_text(&w);
        if (!trace_is_full_to(&w.small.t, TRACE_NEARLY_FULL))
            continue;
        uint32_t ids[2];
        a_stack(&w, ids);
        w.small.waiting = ids[0];
        w.large.waiting = ids[1];
        note_cause(&w);
        store_turn(&w.small);
        store_turn(&w.large);
        assert_false(trace_is_full_to(&w.small.t, TRACE_NEARLY_FULL));
    }
    for (int i = 0; i < TABLES; i++)
        assert_true(w.turns[i] > 3);
    must(take_store(&w.small, &w.small.e), &w.small.e);
    must(take_store(&w.large, &w.large.e), &w.large.e);
    assert_true(assert_same_parts(&w.small.parts, &w.large.parts) > 1000);
    map_release(&w.told);
    store_release(&w.small);
    store_release(&w.large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_recordings),
        cmocka_unit_test(full_tables_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
