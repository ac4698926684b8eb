#include "trace/ingest/ingest.h"

#include <string.h>
#include <inttypes.h>

#include "trace/ingest/ingest_internal.h"

static int ingest_crash(struct ingest *in, const struct event *ev, struct err *e)
{
    (void)ev;
    (void)e;
    in->crashed = true;
    return 0;
}

/* Kinds without a taker are ignored: a file has no place for them. */
static ingest_taker *const takers[EVENT_KIND_COUNT] = {
    [EVENT_MEM_DISCARD] = ingest_discard,
    [EVENT_CRASH] = ingest_crash,
    [EVENT_ZONE_BEGIN] = ingest_zone_begin,
    [EVENT_ZONE_END] = ingest_zone_end,
    [EVENT_ZONE_TEXT] = ingest_zone_note,
    [EVENT_ZONE_NAME] = ingest_zone_note,
    [EVENT_ZONE_COLOR] = ingest_zone_note,
    [EVENT_ZONE_VALUE] = ingest_zone_note,
    [EVENT_ZONE_VALIDATION] = ingest_zone_validation,
    [EVENT_MESSAGE] = ingest_message,
    [EVENT_FIBER_ENTER] = ingest_fiber_enter,
    [EVENT_FIBER_LEAVE] = ingest_fiber_leave,
    [EVENT_THREAD_GROUP_HINT] = ingest_group_hint,
    [EVENT_THREAD_NAME] = ingest_thread_name,
    [EVENT_FRAME_MARK] = ingest_frame_mark,
    [EVENT_FRAME_START] = ingest_frame_mark,
    [EVENT_FRAME_END] = ingest_frame_end,
    [EVENT_FRAME_VSYNC] = ingest_frame_mark,
    [EVENT_FRAME_IMAGE] = ingest_frame_image,
    [EVENT_SECTION_SETUP] = ingest_section_setup,
    [EVENT_SECTION_ENTER] = ingest_section_enter,
    [EVENT_SECTION_LEAVE] = ingest_section_leave,
    [EVENT_PLOT] = ingest_plot,
    [EVENT_PLOT_CONFIG] = ingest_plot_config,
    [EVENT_SYS_TIME] = ingest_system_time,
    [EVENT_SYS_POWER] = ingest_power,
    [EVENT_LOCK_ANNOUNCE] = ingest_lock_announce,
    [EVENT_LOCK_TERMINATE] = ingest_lock_terminate,
    [EVENT_LOCK_WAIT] = ingest_lock_use,
    [EVENT_LOCK_OBTAIN] = ingest_lock_use,
    [EVENT_LOCK_RELEASE] = ingest_lock_use,
    [EVENT_LOCK_MARK] = ingest_lock_mark,
    [EVENT_LOCK_NAME] = ingest_lock_name,
    [EVENT_GPU_CONTEXT] = ingest_gpu_event,
    [EVENT_GPU_CONTEXT_NAME] = ingest_gpu_event,
    [EVENT_GPU_ZONE_BEGIN] = ingest_gpu_event,
    [EVENT_GPU_ZONE_END] = ingest_gpu_event,
    [EVENT_GPU_TIME] = ingest_gpu_event,
    [EVENT_GPU_CALIBRATION] = ingest_gpu_event,
    [EVENT_GPU_TIME_SYNC] = ingest_gpu_event,
    [EVENT_GPU_NOTE_NAME] = ingest_gpu_event,
    [EVENT_GPU_NOTE] = ingest_gpu_event,
    [EVENT_CONTEXT_SWITCH] = ingest_switch,
    [EVENT_THREAD_WAKEUP] = ingest_wakeup,
    [EVENT_TID_TO_PID] = ingest_tid_to_pid,
    [EVENT_EXTERNAL_NAME] = ingest_external_name,
    [EVENT_EXTERNAL_THREAD_NAME] = ingest_external_name,
    [EVENT_SAMPLE] = ingest_sample,
    [EVENT_SWITCH_SAMPLE] = ingest_sample,
    [EVENT_HW_SAMPLE] = ingest_hw_sample,
    [EVENT_CPU_TOPOLOGY] = ingest_topology,
    [EVENT_CRASH_REPORT] = ingest_crash_report,
    [EVENT_APP_INFO] = ingest_app_info,
    [EVENT_STRING] = ingest_name_at,
    [EVENT_PLOT_NAME] = ingest_plot_name,
    [EVENT_FRAME_NAME] = ingest_frame_name,
    [EVENT_FIBER_NAME] = ingest_fiber_name,
    [EVENT_SOURCE_LOCATION] = ingest_location,
    [EVENT_CALLSTACK_FRAME] = ingest_frame,
    [EVENT_SYMBOL] = ingest_symbol,
    [EVENT_SYMBOL_CODE] = ingest_symbol_code,
    [EVENT_SOURCE_CODE] = ingest_source,
    [EVENT_SOURCE_CODE_MISSING] = ingest_source,
    [EVENT_SOURCE_NAME] = ingest_source_name,
};

static int ingest_event(void *ctx, const struct event *ev, struct err *e)
{
    struct ingest *in = ctx;
    if (ev->kind == EVENT_MEM_ALLOC || ev->kind == EVENT_MEM_FREE) {
        struct memory_event m = memory_of_event(ev);
        return ingest_memory(in, &m, 1, e);
    }
    if (ingest_enter_part(in, ev->time, e) != 0)
        return -1;
    return takers[ev->kind] ? takers[ev->kind](in, ev, e) : 0;
}

int ingest_init(struct ingest *in, struct trace *t, struct err *e)
{
    *in = (struct ingest){
        .trace = t, .time_limit = INGEST_TIME_LIMIT, .compact_least = COMPACT_LEAST};
    in->sink = (struct event_sink){.ctx = in,
                                   .event = ingest_event,
                                   .memory = ingest_memory,
                                   .callstack = ingest_callstack,
                                   .find_callstacks = ingest_find_callstacks,
                                   .custom_frame = ingest_custom_frame};
    uint32_t number;
    return memory_pool(&t->memory, 0, &number, e);
}

void ingest_forget_numbers(struct ingest *in)
{
    ingest_release(in);
    memset(in->recent_threads, 0, sizeof in->recent_threads);
    in->last_location_number = 0;
    memset(in->recent_pools, 0, sizeof in->recent_pools);
}

void ingest_release(struct ingest *in)
{
    map_release(&in->custom_sources);
    map_release(&in->custom_frames);
    map_release(&in->payloads);
    map_release(&in->fibers);
    vec_release(&in->source_names);
}

/* ---- the end */

/* Gives the stand-in for call stacks beyond the limit its single frame. */
static int name_other_callstack(struct trace *t, struct err *e)
{
    struct rec_inline_frame other = {.function =
                                         strings_intern(&t->strings, view_of("(other)"), e)};
    const struct callstack *stack = callstacks_get(&t->callstacks, t->callstacks.other);
    uint32_t frame = t->callstacks.nodes.at[stack->node].frame;
    other.file = other.function;
    if (!other.function)
        return -1;
    return callstacks_resolve(&t->callstacks, t->callstacks.frames.at[frame].id, 0, &other, 1, e);
}

/* Adds facts about data beyond the format's limits, and about the client's faults. */
static int add_facts(struct ingest *in, struct err *e)
{
    struct trace *t = in->trace;
    const struct zone_faults *zones = &t->zones.faults;
    const struct {
        const char *key;
        uint64_t n;
    } facts[] = {
        {"overflow.callstacks", t->callstacks.overflow},
        {"overflow.strings", t->strings.overflow},
        {"overflow.times", in->time_overflow},
        {"overflow.source_locations", t->location_overflow},
        {"overflow.threads", t->threads.overflow},
        {"overflow.zone_depth", zones->depth + t->gpu.deep},
        {"overflow.zone_extras", zones->extras},
        {"overflow.zone_texts", zones->texts},
        {"overflow.processors", t->system.overflow},
        {"zone_ends_without_zone", zones->ends},
        {"zone_ends_out_of_order", zones->validations},
        {"zone_notes_without_zone", zones->notes},
        {"fiber_leaves_without_fiber", in->fiber_leaves},
        {"gpu_strays", in->gpu_strays},
    };
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        if (facts[i].n && trace_add_fact(t, e, facts[i].key, "%" PRIu64, facts[i].n) != 0)
            return -1;
    }
    return 0;
}

int ingest_finish(struct ingest *in, struct err *e)
{
    struct trace *t = in->trace;
    if (zones_settle(&t->zones, e) != 0 ||
        (t->callstacks.other && name_other_callstack(t, e) != 0) || add_facts(in, e) != 0)
        return -1;
    if (trace_note_other_pools(t, e) != 0 || ingest_finish_frames(in, e) != 0 ||
        ingest_finish_locks(in, e) != 0)
        return -1;
    if (ingest_sched_finish(in, e) != 0 || ingest_samples_finish(in, e) != 0 ||
        ingest_sources_finish(in, e) != 0)
        return -1;
    return ingest_fault_messages(in, e);
}
