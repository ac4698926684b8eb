#include "cli/export_stacks.h"

#include "analysis/figures/stream_figures.h"
#include "analysis/figures/summary.h"
#include "analysis/questions/stack_profile.h"
#include "trace/load/load_beside.h"
#include "base/print_error.h"

static int name_frames(const struct export_input *in, struct trace *t, struct err *e)
{
    print_behind(in->path, t->behind);
    return resolve_request_names(in->resolve, in->resolver, t, e);
}

void export_watch(struct export_input *in, struct trace *t)
{
    in->progress = progress_of_file(in->path, in->quiet);
    progress_watch(&in->progress, t);
}

int export_load(void *ctx, struct trace *t, const struct trace_load_options *options, struct err *e)
{
    struct export_input *in = ctx;
    export_watch(in, t);
    return trace_load_with(t, in->path, options, NULL, NULL, e) == 0 &&
                   trace_load_resident(t, in->path, e) == 0
               ? name_frames(in, t, e)
               : -1;
}

static int write_stacks(const struct export_stacks *x, struct trace *t, FILE *out, struct err *e)
{
    struct summary_options options = {.by = GROUP_CALLSTACK, .only = &x->input->only};
    struct stream_figures stream;
    struct summary s;
    struct profile p;
    int status = summary_load(&stream, t, x->input->path, &options, NULL, NULL, e);
    if (status == 0)
        status = name_frames(x->input, t, e);
    if (status == 0)
        status = summary_build(&s, t, &options, e);
    stream_figures_release(&stream);
    if (status != 0)
        return -1;
    status = profile_build(&p, &s, x->all_frames, e);
    if (status == 0) {
        status = x->write(&p, &x->options, out, e);
        profile_release(&p);
    }
    summary_release(&s);
    return status;
}

int export_stacks(const struct export_stacks *x, FILE *out, struct err *e)
{
    const struct trace_options store = {.resident_budget = x->input->resident_budget};
    struct trace t;
    if (trace_init(&t, &store, e) != 0)
        return -1;
    export_watch(x->input, &t);
    int status = write_stacks(x, &t, out, e);
    trace_release(&t);
    return status;
}
