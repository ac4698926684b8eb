/* Conclusions of a summary: coverage of call stacks and names, checks, and one sentence. */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/figures/cut_stacks.h"
#include "analysis/figures/no_data.h"
#include "analysis/figures/summary_parts.h"
#include "base/format.h"
#include "base/saturate.h"
#include "trace/store/frame_name.h"

/* ---- coverage */

/* Counts the frames of a call stack that are new. Marks are bits per frame or node. */
static void cover_callstack(struct summary *s, uint32_t callstack, uint8_t *frames, uint8_t *nodes)
{
    const struct callstacks *c = &s->trace->callstacks;
    const struct callstack *stack = callstacks_get(c, callstack);
    for (uint32_t node = stack ? stack->node : 0; node; node = c->nodes.at[node].parent) {
        /* The rest of the path to the root was counted before. */
        if (nodes[node / 8] & 1u << node % 8)
            return;
        nodes[node / 8] |= (uint8_t)(1u << node % 8);
        uint32_t frame = c->nodes.at[node].frame;
        if (frames[frame / 8] & 1u << frame % 8)
            continue;
        frames[frame / 8] |= (uint8_t)(1u << frame % 8);
        struct frame_view v = frame_describe(s->trace, frame, frame_depth(s->trace, frame) - 1);
        if (frame_name_is_cut(v.function))
            continue;
        s->coverage.frames++;
        s->coverage.named += v.has_name;
    }
}

static int cover_cut(struct summary *s, const struct accounting *by_callstack, struct err *e)
{
    struct summary_coverage *cover = &s->coverage;
    struct cut_stacks cut;
    uint32_t id;
    struct counter c;
    if (cut_stacks_init(&cut, s->trace, e) != 0)
        return -1;
    for (int look = 0; look < 2; look++) {
        for (uint32_t pool = 0; pool < s->pools.len; pool++) {
            uint64_t iter = 0;
            while (accounting_next(by_callstack, pool, &iter, &id, &c)) {
                if (look == 0) {
                    cut_stacks_note(&cut, id);
                } else if (cut_stacks_has(&cut, id)) {
                    cover->cut += c.count;
                    cover->cut_bytes = saturating_add(cover->cut_bytes, c.bytes);
                }
            }
        }
    }
    cover->cut_is_bound = cut.is_bound;
    cover->cut_depth = cover->cut ? cut_stacks_depth(&cut) : 0;
    cover->cut_deeper = cut.depths_differ;
    cut_stacks_release(&cut);
    return 0;
}

int summary_cover(struct summary *s, const struct accounting *by_callstack, struct err *e)
{
    uint8_t *frames = calloc(s->trace->callstacks.frames.len / 8 + 1, 1);
    uint8_t *nodes = calloc(s->trace->callstacks.nodes.len / 8 + 1, 1);
    for (uint32_t pool = 0; frames && nodes && pool < s->pools.len; pool++) {
        uint64_t iter = 0;
        uint32_t id;
        struct counter c;
        while (accounting_next(by_callstack, pool, &iter, &id, &c)) {
            const struct callstack *stack = callstacks_get(&s->trace->callstacks, id);
            s->coverage.allocations += c.count;
            s->coverage.with_callstack += stack ? c.count : 0;
            s->coverage.shallow += stack && stack->len <= SUMMARY_SHALLOW ? c.count : 0;
            cover_callstack(s, id, frames, nodes);
        }
    }
    int status = frames && nodes ? 0 : err_no_memory(e, "call stacks");
    free(frames);
    free(nodes);
    return status == 0 ? cover_cut(s, by_callstack, e) : -1;
}

/* ---- the sentence */

static void say_no_data(struct summary *s)
{
    const struct trace *t = s->trace;
    struct buf *v = &s->verdict;
    for (size_t i = 0; i < t->memory.pools.len; i++) {
        if (t->memory.pools.at[i]->totals.allocations &&
            selection_is_narrow(&s->selection.options)) {
            buf_puts(v, "no allocation is as wanted");
            return;
        }
    }
    buf_puts(v, "no memory data: ");
    s->causes = no_data_explain(t, s->unknown_frees, v);
    no_data_put_causes(v, s->causes);
}

const struct summary_pool *summary_highest_pool(const struct summary *s)
{
    const struct summary_pool *high = &s->pools.at[0];
    for (size_t i = 1; i < s->pools.len; i++) {
        bool container = s->pools.at[i].sum == POOL_CONTAINER;
        if (high->sum == POOL_CONTAINER ||
            (!container && s->pools.at[i].figures.peak_bytes > high->figures.peak_bytes))
            high = &s->pools.at[i];
    }
    return high;
}

static void say_figures(struct summary *s)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    struct buf *v = &s->verdict;
    size_t of[POOL_CONTAINER + 1] = {0};
    for (size_t i = 0; i < s->pools.len; i++)
        of[s->pools.at[i].sum]++;
    buf_printf(v, "%s in %s", format_counted(a, s->allocations + s->frees, "memory event"),
               format_counted(b, of[POOL_COUNTS], "pool"));
    buf_printf(v, ": %s (%s)", format_counted(a, s->allocations, "allocation"),
               format_bytes(b, s->total_bytes));
    buf_printf(v, ", %s", format_counted(a, s->frees, "free"));
    if (s->live == 0)
        buf_puts(v, "; nothing is still live");
    else
        buf_printf(v, "; %s still live (%s)", format_count(a, s->live),
                   format_bytes(b, s->live_bytes));
    if (s->permanent && !s->selection.has_at)
        buf_printf(v, ", of which the C and C++ libraries and the loader keep %s (%s) to the end",
                   format_count(a, s->permanent), format_bytes(b, s->permanent_bytes));
    const struct summary_pool *high = summary_highest_pool(s);
    buf_printf(v, "; peak %s", format_bytes(a, high->figures.peak_bytes));
    if (s->pools.len > 1) {
        buf_puts(v, " in pool ");
        format_terminal(v, high->name);
    }
    if (of[POOL_CONTAINED])
        buf_printf(
            v, "; not counted: %s of the program's Tracy client, whose blocks may lie in malloc's",
            format_counted(a, of[POOL_CONTAINED], "pool"));
    if (of[POOL_CONTAINER])
        buf_printf(v, "; not counted: %s of memory in which the others' blocks lie",
                   format_counted(a, of[POOL_CONTAINER], "pool"));
}

/* The number in a fact; 0 if there is none. */
static uint64_t fact_number(const struct summary *s, const char *key)
{
    return trace_fact_number(s->trace, key);
}

/* Whether the process was running when its recording began. */
static bool was_attached(const struct summary *s)
{
    static const char word[] = ", attached";
    struct view how = trace_fact(s->trace, "recorded", 0);
    return how.p && memmem(how.p, how.len, word, sizeof word - 1);
}

/* What a recording by the preload library lacks, intentionally or not. */
static void say_recording(struct summary *s)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE];
    uint64_t dropped = fact_number(s, "dropped_allocations");
    struct view threads = trace_fact(s->trace, "threads", 0);
    uint64_t paused = fact_number(s, "paused_allocations");
    uint64_t sampling = fact_number(s, "sampling"), least = fact_number(s, "min_size");
    uint64_t lost = fact_number(s, "lost_allocations");
    uint64_t missed = fact_number(s, "missed_frees");
    uint64_t left = fact_number(s, "left_blocks");
    uint64_t capped = fact_number(s, "capped_sizes");
    struct view heap = trace_fact(s->trace, "runtime_heap", 0);
    if (heap.p) {
        buf_puts(&s->verdict, "; objects in the heap of ");
        format_terminal(&s->verdict, heap);
        buf_puts(&s->verdict, " were not recorded");
    }
    if (left)
        buf_printf(&s->verdict, "; %s (%s) freed by the end of a process only",
                   format_counted(a, left, "block"), format_bytes(b, fact_number(s, "left_bytes")));
    if (sampling)
        buf_printf(&s->verdict,
                   "; bytes are estimates from one sample in every %s, counts are those of samples",
                   format_bytes(a, sampling));
    if (capped)
        buf_printf(&s->verdict, "; %s of 256 TiB stand for more",
                   format_counted(a, capped, "size"));
    if (least)
        buf_printf(&s->verdict, "; blocks below %s were not recorded", format_bytes(a, least));
    if (lost)
        buf_printf(&s->verdict, "; %s lost", format_counted(a, lost, "allocation"));
    if (s->unknown_frees && !s->partial && was_attached(s))
        buf_printf(&s->verdict, "; %s of blocks from before the recording began",
                   format_counted(a, s->unknown_frees, "free"));
    if (missed)
        buf_printf(&s->verdict,
                   "; at least %s were not seen: what is live may be less (calls through pointers "
                   "that the program stored before the recording began are not recorded)",
                   format_counted(a, missed, "free"));
    if (threads.p) {
        buf_puts(&s->verdict, "; allocations of some threads only: ");
        format_terminal(&s->verdict, threads);
    }
    if (paused)
        buf_printf(&s->verdict, "; %s of %s left out while the recording was paused",
                   format_counted(a, paused, "allocation"),
                   format_bytes(b, fact_number(s, "paused_bytes")));
    if (dropped)
        buf_printf(&s->verdict, "; %s of %s dropped, since the buffer was full",
                   format_counted(a, dropped, "allocation"),
                   format_bytes(b, fact_number(s, "dropped_bytes")));
}

static void say_cut(struct summary *s)
{
    const struct summary_coverage *c = &s->coverage;
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    if (c->cut)
        buf_printf(&s->verdict,
                   "; call stacks of %s%s of allocations (%s of bytes) are cut at %u frames%s",
                   c->cut_is_bound ? "at least " : "", format_percent(a, c->cut, c->allocations),
                   format_percent(b, c->cut_bytes, s->total_bytes), c->cut_depth,
                   c->cut_deeper ? " or more" : "");
}

static void say_notes(struct summary *s)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    uint64_t sure;
    uint64_t faults = summary_count_faults(s, &sure);
    if (s->partial)
        buf_printf(&s->verdict,
                   "; size threshold or late start: %s of %s frees are of blocks whose allocation "
                   "was never reported",
                   format_count(a, s->unknown_frees),
                   format_count(b, s->unknown_frees + s->matched_frees));
    else if (faults)
        buf_printf(&s->verdict, "; %s%s", sure < faults ? "up to " : "",
                   format_counted(a, faults, "memory fault"));
    if (s->total_bytes == SATURATED)
        buf_puts(&s->verdict, "; sums of 16 EiB stand for more");
    say_cut(s);
    if (s->continued)
        buf_puts(&s->verdict, "; the trace goes on in the next part");
    else if (!s->complete)
        buf_puts(&s->verdict, "; the trace is incomplete");
    say_recording(s);
}

/* ---- checks */

static struct summary_check *add_check(struct summary *s, const char *name, bool holds)
{
    if (!vec_push(&s->checks, (struct summary_check){.name = name, .holds = holds}))
        return NULL;
    return &s->checks.at[s->checks.len - 1];
}

static bool check(struct summary *s, const char *name, bool holds, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static bool check(struct summary *s, const char *name, bool holds, const char *fmt, ...)
{
    struct summary_check *c = add_check(s, name, holds);
    if (!c)
        return false;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->detail, sizeof c->detail, fmt, ap);
    va_end(ap);
    return true;
}

/* The remedy of the check added last, if that failed. */
static void set_remedy(struct summary *s, const char *text)
{
    struct summary_check *c = &s->checks.at[s->checks.len - 1];
    c->remedy = c->holds ? NULL : text;
}

static bool check_data(struct summary *s)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    const struct summary_coverage *c = &s->coverage;
    if (s->allocations == 0)
        return check(s, "memory-data", false, "%s", buf_str(&s->verdict));
    if (!check(s, "memory-data", true, "%s", format_counted(a, s->allocations, "allocation")) ||
        !check(s, "call-stacks", c->with_callstack >= c->allocations - c->with_callstack,
               "%s of %s allocations have a call stack", format_count(a, c->with_callstack),
               format_count(b, c->allocations)))
        return false;
    set_remedy(s, "a client sends call stacks with TRACY_CALLSTACK or TracyAllocS, and `tidemark "
                  "run` records them");
    if (c->frames == 0)
        return true;
    if (!check(s, "symbols", c->named >= c->frames - c->named,
               "%s of %s frames of allocations have a name", format_count(a, c->named),
               format_count(b, c->frames)))
        return false;
    set_remedy(s, "`tidemark symbols FILE -o FILE` finds names where the programs and their debug "
                  "information are");
    return true;
}

/* The number of faults of a kind, and whether it is a bound. */
static uint64_t count_kind(const struct summary *s, enum memory_fault_kind kind, bool *is_bound)
{
    uint64_t most = 0;
    *is_bound = false;
    for (size_t i = 0; i < s->faults.len; i++) {
        const struct summary_fault *f = &s->faults.at[i];
        if (f->kind != kind)
            continue;
        most = saturating_add(most, f->count);
        *is_bound |= f->least < f->count;
    }
    return most;
}

static bool check_faults(struct summary *s)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    bool frees_bound;
    bool twice_bound;
    uint64_t unknown = count_kind(s, FAULT_FREE_UNKNOWN, &frees_bound);
    uint64_t twice = count_kind(s, FAULT_ALLOC_TWICE, &twice_bound);
    if (s->partial)
        unknown = 0;
    if (!check(s, "no-faults", unknown == 0 && twice == 0 && s->faults_left_out == 0,
               "%s%s of unknown addresses, %s%s at live addresses",
               unknown && frees_bound ? "up to " : "", format_counted(a, unknown, "free"),
               twice_bound ? "up to " : "", format_counted(b, twice, "allocation")))
        return false;
    set_remedy(s, "`tidemark report FILE --faults` lists them with their call stacks");
    return true;
}

static bool check_trace(struct summary *s)
{
    uint64_t disorder = 0;
    for (size_t i = 0; i < s->trace->memory.pools.len; i++)
        disorder += s->trace->memory.pools.at[i]->disorder;
    char a[FORMAT_SIZE];
    struct view why = trace_fact(s->trace, "incomplete", 0);
    if (!check(s, "whole-lifetimes", !s->partial,
               s->partial ? "most frees are of blocks whose allocation was never reported: "
                            "size threshold or late start"
                          : "frees match allocations"))
        return false;
    set_remedy(s, "record from the start of the program, and without a size threshold");
    bool ok;
    if (s->continued)
        ok = check(s, "complete", false, "the trace goes on in the next part");
    else if (!s->complete)
        ok = check(s, "complete", false, "the trace is incomplete: %.*s",
                   why.len > 200 ? 200 : (int)why.len, why.p);
    else
        ok = check(s, "complete", true, "the trace does not say that it is incomplete");
    uint64_t lost = fact_number(s, "lost_allocations") + fact_number(s, "lost_frees") +
                    fact_number(s, "lost_damaged") + fact_number(s, "dropped_allocations") +
                    fact_number(s, "dropped_notes") + fact_number(s, "missed_frees");
    if (lost)
        ok = ok && check(s, "nothing-lost", false, "%s of the recording lost",
                         format_counted(a, lost, "event"));
    if (disorder)
        ok = ok &&
             check(s, "order", false, "%s out of order", format_counted(a, disorder, "allocation"));
    if (s->peak_bounds)
        ok = ok && check(s, "site-peaks", false,
                         "%s of sites are lower bounds: call stacks were divided into sites "
                         "otherwise while they were counted",
                         format_counted(a, s->peak_bounds, "peak"));
    if (s->trace->behind[0])
        ok = ok && check(s, "whole-file", false, "%s", s->trace->behind);
    return ok;
}

int summary_judge(struct summary *s, struct err *e)
{
    uint64_t allocations = 0;
    for (size_t i = 0; i < s->trace->memory.pools.len; i++) {
        s->matched_frees += s->trace->memory.pools.at[i]->totals.frees;
        allocations |= s->trace->memory.pools.at[i]->totals.allocations;
    }
    s->empty = !allocations && !s->unknown_frees;
    s->partial = s->unknown_frees > s->matched_frees;
    if (s->allocations == 0) {
        say_no_data(s);
    } else {
        say_figures(s);
        say_notes(s);
    }
    if (s->verdict.failed || !check_data(s) || !check_faults(s) || !check_trace(s))
        return err_no_memory(e, "the summary");
    return 0;
}
