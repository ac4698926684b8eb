#include "report/histograms_report.h"

#include <stdio.h>

#include "base/format.h"
#include "report/write/markdown_table.h"
#include "report/write/row_table.h"

#define BAR 30u

/* ---- rows */

struct size_row {
    uint64_t from; /* bytes */
    struct size_class of;
};

static void get_size(struct row_value *v, const void *row)
{
    (void)row;
    v->word = "size";
}

#define SIZE(KEY, KIND, MEMBER) KEY, KIND, .offset = offsetof(struct size_row, MEMBER)

static const struct row_column size_columns[] = {
    {"kind", VALUE_WORD, .get = get_size},
    {SIZE("from", VALUE_BYTES, from)},
    {SIZE("count", VALUE_COUNT, of.count)},
    {SIZE("bytes", VALUE_BYTES, of.bytes)},
    {SIZE("live_count", VALUE_COUNT, of.live_count)},
    {SIZE("live_bytes", VALUE_BYTES, of.live_bytes)},
    {SIZE("temporary", VALUE_COUNT, of.temporary)},
    {SIZE("glibc_waste_bytes", VALUE_BYTES, of.waste)},
    {0},
};

static const struct row_table size_table = {
    .columns = size_columns,
    .text = "from=Size from:10|count=Count:12|bytes=Size:9|live_count=Live:11"
            "|temporary=Temporary:11|glibc_waste_bytes=Waste:9",
    .json = "from|count|bytes|live_count|live_bytes|temporary|glibc_waste_bytes",
    .csv = "kind|from|count|bytes|live_count|live_bytes|temporary|glibc_waste_bytes",
    .markdown = "from=>Size from|count=>Count|bytes=>Size|live_count=>Live|temporary=>Temporary"
                "|glibc_waste_bytes=>glibc adds",
};

struct life_row {
    unsigned class;
    int64_t from, below; /* ns; undefined for blocks that are live */
    struct life_class of;
};

static const struct life_row *life_of(const void *row)
{
    return row;
}

static bool is_freed_row(const void *row)
{
    return life_of(row)->class != LIFE_LIVE;
}

static bool has_end(const void *row)
{
    return life_of(row)->class + 1 < LIFE_LIVE;
}

static void get_life(struct row_value *v, const void *row)
{
    v->word = is_freed_row(row) ? "lifetime_ns" : "live";
}

static void get_below(struct row_value *v, const void *row)
{
    v->word = has_end(row)        ? format_duration(v->room, life_of(row)->below)
              : is_freed_row(row) ? "(longer)"
                                  : "(live)";
}

#define LIFE(KEY, KIND, MEMBER) KEY, KIND, .offset = offsetof(struct life_row, MEMBER)

static const struct row_column life_columns[] = {
    {"kind", VALUE_WORD, .get = get_life},
    {LIFE("from", VALUE_TIME, from), .known = is_freed_row},
    {LIFE("below_ns", VALUE_TIME, below), .known = has_end},
    {"below", VALUE_WORD, .get = get_below},
    {LIFE("count", VALUE_COUNT, of.count)},
    {LIFE("bytes", VALUE_BYTES, of.bytes)},
    {0},
};

/* CSV has the columns of sizes. */
static const struct row_table life_table = {
    .columns = life_columns,
    .text = "below=Lived below:12|count=Count:12|bytes=Size:9",
    .json = "below_ns|count|bytes",
    .csv = "kind|from|count|bytes||||",
    .markdown = "below=>Lived below|count=>Count|bytes=>Size",
};

/* ---- text */

/* Fills at most `room` columns. */
static void put_bar(struct buf *b, size_t room, uint64_t n, uint64_t most)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    unsigned filled = most ? (unsigned)((unsigned __int128)n * room * 8 / most) : 0;
    filled = filled == 0 && n ? 1 : filled;
    buf_puts(b, "  ");
    for (unsigned i = 0; i < filled / 8; i++)
        buf_puts(b, "█");
    buf_puts(b, eighths[filled % 8]);
    buf_puts(b, "\n");
}

/* A row, in text with a bar that shows `count` of the most. */
static void write_row(struct row_writer *w, const void *row, uint64_t count, uint64_t most)
{
    if (count && w->format == REPORT_TEXT) {
        struct buf *b = &w->doc->buf;
        size_t begin = b->len, room = BAR;
        row_cells(w, row);
        struct view cells = buf_view(b);
        size_t used = format_width((struct view){cells.p + begin, cells.len - begin}) + 2;
        if (w->doc->form.width && w->doc->form.width < used + BAR)
            room = w->doc->form.width > used ? w->doc->form.width - used : 0;
        put_bar(b, room, count, most);
    } else if (count) {
        row_write(w, row);
    }
}

static void write_sizes(struct row_writer *w, const struct histograms *h)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        most = h->sizes[i].count > most ? h->sizes[i].count : most;
    row_titles(w);
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        const struct size_row row = {size_class_begin(i), h->sizes[i]};
        write_row(w, &row, row.of.count, most);
    }
}

/* JSON has live blocks apart. */
static void write_lives(struct row_writer *w, const struct histograms *h)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < LIFE_CLASSES; i++)
        most = h->lives[i].count > most ? h->lives[i].count : most;
    if (w->format != REPORT_CSV)
        row_titles(w);
    for (unsigned i = 0; i < (w->format == REPORT_JSON ? LIFE_LIVE : LIFE_CLASSES); i++) {
        const struct life_row row = {i, i ? life_class_end(i - 1) : 0, life_class_end(i),
                                     h->lives[i]};
        write_row(w, &row, row.of.count, most);
    }
}

static void put_line(struct buf *b, const char *what, const struct life_class *c,
                     const struct life_class *all)
{
    char count[FORMAT_SIZE];
    char bytes[FORMAT_SIZE];
    char share[FORMAT_SIZE];
    buf_printf(b, "%s: %s (%s), %s\n", what, format_count(count, c->count),
               format_percent(share, c->count, all->count), format_bytes(bytes, c->bytes));
}

static void text_lines(struct buf *b, const struct histograms *h)
{
    char text[FORMAT_SIZE];
    buf_puts(b, "\n");
    put_line(b, "freed on another thread", &h->elsewhere, &h->total);
    put_line(b, "freed right after a larger block of the same call stack came", &h->regrown,
             &h->total);
    buf_printf(b, "what glibc's malloc would add to live blocks: %s at most\n",
               format_bytes(text, h->peak_waste));
}

static void markdown_lines(struct buf *b, const struct histograms *h)
{
    char text[FORMAT_SIZE];
    put_line(b, "- Live at the end", &h->lives[LIFE_LIVE], &h->total);
    put_line(b, "- Freed by another thread", &h->elsewhere, &h->total);
    put_line(b, "- Freed right after a larger one came", &h->regrown, &h->total);
    buf_printf(b, "- glibc's malloc would add to what is live: at most %s\n\n",
               format_bytes(text, h->peak_waste));
}

static void write_read(struct row_writer *sizes, struct row_writer *lives,
                       const struct histograms *h)
{
    struct document *d = sizes->doc;
    bool text = sizes->format == REPORT_TEXT;
    if (!text)
        markdown_title(d, "Sizes and lifetimes of blocks in", sizes->s->trace, &sizes->s->options);
    if (h->total.count == 0) {
        buf_puts(&d->buf, text ? "no allocations\n" : "No allocations.\n");
        return;
    }
    if (!text)
        markdown_lines(&d->buf, h);
    write_sizes(sizes, h);
    buf_puts(&d->buf, "\n");
    write_lives(lives, h);
    if (text)
        text_lines(&d->buf, h);
}

/* ---- JSON */

static json_t *make_pair(const struct life_class *c)
{
    return json_pack("{s:o, s:o}", "count", json_count(c->count), "bytes", json_count(c->bytes));
}

static void write_json(struct row_writer *sizes, struct row_writer *lives,
                       const struct histograms *h)
{
    struct document *d = sizes->doc;
    document_begin_json(d, "tidemark.histograms/1", sizes->s->trace);
    document_list(d, "sizes");
    write_sizes(sizes, h);
    document_list_end(d);
    document_list(d, "lifetimes");
    write_lives(lives, h);
    document_list_end(d);
    document_member(d, "live", make_pair(&h->lives[LIFE_LIVE]));
    document_member(d, "freed_on_another_thread", make_pair(&h->elsewhere));
    document_member(d, "regrown", make_pair(&h->regrown));
    document_member(d, "glibc_waste_peak_bytes", json_count(h->peak_waste));
    document_close(d);
}

int histograms_write(const struct histograms *h, const struct selection *s,
                     enum report_format format, FILE *out, struct err *e)
{
    struct document d = document_begin(out);
    struct row_writer sizes = row_writer(&d, &size_table, s, format, false);
    struct row_writer lives = row_writer(&d, &life_table, s, format, false);
    if (format == REPORT_JSON) {
        write_json(&sizes, &lives, h);
    } else if (format == REPORT_CSV) {
        write_sizes(&sizes, h);
        write_lives(&lives, h);
    } else {
        write_read(&sizes, &lives, h);
    }
    return document_end(&d, e);
}
