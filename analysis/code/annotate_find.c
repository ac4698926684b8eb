/* Finds the functions that match a name, an address or an expression. */

#include "analysis/code/annotate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/code/annotate_parts.h"
#include "analysis/names/function_name.h"
#include "base/format.h"
#include "base/pattern.h"
#include "trace/store/frame_name.h"

/* How well a name matches; only the best matches are used. */
enum fit { FIT_NONE, FIT_PART, FIT_WHOLE };

struct wanted {
    const char *text;
    bool regex, is_address;
    uint64_t address;
    struct pattern *expression;
};

static int wanted_init(struct wanted *w, const char *text, bool regex, struct err *e)
{
    char *end;
    *w = (struct wanted){.text = text, .regex = regex};
    if (!*text)
        return err_set(e, ERR_USAGE, "which function? its name is empty");
    if (regex) {
        w->expression = pattern_new(text, strlen(text), e);
        return w->expression ? 0 : e ? err_prefix(e, "'%s'", text) : -1;
    }
    if (text[0] != '0' || (text[1] != 'x' && text[1] != 'X'))
        return 0;
    errno = 0;
    w->address = strtoull(text + 2, &end, 16);
    w->is_address = true;
    bool digits = strspn(text + 2, "0123456789abcdefABCDEF") == strlen(text + 2);
    return errno == 0 && digits && text[2] && *end == 0
               ? 0
               : err_set(e, ERR_USAGE, "'%s' is no address", text);
}

static void wanted_release(struct wanted *w)
{
    pattern_free(w->expression);
}

static bool has_part(struct view text, struct view part)
{
    return text.len >= part.len && memmem(text.p, text.len, part.p, part.len) != NULL;
}

static enum fit fit_of(struct wanted *w, struct view name)
{
    char bare[FUNCTION_NAME_SIZE];
    struct view text = view_of(w->text);
    if (name.len == 0)
        return FIT_NONE;
    if (w->regex)
        return pattern_matches(w->expression, name.p, name.len) ? FIT_WHOLE : FIT_NONE;
    if (view_equal(name, text))
        return FIT_WHOLE;
    size_t len = function_name(name, bare);
    if (view_equal((struct view){bare, len}, text))
        return FIT_WHOLE;
    return has_part(name, text) ? FIT_PART : FIT_NONE;
}

/* ---- functions with code */

const struct frame *annotate_frame_at(const struct trace *t, uint64_t address)
{
    const struct frame *f =
        callstacks_find_frame(&t->callstacks, address & ((UINT64_C(1) << 62) - 1));
    return f && f->n && frame_address(f->id) == address ? f : NULL;
}

/*
 * Describes a function by the name at its first instruction, which may have been resolved later,
 * else by the trace's list of symbols.
 */
static struct annotate_function describe(const struct annotate_texts *a, size_t code)
{
    const struct trace *t = a->trace;
    struct annotate_function f = {.address = a->codes.at[code].address,
                                  .size = a->codes.at[code].size,
                                  .code = (uint32_t)code,
                                  .is_elsewhere = a->codes.at[code].is_elsewhere,
                                  .origin = a->codes.at[code].origin,
                                  .name = {"", 0},
                                  .image = {"", 0},
                                  .file = {"", 0}};
    const uint64_t *number = map_find(&t->symbol_numbers, f.address);
    if (number && *number < t->symbols.len) {
        const struct trace_symbol *s = &t->symbols.at[*number];
        struct view file = strings_get(&t->strings, s->file);
        f.image = strings_get(&t->strings, s->image);
        f.name = frame_name_parse(strings_get(&t->strings, s->name), f.image).name;
        if (!frame_file_is_unknown(file, f.image)) {
            f.file = file;
            f.line = s->line;
        }
    }
    const struct frame *frame = annotate_frame_at(t, f.address);
    if (frame) {
        uint32_t at = (uint32_t)(frame - t->callstacks.frames.at);
        struct frame_view v = frame_describe(t, at, frame->n - 1);
        if (v.function.len)
            f.name = v.function;
        if (v.image.len)
            f.image = v.image;
        if (f.file.len == 0) {
            f.file = v.file;
            f.line = v.line;
        }
    }
    if (f.name.len == 0 && f.is_elsewhere)
        f.name = a->codes.at[code].name;
    if (f.image.len == 0 && f.is_elsewhere)
        f.image = a->codes.at[code].image;
    return f;
}

static enum fit address_fits(const struct wanted *w, const struct annotate_function *f)
{
    if (w->address == f->address)
        return FIT_WHOLE;
    return w->address - f->address < f->size ? FIT_PART : FIT_NONE;
}

/* ---- functions by line */

static bool is_file_and_name(struct view text, struct view file, struct view name)
{
    return name.len && text.len == file.len + 1 + name.len && text.p[file.len] == ':' &&
           memcmp(text.p, file.p, file.len) == 0 &&
           memcmp(text.p + file.len + 1, name.p, name.len) == 0;
}

static enum fit line_fits(struct wanted *w, const struct frame_view *v)
{
    struct view text = view_of(w->text);
    if (!w->regex && v->file.len &&
        (is_file_and_name(text, v->file, v->function) ||
         is_file_and_name(text, view_base_name(v->file), v->function)))
        return FIT_WHOLE;
    return fit_of(w, v->function);
}

/* Keeps the best matches. */
static int take(struct annotate_functions *out, enum fit fit, enum fit *best,
                const struct annotate_function *f, struct err *e)
{
    if (fit < *best)
        return 0;
    if (fit > *best)
        out->list.len = 0;
    *best = fit;
    return vec_push(&out->list, *f) ? 0 : err_no_memory(e, "functions");
}

static int collect_by_line(struct annotate_functions *out, const struct trace *t, struct wanted *w,
                           enum fit *best, struct err *e)
{
    for (size_t i = 0; i < t->callstacks.frames.len && !w->is_address; i++) {
        const struct frame *frame = &t->callstacks.frames.at[i];
        for (uint32_t k = 0; frame->id & FRAME_ID_CUSTOM && k < frame->n; k++) {
            struct frame_view v = frame_describe(t, (uint32_t)i, k);
            const struct annotate_function f = {.name = v.function,
                                                .file = v.file,
                                                .line = v.line,
                                                .image = {"", 0},
                                                .by_line = true};
            if (v.has_name && take(out, line_fits(w, &v), best, &f, e) != 0)
                return -1;
        }
    }
    return 0;
}

/* ---- functions of both kinds */

static bool is_same(const struct annotate_function *x, const struct annotate_function *y)
{
    return x->by_line && y->by_line && view_equal(x->file, y->file) && view_equal(x->name, y->name);
}

static int compare(const void *a, const void *b)
{
    const struct annotate_function *x = a, *y = b;
    int order = y->by_line - x->by_line;
    if (order == 0 && x->by_line)
        order = view_compare(x->file, y->file);
    if (order == 0 && x->by_line)
        order = view_compare(x->name, y->name);
    if (order == 0 && x->by_line)
        return (x->line > y->line) - (x->line < y->line);
    return order ? order : (x->address > y->address) - (x->address < y->address);
}

static int collect(struct annotate_functions *out, const struct annotate_texts *a, struct wanted *w,
                   struct err *e)
{
    enum fit best = FIT_PART;
    size_t kept = 0;
    for (size_t i = 0; i < a->codes.len; i++) {
        struct annotate_function f = describe(a, i);
        if (take(out, w->is_address ? address_fits(w, &f) : fit_of(w, f.name), &best, &f, e) != 0)
            return -1;
    }
    if (collect_by_line(out, a->trace, w, &best, e) != 0)
        return -1;
    out->is_part = best == FIT_PART && !w->is_address;
    if (out->list.len > 1)
        qsort(out->list.at, out->list.len, sizeof *out->list.at, compare);
    for (size_t i = 0; i < out->list.len; i++) {
        if (kept == 0 || !is_same(&out->list.at[kept - 1], &out->list.at[i]))
            out->list.at[kept++] = out->list.at[i];
    }
    out->list.len = kept;
    return 0;
}

/* ---- errors for missing code */

/* A function of that name in the trace's frames, which has no separate code. */
static bool find_in_frames(const struct trace *t, struct wanted *w, struct view *name,
                           struct view *outer)
{
    const struct callstacks *c = &t->callstacks;
    enum fit best = FIT_NONE;
    for (size_t i = 0; i < c->frames.len && best < FIT_WHOLE && !w->is_address; i++) {
        for (uint32_t k = 0; k < c->frames.at[i].n; k++) {
            struct frame_view v = frame_describe(t, (uint32_t)i, k);
            enum fit fit = v.has_name ? fit_of(w, v.function) : FIT_NONE;
            if (fit <= best)
                continue;
            best = fit;
            *name = v.function;
            *outer = v.is_inline ? frame_describe(t, (uint32_t)i, c->frames.at[i].n - 1).function
                                 : (struct view){"", 0};
        }
    }
    return best != FIT_NONE;
}

static int name_width(struct view name)
{
    return name.len > 120 ? 120 : (int)name.len;
}

static int tell_why(const struct annotate_texts *a, struct wanted *w, struct err *e)
{
    static const char no_code[] = ": clients send it unless they were built with "
                                  "TRACY_NO_CODE_TRANSFER, `tidemark run` stores none, and "
                                  "--no-code and stripping leave it out";
    struct view name, outer;
    char n[FORMAT_SIZE];
    const char *text = w->text;
    bool known = find_in_frames(a->trace, w, &name, &outer);
    if (a->codes.len == 0 && !known && !w->is_address)
        return err_set(e, ERR_CHECK,
                       "no function of the trace's call stacks is known as '%.120s', and the trace "
                       "has no machine code%s",
                       text, no_code);
    if (a->codes.len == 0)
        return err_set(e, ERR_CHECK, "the trace has no machine code%s", no_code);
    if (known && outer.len)
        return err_set(e, ERR_CHECK,
                       "'%.*s' has no separate machine code in the trace: it was inlined, for "
                       "example into '%.*s', which can be annotated instead",
                       name_width(name), name.p, name_width(outer), outer.p);
    if (known)
        return err_set(e, ERR_CHECK,
                       "the trace has no machine code of '%.*s': clients send that of functions "
                       "whose size they know; give the image its symbol table and record again",
                       name_width(name), name.p);
    return err_set(e, ERR_USAGE, "%s '%.120s'; the trace has machine code of %s",
                   w->is_address ? "no function holds the address"
                   : w->regex    ? "no function's name matches"
                                 : "no function is called",
                   text, format_counted(n, a->codes.len, "function"));
}

int annotate_find(struct annotate_functions *f, const struct annotate_texts *a, const char *wanted,
                  bool regex, struct err *e)
{
    struct wanted w;
    *f = (struct annotate_functions){0};
    if (wanted_init(&w, wanted, regex, e) != 0)
        return -1;
    int status = collect(f, a, &w, e);
    if (status == 0 && f->list.len == 0)
        status = tell_why(a, &w, e);
    if (status != 0)
        annotate_functions_release(f);
    wanted_release(&w);
    return status;
}

void annotate_functions_release(struct annotate_functions *f)
{
    vec_release(&f->list);
}

/* ---- frames */

static int collect_frames(struct annotate_frames *f, const struct trace *t, struct wanted *w,
                          struct err *e)
{
    enum fit best = FIT_PART;
    for (size_t i = 0; i < t->callstacks.frames.len; i++) {
        const struct frame *frame = &t->callstacks.frames.at[i];
        if (frame->n == 0 || frame->id & FRAME_ID_CUSTOM)
            continue;
        struct frame_view v = frame_describe(t, (uint32_t)i, frame->n - 1);
        enum fit fit = v.has_name ? fit_of(w, v.function) : FIT_NONE;
        if (fit < best)
            continue;
        if (fit > best)
            f->list.len = 0;
        best = fit;
        if (!vec_push(&f->list, (uint32_t)i))
            return err_no_memory(e, "functions");
    }
    f->is_part = best == FIT_PART;
    return 0;
}

int annotate_find_frames(struct annotate_frames *f, const struct trace *t, const char *wanted,
                         bool regex, struct err *e)
{
    struct wanted w;
    *f = (struct annotate_frames){0};
    if (wanted_init(&w, wanted, regex, e) != 0)
        return -1;
    f->is_address = w.is_address;
    f->address = w.address;
    int status = w.is_address ? 0 : collect_frames(f, t, &w, e);
    if (status != 0)
        annotate_frames_release(f);
    wanted_release(&w);
    return status;
}

void annotate_frames_release(struct annotate_frames *f)
{
    vec_release(&f->list);
}
