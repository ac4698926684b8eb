#include "analysis/questions/related_input.h"

#include "trace/file/record_takers.h"

static const struct pack_layout point_layout = {
    .element = sizeof(struct input_point),
    .count = 2,
    .fields = {{0, 8, PACK_STEP}, {8, 8, PACK_OFFSET}},
};

static const struct pack_layout message_layout = {
    .element = sizeof(struct input_message),
    .count = 2,
    .fields = {{0, 8, PACK_STEP}, {8, 8, PACK_OFFSET}},
};

int related_input_init(struct related_input *i, struct trace *t, const char *folder, size_t budget,
                       struct err *e)
{
    *i = (struct related_input){.trace = t};
    if (spool_init(&i->spool, folder, budget, e) != 0)
        return -1;
    column_init(&i->points, &i->spool, &point_layout, false);
    column_init(&i->messages, &i->spool, &message_layout, false);
    return 0;
}

void related_input_release(struct related_input *i)
{
    if (i->points.spool) {
        column_release(&i->points);
        column_release(&i->messages);
        spool_release(&i->spool);
    }
    vec_release(&i->plots);
    *i = (struct related_input){0};
}

uint64_t related_input_memory(const struct related_input *i, size_t budget)
{
    uint64_t columns =
        i->points.len * sizeof(struct input_point) + i->messages.len * sizeof(struct input_message);
    return i->plots.cap * sizeof *i->plots.at + (columns < budget ? columns : budget);
}

static uint64_t text_number(const struct trace *t, const struct rec_string_ref *ref)
{
    if (ref->flags == STRING_REF_INDEX)
        return ref->value < t->strings.list.len ? ref->value + 1 : 0;
    return ref->flags == STRING_REF_POINTER ? strings_at_pointer(&t->strings, ref->value) : 0;
}

TAKE_EACH(put_plot, struct related_input *i, plot, p)
{
    struct input_plot plot = {.name = p->name, .first = i->points.len};
    return vec_push(&i->plots, plot) ? 0 : err_no_memory(e, "plots");
}

TAKE_EACH(put_point, struct related_input *i, plot_point, p)
{
    struct input_point *to = column_append(&i->points, e);
    if (!to)
        return -1;
    *to = (struct input_point){p->time, p->value};
    if (i->plots.len)
        i->plots.at[i->plots.len - 1].n++;
    return 0;
}

TAKE_EACH(put_message, struct related_input *i, message, m)
{
    struct input_message *to = column_append(&i->messages, e);
    if (!to)
        return -1;
    *to = (struct input_message){m->time, text_number(i->trace, &m->text)};
    return 0;
}

static const record_takers takers = {
    [REC_PLOT] = put_plot,
    [REC_PLOT_POINT] = put_point,
    [REC_MESSAGE] = put_message,
};

void related_input_wanted(bool wanted[REC_TYPE_COUNT])
{
    records_wanted(takers, wanted);
}

int related_input_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    return records_take(takers, ctx, type, recs, n, e);
}
