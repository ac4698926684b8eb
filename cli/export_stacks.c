#include "cli/export_stacks.h"

#include "analysis/figures/summary.h"
#include "analysis/questions/stack_profile.h"
#include "cli/options/options.h"

int export_load(void *ctx, struct trace *t, const struct trace_load_options *options, struct err *e)
{
    const struct export_input *in = ctx;
    if (trace_load_with(t, in->path, options, NULL, NULL, e) != 0)
        return -1;
    print_behind(in->path, t->behind);
    return resolve_request_names(in->resolve, in->resolver, t, e);
}

static int write_stacks(const struct export_stacks *x, struct trace *t, FILE *out, struct err *e)
{
    const struct selection_options *only = &x->input->only;
    const struct trace_load_options load = {.zones = only->zone != NULL, .frames = only->has_frame};
    const struct summary_options options = {.by = GROUP_CALLSTACK, .only = only};
    struct summary s;
    struct profile p;
    if (export_load(x->input, t, &load, e) != 0 || summary_build(&s, t, &options, e) != 0)
        return -1;
    int status = profile_build(&p, &s, x->all_frames, e);
    if (status == 0) {
        status = x->write(&p, &x->options, out, e);
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
