#include "analysis/code/annotate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/code/annotate_parts.h"
#include "analysis/figures/accounting.h"
#include "analysis/names/program_frames.h"
#include "base/saturate.h"
#include "trace/file/record_takers.h"

#define SOURCE_LINE_MAX 300u /* of one source line */

static int no_room(struct err *e)
{
    return err_no_memory(e, "machine code");
}

/* ---- while the trace is loaded */

void annotate_texts_init(struct annotate_texts *a, struct trace *t)
{
    *a = (struct annotate_texts){.trace = t};
}

void annotate_texts_release(struct annotate_texts *a)
{
    vec_release(&a->codes);
    vec_release(&a->paths);
    buf_release(&a->names);
    *a = (struct annotate_texts){0};
}

/* The first code of an address is used, as by the trace itself. */
TAKE_EACH(put_code, struct annotate_texts *a, symbol_code, code)
{
    struct annotate_code c = {.address = code->address, .size = code->bytes.len};
    struct view bytes = code->bytes;
    if (map_find(&a->trace->symbol_codes.numbers, code->address))
        return 0;
    if (c.address && c.size > 0 - c.address)
        c.size = 0 - c.address;
    bytes.len = c.size < ANNOTATE_CODE_MAX ? (size_t)c.size : ANNOTATE_CODE_MAX;
    if (a->codes.len >= UINT32_MAX || !vec_push(&a->codes, c))
        return no_room(e);
    return keyed_blobs_add(&a->trace->symbol_codes, code->address, bytes, e);
}

static int copy_text(struct annotate_texts *a, struct view *text, struct err *e)
{
    uint32_t number = strings_intern(&a->trace->strings, *text, e);
    if (!number)
        return -1;
    *text = strings_get(&a->trace->strings, number);
    return 0;
}

int annotate_texts_add(struct annotate_texts *a, const struct annotate_code *code,
                       struct view bytes, struct err *e)
{
    struct annotate_code c = *code;
    if (map_find(&a->trace->symbol_codes.numbers, code->address))
        return 0;
    c.is_elsewhere = true;
    if (copy_text(a, &c.name, e) != 0 || copy_text(a, &c.image, e) != 0 ||
        copy_text(a, &c.origin.path, e) != 0)
        return -1;
    if (a->codes.len >= UINT32_MAX || !vec_push(&a->codes, c))
        return no_room(e);
    return keyed_blobs_add(&a->trace->symbol_codes, code->address, bytes, e);
}

TAKE_EACH(put_source, struct annotate_texts *a, source_file, file)
{
    if (keyed_blobs_add(&a->trace->sources, a->paths.len, file->bytes, e) != 0)
        return -1;
    buf_put(&a->names, file->path.p, file->path.len);
    return !a->names.failed && vec_push(&a->paths, file->path.len) ? 0 : no_room(e);
}

static const record_takers takers = {
    [REC_SYMBOL_CODE] = put_code,
    [REC_SOURCE_FILE] = put_source,
};

void annotate_texts_wanted(bool wanted[REC_TYPE_COUNT])
{
    records_wanted(takers, wanted);
}

int annotate_texts_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    return records_take(takers, ctx, type, recs, n, e);
}

/* ---- instructions */

struct builder {
    struct annotation *a;
    struct annotate_texts *texts;
    struct selection *selection;
};

static int add_line(struct annotation *a, struct annotate_line line, const char *text,
                    struct err *e)
{
    line.text = a->bytes.len;
    line.len = strlen(text);
    line.place = ANNOTATE_NO_PLACE;
    buf_put(&a->bytes, text, line.len);
    a->shown += line.size;
    return !a->bytes.failed && vec_push(&a->lines, line) ? 0 : no_room(e);
}

static int take_instruction(void *to, uint64_t address, size_t size, const char *text, bool known,
                            struct err *e)
{
    struct builder *b = to;
    struct annotation *a = b->a;
    if (address != a->function.address + a->shown)
        return 0;
    const struct annotate_line line = {
        .address = address, .size = (uint32_t)size, .is_code = known, .is_unknown = !known};
    return add_line(a, line, text, e);
}

static int add_bytes(struct annotation *a, struct view code, unsigned unit, struct err *e)
{
    const char *p = code.p + a->shown;
    size_t left = code.len - a->shown;
    char text[32];
    unsigned size = unit == 4 && left >= 4 ? 4 : 1;
    if (size == 4)
        snprintf(text, sizeof text, ".word 0x%08" PRIx32, load_u32(p));
    else
        snprintf(text, sizeof text, ".byte 0x%02x", (unsigned char)*p);
    return add_line(a,
                    (struct annotate_line){.address = a->function.address + a->shown, .size = size},
                    text, e);
}

/* Bytes that are no instruction are skipped one unit at a time. */
static int disassemble(struct builder *b, struct view code, const struct disassembler *d,
                       struct err *e)
{
    struct annotation *a = b->a;
    while (a->shown < code.len) {
        struct view rest = {code.p + a->shown, code.len - a->shown};
        if (d->walk(d->ctx, a->function.address + a->shown, rest, take_instruction, b, e) != 0)
            return -1;
        if (a->shown < code.len && add_bytes(a, code, d->unit, e) != 0)
            return -1;
    }
    return 0;
}

static int read_code(struct builder *b, const struct disassembler *d, struct err *e)
{
    struct keyed_blobs_reader r;
    struct view code;
    uint64_t key;
    keyed_blobs_reader_init(&r, &b->texts->trace->symbol_codes);
    r.next = b->a->function.code;
    int status = keyed_blobs_next(&r, &key, &code, e);
    if (status > 0)
        status = disassemble(b, code, d, e);
    keyed_blobs_reader_release(&r);
    return status;
}

/* ---- figures */

/* By frame number: the lines of the function that call stacks with this frame pass through. */
struct passage {
    uint32_t line; /* index + 1; 0: none that is shown */
    bool inside;   /* within the function */
};

static struct passage *find_passages(struct annotation *a, struct err *e)
{
    const struct callstacks *c = &a->trace->callstacks;
    struct passage *p = calloc(c->frames.len + 1, sizeof *p);
    if (!p) {
        no_room(e);
        return NULL;
    }
    for (size_t i = 0; i < c->frames.len; i++) {
        struct frame_view view;
        if (a->function.by_line) {
            p[i].inside = annotate_frame_line(a, (uint32_t)i, &view);
            if (p[i].inside)
                p[i].line = (uint32_t)(annotate_line_numbered(a, view.line) - a->lines.at) + 1;
            continue;
        }
        uint64_t id = c->frames.at[i].id;
        uint64_t address = frame_address(id);
        if (id & FRAME_ID_CUSTOM || address == 0 || !annotate_is_inside(a, address - 1))
            continue;
        struct annotate_line *line = annotate_line_at(a, address - 1);
        p[i] = (struct passage){line ? (uint32_t)(line - a->lines.at) + 1 : 0, true};
    }
    return p;
}

static void add_figures(struct annotate_figures *to, const struct counter *c)
{
    to->count = saturating_add(to->count, c->count);
    to->bytes = saturating_add(to->bytes, c->bytes);
    to->live_count = saturating_add(to->live_count, c->live_count);
    to->live_bytes = saturating_add(to->live_bytes, c->live_bytes);
}

struct sums {
    struct annotation *a;
    const struct passage *passages;
    uint32_t *seen; /* by line: the last call stack counted there, + 1 */
    struct program_frames program;
};

static void add_stack(struct sums *s, uint32_t callstack, const struct counter *c)
{
    const struct callstacks *stacks = &s->a->trace->callstacks;
    const struct callstack *stack = callstacks_get(stacks, callstack);
    bool inside = false;
    for (uint32_t node = stack ? stack->node : 0; node; node = stacks->nodes.at[node].parent) {
        const struct passage *p = &s->passages[stacks->nodes.at[node].frame];
        inside |= p->inside;
        if (!p->line || s->seen[p->line - 1] == callstack)
            continue;
        struct annotate_line *line = &s->a->lines.at[p->line - 1];
        s->seen[p->line - 1] = callstack;
        line->is_call = true;
        add_figures(&line->figures, c);
    }
    if (!inside)
        return;
    add_figures(&s->a->through, c);
    struct stack_place site = program_frames_begin(&s->program, callstack);
    if (site.node && s->passages[stacks->nodes.at[site.node].frame].inside)
        add_figures(&s->a->own, c);
}

/* All selected pools count as one. */
static int count(struct builder *b, struct accounting *account, struct err *e)
{
    size_t pools = b->selection->pools.len;
    uint32_t *one = calloc(pools + 1, sizeof *one);
    if (!one)
        return no_room(e);
    const struct accounting_options options = {.pools = one, .pool_count = pools, .judged = true};
    accounting_init(account, &options);
    const struct memory_observer to = accounting_observer(account);
    int status = selection_sweep(b->selection, &to, e);
    account->options.pools = NULL;
    free(one);
    return status;
}

static int add_up(struct builder *b, const struct accounting *account, struct err *e)
{
    struct sums s = {.a = b->a};
    struct passage *passages = find_passages(b->a, e);
    if (!passages)
        return -1;
    s.passages = passages;
    s.seen = calloc(b->a->lines.len + 1, sizeof *s.seen);
    int status = s.seen ? program_frames_init(&s.program, b->a->trace, NULL, e) : no_room(e);
    if (status == 0) {
        uint64_t iter = 0;
        uint32_t callstack;
        struct counter c;
        while (accounting_next(account, 0, &iter, &callstack, &c)) {
            if (c.count)
                add_stack(&s, callstack, &c);
        }
        program_frames_release(&s.program);
    }
    free(s.seen);
    free(passages);
    return status;
}

static int find_figures(struct builder *b, struct err *e)
{
    struct accounting account = {0};
    int status = count(b, &account, e);
    if (status == 0)
        status = add_up(b, &account, e);
    accounting_release(&account);
    return status;
}

/* ---- sources */

static bool same_place(const struct frame_view *a, const struct frame_view *b)
{
    return a->line == b->line && view_equal(a->file, b->file) &&
           view_equal(a->function, b->function);
}

/*
 * The frame that gives the source of an instruction: that at its own address or, for a call without
 * one, that at the return address.
 */
static int find_places(struct annotation *a, struct err *e)
{
    for (size_t i = 0; i < a->lines.len; i++) {
        struct annotate_line *line = &a->lines.at[i];
        const struct frame *f = annotate_frame_at(a->trace, line->address);
        if (!f && line->is_call)
            f = annotate_frame_at(a->trace, line->address + line->size);
        if (!f)
            continue;
        uint32_t number = (uint32_t)(f - a->trace->callstacks.frames.at);
        struct annotate_place place = {.frame = frame_describe(a->trace, number, 0)};
        size_t n = a->places.len;
        if ((n == 0 || !same_place(&a->places.at[n - 1].frame, &place.frame)) &&
            !vec_push(&a->places, place))
            return no_room(e);
        line->place = (uint32_t)a->places.len - 1;
    }
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static int set_text(struct annotation *a, struct annotate_place *place, struct view line,
                    struct err *e)
{
    while (!a->function.by_line && line.len && is_blank(*line.p)) {
        line.p++;
        line.len--;
    }
    while (line.len && is_blank(line.p[line.len - 1]))
        line.len--;
    place->has_text = true;
    place->text = a->bytes.len;
    place->len = line.len < SOURCE_LINE_MAX ? line.len : SOURCE_LINE_MAX;
    buf_put(&a->bytes, line.p, place->len);
    return a->bytes.failed ? no_room(e) : 0;
}

static int compare_lines(const void *a, const void *b)
{
    const struct annotate_place *x = *(const struct annotate_place *const *)a;
    const struct annotate_place *y = *(const struct annotate_place *const *)b;
    return (x->frame.line > y->frame.line) - (x->frame.line < y->frame.line);
}

/* Reads the source lines of places of one file, which are sorted by line. */
static int read_lines(struct annotation *a, struct annotate_place **places, size_t n,
                      struct view source, struct err *e)
{
    uint32_t number = 1;
    for (size_t i = 0; source.len && i < n; number++) {
        const char *end = memchr(source.p, '\n', source.len);
        size_t len = end ? (size_t)(end - source.p) : source.len;
        for (; i < n && places[i]->frame.line <= number; i++) {
            if (places[i]->frame.line == number &&
                set_text(a, places[i], (struct view){source.p, len}, e) != 0)
                return -1;
        }
        source.p += len + (end != NULL);
        source.len -= len + (end != NULL);
    }
    return 0;
}

/* `chosen` has room for all places. */
static int read_source(struct annotation *a, struct annotate_place **chosen, struct view path,
                       struct keyed_blobs_reader *r, struct err *e)
{
    size_t n = 0;
    struct view source;
    uint64_t key;
    for (size_t i = 0; i < a->places.len; i++) {
        struct annotate_place *p = &a->places.at[i];
        if (!p->has_text && p->frame.line && view_equal(p->frame.file, path))
            chosen[n++] = p;
    }
    if (n == 0)
        return 0;
    qsort(chosen, n, sizeof *chosen, compare_lines);
    int more = keyed_blobs_next(r, &key, &source, e);
    return more > 0 ? read_lines(a, chosen, n, source, e) : more;
}

static int read_sources(struct annotation *a, struct annotate_texts *texts, struct err *e)
{
    struct keyed_blobs_reader r;
    const char *path = (const char *)texts->names.data;
    struct annotate_place **chosen = calloc(a->places.len + 1, sizeof *chosen);
    int status = chosen ? 0 : no_room(e);
    keyed_blobs_reader_init(&r, &texts->trace->sources);
    for (size_t i = 0; i < texts->paths.len && status == 0; i++) {
        size_t len = texts->paths.at[i];
        r.next = i;
        if (len)
            status = read_source(a, chosen, (struct view){path, len}, &r, e);
        path = len ? path + len : path;
    }
    keyed_blobs_reader_release(&r);
    free(chosen);
    return status;
}

static bool holds_source(const struct annotate_texts *texts, struct view path)
{
    const char *p = (const char *)texts->names.data;
    for (size_t i = 0; i < texts->paths.len; i++) {
        size_t len = texts->paths.at[i];
        if (len && view_equal((struct view){p, len}, path))
            return true;
        p = len ? p + len : p;
    }
    return false;
}

/* ---- all of it */

int annotate_build(struct annotation *a, struct annotate_texts *texts,
                   const struct sample_input *samples, const struct annotate_function *function,
                   struct selection *s, const struct disassembler *d, struct err *e)
{
    struct builder b = {a, texts, s};
    *a = (struct annotation){.trace = texts->trace, .function = *function};
    bool by_line = function->by_line;
    a->has_source = by_line && holds_source(texts, function->file);
    int status = by_line ? annotate_add_lines(a, a->has_source, e) : read_code(&b, d, e);
    if (status == 0)
        status = find_figures(&b, e);
    if (status == 0 && !by_line)
        annotate_count_samples(a, samples, s);
    if (status == 0 && !by_line)
        status = find_places(a, e);
    if (status == 0)
        status = read_sources(a, texts, e);
    if (status != 0)
        annotation_release(a);
    return status;
}

void annotation_release(struct annotation *a)
{
    vec_release(&a->lines);
    vec_release(&a->places);
    buf_release(&a->bytes);
}
