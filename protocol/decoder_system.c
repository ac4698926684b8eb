/* GPU contexts, scheduling, system data and the session itself. */

#include "protocol/decoder_state.h"

#include <math.h>
#include <string.h>

/* ---- GPU */

HANDLER(on_gpu_context)
{
    struct event ev = {.kind = EVENT_GPU_CONTEXT,
                       .thread = field_u32(it, p, AT_THREAD),
                       .time = decoder_time(d, it, p)};
    ev.gpu_context.gpu_time = (int64_t)field_u64(it, p, AT_GPU_TIME);
    ev.gpu_context.period = load_f32(p + it->at[AT_GPU_PERIOD]);
    ev.gpu_context.context = field_u8(it, p, AT_GPU_CONTEXT);
    ev.gpu_context.flags = field_u8(it, p, AT_GPU_FLAGS);
    ev.gpu_context.type = field_u8(it, p, AT_GPU_TYPE);
    if (!isfinite(ev.gpu_context.period) || ev.gpu_context.period <= 0)
        return decoder_fail(d, "a GPU tick of %g ns is no clock", (double)ev.gpu_context.period);
    return decoder_emit(d, &ev);
}

/* The name of a context or of an annotation kind. */
HANDLER(on_gpu_text)
{
    bool note = it->kind == WIRE_GPU_NOTE_NAME;
    struct event ev = {.kind = note ? EVENT_GPU_NOTE_NAME : EVENT_GPU_CONTEXT_NAME};
    ev.gpu.context = field_u8(it, p, AT_GPU_CONTEXT);
    if (note)
        ev.gpu.note = (int64_t)field_u64(it, p, AT_GPU_NOTE);
    if (slot_take(d, &d->single, "SingleStringData", &ev.gpu.text) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

/* The common part of a GPU zone's begin and end. */
static struct event gpu_zone(struct decoder *d, const struct wire_item *it, const uint8_t *p)
{
    bool serial = it->flags & WIRE_F_SERIAL;
    int64_t ticks = decoder_advance(it, p, serial ? &d->ref_serial : &d->ref_thread);
    struct event ev = {.kind = EVENT_GPU_ZONE_END,
                       .thread = field_u32(it, p, AT_THREAD),
                       .time = clock_ns(&d->clock, ticks)};
    ev.gpu.context = field_u8(it, p, AT_GPU_CONTEXT);
    ev.gpu.query = field_u16(it, p, AT_GPU_QUERY);
    ev.gpu.serial = serial;
    return ev;
}

HANDLER(on_gpu_zone_begin)
{
    struct event_location payload;
    struct event ev = gpu_zone(d, it, p);
    ev.kind = EVENT_GPU_ZONE_BEGIN;
    if (decoder_take_location(d, it, p, AT_GPU_SRCLOC, &ev.gpu.srcloc, &payload) < 0)
        return -1;
    if (it->flags & WIRE_F_PAYLOAD)
        ev.gpu.payload = &payload;
    if (it->flags & WIRE_F_CALLSTACK && ev.gpu.serial) {
        if (decoder_take_serial_stack(d, &ev.callstack) < 0)
            return -1;
    } else if (it->flags & WIRE_F_CALLSTACK) {
        struct thread_state *t = decoder_current(d);
        if (!t)
            return -1;
        ev.gpu.caller = t->id;
        ev.callstack = t->callstack;
        t->callstack = 0;
    }
    return decoder_emit(d, &ev);
}

HANDLER(on_gpu_zone_end)
{
    struct event ev = gpu_zone(d, it, p);
    return decoder_emit(d, &ev);
}

/* All contexts share one reference. */
HANDLER(on_gpu_time)
{
    struct event ev = {.kind = EVENT_GPU_TIME};
    d->ref_gpu += field_u64(it, p, AT_GPU_TIME);
    ev.gpu.gpu_time = (int64_t)d->ref_gpu;
    ev.gpu.context = field_u8(it, p, AT_GPU_CONTEXT);
    ev.gpu.query = field_u16(it, p, AT_GPU_QUERY);
    return decoder_emit(d, &ev);
}

HANDLER(on_gpu_sync)
{
    bool calibration = it->kind == WIRE_GPU_CALIBRATION;
    struct event ev = {.kind = calibration ? EVENT_GPU_CALIBRATION : EVENT_GPU_TIME_SYNC,
                       .time = decoder_time(d, it, p)};
    ev.gpu.context = field_u8(it, p, AT_GPU_CONTEXT);
    ev.gpu.gpu_time = (int64_t)field_u64(it, p, AT_GPU_TIME);
    if (calibration)
        ev.gpu.cpu_delta = (int64_t)field_u64(it, p, AT_GPU_DELTA);
    return decoder_emit(d, &ev);
}

HANDLER(on_gpu_note)
{
    struct event ev = {.kind = EVENT_GPU_NOTE, .thread = field_u32(it, p, AT_THREAD)};
    ev.gpu.context = field_u8(it, p, AT_GPU_CONTEXT);
    ev.gpu.query = field_u16(it, p, AT_GPU_QUERY);
    ev.gpu.note = (int64_t)field_u64(it, p, AT_GPU_NOTE);
    ev.gpu.value = load_f64(p + it->at[AT_GPU_VALUE]);
    return decoder_emit(d, &ev);
}

/* ---- scheduling */

HANDLER(on_thread_hint)
{
    struct event ev = {.kind = EVENT_THREAD_GROUP_HINT, .thread = field_u32(it, p, AT_THREAD)};
    ev.fiber.thread = ev.thread;
    ev.fiber.group_hint = (int32_t)field_u32(it, p, AT_HINT);
    return decoder_emit(d, &ev);
}

HANDLER(on_context_switch)
{
    struct event ev = {.kind = EVENT_CONTEXT_SWITCH,
                       .time = clock_ns(&d->clock, decoder_advance(it, p, &d->ref_ctx))};
    ev.sched.old_thread = field_u32(it, p, AT_THREAD);
    ev.sched.new_thread = field_u32(it, p, AT_SWITCH_NEW_THREAD);
    ev.sched.cpu = field_u8(it, p, AT_SWITCH_CPU);
    ev.sched.has_cpu = true;
    ev.sched.reason = field_u8(it, p, AT_SWITCH_REASON);
    ev.sched.state = field_u8(it, p, AT_SWITCH_STATE);
    if (!field_absent(it, AT_SWITCH_CSTATE)) {
        ev.sched.previous_cstate = field_u8(it, p, AT_SWITCH_CSTATE);
        ev.sched.new_priority = (int8_t)field_u8(it, p, AT_SWITCH_NEW_PRIORITY);
        ev.sched.old_priority = (int8_t)field_u8(it, p, AT_SWITCH_OLD_PRIORITY);
    }
    if (query_ask(d->query, QUERY_EXTERNAL_NAME, ev.sched.new_thread, d->err) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

HANDLER(on_thread_wakeup)
{
    struct event ev = {.kind = EVENT_THREAD_WAKEUP,
                       .thread = field_u32(it, p, AT_THREAD),
                       .time = clock_ns(&d->clock, decoder_advance(it, p, &d->ref_ctx))};
    ev.sched.new_thread = (uint32_t)ev.thread;
    ev.sched.has_cpu = !field_absent(it, AT_WAKEUP_CPU);
    if (ev.sched.has_cpu) {
        ev.sched.cpu = field_u8(it, p, AT_WAKEUP_CPU);
        ev.sched.adjust_reason = (int8_t)field_u8(it, p, AT_WAKEUP_REASON);
        ev.sched.adjust_increment = (int8_t)field_u8(it, p, AT_WAKEUP_INCREMENT);
    }
    return decoder_emit(d, &ev);
}

HANDLER(on_tid_to_pid)
{
    struct event ev = {.kind = EVENT_TID_TO_PID};
    ev.pair.key = field_u64(it, p, AT_KEY);
    ev.pair.value = field_u64(it, p, AT_PID);
    return decoder_emit(d, &ev);
}

HANDLER(on_hw_sample)
{
    struct event ev = {.kind = EVENT_HW_SAMPLE};
    ev.hw.ip = field_u64(it, p, AT_KEY);
    ev.hw.counter = it->arg;
    ev.hw.no_time = field_u64(it, p, AT_TIME) == 0;
    ev.time = ev.hw.no_time ? 0 : decoder_time(d, it, p);
    return decoder_emit(d, &ev);
}

/* ---- system */

HANDLER(on_sys_time)
{
    struct event ev = {.kind = EVENT_SYS_TIME, .time = decoder_time(d, it, p)};
    ev.number_f = (double)load_f32(p + it->at[AT_SYS_VALUE]);
    return decoder_emit(d, &ev);
}

HANDLER(on_sys_power)
{
    struct event ev = {.kind = EVENT_SYS_POWER, .time = decoder_time(d, it, p)};
    ev.power.name = field_u64(it, p, AT_SYS_NAME);
    ev.power.delta = field_u64(it, p, AT_SYS_VALUE);
    if (query_ask(d->query, QUERY_STRING, ev.power.name, d->err) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

HANDLER(on_cpu_topology)
{
    struct event ev = {.kind = EVENT_CPU_TOPOLOGY};
    ev.topology.package = field_u32(it, p, AT_CPU_PACKAGE);
    ev.topology.die = field_absent(it, AT_CPU_DIE) ? 0 : field_u32(it, p, AT_CPU_DIE);
    ev.topology.core = field_u32(it, p, AT_CPU_CORE);
    ev.topology.cpu = field_u32(it, p, AT_CPU_THREAD);
    return decoder_emit(d, &ev);
}

HANDLER(on_param)
{
    struct event ev = {.kind = EVENT_PARAM};
    ev.param.id = field_u32(it, p, AT_PARAM_ID);
    ev.param.name = field_u64(it, p, AT_PARAM_NAME);
    ev.param.type = field_u8(it, p, AT_PARAM_TYPE);
    ev.param.value = (int32_t)field_u32(it, p, AT_PARAM_VALUE);
    if (ev.param.type > 2)
        return decoder_fail(d, "parameter type %u is none of 0 (integer), 1 (boolean), 2 (trigger)",
                            ev.param.type);
    if (query_ask(d->query, QUERY_STRING, ev.param.name, d->err) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

/* ---- the session */

HANDLER(on_crash_report)
{
    struct event ev = {.kind = EVENT_CRASH_REPORT, .time = decoder_time(d, it, p)};
    ev.crash.text = field_u64(it, p, AT_KEY);
    struct thread_state *t = decoder_current(d);
    if (!t || query_ask(d->query, QUERY_STRING, ev.crash.text, d->err) < 0)
        return -1;
    ev.thread = t->id;
    ev.callstack = t->callstack;
    t->callstack = 0;
    return decoder_emit(d, &ev);
}

HANDLER(on_session)
{
    struct event ev = {.kind = EVENT_KEEP_ALIVE};
    if (it->kind == WIRE_CRASH) {
        ev.kind = EVENT_CRASH;
        d->crashed = true;
    } else if (it->kind == WIRE_TERMINATE) {
        ev.kind = EVENT_TERMINATE;
        d->terminated = true;
    }
    return decoder_emit(d, &ev);
}
