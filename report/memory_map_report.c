#include "report/memory_map_report.h"

#include <inttypes.h>

#include "base/format.h"
#include "report/write/csv_field.h"
#include "report/write/document.h"
#include "report/write/text_cells.h"

struct writer {
    const struct memory_map *m;
    const struct map_report_options *options;
    uint64_t oldest; /* of all cells; ns */
    struct document doc;
};

static uint64_t page_bytes(const struct map_sample *s)
{
    return s->pages * MAP_PAGE;
}

/* ---- text */

/* From green to red, by number in the 256-colour palette. */
static const char *const ages[] = {"46",  "82",  "118", "154", "190", "226",
                                   "220", "214", "208", "202", "196"};

#define AGES (sizeof ages / sizeof *ages)

static void draw_cell(struct writer *w, const struct map_cell *c, uint64_t size)
{
    static const char *const fills[] = {"░", "▒", "▓", "█"};
    struct buf *b = &w->doc.buf;
    if (c->used == 0) {
        buf_puts(b, " ");
        return;
    }
    size_t fill = c->used >= size ? 3 : (size_t)((unsigned __int128)c->used * 3 / size);
    size_t age = w->oldest ? (size_t)((unsigned __int128)c->age * (AGES - 1) / w->oldest) : 0;
    if (w->options->colors)
        buf_printf(b, "\033[38;5;%sm%s\033[0m", ages[age], fills[fill]);
    else
        buf_puts(b, fills[fill]);
}

static void draw_lines(struct writer *w, const struct map_pool *p)
{
    struct buf *b = &w->doc.buf;
    char cell_size[FORMAT_SIZE];
    char line_size[FORMAT_SIZE];
    if (p->lines.len == 0)
        return;
    buf_printf(b, "a cell is %s, a line %s; lines with nothing live are left out\n",
               format_bytes(cell_size, p->cell), format_bytes(line_size, p->cell * w->m->columns));
    for (size_t i = 0; i < p->lines.len; i++) {
        const struct map_line *line = &p->lines.at[i];
        uint64_t step = p->cell * w->m->columns;
        if (i && line->address - line[-1].address != step)
            buf_puts(b, "                 ┄\n");
        buf_printf(b, "%16" PRIx64 " │", line->address);
        for (unsigned c = 0; c < w->m->columns; c++)
            draw_cell(w, &line->cells[c], p->cell);
        buf_puts(b, "│\n");
        document_flush(&w->doc);
    }
}

static void list_samples(struct writer *w, const struct map_pool *p)
{
    struct buf *b = &w->doc.buf;
    char text[FORMAT_SIZE];
    static const char *const titles[] = {"Time", "Blocks", "Size",     "Pages",
                                         "Used", "Holes",  "In holes", "Largest"};
    static const size_t widths[] = {12, 12, 9, 9, 7, 11, 9, 9};
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        cell(b, titles[i], widths[i]);
    buf_puts(b, "\n");
    for (size_t i = 0; i < p->samples.len; i++) {
        const struct map_sample *s = &p->samples.at[i];
        cell(b, format_duration(text, s->time), widths[0]);
        cell_count(b, s->blocks, widths[1]);
        cell_bytes(b, s->bytes, widths[2]);
        cell_bytes(b, page_bytes(s), widths[3]);
        cell(b, format_percent(text, s->covered, page_bytes(s)), widths[4]);
        cell_count(b, s->holes, widths[5]);
        cell_bytes(b, s->hole_bytes, widths[6]);
        cell_bytes(b, s->largest_hole, widths[7]);
        buf_puts(b, "\n");
    }
}

static void text_pool(struct writer *w, const struct map_pool *p, bool first)
{
    struct buf *b = &w->doc.buf;
    const struct map_sample *s = &p->samples.at[p->samples.len - 1];
    char count[FORMAT_SIZE];
    char bytes[FORMAT_SIZE];
    char time[FORMAT_SIZE];
    buf_puts(b, first ? "pool " : "\npool ");
    format_terminal(b, p->name);
    buf_printf(b, " at %s: %s, %s", format_duration(time, w->m->time),
               format_counted(count, s->blocks, "live block"), format_bytes(bytes, s->bytes));
    if (s->blocks)
        buf_printf(b, ", from 0x%" PRIx64 " to 0x%" PRIx64, s->low, s->high);
    buf_puts(b, "\n");
    draw_lines(w, p);
    buf_puts(b, "\n");
    list_samples(w, p);
}

static void text_legend(struct writer *w)
{
    struct buf *b = &w->doc.buf;
    char text[FORMAT_SIZE];
    if (w->m->pools.len == 0) {
        buf_puts(b, "no memory data\n");
        return;
    }
    buf_puts(b,
             "\nPages: of 4 KiB, with at least one live byte. Holes: gaps between live blocks in "
             "or next to one page.\n");
    if (!w->options->colors || w->oldest == 0)
        return;
    buf_puts(b, "age: ");
    for (size_t i = 0; i < AGES; i++)
        buf_printf(b, "\033[38;5;%sm█\033[0m", ages[i]);
    buf_printf(b, " 0 to %s\n", format_duration(text, (int64_t)w->oldest));
}

/* ---- JSON, CSV */

static void json_sample(struct writer *w, const struct map_sample *s)
{
    document_element(&w->doc,
                     json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "time_ns",
                               (json_int_t)s->time, "blocks", json_count(s->blocks), "bytes",
                               json_count(s->bytes), "covered_bytes", json_count(s->covered),
                               "page_bytes", json_count(page_bytes(s)), "holes",
                               json_count(s->holes), "hole_bytes", json_count(s->hole_bytes),
                               "largest_hole_bytes", json_count(s->largest_hole), "low_address",
                               s->blocks ? json_address(s->low) : json_null(), "high_address",
                               s->blocks ? json_address(s->high) : json_null()));
}

static void json_line(struct writer *w, const struct map_line *line)
{
    json_t *used = json_array();
    json_t *age = json_array();
    for (unsigned i = 0; i < w->m->columns && used && age; i++) {
        const struct map_cell *c = &line->cells[i];
        used = json_add(used, json_count(c->used));
        age = json_add(age, c->used ? json_count(c->age) : json_null());
    }
    document_element(&w->doc, json_pack("{s:o, s:o, s:o}", "address", json_address(line->address),
                                        "used_bytes", used, "age_ns", age));
}

static void json_pool(struct writer *w, const struct map_pool *p, bool first)
{
    buf_puts(&w->doc.buf, first ? "\n {\"name\": " : ",\n {\"name\": ");
    w->doc.failed |= !json_put(&w->doc.buf, json_text(p->name), 0);
    document_list(&w->doc, "samples");
    for (size_t i = 0; i < p->samples.len; i++)
        json_sample(w, &p->samples.at[i]);
    document_list_end(&w->doc);
    document_member(&w->doc, "cell_bytes", json_count(p->cell));
    document_list(&w->doc, "lines");
    for (size_t i = 0; i < p->lines.len; i++)
        json_line(w, &p->lines.at[i]);
    document_list_end(&w->doc);
    buf_puts(&w->doc.buf, "}");
}

static void csv_pool(struct writer *w, const struct map_pool *p)
{
    struct buf *b = &w->doc.buf;
    for (size_t i = 0; i < p->samples.len; i++) {
        const struct map_sample *s = &p->samples.at[i];
        csv_field(b, p->name);
        buf_printf(b, ",%" PRId64, s->time);
        const uint64_t rest[] = {s->blocks, s->bytes,      s->covered,     page_bytes(s),
                                 s->holes,  s->hole_bytes, s->largest_hole};
        for (size_t n = 0; n < sizeof rest / sizeof *rest; n++)
            buf_printf(b, ",%" PRIu64, rest[n]);
        if (s->blocks)
            buf_printf(b, ",0x%" PRIx64 ",0x%" PRIx64 "\n", s->low, s->high);
        else
            buf_puts(b, ",,\n");
    }
}

/* ---- entry point */

static uint64_t oldest_cell(const struct memory_map *m)
{
    uint64_t oldest = 0;
    for (size_t i = 0; i < m->pools.len; i++) {
        for (size_t k = 0; k < m->pools.at[i].lines.len; k++) {
            for (unsigned c = 0; c < m->columns; c++) {
                uint64_t age = m->pools.at[i].lines.at[k].cells[c].age;
                oldest = age > oldest ? age : oldest;
            }
        }
    }
    return oldest;
}

int memory_map_write(const struct memory_map *m, const struct trace *trace,
                     const struct map_report_options *options, FILE *out, struct err *e)
{
    struct writer w = {
        .m = m, .options = options, .oldest = oldest_cell(m), .doc = document_begin(out)};
    if (options->format == REPORT_JSON) {
        document_open(&w.doc, "tidemark.map/1");
        document_member(&w.doc, "trace", document_trace(trace));
        document_member(&w.doc, "time_ns", json_integer(m->time));
        document_list(&w.doc, "pools");
    } else if (options->format == REPORT_CSV) {
        buf_puts(&w.doc.buf, "pool,time_ns,blocks,bytes,covered_bytes,page_bytes,holes,hole_bytes,"
                             "largest_hole_bytes,low_address,high_address\n");
    }
    for (size_t i = 0; i < m->pools.len; i++) {
        if (options->format == REPORT_JSON)
            json_pool(&w, &m->pools.at[i], i == 0);
        else if (options->format == REPORT_CSV)
            csv_pool(&w, &m->pools.at[i]);
        else
            text_pool(&w, &m->pools.at[i], i == 0);
        document_flush(&w.doc);
    }
    if (options->format == REPORT_JSON) {
        buf_puts(&w.doc.buf, "]");
        document_close(&w.doc);
    } else if (options->format == REPORT_TEXT) {
        text_legend(&w);
    }
    return document_end(&w.doc, e);
}
