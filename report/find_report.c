#include "report/find_report.h"

#include <inttypes.h>
#include <string.h>

#include "analysis/names/program_frames.h"
#include "base/format.h"
#include "report/write/csv_field.h"
#include "report/write/document.h"
#include "report/write/text_cells.h"

struct writer {
    const struct find_result *r;
    const struct trace *t;
    const struct selection *selection;
    const struct find_report_options *options;
    struct program_frames program;
    struct document doc;
};

static const char *const when_names[] = {
    [FIND_ANY] = "", [FIND_AT] = "at", [FIND_BEFORE] = "before", [FIND_AFTER] = "after"};

static struct view pool_name(const struct writer *w, uint32_t pool)
{
    return w->selection->pools.at[w->selection->pool_of[pool]].name;
}

/* The name of a thread, raw bytes, or "thread ID". */
static void put_thread(struct buf *out, const struct trace *t, uint16_t thread)
{
    if (thread >= t->threads.list.len) {
        buf_printf(out, "thread number %u", thread);
        return;
    }
    struct view name = strings_get(&t->strings, t->threads.list.at[thread].name);
    if (name.len)
        buf_put(out, name.p, name.len);
    else
        buf_printf(out, "thread %" PRIu64, t->threads.list.at[thread].id);
}

/* ---- text */

static void put_escaped(struct writer *w, const struct buf *raw)
{
    format_terminal(&w->doc.buf, buf_view(raw));
    w->doc.failed |= raw->failed;
}

static void text_head(struct writer *w)
{
    const struct find_result *r = w->r;
    char count[FORMAT_SIZE];
    char live[FORMAT_SIZE];
    char bytes[FORMAT_SIZE];
    char time[FORMAT_SIZE];
    struct buf *b = &w->doc.buf;
    buf_printf(b, "%s ", format_counted(count, r->total, "allocation"));
    if (r->options.low == r->options.high)
        buf_printf(b, "covered 0x%" PRIx64, r->options.low);
    else
        buf_printf(b, "overlapped 0x%" PRIx64 " to 0x%" PRIx64, r->options.low, r->options.high);
    buf_printf(b, "; %s still live (%s)\n", format_count(live, r->live),
               format_bytes(bytes, r->live_bytes));
    if (r->options.has_time)
        buf_printf(b, "at %s:\n", format_duration(time, r->options.time));
    else if (r->list.len < r->total)
        buf_printf(b, "the newest %s of them (--limit 0 shows all):\n",
                   format_count(count, r->list.len));
}

/* One line with the innermost frame of the program's own code. */
static void put_begin(struct writer *w, uint32_t callstack)
{
    struct stack_place at = program_frames_begin(&w->program, callstack);
    struct buf name = {0};
    struct frame_view f = {0};
    if (at.node)
        f = frame_describe(w->t, w->t->callstacks.nodes.at[at.node].frame, at.inlined);
    put_site(&name, &f, at.node == 0);
    put_escaped(w, &name);
    buf_release(&name);
}

static void put_stack(struct writer *w, uint32_t callstack)
{
    struct frame_walk walk = frame_walk_start(w->t, callstack);
    struct frame_view f;
    while (frame_walk_next(&walk, &f))
        put_stack_line(&w->doc.buf, &f, 15);
}

static void text_step(struct writer *w, const char *what, int64_t time, uint16_t thread,
                      uint32_t callstack)
{
    char text[FORMAT_SIZE];
    struct buf name = {0};
    buf_printf(&w->doc.buf, "    %-9s %s, ", what, format_duration(text, time));
    put_thread(&name, w->t, thread);
    put_escaped(w, &name);
    buf_release(&name);
    buf_puts(&w->doc.buf, ", ");
    put_begin(w, callstack);
    buf_puts(&w->doc.buf, "\n");
    if (w->options->stack_traces)
        put_stack(w, callstack);
}

static void text_block(struct writer *w, const struct found_block *f)
{
    const struct history_block *b = &f->block;
    struct buf *out = &w->doc.buf;
    char size[FORMAT_SIZE];
    char age[FORMAT_SIZE];
    buf_puts(out, "\n  ");
    if (f->when != FIND_ANY && f->when != FIND_AT)
        buf_printf(out, "%s: ", when_names[f->when]);
    buf_printf(out, "0x%" PRIx64, b->ptr);
    if (w->r->options.low == w->r->options.high && w->r->options.low > b->ptr)
        buf_printf(out, " + %" PRIu64, w->r->options.low - b->ptr);
    buf_printf(out, ", %s, pool ", format_bytes_exact(size, b->size));
    format_terminal(out, pool_name(w, b->pool));
    buf_puts(out, "\n");
    text_step(w, "allocated", b->time, f->thread, f->callstack);
    if (!is_freed(b->freed)) {
        buf_printf(out, "    %s\n", "live");
        return;
    }
    text_step(w, "freed", b->freed, f->free_thread, f->free_callstack);
    buf_printf(out, "    %-9s %s\n", "lived", format_duration(age, b->freed - b->time));
}

/* ---- JSON, CSV */

static json_t *make_thread(const struct writer *w, uint16_t thread)
{
    struct buf name = {0};
    put_thread(&name, w->t, thread);
    json_t *v = name.failed ? NULL : json_text(buf_view(&name));
    buf_release(&name);
    return v;
}

static void json_block(struct writer *w, const struct found_block *f)
{
    const struct history_block *b = &f->block;
    bool freed = is_freed(b->freed);
    document_element(
        &w->doc,
        json_pack("{s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o}", "when",
                  when_names[f->when][0] ? json_string(when_names[f->when]) : json_null(),
                  "address", json_address(b->ptr), "size", json_count(b->size), "pool",
                  json_text(pool_name(w, b->pool)), "time_ns", (json_int_t)b->time, "freed_ns",
                  freed ? json_integer(b->freed) : json_null(), "thread", make_thread(w, f->thread),
                  "free_thread", freed ? make_thread(w, f->free_thread) : json_null(), "callstack",
                  json_callstack(w->t, f->callstack), "free_callstack",
                  freed ? json_callstack(w->t, f->free_callstack) : json_null()));
}

static void json_head(struct writer *w)
{
    const struct find_result *r = w->r;
    document_begin_json(&w->doc, "tidemark.find/1", w->t);
    document_member(&w->doc, "low", json_address(r->options.low));
    document_member(&w->doc, "high", json_address(r->options.high));
    document_member(&w->doc, "at_ns",
                    r->options.has_time ? json_integer(r->options.time) : json_null());
    document_member(&w->doc, "found", json_count(r->total));
    document_member(&w->doc, "live", json_count(r->live));
    document_member(&w->doc, "live_bytes", json_count(r->live_bytes));
    document_list(&w->doc, "allocations");
}

static void csv_block(struct writer *w, const struct found_block *f)
{
    const struct history_block *b = &f->block;
    struct buf *out = &w->doc.buf;
    struct buf name = {0};
    bool freed = is_freed(b->freed);
    buf_printf(out, "%s,0x%" PRIx64 ",%" PRIu64 ",", when_names[f->when], b->ptr, b->size);
    csv_field(out, pool_name(w, b->pool));
    buf_printf(out, ",%" PRId64 ",", b->time);
    if (freed)
        buf_printf(out, "%" PRId64, b->freed);
    buf_puts(out, ",");
    put_thread(&name, w->t, f->thread);
    csv_field(out, buf_view(&name));
    buf_clear(&name);
    buf_puts(out, ",");
    if (freed)
        put_thread(&name, w->t, f->free_thread);
    csv_field(out, buf_view(&name));
    buf_printf(out, ",%" PRIu32 ",", f->callstack);
    if (freed)
        buf_printf(out, "%" PRIu32, f->free_callstack);
    buf_puts(out, "\n");
    buf_end(&name, &w->doc.failed);
    document_flush(&w->doc);
}

/* ---- entry point */

int find_write(const struct find_result *r, const struct history *h,
               const struct find_report_options *options, FILE *out, struct err *e)
{
    struct writer w = {.r = r,
                       .t = h->selection->trace,
                       .selection = h->selection,
                       .options = options,
                       .doc = document_begin(out)};
    if (program_frames_init(&w.program, w.t, NULL, e) != 0)
        return -1;
    if (options->format == REPORT_TEXT)
        text_head(&w);
    else if (options->format == REPORT_JSON)
        json_head(&w);
    else
        buf_puts(&w.doc.buf, "when,address,size,pool,time_ns,freed_ns,thread,free_thread,"
                             "callstack,free_callstack\n");
    for (size_t i = 0; i < r->list.len; i++) {
        if (options->format == REPORT_TEXT)
            text_block(&w, &r->list.at[i]);
        else if (options->format == REPORT_JSON)
            json_block(&w, &r->list.at[i]);
        else
            csv_block(&w, &r->list.at[i]);
        document_flush(&w.doc);
    }
    if (options->format == REPORT_JSON) {
        document_list_end(&w.doc);
        document_close(&w.doc);
    }
    program_frames_release(&w.program);
    return document_end(&w.doc, e);
}
