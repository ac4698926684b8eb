/*
 * GPU contexts, their zones and annotations. The official server ends a capture when an item
 * matches no context or no open zone; the ingest counts it. Clients that announce contexts before
 * an on-demand session begins send such items.
 */

#include "trace/ingest/ingest_internal.h"

/* Flags of GpuNewContext: public/common/TracyQueue.hpp GpuContextFlags @ v0.14.0. */
#define GPU_CALIBRATED 1u

/* The largest backward step, in ticks, of a GPU's counter that does not count as a wrap. */
#define GPU_WRAP_MIN (INT64_C(1) << 31)

static int stray(struct ingest *in)
{
    in->gpu_strays++;
    return 0;
}

/* Wire values are arbitrary: clamps to the range of int64_t. */
static int64_t to_time(double ns)
{
    if (!(ns > -9.2e18))
        return INT64_MIN;
    return ns < 9.2e18 ? (int64_t)ns : INT64_MAX;
}

static int64_t add_times(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        sum = a < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

static int64_t ticks_to_ns(float period, int64_t ticks)
{
    return period == 1.f ? ticks : to_time((double)period * (double)ticks);
}

static int gpu_new_context(struct ingest *in, const struct event *ev, struct err *e)
{
    int64_t gpu_time = ticks_to_ns(ev->gpu_context.period, ev->gpu_context.gpu_time);
    struct gpu_context c = {.thread = ev->thread,
                            .period = ev->gpu_context.period,
                            .type = ev->gpu_context.type,
                            .calibrated = ev->gpu_context.flags & GPU_CALIBRATED,
                            .difference = (int64_t)((uint64_t)ev->time - (uint64_t)gpu_time),
                            .calibrated_gpu = gpu_time,
                            .calibrated_cpu = ev->time,
                            .calibration = 1.,
                            .announced_gpu = gpu_time,
                            .announced_cpu = ev->time};
    return gpu_announce(&in->trace->gpu, ev->gpu_context.context, &c, e) ? 0 : -1;
}

static int gpu_begin(struct ingest *in, struct gpu_context *c, const struct event *ev,
                     struct err *e)
{
    struct gpu_zone zone = {.cpu_start = ingest_part_time(in, ev->time),
                            .callstack = ev->callstack,
                            .query = ev->gpu.query};
    int16_t location;
    uint16_t thread = 0;
    if (ingest_location_number(in, ev->gpu.srcloc, ev->gpu.payload, &location, e) != 0)
        return -1;
    /* The context of one thread needs no thread per zone, but its items may name one. */
    if (c->thread == 0 && (trace_thread_number(in->trace, ev->thread, &thread, e) != 0 ||
                           trace_local_thread(in->trace, thread, e) != 0))
        return -1;
    /*
     * A GPU zone does not list a thread, but the look-up of its thread's call stack does, found or
     * not.
     */
    uint16_t listed;
    if (ev->gpu.caller && ingest_thread(in, ev->gpu.caller, &listed, e) != 0)
        return -1;
    zone.location = location;
    zone.thread = thread;
    ingest_time(in, zone.cpu_start);
    return gpu_zone_begin(&in->trace->gpu, c, &zone, e);
}

static int gpu_end(struct ingest *in, struct gpu_context *c, const struct event *ev, struct err *e)
{
    int64_t time = ingest_part_time(in, ev->time);
    uint16_t thread = 0;
    bool found;
    if (c->thread == 0 && trace_thread_number(in->trace, ev->thread, &thread, e) != 0)
        return -1;
    if (gpu_zone_end(&in->trace->gpu, c, thread, ev->gpu.query, time, &found, e) != 0)
        return -1;
    if (!found)
        return stray(in);
    ingest_time(in, time);
    return 0;
}

/* A GPU's counter may have fewer than 64 bits: a large backward step means that it wrapped. */
static int64_t unwrap(struct gpu_context *c, int64_t ticks)
{
    if (c->last_gpu_time > INT64_MIN + GPU_WRAP_MIN && ticks < c->last_gpu_time - GPU_WRAP_MIN) {
        if (c->overflow == 0 && c->last_gpu_time > 0)
            c->overflow = UINT64_C(1) << (64 - __builtin_clzll((uint64_t)c->last_gpu_time));
        c->wraps++;
    }
    c->last_gpu_time = ticks;
    return (int64_t)((uint64_t)ticks + c->overflow * c->wraps);
}

/* Converts to the client's clock. The order of operations affects the last digit. */
static int64_t gpu_to_cpu_time(const struct gpu_context *c, int64_t ticks)
{
    if (!c->calibrated)
        return add_times(ticks_to_ns(c->period, ticks), c->difference);
    double distance = c->period == 1.f
                          ? (double)(int64_t)((uint64_t)ticks - (uint64_t)c->calibrated_gpu)
                          : (double)c->period * (double)ticks - (double)c->calibrated_gpu;
    return to_time(distance * c->calibration + (double)c->calibrated_cpu);
}

static int gpu_time(struct ingest *in, struct gpu_context *c, const struct event *ev, struct err *e)
{
    int64_t ticks = unwrap(c, ev->gpu.gpu_time);
    int64_t time = ingest_part_time(in, gpu_to_cpu_time(c, ticks));
    bool found;
    if (gpu_query_time(&in->trace->gpu, c, ev->gpu.query, time, &found, e) != 0)
        return -1;
    if (!found)
        return stray(in);
    ingest_time(in, time);
    return 0;
}

static int gpu_calibration(struct ingest *in, struct gpu_context *c, const struct event *ev)
{
    int64_t gpu_time = ticks_to_ns(c->period, ev->gpu.gpu_time);
    int64_t distance = (int64_t)((uint64_t)gpu_time - (uint64_t)c->calibrated_gpu);
    if (!c->calibrated || distance == 0)
        return stray(in);
    c->calibration = (double)ev->gpu.cpu_delta / (double)distance;
    c->calibrated_gpu = gpu_time;
    c->calibrated_cpu = ev->time;
    return 0;
}

static void gpu_time_sync(struct gpu_context *c, const struct event *ev)
{
    int64_t gpu_time = ticks_to_ns(c->period, ev->gpu.gpu_time);
    c->difference = (int64_t)((uint64_t)ev->time - (uint64_t)gpu_time);
    c->last_gpu_time = 0;
    c->overflow = 0;
    c->wraps = 0;
}

static int gpu_text(struct ingest *in, struct gpu_context *c, const struct event *ev, struct err *e)
{
    uint32_t text = strings_intern(&in->trace->strings, ev->gpu.text, e);
    if (!text)
        return -1;
    if (ev->kind == EVENT_GPU_NOTE_NAME)
        return gpu_name_note(c, ev->gpu.note, text, e);
    c->name = text;
    return 0;
}

int ingest_gpu_event(struct ingest *in, const struct event *ev, struct err *e)
{
    if (ev->kind == EVENT_GPU_CONTEXT)
        return gpu_new_context(in, ev, e);
    struct gpu_context *c = gpu_context_at(&in->trace->gpu, ev->gpu.context);
    if (!c)
        return stray(in);
    switch (ev->kind) {
    case EVENT_GPU_ZONE_BEGIN:
        return gpu_begin(in, c, ev, e);
    case EVENT_GPU_ZONE_END:
        return gpu_end(in, c, ev, e);
    case EVENT_GPU_TIME:
        return gpu_time(in, c, ev, e);
    case EVENT_GPU_CALIBRATION:
        return gpu_calibration(in, c, ev);
    case EVENT_GPU_TIME_SYNC:
        gpu_time_sync(c, ev);
        return 0;
    case EVENT_GPU_CONTEXT_NAME:
    case EVENT_GPU_NOTE_NAME:
        return gpu_text(in, c, ev, e);
    case EVENT_GPU_NOTE:
        return gpu_set_note(c, ev->gpu.query, ev->gpu.note, ev->gpu.value, e);
    default:
        return 0;
    }
}
