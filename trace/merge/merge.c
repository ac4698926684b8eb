#include "trace/merge/merge.h"

#include <stdlib.h>

#include "base/tempfile.h"
#include "trace/merge/merge_internal.h"

/* Heap bytes of all tables; beyond that they go to a temporary file. */
#define TABLES_IN_MEMORY ((size_t)64 << 20)

static void release_input(struct merge_input *in, struct pageable *p)
{
    pageable_vec_release(p, &in->strings);
    map_release(&in->keys);
    map_release(&in->texts);
    pageable_vec_release(p, &in->pointers);
    pageable_vec_release(p, &in->thread_names);
    map_release(&in->named_threads);
    pageable_vec_release(p, &in->external_names);
    pageable_vec_release(p, &in->local_threads);
    pageable_vec_release(p, &in->external_threads);
    pageable_vec_release(p, &in->locations);
    pageable_vec_release(p, &in->payloads);
    pageable_vec_release(p, &in->expands);
    for (unsigned i = 0; i < KIND_COUNT; i++)
        pageable_vec_release(p, &in->named[i]);
    pageable_vec_release(p, &in->app_info);
    pageable_vec_release(p, &in->files);
    map_release(&in->categories);
    map_release(&in->pools);
    map_release(&in->regions);
    map_release(&in->threads);
    map_release(&in->pointer_map);
    map_release(&in->location_map);
    pageable_vec_release(p, &in->local_map);
    pageable_vec_release(p, &in->external_map);
    pageable_vec_release(p, &in->expand_map);
    pageable_vec_release(p, &in->payload_map);
    convert_free(in->convert);
}

static void release(struct merge *m)
{
    for (size_t i = 0; m->inputs && i < m->n; i++)
        release_input(&m->inputs[i], &m->pageable);
    free(m->inputs);
    free(m->order);
    strings_release(&m->strings);
    strings_release(&m->aside);
    map_release(&m->thread_ids.used);
    map_release(&m->pointer_ids.used);
    map_release(&m->location_ids.used);
    pageable_vec_release(&m->pageable, &m->pointers);
    pageable_vec_release(&m->pageable, &m->thread_names);
    pageable_vec_release(&m->pageable, &m->external_names);
    pageable_vec_release(&m->pageable, &m->local_threads);
    pageable_vec_release(&m->pageable, &m->external_threads);
    pageable_vec_release(&m->pageable, &m->locations);
    pageable_vec_release(&m->pageable, &m->payloads);
    pageable_vec_release(&m->pageable, &m->expands);
    pageable_vec_release(&m->pageable, &m->app_info);
    pageable_vec_release(&m->pageable, &m->images);
    pageable_vec_release(&m->pageable, &m->base_images);
    pageable_vec_release(&m->pageable, &m->placed_images);
    pageable_vec_release(&m->pageable, &m->stats);
    map_release(&m->stats_at);
    spill_release(&m->messages);
    spill_release(&m->switches);
    convert_free(m->convert);
    free(m->scratch);
    free(m->scratch_items);
    pageable_release(&m->pageable);
}

static void init_input(struct merge *m, size_t i)
{
    struct merge_input *in = &m->inputs[i];
    struct map *maps[] = {&in->keys,       &in->texts,       &in->named_threads,
                          &in->categories, &in->pools,       &in->regions,
                          &in->threads,    &in->pointer_map, &in->location_map};
    in->m = m;
    in->number = i;
    in->name = m->options->inputs[i].name;
    for (size_t k = 0; k < sizeof maps / sizeof *maps; k++)
        maps[k]->pageable = &m->pageable;
}

/* Facts common to all inputs are stored once; the format's own limits are checked at the end. */
static int init(struct merge *m, struct err *e)
{
    const struct merge_options *o = m->options;
    pageable_init(&m->pageable, tempfile_dir(o->spill_dir), TABLES_IN_MEMORY);
    strings_init(&m->strings);
    strings_init(&m->aside);
    strings_use(&m->strings, &m->pageable);
    strings_use(&m->aside, &m->pageable);
    m->thread_ids.used.pageable = m->pointer_ids.used.pageable = m->location_ids.used.pageable =
        m->stats_at.pageable = &m->pageable;
    m->strings.limit = m->aside.limit = UINT32_MAX;
    spill_init(&m->messages, sizeof(struct merge_timed_message), o->spill_records, o->spill_dir);
    spill_init(&m->switches, sizeof(struct rec_cpu_switch), o->spill_records, o->spill_dir);
    m->inputs = calloc(m->n, sizeof *m->inputs);
    m->order = calloc(m->n, sizeof *m->order);
    if (!m->inputs || !m->order)
        return err_no_memory(e, "the inputs");
    for (size_t i = 0; i < m->n; i++)
        init_input(m, i);
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
    if (status != 0)
        pageable_explain(&m.pageable, e);
    release(&m);
    return status;
}
