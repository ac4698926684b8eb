#include "proc/memory_plots.h"

/* As in files and on the wire: server/TracyEvent.hpp PlotValueFormatting @ v0.14.0. */
enum format { NUMBER = 0, BYTES = 1, PERCENT = 2 };

static const struct {
    const char *name;
    enum format format;
} plots[MEMORY_VALUES] = {
    [MEMORY_RSS_ANON] = {"kernel: RSS anonymous", BYTES},
    [MEMORY_RSS_FILE] = {"kernel: RSS file", BYTES},
    [MEMORY_RSS_SHMEM] = {"kernel: RSS shared", BYTES},
    [MEMORY_SWAP] = {"kernel: swap", BYTES},
    [MEMORY_PSS] = {"kernel: PSS", BYTES},
    [MEMORY_MINOR_FAULTS] = {"kernel: minor page faults per second", NUMBER},
    [MEMORY_MAJOR_FAULTS] = {"kernel: major page faults per second", NUMBER},
    [MEMORY_CGROUP_USE] = {"kernel: cgroup memory", BYTES},
    [MEMORY_CGROUP_LIMIT] = {"kernel: cgroup limit", BYTES},
    [MEMORY_CGROUP_HITS] = {"kernel: cgroup limit hits", NUMBER},
    [MEMORY_CGROUP_KILLS] = {"kernel: cgroup OOM kills", NUMBER},
    [MEMORY_CGROUP_SOME] = {"kernel: cgroup memory pressure, some", PERCENT},
    [MEMORY_CGROUP_FULL] = {"kernel: cgroup memory pressure, full", PERCENT},
    [MEMORY_SYSTEM_SOME] = {"kernel: system memory pressure, some", PERCENT},
    [MEMORY_SYSTEM_FULL] = {"kernel: system memory pressure, full", PERCENT},
    [MEMORY_GPU_PROCESS] = {"kernel: GPU memory", BYTES},
    [MEMORY_GPU_USED] = {"kernel: GPU memory of all processes", BYTES},
    [MEMORY_GPU_SIZE] = {"kernel: GPU memory size", BYTES},
    [MEMORY_GPU_FIRST] = {"kernel: GPU memory on GPU 0", BYTES},
    [MEMORY_GPU_FIRST + 1] = {"kernel: GPU memory on GPU 1", BYTES},
    [MEMORY_GPU_FIRST + 2] = {"kernel: GPU memory on GPU 2", BYTES},
    [MEMORY_GPU_FIRST + 3] = {"kernel: GPU memory on GPU 3", BYTES},
    [MEMORY_GPU_FIRST + 4] = {"kernel: GPU memory on GPU 4", BYTES},
    [MEMORY_GPU_FIRST + 5] = {"kernel: GPU memory on GPU 5", BYTES},
    [MEMORY_GPU_FIRST + 6] = {"kernel: GPU memory on GPU 6", BYTES},
    [MEMORY_GPU_FIRST + 7] = {"kernel: GPU memory on GPU 7", BYTES},
    [MEMORY_CGROUP_FILE] = {"kernel: cgroup file pages", BYTES},
};

static int name_plot(enum memory_value value, const struct event_sink *sink, struct err *e)
{
    const uint64_t key = MEMORY_PLOT_KEY(value);
    const struct event name = {.kind = EVENT_PLOT_NAME,
                               .name = {.key = key, .text = view_of(plots[value].name)}};
    const struct event config = {
        .kind = EVENT_PLOT_CONFIG,
        .plot_config = {.name = key, .type = (uint8_t)plots[value].format, .fill = 1}};
    return sink->event(sink->ctx, &name, e) == 0 ? sink->event(sink->ctx, &config, e) : -1;
}

int memory_plots_add(const struct memory_reading *r, int64_t time, uint32_t *named,
                     const struct event_sink *sink, struct err *e)
{
    for (uint32_t i = 0; i < MEMORY_VALUES; i++) {
        const struct event point = {.kind = EVENT_PLOT,
                                    .time = time,
                                    .plot = {.name = MEMORY_PLOT_KEY(i), .value = r->value[i]}};
        uint32_t bit = UINT32_C(1) << i;
        if (!(r->known & bit))
            continue;
        if (!(*named & bit) && name_plot((enum memory_value)i, sink, e) != 0)
            return -1;
        *named |= bit;
        if (sink->event(sink->ctx, &point, e) != 0)
            return -1;
    }
    return 0;
}
