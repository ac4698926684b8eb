/* Any text as a perf map: what it finds at an address lies there. */

#include <stdint.h>
#include <stdlib.h>

#include "naming/perf_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct perf_map m;
    struct perf_found found;
    struct err e = {0};
    if (perf_map_parse(&m, (struct view){(const char *)data, size}, &e) != 0)
        abort();
    for (size_t i = 0; i < m.list.len && i < 1000; i++) {
        const struct perf_entry *at = &m.list.at[i];
        if (at->function.len == 0 || at->start >= at->end ||
            !perf_map_find(&m, at->end - 1, &found) || found.last->start >= at->end ||
            found.last->end < at->end)
            abort();
    }
    perf_map_release(&m);
    return 0;
}
