#include "analysis/questions/overview.h"

#include <assert.h>
#include <string.h>

static void fill_counts(struct overview *o, const struct trace_counts *c)
{
    const struct overview_count counts[] = {
        {"threads", c->threads},
        {"zones", c->zones},
        {"gpu zones", c->gpu_zones},
        {"frame sets", c->frame_sets},
        {"frames", c->frames},
        {"frame images", c->frame_images},
        {"sections", c->sections},
        {"messages", c->messages},
        {"plots", c->plots},
        {"plot points", c->plot_points},
        {"locks", c->locks},
        {"memory pools", c->pools},
        {"memory allocations", c->memory_events},
        {"call stacks", c->callstacks},
        {"call stack frames", c->callstack_frames},
        {"samples", c->samples},
        {"context switch samples", c->switch_samples},
        {"hardware sample addresses", c->hw_samples},
        {"context switches", c->context_switches},
        {"processor switches", c->cpu_switches},
        {"processes", c->processes},
        {"symbols", c->symbols},
        {"symbol code", c->symbol_codes},
        {"source files", c->source_files},
        {"source locations", c->source_locations},
        {"strings", c->strings},
        {"application info", c->app_infos},
    };
    static_assert(sizeof counts / sizeof *counts <= OVERVIEW_COUNTS_MAX, "room for all counts");
    o->count_count = sizeof counts / sizeof *counts;
    memcpy(o->counts, counts, sizeof counts);
}

/* Source: CpuArchitecture in public/common/TracyProtocol.hpp @ v0.14.0. */
static const char *cpu_name(uint8_t cpu)
{
    static const char *const names[] = {"unknown", "x86", "x86-64", "arm32", "arm64"};
    return cpu < sizeof names / sizeof *names ? names[cpu] : "unknown";
}

static const char *container_name(const struct container_info *c)
{
    static const char *const names[] = {
        [CONTAINER_LZ4] = "single stream (tlZ)",
        [CONTAINER_ZSTD] = "single stream (tZst)",
        [CONTAINER_STREAMS] = "multiple streams (tr)",
    };
    return names[c->kind];
}

static void count_frames(struct overview *o)
{
    const struct callstacks *c = &o->trace->callstacks;
    for (size_t i = 0; i < c->frames.len; i++) {
        uint32_t outermost = frame_depth(o->trace, (uint32_t)i) - 1;
        o->frames++;
        o->resolved += frame_describe(o->trace, (uint32_t)i, outermost).has_name;
    }
}

static int note_fact(struct overview *o, struct view key, struct view value, struct err *e)
{
    /* There are few keys, even with many facts. */
    for (size_t i = 0; i < o->facts.len; i++) {
        if (view_equal(o->facts.at[i].key, key)) {
            o->facts.at[i].n++;
            return 0;
        }
    }
    struct overview_fact fact = {.key = key, .value = value, .n = 1};
    return vec_push(&o->facts, fact) ? 0 : err_no_memory(e, "facts");
}

/* A hostile file could have millions of keys: further ones count as one. */
#define FACT_KEYS_MAX 100

static int collect_facts(struct overview *o, struct err *e)
{
    static const char prefix[] = "tidemark.";
    const struct trace *t = o->trace;
    for (size_t i = 0; i < t->app_info.len; i++) {
        struct view text = strings_get(&t->strings, t->app_info.at[i]);
        const char *equals = text.len ? memchr(text.p, '=', text.len) : NULL;
        size_t skip = sizeof prefix - 1;
        if (!equals || text.len < skip || memcmp(text.p, prefix, skip) != 0 ||
            equals < text.p + skip)
            continue;
        struct view key = {text.p + skip, (size_t)(equals - text.p) - skip};
        struct view value = {equals + 1, text.len - (size_t)(equals + 1 - text.p)};
        if (o->facts.len >= FACT_KEYS_MAX)
            key = value = view_of("(other)");
        if (note_fact(o, key, value, e) != 0)
            return -1;
    }
    return 0;
}

int overview_build(struct overview *o, const struct trace *t, const struct trace_counts *counts,
                   const struct trace_info *info, const struct summary *summary, struct err *e)
{
    *o = (struct overview){.trace = t, .info = info, .summary = summary};
    file_version_text(info->version, o->file_version);
    o->container = container_name(&info->container);
    o->compression = info->container.codec == CODEC_LZ4 ? "lz4" : "zstd";
    o->cpu = cpu_name(t->facts.cpu_arch);
    fill_counts(o, counts);
    count_frames(o);
    if (collect_facts(o, e) == 0)
        return 0;
    overview_release(o);
    return -1;
}

void overview_release(struct overview *o)
{
    vec_release(&o->facts);
    *o = (struct overview){0};
}
