#include "analysis/figures/gpu_segments.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/format.h"

bool gpu_segments_read(const struct trace *t, unsigned n, struct gpu_segments *s)
{
    char text[128] = {0};
    struct view fact = trace_fact(t, "gpu_segments", n);
    if (!fact.p || fact.len >= sizeof text)
        return false;
    memcpy(text, fact.p, fact.len);
    return sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &s->gpu,
                  &s->count, &s->reserved, &s->used, &s->largest) == 5;
}

void gpu_segments_words(struct buf *out, const struct gpu_segments *s)
{
    char count[FORMAT_SIZE], reserved[FORMAT_SIZE], left[FORMAT_SIZE], share[FORMAT_SIZE];
    char largest[FORMAT_SIZE];
    uint64_t rest = s->reserved > s->used ? s->reserved - s->used : 0;
    buf_printf(out,
               "gpu%" PRIu64 ": %s reserved %s; %s of it (%s) are free, in pieces of %s or less",
               s->gpu, format_counted(count, s->count, "segment"),
               format_bytes(reserved, s->reserved), format_bytes(left, rest),
               format_percent(share, rest, s->reserved), format_bytes(largest, s->largest));
}
