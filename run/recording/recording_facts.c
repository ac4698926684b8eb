/* Facts of a trace about a recording and its process. */

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/format.h"
#include "run/recording/recording_internal.h"

/* public/common/TracyProtocol.hpp CpuArchitecture @ v0.14.0 */
#define ARCH_X64 2
#define ARCH_ARM64 4

/* Sums up the losses of the kinds that lose events. */
static void lost(const struct rec_header *h, uint64_t *allocations, uint64_t *bytes,
                 uint64_t *frees)
{
    *allocations = *bytes = *frees = 0;
    for (size_t i = 0; i < REC_LOSSES; i++) {
        if (i == REC_LOSS_STACK)
            continue;
        *allocations += h->lost[i].allocations;
        *bytes += h->lost[i].bytes;
        *frees += h->lost[i].frees;
    }
}

/* What was dropped because the buffer was full: adds the sum, and a fact for each pool. */
static int dropped(struct recording *r, const struct rec_header *h, uint64_t *allocations,
                   uint64_t *bytes, struct err *e)
{
    struct trace *t = r->target->in->trace;
    *allocations = *bytes = 0;
    for (size_t i = 0; i < REC_POOLS_COUNTED; i++) {
        uint64_t n = h->dropped[i].allocations;
        if (n && trace_add_fact(t, e, "dropped", "0x%" PRIx64 "|%" PRIu64 "|%" PRIu64,
                                (uint64_t)POOL_KEY(i), n, (uint64_t)h->dropped[i].bytes) != 0)
            return -1;
        *allocations += n;
        *bytes += h->dropped[i].bytes;
    }
    return 0;
}

static int host_info(struct trace *t, struct err *e)
{
    struct utsname u;
    struct buf b = {0};
    if (uname(&u) != 0)
        return 0;
    buf_printf(&b, "OS: %s %s\nArch: %s\nHost: %s\n", u.sysname, u.release, u.machine, u.nodename);
    t->facts.host_info = strings_intern(&t->strings, (struct view){buf_str(&b), b.len}, e);
    buf_release(&b);
    return t->facts.host_info ? 0 : -1;
}

static int header_facts(const struct recording *r, const struct rec_header *h, struct err *e)
{
    struct trace *t = r->target->in->trace;
    const char *slash = strrchr(h->exe, '/');
    struct trace_facts *f = &t->facts;
    f->resolution = 1;
    f->timer_mul = 1;
    f->pid = (uint32_t)h->pid;
    f->capture_time = h->realtime_ns / 1000000000u;
    f->cpu_arch = h->arch == REC_ARCH_X86_64    ? ARCH_X64
                  : h->arch == REC_ARCH_AARCH64 ? ARCH_ARM64
                                                : 0;
    f->program = strings_intern(&t->strings, view_of(slash ? slash + 1 : h->exe), e);
    f->capture_name = f->program;
    return f->program ? host_info(t, e) : -1;
}

/* Adds each fact that has a value. */
static int loss_facts(struct recording *r, const struct rec_header *h, struct err *e)
{
    char limit[FORMAT_SIZE];
    struct trace *t = r->target->in->trace;
    uint64_t allocations, bytes, frees, dropped_allocations, dropped_bytes;
    if (dropped(r, h, &dropped_allocations, &dropped_bytes, e) != 0)
        return -1;
    lost(h, &allocations, &bytes, &frees);
    const struct {
        const char *key;
        uint64_t n;
    } facts[] = {
        {"lost_allocations", allocations},
        {"lost_bytes", bytes},
        {"dropped_allocations", dropped_allocations},
        {"dropped_bytes", dropped_bytes},
        {"dropped_notes", h->dropped_notes},
        {"paused", r->counts.pauses + ((h->options.flags & REC_OPTION_PAUSED) != 0)},
        {"paused_allocations", h->paused_allocations},
        {"paused_bytes", h->paused_bytes},
        {"other_threads", h->others},
        {"lost_frees", frees},
        {"lost_callstacks",
         h->lost[REC_LOSS_STACK].allocations + h->lost[REC_LOSS_STACK].frees + r->counts.stackless},
        {"lost_damaged", r->counts.damaged},
        {"early_allocations", h->early_allocations},
        {"deep_libraries", h->deep_libraries},
        {"deep_unseen", h->deep_unseen},
        {"too_small", h->too_small},
        {"min_size", h->options.min_size},
        {"sampling", h->options.sample_bytes},
        {"children", h->children},
        {"put_back", r->counts.put_back},
        {"capped_sizes", r->counts.capped_sizes},
        {"failed_allocations", h->failed_allocations},
        {"trims", h->trims},
        {"trims_empty", h->trims_empty},
        {"missed_frees", t->memory.missed_frees},
        {"crowded_images", r->target->places.crowded},
        {"python_unread", h->python_unread},
        {"python_unheld", h->python_unheld},
        {"python_subinterpreters", h->python_subinterpreters},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        if (facts[i].n && trace_add_fact(t, e, facts[i].key, "%" PRIu64, facts[i].n) != 0)
            return -1;
    }
    if (h->unseen[0] &&
        trace_add_fact(t, e, "unseen_functions", "%.*s", (int)sizeof h->unseen - 1, h->unseen) != 0)
        return -1;
    if (h->state == REC_STATE_FULL && h->end_errno == ENOBUFS)
        return trace_add_fact(t, e, "incomplete", "the recording reached its limit of %s",
                              format_bytes(limit, h->options.file_bytes));
    if (h->state == REC_STATE_FULL)
        return trace_add_fact(t, e, "incomplete", "%s",
                              h->end_errno == EPERM
                                  ? "the program forbade itself system calls that recording needs"
                                  : "there was no room for more of the recording");
    return 0;
}

static int recording_facts(struct recording *r, struct err *e)
{
    struct rec_header h;
    struct trace *t = r->target->in->trace;
    if (recording_header(r, &h, e) != 0 || (r->target->tick_ns <= 0 && header_facts(r, &h, e) != 0))
        return -1;
    bool attached = h.options.flags & REC_OPTION_ATTACHED;
    if (trace_add_fact(t, e, "recorded", "by the preload library%s, call stacks of %u frames",
                       attached ? ", attached to a process that ran already" : "",
                       h.options.depth ? h.options.depth : REC_DEPTH) != 0)
        return -1;
    /* Memory that CUDA registers was allocated elsewhere: client/gpu/gpu.c. */
    if (h.options.flags & REC_OPTION_GPU &&
        trace_add_fact(t, e, "containers", "CUDA registered") != 0)
        return -1;
    if (h.only_threads[0] && trace_add_fact(t, e, "threads", "%s", h.only_threads) != 0)
        return -1;
    return loss_facts(r, &h, e);
}

static int tell_threads(struct recording *r, struct err *e)
{
    const struct event_sink *sink = &r->target->in->sink;
    const struct map_slot *slot;
    size_t iter = 0;
    while ((slot = map_next(&r->thread_names, &iter))) {
        struct event ev = {.kind = EVENT_THREAD_NAME};
        ev.name.key = slot->key;
        ev.name.text = strings_get(&r->target->in->trace->strings, (uint32_t)slot->value);
        if (sink->event(sink->ctx, &ev, e) != 0)
            return -1;
    }
    return 0;
}

/* An ended process holds no memory. */
static int discard_all(struct recording *r, struct err *e)
{
    const struct event_sink *sink = &r->target->in->sink;
    const struct map_slot *slot;
    size_t iter = 0;
    const struct memory *m = &r->target->in->trace->memory;
    for (size_t i = 0; i < m->pools.len; i++) {
        r->target->left_blocks += m->pools.at[i]->totals.live;
        r->target->left_bytes += m->pools.at[i]->totals.live_bytes;
    }
    struct event ev = {
        .kind = EVENT_MEM_DISCARD, .thread = (uint32_t)r->header.pid, .time = ++r->target->last};
    if (sink->event(sink->ctx, &ev, e) != 0)
        return -1;
    while ((slot = map_next(&r->pools, &iter))) {
        ev.mem.pool = slot->key;
        if (sink->event(sink->ctx, &ev, e) != 0)
            return -1;
    }
    return 0;
}

int recording_finish(struct recording *r, bool part, struct err *e)
{
    if (recording_flush(r, e) != 0 || tell_threads(r, e) != 0)
        return -1;
    return part ? discard_all(r, e) : recording_facts(r, e);
}

void recording_target_init(struct recording_target *t, struct ingest *in)
{
    *t = (struct recording_target){.in = in, .last = -1};
    image_places_init(&t->places, in->trace);
}

void recording_target_release(struct recording_target *t)
{
    image_places_release(&t->places);
}
