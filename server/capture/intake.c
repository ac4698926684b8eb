#include "server/capture/intake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/questions/figure_parts.h"
#include "trace/ingest/carry.h"
#include "trace/ingest/store_snapshot.h"

/* ---- beginning */

/* Clamps a time to what the file can hold; the client's times are not trusted. */
static int64_t clock_in_trace(int64_t time)
{
    return time < 0 ? 0 : time > INGEST_TIME_LIMIT ? INGEST_TIME_LIMIT : time;
}

static void intake_facts(struct intake *r)
{
    const struct welcome *w = &r->start.welcome;
    struct trace_facts *f = &r->trace->facts;
    f->timer_mul = w->timer_mul;
    f->resolution = welcome_period(w, w->resolution);
    f->delay = welcome_period(w, w->delay);
    f->init_end = clock_in_trace(welcome_time(w, w->init_end));
    f->last_time = f->init_end;
    f->pid = w->pid;
    f->sampling_period = w->sampling_period;
    f->cpu_arch = w->cpu_arch;
    f->cpu_id = w->cpu_id;
    memcpy(f->cpu_manufacturer, w->cpu_manufacturer, sizeof f->cpu_manufacturer);
    f->capture_time = w->epoch;
    f->executable_time = w->exec_time;
    f->on_demand = (w->flags & WELCOME_ON_DEMAND) != 0;
    if (f->on_demand) {
        f->frame_offset = r->start.on_demand.frames;
        f->on_demand_time = welcome_time(w, r->start.on_demand.time);
    }
}

static int intake_texts(struct intake *r, struct err *e)
{
    const struct welcome *w = &r->start.welcome;
    struct strings *strings = &r->trace->strings;
    struct trace_facts *f = &r->trace->facts;
    char name[128], date[32] = "";
    time_t began = (time_t)w->epoch;
    struct tm local;
    if (localtime_r(&began, &local))
        strftime(date, sizeof date, "%F %T", &local);
    snprintf(name, sizeof name, "%s @ %s", w->program_name, date);
    f->capture_name = strings_intern(strings, view_of(name), e);
    f->program = strings_intern(strings, view_of(w->program_name), e);
    f->host_info = strings_intern(strings, view_of(w->host_info), e);
    if (!f->capture_name || !f->program || !f->host_info)
        return -1;
    /* The unnamed set of frames gets a name, as in official captures. */
    uint32_t frame = strings_intern(strings, view_of("Frame"), e);
    return frame ? strings_bind(strings, 0, frame, e) : -1;
}

/*
 * An on-demand client may have run for longer than the trace's clock can express: begin at the
 * connection.
 */
static void intake_place_clock(struct intake *r)
{
    struct trace_facts *f = &r->trace->facts;
    if (f->on_demand_time <= r->ingest.time_limit)
        return;
    r->ingest.time_base = f->on_demand_time;
    f->on_demand_time = f->init_end = 0;
    f->last_time = 1;
}

static int intake_instructions(void *ctx, uint64_t address, struct view code, code_found_fn *found,
                               void *found_ctx, struct err *e)
{
    struct intake *r = ctx;
    return instructions_walk(r->instructions, address, code, found, found_ctx, e);
}

/* Machine code comes with the source line of each instruction: the profiler shows both. */
static void intake_read_code(struct intake *r, struct decoder_config *decoder)
{
    static const enum instruction_set sets[] = {[ARCH_X86] = CODE_X86,
                                                [ARCH_X64] = CODE_X64,
                                                [ARCH_ARM32] = CODE_ARM32,
                                                [ARCH_ARM64] = CODE_ARM64};
    uint8_t arch = r->start.welcome.cpu_arch;
    if (arch == ARCH_UNKNOWN || arch >= sizeof sets / sizeof sets[0])
        return;
    r->instructions = instructions_new(sets[arch]);
    if (r->instructions)
        decoder->read_code = (struct code_reader){r, intake_instructions};
}

static int intake_begin(struct intake *r, struct err *e)
{
    const struct intake_start *start = &r->start;
    intake_facts(r);
    if (start->figures && figure_parts_begin(r->trace, e) != 0)
        return -1;
    if (intake_texts(r, e) != 0 || ingest_init(&r->ingest, r->trace, e) != 0)
        return -1;
    r->ingest.strict = start->strict;
    r->ingest.unknown_frees_expected =
        (start->welcome.flags & (WELCOME_ON_DEMAND | WELCOME_IGNORE_MEM_FAULTS)) != 0;
    r->ingest.zone_values_in_hex = start->version->facts.zone_value_hex;
    r->ingest.samples_end_nothing = start->version->facts.samples_end_nothing;
    r->trace->samples.combine = (start->welcome.flags & WELCOME_COMBINE_SAMPLES) != 0;
    intake_place_clock(r);
    if (trace_pageable(r->trace))
        pageable_init(&r->pageable, r->trace->spool.dir, r->trace->pageable.budget / 4);
    struct pageable *pageable = r->pageable.dir ? &r->pageable : NULL;
    struct query_config query = {
        .version = start->version, .space = start->space, .ask = start->ask, .pageable = pageable};
    r->query = query_new(&query);
    struct decoder_config decoder = {.version = start->version,
                                     .welcome = &start->welcome,
                                     .query = r->query,
                                     .pageable = pageable,
                                     .as_released = start->as_released,
                                     .sink = r->ingest.sink};
    if (query.ask >> QUERY_SYMBOL_CODE & 1)
        intake_read_code(r, &decoder);
    r->decoder = r->query ? decoder_new(&decoder) : NULL;
    r->frames = frame_reader_new();
    if (!r->decoder || !r->frames)
        return err_no_memory(e, "the session");
    return 0;
}

int intake_open(struct intake *r, struct trace *t, const struct intake_start *start, struct err *e)
{
    *r = (struct intake){.start = *start, .trace = t};
    return intake_begin(r, e);
}

void intake_release(struct intake *r)
{
    if (!r->trace)
        return;
    decoder_free(r->decoder);
    query_free(r->query);
    instructions_free(r->instructions);
    frame_reader_free(r->frames);
    ingest_release(&r->ingest);
    pageable_release(&r->pageable);
    *r = (struct intake){0};
}

/* ---- bytes in */

int intake_take(struct intake *r, const uint8_t **bytes, size_t *len, struct err *e)
{
    struct wire_frame frame;
    int status = frame_reader_feed(r->frames, bytes, len, &frame, e);
    if (status == 1 && decoder_frame(r->decoder, frame.bytes, frame.len, e) != 0)
        return -1;
    return status;
}

static void each_callstack(void *ctx, void (*visit)(void *visit_ctx, uint32_t *id), void *visit_ctx)
{
    decoder_each_callstack(ctx, visit, visit_ctx);
}

int intake_turn(struct intake *r, struct err *e)
{
    uint64_t frames = intake_frames(r);
    if (frames == r->turned)
        return 0;
    r->turned = frames;
    const struct ingest_holder holder = {r->decoder, each_callstack};
    if (ingest_begin_part(&r->ingest, e) != 0 || ingest_compact(&r->ingest, &holder, e) != 0)
        return -1;
    return 1;
}

void intake_snapshot(struct snapshot *s, struct intake *r)
{
    trace_snapshot(s, r->trace);
    ingest_snapshot(s, &r->ingest);
    frame_reader_snapshot(s, r->frames);
    query_snapshot(s, r->query);
    decoder_snapshot(s, r->decoder, r->trace->callstacks.list.len);
    snapshot_u64(s, &r->turned);
    if (s->loading)
        r->finished = r->ingest.parts; /* the part before this one */
}

uint64_t intake_frames(const struct intake *r)
{
    return frame_reader_stats(r->frames)->frames;
}

/* ---- the end */

const char *session_end_text(enum session_end end)
{
    switch (end) {
    case SESSION_COMPLETE:
        return "the client ended";
    case SESSION_STOPPED:
        return "stopped by signal";
    case SESSION_TIME_LIMIT:
        return "time limit reached";
    case SESSION_MEMORY_LIMIT:
        return "memory limit reached";
    case SESSION_VANISHED:
        return "the client vanished";
    case SESSION_BROKEN:
        return "bytes that cannot be decoded";
    case SESSION_FAULT:
        return "memory fault";
    case SESSION_NO_ROOM:
        return "no room left";
    case SESSION_SIZE_LIMIT:
        return "size limit reached";
    case SESSION_PART_FULL:
        return PART_CONTINUED;
    case SESSION_CUT_OFF:
        return "the capture was cut off";
    case SESSION_GOES_ON:
        return "saved while the capture goes on";
    case SESSION_HOMELESS:
        return "the output folder was removed";
    case SESSION_END_COUNT:
        break;
    }
    return "?";
}

enum session_end intake_end_of(const struct err *e)
{
    switch (e->code) {
    case ERR_CHECK:
        return SESSION_FAULT;
    case ERR_INPUT:
        return SESSION_BROKEN;
    default:
        return SESSION_NO_ROOM;
    }
}

/* Whether a trace with this end lacks data at its end. */
static bool session_end_is_partial(enum session_end end)
{
    return end == SESSION_VANISHED || end == SESSION_BROKEN || end == SESSION_FAULT ||
           end == SESSION_NO_ROOM || end == SESSION_CUT_OFF || end == SESSION_HOMELESS;
}

uint64_t intake_unanswered(const struct intake *r)
{
    struct query_stats stats;
    uint64_t n = 0;
    query_stats(r->query, &stats);
    for (int i = 0; i < QUERY_KIND_COUNT; i++) {
        /* Source texts are not names, and some clients never report that they lack one. */
        if (i != QUERY_SOURCE_CODE && i != QUERY_DATA_TRANSFER && i != QUERY_DATA_TRANSFER_PART)
            n += stats.pending[i];
    }
    return n;
}

static int add_incomplete(struct trace *t, enum session_end end, const struct err *cause,
                          struct err *e)
{
    if (!session_end_is_partial(end))
        return 0;
    return trace_add_fact(t, e, "incomplete", "%s%s%s", session_end_text(end),
                          cause->code ? ": " : "", cause->code ? cause->text : "");
}

/* The last part was complete but could not be saved. It has all facts but this one. */
static int end_otherwise(struct intake *r, enum session_end end, const struct err *cause,
                         struct err *e)
{
    struct trace *t = r->trace;
    if (trace_add_fact(t, e, "end", "%s", session_end_text(end)) != 0)
        return -1;
    t->app_info.at[r->end_fact] = t->app_info.at[--t->app_info.len];
    return add_incomplete(t, end, cause, e);
}

int intake_finish(struct intake *r, enum session_end end, const struct err *cause, struct err *e)
{
    struct trace *t = r->trace;
    if (r->finished == r->ingest.parts + 1)
        return end_otherwise(r, end, cause, e);
    if (trace_add_fact(t, e, "protocol", "%u", r->start.version->protocol) != 0)
        return -1;
    r->end_fact = t->app_info.len;
    if (trace_add_fact(t, e, "end", "%s", session_end_text(end)) != 0)
        return -1;
    r->finished = r->ingest.parts + 1;
    if (add_incomplete(t, end, cause, e) != 0)
        return -1;
    uint64_t unanswered = intake_unanswered(r);
    if (unanswered &&
        trace_add_fact(t, e, "unanswered", "%llu", (unsigned long long)unanswered) != 0)
        return -1;
    return ingest_finish(&r->ingest, e);
}
