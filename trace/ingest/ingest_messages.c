/* Messages of the client, and Tidemark's about its memory faults. */

#include <inttypes.h>

#include "base/buf.h"
#include "trace/ingest/ingest_internal.h"

/* Severities and sources of the file: public/common/TracyQueue.hpp @ v0.14.0. */
#define SEVERITY_WARNING 3
#define SOURCE_USER 0

#define OPAQUE 0xFF000000u

int ingest_message(struct ingest *in, const struct event *ev, struct err *e)
{
    struct message_in m = {.time = ingest_part_time(in, ev->time),
                           .text = ev->message.literal,
                           .literal = ev->message.literal != 0,
                           .source = ev->message.source,
                           .severity = ev->message.severity,
                           .color = OPAQUE | ingest_color(ev->message.color),
                           .callstack = ev->callstack};
    uint16_t thread;
    if (ingest_local_thread(in, ev->thread, &thread, e) != 0)
        return -1;
    if (!m.literal) {
        m.text = strings_intern(&in->trace->strings, ingest_text(ev->message.text), e);
        if (!m.text)
            return -1;
    }
    ingest_time(in, m.time);
    return messages_add(&in->trace->messages, thread, &m, e);
}

/* ---- memory faults */

static int message_of_fault(struct ingest *in, const struct memory_fault *f, struct err *e)
{
    struct trace *t = in->trace;
    const struct memory_fault_sample *s = &f->first[0];
    char room[32];
    struct view pool = trace_pool_name(t, t->memory.pools.at[f->pool], room);
    struct buf text = {0};
    buf_printf(&text, "tidemark: %s 0x%" PRIx64 " in pool %.*s",
               f->kind == FAULT_FREE_UNKNOWN ? "free of unknown address"
                                             : "allocation at live address",
               s->ptr, (int)pool.len, pool.p);
    if (f->count > 1)
        buf_printf(&text, " and %" PRIu64 " more from the same call stack", f->count - 1);
    struct message_in m = {.time = s->time,
                           .source = SOURCE_USER,
                           .severity = SEVERITY_WARNING,
                           .color = OPAQUE | ingest_color(0xff4040),
                           .callstack = f->callstack};
    m.text = strings_intern(&t->strings, (struct view){buf_str(&text), text.len}, e);
    bool failed = text.failed;
    buf_release(&text);
    if (!m.text)
        return -1;
    if (failed)
        return err_no_memory(e, "the trace");
    ingest_time(in, s->time);
    if (trace_list_thread(t, s->thread, e) != 0 || trace_local_thread(t, s->thread, e) != 0)
        return -1;
    return messages_add(&t->messages, s->thread, &m, e);
}

/*
 * If most frees are of unknown blocks, the program reports only some of its allocations (Kit: those
 * above 1 KiB) or was connected late. Those frees are counted and are no faults.
 */
static bool mostly_unknown(const struct trace *t)
{
    uint64_t known = 0;
    for (size_t i = 0; i < t->memory.pools.len; i++)
        known += t->memory.pools.at[i]->totals.frees;
    return t->memory.unknown_frees > known;
}

int ingest_fault_messages(struct ingest *in, struct err *e)
{
    const struct trace *t = in->trace;
    if (mostly_unknown(t))
        return 0;
    for (size_t i = 0; i < t->memory.faults.len; i++) {
        if (message_of_fault(in, &t->memory.faults.at[i], e) != 0)
            return -1;
    }
    return 0;
}
