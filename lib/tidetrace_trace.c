/* Opens and closes traces, and returns their contents. */

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "analysis/names/frames.h"
#include "lib/tidetrace_internal.h"
#include "trace/load/load_beside.h"
#include "trace/ingest/carry.h"

#define DEFAULT_BUDGET (UINT64_C(80) << 20)

static int name_pools(struct tidetrace *t, struct err *e)
{
    size_t n = t->trace.memory.pools.len;
    t->pool_rooms = calloc(n ? n : 1, sizeof *t->pool_rooms);
    return t->pool_rooms ? 0 : err_no_memory(e, "pools");
}

static size_t beside_budget(const struct tidetrace *t)
{
    return t->budget < RELATED_INPUT_BUDGET ? (size_t)t->budget : RELATED_INPUT_BUDGET;
}

static int load(struct tidetrace *t, int fd, const char *name, const char *folder, struct err *e)
{
    const struct record_sink beside = {&t->beside, related_input_put};
    bool wanted[REC_TYPE_COUNT] = {false};
    related_input_wanted(wanted);
    const struct trace_load_options more = {.zones = t->zones,
                                            .frames = t->zones,
                                            .kernel = true,
                                            .beside = t->plots ? &beside : NULL,
                                            .beside_wanted = wanted};
    if (t->plots && related_input_init(&t->beside, &t->trace, folder, beside_budget(t), e) != 0)
        return -1;
    if (trace_load_fd(&t->trace, fd, name, &more, &t->counts, &t->info, e) != 0 ||
        trace_load_beside(&t->trace, fd, e) != 0 || name_pools(t, e) != 0)
        return -1;
    for (size_t i = 0; i < t->trace.strings.list.len; i++)
        t->texts += t->trace.strings.list.at[i].len + 1;
    if (t->trace.facts.file_version)
        file_version_text(t->trace.facts.file_version, t->version);
    return 0;
}

static int open_fd(int fd, const char *name, const struct tidetrace_open_options *theirs,
                   struct tidetrace **out, struct err *e)
{
    struct tidetrace_open_options o;
    if (lib_take(&o, sizeof o, theirs, e) != 0)
        return -1;
    if (o.flags & ~(uint32_t)(TIDETRACE_OPEN_ZONES | TIDETRACE_OPEN_PLOTS))
        return err_set(e, ERR_USAGE, "unknown flags for opening a trace");
    if (fd < 0)
        return err_set(e, ERR_INPUT, "cannot read %s: it is no open file", name);
    struct tidetrace *t = calloc(1, sizeof *t);
    if (!t)
        return err_no_memory(e, "a trace");
    t->users = 1;
    t->zones = o.flags & TIDETRACE_OPEN_ZONES;
    t->plots = o.flags & TIDETRACE_OPEN_PLOTS;
    t->budget = o.memory ? o.memory : DEFAULT_BUDGET;
    const struct trace_options options = {.spool_dir = o.temporary_folder,
                                          .resident_budget = (size_t)o.memory};
    if (trace_init(&t->trace, &options, e) != 0) {
        free(t);
        return -1;
    }
    if (load(t, fd, name, o.temporary_folder, e) != 0) {
        lib_drop(t);
        return -1;
    }
    *out = t;
    return 0;
}

int tidetrace_open_fd(int fd, const char *name, const struct tidetrace_open_options *options,
                      struct tidetrace **trace, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    *trace = NULL;
    return call_end(&c, open_fd(fd, name, options, trace, &c.err));
}

int tidetrace_open(const char *path, const struct tidetrace_open_options *options,
                   struct tidetrace **trace, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    int status;
    *trace = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        status = err_errno(&c.err, ERR_INPUT, "cannot open %s", path);
    } else {
        status = open_fd(fd, path, options, trace, &c.err);
        close(fd);
    }
    return call_end(&c, status);
}

void lib_keep(struct tidetrace *t)
{
    t->users++;
}

void lib_drop(struct tidetrace *t)
{
    if (--t->users)
        return;
    related_input_release(&t->beside);
    trace_release(&t->trace);
    free(t->pool_rooms);
    free(t);
}

void tidetrace_close(struct tidetrace *trace)
{
    if (trace)
        lib_drop(trace);
}

void tidetrace_free(void *memory)
{
    free(memory);
}

uint64_t tidetrace_memory(const struct tidetrace *trace)
{
    const struct trace *t = &trace->trace;
    const struct callstacks *c = &t->callstacks;
    uint64_t events = 0;
    for (size_t i = 0; i < t->memory.pools.len; i++)
        events += t->memory.pools.at[i]->allocs.len * 40;
    if (events > trace->budget)
        events = trace->budget;
    return sizeof *trace + trace->texts + t->strings.list.cap * sizeof *t->strings.list.at +
           t->strings.table_mask * sizeof *t->strings.table + c->nodes.cap * sizeof *c->nodes.at +
           c->children_mask * 4 + c->list.cap * sizeof *c->list.at +
           c->contents_mask * sizeof *c->contents + c->frames.cap * (sizeof *c->frames.at + 32) +
           c->inlines.cap * sizeof *c->inlines.at + t->symbols.cap * (sizeof *t->symbols.at + 32) +
           related_input_memory(&trace->beside, beside_budget(trace)) + events;
}

/* ---- properties */

static bool is_complete(const struct trace *t)
{
    return !view_equal(trace_fact(t, "end", 0), view_of(PART_CONTINUED)) &&
           !trace_fact(t, "incomplete", 0).p;
}

int tidetrace_get_info(struct tidetrace *trace, struct tidetrace_info *info,
                       struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    const struct trace *t = &trace->trace;
    const struct trace_facts *f = &t->facts;
    const struct trace_counts *n = &trace->counts;
    struct tidetrace_info out = {.file_version = f->file_version,
                                 .version = lib_text(view_of(trace->version)),
                                 .protocol = lib_text(trace_fact(t, "protocol", 0)),
                                 .program = lib_text(strings_get(&t->strings, f->program)),
                                 .capture_name =
                                     lib_text(strings_get(&t->strings, f->capture_name)),
                                 .host = lib_text(strings_get(&t->strings, f->host_info)),
                                 .pid = f->pid,
                                 .captured_at = f->capture_time,
                                 .duration = f->last_time,
                                 .pools = t->memory.pools.len,
                                 .allocations = n->memory_events,
                                 .callstacks = t->callstacks.list.len,
                                 .frames = t->callstacks.frames.len,
                                 .threads = t->threads.list.len,
                                 .zones = n->zones,
                                 .messages = n->messages,
                                 .plots = n->plots,
                                 .locks = n->locks,
                                 .samples = n->samples,
                                 .context_switches = n->context_switches};
    if (is_complete(t))
        out.flags |= TIDETRACE_COMPLETE;
    if (f->on_demand)
        out.flags |= TIDETRACE_ON_DEMAND;
    if (trace->zones)
        out.flags |= TIDETRACE_ZONES;
    if (trace->plots)
        out.flags |= TIDETRACE_PLOTS;
    return call_end(&c, lib_give(info, &out, sizeof out, &c.err));
}

/* ---- pools and threads */

static int no_such(struct err *e, const char *what, uint32_t number, size_t count)
{
    return err_set(e, ERR_USAGE, "there is no %s %lu: the trace has %zu", what,
                   (unsigned long)number, count);
}

uint32_t tidetrace_pool_count(const struct tidetrace *trace)
{
    return (uint32_t)trace->trace.memory.pools.len;
}

static int get_pool(struct tidetrace *trace, uint32_t pool, struct tidetrace_pool *to,
                    struct err *e)
{
    const struct trace *t = &trace->trace;
    if (pool >= t->memory.pools.len)
        return no_such(e, "pool", pool, t->memory.pools.len);
    const struct pool *p = t->memory.pools.at[pool];
    const struct pool_totals *n = &p->totals;
    struct tidetrace_pool out = {.name = lib_text(trace_pool_name(t, p, trace->pool_rooms[pool])),
                                 .key = p->key,
                                 .allocations = n->allocations,
                                 .frees = n->frees,
                                 .live_count = n->live,
                                 .live_bytes = n->live_bytes,
                                 .total_bytes = n->total_bytes,
                                 .low_address = n->allocations ? n->low_address : 0,
                                 .high_address = n->allocations ? n->high_address : 0};
    return lib_give(to, &out, sizeof out, e);
}

int tidetrace_get_pool(struct tidetrace *trace, uint32_t pool, struct tidetrace_pool *out,
                       struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    return call_end(&c, get_pool(trace, pool, out, &c.err));
}

uint32_t tidetrace_thread_count(const struct tidetrace *trace)
{
    return (uint32_t)trace->trace.threads.list.len;
}

static int get_thread(struct tidetrace *trace, uint32_t thread, struct tidetrace_thread *to,
                      struct err *e)
{
    const struct trace *t = &trace->trace;
    if (thread >= t->threads.list.len)
        return no_such(e, "thread", thread, t->threads.list.len);
    const struct trace_thread *from = &t->threads.list.at[thread];
    struct tidetrace_thread out = {.id = from->id,
                                   .name = lib_text(strings_get(&t->strings, from->name)),
                                   .is_fiber = from->is_fiber};
    return lib_give(to, &out, sizeof out, e);
}

int tidetrace_get_thread(struct tidetrace *trace, uint32_t thread, struct tidetrace_thread *out,
                         struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    return call_end(&c, get_thread(trace, thread, out, &c.err));
}

/* ---- call stacks and frames */

uint32_t tidetrace_callstack_count(const struct tidetrace *trace)
{
    return (uint32_t)trace->trace.callstacks.list.len;
}

uint32_t tidetrace_frame_count(const struct tidetrace *trace)
{
    return (uint32_t)trace->trace.callstacks.frames.len;
}

uint32_t tidetrace_frame_depth(const struct tidetrace *trace, uint32_t frame)
{
    return frame < tidetrace_frame_count(trace) ? frame_depth(&trace->trace, frame) : 0;
}

static struct tidetrace_frame make_frame(const struct frame_view *f, uint32_t number,
                                         uint32_t inlined)
{
    uint32_t flags = 0;
    if (f->is_inline)
        flags |= TIDETRACE_FRAME_INLINE;
    if (f->has_name)
        flags |= TIDETRACE_FRAME_NAMED;
    return (struct tidetrace_frame){.function = lib_text(f->function),
                                    .file = lib_text(f->file),
                                    .image = lib_text(f->image),
                                    .address = f->address,
                                    .line = f->line,
                                    .flags = flags,
                                    .number = number,
                                    .inlined = inlined};
}

static int get_frame(struct tidetrace *trace, uint32_t frame, uint32_t inlined,
                     struct tidetrace_frame *to, struct err *e)
{
    uint32_t depth = tidetrace_frame_depth(trace, frame);
    if (depth == 0)
        return no_such(e, "frame", frame, tidetrace_frame_count(trace));
    if (inlined >= depth)
        return no_such(e, "function of this frame", inlined, depth);
    struct frame_view view = frame_describe(&trace->trace, frame, inlined);
    struct tidetrace_frame out = make_frame(&view, frame, inlined);
    return lib_give(to, &out, sizeof out, e);
}

int tidetrace_get_frame(struct tidetrace *trace, uint32_t frame, uint32_t inlined,
                        struct tidetrace_frame *out, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    return call_end(&c, get_frame(trace, frame, inlined, out, &c.err));
}

/* frame_walk_next moves past the function that it returns, so the frame number is read first. */
static int get_callstack(struct tidetrace *trace, uint32_t callstack,
                         struct tidetrace_frame *frames, size_t frame_size, size_t room,
                         size_t *count, struct err *e)
{
    const struct trace *t = &trace->trace;
    *count = 0;
    if (callstack > t->callstacks.list.len)
        return no_such(e, "call stack", callstack, t->callstacks.list.len);
    if (room && lib_check_element(frame_size, e) != 0)
        return -1;
    struct frame_walk walk = frame_walk_start(t, callstack);
    struct frame_view view;
    uint32_t frame = walk.node ? t->callstacks.nodes.at[walk.node].frame : 0;
    uint32_t inlined = walk.inlined;
    while (frame_walk_next(&walk, &view)) {
        struct tidetrace_frame out = make_frame(&view, frame, inlined);
        if (*count < room)
            lib_give_element(frames, *count, frame_size, &out, sizeof out);
        ++*count;
        frame = walk.node ? t->callstacks.nodes.at[walk.node].frame : 0;
        inlined = walk.inlined;
    }
    return 0;
}

int tidetrace_get_callstack(struct tidetrace *trace, uint32_t callstack,
                            struct tidetrace_frame *frames, size_t frame_size, size_t room,
                            size_t *count, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    return call_end(&c, get_callstack(trace, callstack, frames, frame_size, room, count, &c.err));
}
