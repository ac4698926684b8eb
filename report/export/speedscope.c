#include "report/export/stack_formats.h"

#include "report/write/emit.h"

/*
 * A frame of the format is a line of a function. Its number is that of the first line with this
 * function and line number.
 */
struct speedscope {
    const struct profile *profile;
    const struct stack_format_options *options;
    struct emit emit;
    struct map frames;     /* function << 32 | line → frame */
    VEC(uint32_t) of_line; /* index in profile.lines → frame */
    VEC(uint32_t) locations;
};

static int put_frame(struct speedscope *s, const struct profile_line *line, struct err *e)
{
    const struct profile_function *f = &s->profile->functions.at[line->function];
    struct emit *w = &s->emit;
    emit_text(w, s->frames.count > 1 ? ",\n{\"name\":" : "{\"name\":");
    emit_json(w, profile_text(s->profile, f->name));
    if (f->file) {
        emit_text(w, ",\"file\":");
        emit_json(w, profile_text(s->profile, f->file));
    }
    if (line->line) {
        emit_text(w, ",\"line\":");
        emit_number(w, line->line);
    }
    emit_text(w, "}");
    return emit_check(w, e);
}

static int put_frames(struct speedscope *s, struct err *e)
{
    const struct profile *p = s->profile;
    for (size_t i = 0; i < p->lines.len; i++) {
        const struct profile_line *line = &p->lines.at[i];
        bool fresh;
        uint64_t *frame = map_add(&s->frames, (uint64_t)line->function << 32 | line->line, &fresh);
        if (!frame)
            return err_no_memory(e, "a profile");
        if (fresh)
            *frame = s->frames.count - 1;
        if (!vec_push(&s->of_line, (uint32_t)*frame))
            return err_no_memory(e, "a profile");
        if (fresh && put_frame(s, line, e) != 0)
            return -1;
    }
    return 0;
}

static int put_stack(struct speedscope *s, const struct profile_sample *sample, bool first,
                     struct err *e)
{
    const struct profile *p = s->profile;
    struct profile_walk walk = profile_walk_start(p, sample);
    uint32_t location;
    bool comma = false;
    s->locations.len = 0;
    while (profile_walk_next(&walk, &location)) {
        if (!vec_push(&s->locations, location))
            return err_no_memory(e, "a profile");
    }
    emit_text(&s->emit, first ? "[" : ",\n[");
    for (size_t i = s->locations.len; i-- > 0;) {
        const struct profile_location *l = &p->locations.at[s->locations.at[i]];
        for (uint32_t k = l->n; k-- > 0; comma = true) {
            emit_text(&s->emit, comma ? "," : "");
            emit_number(&s->emit, s->of_line.at[l->first + k]);
        }
    }
    emit_text(&s->emit, "]");
    return emit_check(&s->emit, e);
}

/* The title of a profile in the viewer's list. */
static void put_title(struct speedscope *s, uint32_t pool, enum profile_of of)
{
    static const char *const titles[PROFILE_OF_COUNT] = {": all allocations", ": live at the end",
                                                         ": live at the peak", ": temporary"};
    struct buf name = {0};
    struct view text = s->profile->summary->pools.at[pool].name;
    buf_put(&name, text.p, text.len);
    buf_puts(&name, titles[of]);
    s->emit.buf.failed |= name.failed;
    emit_json(&s->emit, (struct view){(const char *)name.data, name.len});
    buf_release(&name);
}

static int put_profile(struct speedscope *s, uint32_t pool, enum profile_of of, struct err *e)
{
    const struct profile *p = s->profile;
    struct emit *w = &s->emit;
    double sum = 0; /* the format uses JavaScript numbers */
    bool first = true;
    emit_text(w, "{\"type\":\"sampled\",\"name\":");
    put_title(s, pool, of);
    emit_text(w, s->options->count ? ",\"unit\":\"none\"" : ",\"unit\":\"bytes\"");
    emit_text(w, ",\"startValue\":0,\"samples\":[\n");
    for (size_t i = 0; i < p->samples.len; i++) {
        const struct profile_sample *sample = &p->samples.at[i];
        uint64_t value = profile_value(&sample->figures, of, !s->options->count);
        if (sample->pool != pool || value == 0)
            continue;
        if (put_stack(s, sample, first, e) != 0)
            return -1;
        sum += (double)value;
        first = false;
    }
    emit_text(w, "],\n\"weights\":[");
    first = true;
    for (size_t i = 0; i < p->samples.len; i++) {
        const struct profile_sample *sample = &p->samples.at[i];
        uint64_t value = profile_value(&sample->figures, of, !s->options->count);
        if (sample->pool != pool || value == 0)
            continue;
        emit_text(w, first ? "" : ",");
        emit_number(w, value);
        first = false;
        if (emit_check(w, e) != 0)
            return -1;
    }
    emit_text(w, "],\"endValue\":");
    emit_real(w, sum);
    emit_text(w, "}");
    return 0;
}

static int put_document(struct speedscope *s, struct err *e)
{
    const struct summary *sum = s->profile->summary;
    struct emit *w = &s->emit;
    bool first = true;
    emit_text(w, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
                 "\"exporter\":\"tidemark\",\n\"name\":");
    emit_json(w, strings_get(&sum->trace->strings, sum->trace->facts.program));
    emit_text(w, ",\n\"activeProfileIndex\":0,\n\"shared\":{\"frames\":[\n");
    if (put_frames(s, e) != 0)
        return -1;
    emit_text(w, "]},\n\"profiles\":[\n");
    for (uint32_t pool = 0; pool < sum->pools.len; pool++) {
        for (unsigned of = 0; of < PROFILE_OF_COUNT; of++) {
            if (!s->options->wanted[of])
                continue;
            emit_text(w, first ? "" : ",\n");
            first = false;
            if (put_profile(s, pool, (enum profile_of)of, e) != 0)
                return -1;
        }
    }
    emit_text(w, "]}\n");
    return emit_finish(w, e);
}

int speedscope_write(const struct profile *p, const struct stack_format_options *o, FILE *out,
                     struct err *e)
{
    struct speedscope s = {
        .profile = p, .options = o, .emit = {.out = out, .what = "a speedscope profile"}};
    int status = put_document(&s, e);
    map_release(&s.frames);
    vec_release(&s.of_line);
    vec_release(&s.locations);
    emit_release(&s.emit);
    return status;
}
