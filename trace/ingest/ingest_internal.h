#ifndef TIDEMARK_TRACE_INGEST_INGEST_INTERNAL_H
#define TIDEMARK_TRACE_INGEST_INGEST_INTERNAL_H

/*
 * What the files of the ingest share. Each takes some kinds of events (the table in ingest.c) into
 * its part of the store.
 */

#include <string.h>

#include "trace/ingest/ingest.h"

typedef int ingest_part(struct ingest *in, const struct event *ev, struct err *e);

ingest_part ingest_zone_event, ingest_message_event, ingest_thread_event, ingest_frame_event,
    ingest_section_event, ingest_plot_event, ingest_lock_event, ingest_gpu_event,
    ingest_sched_event, ingest_sample_event, ingest_system_event, ingest_name_event,
    ingest_symbol_event;

/* Allocations and frees: the sink's `memory`; `ctx` is the ingest. */
int ingest_memory(void *ctx, const struct memory_event *events, size_t n, struct err *e);
int ingest_discard(struct ingest *in, const struct event *ev, struct err *e);

/* The facts of a part of the trace, at its end. */
int ingest_finish_frames(struct ingest *in, struct err *e);
int ingest_finish_locks(struct ingest *in, struct err *e);

/* Whether a time lies in this part, as nearly all do. */
static inline bool ingest_in_part(const struct ingest *in, int64_t time)
{
    return time >= in->time_base &&
           (uint64_t)time - (uint64_t)in->time_base <= (uint64_t)in->time_limit;
}

/* Goes over to the next part before an event that is beyond the end of this one. */
int ingest_turn_part(struct ingest *in, int64_t time, struct err *e);
static inline int ingest_enter_part(struct ingest *in, int64_t time, struct err *e)
{
    return __builtin_expect(ingest_in_part(in, time), 1) ? 0 : ingest_turn_part(in, time, e);
}

/* A time of the client's clock on this part's, held within the format's 48 bits. */
int64_t ingest_far_time(struct ingest *in, int64_t time); /* where that takes some care */
static inline int64_t ingest_part_time(struct ingest *in, int64_t time)
{
    return __builtin_expect(ingest_in_part(in, time), 1) ? time - in->time_base
                                                         : ingest_far_time(in, time);
}

/* The trace lasts at least until `time`, which is on this part's clock. */
static inline void ingest_time(struct ingest *in, int64_t time)
{
    if (time > in->trace->facts.last_time)
        in->trace->facts.last_time = time;
}

/* The number of a thread that has events of its own, so that the file lists it. */
int ingest_thread(struct ingest *in, uint64_t id, uint16_t *number, struct err *e);

/*
 * The same for memory events and messages, which the file links to their thread by its place in the
 * table of local threads.
 */
int ingest_use_thread(struct ingest *in, uint16_t number, struct err *e);
int ingest_local_thread(struct ingest *in, uint64_t id, uint16_t *number, struct err *e);

/*
 * A text as far as the official server keeps it, which is to its first zero byte: a text that a
 * program sends with its length may hold one.
 */
static inline struct view ingest_text(struct view text)
{
    const char *nul = text.len ? memchr(text.p, 0, text.len) : NULL;
    return nul ? (struct view){text.p, (size_t)(nul - text.p)} : text;
}

/* 0xRRGGBB as the file has it: 0xBBGGRR (server/TracyWorker.cpp AddSourceLocation @ v0.14.0). */
static inline uint32_t ingest_color(uint32_t rgb)
{
    return (rgb & 0xFF) << 16 | (rgb & 0xFF00) | (rgb >> 16 & 0xFF);
}

/* Records the memory faults as messages with the call stacks that they came from. */
int ingest_fault_messages(struct ingest *in, struct err *e);
/* A fiber begins or ends to run on a thread: EVENT_FIBER_ENTER, EVENT_FIBER_LEAVE. */
int ingest_fiber_switch(struct ingest *in, const struct event *ev, struct err *e);

/* What is left to do after the last event, and facts about what could not be kept. */
int ingest_sched_finish(struct ingest *in, struct err *e);
int ingest_samples_finish(struct ingest *in, struct err *e);
int ingest_sources_finish(struct ingest *in, struct err *e);

/*
 * The number of a source location in the file: of the client's pointer to one, or, when `payload`
 * is set, of what came with the event. LOCATION_NONE, counted, when the table is full.
 */
int ingest_location_number(struct ingest *in, uint64_t pointer,
                           const struct event_location *payload, int16_t *number, struct err *e);

/* Empties what knows numbers or places of the store's elements, but for the call stacks of others.
 */
void ingest_forget_numbers(struct ingest *in);

/* Lets a payload in the store be found by its contents. */
int ingest_number_payload(struct ingest *in, uint32_t index, struct err *e);

/* The call stack half of struct event_sink; `ctx` is the ingest. */
int ingest_callstack(void *ctx, const uint64_t *frames, uint32_t n, uint32_t *id, bool *fresh,
                     struct err *e);
void ingest_find_callstacks(void *ctx, struct sent_callstack *stacks, size_t n);
int ingest_custom_frame(void *ctx, struct view function, struct view file, uint32_t line,
                        uint64_t *frame, struct err *e);

#endif
