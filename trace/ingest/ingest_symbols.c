/* Call stacks, the functions of their frames, symbols. */

#include "trace/ingest/ingest_internal.h"

#include <inttypes.h>

int ingest_callstack(void *ctx, const uint64_t *frames, uint32_t n, uint32_t *id, bool *fresh,
                     struct err *e)
{
    struct ingest *in = ctx;
    return callstacks_intern(&in->trace->callstacks, frames, n, id, fresh, e);
}

void ingest_find_callstacks(void *ctx, struct sent_callstack *stacks, size_t n)
{
    const struct ingest *in = ctx;
    callstacks_find(&in->trace->callstacks, stacks, n);
}

/* The number of a key; a new key gets the next number. False when memory is short. */
static bool number_of(struct map *m, uint64_t key, uint64_t *number, bool *fresh)
{
    uint64_t next = m->count;
    uint64_t *value = map_add(m, key, fresh);
    if (!value)
        return false;
    if (*fresh)
        *value = next;
    *number = *value;
    return true;
}

int ingest_custom_frame(void *ctx, struct view function, struct view file, uint32_t line,
                        uint64_t *frame, struct err *e)
{
    struct ingest *in = ctx;
    struct trace *t = in->trace;
    struct rec_inline_frame one = {.function = strings_intern(&t->strings, function, e),
                                   .file = strings_intern(&t->strings, file, e),
                                   .line = line};
    if (!one.function || !one.file)
        return -1;
    /* Equal frames share an id, so that equal stacks stay equal. */
    uint64_t source, number;
    bool fresh;
    if (!number_of(&in->custom_sources, (uint64_t)one.function << 32 | one.file, &source, &fresh) ||
        !number_of(&in->custom_frames, source << 32 | line, &number, &fresh))
        return err_no_memory(e, "the trace");
    *frame = FRAME_ID_CUSTOM | number;
    return fresh ? callstacks_resolve(&t->callstacks, *frame, 0, &one, 1, e) : 0;
}

/* Adds a symbol at its first use: its file and line arrive with the SYMBOL answer. */
static int ingest_new_symbol(struct ingest *in, const struct rec_inline_frame *f, uint32_t image,
                             uint32_t size, bool is_inline, struct err *e)
{
    struct trace *t = in->trace;
    bool fresh;
    uint64_t *number = map_add(&t->symbol_numbers, f->symbol, &fresh);
    if (!number)
        return err_no_memory(e, "the trace");
    if (!fresh)
        return 0;
    *number = t->symbols.len;
    struct trace_symbol symbol = {.address = f->symbol,
                                  .name = f->function,
                                  .image = image,
                                  .call_file = f->file,
                                  .call_line = f->line,
                                  .size = size < 1u << 24 ? size : (1u << 24) - 1,
                                  .is_inline = is_inline};
    return vec_push(&t->symbols, symbol) ? 0 : err_no_memory(e, "the trace");
}

int ingest_frame(struct ingest *in, const struct event *ev, struct err *e)
{
    struct trace *t = in->trace;
    uint64_t id = ev->frames.address & ((UINT64_C(1) << 62) - 1);
    const struct frame *known = callstacks_find_frame(&t->callstacks, id);
    /* Leaves out wrappers that official captures leave out, too. */
    unsigned n = ev->frames.n > ev->frames.skip ? (unsigned)ev->frames.n - ev->frames.skip : 0;
    if ((known && known->n) || n == 0)
        return 0;
    struct rec_inline_frame inlines[UINT8_MAX];
    const struct event_inline *told = ev->frames.inlines + ev->frames.skip;
    uint32_t image = strings_intern(&t->strings, ev->frames.image, e);
    if (!image)
        return -1;
    for (unsigned i = 0; i < n; i++) {
        const struct event_inline *from = &told[i];
        inlines[i] =
            (struct rec_inline_frame){.function = strings_intern(&t->strings, from->function, e),
                                      .file = strings_intern(&t->strings, from->file, e),
                                      .line = from->line,
                                      .symbol = from->symbol};
        if (!inlines[i].function || !inlines[i].file)
            return -1;
        if (from->symbol &&
            ingest_new_symbol(in, &inlines[i], image, from->symbol_len, i + 1 < n, e) != 0)
            return -1;
    }
    bool fresh;
    uint64_t *symbol = map_add(&t->code_symbols, ev->frames.address, &fresh);
    if (!symbol)
        return err_no_memory(e, "the trace");
    if (fresh)
        *symbol = inlines[0].symbol;
    return callstacks_resolve(&t->callstacks, id, image, inlines, n, e);
}

int ingest_symbol(struct ingest *in, const struct event *ev, struct err *e)
{
    struct trace *t = in->trace;
    const uint64_t *number = map_find(&t->symbol_numbers, ev->symbol.address);
    if (!number)
        return 0; /* an answer about a frame that the trace does not have */
    struct trace_symbol *s = &t->symbols.at[*number];
    if (s->known)
        return 0;
    s->file = strings_intern(&t->strings, ev->symbol.file, e);
    s->line = ev->symbol.line;
    s->known = true;
    return s->file ? 0 : -1;
}

/* Stored under the number in the answer; the end of the capture resolves it to a file. */
int ingest_source(struct ingest *in, const struct event *ev, struct err *e)
{
    in->recorded_sources += !(ev->name.key & EVENT_SOURCE_OURS);
    if (ev->kind == EVENT_SOURCE_CODE_MISSING)
        return 0;
    return keyed_blobs_add(&in->trace->sources, ev->name.key, ev->name.text, e);
}

int ingest_source_name(struct ingest *in, const struct event *ev, struct err *e)
{
    uint32_t name = strings_intern(&in->trace->strings, ev->name.text, e);
    if (!name)
        return -1;
    return vec_push(&in->source_names, name) ? 0 : err_no_memory(e, "the trace");
}

/*
 * The file of a text, or 0. Another server's numbers are meaningful only if it queried every file:
 * any file that it had locally would shift them.
 */
static uint32_t source_name(const struct ingest *in, uint64_t key)
{
    uint64_t number = key & ~EVENT_SOURCE_OURS;
    if (!(key & EVENT_SOURCE_OURS) && in->recorded_sources != in->source_names.len)
        return 0;
    return number < in->source_names.len ? in->source_names.at[number] : 0;
}

int ingest_sources_finish(struct ingest *in, struct err *e)
{
    struct trace *t = in->trace;
    struct map named = {0};
    uint64_t nameless = 0;
    t->source_paths.len = 0;
    for (size_t i = 0; i < t->sources.list.len; i++) {
        uint32_t name = source_name(in, t->sources.list.at[i].key);
        bool fresh = false;
        nameless += name == 0;
        if ((name && !map_add(&named, name, &fresh)) ||
            !vec_push(&t->source_paths, fresh ? name : 0)) {
            map_release(&named);
            return err_no_memory(e, "the trace");
        }
    }
    map_release(&named);
    return nameless ? trace_add_fact(t, e, "nameless_sources", "%" PRIu64, nameless) : 0;
}

int ingest_symbol_code(struct ingest *in, const struct event *ev, struct err *e)
{
    return keyed_blobs_add(&in->trace->symbol_codes, ev->name.key, ev->name.text, e);
}
