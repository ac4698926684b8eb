#include "report/histograms_report.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/format.h"
#include "report/write/document.h"
#include "report/write/text_cells.h"

#define BAR 30u

/* ---- text */

static void put_bar(struct buf *b, uint64_t n, uint64_t most)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    unsigned filled = most ? (unsigned)((unsigned __int128)n * BAR * 8 / most) : 0;
    filled = filled == 0 && n ? 1 : filled;
    buf_puts(b, "  ");
    for (unsigned i = 0; i < filled / 8; i++)
        buf_puts(b, "█");
    buf_puts(b, eighths[filled % 8]);
    buf_puts(b, "\n");
}

static void text_sizes(struct buf *b, const struct histograms *h)
{
    uint64_t most = 0;
    char text[FORMAT_SIZE];
    static const char *const titles[] = {"Size from", "Count",     "Size",
                                         "Live",      "Temporary", "Waste"};
    static const size_t widths[] = {10, 12, 9, 11, 11, 9};
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        most = h->sizes[i].count > most ? h->sizes[i].count : most;
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        cell(b, titles[i], widths[i]);
    buf_puts(b, "\n");
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        const struct size_class *c = &h->sizes[i];
        if (c->count == 0)
            continue;
        cell(b, format_bytes(text, size_class_begin(i)), widths[0]);
        cell_count(b, c->count, widths[1]);
        cell_bytes(b, c->bytes, widths[2]);
        cell_count(b, c->live_count, widths[3]);
        cell_count(b, c->temporary, widths[4]);
        cell_bytes(b, c->waste, widths[5]);
        put_bar(b, c->count, most);
    }
}

static void text_lives(struct buf *b, const struct histograms *h)
{
    uint64_t most = 0;
    char text[FORMAT_SIZE];
    for (unsigned i = 0; i < LIFE_CLASSES; i++)
        most = h->lives[i].count > most ? h->lives[i].count : most;
    buf_puts(b, "\n");
    cell(b, "Lived below", 12);
    cell(b, "Count", 12);
    cell(b, "Size", 9);
    buf_puts(b, "\n");
    for (unsigned i = 0; i < LIFE_CLASSES; i++) {
        const struct life_class *c = &h->lives[i];
        if (c->count == 0)
            continue;
        cell(b,
             i == LIFE_LIVE       ? "(live)"
             : i + 1 == LIFE_LIVE ? "(longer)"
                                  : format_duration(text, life_class_end(i)),
             12);
        cell_count(b, c->count, 12);
        cell_bytes(b, c->bytes, 9);
        put_bar(b, c->count, most);
    }
}

static void text_line(struct buf *b, const char *what, const struct life_class *c,
                      const struct life_class *all)
{
    char count[FORMAT_SIZE];
    char bytes[FORMAT_SIZE];
    char share[FORMAT_SIZE];
    buf_printf(b, "%s: %s (%s), %s\n", what, format_count(count, c->count),
               format_percent(share, c->count, all->count), format_bytes(bytes, c->bytes));
}

static void write_text(struct buf *b, const struct histograms *h)
{
    char text[FORMAT_SIZE];
    if (h->total.count == 0) {
        buf_puts(b, "no allocations\n");
        return;
    }
    text_sizes(b, h);
    text_lives(b, h);
    buf_puts(b, "\n");
    text_line(b, "freed on another thread", &h->elsewhere, &h->total);
    text_line(b, "freed right after a larger block of the same call stack came", &h->regrown,
              &h->total);
    buf_printf(b, "what glibc's malloc would add to live blocks: %s at most\n",
               format_bytes(text, h->peak_waste));
}

/* ---- JSON, CSV */

static json_t *make_pair(const struct life_class *c)
{
    return json_pack("{s:o, s:o}", "count", json_count(c->count), "bytes", json_count(c->bytes));
}

static void write_json(struct document *d, const struct histograms *h, const struct trace *t)
{
    document_open(d, "tidemark.histograms/1");
    document_member(d, "trace", document_trace(t));
    document_list(d, "sizes");
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        const struct size_class *c = &h->sizes[i];
        if (c->count)
            document_element(
                d, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "from",
                             json_count(size_class_begin(i)), "count", json_count(c->count),
                             "bytes", json_count(c->bytes), "live_count", json_count(c->live_count),
                             "live_bytes", json_count(c->live_bytes), "temporary",
                             json_count(c->temporary), "glibc_waste_bytes", json_count(c->waste)));
    }
    document_list_end(d);
    document_list(d, "lifetimes");
    for (unsigned i = 0; i < LIFE_LIVE; i++) {
        const struct life_class *c = &h->lives[i];
        if (c->count)
            document_element(
                d, json_pack("{s:o, s:o, s:o}", "below_ns",
                             i + 1 < LIFE_LIVE ? json_integer(life_class_end(i)) : json_null(),
                             "count", json_count(c->count), "bytes", json_count(c->bytes)));
    }
    document_list_end(d);
    document_member(d, "live", make_pair(&h->lives[LIFE_LIVE]));
    document_member(d, "freed_on_another_thread", make_pair(&h->elsewhere));
    document_member(d, "regrown", make_pair(&h->regrown));
    document_member(d, "glibc_waste_peak_bytes", json_count(h->peak_waste));
    document_close(d);
}

static void write_csv(struct buf *b, const struct histograms *h)
{
    buf_puts(b, "kind,from,count,bytes,live_count,live_bytes,temporary,glibc_waste_bytes\n");
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        const struct size_class *c = &h->sizes[i];
        if (c->count)
            buf_printf(b,
                       "size,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
                       ",%" PRIu64 "\n",
                       size_class_begin(i), c->count, c->bytes, c->live_count, c->live_bytes,
                       c->temporary, c->waste);
    }
    for (unsigned i = 0; i < LIFE_CLASSES; i++) {
        const struct life_class *c = &h->lives[i];
        if (c->count && i < LIFE_LIVE)
            buf_printf(b, "lifetime_ns,%" PRId64 ",%" PRIu64 ",%" PRIu64 ",,,,\n",
                       i ? life_class_end(i - 1) : 0, c->count, c->bytes);
        else if (c->count)
            buf_printf(b, "live,,%" PRIu64 ",%" PRIu64 ",,,,\n", c->count, c->bytes);
    }
}

int histograms_write(const struct histograms *h, const struct trace *t, enum report_format format,
                     FILE *out, struct err *e)
{
    struct document d = document_begin(out);
    if (format == REPORT_TEXT)
        write_text(&d.buf, h);
    else if (format == REPORT_JSON)
        write_json(&d, h, t);
    else
        write_csv(&d.buf, h);
    return document_end(&d, e);
}
