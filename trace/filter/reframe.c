#include "trace/filter/reframe.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/vec.h"
#include "trace/file/record_takers.h"
#include "trace/filter/name_table.h"

/* A call stack number has 24 bits. */
#define STACK_BITS ((size_t)1 << 24)

#define FACT_MODULE "tidemark.module="
#define FACT_SYMBOLS "tidemark.symbols="

struct reframe {
    struct record_sink next;
    struct name_table table;
    struct callstacks callstacks;
    struct frame_book book;
    VEC(struct reframe_symbol) symbols;
    struct map symbol_numbers; /* address → 1 + position in symbols */
    uint64_t *sampled;         /* a bit per call stack number: used by samples */
    uint32_t stacks;           /* call stacks so far */
    VEC(uint32_t) order;       /* frame numbers in the file's order of frames */
    size_t told;               /* frames put by the second pass */
    bool sealed;               /* all strings of the file were read */
    size_t file_strings;
    uint32_t fact;      /* string number of the new fact; 0: none */
    uint64_t old_facts; /* facts that it replaces */
};

int reframe_open(struct reframe **out, struct err *e)
{
    struct reframe *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return err_no_memory(e, "the frames of a trace");
    name_table_init(&r->table);
    r->sampled = calloc(STACK_BITS / 64, sizeof *r->sampled);
    if (!r->sampled || callstacks_init(&r->callstacks, e) != 0) {
        reframe_free(r);
        return err_no_memory(e, "the frames of a trace");
    }
    callstacks_use(&r->callstacks, &r->table.pageable);
    r->symbol_numbers.pageable = &r->table.pageable;
    r->book.callstacks = &r->callstacks;
    r->book.strings = &r->table.strings;
    *out = r;
    return 0;
}

void reframe_free(struct reframe *r)
{
    if (!r)
        return;
    callstacks_release(&r->callstacks);
    frame_book_release(&r->book);
    pageable_vec_release(&r->table.pageable, &r->symbols);
    map_release(&r->symbol_numbers);
    pageable_vec_release(&r->table.pageable, &r->order);
    name_table_release(&r->table);
    free(r->sampled);
    free(r);
}

/* ---- first pass */

TAKE_EACH(note_sample, struct reframe *r, sample, s)
{
    if (s->callstack < STACK_BITS)
        r->sampled[s->callstack / 64] |= UINT64_C(1) << s->callstack % 64;
    return 0;
}

TAKE_EACH(note_stack, struct reframe *r, callstack, s)
{
    uint32_t number = ++r->stacks;
    bool sampled = number < STACK_BITS && r->sampled[number / 64] >> number % 64 & 1;
    return frame_book_use(&r->book, s->frames, s->len, sampled, e);
}

TAKE_EACH(note_frame, struct reframe *r, callstack_frame, f)
{
    /* The file often lists frames in the order in which call stacks use them. */
    uint32_t number = r->order.len ? r->order.at[r->order.len - 1] + 1 : 0;
    if (number >= r->callstacks.frames.len || r->callstacks.frames.at[number].id != f->frame)
        number = callstacks_frame(&r->callstacks, f->frame);
    if (!pageable_push(&r->table.pageable, &r->order, number))
        return err_no_memory(e, "the frames of a trace");
    return callstacks_resolve_number(&r->callstacks, number, f->image, f->inlines, f->n, e);
}

static bool begins_with(struct view text, const char *prefix)
{
    size_t n = strlen(prefix);
    return text.len > n && memcmp(text.p, prefix, n) == 0;
}

TAKE_EACH(note_fact, struct reframe *r, string_ref, ref)
{
    struct view text = name_table_text(&r->table, ref);
    size_t skip = sizeof FACT_MODULE - 1;
    r->old_facts += begins_with(text, FACT_SYMBOLS);
    if (!begins_with(text, FACT_MODULE))
        return 0;
    if (!vec_push(&r->book.modules, (struct view){text.p + skip, text.len - skip}))
        return err_no_memory(e, "the module table");
    return 0;
}

TAKE_EACH(note_symbol, struct reframe *r, symbol, s)
{
    struct view image = strings_get(&r->table.strings, s->image);
    struct view name = strings_get(&r->table.strings, s->name);
    bool fresh;
    if (s->is_inline || frame_name_parse(name, image).kind == FRAME_NAME_FULL)
        return 0;
    uint64_t *position = map_add(&r->symbol_numbers, s->address, &fresh);
    const struct reframe_symbol symbol = {.address = s->address,
                                          .image = s->image,
                                          .name = s->name,
                                          .file = s->file,
                                          .line = s->line};
    if (!position || (fresh && !pageable_push(&r->table.pageable, &r->symbols, symbol)))
        return err_no_memory(e, "the symbols of a trace");
    if (fresh)
        *position = r->symbols.len;
    return 0;
}

static const record_takers collectors = {
    [REC_SWITCH_SAMPLE] = note_sample,  [REC_SAMPLE] = note_sample, [REC_CALLSTACK] = note_stack,
    [REC_CALLSTACK_FRAME] = note_frame, [REC_APP_INFO] = note_fact, [REC_SYMBOL] = note_symbol,
};

static int collect_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct reframe *r = ctx;
    return collectors[type] ? collectors[type](r, recs, n, e)
                            : name_table_put(&r->table, type, recs, n, e);
}

struct record_sink reframe_collect_sink(struct reframe *r)
{
    return (struct record_sink){.ctx = r, .put = collect_put};
}

void reframe_wanted(bool *wanted)
{
    name_table_wanted(wanted);
    records_wanted(collectors, wanted);
}

/* ---- between the passes */

struct frame_book *reframe_book(struct reframe *r)
{
    if (!r->sealed)
        r->file_strings = r->table.strings.list.len;
    r->sealed = true;
    return &r->book;
}

size_t reframe_symbol_count(const struct reframe *r)
{
    return r->symbols.len;
}

struct reframe_symbol *reframe_symbol(struct reframe *r, size_t i)
{
    return &r->symbols.at[i];
}

int reframe_set_fact(struct reframe *r, const char *text, struct err *e)
{
    struct buf fact = {0};
    (void)reframe_book(r);
    buf_printf(&fact, FACT_SYMBOLS "%s", text);
    struct view view = {buf_str(&fact), fact.len};
    r->fact = fact.failed ? 0 : strings_intern(&r->table.strings, view, e);
    buf_release(&fact);
    return r->fact ? 0 : err_no_memory(e, "a fact");
}

/* ---- second pass */

static int put_string_count(struct reframe *r, const struct rec_count *count, struct err *e)
{
    (void)reframe_book(r);
    const struct rec_count all = {count->n + r->table.strings.list.len - r->file_strings};
    return record_put(&r->next, REC_STRINGS, &all, 1, e);
}

static int put_new_strings(struct reframe *r, struct err *e)
{
    for (size_t i = r->file_strings; i < r->table.strings.list.len; i++) {
        struct rec_string string = {name_table_new_key(&r->table, e), r->table.strings.list.at[i]};
        if (string.key == 0 || record_put(&r->next, REC_STRING, &string, 1, e) != 0)
            return -1;
    }
    return 0;
}

/* The frames come as in the first pass, unless an earlier filter has dropped some. */
static const struct frame *next_frame(struct reframe *r, uint64_t id)
{
    uint32_t number = r->told < r->order.len ? r->order.at[r->told++] : UINT32_MAX;
    if (number < r->callstacks.frames.len && r->callstacks.frames.at[number].id == id)
        return &r->callstacks.frames.at[number];
    return callstacks_find_frame(&r->callstacks, id);
}

/* Puts a frame of at least one and at most UINT8_MAX functions. */
static int put_named(struct reframe *r, const struct frame *f, struct err *e)
{
    const struct rec_callstack_frame named = {.frame = f->id,
                                              .image = f->image,
                                              .n = (uint8_t)f->n,
                                              .inlines = &r->callstacks.inlines.at[f->first]};
    return record_put(&r->next, REC_CALLSTACK_FRAME, &named, 1, e);
}

static int put_frame(struct reframe *r, const struct rec_callstack_frame *frame, struct err *e)
{
    const struct frame *f = next_frame(r, frame->frame);
    if (!f || f->n == 0 || f->n > UINT8_MAX)
        return record_put(&r->next, REC_CALLSTACK_FRAME, frame, 1, e);
    return put_named(r, f, e);
}

/*
 * Frames of call stacks that the file does not name but the caller named are written before all
 * others.
 */
static int put_frame_count(struct reframe *r, const struct rec_count *count, struct err *e)
{
    size_t frames = r->callstacks.frames.len;
    uint8_t *told = calloc(frames + 1, 1);
    struct rec_count all = *count;
    if (!told)
        return err_no_memory(e, "the frames of a trace");
    for (size_t i = 0; i < r->order.len; i++)
        told[r->order.at[i]] = 1;
    for (size_t i = 0; i < frames; i++) {
        uint32_t n = r->callstacks.frames.at[i].n;
        told[i] |= n == 0 || n > UINT8_MAX;
        all.n += !told[i];
    }
    int status = record_put(&r->next, REC_CALLSTACK_FRAMES, &all, 1, e);
    for (size_t i = 0; i < frames && status == 0; i++) {
        if (!told[i])
            status = put_named(r, &r->callstacks.frames.at[i], e);
    }
    free(told);
    return status;
}

static int put_fact_count(struct reframe *r, const struct rec_count *count, struct err *e)
{
    const struct rec_count all = {count->n - (r->fact ? r->old_facts : 0) + (r->fact != 0)};
    if (record_put(&r->next, REC_APP_INFOS, &all, 1, e) != 0)
        return -1;
    if (!r->fact)
        return 0;
    const struct rec_string_ref ref = {.value = r->fact - 1, .flags = STRING_REF_INDEX};
    return record_put(&r->next, REC_APP_INFO, &ref, 1, e);
}

static int put_facts(struct reframe *r, const struct rec_string_ref *refs, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (r->fact && begins_with(name_table_text(&r->table, &refs[i]), FACT_SYMBOLS))
            continue;
        if (record_put(&r->next, REC_APP_INFO, &refs[i], 1, e) != 0)
            return -1;
    }
    return 0;
}

static int put_symbols(struct reframe *r, const struct rec_symbol *symbols, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct rec_symbol s = symbols[i];
        const uint64_t *position = s.is_inline ? NULL : map_find(&r->symbol_numbers, s.address);
        const struct reframe_symbol *named = position ? &r->symbols.at[*position - 1] : NULL;
        if (named && named->changed) {
            s.name = named->name;
            s.file = named->file;
            s.line = named->line;
        }
        if (record_put(&r->next, REC_SYMBOL, &s, 1, e) != 0)
            return -1;
    }
    return 0;
}

static int reframe_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct reframe *r = ctx;
    switch (type) {
    case REC_STRINGS:
        return put_string_count(r, recs, e);
    case REC_STRING_POINTERS:
        if (put_new_strings(r, e) != 0)
            return -1;
        break;
    case REC_CALLSTACK_FRAMES:
        return put_frame_count(r, recs, e);
    case REC_CALLSTACK_FRAME:
        return put_frame(r, recs, e);
    case REC_APP_INFOS:
        return put_fact_count(r, recs, e);
    case REC_APP_INFO:
        return put_facts(r, recs, n, e);
    case REC_SYMBOL:
        return put_symbols(r, recs, n, e);
    default:
        break;
    }
    return record_put(&r->next, type, recs, n, e);
}

struct record_sink reframe_sink(struct reframe *r, const struct record_sink *next)
{
    r->next = *next;
    return (struct record_sink){.ctx = r, .put = reframe_put};
}
