/* Threads with their zones and messages. */

#include "trace/save_internal.h"

int save_zone_stats(struct saver *s)
{
    size_t n = s->t->locations.len;
    if (put_count(s, REC_ZONE_STATS, n) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        struct rec_zone_stat stat = {(int16_t)(i + 1), 0};
        if (put(s, REC_ZONE_STAT, &stat) != 0)
            return -1;
    }
    return 0;
}

/* A message's key only links the thread's list to it. */
static uint64_t message_key(size_t index)
{
    return index + 1;
}

int save_messages(struct saver *s)
{
    const struct trace *t = s->t;
    if (put_count(s, REC_MESSAGES, t->messages.len) != 0)
        return -1;
    for (size_t i = 0; i < t->messages.len; i++) {
        const struct trace_message *m = &t->messages.at[i];
        struct rec_message r = {.key = message_key(i),
                                .time = m->time,
                                .text = ref_of(m->text),
                                .color = m->color,
                                .callstack = m->callstack,
                                .source = m->source,
                                .severity = m->severity};
        if (put(s, REC_MESSAGE, &r) != 0)
            return -1;
    }
    return 0;
}

int save_zone_extras(struct saver *s)
{
    struct rec_zone_extra none = {0};
    if (put_count(s, REC_ZONE_EXTRAS, 1) != 0)
        return -1;
    return put(s, REC_ZONE_EXTRA, &none);
}

static int save_thread(struct saver *s, uint16_t number)
{
    const struct trace *t = s->t;
    const struct trace_thread *th = &t->threads.list.at[number];
    struct rec_thread r = {.id = th->id, .is_fiber = th->is_fiber, .group_hint = th->group_hint};
    uint64_t messages = 0;
    for (size_t i = 0; i < t->messages.len; i++)
        messages += t->messages.at[i].thread == number;
    if (put(s, REC_THREAD, &r) != 0 || put_count(s, REC_THREAD_MESSAGES, messages) != 0)
        return -1;
    for (size_t i = 0; messages && i < t->messages.len; i++) {
        struct rec_id key = {message_key(i)};
        if (t->messages.at[i].thread == number && put(s, REC_THREAD_MESSAGE, &key) != 0)
            return -1;
    }
    return save_thread_samples(s, number);
}

int save_threads(struct saver *s)
{
    const struct trace_threads *threads = &s->t->threads;
    struct rec_threads head = {0};
    for (size_t i = 0; i < threads->list.len; i++)
        head.n += threads->list.at[i].listed;
    if (put(s, REC_THREADS, &head) != 0)
        return -1;
    for (size_t i = 0; i < threads->list.len; i++) {
        if (threads->list.at[i].listed && save_thread(s, (uint16_t)i) != 0)
            return -1;
    }
    return 0;
}
