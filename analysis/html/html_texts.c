#include "analysis/html/html_texts.h"

#include <string.h>
#include <xxhash.h>

#include "analysis/names/program_frames.h"
#include "trace/file/record_takers.h"

#define LINES_BEFORE 8u
#define LINES_AFTER 4u
#define INSTRUCTIONS_BEFORE 12u
#define INSTRUCTIONS_AFTER 3u
#define LINE_MAX 300u       /* of one source line */
#define CODE_MAX (1u << 20) /* larger functions are not disassembled */

void page_texts_init(struct page_texts *p, struct trace *t)
{
    *p = (struct page_texts){.trace = t};
}

void page_texts_release(struct page_texts *p)
{
    map_release(&p->files);
    map_release(&p->symbols);
    vec_release(&p->paths);
    vec_release(&p->list);
    vec_release(&p->lines);
    buf_release(&p->bytes);
    *p = (struct page_texts){0};
}

/* ---- while the trace is loaded */

static uint64_t path_hash(struct view path)
{
    return XXH3_64bits(path.p, path.len);
}

/*
 * Call stacks come before code and sources in a file: marks the files and symbols that their frames
 * name.
 */
static int prepare(struct page_texts *p, struct err *e)
{
    const struct callstacks *c = &p->trace->callstacks;
    p->prepared = true;
    for (size_t i = 0; i < c->inlines.len; i++) {
        const struct rec_inline_frame *in = &c->inlines.at[i];
        uint64_t path = path_hash(strings_get(&p->trace->strings, in->file));
        if (!map_add(&p->files, path, NULL) ||
            (in->symbol && !map_add(&p->symbols, in->symbol, NULL)))
            return err_no_memory(e, "source and machine code");
    }
    return 0;
}

TAKE_EACH(set_source_aside, struct page_texts *p, source_file, file)
{
    uint64_t path = path_hash(file->path);
    if (!map_find(&p->files, path))
        return 0;
    if (keyed_blobs_add(&p->trace->sources, p->paths.len, file->bytes, e) != 0)
        return -1;
    return vec_push(&p->paths, path) ? 0 : err_no_memory(e, "source texts");
}

TAKE_EACH(set_code_aside, struct page_texts *p, symbol_code, code)
{
    return code->bytes.len <= CODE_MAX && map_find(&p->symbols, code->address)
               ? keyed_blobs_add(&p->trace->symbol_codes, code->address, code->bytes, e)
               : 0;
}

static const record_takers takers = {
    [REC_SYMBOL_CODE] = set_code_aside,
    [REC_SOURCE_FILE] = set_source_aside,
};

void page_texts_wanted(bool wanted[REC_TYPE_COUNT])
{
    records_wanted(takers, wanted);
}

int page_texts_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct page_texts *p = ctx;
    if (!p->prepared && prepare(p, e) != 0)
        return -1;
    return records_take(takers, p, type, recs, n, e);
}

/* ---- sites */

/* The location of a site. */
struct target {
    uint32_t site;
    uint64_t path;    /* hash */
    uint32_t line;    /* 0 unknown */
    uint64_t symbol;  /* 0 unknown */
    uint64_t address; /* return address of the call */
    struct frame_view frame;
};

struct targets {
    struct target *at;
    size_t len;
    size_t cap;
};

static int find_targets(struct page_texts *p, const struct page_data *d,
                        const struct skiplist *skip, struct targets *out, struct err *e)
{
    const struct callstacks *c = &p->trace->callstacks;
    const struct skiplist known = summary_skiplist(d->summary, skip);
    struct program_frames program;
    if (program_frames_init(&program, p->trace, &known, e) != 0)
        return -1;
    int status = 0;
    for (size_t i = 0; i < d->sites.len && status == 0; i++) {
        if (!callstacks_get(c, d->sites.at[i].callstack))
            continue;
        if (out->len == PAGE_TEXT_SITES_MAX) {
            p->left_out += p->trace->sources.list.len || p->trace->symbol_codes.list.len;
            continue;
        }
        struct stack_place at = program_frames_begin(&program, d->sites.at[i].callstack);
        if (at.node == 0)
            continue;
        uint32_t number = c->nodes.at[at.node].frame;
        const struct frame *f = &c->frames.at[number];
        struct target t = {.site = (uint32_t)i,
                           .frame = frame_describe(p->trace, number, at.inlined)};
        t.path = path_hash(t.frame.file);
        t.line = t.frame.line;
        t.address = t.frame.address;
        t.symbol = f->n ? c->inlines.at[f->first + f->n - 1].symbol : 0;
        if (!vec_push(out, t))
            status = err_no_memory(e, "source and machine code");
    }
    program_frames_release(&program);
    return status;
}

/* ---- lines */

/* 1: it began; 0: the page has no room for it, which is counted. */
static int begin_text(struct page_texts *p, const struct target *t, bool is_code, struct err *e)
{
    if (p->bytes.len > PAGE_TEXTS_MAX) {
        p->left_out++;
        return 0;
    }
    struct page_text text = {.site = t->site,
                             .is_code = is_code,
                             .file = is_code ? t->frame.function : t->frame.file,
                             .first_line = p->lines.len};
    return vec_push(&p->list, text) ? 1 : err_no_memory(e, "source and machine code");
}

static int add_line(struct page_texts *p, uint64_t number, struct view text, bool here,
                    struct err *e)
{
    size_t n = text.len < LINE_MAX ? text.len : LINE_MAX;
    struct page_line line = {.number = number, .here = here, .text = p->bytes.len, .len = n};
    buf_put(&p->bytes, text.p, n);
    if (p->bytes.failed || !vec_push(&p->lines, line))
        return err_no_memory(e, "source and machine code");
    p->list.at[p->list.len - 1].line_count++;
    return 0;
}

static int add_source(struct page_texts *p, const struct target *t, struct view source,
                      struct err *e)
{
    uint32_t first = t->line > LINES_BEFORE ? t->line - LINES_BEFORE : 1;
    uint32_t number = 1;
    int begun = 0;
    while (source.len && number <= t->line + LINES_AFTER) {
        const char *end = memchr(source.p, '\n', source.len);
        size_t n = end ? (size_t)(end - source.p) : source.len;
        if (number >= first) {
            if (!begun && (begun = begin_text(p, t, false, e)) <= 0)
                return begun;
            size_t shown = n && source.p[n - 1] == '\r' ? n - 1 : n;
            if (add_line(p, number, (struct view){source.p, shown}, number == t->line, e) != 0)
                return -1;
        }
        source.p += n + (end != NULL);
        source.len -= n + (end != NULL);
        number++;
    }
    return 0;
}

/* The newest instructions, and whether the call is among them. */
struct listing {
    struct page_texts *texts;
    const struct target *target;
    struct page_line before[INSTRUCTIONS_BEFORE + 1];
    struct buf bytes; /* of all instructions so far */
    size_t count;
    unsigned after; /* instructions beyond the call */
    bool found, full;
};

static int emit_before(struct listing *l, struct err *e)
{
    size_t kept = l->count < INSTRUCTIONS_BEFORE + 1 ? l->count : INSTRUCTIONS_BEFORE + 1;
    int begun = begin_text(l->texts, l->target, true, e);
    l->full = begun == 0;
    if (begun <= 0)
        return begun;
    for (size_t i = l->count - kept; i < l->count; i++) {
        const struct page_line *line = &l->before[i % (INSTRUCTIONS_BEFORE + 1)];
        struct view text = {(const char *)l->bytes.data + line->text, line->len};
        if (add_line(l->texts, line->number, text, i + 1 == l->count, e) != 0)
            return -1;
    }
    return 0;
}

/* The call is the instruction before the return address, or the one that contains it. */
static int take_instruction(void *to, uint64_t address, size_t size, const char *text, bool known,
                            struct err *e)
{
    struct listing *l = to;
    (void)known;
    if (l->full || l->after == INSTRUCTIONS_AFTER)
        return 0;
    if (l->found) {
        l->after++;
        return add_line(l->texts, address, view_of(text), false, e);
    }
    struct page_line line = {.number = address, .text = l->bytes.len, .len = strlen(text)};
    buf_put(&l->bytes, text, line.len);
    if (l->bytes.failed)
        return err_no_memory(e, "machine code");
    l->before[l->count++ % (INSTRUCTIONS_BEFORE + 1)] = line;
    l->found = l->target->address - 1 >= address && l->target->address - 1 < address + size;
    return l->found ? emit_before(l, e) : 0;
}

static int add_code(struct page_texts *p, const struct target *t, struct view code,
                    const struct disassembler *d, struct err *e)
{
    struct listing l = {.texts = p, .target = t};
    int status = d->walk(d->ctx, t->symbol, code, take_instruction, &l, e);
    buf_release(&l.bytes);
    return status;
}

/* Reads everything that was set aside once, and gives each site its part. */
static int read_texts(struct page_texts *p, const struct targets *targets,
                      const struct disassembler *d, struct err *e)
{
    struct keyed_blobs *const blobs[] = {&p->trace->sources, &p->trace->symbol_codes};
    int status = 0;
    for (size_t kind = 0; kind < 2 && status == 0; kind++) {
        struct keyed_blobs_reader r;
        uint64_t key;
        struct view bytes;
        int more = 0;
        keyed_blobs_reader_init(&r, blobs[kind]);
        while (status == 0 && (more = keyed_blobs_next(&r, &key, &bytes, e)) > 0) {
            for (size_t i = 0; i < targets->len && status == 0; i++) {
                const struct target *t = &targets->at[i];
                if (kind == 0 && key < p->paths.len && t->line && t->path == p->paths.at[key])
                    status = add_source(p, t, bytes, e);
                if (kind == 1 && d && t->symbol && t->symbol == key)
                    status = add_code(p, t, bytes, d, e);
            }
        }
        keyed_blobs_reader_release(&r);
        status = more < 0 ? -1 : status;
    }
    return status;
}

int page_texts_build(struct page_texts *p, const struct page_data *d, const struct skiplist *skip,
                     const struct disassembler *disassembler, struct err *e)
{
    struct targets targets = {0};
    int status = find_targets(p, d, skip, &targets, e);
    if (status == 0)
        status = read_texts(p, &targets, disassembler, e);
    vec_release(&targets);
    return status;
}
