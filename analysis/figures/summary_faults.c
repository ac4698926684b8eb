/* Writes memory faults to a trace's facts, and reads them back or takes a capture's counts. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/figures/summary_parts.h"
#include "base/saturate.h"

static const char *const kind_names[] = {
    [FAULT_FREE_UNKNOWN] = "free-of-unknown",
    [FAULT_ALLOC_TWICE] = "allocated-twice",
};

const char *fault_kind_name(enum memory_fault_kind kind)
{
    return kind_names[kind];
}

static uint64_t thread_id(const struct trace *t, uint16_t thread)
{
    return thread < t->threads.list.len ? t->threads.list.at[thread].id : 0;
}

/* The first and the last few cases of a fault without duplicates, in order of time. */
static unsigned fault_samples(const struct trace *t, const struct memory_fault *f,
                              struct summary_fault_sample out[SUMMARY_FAULT_SAMPLES])
{
    unsigned n = 0;
    for (uint64_t i = 0; i < f->count; i++) {
        const struct memory_fault_sample *s = &f->first[i % FAULT_SAMPLES];
        if (i >= FAULT_SAMPLES) {
            /* The ring holds the newest FAULT_SAMPLES of all. */
            if (i + FAULT_SAMPLES < f->count)
                i = f->count - FAULT_SAMPLES;
            s = &f->last[i % FAULT_SAMPLES];
        }
        out[n++] = (struct summary_fault_sample){.time = s->time,
                                                 .ptr = s->ptr,
                                                 .size = s->size,
                                                 .thread = thread_id(t, s->thread),
                                                 .other_callstack = s->other_callstack};
    }
    return n;
}

/* ---- writing */

static int write_fault(struct trace *t, const struct memory_fault *f, struct err *e)
{
    struct summary_fault_sample samples[SUMMARY_FAULT_SAMPLES];
    unsigned n = fault_samples(t, f, samples);
    struct buf text = {0};
    for (unsigned i = 0; i < n; i++)
        buf_printf(&text, "%s%" PRId64 ",%" PRIu64 ",0x%" PRIx64 ",%" PRIu64 ",%" PRIu32,
                   i ? ";" : "", samples[i].time, samples[i].thread, samples[i].ptr,
                   samples[i].size, samples[i].other_callstack);
    int status = text.failed
                     ? err_no_memory(e, "facts")
                     : trace_add_fact(t, e, "fault", "%s|0x%" PRIx64 "|%" PRIu64 "|%" PRIu32 "|%s",
                                      fault_kind_name(f->kind), t->memory.pools.at[f->pool]->key,
                                      f->count, f->callstack, buf_str(&text));
    buf_release(&text);
    return status;
}

static int write_count(struct trace *t, const char *key, uint64_t n, struct err *e)
{
    return n ? trace_add_fact(t, e, key, "%" PRIu64, n) : 0;
}

int summary_write_facts(struct trace *t, struct err *e)
{
    const struct memory *m = &t->memory;
    size_t n = m->faults.len;
    uint64_t left_out = 0;
    if (n > SUMMARY_FAULT_FACTS_MAX) {
        left_out = n - SUMMARY_FAULT_FACTS_MAX;
        n = SUMMARY_FAULT_FACTS_MAX;
    }
    if (write_count(t, "unknown_frees", m->unknown_frees, e) != 0 ||
        write_count(t, "null_frees", m->null_frees, e) != 0 ||
        write_count(t, "double_allocations", m->double_allocations, e) != 0 ||
        write_count(t, "faults_left_out", left_out, e) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (write_fault(t, &m->faults.at[i], e) != 0)
            return -1;
    }
    return 0;
}

/* ---- reading */

/* Reads numbers and the separators between them; sets `bad` at anything else. */
struct fact_cursor {
    const char *p;
    const char *end;
    bool bad;
};

static uint64_t take_number(struct fact_cursor *c)
{
    char digits[24];
    size_t n = 0;
    while (c->p < c->end && n + 1 < sizeof digits && strchr("0123456789abcdefx-", *c->p) && *c->p)
        digits[n++] = *c->p++;
    digits[n] = 0;
    char *end;
    bool hex = strncmp(digits, "0x", 2) == 0;
    uint64_t value = digits[0] == '-' ? (uint64_t)strtoll(digits, &end, 10)
                                      : strtoull(digits, &end, hex ? 16 : 10);
    c->bad |= n == 0 || *end != 0;
    return value;
}

static bool take_mark(struct fact_cursor *c, char mark)
{
    if (c->p >= c->end || *c->p != mark)
        return false;
    c->p++;
    return true;
}

static void need_mark(struct fact_cursor *c, char mark)
{
    c->bad |= !take_mark(c, mark);
}

static enum memory_fault_kind take_kind(struct fact_cursor *c)
{
    for (size_t i = 0; i < sizeof kind_names / sizeof *kind_names; i++) {
        size_t len = strlen(kind_names[i]);
        if ((size_t)(c->end - c->p) >= len && memcmp(c->p, kind_names[i], len) == 0) {
            c->p += len;
            return (enum memory_fault_kind)i;
        }
    }
    c->bad = true;
    return FAULT_FREE_UNKNOWN;
}

static void take_sample(struct fact_cursor *c, struct summary_fault *f)
{
    struct summary_fault_sample *s = &f->samples[f->sample_count++];
    s->time = (int64_t)take_number(c);
    need_mark(c, ',');
    s->thread = take_number(c);
    need_mark(c, ',');
    s->ptr = take_number(c);
    need_mark(c, ',');
    s->size = take_number(c);
    need_mark(c, ',');
    s->other_callstack = (uint32_t)take_number(c);
}

/* Parses one "fault" fact. False if it is malformed: a program may write such a text itself. */
static bool parse_fault(struct view text, struct summary_fault *f, uint64_t *pool_key)
{
    struct fact_cursor c = {.p = text.p, .end = text.p + text.len};
    *f = (struct summary_fault){.kind = take_kind(&c)};
    need_mark(&c, '|');
    *pool_key = take_number(&c);
    need_mark(&c, '|');
    f->count = take_number(&c);
    need_mark(&c, '|');
    f->callstack = (uint32_t)take_number(&c);
    need_mark(&c, '|');
    do
        take_sample(&c, f);
    while (!c.bad && f->sample_count < SUMMARY_FAULT_SAMPLES && take_mark(&c, ';'));
    return !c.bad && c.p == c.end;
}

static int keep_fault(struct summary *s, struct summary_fault *f, uint64_t pool_key,
                      const char *wanted, struct err *e)
{
    char room[32];
    const struct pool stand_in = {.key = pool_key};
    f->pool = trace_pool_name(s->trace, &stand_in, room);
    if (wanted && !view_equal(f->pool, view_of(wanted)))
        return 0;
    f->least = f->count;
    if (f->pool.p == room)
        f->pool = summary_keep(s, f->pool);
    return f->pool.p && vec_push(&s->faults, *f) ? 0 : err_no_memory(e, "memory faults");
}

static int faults_of_capture(struct summary *s, const char *wanted, struct err *e)
{
    const struct trace *t = s->trace;
    for (size_t i = 0; i < t->memory.faults.len; i++) {
        const struct memory_fault *from = &t->memory.faults.at[i];
        struct summary_fault f = {
            .kind = from->kind, .count = from->count, .callstack = from->callstack};
        f.sample_count = fault_samples(t, from, f.samples);
        if (keep_fault(s, &f, t->memory.pools.at[from->pool]->key, wanted, e) != 0)
            return -1;
    }
    return 0;
}

static int faults_of_facts(struct summary *s, const char *wanted, struct err *e)
{
    static const char prefix[] = "tidemark.fault=";
    const struct trace *t = s->trace;
    for (size_t i = 0; i < t->app_info.len; i++) {
        struct view text = strings_get(&t->strings, t->app_info.at[i]);
        struct summary_fault f;
        uint64_t key;
        if (text.len < sizeof prefix || memcmp(text.p, prefix, sizeof prefix - 1) != 0)
            continue;
        text.p += sizeof prefix - 1;
        text.len -= sizeof prefix - 1;
        if (parse_fault(text, &f, &key) && keep_fault(s, &f, key, wanted, e) != 0)
            return -1;
    }
    return 0;
}

static uint64_t count_fact(const struct summary *s, const char *key)
{
    struct view text = trace_fact(s->trace, key, 0);
    if (!text.p)
        return 0;
    struct fact_cursor c = {.p = text.p, .end = text.p + text.len};
    uint64_t n = take_number(&c);
    return c.bad ? 0 : n;
}

int summary_read_faults(struct summary *s, const char *pool, struct err *e)
{
    const struct memory *m = &s->trace->memory;
    s->unknown_frees = m->unknown_frees ? m->unknown_frees : count_fact(s, "unknown_frees");
    s->null_frees = m->null_frees ? m->null_frees : count_fact(s, "null_frees");
    s->double_allocations =
        m->double_allocations ? m->double_allocations : count_fact(s, "double_allocations");
    if (m->faults.len)
        return faults_of_capture(s, pool, e);
    s->faults_left_out = count_fact(s, "faults_left_out");
    return faults_of_facts(s, pool, e);
}

uint64_t summary_count_faults(const struct summary *s, uint64_t *least)
{
    uint64_t most = 0;
    uint64_t sure = 0;
    for (size_t i = 0; i < s->faults.len; i++) {
        most = saturating_add(most, s->faults.at[i].count);
        sure = saturating_add(sure, s->faults.at[i].least);
    }
    if (least)
        *least = sure;
    return most;
}
