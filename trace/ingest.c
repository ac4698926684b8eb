#include "trace/ingest.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "trace/carry.h"

/* Message severities and sources of the file: public/common/TracyQueue.hpp @ v0.14.0. */
#define SEVERITY_WARNING 3
#define SOURCE_USER 0

static int no_room(struct err *e)
{
    return err_no_memory(e, "the trace");
}

/* ---- memory */

static int ingest_pool(struct ingest *in, uint64_t key, uint32_t *number, struct err *e)
{
    if (key == in->last_pool_key) {
        *number = in->last_pool;
        return 0;
    }
    if (memory_pool(&in->trace->memory, key, number, e) != 0)
        return -1;
    in->last_pool_key = key;
    in->last_pool = *number;
    return 0;
}

/* A time of the client's clock on this part's. */
static int64_t part_time(struct ingest *in, int64_t time)
{
    int64_t t;
    if (__builtin_sub_overflow(time, in->time_base, &t))
        t = time < 0 ? INT64_MIN : INT64_MAX;
    if (t > in->time_limit || t < -in->time_limit) {
        in->time_overflow++;
        t = t < 0 ? -in->time_limit : in->time_limit;
    }
    return t;
}

static int ingest_place(struct ingest *in, const struct event *ev, struct memory_place *at,
                        struct err *e)
{
    at->time = part_time(in, ev->time);
    at->callstack = ev->callstack;
    if (trace_thread_number(in->trace, ev->thread, &at->thread, e) != 0)
        return -1;
    in->trace->threads.list.at[at->thread].listed = true;
    return 0;
}

static void ingest_time(struct ingest *in, int64_t time)
{
    if (time > in->trace->facts.last_time)
        in->trace->facts.last_time = time;
}

static int carry_out_alloc(struct ingest *in, const struct waiting_event *w, struct err *e)
{
    bool fault;
    ingest_time(in, w->at.time);
    if (memory_alloc(&in->trace->memory, w->pool, w->ptr, w->size, w->at, &fault, e) != 0)
        return -1;
    if (fault && in->strict)
        return err_set(e, ERR_CHECK,
                       "MemAllocTwice: memory allocation at 0x%" PRIx64 ", which is live already",
                       w->ptr);
    return 0;
}

static int carry_out_free(struct ingest *in, const struct waiting_event *w, struct err *e)
{
    bool found;
    bool is_fault = !in->unknown_frees_expected;
    if (memory_free(&in->trace->memory, w->pool, w->ptr, w->at, is_fault, &found, e) != 0)
        return -1;
    if (found)
        ingest_time(in, w->at.time);
    else if (is_fault && in->strict && w->ptr != 0)
        return err_set(e, ERR_CHECK,
                       "MemFree: memory free of 0x%" PRIx64 " without a matching allocation",
                       w->ptr);
    return 0;
}

static int ingest_memory(struct ingest *in, const struct event *ev, struct err *e)
{
    struct waiting_event *w = &in->waiting[in->waiting_count];
    w->is_alloc = ev->kind == EVENT_MEM_ALLOC;
    w->ptr = ev->mem.ptr;
    w->size = ev->mem.size;
    if (ingest_pool(in, ev->mem.pool, &w->pool, e) != 0 || ingest_place(in, ev, &w->at, e) != 0)
        return -1;
    live_set_prefetch(&in->trace->memory.pools.at[w->pool]->live, w->ptr);
    return ++in->waiting_count < INGEST_WAITING ? 0 : ingest_settle(in, e);
}

int ingest_settle(struct ingest *in, struct err *e)
{
    unsigned n = in->waiting_count;
    /* After a fault that ends the capture, what waits behind it is not wanted any more. */
    in->waiting_count = 0;
    for (unsigned i = 0; i < n; i++) {
        const struct waiting_event *w = &in->waiting[i];
        if (!w->is_alloc)
            memory_prefetch_free(&in->trace->memory, w->pool, w->ptr);
    }
    for (unsigned i = 0; i < n; i++) {
        const struct waiting_event *w = &in->waiting[i];
        if ((w->is_alloc ? carry_out_alloc(in, w, e) : carry_out_free(in, w, e)) != 0)
            return -1;
    }
    return 0;
}

static int ingest_discard(struct ingest *in, const struct event *ev, struct err *e)
{
    const uint64_t *pool = map_find(&in->trace->memory.pool_numbers, ev->mem.pool);
    struct memory_place at;
    if (!pool)
        return 0; /* a pool that never had an allocation */
    if (ingest_settle(in, e) != 0 || ingest_place(in, ev, &at, e) != 0)
        return -1;
    ingest_time(in, at.time);
    return memory_discard(&in->trace->memory, (uint32_t)*pool, at, e);
}

/* ---- names */

static int ingest_name_at(struct ingest *in, const struct event *ev, struct err *e)
{
    uint32_t text = strings_intern(&in->trace->strings, ev->name.text, e);
    return text ? strings_bind(&in->trace->strings, ev->name.key, text, e) : -1;
}

static int ingest_thread_name(struct ingest *in, const struct event *ev, struct err *e)
{
    uint16_t number;
    uint32_t text = strings_intern(&in->trace->strings, ev->name.text, e);
    if (!text || trace_thread_number(in->trace, ev->name.key, &number, e) != 0)
        return -1;
    struct trace_thread *t = &in->trace->threads.list.at[number];
    if (t->id == ev->name.key && !t->name)
        t->name = text;
    return 0;
}

static int ingest_group_hint(struct ingest *in, const struct event *ev, struct err *e)
{
    uint16_t number;
    if (trace_thread_number(in->trace, ev->thread, &number, e) != 0)
        return -1;
    in->trace->threads.list.at[number].group_hint = ev->fiber.group_hint;
    return 0;
}

static int ingest_location(struct ingest *in, const struct event *ev, struct err *e)
{
    struct trace *t = in->trace;
    bool fresh;
    if (t->locations.len >= t->location_limit) {
        t->location_overflow += !map_find(&t->location_numbers, ev->srcloc_reply.pointer);
        return 0;
    }
    uint64_t *number = map_add(&t->location_numbers, ev->srcloc_reply.pointer, &fresh);
    if (!number)
        return no_room(e);
    if (!fresh)
        return 0;
    *number = t->locations.len;
    struct trace_location location = {.pointer = ev->srcloc_reply.pointer,
                                      .name = ev->srcloc_reply.name,
                                      .function = ev->srcloc_reply.function,
                                      .file = ev->srcloc_reply.file,
                                      .line = ev->srcloc_reply.line,
                                      .color = ev->srcloc_reply.color,
                                      .known = true};
    return vec_push(&t->locations, location) ? 0 : no_room(e);
}

/* ---- call stacks and symbols */

static int ingest_callstack(void *ctx, const uint64_t *frames, uint32_t n, uint32_t *id,
                            bool *fresh, struct err *e)
{
    struct ingest *in = ctx;
    return callstacks_intern(&in->trace->callstacks, frames, n, id, fresh, e);
}

/* The number of a key, the next free one when new. False when memory is short. */
static bool number_of(struct map *m, uint64_t key, uint64_t *number, bool *fresh)
{
    uint64_t next = m->count;
    uint64_t *value = map_add(m, key, fresh);
    if (!value)
        return false;
    if (*fresh)
        *value = next;
    *number = *value;
    return true;
}

static int ingest_custom_frame(void *ctx, struct view function, struct view file, uint32_t line,
                               uint64_t *frame, struct err *e)
{
    struct ingest *in = ctx;
    struct trace *t = in->trace;
    struct frame_inline one = {.function = strings_intern(&t->strings, function, e),
                               .file = strings_intern(&t->strings, file, e),
                               .line = line};
    if (!one.function || !one.file)
        return -1;
    /* Equal frames are one frame, so that equal stacks stay one stack. */
    uint64_t source, number;
    bool fresh;
    if (!number_of(&in->custom_sources, (uint64_t)one.function << 32 | one.file, &source, &fresh) ||
        !number_of(&in->custom_frames, source << 32 | line, &number, &fresh))
        return no_room(e);
    *frame = FRAME_ID_CUSTOM | number;
    return fresh ? callstacks_resolve(&t->callstacks, *frame, 0, &one, 1, e) : 0;
}

/* A symbol seen for the first time: its own file and line come with the SYMBOL answer. */
static int ingest_new_symbol(struct ingest *in, const struct frame_inline *f, uint32_t image,
                             uint32_t size, bool is_inline, struct err *e)
{
    struct trace *t = in->trace;
    bool fresh;
    uint64_t *number = map_add(&t->symbol_numbers, f->symbol, &fresh);
    if (!number)
        return no_room(e);
    if (!fresh)
        return 0;
    *number = t->symbols.len;
    struct trace_symbol symbol = {.address = f->symbol,
                                  .name = f->function,
                                  .image = image,
                                  .call_file = f->file,
                                  .call_line = f->line,
                                  .size = size < 1u << 24 ? size : (1u << 24) - 1,
                                  .is_inline = is_inline};
    return vec_push(&t->symbols, symbol) ? 0 : no_room(e);
}

static int ingest_frame(struct ingest *in, const struct event *ev, struct err *e)
{
    struct trace *t = in->trace;
    uint64_t id = ev->frames.address & ((UINT64_C(1) << 62) - 1);
    const struct frame *known = callstacks_find_frame(&t->callstacks, id);
    /* Wrappers that official captures leave out are left out here too. */
    unsigned n = ev->frames.n > ev->frames.skip ? (unsigned)ev->frames.n - ev->frames.skip : 0;
    if ((known && known->n) || n == 0)
        return 0;
    struct frame_inline inlines[UINT8_MAX];
    const struct event_inline *told = ev->frames.inlines + ev->frames.skip;
    uint32_t image = strings_intern(&t->strings, ev->frames.image, e);
    if (!image)
        return -1;
    for (unsigned i = 0; i < n; i++) {
        const struct event_inline *from = &told[i];
        inlines[i] =
            (struct frame_inline){.function = strings_intern(&t->strings, from->function, e),
                                  .file = strings_intern(&t->strings, from->file, e),
                                  .line = from->line,
                                  .symbol = from->symbol};
        if (!inlines[i].function || !inlines[i].file)
            return -1;
        if (from->symbol &&
            ingest_new_symbol(in, &inlines[i], image, from->symbol_len, i + 1 < n, e) != 0)
            return -1;
    }
    bool fresh;
    uint64_t *symbol = map_add(&t->code_symbols, ev->frames.address, &fresh);
    if (!symbol)
        return no_room(e);
    if (fresh)
        *symbol = inlines[0].symbol;
    return callstacks_resolve(&t->callstacks, id, image, inlines, n, e);
}

static int ingest_symbol(struct ingest *in, const struct event *ev, struct err *e)
{
    struct trace *t = in->trace;
    const uint64_t *number = map_find(&t->symbol_numbers, ev->symbol.address);
    if (!number)
        return 0; /* an answer to a question that our frames do not raise */
    struct trace_symbol *s = &t->symbols.at[*number];
    if (s->known)
        return 0;
    s->file = strings_intern(&t->strings, ev->symbol.file, e);
    s->line = ev->symbol.line;
    s->known = true;
    return s->file ? 0 : -1;
}

static int ingest_app_info(struct ingest *in, const struct event *ev, struct err *e)
{
    uint32_t text = strings_intern(&in->trace->strings, ev->text, e);
    if (!text)
        return -1;
    return vec_push(&in->trace->app_info, text) ? 0 : no_room(e);
}

/* The clock of this part is at its end: finish it and begin the next one at `time`. */
static int ingest_next_part(struct ingest *in, int64_t time, struct err *e)
{
    if (ingest_settle(in, e) != 0 || in->part_full(in->part_full_ctx, e) != 0 ||
        trace_carry_over(in->trace, e) != 0)
        return -1;
    in->parts++;
    in->time_base = time;
    in->time_overflow = 0;
    return trace_add_fact(in->trace, e, "part",
                          "%u, begins %" PRId64 " ns after the client's start", in->parts + 1,
                          time);
}

static inline bool beyond_end(const struct ingest *in, int64_t time)
{
    return time > in->time_base && time - in->time_base > in->time_limit && in->part_full &&
           in->parts < INGEST_PARTS_MAX;
}

static int ingest_event(void *ctx, const struct event *ev, struct err *e)
{
    struct ingest *in = ctx;
    if (__builtin_expect(beyond_end(in, ev->time), 0) && ingest_next_part(in, ev->time, e) != 0)
        return -1;
    switch (ev->kind) {
    case EVENT_MEM_ALLOC:
    case EVENT_MEM_FREE:
        return ingest_memory(in, ev, e);
    case EVENT_MEM_DISCARD:
        return ingest_discard(in, ev, e);
    case EVENT_STRING:
    case EVENT_PLOT_NAME:
    case EVENT_FRAME_NAME:
    case EVENT_FIBER_NAME:
        return ingest_name_at(in, ev, e);
    case EVENT_THREAD_NAME:
        return ingest_thread_name(in, ev, e);
    case EVENT_THREAD_GROUP_HINT:
        return ingest_group_hint(in, ev, e);
    case EVENT_SOURCE_LOCATION:
        return ingest_location(in, ev, e);
    case EVENT_CALLSTACK_FRAME:
        return ingest_frame(in, ev, e);
    case EVENT_SYMBOL:
        return ingest_symbol(in, ev, e);
    case EVENT_APP_INFO:
        return ingest_app_info(in, ev, e);
    case EVENT_CRASH:
        in->crashed = true;
        return 0;
    case EVENT_ZONE_BEGIN:
    case EVENT_ZONE_END:
    case EVENT_MESSAGE:
    case EVENT_FRAME_MARK:
    case EVENT_FRAME_START:
    case EVENT_FRAME_END:
    case EVENT_PLOT:
        ingest_time(in, part_time(in, ev->time));
        return 0;
    default:
        return 0;
    }
}

int ingest_init(struct ingest *in, struct trace *t, struct err *e)
{
    *in = (struct ingest){.trace = t, .time_limit = INGEST_TIME_LIMIT};
    in->sink = (struct event_sink){.ctx = in,
                                   .event = ingest_event,
                                   .callstack = ingest_callstack,
                                   .custom_frame = ingest_custom_frame};
    return memory_pool(&t->memory, 0, &in->last_pool, e);
}

void ingest_release(struct ingest *in)
{
    map_release(&in->custom_sources);
    map_release(&in->custom_frames);
}

/* ---- the end */

static int finish_fault(struct ingest *in, const struct memory_fault *f, struct err *e)
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
    struct trace_message m = {.time = s->time,
                              .thread = s->thread,
                              .source = SOURCE_USER,
                              .severity = SEVERITY_WARNING,
                              .color = 0xff4040,
                              .callstack = f->callstack};
    m.text = strings_intern(&t->strings, (struct view){buf_str(&text), text.len}, e);
    bool failed = text.failed;
    buf_release(&text);
    t->threads.list.at[s->thread].listed = true;
    ingest_time(in, s->time);
    if (!m.text)
        return -1;
    return !failed && vec_push(&t->messages, m) ? 0 : no_room(e);
}

/*
 * When most frees are of blocks never seen, the program reports only some of its allocations (Kit:
 * those above 1 KiB) or was caught late. Those frees are counted; they are nobody's fault.
 */
static bool mostly_unknown(const struct trace *t)
{
    uint64_t known = 0;
    for (size_t i = 0; i < t->memory.pools.len; i++)
        known += t->memory.pools.at[i]->totals.frees;
    return t->memory.unknown_frees > known;
}

static int compare_messages(const void *a, const void *b)
{
    const struct trace_message *x = a;
    const struct trace_message *y = b;
    return x->time < y->time ? -1 : x->time > y->time;
}

int ingest_finish(struct ingest *in, struct err *e)
{
    struct trace *t = in->trace;
    if (ingest_settle(in, e) != 0)
        return -1;
    if (t->callstacks.other) {
        struct frame_inline other = {.function =
                                         strings_intern(&t->strings, view_of("(other)"), e)};
        const struct callstack *stack = callstacks_get(&t->callstacks, t->callstacks.other);
        uint32_t frame = t->callstacks.nodes.at[stack->node].frame;
        other.file = other.function;
        if (!other.function ||
            callstacks_resolve(&t->callstacks, t->callstacks.frames.at[frame].id, 0, &other, 1,
                               e) != 0 ||
            trace_add_fact(t, e, "overflow.callstacks", "%" PRIu64, t->callstacks.overflow) != 0)
            return -1;
    }
    if (t->strings.overflow &&
        trace_add_fact(t, e, "overflow.strings", "%" PRIu64, t->strings.overflow) != 0)
        return -1;
    if (in->time_overflow &&
        trace_add_fact(t, e, "overflow.times", "%" PRIu64, in->time_overflow) != 0)
        return -1;
    if (t->location_overflow &&
        trace_add_fact(t, e, "overflow.source_locations", "%" PRIu64, t->location_overflow) != 0)
        return -1;
    if (t->threads.overflow &&
        trace_add_fact(t, e, "overflow.threads", "%" PRIu64, t->threads.overflow) != 0)
        return -1;
    for (size_t i = 0; i < t->memory.faults.len && !mostly_unknown(t); i++) {
        if (finish_fault(in, &t->memory.faults.at[i], e) != 0)
            return -1;
    }
    if (t->messages.len)
        qsort(t->messages.at, t->messages.len, sizeof t->messages.at[0], compare_messages);
    return 0;
}
