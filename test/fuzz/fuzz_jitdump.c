/* Any bytes as a jitdump: what it finds at an address lies there, and its lines are in order. */

#include <stdint.h>
#include <stdlib.h>

#include "naming/jitdump.h"
#include "naming/timed_frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct perf_map *m, uint32_t i)
{
    struct perf_found found;
    struct timed_frames timed = {0};
    struct err e = {0};
    const struct perf_entry *at = &m->list.at[i];
    if (at->function.len == 0 || at->start >= at->end || at->lines > m->lines.len ||
        at->first_line > m->lines.len - at->lines || !perf_map_find(m, at->end - 1, &found) ||
        found.last->start >= at->end || found.last->end < at->end)
        abort();
    for (uint32_t k = 1; k < at->lines; k++) {
        if (m->lines.at[at->first_line + k - 1].offset > m->lines.at[at->first_line + k].offset)
            abort();
    }
    (void)perf_map_line(m, at, at->start);
    if (timed_frames_add(&timed, m, i, at->start, &e) != 0)
        abort();
    for (size_t k = 1; k < timed.changes.len; k++) {
        if (timed.changes.at[k - 1].from > timed.changes.at[k].from)
            abort();
    }
    timed_frames_release(&timed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct perf_map m;
    struct err e = {0};
    if (jitdump_parse(&m, (struct view){(const char *)data, size}, &e) == 0) {
        for (uint32_t i = 0; i < m.list.len && i < 200; i++)
            check(&m, i);
    }
    perf_map_release(&m);
    return 0;
}
