#include "trace/filter/strip.h"

#include <stddef.h>
#include <string.h>

/* Frames copied at a time; the reader's batches are smaller. */
#define FRAMES_MAX 512u

void strip_init(struct strip *s, const struct record_sink *next)
{
    *s = (struct strip){.next = *next};
}

int strip_add(struct strip *s, const char *letters, struct err *e)
{
    for (const char *p = letters; *p; p++) {
        switch (*p) {
        case 'l':
            s->locks = true;
            break;
        case 'm':
            s->messages = true;
            break;
        case 'p':
            s->plots = true;
            break;
        case 'M':
            s->memory = true;
            break;
        case 'i':
            s->images = true;
            break;
        case 'c':
            s->switches = true;
            break;
        case 's':
            s->samples = true;
            break;
        case 'C':
            s->symbol_code = true;
            break;
        case 'S':
            s->source_files = true;
            break;
        default:
            return err_set(e, ERR_USAGE, "'%c' names nothing to strip (known: l m p M i c s C S)",
                           *p);
        }
    }
    return 0;
}

/* What strip does to a record type. */
enum action { KEEP, EMPTY, DROP, NO_POOLS, NO_DICT };

/* The flag of struct strip for a type, and the action if it is set. */
struct strip_rule {
    size_t flag;
    enum action action;
};

#define RULE(TYPE, FLAG, ACTION) [REC_##TYPE] = {offsetof(struct strip, FLAG), ACTION}
static const struct strip_rule rules[REC_TYPE_COUNT] = {
    RULE(LOCKS, locks, EMPTY),
    RULE(LOCK, locks, DROP),
    RULE(LOCK_THREAD, locks, DROP),
    RULE(LOCK_EVENTS, locks, DROP),
    RULE(LOCK_EVENT, locks, DROP),
    RULE(MESSAGES, messages, EMPTY),
    RULE(MESSAGE, messages, DROP),
    RULE(THREAD_MESSAGES, messages, EMPTY),
    RULE(THREAD_MESSAGE, messages, DROP),
    RULE(PLOTS, plots, EMPTY),
    RULE(PLOT, plots, DROP),
    RULE(PLOT_POINT, plots, DROP),
    RULE(POOLS, memory, NO_POOLS),
    RULE(POOL, memory, DROP),
    RULE(MEMORY_EVENT, memory, DROP),
    RULE(POOL_END, memory, DROP),
    RULE(FRAME_IMAGE_DICT, images, NO_DICT),
    RULE(FRAME_IMAGES, images, EMPTY),
    RULE(FRAME_IMAGE, images, DROP),
    RULE(CONTEXT_SWITCH_THREADS, switches, EMPTY),
    RULE(CONTEXT_SWITCH_THREAD, switches, DROP),
    RULE(CONTEXT_SWITCH, switches, DROP),
    RULE(CPU_SWITCH_LISTS, switches, EMPTY), /* the count is a sum: 256 lists still follow */
    RULE(CPU_SWITCH_LIST, switches, EMPTY),
    RULE(CPU_SWITCH, switches, DROP),
    RULE(SWITCH_SAMPLES, samples, EMPTY),
    RULE(SWITCH_SAMPLE, samples, DROP),
    RULE(SAMPLES, samples, EMPTY),
    RULE(SAMPLE, samples, DROP),
    RULE(SYMBOL_CODES, symbol_code, EMPTY),
    RULE(SYMBOL_CODE, symbol_code, DROP),
    RULE(SOURCE_FILES, source_files, EMPTY),
    RULE(SOURCE_FILE, source_files, DROP),
};
#undef RULE

static enum action action_for(const struct strip *s, enum record_type type)
{
    const struct strip_rule *rule = &rules[type];
    return rule->action != KEEP && *(const bool *)((const char *)s + rule->flag) ? rule->action
                                                                                 : KEEP;
}

void strip_unwanted(const struct strip *s, bool *wanted)
{
    for (unsigned i = 0; i < REC_TYPE_COUNT; i++) {
        if (action_for(s, (enum record_type)i) == DROP)
            wanted[i] = false;
    }
}

/* The viewer accesses pool 0 unchecked, so an empty one stays. */
static int put_no_pools(struct strip *s, struct err *e)
{
    struct rec_pools pools = {.n = 1};
    struct rec_pool pool = {0};
    struct rec_pool_end end = {.low = UINT64_MAX};
    if (record_put(&s->next, REC_POOLS, &pools, 1, e) != 0 ||
        record_put(&s->next, REC_POOL, &pool, 1, e) != 0)
        return -1;
    return record_put(&s->next, REC_POOL_END, &end, 1, e);
}

/* Without images, frames must not refer to one. */
static int put_frames(struct strip *s, const struct rec_frame *frames, size_t n, struct err *e)
{
    struct rec_frame bare[FRAMES_MAX];
    for (size_t done = 0; done < n;) {
        size_t part = n - done < FRAMES_MAX ? n - done : FRAMES_MAX;
        memcpy(bare, frames + done, part * sizeof *bare);
        for (size_t i = 0; i < part; i++)
            bare[i].image = -1;
        if (record_put(&s->next, REC_FRAME, bare, part, e) != 0)
            return -1;
        done += part;
    }
    return 0;
}

static int strip_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct strip *s = ctx;
    struct rec_count none = {0};
    struct rec_blob no_dict = {{NULL, 0}};
    if (type == REC_POOLS && s->memory)
        s->events = ((const struct rec_pools *)recs)->events;
    if (type == REC_FRAME && s->images)
        return put_frames(s, recs, n, e);
    switch (action_for(s, type)) {
    case KEEP:
        break;
    case EMPTY:
        return record_put(&s->next, type, &none, 1, e);
    case DROP:
        return 0;
    case NO_POOLS:
        return put_no_pools(s, e);
    case NO_DICT:
        return record_put(&s->next, type, &no_dict, 1, e);
    }
    return record_put(&s->next, type, recs, n, e);
}

struct record_sink strip_sink(struct strip *s)
{
    return (struct record_sink){.ctx = s, .put = strip_put};
}
