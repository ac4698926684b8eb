#include "cli/export_stacks.h"

#include "analysis/stack_profile.h"
#include "analysis/summary.h"
#include "trace/load.h"

static int write_profile(const struct export_stacks *x, const struct profile *p, FILE *out,
                         struct err *e)
{
    switch (x->format) {
    case STACKS_FOLDED:
        return folded_write(p, &x->options, out, e);
    case STACKS_PPROF:
        return pprof_write(p, out, e);
    case STACKS_SPEEDSCOPE:
        return speedscope_write(p, &x->options, out, e);
    }
    return 0;
}

static int write_stacks(const struct export_stacks *x, struct trace *t, FILE *out, struct err *e)
{
    const struct summary_options options = {.by = GROUP_CALLSTACK};
    struct summary s;
    struct profile p;
    if (trace_load(t, x->trace, NULL, NULL, e) != 0 || summary_build(&s, t, &options, e) != 0)
        return -1;
    int status = profile_build(&p, &s, x->all_frames, e);
    if (status == 0) {
        status = write_profile(x, &p, out, e);
        profile_release(&p);
    }
    summary_release(&s);
    return status;
}

int export_stacks(const struct export_stacks *x, FILE *out, struct err *e)
{
    struct trace t;
    if (trace_init(&t, NULL, e) != 0)
        return -1;
    int status = write_stacks(x, &t, out, e);
    trace_release(&t);
    return status;
}
