#ifndef TIDEMARK_TEST_INGEST_TEST_H
#define TIDEMARK_TEST_INGEST_TEST_H

/* From events to records: frames, images, sections, plots, locks, the system. Include after
 * cmocka.h. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "trace/ingest/ingest.h"
#include "trace/save/save.h"

struct fixture {
    struct trace t;
    struct ingest in;
    struct err e;
    struct buf text;  /* the records that a save gives, one line each */
    const char *only; /* of these lines, those that begin with one of these letters; NULL: all */
};

static inline void fixture_init(struct fixture *f, size_t budget)
{
    memset(f, 0, sizeof *f);
    struct trace_options options = {.resident_budget = budget};
    assert_int_equal(trace_init(&f->t, &options, &f->e), 0);
    assert_int_equal(ingest_init(&f->in, &f->t, &f->e), 0);
    uint32_t frame = strings_intern(&f->t.strings, view_of("Frame"), &f->e);
    assert_int_equal(strings_bind(&f->t.strings, 0, frame, &f->e), 0);
}

static inline void fixture_release(struct fixture *f)
{
    ingest_release(&f->in);
    trace_release(&f->t);
    buf_release(&f->text);
}

static inline void put(struct fixture *f, const struct event *ev)
{
    assert_int_equal(f->in.sink.event(f->in.sink.ctx, ev, &f->e), 0);
}

static inline void put_name(struct fixture *f, enum event_kind kind, uint64_t key, const char *text)
{
    struct event ev = {.kind = kind};
    ev.name.key = key;
    ev.name.text = view_of(text);
    put(f, &ev);
}

static inline void print_frames(struct buf *out, enum record_type type, const void *recs, size_t n)
{
    if (type == REC_FRAME_SET) {
        const struct rec_frame_set *r = recs;
        buf_printf(out, "set %" PRIx64 " %s %" PRIu64 "\n", r->name,
                   r->continuous ? "continuous" : "discontinuous", r->n);
    } else if (type == REC_FRAME) {
        const struct rec_frame *r = recs;
        for (size_t i = 0; i < n; i++)
            buf_printf(out, "frame %" PRId64 " %" PRId64 " %d\n", r[i].start, r[i].end, r[i].image);
    } else if (type == REC_FRAME_IMAGE) {
        const struct rec_frame_image *r = recs;
        buf_printf(out, "image %u %u %u", r->w, r->h, r->flip);
        for (size_t i = 0; i < r->bytes.len; i++)
            buf_printf(out, "%s%02x", i % 8 ? "" : " ", (unsigned char)r->bytes.p[i]);
        buf_puts(out, "\n");
    } else if (type == REC_SECTION_LIST) {
        const struct rec_section_list *r = recs;
        buf_printf(out, "Sections of %u: %" PRIu64 "\n", r->category, r->n);
    } else if (type == REC_SECTION) {
        const struct rec_section *r = recs;
        for (size_t i = 0; i < n; i++)
            buf_printf(out, "Section %" PRId64 " %" PRId64 " %s\n", r[i].start, r[i].end,
                       r[i].text ? "text" : "-");
    } else if (type == REC_SECTION_CATEGORY) {
        const struct rec_section_category *r = recs;
        buf_printf(out, "Section category %u %s\n", r->category, r->description ? "text" : "-");
    }
}

static inline void print_rest(struct buf *out, enum record_type type, const void *recs, size_t n)
{
    if (type == REC_PLOT) {
        const struct rec_plot *r = recs;
        buf_printf(
            out, "plot %" PRIx64 " type %u format %u %u%u %x min %g max %g sum %g n %" PRIu64 "\n",
            r->name, r->type, r->format, r->show_steps, r->fill, r->color, r->min, r->max, r->sum,
            r->n);
    } else if (type == REC_PLOT_POINT) {
        const struct rec_plot_point *r = recs;
        for (size_t i = 0; i < n; i++)
            buf_printf(out, "point %" PRId64 " %g\n", r[i].time, r[i].value);
    } else if (type == REC_LOCK) {
        const struct rec_lock *r = recs;
        buf_printf(out, "lock %u at %d type %u %" PRId64 " to %" PRId64 "%s threads %" PRIu64 "\n",
                   r->id, r->srcloc, r->type, r->time_announce, r->time_terminate,
                   r->custom_name ? " named" : "", r->n);
    } else if (type == REC_LOCK_EVENT) {
        const struct rec_lock_event *r = recs;
        for (size_t i = 0; i < n; i++)
            buf_printf(out, "lock event %" PRId64 " thread %u %u at %d\n", r[i].time, r[i].thread,
                       r[i].event, r[i].srcloc);
    } else if (type >= REC_PACKAGE && type <= REC_CPU) {
        const struct rec_topology_node *r = recs;
        static const char *const kinds[] = {"package", "die", "core", "cpu"};
        for (size_t i = 0; i < n; i++)
            buf_printf(out, "cpus: %s %u %" PRIu64 "\n", kinds[type - REC_PACKAGE], r[i].id,
                       r[i].n);
    } else if (type == REC_CRASH) {
        const struct rec_crash *r = recs;
        buf_printf(out, "crash %" PRIu64 " %" PRId64 " %" PRIx64 "\n", r->thread, r->time,
                   r->message);
    }
}

static inline int print_record(void *ctx, enum record_type type, const void *recs, size_t n,
                               struct err *e)
{
    (void)e;
    struct fixture *f = ctx;
    struct buf lines = {0};
    print_frames(&lines, type, recs, n);
    print_rest(&lines, type, recs, n);
    if (lines.len && (!f->only || strchr(f->only, lines.data[0])))
        buf_put(&f->text, lines.data, lines.len);
    buf_release(&lines);
    return 0;
}

static inline const char *saved(struct fixture *f, const char *only)
{
    struct record_sink sink = {f, print_record};
    f->only = only;
    f->text.len = 0;
    assert_int_equal(trace_save(&f->t, &sink, &f->e), 0);
    return buf_str(&f->text);
}

/* The value of our own fact, or "". */
static inline const char *fact(struct fixture *f, const char *key, char room[32])
{
    struct view v = trace_fact(&f->t, key, 0);
    snprintf(room, 32, "%.*s", v.p ? (int)v.len : 0, v.p ? v.p : "");
    return room;
}

/* What a part of a trace saves; the next part's events are saved by the test itself. */
static inline int part_is_full(void *ctx, struct err *e)
{
    (void)ctx;
    (void)e;
    return 0;
}

static inline uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

#endif
