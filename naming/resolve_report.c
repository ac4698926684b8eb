/* Reports the resolution of a trace's frames as text and as JSON. */

#include <inttypes.h>
#include <string.h>

#include "base/format.h"
#include "naming/resolve_book.h"
#include "report/write/json_value.h"

/* Images whose inferred base the fact lists one by one. */
#define FACT_BASES_MAX 20u

static const char *problem_of_base(const struct resolve_image *i)
{
    if (i->opened && i->bias.hints > 0)
        return "the symbols that the client named do not agree on its base: give --modules or "
               "--base";
    return i->opened ? "no build id: give --modules or --base"
                     : "no build id: give --modules or --base, or --images-from-trace to infer it";
}

/* Where the names are from. */
static void put_source(struct buf *b, const struct resolve_image *i)
{
    const char *before = "; names from ";
    if (i->has_debug && i->separate && i->debug_path.len) {
        buf_puts(b, "; debug information in ");
        format_terminal(b, (struct view){(const char *)i->debug_path.data, i->debug_path.len});
    } else if (i->has_debug) {
        buf_printf(b, "; debug information %s", i->separate ? "from debuginfod" : "in the image");
    } else {
        for (unsigned o = NAME_ORIGINS - 1; o > NAME_FROM_ELSEWHERE; o--) {
            if (!i->from[o])
                continue;
            buf_printf(b, "%s%s (%" PRIu64 ")", before, name_origin_text((enum name_origin)o),
                       i->from[o]);
            before = ", ";
        }
        buf_puts(b, "; no debug information found (--debug-dir, --debuginfod)");
    }
}

static bool is_placed(const struct resolve_image *i)
{
    for (size_t step = LOCATED_NOT + 1; step < LOCATE_STEPS; step++) {
        if (i->steps[step])
            return true;
    }
    return false;
}

static void put_places(struct buf *b, const struct resolve_image *i)
{
    const char *separator = "";
    for (size_t step = LOCATED_NOT + 1; step < LOCATE_STEPS; step++) {
        if (!i->steps[step])
            continue;
        buf_printf(b, "%s%s", separator, locate_step_text((enum locate_step)step));
        if (step == LOCATED_INFERRED)
            buf_printf(b, " (0x%" PRIx64 ", %" PRIu32 " of %" PRIu32 " agree)", i->bias.bias,
                       i->bias.agree, i->bias.hints);
        separator = ", ";
    }
}

static void put_image(struct buf *b, const struct resolve_image *i)
{
    static const char indent[] = "                     ";
    char frames[FORMAT_SIZE], named[FORMAT_SIZE];
    buf_printf(b, "%9s %9s  ", format_count(frames, i->frames), format_count(named, i->named));
    format_terminal(b, (struct view){(const char *)i->path.data, i->path.len});
    buf_u8(b, '\n');
    if (is_placed(i)) {
        buf_printf(b, "%s", indent);
        put_places(b, i);
        if (i->opened && i->problem[0] == 0)
            put_source(b, i);
        buf_u8(b, '\n');
    }
    if (i->steps[LOCATED_NOT] && !i->elsewhere)
        buf_printf(b, "%s%s with its base unknown: %s\n", indent,
                   format_counted(frames, i->steps[LOCATED_NOT], "frame"), problem_of_base(i));
    if (i->problem[0] && (i->opened || i->elsewhere || i->build_id.len || !i->steps[LOCATED_NOT])) {
        buf_puts(b, indent);
        format_terminal(b, view_of(i->problem));
        buf_u8(b, '\n');
    }
    if (i->looked.len) {
        buf_printf(b, "%slooked for ", indent);
        format_terminal(b, (struct view){(const char *)i->looked.data, i->looked.len});
        buf_u8(b, '\n');
    }
}

static int flush(struct buf *b, FILE *to, struct err *e)
{
    int status = b->failed ? err_no_memory(e, "the summary") : 0;
    if (status == 0)
        fwrite(b->data, 1, b->len, to);
    buf_release(b);
    return status;
}

int resolve_summary_print(const struct resolve_summary *s, const char *trace, FILE *to,
                          struct err *e)
{
    struct buf b = {0};
    char n[FORMAT_SIZE], percent[FORMAT_SIZE];
    format_terminal(&b, view_of(trace));
    buf_printf(&b, ": %s, ", format_counted(n, s->frames, "frame"));
    buf_printf(&b, "%s of them named before, ", format_count(n, s->named_before));
    buf_printf(&b, "%s (%s) now; ", format_count(n, s->named),
               format_percent(percent, s->named, s->frames));
    buf_printf(&b, "%s changed\n", format_count(n, s->changed));
    if (s->images.len > 0)
        buf_puts(&b, "   frames     named  image\n");
    for (size_t i = 0; i < s->images.len; i++)
        put_image(&b, &s->images.at[i]);
    if (s->nowhere)
        buf_printf(&b, "%9s         0  (no image known: give --modules or --base PATH=ADDRESS)\n",
                   format_count(n, s->nowhere));
    if (s->kernel)
        buf_printf(&b, "%9s         0  (kernel)\n", format_count(n, s->kernel));
    if (s->symbols)
        buf_printf(&b, "%s of the trace's list named, too\n",
                   format_counted(n, s->symbols, "symbol"));
    if (s->bad_modules)
        buf_printf(&b, "%s of the module table cannot be read\n",
                   format_counted(n, s->bad_modules, "line"));
    return flush(&b, to, e);
}

static json_t *json_buf(const struct buf *b)
{
    return json_text((struct view){(const char *)b->data, b->len});
}

static json_t *json_image(const struct resolve_image *i)
{
    char id[2 * BUILD_ID_MAX + 1], bias[32];
    json_t *places = json_object(), *from = json_object();
    for (size_t step = LOCATED_NOT + 1; places && step < LOCATE_STEPS; step++) {
        if (i->steps[step])
            places = json_with(places, locate_step_text((enum locate_step)step),
                               json_integer((json_int_t)i->steps[step]));
    }
    for (unsigned o = NAME_FROM_ELSEWHERE + 1; o < NAME_ORIGINS; o++) {
        if (i->from[o])
            from = json_with(from, name_origin_text((enum name_origin)o),
                             json_integer((json_int_t)i->from[o]));
    }
    build_id_text(&i->build_id, id);
    snprintf(bias, sizeof bias, "0x%" PRIx64, i->bias.bias);
    return json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:b, s:b, s:o, s:o, s:o, s:o}",
                     "image", json_buf(&i->path), "build_id",
                     i->build_id.len ? json_string(id) : json_null(), "frames",
                     (json_int_t)i->frames, "named_before", (json_int_t)i->named_before, "named",
                     (json_int_t)i->named, "inlined", (json_int_t)i->inlines, "named_from", from,
                     "located_by", places, "base_unknown", (json_int_t)i->steps[LOCATED_NOT],
                     "opened", i->opened, "debug_information", i->has_debug, "debug_file",
                     i->separate && i->debug_path.len ? json_buf(&i->debug_path) : json_null(),
                     "inferred_base", i->bias.found ? json_string(bias) : json_null(), "problem",
                     i->problem[0] ? json_text(view_of(i->problem)) : json_null(), "looked_for",
                     i->looked.len ? json_buf(&i->looked) : json_null());
}

int resolve_summary_json(const struct resolve_summary *s, const char *trace, FILE *to,
                         struct err *e)
{
    json_t *images = json_array();
    int bad = !images;
    for (size_t i = 0; !bad && i < s->images.len; i++)
        bad = json_array_append_new(images, json_image(&s->images.at[i]));
    json_t *all =
        bad ? NULL
            : json_pack("{s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "schema",
                        "tidemark.symbols/1", "trace", json_text(view_of(trace)), "frames",
                        (json_int_t)s->frames, "named_before", (json_int_t)s->named_before, "named",
                        (json_int_t)s->named, "changed", (json_int_t)s->changed, "kernel",
                        (json_int_t)s->kernel, "no_image", (json_int_t)s->nowhere, "symbols",
                        (json_int_t)s->symbols, "images", images);
    if (bad)
        json_decref(images);
    if (!all)
        return err_no_memory(e, "the summary");
    struct buf b = {0};
    bool ok = json_put(&b, all, JSON_INDENT(2));
    buf_u8(&b, '\n');
    b.failed = b.failed || !ok;
    return flush(&b, to, e);
}

void resolve_summary_fact(const struct resolve_summary *s, struct buf *out)
{
    buf_printf(out, "%" PRIu64 " of %" PRIu64 " frames named, %" PRIu64 " before", s->named,
               s->frames, s->named_before);
    /* An inferred base is a conclusion, so readers of the trace must see it. */
    size_t inferred = 0;
    for (size_t i = 0; i < s->images.len; i++) {
        const struct resolve_image *image = &s->images.at[i];
        if (image->steps[LOCATED_INFERRED] == 0 || ++inferred > FACT_BASES_MAX)
            continue;
        buf_printf(out, "; base of ");
        buf_put(out, image->path.data, image->path.len);
        buf_printf(out, " inferred: 0x%" PRIx64, image->bias.bias);
    }
    if (inferred > FACT_BASES_MAX)
        buf_printf(out, "; and %zu more", inferred - FACT_BASES_MAX);
}
