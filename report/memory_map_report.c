#include "report/memory_map_report.h"

#include <inttypes.h>

#include "base/format.h"
#include "report/write/row_table.h"

#define ADDRESS_DIGITS 12 /* of a terminal */
#define OFFSET_CELLS 16u  /* between marks above the lines of a terminal */

struct writer {
    const struct memory_map *m;
    const struct map_report_options *options;
    uint64_t oldest; /* of all cells; ns */
    struct document doc;
    struct row_writer samples;
};

/* ---- samples */

struct sample_row {
    struct view pool;
    uint64_t page_bytes;
    struct map_sample of;
};

static bool has_blocks(const void *row)
{
    return ((const struct sample_row *)row)->of.blocks != 0;
}

static void get_used(struct row_value *v, const void *row)
{
    v->n = ((const struct sample_row *)row)->of.covered;
    v->whole = ((const struct sample_row *)row)->page_bytes;
}

#define SAMPLE(KEY, KIND, MEMBER) KEY, KIND, .offset = offsetof(struct sample_row, MEMBER)

static const struct row_column sample_columns[] = {
    {SAMPLE("pool", VALUE_NAME, pool)},
    {SAMPLE("time_ns", VALUE_TIME, of.time)},
    {SAMPLE("blocks", VALUE_COUNT, of.blocks)},
    {SAMPLE("bytes", VALUE_BYTES, of.bytes)},
    {SAMPLE("covered_bytes", VALUE_BYTES, of.covered)},
    {SAMPLE("page_bytes", VALUE_BYTES, page_bytes)},
    {"used", VALUE_SHARE, .get = get_used},
    {SAMPLE("holes", VALUE_COUNT, of.holes)},
    {SAMPLE("hole_bytes", VALUE_BYTES, of.hole_bytes)},
    {SAMPLE("largest_hole_bytes", VALUE_BYTES, of.largest_hole)},
    {SAMPLE("low_address", VALUE_ADDRESS, of.low), .known = has_blocks},
    {SAMPLE("high_address", VALUE_ADDRESS, of.high), .known = has_blocks},
    {0},
};

#define SAMPLE_FIGURES                                                                             \
    "time_ns|blocks|bytes|covered_bytes|page_bytes|holes|hole_bytes|largest_hole_bytes"            \
    "|low_address|high_address"

static const struct row_table sample_table = {
    .columns = sample_columns,
    .text = "time_ns=Time:12|blocks=Blocks:12|bytes=Size:9|page_bytes=Pages:9|used=Used:7"
            "|holes=Holes:11|hole_bytes=In holes:9|largest_hole_bytes=Largest:9",
    .json = SAMPLE_FIGURES,
    .csv = "pool|" SAMPLE_FIGURES,
};

static void write_samples(struct writer *w, const struct map_pool *p)
{
    for (size_t i = 0; i < p->samples.len; i++) {
        const struct map_sample *s = &p->samples.at[i];
        const struct sample_row row = {p->name, s->pages * MAP_PAGE, *s};
        row_write(&w->samples, &row);
    }
}

/* ---- text */

/* From green to red, by number in the 256-colour palette. */
static const char *const ages[] = {"46",  "82",  "118", "154", "190", "226",
                                   "220", "214", "208", "202", "196"};

#define AGES (sizeof ages / sizeof *ages)

static size_t fill_of(const struct map_cell *c, uint64_t size)
{
    return c->used >= size ? 3 : (size_t)((unsigned __int128)c->used * 3 / size);
}

static size_t age_of(const struct writer *w, const struct map_cell *c)
{
    return w->oldest ? (size_t)((unsigned __int128)c->age * (AGES - 1) / w->oldest) : 0;
}

static void draw_cell(struct writer *w, const struct map_cell *c, uint64_t size)
{
    static const char *const fills[] = {"░", "▒", "▓", "█"};
    struct buf *b = &w->doc.buf;
    if (c->used == 0) {
        buf_puts(b, " ");
        return;
    }
    size_t fill = fill_of(c, size), age = age_of(w, c);
    if (w->doc.form.colors)
        buf_printf(b, "\033[38;5;%sm%s\033[0m", ages[age], fills[fill]);
    else
        buf_puts(b, fills[fill]);
}

/* Offsets in a line, above the lines of a terminal. */
static void draw_offsets(struct writer *w, const struct map_pool *p)
{
    struct buf *b = &w->doc.buf;
    char text[FORMAT_SIZE], mark[FORMAT_SIZE + 1];
    buf_printf(b, "%*s", ADDRESS_DIGITS + 2, "");
    for (unsigned at = 0; at < w->m->columns; at += OFFSET_CELLS) {
        snprintf(mark, sizeof mark, "+%s", at ? format_bytes(text, p->cell * at) : "0");
        buf_printf(b, "%-*s", (int)OFFSET_CELLS, mark);
    }
    buf_puts(b, "\n");
}

/* "    7f12a0000000 │", of a terminal the last digits only. */
static void put_address(struct writer *w, uint64_t address)
{
    if (w->doc.form.width == 0)
        buf_printf(&w->doc.buf, "%16" PRIx64 " │", address);
    else if (address >> (4 * ADDRESS_DIGITS))
        buf_printf(&w->doc.buf, "…%0*" PRIx64 " │", ADDRESS_DIGITS - 1,
                   address & ((UINT64_C(1) << 4 * (ADDRESS_DIGITS - 1)) - 1));
    else
        buf_printf(&w->doc.buf, "%*" PRIx64 " │", ADDRESS_DIGITS, address);
}

static bool same_cells(const struct writer *w, const struct map_line *x, const struct map_line *y,
                       uint64_t size)
{
    for (unsigned i = 0; i < w->m->columns; i++) {
        const struct map_cell *a = &x->cells[i], *b = &y->cells[i];
        if ((a->used == 0) != (b->used == 0) ||
            (a->used && (fill_of(a, size) != fill_of(b, size) || age_of(w, a) != age_of(w, b))))
            return false;
    }
    return true;
}

/* The number of lines behind line `i` that continue it and look the same. */
static size_t repeats_of(const struct writer *w, const struct map_pool *p, size_t i)
{
    size_t n = 0;
    while (i + n + 1 < p->lines.len) {
        const struct map_line *next = &p->lines.at[i + n + 1];
        if (next->address - next[-1].address != p->cell * w->m->columns ||
            !same_cells(w, &p->lines.at[i], next, p->cell))
            break;
        n++;
    }
    return n;
}

static void draw_line(struct writer *w, const struct map_pool *p, const struct map_line *line)
{
    put_address(w, line->address);
    for (unsigned c = 0; c < w->m->columns; c++)
        draw_cell(w, &line->cells[c], p->cell);
    buf_puts(&w->doc.buf, "│\n");
    document_flush(&w->doc);
}

/* On a terminal, two or more lines that look like the one before become a number. */
static void draw_lines(struct writer *w, const struct map_pool *p)
{
    struct buf *b = &w->doc.buf;
    char cell_size[FORMAT_SIZE];
    char line_size[FORMAT_SIZE];
    int margin = (w->doc.form.width ? ADDRESS_DIGITS : 16) + 1;
    if (p->lines.len == 0)
        return;
    buf_printf(b, "a cell is %s, a line %s; lines with nothing live are left out\n",
               format_bytes(cell_size, p->cell), format_bytes(line_size, p->cell * w->m->columns));
    if (w->doc.form.width)
        draw_offsets(w, p);
    for (size_t i = 0; i < p->lines.len; i++) {
        const struct map_line *line = &p->lines.at[i];
        if (i && line->address - line[-1].address != p->cell * w->m->columns)
            buf_printf(b, "%*s┄\n", margin, "");
        draw_line(w, p, line);
        size_t n = w->doc.form.width ? repeats_of(w, p, i) : 0;
        if (n < 2)
            continue;
        buf_printf(b, "%*s⋮ %s\n", margin, "", format_counted(cell_size, n, "more such line"));
        i += n;
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
    row_titles(&w->samples);
    write_samples(w, p);
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
    if (!w->doc.form.colors || w->oldest == 0)
        return;
    buf_puts(b, "age: ");
    for (size_t i = 0; i < AGES; i++)
        buf_printf(b, "\033[38;5;%sm█\033[0m", ages[i]);
    buf_printf(b, " 0 to %s\n", format_duration(text, (int64_t)w->oldest));
}

/* ---- JSON */

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
    write_samples(w, p);
    document_list_end(&w->doc);
    document_member(&w->doc, "cell_bytes", json_count(p->cell));
    document_list(&w->doc, "lines");
    for (size_t i = 0; i < p->lines.len; i++)
        json_line(w, &p->lines.at[i]);
    document_list_end(&w->doc);
    buf_puts(&w->doc.buf, "}");
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
    w.samples = row_writer(&w.doc, &sample_table, NULL, options->format, false);
    if (options->format == REPORT_JSON) {
        document_begin_json(&w.doc, "tidemark.map/1", trace);
        document_member(&w.doc, "time_ns", json_integer(m->time));
        document_list(&w.doc, "pools");
    } else if (options->format == REPORT_CSV) {
        row_titles(&w.samples);
    }
    for (size_t i = 0; i < m->pools.len; i++) {
        if (options->format == REPORT_JSON)
            json_pool(&w, &m->pools.at[i], i == 0);
        else if (options->format == REPORT_CSV)
            write_samples(&w, &m->pools.at[i]);
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
