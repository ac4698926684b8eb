#include "analysis/figures/no_data.h"

#include <string.h>

#include "base/format.h"

/*
 * Whether an inlined function at a frame is one of the client's memory functions, in which call
 * stacks of memory events begin (server/TracyWorker.cpp @ v0.9.1 … v0.14.0).
 */
static bool is_memory_frame(const struct trace *t, uint32_t number)
{
    static const char *const functions[] = {"tracy::Profiler::MemAlloc", "tracy::Profiler::MemFree",
                                            "___tracy_emit_memory"};
    const struct frame *f = &t->callstacks.frames.at[number];
    for (uint32_t i = 0; i < f->n; i++) {
        struct view name =
            strings_get(&t->strings, t->callstacks.inlines.at[f->first + i].function);
        for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
            if (memmem(name.p, name.len, functions[k], strlen(functions[k])))
                return true;
        }
    }
    return false;
}

/*
 * Counts call stacks whose innermost frame is one of these. Other frames are no evidence: the table
 * also has a frame for each instruction of the code that the client sent.
 */
static uint64_t count_memory_stacks(const struct trace *t)
{
    const struct callstacks *c = &t->callstacks;
    uint64_t n = 0;
    for (size_t i = 0; i < c->list.len; i++)
        n += c->list.at[i].node && is_memory_frame(t, c->nodes.at[c->list.at[i].node].frame);
    return n;
}

static unsigned explain_no_event(const struct trace *t, struct buf *out)
{
    char n[FORMAT_SIZE];
    uint64_t stacks = count_memory_stacks(t);
    unsigned stripped = t->facts.file_version ? NO_DATA_STRIPPED : 0; /* it comes from a file */
    buf_puts(out, "the trace has no memory event");
    if (stacks)
        buf_printf(out, ", but %s beginning in the client's memory functions",
                   format_counted(n, stacks, "call stack"));
    else if (trace_fact(t, "imported", 0).p)
        buf_puts(out, "; it was imported");
    else if (!trace_fact(t, "recorded", 0).p)
        return stripped | NO_DATA_NO_HOOKS | NO_DATA_NO_PRELOAD | NO_DATA_NO_CHANNEL |
               (t->facts.on_demand ? NO_DATA_LATE : 0);
    return stripped;
}

unsigned no_data_explain(const struct trace *t, uint64_t unknown_frees, struct buf *out)
{
    char n[FORMAT_SIZE];
    struct view why = trace_fact(t, "nothing_recorded", 0);
    if (why.p) {
        format_terminal(out, why);
        return 0;
    }
    if (unknown_frees) {
        buf_printf(out, "%s came, but not one allocation of a block",
                   format_counted(n, unknown_frees, "free"));
        return NO_DATA_LATE | NO_DATA_THRESHOLD;
    }
    if (t->memory.pools.len == 0) {
        buf_puts(out, "it was stripped from this trace (a capture always holds a memory pool, "
                      "this file holds none)");
        return 0;
    }
    return explain_no_event(t, out);
}

const char *no_data_cause(unsigned i)
{
    static const char *const causes[NO_DATA_CAUSES] = {
        "the program was built without allocation hooks (TracyAlloc and TracyFree, TracyCAlloc and "
        "TracyCFree)",
        "the preload library that reports allocations was not active (LD_PRELOAD; Kit: "
        "liballocwrapper.so)",
        "a channel was disabled (Kit: cpu.memory, graphics.memory)",
        "the recording began after the allocations (connected late, or attached)",
        "the program reports only blocks above a size",
        "memory events were stripped or cut out (update -s M, --range, --keep-pools)",
    };
    return causes[i];
}

void no_data_put_causes(struct buf *out, unsigned causes)
{
    const char *before = "; possible causes: ";
    for (unsigned i = 0; i < NO_DATA_CAUSES; i++) {
        if (!(causes & 1u << i))
            continue;
        buf_puts(out, before);
        buf_puts(out, no_data_cause(i));
        before = "; ";
    }
}

void no_data_put_stack_settings(struct buf *out, const struct trace *t)
{
    if (trace_fact(t, "recorded", 0).p)
        buf_puts(out, "`tidemark run --depth` sets how deep they are");
    else
        buf_puts(out, "settings that govern them: TRACY_CALLSTACK when building, or the depth that "
                      "TracyAllocS is given; Kit's memoryTraceStackCaptureDepth; "
                      "TRACY_USE_LIB_UNWIND_FOR_BT=1 in the program's environment");
}
