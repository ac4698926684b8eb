#include "import/torch_marks.h"

/* Zones of one GPU nest in it; real ones are less than ten deep. */
#define OPEN_MAX 1024u

void torch_marks_release(struct torch_marks *m)
{
    vec_release(&m->list);
    vec_release(&m->open);
}

static int by_time(const void *a, const void *b)
{
    const struct torch_mark *one = a, *other = b;
    if (one->time != other->time)
        return one->time < other->time ? -1 : 1;
    return (one->order > other->order) - (one->order < other->order);
}

/* Returns 1 if usable, 0 if not, -1 on an error. */
static int read_mark(struct torch_reader *r, uint64_t dict, struct torch_mark *mark, struct err *e)
{
    struct torch_fields f;
    uint64_t gpu;
    int status = torch_fields_read(r, dict, &f, e);
    if (status <= 0)
        return status;
    struct view stage = torch_text(r, &f, TORCH_STAGE);
    mark->end = view_equal(stage, view_of("END"));
    mark->name = f.at[TORCH_NAME];
    if ((!mark->end && !view_equal(stage, view_of("START"))) ||
        torch_text(r, &f, TORCH_NAME).len == 0 || !torch_number(r, &f, TORCH_DEVICE, &gpu) ||
        gpu >= TORCH_GPUS_MAX || !torch_number(r, &f, TORCH_TIME, &mark->time))
        return 0;
    mark->gpu = (unsigned)gpu;
    return 1;
}

int torch_marks_read(struct torch_marks *m, struct torch_events *to, uint64_t list, struct err *e)
{
    struct value_walk walk = {0};
    uint64_t dict;
    int status = value_walk_begin(&walk, &to->reader->arena, list, e);
    while (status >= 0 && value_walk_next(&walk, &dict)) {
        struct torch_mark mark = {.order = (uint32_t)m->list.len};
        status = read_mark(to->reader, dict, &mark, e);
        to->counts->notes[NOTE_ENTRIES] += status == 0;
        if (status > 0 && !vec_push(&m->list, mark))
            status = err_no_memory(e, "annotations");
    }
    value_walk_release(&walk);
    if (m->list.len)
        qsort(m->list.at, m->list.len, sizeof *m->list.at, by_time);
    return status < 0 ? -1 : 0;
}

static int begin_zone(struct torch_marks *m, struct torch_events *to, const struct torch_mark *mark,
                      struct err *e)
{
    if (m->open.len == OPEN_MAX) {
        to->counts->notes[NOTE_MARKS]++;
        return 0;
    }
    if (!vec_push(&m->open, *mark))
        return err_no_memory(e, "annotations");
    return torch_put_zone(to, mark->gpu, value_view(&to->reader->arena, mark->name), e);
}

/* An end that belongs to an outer zone ends the inner ones, too; one of no zone is counted. */
static int end_zone(struct torch_marks *m, struct torch_events *to, const struct torch_mark *mark,
                    struct err *e)
{
    struct view name = value_view(&to->reader->arena, mark->name);
    size_t from = m->open.len, kept;
    while (from && !(m->open.at[from - 1].gpu == mark->gpu &&
                     view_equal(value_view(&to->reader->arena, m->open.at[from - 1].name), name)))
        from--;
    if (from == 0) {
        to->counts->notes[NOTE_MARKS]++;
        return 0;
    }
    kept = from - 1;
    for (size_t i = from - 1; i < m->open.len; i++) {
        if (m->open.at[i].gpu != mark->gpu)
            m->open.at[kept++] = m->open.at[i];
        else if (torch_end_zone(to, mark->gpu, e) != 0)
            return -1;
    }
    m->open.len = kept;
    return 0;
}

int torch_marks_put(struct torch_marks *m, struct torch_events *to, uint64_t before, struct err *e)
{
    while (m->next < m->list.len && m->list.at[m->next].time < before) {
        const struct torch_mark *mark = &m->list.at[m->next++];
        const struct torch_entry at = {.timed = true, .time = mark->time};
        torch_events_at(to, &at);
        if ((mark->end ? end_zone : begin_zone)(m, to, mark, e) != 0)
            return -1;
    }
    return 0;
}
