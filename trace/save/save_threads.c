/* Threads with their lists, and all messages. */

#include "trace/filter/rekey.h"
#include "trace/save/save_internal.h"

/*
 * A message's key only links the thread's list to it. In files of official tools it is an address,
 * which compresses less than a number. With numbers, a trace that is mostly messages would grow
 * when an official tool strips it.
 */
static uint64_t message_key(uint64_t number)
{
    return MESSAGE_KEYS_BEGIN + number * MESSAGE_KEY_STEP;
}

static int save_message(void *ctx, const struct message *m, uint64_t number, struct err *e)
{
    struct saver *s = ctx;
    struct rec_message r = {.key = message_key(number),
                            .time = m->time,
                            .text =
                                message_is_literal(m) ? ref_at(m->text) : ref_of((uint32_t)m->text),
                            .color = m->color,
                            .callstack = m->callstack,
                            .source = message_source(m),
                            .severity = message_severity(m)};
    return record_put(s->sink, REC_MESSAGE, &r, 1, e);
}

int save_messages(struct saver *s)
{
    struct messages *m = &s->t->messages;
    if (put_count(s, REC_MESSAGES, m->list.len) != 0)
        return -1;
    return messages_walk(m, save_message, s, s->e);
}

static int save_message_link(void *ctx, uint64_t number, struct err *e)
{
    struct saver *s = ctx;
    struct rec_id key = {message_key(number)};
    return record_put(s->sink, REC_THREAD_MESSAGE, &key, 1, e);
}

static int save_thread_messages(struct saver *s, uint16_t number)
{
    struct message_thread *t = messages_of(&s->t->messages, number);
    if (put_count(s, REC_THREAD_MESSAGES, t ? t->links.len : 0) != 0)
        return -1;
    return t ? messages_walk_thread(&s->t->messages, t, save_message_link, s, s->e) : 0;
}

static int save_thread(struct saver *s, uint16_t number)
{
    const struct trace *t = s->t;
    const struct trace_thread *th = &t->threads.list.at[number];
    struct rec_thread r = {.id = th->id,
                           .is_fiber = th->is_fiber,
                           .group_hint = th->group_hint,
                           .kernel_samples = samples_of(&t->samples, number).kernel};
    const struct zone_thread *zones = zones_of(&t->zones, number);
    if (zones) {
        r.zones = zones->begins.len;
        r.n = (uint32_t)zones->roots;
    }
    if (put(s, REC_THREAD, &r) != 0 || save_thread_zones(s, number) != 0 ||
        save_thread_messages(s, number) != 0)
        return -1;
    return save_thread_samples(s, number);
}

int save_threads(struct saver *s)
{
    const struct trace *t = s->t;
    struct rec_threads head = {
        .zones = t->zones.count, .child_lists = t->zones.parents, .n = t->threads.order.len};
    if (put(s, REC_THREADS, &head) != 0)
        return -1;
    for (size_t i = 0; i < t->threads.order.len; i++) {
        if (save_thread(s, t->threads.order.at[i]) != 0)
            return -1;
    }
    return 0;
}
