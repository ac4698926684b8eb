#ifndef TIDEMARK_TEST_ZONE_ORACLE_H
#define TIDEMARK_TEST_ZONE_ORACLE_H

/*
 * What a saved trace must hold of zones: a plain list that a test keeps beside the store, and a
 * sink that compares the records of a save with it. Include after cmocka.h.
 */

#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "trace/file/writer.h"
#include "trace/ingest/ingest.h"
#include "trace/save/save.h"

#define ORACLE_THREADS 8u
#define ORACLE_TEXT 64u

struct oracle_zone {
    int64_t start, end; /* -1: open */
    uint64_t location;  /* client pointer; 0: not compared */
    uint32_t children;
    uint32_t callstack;
    uint32_t color; /* as in the file */
    char text[ORACLE_TEXT];
    char name[16];
};

struct oracle_thread {
    uint64_t id;
    VEC(struct oracle_zone) zones; /* in order of their beginnings */
    VEC(size_t) open;
    uint32_t roots;
};

struct oracle {
    struct oracle_thread threads[ORACLE_THREADS];
    uint64_t ended[64]; /* by location / 0x100 */

    /* what the save has told so far */
    VEC(struct view) strings; /* their texts are the store's */
    VEC(uint64_t) expand;
    VEC(struct rec_zone_extra) extras;
    VEC(size_t) stack;
    struct oracle_thread *thread;
    size_t next; /* zone of the thread */
    uint64_t zones_said, lists_said, zones_seen, lists_seen, threads_seen;
    struct record_sink also; /* put == NULL: none */
};

static inline void oracle_release(struct oracle *o)
{
    for (size_t i = 0; i < ORACLE_THREADS; i++) {
        vec_release(&o->threads[i].zones);
        vec_release(&o->threads[i].open);
    }
    vec_release(&o->strings);
    vec_release(&o->expand);
    vec_release(&o->extras);
    vec_release(&o->stack);
}

static inline struct oracle_thread *oracle_thread(struct oracle *o, uint64_t id)
{
    for (size_t i = 0; i < ORACLE_THREADS; i++) {
        if (o->threads[i].id == 0)
            o->threads[i].id = id;
        if (o->threads[i].id == id)
            return &o->threads[i];
    }
    fail_msg("too many threads for the oracle");
    return NULL;
}

/* ---- what happened */

static inline struct oracle_zone *oracle_begin(struct oracle *o, uint64_t id, int64_t time,
                                               uint64_t location)
{
    struct oracle_thread *t = oracle_thread(o, id);
    if (t->open.len)
        t->zones.at[t->open.at[t->open.len - 1]].children++;
    else
        t->roots++;
    assert_true(vec_push(&t->open, t->zones.len));
    struct oracle_zone zone = {.start = time, .end = -1, .location = location};
    assert_true(vec_push(&t->zones, zone));
    return &t->zones.at[t->zones.len - 1];
}

/* The innermost open zone, or NULL. */
static inline struct oracle_zone *oracle_top(struct oracle *o, uint64_t id)
{
    struct oracle_thread *t = oracle_thread(o, id);
    return t->open.len ? &t->zones.at[t->open.at[t->open.len - 1]] : NULL;
}

static inline void oracle_end(struct oracle *o, uint64_t id, int64_t time)
{
    struct oracle_zone *zone = oracle_top(o, id);
    zone->end = time;
    o->ended[zone->location / 0x100 % 64]++;
    oracle_thread(o, id)->open.len--;
}

static inline void oracle_text(struct oracle_zone *zone, const char *text)
{
    size_t have = strlen(zone->text);
    snprintf(zone->text + have, sizeof zone->text - have, "%s%s", have ? "\n" : "", text);
}

/* ---- what was saved */

static inline void oracle_check_text(const struct oracle *o, uint32_t number, const char *text)
{
    if (!*text) {
        assert_int_equal(number, 0);
        return;
    }
    assert_in_range(number, 1, o->strings.len);
    assert_true(view_equal(o->strings.at[number - 1], view_of(text)));
}

static inline void oracle_check_begin(struct oracle *o, const struct rec_zone_begin *r)
{
    assert_true(o->next < o->thread->zones.len);
    const struct oracle_zone *zone = &o->thread->zones.at[o->next];
    assert_int_equal(r->start, zone->start);
    assert_int_equal(r->n, zone->children);
    assert_in_range(r->srcloc, 1, o->expand.len - 1);
    assert_int_equal(o->expand.at[r->srcloc], zone->location);
    assert_true(r->extra < o->extras.len);
    const struct rec_zone_extra *extra = &o->extras.at[r->extra];
    assert_int_equal(extra->callstack, zone->callstack);
    assert_int_equal(extra->color, zone->color);
    oracle_check_text(o, extra->text, zone->text);
    oracle_check_text(o, extra->name, zone->name);
    assert_true(vec_push(&o->stack, o->next));
    o->next++;
    o->zones_seen++;
    o->lists_seen += r->n != 0;
}

static inline void oracle_check_thread(struct oracle *o, const struct rec_thread *r)
{
    assert_true(o->thread == NULL || o->next == o->thread->zones.len);
    assert_int_equal(o->stack.len, 0);
    o->thread = oracle_thread(o, r->id);
    o->next = 0;
    o->threads_seen++;
    assert_int_equal(r->zones, o->thread->zones.len);
    assert_int_equal(r->n, o->thread->roots);
    assert_int_equal(r->is_fiber, r->id >> 32 != 0);
}

static inline int oracle_put(void *ctx, enum record_type type, const void *recs, size_t n,
                             struct err *e)
{
    struct oracle *o = ctx;
    switch (type) {
    case REC_STRING:
        assert_true(vec_push(&o->strings, ((const struct rec_string *)recs)->text));
        break;
    case REC_SOURCE_LOCATION_EXPAND:
        assert_true(vec_push(&o->expand, ((const struct rec_id *)recs)->id));
        break;
    case REC_ZONE_STAT: {
        const struct rec_zone_stat *stat = recs;
        if (stat->srcloc > 0)
            assert_int_equal(stat->n, o->ended[o->expand.at[stat->srcloc] / 0x100 % 64]);
        break;
    }
    case REC_ZONE_EXTRA:
        assert_true(vec_push(&o->extras, *(const struct rec_zone_extra *)recs));
        break;
    case REC_THREADS:
        o->zones_said = ((const struct rec_threads *)recs)->zones;
        o->lists_said = ((const struct rec_threads *)recs)->child_lists;
        break;
    case REC_THREAD:
        oracle_check_thread(o, recs);
        break;
    case REC_ZONE_BEGIN:
        oracle_check_begin(o, recs);
        break;
    case REC_ZONE_END:
        assert_true(o->stack.len > 0);
        assert_int_equal(((const struct rec_zone_end *)recs)->end,
                         o->thread->zones.at[o->stack.at[--o->stack.len]].end);
        break;
    default:
        break;
    }
    return o->also.put ? record_put(&o->also, type, recs, n, e) : 0;
}

static inline int oracle_drop_block(void *ctx, const uint8_t *block, size_t len, struct err *e)
{
    (void)ctx;
    (void)block;
    (void)len;
    (void)e;
    return 0;
}

/* Saves the trace and compares; the writer checks order and numbers of the records. */
static inline void oracle_check(struct oracle *o, struct trace *t)
{
    struct err e = {0};
    struct trace_writer *w;
    struct trace_write_stats stats;
    o->strings.len = o->expand.len = o->extras.len = o->stack.len = 0;
    o->thread = NULL;
    o->zones_seen = o->lists_seen = o->threads_seen = 0;
    assert_int_equal(
        trace_writer_open_inner(&w, NULL, (struct block_sink){.put = oracle_drop_block}, &e), 0);
    o->also = trace_writer_sink(w);
    struct record_sink sink = {o, oracle_put};
    if (trace_save(t, &sink, &e) != 0 || trace_writer_finish(w, &stats, &e) != 0)
        fail_msg("%s", e.text);
    trace_writer_free(w);
    assert_true(o->thread == NULL || o->next == o->thread->zones.len);
    assert_int_equal(o->zones_seen, o->zones_said);
    assert_int_equal(o->lists_seen, o->lists_said);
}

#endif
