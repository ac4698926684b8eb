#include "trace/file/grammar.h"

#include <stddef.h>

/* Layout features that control the presence of a record. */
enum when { ALWAYS, WITH_DIES, WITHOUT_DIES, WITH_NOTES, FLAT_SECTIONS, CATEGORY_SECTIONS };

struct follower {
    enum record_type type;
    uint16_t times; /* 0: the count in the record */
    enum when when;
};

struct rule {
    struct follower follow[GRAMMAR_FOLLOWERS_MAX];
    uint16_t n_offset;
    uint8_t n_width; /* bytes of the announced count */
    uint8_t count;
};

/* The followers of a type: as many as announced, one, or a fixed number. */
#define N(TYPE)                                                                                    \
    {                                                                                              \
        REC_##TYPE, 0, ALWAYS                                                                      \
    }
#define ONE(TYPE)                                                                                  \
    {                                                                                              \
        REC_##TYPE, 1, ALWAYS                                                                      \
    }
#define TIMES(TYPE, TIMES)                                                                         \
    {                                                                                              \
        REC_##TYPE, TIMES, ALWAYS                                                                  \
    }
#define ANNOUNCES(STRUCT, FIELD)                                                                   \
    .n_width = sizeof(((struct rec_##STRUCT *)0)->FIELD),                                          \
    .n_offset = offsetof(struct rec_##STRUCT, FIELD)
#define FOLLOW(COUNT, ...) .count = (COUNT), .follow = {__VA_ARGS__}
#define LIST(COUNT_TYPE, TYPE) [REC_##COUNT_TYPE] = {ANNOUNCES(count, n), FOLLOW(1, N(TYPE))}

/* clang-format off */
static const struct rule rules[REC_TYPE_COUNT] = {
    LIST(PACKAGES, PACKAGE),
    [REC_PACKAGE] = {ANNOUNCES(topology_node, n),
                     FOLLOW(2, {REC_DIE, 0, WITH_DIES}, {REC_CORE, 0, WITHOUT_DIES})},
    [REC_DIE] = {ANNOUNCES(topology_node, n), FOLLOW(1, N(CORE))},
    [REC_CORE] = {ANNOUNCES(topology_node, n), FOLLOW(1, N(CPU))},
    LIST(FRAME_SETS, FRAME_SET),
    [REC_FRAME_SET] = {ANNOUNCES(frame_set, n), FOLLOW(1, N(FRAME))},
    LIST(SECTION_LISTS, SECTION_LIST),
    [REC_SECTION_LIST] = {ANNOUNCES(section_list, n), FOLLOW(1, N(SECTION))},
    LIST(SECTION_CATEGORIES, SECTION_CATEGORY),
    LIST(STRINGS, STRING),
    LIST(STRING_POINTERS, STRING_POINTER),
    LIST(THREAD_NAMES, THREAD_NAME),
    LIST(EXTERNAL_NAMES, EXTERNAL_NAME),
    LIST(LOCAL_THREADS, LOCAL_THREAD),
    LIST(EXTERNAL_THREADS, EXTERNAL_THREAD),
    LIST(SOURCE_LOCATIONS, SOURCE_LOCATION),
    LIST(SOURCE_LOCATION_EXPANDS, SOURCE_LOCATION_EXPAND),
    LIST(SOURCE_LOCATION_PAYLOADS, SOURCE_LOCATION_PAYLOAD),
    LIST(ZONE_STATS, ZONE_STAT),
    LIST(GPU_ZONE_STATS, GPU_ZONE_STAT),
    LIST(LOCKS, LOCK),
    [REC_LOCK] = {ANNOUNCES(lock, n), FOLLOW(2, N(LOCK_THREAD), ONE(LOCK_EVENTS))},
    LIST(LOCK_EVENTS, LOCK_EVENT),
    LIST(MESSAGES, MESSAGE),
    LIST(ZONE_EXTRAS, ZONE_EXTRA),
    [REC_THREADS] = {ANNOUNCES(threads, n), FOLLOW(1, N(THREAD))},
    [REC_THREAD] = {ANNOUNCES(thread, n),
                    FOLLOW(4, N(ZONE_BEGIN), ONE(THREAD_MESSAGES), ONE(SWITCH_SAMPLES), ONE(SAMPLES))},
    [REC_ZONE_BEGIN] = {ANNOUNCES(zone_begin, n), FOLLOW(2, N(ZONE_BEGIN), ONE(ZONE_END))},
    LIST(THREAD_MESSAGES, THREAD_MESSAGE),
    LIST(SWITCH_SAMPLES, SWITCH_SAMPLE),
    LIST(SAMPLES, SAMPLE),
    [REC_GPU_CONTEXTS] = {ANNOUNCES(threads, n), FOLLOW(1, N(GPU_CONTEXT))},
    [REC_GPU_CONTEXT] = {FOLLOW(3, {REC_GPU_NOTE_NAMES, 1, WITH_NOTES}, ONE(GPU_THREADS),
                                {REC_GPU_NOTE_QUERIES, 1, WITH_NOTES})},
    LIST(GPU_NOTE_NAMES, GPU_NOTE_NAME),
    LIST(GPU_THREADS, GPU_THREAD),
    [REC_GPU_THREAD] = {ANNOUNCES(gpu_thread, n), FOLLOW(1, N(GPU_ZONE_BEGIN))},
    [REC_GPU_ZONE_BEGIN] = {ANNOUNCES(gpu_zone_begin, n),
                            FOLLOW(2, N(GPU_ZONE_BEGIN), ONE(GPU_ZONE_END))},
    LIST(GPU_NOTE_QUERIES, GPU_NOTE_QUERY),
    [REC_GPU_NOTE_QUERY] = {ANNOUNCES(gpu_note_query, n), FOLLOW(1, N(GPU_NOTE))},
    LIST(PLOTS, PLOT),
    [REC_PLOT] = {ANNOUNCES(plot, n), FOLLOW(1, N(PLOT_POINT))},
    [REC_POOLS] = {ANNOUNCES(pools, n), FOLLOW(1, N(POOL))},
    [REC_POOL] = {ANNOUNCES(pool, events), FOLLOW(2, N(MEMORY_EVENT), ONE(POOL_END))},
    LIST(CALLSTACKS, CALLSTACK),
    LIST(CALLSTACK_FRAMES, CALLSTACK_FRAME),
    LIST(APP_INFOS, APP_INFO),
    LIST(FRAME_IMAGES, FRAME_IMAGE),
    LIST(CONTEXT_SWITCH_THREADS, CONTEXT_SWITCH_THREAD),
    [REC_CONTEXT_SWITCH_THREAD] = {ANNOUNCES(id_count, n), FOLLOW(1, N(CONTEXT_SWITCH))},
    /* Always 256 lists; the count before them is the sum of their lengths. */
    [REC_CPU_SWITCH_LISTS] = {FOLLOW(1, TIMES(CPU_SWITCH_LIST, 256))},
    LIST(CPU_SWITCH_LIST, CPU_SWITCH),
    LIST(TID_TO_PIDS, TID_TO_PID),
    LIST(CPU_THREADS, CPU_THREAD),
    [REC_SYMBOLS] = {ANNOUNCES(symbols, n), FOLLOW(1, N(SYMBOL))},
    LIST(SYMBOL_CODES, SYMBOL_CODE),
    LIST(CODE_SYMBOLS, CODE_SYMBOL),
    LIST(HW_SAMPLES, HW_SAMPLE),
    /* Cycles, retired, cache references, cache misses, branches retired, branch misses. */
    [REC_HW_SAMPLE] = {FOLLOW(1, TIMES(HW_SAMPLE_LIST, 6))},
    LIST(HW_SAMPLE_LIST, HW_SAMPLE_TIME),
    LIST(SOURCE_FILES, SOURCE_FILE),
};

static const struct follower root[] = {
    ONE(HEADER), ONE(PACKAGES), ONE(CRASH), ONE(FRAME_SETS),
    {REC_SECTION_LIST, 1, FLAT_SECTIONS},
    {REC_SECTION_LISTS, 1, CATEGORY_SECTIONS}, {REC_SECTION_CATEGORIES, 1, CATEGORY_SECTIONS},
    ONE(STRINGS), ONE(STRING_POINTERS), ONE(THREAD_NAMES), ONE(EXTERNAL_NAMES),
    ONE(LOCAL_THREADS), ONE(EXTERNAL_THREADS),
    ONE(SOURCE_LOCATIONS), ONE(SOURCE_LOCATION_EXPANDS), ONE(SOURCE_LOCATION_PAYLOADS),
    ONE(ZONE_STATS), ONE(GPU_ZONE_STATS),
    ONE(LOCKS), ONE(MESSAGES), ONE(ZONE_EXTRAS), ONE(THREADS), ONE(GPU_CONTEXTS), ONE(PLOTS),
    ONE(POOLS), ONE(CALLSTACKS), ONE(CALLSTACK_FRAMES), ONE(APP_INFOS),
    ONE(FRAME_IMAGE_DICT), ONE(FRAME_IMAGES),
    ONE(CONTEXT_SWITCH_THREADS), ONE(CPU_SWITCH_LISTS), ONE(TID_TO_PIDS), ONE(CPU_THREADS),
    ONE(SYMBOLS), ONE(SYMBOL_CODES), ONE(CODE_SYMBOLS), ONE(HW_SAMPLES), ONE(SOURCE_FILES),
};
/* clang-format on */

static bool present(const struct file_layout *l, enum when when)
{
    switch (when) {
    case ALWAYS:
        return true;
    case WITH_DIES:
        return l->dies;
    case WITHOUT_DIES:
        return !l->dies;
    case WITH_NOTES:
        return l->gpu_notes;
    case FLAT_SECTIONS:
        return l->sections == SECTIONS_FLAT;
    case CATEGORY_SECTIONS:
        return l->sections == SECTIONS_BY_CATEGORY;
    }
    return false;
}

/* The rule reduced to what the layout contains. */
static struct grammar_rule rule_for(const struct rule *rule, const struct file_layout *layout)
{
    struct grammar_rule r = {.n_width = rule->n_width, .n_offset = rule->n_offset};
    for (unsigned i = rule->count; i-- > 0;) {
        const struct follower *f = &rule->follow[i];
        if (present(layout, f->when))
            r.follow[r.count++] = (struct grammar_follower){(uint8_t)f->type, f->times};
    }
    return r;
}

int grammar_start(struct grammar *g, const struct file_layout *layout, struct err *e)
{
    size_t n = sizeof root / sizeof root[0];
    for (unsigned i = 0; i < REC_TYPE_COUNT; i++)
        g->rules[i] = rule_for(&rules[i], layout);
    g->stack.len = 0;
    while (n-- > 0) {
        if (present(layout, root[n].when) &&
            !vec_push(&g->stack, (struct grammar_slot){root[n].type, 1, 1}))
            return err_no_memory(e, "the order of a trace");
    }
    return 0;
}

void grammar_release(struct grammar *g)
{
    vec_release(&g->stack);
}

bool grammar_is_leaf(enum record_type type)
{
    return rules[type].count == 0;
}

int grammar_refuse(const struct grammar *g, enum record_type type, uint64_t n, struct err *e)
{
    if (n > GRAMMAR_LIST_MAX)
        return err_set(e, ERR_INPUT, "announces %llu × %s; no trace holds so many",
                       (unsigned long long)n, record_name(rules[type].follow[0].type));
    if (g->stack.len > 2 * (size_t)GRAMMAR_DEPTH_MAX)
        return err_set(e, ERR_INPUT, "zones nested more than %u deep", GRAMMAR_DEPTH_MAX);
    return err_no_memory(e, "nested zones");
}
