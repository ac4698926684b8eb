/* The start and order of the inputs, and the labels of their programs. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/merge/merge_internal.h"

#define NS_PER_SECOND INT64_C(1000000000)

/* The wall-clock second in which a trace began; 0 when unknown. */
static uint64_t reference_epoch(const struct merge *m)
{
    for (size_t i = 0; i < m->n; i++) {
        if (m->inputs[i].header.capture_time != 0)
            return m->inputs[i].header.capture_time;
    }
    return 0;
}

static int too_far(const struct merge_input *in, struct err *e)
{
    return err_set(e, ERR_INPUT,
                   "%s was captured too long before or after the others: a trace's clock has 48 "
                   "bits for nanoseconds, 39 hours; an offset for input %zu or aligning all "
                   "beginnings may help",
                   in->name, in->number + 1);
}

static int place(struct merge *m, struct merge_input *in, uint64_t reference, struct err *e)
{
    const struct merge_input_options *o = &m->options->inputs[in->number];
    uint64_t epoch = in->header.capture_time;
    in->position = 0;
    if (o->has_offset) {
        in->position = o->offset;
        return o->offset < -MERGE_TIME_MAX || o->offset > MERGE_TIME_MAX ? too_far(in, e) : 0;
    }
    if (m->options->align_begin || m->n == 1)
        return 0;
    if (epoch == 0) {
        buf_printf(&m->outcome->notes, "%s has no capture time: it begins with the first\n",
                   in->name);
        return 0;
    }
    uint64_t seconds = epoch > reference ? epoch - reference : reference - epoch;
    if (seconds > (uint64_t)(MERGE_TIME_MAX / NS_PER_SECOND))
        return too_far(in, e);
    in->position = (int64_t)seconds * NS_PER_SECOND * (epoch > reference ? 1 : -1);
    return 0;
}

static int compare_views(struct view a, struct view b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n > 0 ? memcmp(a.p, b.p, n) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* Compares by the contents of the traces, so that the order of arguments does not matter. */
static int compare_inputs(const void *a, const void *b)
{
    const struct merge_input *x = *(struct merge_input *const *)a;
    const struct merge_input *y = *(struct merge_input *const *)b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    int order = compare_views(x->header.capture_program, y->header.capture_program);
    if (order != 0)
        return order;
    if (x->header.pid != y->header.pid)
        return x->header.pid < y->header.pid ? -1 : 1;
    if (x->header.last_time != y->header.last_time)
        return x->header.last_time < y->header.last_time ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static int shift(struct merge *m, struct err *e)
{
    int64_t first = m->order[0]->position;
    for (size_t i = 0; i < m->n; i++) {
        struct merge_input *in = m->order[i];
        in->index = i;
        in->shift = in->position - first;
        if (in->shift > MERGE_TIME_MAX ||
            (in->shift > 0 && in->header.last_time > MERGE_TIME_MAX - in->shift))
            return too_far(in, e);
    }
    return 0;
}

/* ---- labels of programs */

static struct view program(const struct merge_input *in)
{
    struct view text = in->header.capture_program;
    if (text.len == 0)
        text = in->header.capture_name;
    return text.len > 0 ? text : view_of("unknown");
}

/* Counts each label of the inputs. */
static int count_labels(const struct merge *m, struct map *counts, struct err *e)
{
    for (size_t i = 0; i < m->n; i++) {
        uint64_t *n = map_add(counts, m->order[i]->label, NULL);
        if (!n)
            return err_no_memory(e, "names of programs");
        (*n)++;
    }
    return 0;
}

/* Appends `what` to shared labels: a pid, then the position among the inputs. */
static int tell_apart(struct merge *m, bool by_pid, struct err *e)
{
    struct map counts = {.pageable = &m->pageable};
    struct buf text = {0};
    int status = count_labels(m, &counts, e);
    for (size_t i = 0; i < m->n && status == 0; i++) {
        struct merge_input *in = m->order[i];
        struct view old = strings_get(&m->aside, in->label);
        const uint64_t *n = map_find(&counts, in->label);
        if (!n || *n < 2)
            continue;
        buf_clear(&text);
        buf_put(&text, old.p, old.len);
        if (by_pid)
            buf_printf(&text, "[%" PRIu64 "]", in->header.pid);
        else
            buf_printf(&text, " #%zu", i + 1);
        if (text.failed) {
            status = err_no_memory(e, "names of programs");
            break;
        }
        in->label = strings_intern(&m->aside, (struct view){(const char *)text.data, text.len}, e);
        status = in->label ? 0 : -1;
    }
    buf_release(&text);
    map_release(&counts);
    return status;
}

static int label(struct merge *m, struct err *e)
{
    for (size_t i = 0; i < m->n; i++) {
        struct merge_input *in = m->order[i];
        in->label = strings_intern(&m->aside, program(in), e);
        if (!in->label)
            return -1;
    }
    return tell_apart(m, true, e) != 0 ? -1 : tell_apart(m, false, e);
}

int merge_plan_times(struct merge *m, struct err *e)
{
    uint64_t reference = m->inputs[0].header.capture_time;
    if (reference == 0)
        reference = reference_epoch(m);
    for (size_t i = 0; i < m->n; i++) {
        if (place(m, &m->inputs[i], reference, e) != 0)
            return -1;
        m->order[i] = &m->inputs[i];
    }
    qsort(m->order, m->n, sizeof *m->order, compare_inputs);
    return shift(m, e) != 0 ? -1 : label(m, e);
}
