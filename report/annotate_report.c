#include "report/annotate_report.h"

#include <inttypes.h>

#include "base/format.h"
#include "report/write/csv_field.h"
#include "report/write/document.h"
#include "report/write/text_cells.h"

#define INSTRUCTION_WIDTH 40u
#define FIGURES_WIDTH (2 + 9 + 2 + 9 + 2 + 9 + 2 + 9)
#define COLOR_CALL "\033[1;33m"
#define COLOR_SOURCE "\033[2m"
#define COLOR_END "\033[0m"

struct writer {
    const struct annotation *a;
    const struct annotate_report_options *options;
    struct document doc;
};

static struct view text_at(const struct annotation *a, size_t at, size_t len)
{
    return len ? (struct view){(const char *)a->bytes.data + at, len} : (struct view){"", 0};
}

static const struct annotate_place *place_of(const struct annotation *a,
                                             const struct annotate_line *l)
{
    return l->place == ANNOTATE_NO_PLACE ? NULL : &a->places.at[l->place];
}

/* ---- text */

static void put_name(struct buf *b, const struct annotate_function *f)
{
    if (f->name.len)
        format_terminal(b, f->name);
    else
        buf_puts(b, "[unknown]");
}

static void text_function(struct buf *b, const struct annotate_function *f)
{
    put_name(b, f);
    if (f->file.len) {
        buf_puts(b, "  ");
        format_terminal(b, f->file);
        if (f->line)
            buf_printf(b, ":%" PRIu32, f->line);
    }
    if (f->image.len) {
        buf_puts(b, "  [");
        format_terminal(b, view_base_name(f->image));
        buf_puts(b, "]");
    }
    buf_puts(b, "\n");
}

/* The source of code that is not in the trace. */
static void text_origin(struct buf *b, const struct annotate_function *f)
{
    if (!f->is_elsewhere)
        return;
    buf_puts(b, "Code of ");
    if (f->origin.path.len)
        format_terminal(b, f->origin.path);
    else
        buf_puts(b, "the image as a debuginfod server has it");
    buf_puts(b, f->origin.checked ? ", which has the build id that the program's image had\n"
                                  : "; not verified as the program's image\n");
}

static void text_figures(struct buf *b, const char *what, const struct annotate_figures *f)
{
    char count[FORMAT_SIZE], bytes[FORMAT_SIZE], live[FORMAT_SIZE], live_bytes[FORMAT_SIZE];
    buf_printf(b, "%s: %s, %s; live: %s, %s\n", what, format_counted(count, f->count, "allocation"),
               format_bytes(bytes, f->bytes), format_count(live, f->live_count),
               format_bytes(live_bytes, f->live_bytes));
}

static void text_size(struct buf *b, const struct annotation *a)
{
    uint64_t n = 0, unknown = 0;
    char size[FORMAT_SIZE], count[FORMAT_SIZE];
    for (size_t i = 0; i < a->lines.len; i++) {
        n += a->lines.at[i].is_code || a->lines.at[i].is_unknown;
        unknown += a->lines.at[i].is_unknown;
    }
    buf_printf(b, "0x%" PRIx64 ", %s, %s", a->function.address,
               format_counted(size, a->function.size, "byte"),
               format_counted(count, n, "instruction"));
    if (unknown)
        buf_printf(b, ", %s of them unknown to the disassembler and shown as bytes",
                   format_count(count, unknown));
    buf_puts(b, "\n");
}

/* The function has no instructions. */
static void text_lines(struct buf *b, const struct annotation *a)
{
    char count[FORMAT_SIZE];
    buf_printf(b, "%s\n", format_counted(count, a->lines.len, "source line"));
    if (!a->has_source)
        buf_puts(b, "The trace does not have the file: `tidemark update -c` adds it\n");
}

static void text_head(struct writer *w)
{
    const struct annotation *a = w->a;
    struct buf *b = &w->doc.buf;
    char shown[FORMAT_SIZE], own[FORMAT_SIZE];
    text_function(b, &a->function);
    if (a->function.by_line)
        text_lines(b, a);
    else
        text_size(b, a);
    text_origin(b, &a->function);
    if (a->shown < a->function.size)
        buf_printf(b, "only the first %s bytes are shown\n", format_count(shown, a->shown));
    text_figures(b, "Through it", &a->through);
    text_figures(b, "Its own   ", &a->own);
    if (a->samples.total)
        buf_printf(b, "Samples   : %s through it, %s of them in it\n",
                   format_count(shown, a->samples.total), format_count(own, a->samples.self));
    buf_puts(b, "\n");
    cell(b, "Count", 9);
    cell(b, "Size", 9);
    cell(b, "Live", 9);
    cell(b, "Live size", 9);
    if (a->samples.total)
        cell(b, "Samples", 9);
    if (a->function.by_line) {
        cell(b, "Line", 9);
        buf_puts(b, a->has_source ? "  Source\n" : "\n");
        return;
    }
    cell(b, "Address", 18);
    buf_puts(b, "  Instruction");
    buf_printf(b, "%*s  Source\n", (int)(INSTRUCTION_WIDTH - sizeof "Instruction" + 1), "");
}

/* The line's source position, if known and different from the previous one. */
static const struct annotate_place *new_place(const struct annotation *a,
                                              const struct annotate_line *l)
{
    const struct annotate_place *p = place_of(a, l);
    if (!p || (l > a->lines.at && l[-1].place == l->place))
        return NULL;
    bool told = p->frame.file.len || (p->frame.is_inline && p->frame.function.len);
    return told ? p : NULL;
}

static void text_place(struct writer *w, const struct annotate_place *p)
{
    struct buf *b = &w->doc.buf;
    buf_printf(b, "  %s", w->options->colors ? COLOR_SOURCE : "");
    format_terminal(b, view_base_name(p->frame.file));
    if (p->frame.file.len && p->frame.line)
        buf_printf(b, ":%" PRIu32, p->frame.line);
    if (p->frame.is_inline && p->frame.function.len) {
        buf_puts(b, p->frame.file.len ? " (" : "(");
        format_terminal(b, p->frame.function);
        buf_puts(b, ")");
    }
    if (p->has_text && p->len) {
        buf_puts(b, "  ");
        format_terminal(b, text_at(w->a, p->text, p->len));
    }
    buf_puts(b, w->options->colors ? COLOR_END : "");
}

/* A line of a function without instructions. */
static void text_source(struct writer *w, const struct annotate_place *p)
{
    struct buf *b = &w->doc.buf;
    buf_printf(b, "  %9" PRIu32, p->frame.line);
    if (p->len) {
        buf_puts(b, "  ");
        format_terminal(b, text_at(w->a, p->text, p->len));
    }
}

static void text_instruction(struct writer *w, const struct annotate_line *l, const char *end)
{
    struct buf *b = &w->doc.buf;
    char address[32];
    snprintf(address, sizeof address, "0x%" PRIx64, l->address);
    cell(b, address, 18);
    buf_puts(b, "  ");
    struct view text = text_at(w->a, l->text, l->len);
    buf_put(b, text.p, text.len);
    buf_puts(b, end);
    const struct annotate_place *p = new_place(w->a, l);
    if (p) {
        buf_printf(b, "%*s", text.len < INSTRUCTION_WIDTH ? (int)(INSTRUCTION_WIDTH - text.len) : 0,
                   "");
        text_place(w, p);
    }
}

static void text_line(struct writer *w, const struct annotate_line *l)
{
    struct buf *b = &w->doc.buf;
    bool colors = w->options->colors && l->is_call;
    if (l->is_call) {
        buf_puts(b, colors ? COLOR_CALL : "");
        cell_count(b, l->figures.count, 9);
        cell_bytes(b, l->figures.bytes, 9);
        cell_count(b, l->figures.live_count, 9);
        cell_bytes(b, l->figures.live_bytes, 9);
    } else {
        buf_printf(b, "%*s", FIGURES_WIDTH, "");
    }
    if (l->samples.self)
        cell_count(b, l->samples.self, 9);
    else if (w->a->samples.total)
        cell(b, "", 9);
    if (w->a->function.by_line) {
        text_source(w, place_of(w->a, l));
        buf_puts(b, colors ? COLOR_END : "");
    } else {
        text_instruction(w, l, colors ? COLOR_END : "");
    }
    buf_puts(b, "\n");
}

/* ---- JSON */

static json_t *make_figures(const struct annotate_figures *f)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "count", json_count(f->count), "bytes",
                     json_count(f->bytes), "live_count", json_count(f->live_count), "live_bytes",
                     json_count(f->live_bytes));
}

static json_t *make_samples(const struct annotate_samples *s)
{
    return json_pack("{s:o, s:o}", "self", json_count(s->self), "total", json_count(s->total));
}

static json_t *make_function(const struct annotate_function *f)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "name", json_text_or_null(f->name),
                     "address", f->by_line ? json_null() : json_address(f->address), "size",
                     f->by_line ? json_null() : json_count(f->size), "image",
                     json_text_or_null(f->image), "file", json_text_or_null(f->file), "line",
                     f->line ? json_integer(f->line) : json_null());
}

static json_t *make_origin(const struct annotate_function *f)
{
    if (!f->is_elsewhere)
        return json_null();
    return json_pack("{s:o, s:b}", "path", json_text_or_null(f->origin.path), "checked",
                     (int)f->origin.checked);
}

static void json_head(struct writer *w)
{
    const struct annotation *a = w->a;
    document_begin_json(&w->doc, "tidemark.annotate/1", a->trace);
    document_member(&w->doc, "function", make_function(&a->function));
    document_member(&w->doc, "image_code", make_origin(&a->function));
    document_member(&w->doc, "shown_bytes", json_count(a->shown));
    document_member(&w->doc, "through", make_figures(&a->through));
    document_member(&w->doc, "own", make_figures(&a->own));
    document_member(&w->doc, "samples", make_samples(&a->samples));
    document_list(&w->doc, "instructions");
}

static json_t *make_place(const struct annotation *a, const struct annotate_place *p)
{
    if (!p)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:b, s:o}", "function", json_text_or_null(p->frame.function),
                     "file", json_text_or_null(p->frame.file), "line",
                     p->frame.line ? json_integer(p->frame.line) : json_null(), "inline",
                     (int)p->frame.is_inline, "text",
                     p->has_text ? json_text(text_at(a, p->text, p->len)) : json_null());
}

static void json_line(struct writer *w, const struct annotate_line *l)
{
    const struct annotation *a = w->a;
    bool by_line = a->function.by_line;
    document_element(&w->doc,
                     json_pack("{s:o, s:I, s:o, s:b, s:o, s:o, s:o}", "address",
                               by_line ? json_null() : json_address(l->address), "size",
                               (json_int_t)l->size, "text",
                               by_line ? json_null() : json_text(text_at(a, l->text, l->len)),
                               "code", (int)l->is_code, "source", make_place(a, place_of(a, l)),
                               "call", l->is_call ? make_figures(&l->figures) : json_null(),
                               "samples", make_samples(&l->samples)));
}

/* ---- CSV */

static void csv_line(struct writer *w, const struct annotate_line *l)
{
    struct buf *b = &w->doc.buf;
    const struct annotate_place *p = place_of(w->a, l);
    if (w->a->function.by_line)
        buf_puts(b, ",,");
    else
        buf_printf(b, "0x%" PRIx64 ",%" PRIu32 ",", l->address, l->size);
    csv_field(b, text_at(w->a, l->text, l->len));
    buf_puts(b, ",");
    if (p)
        csv_field(b, p->frame.function);
    buf_puts(b, ",");
    if (p)
        csv_field(b, p->frame.file);
    buf_puts(b, ",");
    if (p && p->frame.line)
        buf_printf(b, "%" PRIu32, p->frame.line);
    buf_puts(b, ",");
    if (p && p->has_text)
        csv_field(b, text_at(w->a, p->text, p->len));
    const struct annotate_figures *f = &l->figures;
    if (l->is_call)
        buf_printf(b, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, f->count, f->bytes,
                   f->live_count, f->live_bytes);
    else
        buf_puts(b, ",,,,");
    buf_printf(b, ",%" PRIu64 ",%" PRIu64 "\n", l->samples.self, l->samples.total);
}

/* ---- entry point */

int annotate_write(const struct annotation *a, const struct annotate_report_options *options,
                   FILE *out, struct err *e)
{
    struct writer w = {.a = a, .options = options, .doc = document_begin(out)};
    if (options->format == REPORT_TEXT)
        text_head(&w);
    else if (options->format == REPORT_JSON)
        json_head(&w);
    else
        buf_puts(&w.doc.buf, "address,size,instruction,function,file,line,source,count,bytes,"
                             "live_count,live_bytes,samples,samples_total\n");
    for (size_t i = 0; i < a->lines.len && !w.doc.failed; i++) {
        if (options->format == REPORT_TEXT)
            text_line(&w, &a->lines.at[i]);
        else if (options->format == REPORT_JSON)
            json_line(&w, &a->lines.at[i]);
        else
            csv_line(&w, &a->lines.at[i]);
        document_flush(&w.doc);
    }
    if (options->format == REPORT_JSON) {
        document_list_end(&w.doc);
        document_close(&w.doc);
    }
    return document_end(&w.doc, e);
}

static void csv_match(struct buf *b, const struct annotate_function *f)
{
    if (f->by_line)
        buf_puts(b, ",,");
    else
        buf_printf(b, "0x%" PRIx64 ",%" PRIu64 ",", f->address, f->size);
    const struct frame_view site = {
        .function = f->name, .file = f->file, .image = f->image, .line = f->line};
    csv_site(b, &site, false);
    buf_puts(b, "\n");
}

static void text_match(struct buf *b, const struct annotate_function *f)
{
    char address[32];
    snprintf(address, sizeof address, "0x%" PRIx64, f->address);
    cell(b, f->by_line ? "-" : address, 18);
    if (f->by_line)
        cell(b, "-", 9);
    else
        cell_count(b, f->size, 9);
    buf_puts(b, "  ");
    text_function(b, f);
}

int annotate_write_matches(const struct annotate_functions *f, const struct trace *t,
                           enum report_format format, FILE *out, struct err *e)
{
    struct document d = document_begin(out);
    if (format == REPORT_JSON) {
        document_begin_json(&d, "tidemark.annotate-matches/1", t);
        document_list(&d, "functions");
    } else if (format == REPORT_TEXT) {
        cell(&d.buf, "Address", 18);
        cell(&d.buf, "Bytes", 9);
        buf_puts(&d.buf, "  Function\n");
    } else {
        buf_puts(&d.buf, "address,size,function,file,line,image\n");
    }
    for (size_t i = 0; i < f->list.len && !d.failed; i++) {
        if (format == REPORT_JSON)
            document_element(&d, make_function(&f->list.at[i]));
        else if (format == REPORT_TEXT)
            text_match(&d.buf, &f->list.at[i]);
        else
            csv_match(&d.buf, &f->list.at[i]);
        document_flush(&d);
    }
    if (format == REPORT_JSON) {
        document_list_end(&d);
        document_close(&d);
    }
    return document_end(&d, e);
}
