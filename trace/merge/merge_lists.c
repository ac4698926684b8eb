#include "trace/merge/merge_internal.h"

int merge_put_count(struct merge *m, enum record_type type, uint64_t n, struct err *e)
{
    struct rec_count count = {n};
    return record_put(&m->out, type, &count, 1, e);
}

/* Puts a list of fixed-size records and its count. */
static int put_list(struct merge *m, enum record_type counts, enum record_type type,
                    const void *recs, size_t n, struct err *e)
{
    if (merge_put_count(m, counts, n, e) != 0)
        return -1;
    return n > 0 ? record_put(&m->out, type, recs, n, e) : 0;
}

/* The keys of strings are their numbers. */
static int put_strings(struct merge *m, struct err *e)
{
    size_t n = m->strings.list.len;
    if (merge_put_count(m, REC_STRINGS, n, e) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        struct rec_string r = {i + 1, m->strings.list.at[i]};
        if (record_put(&m->out, REC_STRING, &r, 1, e) != 0)
            return -1;
    }
    return 0;
}

static int put_pointers(struct merge *m, struct err *e)
{
    if (merge_put_count(m, REC_STRING_POINTERS, m->pointers.len, e) != 0)
        return -1;
    for (size_t i = 0; i < m->pointers.len; i++) {
        struct rec_pair r = {m->pointers.at[i].pointer, m->pointers.at[i].text};
        if (record_put(&m->out, REC_STRING_POINTER, &r, 1, e) != 0)
            return -1;
    }
    return 0;
}

/* Puts the first crash; merge_facts.c adds facts about the others. */
static int put_crash(struct merge *m, struct err *e)
{
    struct rec_crash crash = {0};
    for (size_t i = 0; i < m->n; i++) {
        struct merge_input *in = m->order[i];
        if (!merge_has_crash(in))
            continue;
        crash = in->crash;
        if (in->shift > 0 && crash.time > MERGE_TIME_MAX - in->shift)
            return err_set(e, ERR_INPUT, "%s: its crash comes too late for the format", in->name);
        crash.time += in->shift;
        crash.callstack += crash.callstack ? (uint32_t)in->callstack_base : 0;
        if (merge_thread(in, &crash.thread, e) != 0 || merge_pointer(in, &crash.message, e) != 0)
            return -1;
        break;
    }
    return record_put(&m->out, REC_CRASH, &crash, 1, e);
}

static int put_pools(struct merge *m, struct err *e)
{
    m->outcome->pools = m->pools.n;
    return record_put(&m->out, REC_POOLS, &m->pools, 1, e);
}

int merge_put_table(struct merge *m, enum record_type type, bool *done, struct err *e)
{
    *done = true;
    switch (type) {
#define LIST(COUNTS, TYPE, MEMBER)                                                                 \
    case REC_##COUNTS:                                                                             \
        return put_list(m, type, REC_##TYPE, m->MEMBER.at, m->MEMBER.len, e);
        LIST(THREAD_NAMES, THREAD_NAME, thread_names)
        LIST(EXTERNAL_NAMES, EXTERNAL_NAME, external_names)
        LIST(LOCAL_THREADS, LOCAL_THREAD, local_threads)
        LIST(EXTERNAL_THREADS, EXTERNAL_THREAD, external_threads)
        LIST(SOURCE_LOCATIONS, SOURCE_LOCATION, locations)
        LIST(SOURCE_LOCATION_EXPANDS, SOURCE_LOCATION_EXPAND, expands)
        LIST(SOURCE_LOCATION_PAYLOADS, SOURCE_LOCATION_PAYLOAD, payloads)
        LIST(APP_INFOS, APP_INFO, app_info)
#undef LIST
    case REC_CRASH:
        return put_crash(m, e);
    case REC_STRINGS:
        return put_strings(m, e);
    case REC_STRING_POINTERS:
        return put_pointers(m, e);
    case REC_POOLS:
        return put_pools(m, e);
    case REC_SOURCE_FILES:
        return merge_put_count(m, type, m->files, e);
    default:
        *done = false;
        return 0;
    }
}
