#include "trace/merge/merge.h"

#include <stdlib.h>

#include "trace/merge/merge_internal.h"

static void release_input(struct merge_input *in)
{
    vec_release(&in->strings);
    map_release(&in->keys);
    map_release(&in->texts);
    vec_release(&in->pointers);
    vec_release(&in->thread_names);
    map_release(&in->named_threads);
    vec_release(&in->external_names);
    vec_release(&in->local_threads);
    vec_release(&in->external_threads);
    vec_release(&in->locations);
    vec_release(&in->payloads);
    vec_release(&in->expands);
    for (unsigned i = 0; i < KIND_COUNT; i++)
        vec_release(&in->named[i]);
    vec_release(&in->app_info);
    vec_release(&in->files);
    map_release(&in->categories);
    map_release(&in->pools);
    map_release(&in->regions);
    map_release(&in->threads);
    map_release(&in->pointer_map);
    map_release(&in->location_map);
    vec_release(&in->local_map);
    vec_release(&in->external_map);
    vec_release(&in->expand_map);
    vec_release(&in->payload_map);
    convert_free(in->convert);
}

static void release(struct merge *m)
{
    for (size_t i = 0; m->inputs && i < m->n; i++)
        release_input(&m->inputs[i]);
    free(m->inputs);
    free(m->order);
    strings_release(&m->strings);
    strings_release(&m->aside);
    map_release(&m->thread_ids.used);
    map_release(&m->pointer_ids.used);
    map_release(&m->location_ids.used);
    vec_release(&m->pointers);
    vec_release(&m->thread_names);
    vec_release(&m->external_names);
    vec_release(&m->local_threads);
    vec_release(&m->external_threads);
    vec_release(&m->locations);
    vec_release(&m->payloads);
    vec_release(&m->expands);
    vec_release(&m->app_info);
    vec_release(&m->images);
    vec_release(&m->base_images);
    vec_release(&m->placed_images);
    vec_release(&m->stats);
    map_release(&m->stats_at);
    spill_release(&m->messages);
    spill_release(&m->switches);
    convert_free(m->convert);
    free(m->scratch);
    free(m->scratch_items);
}

/* What all inputs have in common is said once; the format's own limits are checked at the end. */
static int init(struct merge *m, struct err *e)
{
    const struct merge_options *o = m->options;
    strings_init(&m->strings);
    strings_init(&m->aside);
    m->strings.limit = m->aside.limit = UINT32_MAX;
    spill_init(&m->messages, sizeof(struct merge_timed_message), o->spill_records, o->spill_dir);
    spill_init(&m->switches, sizeof(struct rec_cpu_switch), o->spill_records, o->spill_dir);
    m->inputs = calloc(m->n, sizeof *m->inputs);
    m->order = calloc(m->n, sizeof *m->order);
    if (!m->inputs || !m->order)
        return err_no_memory(e, "the inputs");
    for (size_t i = 0; i < m->n; i++) {
        m->inputs[i].m = m;
        m->inputs[i].number = i;
        m->inputs[i].name = o->inputs[i].name;
    }
    return 0;
}

static void choose_layout(struct merge *m)
{
    m->outcome->layout = m->options->target;
    for (size_t i = 0; i < m->n && !m->options->target; i++) {
        const struct file_layout *layout = m->inputs[i].info.layout;
        if (!m->outcome->layout || layout->version > m->outcome->layout->version)
            m->outcome->layout = layout;
    }
}

static void note_warnings(struct merge *m)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct trace_info *info = &m->inputs[i].info;
        for (unsigned k = 0; k < info->warning_count; k++)
            buf_printf(&m->outcome->notes, "%s: %s\n", m->inputs[i].name, info->warnings[k]);
    }
}

int merge_traces(const struct merge_source *source, const struct merge_options *options,
                 struct trace_writer *writer, struct merge_outcome *outcome, struct err *e)
{
    struct merge m = {.options = options, .source = source, .outcome = outcome, .n = options->n};
    *outcome = (struct merge_outcome){0};
    if (options->n == 0 || options->n > MERGE_INPUTS_MAX)
        return err_set(e, ERR_USAGE, "1 to %u inputs can be merged", MERGE_INPUTS_MAX);
    int status = init(&m, e);
    for (size_t i = 0; i < m.n && status == 0; i++)
        status = merge_scan(&m, &m.inputs[i], e);
    if (status == 0) {
        choose_layout(&m);
        note_warnings(&m);
        status = merge_plan(&m, e);
    }
    if (status == 0)
        status = merge_write(&m, writer, e);
    if (status == 0 && outcome->notes.failed)
        status = err_no_memory(e, "notes");
    release(&m);
    return status;
}
