#include "report/faults_report.h"

#include <inttypes.h>
#include <string.h>

#include "base/format.h"
#include "report/write/csv_field.h"
#include "report/write/document.h"
#include "report/write/markdown_table.h"
#include "report/write/markup.h"
#include "report/write/text_cells.h"

struct writer {
    const struct faults *f;
    const struct trace *t;
    const struct selection_options *only;
    const struct leak_report_options *options;
    struct document doc;
};

static uint64_t thread_id(const struct trace *t, uint16_t thread)
{
    return thread < t->threads.list.len ? t->threads.list.at[thread].id : 0;
}

/* The name of the thread with this id, raw bytes, or "thread ID". */
static void put_thread(struct buf *out, const struct trace *t, uint64_t id)
{
    for (size_t i = 0; i < t->threads.list.len; i++) {
        const struct trace_thread *thread = &t->threads.list.at[i];
        struct view name = strings_get(&t->strings, thread->name);
        if (thread->id == id && name.len) {
            buf_put(out, name.p, name.len);
            return;
        }
    }
    buf_printf(out, "thread %" PRIu64, id);
}

static struct view pool_of(const struct writer *w, uint32_t pool, char room[32])
{
    return trace_pool_name(w->t, w->t->memory.pools.at[pool], room);
}

/* ---- text */

static void text_foreign(struct buf *b)
{
    buf_puts(b, "(an official tool wrote this trace: its capture ends at the first free of an "
                "unknown address, or\ndrops it, so the trace has no record of such frees)\n");
}

static void text_sums(struct buf *b, uint64_t frees, uint64_t allocations)
{
    char text[FORMAT_SIZE];
    buf_printf(b, "%s of unknown addresses", format_counted(text, frees, "free"));
    buf_printf(b, ", %s at live addresses", format_counted(text, allocations, "allocation"));
}

static void text_head(struct writer *w)
{
    const struct faults *f = w->f;
    struct buf *b = &w->doc.buf;
    char text[FORMAT_SIZE];
    bool any = f->unknown_frees || f->double_allocations;
    if (f->rows.len == 0 && (f->is_selected || !any)) {
        buf_puts(b, any ? "no memory fault is as wanted; in all: " : "no memory faults\n");
        if (any) {
            text_sums(b, f->unknown_frees, f->double_allocations);
            buf_puts(b, "\n");
        }
    } else if (f->is_selected) {
        text_sums(b, f->selected_frees, f->selected_allocations);
        buf_puts(b, " are as wanted\n");
    } else {
        text_sums(b, f->unknown_frees, f->double_allocations + f->from_history);
        buf_puts(b, "\n");
    }
    if (f->from_history)
        buf_printf(b, "(%s found in the history: no capture noted them)\n",
                   format_counted(text, f->from_history, "allocation"));
    if (f->is_foreign)
        text_foreign(b);
    if (f->partial)
        buf_puts(b, "most frees are of unknown blocks: the program reports only some of its "
                    "allocations, or was caught late\n");
}

static void text_stack(struct writer *w, uint32_t callstack)
{
    struct frame_walk walk = frame_walk_start(w->t, callstack);
    struct frame_view f;
    bool any = false;
    while (frame_walk_next(&walk, &f)) {
        put_stack_line(&w->doc.buf, &f, 8);
        any = true;
    }
    if (!any)
        buf_puts(&w->doc.buf, "        [no call stack]\n");
}

/* "WHAT at TIME, THREAD" and the call stack below. */
static void text_step(struct writer *w, const char *what, int64_t time, uint64_t thread,
                      uint32_t callstack)
{
    char text[FORMAT_SIZE];
    struct buf name = {0};
    put_thread(&name, w->t, thread);
    buf_printf(&w->doc.buf, "    %s at %s, ", what, format_duration(text, time));
    format_terminal(&w->doc.buf, buf_view(&name));
    buf_puts(&w->doc.buf, "\n");
    buf_end(&name, &w->doc.failed);
    text_stack(w, callstack);
}

static void text_block_begin(struct writer *w, const char *what, const struct fault_block *b,
                             uint64_t address)
{
    char text[FORMAT_SIZE];
    char room[32];
    struct buf *out = &w->doc.buf;
    buf_printf(out, "    %s 0x%" PRIx64, what, b->ptr);
    if (address > b->ptr)
        buf_printf(out, ", %" PRIu64 " bytes before", address - b->ptr);
    buf_printf(out, ", %s, pool ", format_bytes_exact(text, b->size));
    format_terminal(out, pool_of(w, b->pool, room));
    buf_puts(out, "\n");
}

static void text_previous(struct writer *w, const struct fault_row *r, const struct fault_case *c)
{
    const struct fault_block *b = &c->previous;
    bool twice = r->kind == FAULT_ALLOC_TWICE;
    if (!b->is_known)
        return;
    text_block_begin(w, twice ? "the block that was live there:" : "the block freed before:", b,
                     c->what.ptr);
    text_step(w, twice ? "first allocated" : "allocated", b->time, thread_id(w->t, b->thread),
              b->callstack);
    if (!twice)
        text_step(w, "freed", b->freed, thread_id(w->t, b->free_thread), b->free_callstack);
}

static const char *const cause_texts[FAULT_CAUSES] = {
    [FAULT_NEVER_SEEN] = "no block of this trace was there before",
    [FAULT_FREED_BEFORE] = "freed twice",
    [FAULT_INSIDE_LIVE] = "inside a live block",
    [FAULT_INSIDE_FREED] = "inside a block that was freed before",
    [FAULT_IN_OTHER_POOL] = "a live block of another pool",
    [FAULT_HELD] = "allocated twice",
};

static bool is_same_block(const struct fault_block *a, const struct fault_block *b)
{
    return a->is_known == b->is_known && a->callstack == b->callstack &&
           a->free_callstack == b->free_callstack && a->pool == b->pool;
}

/* Whether the call stacks of a case are those of the one before it. */
static bool repeats(const struct fault_row *r, unsigned i)
{
    const struct fault_case *c = &r->cases[i];
    return i && c->cause == c[-1].cause && is_same_block(&c->previous, &c[-1].previous) &&
           is_same_block(&c->around, &c[-1].around);
}

static void text_case(struct writer *w, const struct fault_row *r, unsigned i)
{
    const struct fault_case *c = &r->cases[i];
    struct buf *b = &w->doc.buf;
    char text[FORMAT_SIZE];
    buf_printf(b, "  0x%" PRIx64 " at %s: %s", c->what.ptr, format_duration(text, c->what.time),
               cause_texts[c->cause]);
    if (repeats(r, i)) {
        buf_puts(b, ", by the same call stacks\n");
        return;
    }
    buf_puts(b, "\n");
    text_step(w, r->kind == FAULT_ALLOC_TWICE ? "second allocation" : "free", c->what.time,
              c->what.thread, r->callstack);
    text_previous(w, r, c);
    /* A saved trace may have lost the block; the capture recorded its call stack. */
    if (r->kind == FAULT_ALLOC_TWICE && !c->previous.is_known) {
        buf_puts(b, "    first allocated at\n");
        text_stack(w, c->what.other_callstack);
    }
    if (c->around.is_known) {
        text_block_begin(w, "the live block:", &c->around, c->what.ptr);
        text_step(w, "allocated", c->around.time, thread_id(w->t, c->around.thread),
                  c->around.callstack);
    }
}

static void text_row(struct writer *w, const struct fault_row *r)
{
    struct buf *b = &w->doc.buf;
    struct buf site = {0};
    char text[FORMAT_SIZE];
    buf_printf(b, "\n%s, ", fault_kind_name(r->kind));
    if (r->least < r->count)
        buf_printf(b, "%s to ", format_count(text, r->least));
    buf_printf(b, "%s in pool ", format_counted(text, r->count, "time"));
    format_terminal(b, r->pool);
    buf_puts(b, ", at ");
    put_site(&site, &r->site, r->callstack == 0);
    format_terminal(b, buf_view(&site));
    buf_puts(b, "\n");
    buf_end(&site, &w->doc.failed);
    for (unsigned i = 0; i <= r->case_count; i++) {
        uint64_t unshown = r->count > r->case_count ? r->count - r->case_count : 0;
        if (i == r->gap && unshown)
            buf_printf(b, "  … and %s%s %s …\n", r->least < r->count ? "up to " : "",
                       format_count(text, unshown), i < r->case_count ? "between" : "after");
        if (i < r->case_count)
            text_case(w, r, i);
    }
}

/* ---- Markdown */

/* A row: one visible line, with both call stacks in a collapsible block. */
static void markdown_row(struct writer *w, const struct fault_row *r)
{
    struct buf before = w->doc.buf;
    w->doc.buf = (struct buf){0};
    text_row(w, r);
    struct buf text = w->doc.buf;
    w->doc.buf = before;
    struct view rest = buf_view(&text);
    bool first = true;
    buf_puts(&w->doc.buf, "\n<details><summary>");
    while (rest.len) {
        const char *end = memchr(rest.p, '\n', rest.len);
        size_t n = end ? (size_t)(end - rest.p) : rest.len;
        if (n) {
            markup_text(&w->doc.buf, (struct view){rest.p, n});
            buf_puts(&w->doc.buf, first ? "</summary>\n<pre>\n" : "\n");
            first = false;
        }
        rest.p += n + (end != NULL);
        rest.len -= n + (end != NULL);
    }
    buf_puts(&w->doc.buf, "</pre>\n</details>\n");
    buf_end(&text, &w->doc.failed);
}

static void markdown_head(struct writer *w)
{
    markdown_title(&w->doc, "Memory faults in", w->t, w->only);
    text_head(w);
}

/* ---- JSON */

static json_t *make_block(const struct writer *w, const struct fault_block *b)
{
    char room[32];
    if (!b->is_known)
        return json_null();
    return json_pack(
        "{s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o}", "address", json_address(b->ptr), "size",
        json_count(b->size), "pool", json_text(pool_of(w, b->pool, room)), "time_ns",
        (json_int_t)b->time, "thread", json_count(thread_id(w->t, b->thread)), "callstack",
        json_callstack(w->t, b->callstack), "freed_ns",
        b->is_freed ? json_integer(b->freed) : json_null(), "free_thread",
        b->is_freed ? json_count(thread_id(w->t, b->free_thread)) : json_null(), "free_callstack",
        b->is_freed ? json_callstack(w->t, b->free_callstack) : json_null());
}

static json_t *make_cases(const struct writer *w, const struct fault_row *r)
{
    json_t *list = json_array();
    for (unsigned i = 0; list && i < r->case_count; i++) {
        const struct fault_case *c = &r->cases[i];
        bool twice = r->kind == FAULT_ALLOC_TWICE;
        json_t *v = json_pack(
            "{s:I, s:o, s:o, s:o, s:s, s:o, s:o, s:o}", "time_ns", (json_int_t)c->what.time,
            "address", json_address(c->what.ptr), "thread", json_count(c->what.thread), "size",
            twice ? json_count(c->what.size) : json_null(), "cause", fault_cause_name(c->cause),
            "held_by", twice ? json_callstack(w->t, c->what.other_callstack) : json_null(),
            "previous", make_block(w, &c->previous), "around", make_block(w, &c->around));
        list = json_add(list, v);
    }
    return list;
}

static void json_head(struct writer *w)
{
    const struct faults *f = w->f;
    document_begin_json(&w->doc, "tidemark.faults/1", w->t);
    document_member(&w->doc, "unknown_frees", json_count(f->unknown_frees));
    document_member(&w->doc, "null_frees", json_count(f->null_frees));
    document_member(&w->doc, "double_allocations", json_count(f->double_allocations));
    document_member(&w->doc, "found_in_history", json_count(f->from_history));
    document_member(&w->doc, "left_out", json_count(f->left_out));
    document_member(&w->doc, "partial", json_boolean(f->partial));
    document_member(&w->doc, "knows_unknown_frees", json_boolean(!f->is_foreign));
    document_member(&w->doc, "selected",
                    json_pack("{s:o, s:o}", "unknown_frees", json_count(f->selected_frees),
                              "double_allocations", json_count(f->selected_allocations)));
    document_list(&w->doc, "faults");
}

static void json_row(struct writer *w, const struct fault_row *r)
{
    document_element(&w->doc,
                     json_pack("{s:s, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "kind",
                               fault_kind_name(r->kind), "pool", json_text(r->pool), "count",
                               json_count(r->count), "count_least", json_count(r->least),
                               "from_history", r->from_history ? 1 : 0, "function",
                               json_text_or_null(r->site.function), "file",
                               json_text_or_null(r->site.file), "line",
                               r->site.line ? json_integer(r->site.line) : json_null(), "image",
                               json_text_or_null(r->site.image), "callstack",
                               json_callstack(w->t, r->callstack), "samples", make_cases(w, r)));
}

/* ---- CSV */

static void csv_block(struct writer *w, const struct fault_block *b)
{
    struct buf *out = &w->doc.buf;
    if (!b->is_known) {
        buf_puts(out, ",,,,,,");
        return;
    }
    buf_printf(out, ",0x%" PRIx64 ",%" PRIu64 ",%" PRId64 ",%" PRIu32, b->ptr, b->size, b->time,
               b->callstack);
    if (b->is_freed)
        buf_printf(out, ",%" PRId64 ",%" PRIu32, b->freed, b->free_callstack);
    else
        buf_puts(out, ",,");
}

static void csv_row(struct writer *w, const struct fault_row *r)
{
    struct buf *b = &w->doc.buf;
    for (unsigned i = 0; i < r->case_count; i++) {
        const struct fault_case *c = &r->cases[i];
        buf_printf(b, "%s,", fault_kind_name(r->kind));
        csv_field(b, r->pool);
        buf_printf(b, ",%" PRIu64 ",%" PRIu32 ",%" PRId64 ",0x%" PRIx64 ",%" PRIu64 ",%s", r->count,
                   r->callstack, c->what.time, c->what.ptr, c->what.thread,
                   fault_cause_name(c->cause));
        csv_block(w, &c->previous);
        csv_block(w, &c->around);
        buf_puts(b, "\n");
    }
}

/* ---- entry point */

static void write_cut(struct writer *w, size_t rows)
{
    char text[FORMAT_SIZE];
    if (rows < w->f->rows.len)
        buf_printf(&w->doc.buf, "\nfaults at %s not shown (--limit 0 shows all)\n",
                   format_counted(text, w->f->rows.len - rows, "more call stack"));
    if (w->f->left_out)
        buf_printf(&w->doc.buf, "\nand faults at %s that the trace does not name\n",
                   format_counted(text, w->f->left_out, "more call stack"));
}

int faults_write(const struct faults *f, const struct selection *s,
                 const struct leak_report_options *options, FILE *out, struct err *e)
{
    struct writer w = {
        .f = f, .t = s->trace, .only = &s->options, .options = options, .doc = document_begin(out)};
    size_t n =
        options->limit && options->limit < f->rows.len ? (size_t)options->limit : f->rows.len;
    if (options->format == REPORT_MARKDOWN)
        markdown_head(&w);
    else if (options->format == REPORT_TEXT)
        text_head(&w);
    else if (options->format == REPORT_JSON)
        json_head(&w);
    else
        buf_puts(&w.doc.buf, "kind,pool,count,callstack,time_ns,address,thread,cause,"
                             "previous_address,previous_size,previous_time_ns,previous_callstack,"
                             "previous_freed_ns,previous_free_callstack,around_address,around_size,"
                             "around_time_ns,around_callstack,around_freed_ns,"
                             "around_free_callstack\n");
    for (size_t i = 0; i < n; i++) {
        if (options->format == REPORT_MARKDOWN)
            markdown_row(&w, &f->rows.at[i]);
        else if (options->format == REPORT_TEXT)
            text_row(&w, &f->rows.at[i]);
        else if (options->format == REPORT_JSON)
            json_row(&w, &f->rows.at[i]);
        else
            csv_row(&w, &f->rows.at[i]);
        document_flush(&w.doc);
    }
    if (options->format == REPORT_TEXT || options->format == REPORT_MARKDOWN) {
        write_cut(&w, n);
    } else if (options->format == REPORT_JSON) {
        document_list_end(&w.doc);
        document_close(&w.doc);
    }
    return document_end(&w.doc, e);
}
