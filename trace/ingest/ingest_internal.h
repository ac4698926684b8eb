#pragma once

/* Shared by the files of the ingest. */

#include <string.h>

#include "trace/ingest/ingest.h"

/* Takes an event of its kinds: the table in ingest.c. */
typedef int ingest_taker(struct ingest *in, const struct event *ev, struct err *e);

ingest_taker ingest_zone_begin, ingest_zone_end, ingest_zone_note, ingest_zone_validation;
ingest_taker ingest_message, ingest_thread_name, ingest_fiber_name, ingest_fiber_enter;
ingest_taker ingest_fiber_leave, ingest_group_hint;
ingest_taker ingest_frame_mark, ingest_frame_end, ingest_frame_image, ingest_frame_name;
ingest_taker ingest_section_setup, ingest_section_enter, ingest_section_leave;
ingest_taker ingest_plot, ingest_plot_config, ingest_plot_name, ingest_system_time, ingest_power;
ingest_taker ingest_lock_announce, ingest_lock_terminate, ingest_lock_use, ingest_lock_mark;
ingest_taker ingest_lock_name, ingest_gpu_event;
ingest_taker ingest_switch, ingest_wakeup, ingest_tid_to_pid, ingest_external_name;
ingest_taker ingest_sample, ingest_hw_sample, ingest_topology, ingest_crash_report;
ingest_taker ingest_name_at, ingest_location, ingest_app_info;
ingest_taker ingest_frame, ingest_symbol, ingest_symbol_code, ingest_source, ingest_source_name;
ingest_taker ingest_discard;

/* Takes allocations and frees: the sink's `memory`; `ctx` is the ingest. */
int ingest_memory(void *ctx, const struct memory_event *events, size_t n, struct err *e);

/* Add the facts of one area each, at the end of the trace. */
int ingest_finish_frames(struct ingest *in, struct err *e);
int ingest_finish_locks(struct ingest *in, struct err *e);

/* Whether a time lies in this part, as nearly all times do. */
static inline bool ingest_in_part(const struct ingest *in, int64_t time)
{
    return time >= in->time_base &&
           (uint64_t)time - (uint64_t)in->time_base <= (uint64_t)in->time_limit;
}

/* Switches to the next part before an event beyond the end of this one. */
int ingest_turn_part(struct ingest *in, int64_t time, struct err *e);
static inline int ingest_enter_part(struct ingest *in, int64_t time, struct err *e)
{
    return __builtin_expect(ingest_in_part(in, time), 1) ? 0 : ingest_turn_part(in, time, e);
}

/* Converts a time of the client's clock to this part's, clamped to the format's 48 bits. */
int64_t ingest_far_time(struct ingest *in, int64_t time); /* the general case */
static inline int64_t ingest_part_time(struct ingest *in, int64_t time)
{
    return __builtin_expect(ingest_in_part(in, time), 1) ? time - in->time_base
                                                         : ingest_far_time(in, time);
}

/* Extends the trace to `time`, which is on this part's clock. */
static inline void ingest_time(struct ingest *in, int64_t time)
{
    if (time > in->trace->facts.last_time)
        in->trace->facts.last_time = time;
}

/* The number of a thread that has events, so that the file lists it. */
int ingest_thread(struct ingest *in, uint64_t id, uint16_t *number, struct err *e);

/*
 * The same for memory events and messages, which refer to their thread by its position in the
 * file's table of local threads.
 */
int ingest_use_thread(struct ingest *in, uint16_t number, struct err *e);
int ingest_local_thread(struct ingest *in, uint64_t id, uint16_t *number, struct err *e);

/*
 * Truncates a text at its first zero byte, as the official server does: a text sent with its length
 * may hold one.
 */
static inline struct view ingest_text(struct view text)
{
    const char *nul = text.len ? memchr(text.p, 0, text.len) : NULL;
    return nul ? (struct view){text.p, (size_t)(nul - text.p)} : text;
}

/* Converts 0xRRGGBB to the file's 0xBBGGRR (server/TracyWorker.cpp AddSourceLocation @ v0.14.0). */
static inline uint32_t ingest_color(uint32_t rgb)
{
    return (rgb & 0xFF) << 16 | (rgb & 0xFF00) | (rgb >> 16 & 0xFF);
}

/* Records the memory faults as messages with their call stacks. */
int ingest_fault_messages(struct ingest *in, struct err *e);
/* A fiber starts or stops running on a thread: EVENT_FIBER_ENTER, EVENT_FIBER_LEAVE. */
int ingest_fiber_switch(struct ingest *in, const struct event *ev, struct err *e);

/* Finishes pending work after the last event, and adds facts about dropped data. */
int ingest_sched_finish(struct ingest *in, struct err *e);
int ingest_samples_finish(struct ingest *in, struct err *e);
int ingest_sources_finish(struct ingest *in, struct err *e);

/*
 * The number of a source location in the file: by the client's pointer, or by the contents of
 * `payload` if it is set. LOCATION_NONE, counted, when the table is full.
 */
int ingest_location_number(struct ingest *in, uint64_t pointer,
                           const struct event_location *payload, int16_t *number, struct err *e);

/*
 * Clears all caches of element numbers and positions in the store, except those of call stacks that
 * other modules hold.
 */
void ingest_forget_numbers(struct ingest *in);

/* Makes a payload of the store findable by its contents. */
int ingest_number_payload(struct ingest *in, uint32_t index, struct err *e);

/* The call stack part of struct event_sink; `ctx` is the ingest. */
int ingest_callstack(void *ctx, const uint64_t *frames, uint32_t n, uint32_t *id, bool *fresh,
                     struct err *e);
void ingest_find_callstacks(void *ctx, struct sent_callstack *stacks, size_t n);
int ingest_custom_frame(void *ctx, struct view function, struct view file, uint32_t line,
                        uint64_t *frame, struct err *e);
