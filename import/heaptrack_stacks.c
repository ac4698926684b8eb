#include "import/heaptrack_stacks.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/order.h"

/* heaptrack records at most 64. */
#define FRAMES_MAX 255u
#define INLINES_MAX 255u

/* The most segments at one time; further ones are left out. */
#define MODULES_MAX 16384u

/* The most segments waiting to be sorted. */
#define MODULES_NEWEST 128u

void heaptrack_stacks_release(struct heaptrack_stacks *s)
{
    vec_release(&s->strings);
    vec_release(&s->functions);
    vec_release(&s->ips);
    vec_release(&s->traces);
    vec_release(&s->modules);
    map_release(&s->by_address);
}

static bool list_full(size_t len)
{
    return len >= UINT32_MAX - 1;
}

/* ---- interpreted files */

int heaptrack_string_line(struct heaptrack_stacks *s, struct heaptrack_line *line, struct err *e)
{
    struct view text = {line->p, (size_t)(line->end - line->p)};
    uint64_t len;
    int understood = 1;
    if (s->sized) {
        understood = heaptrack_number(line, &len) && len <= (uint64_t)(line->end - line->p);
        text = (struct view){line->p, understood ? len : (size_t)(line->end - line->p)};
    }
    /* Later lines refer to it by position, so it must get a number. */
    uint32_t number = strings_intern(&s->in->trace->strings, text, e);
    if (!number)
        return -1;
    return vec_push(&s->strings, number) ? understood : err_no_memory(e, "call stacks");
}

static uint32_t string_at(const struct heaptrack_stacks *s, uint64_t number)
{
    return number && number <= s->strings.len ? s->strings.at[number - 1] : 0;
}

static bool read_function(struct heaptrack_line *line, struct heaptrack_function *f)
{
    uint64_t function, file, number;
    if (!heaptrack_number(line, &function))
        return false;
    /* A function without a file is the only field: heaptrack_interpret leaves out unknown values.
     */
    bool placed = heaptrack_number(line, &file) && heaptrack_number(line, &number);
    *f = (struct heaptrack_function){.function = (uint32_t)function,
                                     .file = placed ? (uint32_t)file : 0,
                                     .line = placed ? (uint32_t)number : 0};
    return true;
}

int heaptrack_ip_line(struct heaptrack_stacks *s, struct heaptrack_line *line, struct err *e)
{
    struct heaptrack_ip ip = {.first = (uint32_t)s->functions.len};
    struct heaptrack_function f;
    uint64_t module = 0;
    bool understood = heaptrack_number(line, &ip.address) && heaptrack_number(line, &module);
    ip.image = string_at(s, module);
    if (list_full(s->functions.len + INLINES_MAX) || list_full(s->ips.len))
        return err_set(e, ERR_INPUT, "too many instruction pointers");
    while (understood && ip.n < INLINES_MAX && read_function(line, &f)) {
        if (!vec_push(&s->functions, f))
            return err_no_memory(e, "call stacks");
        ip.n++;
    }
    return vec_push(&s->ips, ip) ? understood : err_no_memory(e, "call stacks");
}

/* ---- raw files */

int heaptrack_exe_line(struct heaptrack_stacks *s, struct heaptrack_line *line, struct err *e)
{
    struct view text;
    if (!heaptrack_text(line, s->sized, &text))
        return 0;
    s->raw = true;
    s->exe = strings_intern(&s->in->trace->strings, text, e);
    return s->exe ? 1 : -1;
}

/* The segment at an address: the last that begins at or before it; of several, the newest. */
static const struct heaptrack_module *module_at(const struct heaptrack_stacks *s, uint64_t address)
{
    size_t low = 0;
    BISECT(low, s->in_order, at, s->modules.at[at].start <= address);
    const struct heaptrack_module *m = low ? &s->modules.at[low - 1] : NULL;
    for (size_t i = s->in_order; i < s->modules.len; i++) {
        const struct heaptrack_module *newer = &s->modules.at[i];
        if (newer->start <= address && (!m || newer->start >= m->start))
            m = newer;
    }
    return m && address < m->end ? m : NULL;
}

/* Merges the newest segments into the sorted ones; the newer of two equal ones comes later. */
static void sort_newest(struct heaptrack_stacks *s)
{
    struct heaptrack_module newest[MODULES_NEWEST], *all = s->modules.at;
    size_t n = s->modules.len - s->in_order, old = s->in_order;
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        for (; at > 0 && newest[at - 1].start > all[old + i].start; at--)
            newest[at] = newest[at - 1];
        newest[at] = all[old + i];
    }
    for (size_t to = s->modules.len; n > 0; to--) {
        bool is_old = old > 0 && all[old - 1].start > newest[n - 1].start;
        all[to - 1] = is_old ? all[--old] : newest[--n];
    }
    s->in_order = s->modules.len;
}

/* Sorts segments in batches, since a file can have very many. */
static int add_segment(struct heaptrack_stacks *s, const struct heaptrack_module *m, struct err *e)
{
    if (s->modules.len - s->in_order == MODULES_NEWEST)
        sort_newest(s);
    return vec_push(&s->modules, *m) ? 0 : err_no_memory(e, "call stacks");
}

int heaptrack_module_line(struct heaptrack_stacks *s, struct heaptrack_line *line, struct err *e)
{
    struct heaptrack_module m = {0};
    struct view name;
    uint64_t start, size;
    s->raw = true;
    if (!heaptrack_text(line, s->sized, &name))
        return 0;
    if (view_equal(name, view_of("-"))) { /* a full new list follows */
        s->modules.len = s->in_order = 0;
        return 1;
    }
    if (!heaptrack_number(line, &m.base))
        return 0;
    m.image =
        view_equal(name, view_of("x")) ? s->exe : strings_intern(&s->in->trace->strings, name, e);
    if (!m.image && e->code)
        return -1;
    while (heaptrack_number(line, &start) && heaptrack_number(line, &size)) {
        m.start = m.base + start;
        if (__builtin_add_overflow(m.start, size, &m.end))
            continue;
        if (s->modules.len == MODULES_MAX)
            return 0;
        if (add_segment(s, &m, e) != 0)
            return -1;
    }
    return 1;
}

static int raw_ip(struct heaptrack_stacks *s, uint64_t address, uint32_t *ip, struct err *e)
{
    bool fresh;
    if (list_full(s->ips.len))
        return err_set(e, ERR_INPUT, "too many instruction pointers");
    uint64_t *index = map_add(&s->by_address, address, &fresh);
    if (!index)
        return err_no_memory(e, "call stacks");
    if (fresh) {
        const struct heaptrack_module *m = module_at(s, address);
        struct heaptrack_ip made = {.address = address};
        if (m) {
            made.image = m->image;
            made.offset = address - m->base;
        }
        *index = s->ips.len;
        if (!vec_push(&s->ips, made))
            return err_no_memory(e, "call stacks");
    }
    *ip = (uint32_t)*index;
    return 0;
}

/* ---- traces */

int heaptrack_trace_line(struct heaptrack_stacks *s, struct heaptrack_line *line, struct err *e)
{
    struct heaptrack_trace t = {0};
    uint64_t ip = 0, parent = 0;
    bool understood = heaptrack_number(line, &ip) && heaptrack_number(line, &parent);
    if (list_full(s->traces.len))
        return err_set(e, ERR_INPUT, "too many call stacks");
    /* A caller's trace precedes those of its callees, so a chain has no cycles. */
    understood = understood && parent <= s->traces.len;
    if (understood && (s->raw || s->ips.len == 0)) {
        if (raw_ip(s, ip, &t.ip, e) != 0)
            return -1;
    } else if (understood && ip && ip <= s->ips.len) {
        t.ip = (uint32_t)ip - 1;
    } else {
        t.ip = UINT32_MAX;
    }
    t.parent = understood ? (uint32_t)parent : 0;
    return vec_push(&s->traces, t) ? understood && t.ip != UINT32_MAX
                                   : err_no_memory(e, "call stacks");
}

/* Names a frame without a function by its location in its image. */
static void name_by_place(const struct heaptrack_stacks *s, const struct heaptrack_ip *ip,
                          struct buf *to)
{
    struct view image = strings_get(&s->in->trace->strings, ip->image);
    const char *slash = image.len ? memrchr(image.p, '/', image.len) : NULL;
    if (slash)
        image = (struct view){slash + 1, (size_t)(image.p + image.len - slash - 1)};
    if (ip->image && s->raw) {
        buf_put(to, image.p, image.len);
        buf_printf(to, "+0x%" PRIx64, ip->offset);
    } else {
        buf_printf(to, "0x%" PRIx64, ip->address);
    }
}

/* Gives the ingest the functions of an address. */
static int tell_frame(struct heaptrack_stacks *s, struct heaptrack_ip *ip, struct err *e)
{
    const struct strings *strings = &s->in->trace->strings;
    struct event_inline inlines[INLINES_MAX] = {0};
    struct buf name = {0};
    unsigned n = 0;
    ip->told = true;
    name_by_place(s, ip, &name);
    struct view place = view_of(buf_str(&name));
    for (; n < ip->n; n++) {
        const struct heaptrack_function *f = &s->functions.at[ip->first + n];
        uint32_t function = string_at(s, f->function);
        inlines[n] =
            (struct event_inline){.function = function ? strings_get(strings, function) : place,
                                  .file = strings_get(strings, string_at(s, f->file)),
                                  .line = f->line};
    }
    if (n == 0)
        inlines[n++] = (struct event_inline){.function = place, .file = view_of("")};
    const struct event ev = {.kind = EVENT_CALLSTACK_FRAME,
                             .frames = {.address = ip->address,
                                        .image = strings_get(strings, ip->image),
                                        .n = (uint8_t)n,
                                        .inlines = inlines}};
    int status =
        name.failed ? err_no_memory(e, "call stacks") : s->in->sink.event(s->in->sink.ctx, &ev, e);
    buf_release(&name);
    return status;
}

int heaptrack_callstack(struct heaptrack_stacks *s, uint64_t trace, uint32_t *callstack,
                        bool *known, struct err *e)
{
    uint64_t frames[FRAMES_MAX];
    uint32_t ips[FRAMES_MAX], n = 0;
    bool fresh;
    *callstack = 0;
    *known = trace <= s->traces.len;
    if (trace == 0 || !*known)
        return 0;
    struct heaptrack_trace *first = &s->traces.at[trace - 1];
    if (first->callstack) {
        *callstack = first->callstack;
        return 0;
    }
    uint64_t at = trace;
    for (unsigned depth = 0; at && depth < FRAMES_MAX; depth++) {
        uint32_t ip = s->traces.at[at - 1].ip;
        at = s->traces.at[at - 1].parent;
        if (ip == UINT32_MAX)
            continue;
        ips[n] = ip;
        frames[n++] = s->ips.at[ip].address & ((UINT64_C(1) << 62) - 1);
    }
    if (n == 0)
        return 0;
    if (s->in->sink.callstack(s->in->sink.ctx, frames, n, &first->callstack, &fresh, e) != 0)
        return -1;
    *callstack = first->callstack;
    for (uint32_t i = 0; i < n; i++) {
        if (!s->ips.at[ips[i]].told && tell_frame(s, &s->ips.at[ips[i]], e) != 0)
            return -1;
    }
    return 0;
}
