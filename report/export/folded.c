#include "report/export/stack_formats.h"

#include "base/format.h"
#include "base/line_sort.h"
#include "base/saturate.h"
#include "report/write/emit.h"

struct folded {
    const struct profile *profile;
    const struct stack_format_options *options;
    struct line_sort lines; /* stack, NUL, value in 8 bytes */
    struct buf text;
    VEC(uint32_t) locations;
    struct emit emit;
    struct buf stack; /* the current one, and its sum */
    uint64_t sum;
    bool any;
};

static void put_name(struct folded *f, struct view name)
{
    size_t at = f->text.len;
    format_terminal(&f->text, name);
    for (; at < f->text.len; at++) {
        if (f->text.data[at] == ';')
            f->text.data[at] = ':';
    }
}

static void put_location(struct folded *f, const struct profile_location *l)
{
    const struct profile *p = f->profile;
    for (uint32_t i = l->n; i-- > 0;) {
        const struct profile_line *line = &p->lines.at[l->first + i];
        if (f->text.len > 0)
            buf_put(&f->text, ";", 1);
        put_name(f, profile_text(p, p->functions.at[line->function].name));
    }
}

static int add_sample(struct folded *f, const struct profile_sample *s, struct err *e)
{
    const struct profile *p = f->profile;
    struct profile_walk walk = profile_walk_start(p, s);
    uint32_t location;
    uint64_t value = profile_value(&s->figures, f->options->of, !f->options->count);
    if (value == 0)
        return 0;
    f->locations.len = 0;
    while (profile_walk_next(&walk, &location)) {
        if (!vec_push(&f->locations, location))
            return err_no_memory(e, "a call stack");
    }
    buf_clear(&f->text);
    if (p->summary->pools.len > 1)
        put_name(f, p->summary->pools.at[s->pool].name);
    for (size_t i = f->locations.len; i-- > 0;)
        put_location(f, &p->locations.at[f->locations.at[i]]);
    buf_u8(&f->text, 0);
    if (f->text.failed)
        return err_no_memory(e, "a call stack");
    struct view key = {(const char *)f->text.data, f->text.len};
    return line_sort_add(&f->lines, key, (struct view){(const char *)&value, sizeof value}, e);
}

static int put_line(struct folded *f, struct err *e)
{
    if (!f->any)
        return 0;
    buf_put(&f->emit.buf, f->stack.data, f->stack.len);
    emit_text(&f->emit, " ");
    emit_number(&f->emit, f->sum);
    emit_text(&f->emit, "\n");
    return emit_check(&f->emit, e);
}

/* Equal stacks arrive in consecutive lines. */
static int take_line(void *ctx, struct view line, struct err *e)
{
    struct folded *f = ctx;
    uint64_t value;
    struct view stack = {line.p, line.len - sizeof value - 1};
    memcpy(&value, line.p + line.len - sizeof value, sizeof value);
    if (!f->any || !view_equal(stack, (struct view){(const char *)f->stack.data, f->stack.len})) {
        if (put_line(f, e) != 0)
            return -1;
        buf_clear(&f->stack);
        buf_put(&f->stack, stack.p, stack.len);
        f->sum = 0;
        f->any = true;
    }
    f->sum = saturating_add(f->sum, value);
    return f->stack.failed ? err_no_memory(e, "a call stack") : 0;
}

int folded_write(const struct profile *p, const struct stack_format_options *o, FILE *out,
                 struct err *e)
{
    struct folded f = {.profile = p, .options = o, .emit = {.out = out, .what = "folded stacks"}};
    int status = 0;
    line_sort_init(&f.lines, 0, NULL);
    for (size_t i = 0; i < p->samples.len && status == 0; i++)
        status = add_sample(&f, &p->samples.at[i], e);
    if (status == 0)
        status = line_sort_drain(&f.lines, take_line, &f, e);
    if (status == 0)
        status = put_line(&f, e);
    if (status == 0)
        status = emit_finish(&f.emit, e);
    line_sort_release(&f.lines);
    vec_release(&f.locations);
    buf_release(&f.text);
    buf_release(&f.stack);
    emit_release(&f.emit);
    return status;
}
