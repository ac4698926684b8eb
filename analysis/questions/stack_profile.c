#include "analysis/questions/stack_profile.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/code/module_facts.h"
#include "analysis/figures/cut_stacks.h"
#include "analysis/names/frames.h"
#include "analysis/names/skiplist.h"
#include "base/format.h"
#include "base/order.h"
#include "trace/store/frame_name.h"

#define PAGE_MASK UINT64_C(4095)

uint64_t profile_value(const struct counter *c, enum profile_of of, bool bytes)
{
    switch (of) {
    case PROFILE_TOTAL:
        return bytes ? c->bytes : c->count;
    case PROFILE_LIVE:
        return bytes ? c->live_bytes : c->live_count;
    case PROFILE_PEAK:
        return bytes ? c->at_peak_bytes : c->at_peak_count;
    default:
        return bytes ? c->temporary_bytes : c->temporary;
    }
}

/* ---- texts */

struct builder {
    struct profile *p;
    const struct trace *trace;
    struct buf raw;  /* a name as in the trace */
    struct buf text; /* the same as UTF-8 */
    struct cut_stacks cut;
};

/* The number of a text; 0 for an empty one. */
static int intern(struct builder *b, struct view raw, uint32_t *number, struct err *e)
{
    *number = 0;
    if (raw.len == 0)
        return 0;
    buf_clear(&b->text);
    format_utf8(&b->text, raw);
    if (b->text.failed)
        return err_no_memory(e, "a profile");
    struct view text = {(const char *)b->text.data, b->text.len};
    return (*number = strings_intern(&b->p->texts, text, e)) ? 0 : -1;
}

/* ---- mappings */

static int add_module(void *ctx, const struct module_fact *m, struct err *e)
{
    struct builder *b = ctx;
    struct profile_mapping mapping = {.start = m->start, .end = m->end, .offset = m->offset};
    if (intern(b, m->path, &mapping.file, e) != 0 ||
        intern(b, m->build_id, &mapping.build_id, e) != 0)
        return -1;
    return vec_push(&b->p->mappings, mapping) ? 0 : err_no_memory(e, "a profile");
}

/* Index + 1 of the module with the address; 0: none. Modules are in order of address. */
static uint32_t find_module(const struct profile *p, uint64_t address)
{
    size_t low = 0;
    BISECT(low, p->modules, i, p->mappings.at[i].end <= address);
    return low < p->modules && p->mappings.at[low].start <= address ? (uint32_t)low + 1 : 0;
}

/* The mapping of an image of which only the name is known. */
static int map_image(struct builder *b, uint32_t image, uint64_t address, uint32_t *mapping,
                     struct err *e)
{
    struct profile *p = b->p;
    bool fresh;
    uint64_t *number = map_add(&p->image_mappings, image, &fresh);
    if (!number)
        return err_no_memory(e, "a profile");
    if (fresh) {
        struct profile_mapping m = {.start = UINT64_MAX};
        if (intern(b, strings_get(&b->trace->strings, image), &m.file, e) != 0)
            return -1;
        *number = p->mappings.len;
        if (!vec_push(&p->mappings, m))
            return err_no_memory(e, "a profile");
    }
    struct profile_mapping *m = &p->mappings.at[*number];
    if (address && (address & ~PAGE_MASK) < m->start)
        m->start = address & ~PAGE_MASK;
    if (address && (address | PAGE_MASK) > m->end)
        m->end = address | PAGE_MASK;
    *mapping = (uint32_t)*number + 1;
    return 0;
}

static int compare_mappings(const void *a, const void *b)
{
    const struct profile_mapping *x = a;
    const struct profile_mapping *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* If several modules were at an address one after another, the first is used. */
static void check_modules(struct profile *p)
{
    size_t kept = 0;
    if (p->mappings.len)
        qsort(p->mappings.at, p->mappings.len, sizeof *p->mappings.at, compare_mappings);
    for (size_t i = 0; i < p->mappings.len; i++) {
        if (kept == 0 || p->mappings.at[i].start >= p->mappings.at[kept - 1].end)
            p->mappings.at[kept++] = p->mappings.at[i];
    }
    p->mappings.len = p->modules = kept;
}

/* ---- locations */

static int add_function(struct builder *b, uint32_t name, uint32_t file, uint32_t *number,
                        struct err *e)
{
    bool fresh;
    uint64_t *at = map_add(&b->p->function_numbers, (uint64_t)name << 32 | file, &fresh);
    if (!at)
        return err_no_memory(e, "a profile");
    if (fresh) {
        *at = b->p->functions.len;
        if (!vec_push(&b->p->functions, (struct profile_function){name, file}))
            return err_no_memory(e, "a profile");
    }
    *number = (uint32_t)*at;
    return 0;
}

static int add_line(struct builder *b, struct profile_location *l, const struct frame_view *f,
                    struct err *e)
{
    uint32_t name;
    uint32_t file;
    struct profile_line line = {.line = f->line};
    buf_clear(&b->raw);
    frame_name(&b->raw, f);
    if (b->raw.failed)
        return err_no_memory(e, "a profile");
    if (intern(b, (struct view){(const char *)b->raw.data, b->raw.len}, &name, e) != 0 ||
        intern(b, f->file, &file, e) != 0 || add_function(b, name, file, &line.function, e) != 0)
        return -1;
    if (!vec_push(&b->p->lines, line))
        return err_no_memory(e, "a profile");
    l->n++;
    l->named |= f->function.len > 0;
    if (l->mapping) {
        struct profile_mapping *m = &b->p->mappings.at[l->mapping - 1];
        m->named |= f->function.len > 0;
        m->lines |= f->line > 0;
        m->inlines |= f->is_inline;
    }
    return 0;
}

/* The number of functions of a frame, from the innermost, that are the client's or called by it. */
static uint32_t inner_client(const struct builder *b, uint32_t frame, uint8_t *client)
{
    static const struct skiplist rules = {0};
    uint32_t depth = frame_depth(b->trace, frame);
    uint32_t n = 0;
    for (uint32_t i = 0; i < depth && !b->p->all_frames; i++) {
        struct frame_view f = frame_describe(b->trace, frame, i);
        bool known = f.function.len > 0 || f.file.len > 0;
        if (known && skiplist_class(&rules, f.function, f.file) == FRAME_INSTRUMENTATION)
            n = i + 1;
    }
    *client = n == 0 ? CLIENT_NONE : n < depth ? CLIENT_INNER : CLIENT_WHOLE;
    return n < depth ? n : 0;
}

/* Describes a frame when its first sample is added. */
static int add_location(struct builder *b, uint32_t frame, struct err *e)
{
    struct profile *p = b->p;
    const struct frame *f = &b->trace->callstacks.frames.at[frame];
    struct profile_location l = {.address = frame_address(f->id), .first = (uint32_t)p->lines.len};
    struct frame_view v;
    if (p->locations.at[frame].n > 0)
        return 0;
    uint32_t first = inner_client(b, frame, &l.client);
    l.mapping = find_module(p, l.address);
    if (l.mapping == 0 && f->image && map_image(b, f->image, l.address, &l.mapping, e) != 0)
        return -1;
    for (uint32_t i = first; i < frame_depth(b->trace, frame); i++) {
        v = frame_describe(b->trace, frame, i);
        if (add_line(b, &l, &v, e) != 0)
            return -1;
    }
    p->locations.at[frame] = l;
    return 0;
}

/* Ends a sample in a location that is no frame of the trace, created at its first use. */
static int add_tail(struct builder *b, struct profile_sample *sample, enum profile_tail tail,
                    const char *text, struct err *e)
{
    struct profile *p = b->p;
    size_t at = b->trace->callstacks.frames.len + tail;
    struct profile_location l = {.first = (uint32_t)p->lines.len, .n = 1};
    struct profile_line line = {0};
    uint32_t name;
    sample->tail = (uint32_t)at + 1;
    if (p->locations.at[at].n > 0)
        return 0;
    if (intern(b, view_of(text), &name, e) != 0 || add_function(b, name, 0, &line.function, e) != 0)
        return -1;
    if (!vec_push(&p->lines, line))
        return err_no_memory(e, "a profile");
    p->locations.at[at] = l;
    return 0;
}

static int add_sample(struct builder *b, const struct summary_row *r, struct err *e)
{
    const struct callstacks *c = &b->trace->callstacks;
    const struct callstack *stack = callstacks_get(c, r->callstack);
    struct profile_sample sample = {r->pool, stack ? r->callstack : 0, 0, r->figures};
    char text[FRAME_CUT_SIZE];
    int status = 0;
    for (uint32_t node = stack ? stack->node : 0; node && status == 0;
         node = c->nodes.at[node].parent)
        status = add_location(b, c->nodes.at[node].frame, e);
    if (status == 0 && (!stack || stack->node == 0)) {
        status = add_tail(b, &sample, TAIL_NO_CALLSTACK, "[no call stack]", e);
    } else if (status == 0 && b->cut.is_bound && cut_stacks_has(&b->cut, r->callstack)) {
        frame_name_cut(text, cut_stacks_depth(&b->cut));
        status = add_tail(b, &sample, TAIL_CUT, text, e);
    }
    if (status != 0)
        return -1;
    return vec_push(&b->p->samples, sample) ? 0 : err_no_memory(e, "a profile");
}

/* ---- all of it */

/* Whether a path ends in the name of the program. */
static bool is_file_of(struct view path, struct view program)
{
    size_t n = program.len;
    if (n == 0 || path.len < n || memcmp(path.p + path.len - n, program.p, n) != 0)
        return false;
    return path.len == n || path.p[path.len - n - 1] == '/';
}

/* pprof assumes that the first mapping is the program. */
static void put_program_first(struct builder *b)
{
    struct profile *p = b->p;
    struct view program = strings_get(&b->trace->strings, b->trace->facts.program);
    size_t found = 0;
    while (found < p->mappings.len &&
           !is_file_of(profile_text(p, p->mappings.at[found].file), program))
        found++;
    if (found == 0 || found == p->mappings.len)
        return;
    struct profile_mapping first = p->mappings.at[0];
    p->mappings.at[0] = p->mappings.at[found];
    p->mappings.at[found] = first;
    for (size_t i = 0; i < p->locations.len; i++) {
        uint32_t *m = &p->locations.at[i].mapping;
        *m = *m == 1 ? (uint32_t)found + 1 : *m == found + 1 ? 1 : *m;
    }
}

static int build(struct builder *b, struct err *e)
{
    struct profile *p = b->p;
    size_t frames = b->trace->callstacks.frames.len;
    if (module_facts_walk(b->trace, add_module, b, e) != 0)
        return -1;
    check_modules(p);
    if (!vec_reserve(&p->locations, frames + TAILS))
        return err_no_memory(e, "a profile");
    memset(p->locations.at, 0, (frames + TAILS) * sizeof *p->locations.at);
    p->locations.len = frames + TAILS;
    if (cut_stacks_init(&b->cut, b->trace, e) != 0)
        return -1;
    for (size_t i = 0; i < p->summary->groups.len; i++)
        cut_stacks_note(&b->cut, p->summary->groups.at[i].callstack);
    for (size_t i = 0; i < p->summary->groups.len; i++) {
        if (add_sample(b, &p->summary->groups.at[i], e) != 0)
            return -1;
    }
    for (size_t i = p->modules; i < p->mappings.len; i++) {
        if (p->mappings.at[i].start == UINT64_MAX)
            p->mappings.at[i].start = 0;
    }
    put_program_first(b);
    return 0;
}

int profile_build(struct profile *p, const struct summary *s, bool all_frames, struct err *e)
{
    *p = (struct profile){.summary = s, .all_frames = all_frames};
    struct builder b = {.p = p, .trace = s->trace};
    strings_init(&p->texts);
    int status = build(&b, e);
    cut_stacks_release(&b.cut);
    buf_release(&b.raw);
    buf_release(&b.text);
    if (status != 0)
        profile_release(p);
    return status;
}

void profile_release(struct profile *p)
{
    strings_release(&p->texts);
    vec_release(&p->functions);
    vec_release(&p->lines);
    vec_release(&p->locations);
    vec_release(&p->mappings);
    vec_release(&p->samples);
    map_release(&p->function_numbers);
    map_release(&p->image_mappings);
}

/* ---- walking */

/* Beyond this number of frames, functions of the client belong to its threads. */
#define CLIENT_FRAMES_MAX 8

/* The innermost node to show. */
static uint32_t first_node(const struct profile *p, uint32_t innermost)
{
    const struct callstacks *c = &p->summary->trace->callstacks;
    uint32_t start = innermost;
    uint32_t node = innermost;
    for (int i = 0; node && i < CLIENT_FRAMES_MAX; i++, node = c->nodes.at[node].parent) {
        uint8_t client = p->locations.at[c->nodes.at[node].frame].client;
        if (client == CLIENT_INNER)
            start = node;
        else if (client == CLIENT_WHOLE && c->nodes.at[node].parent)
            start = c->nodes.at[node].parent;
    }
    return start;
}

struct profile_walk profile_walk_start(const struct profile *p, const struct profile_sample *s)
{
    const struct callstack *stack = callstacks_get(&p->summary->trace->callstacks, s->callstack);
    return (struct profile_walk){p, stack ? first_node(p, stack->node) : 0, s->tail};
}

bool profile_walk_next(struct profile_walk *w, uint32_t *location)
{
    const struct callstacks *c = &w->profile->summary->trace->callstacks;
    if (w->node == 0) {
        uint32_t tail = w->tail;
        w->tail = 0;
        *location = tail - 1;
        return tail != 0;
    }
    *location = c->nodes.at[w->node].frame;
    w->node = c->nodes.at[w->node].parent;
    return true;
}
