#include "trace/store/store.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define OTHER_POOLS "(other pools)"

/*
 * Eight windows of zstd's level 19: a smaller limit would reject files that official tools write.
 */
#define TRACE_DECODERS_LEAST (UINT64_C(64) << 20)

static int init_tables(struct trace *t, struct err *e)
{
    strings_init(&t->strings);
    memory_init(&t->memory, &t->spool);
    gpu_init(&t->gpu, &t->spool);
    messages_init(&t->messages, &t->spool);
    frame_images_init(&t->frame_images, &t->spool);
    sections_init(&t->sections, &t->spool);
    plots_init(&t->plots, &t->spool);
    locks_init(&t->locks, &t->spool);
    sched_init(&t->sched, &t->spool);
    samples_init(&t->samples, &t->spool);
    uint16_t none;
    return frame_sets_init(&t->frame_sets, &t->spool, e) == 0 &&
                   callstacks_init(&t->callstacks, e) == 0 &&
                   zones_init(&t->zones, &t->spool, &t->strings, e) == 0 &&
                   trace_thread_number(t, 0, &none, e) == 0
               ? 0
               : -1;
}

static void release_tables(struct trace *t)
{
    memory_release(&t->memory);
    gpu_release(&t->gpu);
    zones_release(&t->zones);
    messages_release(&t->messages);
    frame_sets_release(&t->frame_sets);
    frame_images_release(&t->frame_images);
    sections_release(&t->sections);
    plots_release(&t->plots);
    page_looks_release(&t->looks);
    resident_stacks_release(&t->resident);
    locks_release(&t->locks);
    system_release(&t->system);
    sched_release(&t->sched);
    samples_release(&t->samples);
    vec_release(&t->source_paths);
    strings_release(&t->strings);
    callstacks_release(&t->callstacks);
    vec_release(&t->threads.list);
    vec_release(&t->threads.order);
    vec_release(&t->threads.locals);
    map_release(&t->threads.numbers);
    vec_release(&t->threads.known);
    map_release(&t->threads.known_numbers);
    pageable_vec_release(&t->pageable, &t->locations);
    map_release(&t->location_numbers);
    vec_release(&t->known_locations);
    map_release(&t->known_location_numbers);
    vec_release(&t->location_payloads);
    pageable_vec_release(&t->pageable, &t->symbols);
    map_release(&t->symbol_numbers);
    map_release(&t->code_symbols);
    pageable_vec_release(&t->pageable, &t->app_info);
    pageable_release(&t->pageable);
}

int trace_init(struct trace *t, const struct trace_options *options, struct err *e)
{
    const struct spool no_file = {.fd = -1, .old_fd = -1};
    *t = (struct trace){.spool = no_file, .lasting = no_file, .facts.timer_mul = 1.0};
    t->memory_budget = options ? options->resident_budget : 0;
    size_t budget = t->memory_budget ? t->memory_budget : TRACE_BUDGET;
    const char *dir = options ? options->spool_dir : NULL;
    if (spool_init(&t->spool, dir, budget, e) != 0)
        return -1;
    if (spool_init(&t->lasting, dir, 0, e) != 0) {
        spool_release(&t->spool);
        return -1;
    }
    t->threads.limit = THREADS_MAX;
    t->location_limit = LOCATIONS_MAX;
    keyed_blobs_init(&t->symbol_codes, &t->lasting);
    keyed_blobs_init(&t->sources, &t->lasting);
    if (init_tables(t, e) == 0)
        return 0;
    trace_release(t);
    return -1;
}

uint64_t trace_decoder_budget(const struct trace *t)
{
    uint64_t half = t->memory_budget / 2;
    return half == 0 || half > TRACE_DECODERS_LEAST ? half : TRACE_DECODERS_LEAST;
}

void trace_page_tables(struct trace *t, size_t budget)
{
    pageable_init(&t->pageable, t->spool.dir, budget);
    strings_use(&t->strings, &t->pageable);
    callstacks_use(&t->callstacks, &t->pageable);
    t->memory.pageable = t->memory.fault_numbers.pageable = t->zones.pageable = &t->pageable;
    t->location_numbers.pageable = t->symbol_numbers.pageable = &t->pageable;
    t->code_symbols.pageable = &t->pageable;
}

int trace_make_pageable(struct trace *t, struct err *e)
{
    size_t third = t->memory_budget / 3;
    size_t budget = third && third < TRACE_TABLES_BUDGET ? third : TRACE_TABLES_BUDGET;
    if (third && spool_set_budget(&t->spool, third, e) != 0)
        return -1;
    trace_page_tables(t, budget);
    return 0;
}

void trace_release(struct trace *t)
{
    release_tables(t);
    keyed_blobs_release(&t->symbol_codes);
    keyed_blobs_release(&t->sources);
    spool_release(&t->spool);
    spool_release(&t->lasting);
}

int trace_renew(struct trace *t, struct err *e)
{
    const struct trace before = *t;
    release_tables(t);
    *t = (struct trace){.spool = t->spool,
                        .lasting = t->lasting,
                        .facts.timer_mul = 1.0,
                        .threads.limit = before.threads.limit,
                        .location_limit = before.location_limit,
                        .symbol_codes = before.symbol_codes,
                        .sources = before.sources};
    int status = init_tables(t, e);
    if (before.pageable.dir)
        trace_page_tables(t, before.pageable.budget);
    t->strings.limit = before.strings.limit;
    t->callstacks.limit = before.callstacks.limit;
    t->sched.limit = before.sched.limit;
    t->samples.combine = before.samples.combine;
    t->zones.depth_limit = before.zones.depth_limit;
    return status;
}

/* ---- fill levels */

struct trace_lengths trace_lengths(const struct trace *t)
{
    return (struct trace_lengths){.strings = t->strings.list.len,
                                  .callstacks = t->callstacks.list.len,
                                  .threads = t->threads.list.len,
                                  .locations = t->locations.len,
                                  .payloads = t->location_payloads.len};
}

static bool is_full_to(unsigned percent, size_t len, size_t carried, size_t limit)
{
    return len >= (uint64_t)limit * percent / 100 && len - carried >= limit / 10;
}

bool trace_is_full_to(const struct trace *t, unsigned percent)
{
    const struct trace_lengths now = trace_lengths(t), *then = &t->carried;
    return is_full_to(percent, now.strings, then->strings, t->strings.limit) ||
           is_full_to(percent, now.callstacks, then->callstacks, t->callstacks.limit) ||
           is_full_to(percent, now.threads, then->threads, t->threads.limit) ||
           is_full_to(percent, now.locations, then->locations, t->location_limit) ||
           is_full_to(percent, now.payloads, then->payloads, t->location_limit) ||
           sched_is_full_to(&t->sched, percent);
}

/* ---- threads */

/* The known facts about a thread of earlier parts that gets an entry again. */
static struct trace_thread thread_of(const struct trace_threads *th, uint64_t id)
{
    const uint64_t *known = map_find(&th->known_numbers, id);
    return known ? th->known.at[*known]
                 : (struct trace_thread){.id = id, .is_fiber = id >> 32 != 0};
}

int trace_thread_number(struct trace *t, uint64_t id, uint16_t *number, struct err *e)
{
    struct trace_threads *th = &t->threads;
    if (th->list.len && id == th->last_id) {
        *number = th->last_number;
        return 0;
    }
    uint64_t *found = map_find(&th->numbers, id);
    if (!found) {
        if (th->list.len + 1 >= th->limit && th->list.len) {
            /* The table is full: all further threads share its last entry. */
            th->overflow++;
            if (th->list.len < th->limit) {
                struct trace_thread other = {.id = UINT32_MAX};
                other.name = strings_intern(&t->strings, view_of("(other threads)"), e);
                if (!other.name || !vec_push(&th->list, other))
                    return err_no_memory(e, "threads");
            }
            *number = (uint16_t)(th->list.len - 1);
            return 0;
        }
        if (!vec_push(&th->list, thread_of(th, id)) || !(found = map_add(&th->numbers, id, NULL)))
            return err_no_memory(e, "threads");
        *found = th->list.len - 1;
    }
    th->last_id = id;
    th->last_number = *number = (uint16_t)*found;
    return 0;
}

int trace_list_thread(struct trace *t, uint16_t number, struct err *e)
{
    struct trace_thread *th = &t->threads.list.at[number];
    if (th->listed)
        return 0;
    th->listed = vec_push(&t->threads.order, number);
    return th->listed ? 0 : err_no_memory(e, "threads");
}

int trace_local_thread(struct trace *t, uint16_t number, struct err *e)
{
    struct trace_thread *th = &t->threads.list.at[number];
    if (th->local)
        return 0;
    th->local = vec_push(&t->threads.locals, number);
    return th->local ? 0 : err_no_memory(e, "threads");
}

struct view trace_pool_name(const struct trace *t, const struct pool *p, char room[32])
{
    if (p->key == 0)
        return view_of("default");
    if (p->key == POOL_OTHER)
        return view_of(OTHER_POOLS);
    uint32_t name = strings_at_pointer(&t->strings, p->key);
    if (name)
        return strings_get(&t->strings, name);
    snprintf(room, 32, "0x%" PRIx64, p->key);
    return view_of(room);
}

int trace_note_other_pools(struct trace *t, struct err *e)
{
    if (t->memory.pool_overflow == 0)
        return 0;
    uint32_t name = strings_intern(&t->strings, view_of(OTHER_POOLS), e);
    if (!name || strings_bind(&t->strings, POOL_OTHER, name, e) != 0)
        return -1;
    return trace_add_fact(t, e, "overflow.pools", "%" PRIu64, t->memory.pool_overflow);
}

int trace_add_fact(struct trace *t, struct err *e, const char *key, const char *fmt, ...)
{
    struct buf text = {0};
    va_list ap;
    buf_printf(&text, "tidemark.%s=", key);
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    uint32_t number = strings_intern(&t->strings, (struct view){buf_str(&text), text.len}, e);
    bool failed = text.failed;
    buf_release(&text);
    if (!number)
        return -1;
    if (failed || !pageable_push(trace_pageable(t), &t->app_info, number))
        return err_no_memory(e, "facts");
    return 0;
}

struct view trace_fact(const struct trace *t, const char *key, unsigned n)
{
    static const char prefix[] = "tidemark.";
    size_t key_len = strlen(key);
    for (size_t i = 0; i < t->app_info.len; i++) {
        struct view v = strings_get(&t->strings, t->app_info.at[i]);
        size_t head = sizeof prefix - 1 + key_len + 1;
        if (v.len >= head && memcmp(v.p, prefix, sizeof prefix - 1) == 0 &&
            memcmp(v.p + sizeof prefix - 1, key, key_len) == 0 && v.p[head - 1] == '=' && n-- == 0)
            return (struct view){v.p + head, v.len - head};
    }
    return (struct view){NULL, 0};
}

uint64_t trace_fact_number(const struct trace *t, const char *key)
{
    struct view text = trace_fact(t, key, 0);
    uint64_t number = 0;
    for (size_t i = 0; i < text.len && text.p[i] >= '0' && text.p[i] <= '9'; i++) {
        uint64_t digit = (uint64_t)(text.p[i] - '0');
        number = number > (UINT64_MAX - digit) / 10 ? UINT64_MAX : number * 10 + digit;
    }
    return number;
}
