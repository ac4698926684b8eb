#include "analysis/figures/resident_fact.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "base/saturate.h"

#define FACT "resident"

#define LACKING_SHARE 20u
/* Pages come and go while a look reads others. */
#define SLACK ((uint64_t)1 << 20)

static const char *const class_names[RESIDENT_CLASSES] = {
    [RESIDENT_BLOCKS] = "blocks",       [RESIDENT_OVERHEAD] = "allocator overhead and holes",
    [RESIDENT_LIBRARIES] = "libraries", [RESIDENT_STACKS] = "stacks",
    [RESIDENT_OTHER] = "other",
};

const char *resident_class_key(enum resident_class c)
{
    return c == RESIDENT_OVERHEAD ? "overhead" : class_names[c];
}

bool resident_is_reported(const struct trace *t)
{
    return !trace_fact(t, "recorded", 0).p;
}

uint64_t resident_total(const struct resident_shares *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < RESIDENT_CLASSES; i++)
        sum = saturating_add(sum, s->bytes[i]);
    return sum;
}

uint64_t resident_lacking(const struct resident_shares *s)
{
    uint64_t total = resident_total(s), lacking = saturating_sub(s->rss, total);
    lacking = lacking < s->unsure ? lacking : s->unsure;
    return lacking > SLACK && lacking > total / LACKING_SHARE ? lacking : 0;
}

int resident_fact_add(struct trace *t, const struct resident_shares *s, struct err *e)
{
    const uint64_t *b = s->bytes;
    return trace_add_fact(t, e, FACT,
                          "%" PRId64 " %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                          " %" PRIu64 " %" PRIu64 " %" PRIu64,
                          s->time, (int)s->reason, b[RESIDENT_BLOCKS], b[RESIDENT_OVERHEAD],
                          b[RESIDENT_LIBRARIES], b[RESIDENT_STACKS], b[RESIDENT_OTHER], s->unsure,
                          s->swapped, s->rss);
}

bool resident_fact_read(const struct trace *t, struct resident_shares *s)
{
    char text[256];
    uint64_t *b = s->bytes;
    unsigned reason;
    int n = 0;
    struct view fact = trace_fact(t, FACT, 0);
    if (!fact.p || fact.len >= sizeof text || trace_fact(t, FACT, 1).p)
        return false;
    memcpy(text, fact.p, fact.len);
    text[fact.len] = 0;
    if (sscanf(text,
               "%" SCNd64 " %u %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64 " %" SCNu64 "%n",
               &s->time, &reason, &b[RESIDENT_BLOCKS], &b[RESIDENT_OVERHEAD],
               &b[RESIDENT_LIBRARIES], &b[RESIDENT_STACKS], &b[RESIDENT_OTHER], &s->unsure,
               &s->swapped, &s->rss, &n) != 10 ||
        (size_t)n != fact.len || reason >= LOOK_REASONS)
        return false;
    s->reason = (enum look_reason)reason;
    s->reported = resident_is_reported(t);
    return true;
}

void resident_words(struct buf *out, const struct resident_shares *s)
{
    char bytes[FORMAT_SIZE], time[FORMAT_SIZE];
    uint64_t total = resident_total(s);
    buf_printf(out, "resident %s at %s", format_bytes(bytes, total),
               format_duration(time, s->time));
    for (size_t i = 0; i < RESIDENT_CLASSES && total; i++) {
        bool beside = i == RESIDENT_OVERHEAD && s->reported;
        buf_printf(out, "%s %s %.0f %%", i ? "," : ":", beside ? "beside them" : class_names[i],
                   round((double)s->bytes[i] / (double)total * 100));
    }
    if (s->swapped)
        buf_printf(out, "; swapped %s", format_bytes(bytes, s->swapped));
    if (resident_lacking(s))
        buf_printf(out, "; without %s that a forked process has, too",
                   format_bytes(bytes, resident_lacking(s)));
}
