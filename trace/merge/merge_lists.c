#include "trace/merge/merge_internal.h"

typedef int put_table(struct merge *m, struct err *e);

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

static int put_thread_names(struct merge *m, struct err *e)
{
    return put_list(m, REC_THREAD_NAMES, REC_THREAD_NAME, m->thread_names.at, m->thread_names.len,
                    e);
}

static int put_external_names(struct merge *m, struct err *e)
{
    return put_list(m, REC_EXTERNAL_NAMES, REC_EXTERNAL_NAME, m->external_names.at,
                    m->external_names.len, e);
}

static int put_local_threads(struct merge *m, struct err *e)
{
    return put_list(m, REC_LOCAL_THREADS, REC_LOCAL_THREAD, m->local_threads.at,
                    m->local_threads.len, e);
}

static int put_external_threads(struct merge *m, struct err *e)
{
    return put_list(m, REC_EXTERNAL_THREADS, REC_EXTERNAL_THREAD, m->external_threads.at,
                    m->external_threads.len, e);
}

static int put_locations(struct merge *m, struct err *e)
{
    return put_list(m, REC_SOURCE_LOCATIONS, REC_SOURCE_LOCATION, m->locations.at, m->locations.len,
                    e);
}

static int put_expands(struct merge *m, struct err *e)
{
    return put_list(m, REC_SOURCE_LOCATION_EXPANDS, REC_SOURCE_LOCATION_EXPAND, m->expands.at,
                    m->expands.len, e);
}

static int put_payloads(struct merge *m, struct err *e)
{
    return put_list(m, REC_SOURCE_LOCATION_PAYLOADS, REC_SOURCE_LOCATION_PAYLOAD, m->payloads.at,
                    m->payloads.len, e);
}

static int put_app_info(struct merge *m, struct err *e)
{
    return put_list(m, REC_APP_INFOS, REC_APP_INFO, m->app_info.at, m->app_info.len, e);
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

static int put_files(struct merge *m, struct err *e)
{
    return merge_put_count(m, REC_SOURCE_FILES, m->files, e);
}

int merge_put_table(struct merge *m, enum record_type type, bool *done, struct err *e)
{
    static put_table *const tables[REC_TYPE_COUNT] = {
        [REC_CRASH] = put_crash,
        [REC_STRINGS] = put_strings,
        [REC_STRING_POINTERS] = put_pointers,
        [REC_THREAD_NAMES] = put_thread_names,
        [REC_EXTERNAL_NAMES] = put_external_names,
        [REC_LOCAL_THREADS] = put_local_threads,
        [REC_EXTERNAL_THREADS] = put_external_threads,
        [REC_SOURCE_LOCATIONS] = put_locations,
        [REC_SOURCE_LOCATION_EXPANDS] = put_expands,
        [REC_SOURCE_LOCATION_PAYLOADS] = put_payloads,
        [REC_APP_INFOS] = put_app_info,
        [REC_POOLS] = put_pools,
        [REC_SOURCE_FILES] = put_files,
    };
    *done = tables[type] != NULL;
    return *done ? tables[type](m, e) : 0;
}
