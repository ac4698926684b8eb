#include "report/markdown_questions.h"

#include <math.h>

#include "base/format.h"
#include "report/write/markdown_table.h"
#include "report/write/markup.h"

static void signed_bytes(struct document *d, double n, const char *behind)
{
    char bytes[FORMAT_SIZE];
    char text[2 * FORMAT_SIZE];
    double size = fabs(n) < 1.8e19 ? fabs(n) : 1.8e19;
    snprintf(text, sizeof text, "%s%s%s",
             n < 0   ? "-"
             : n > 0 ? "+"
                     : "",
             format_bytes(bytes, (uint64_t)(size + 0.5)), behind);
    markdown_text(d, text);
}

static void change(struct document *d, uint64_t before, uint64_t after)
{
    char count[FORMAT_SIZE];
    char text[2 * FORMAT_SIZE];
    snprintf(text, sizeof text, "%s%s",
             after > before   ? "+"
             : after < before ? "-"
                              : "",
             format_count(count, after > before ? after - before : before - after));
    markdown_text(d, text);
}

static struct view pool_name(const struct selection *s, uint32_t pool)
{
    return s->pools.at[pool].name;
}

/* ---- leaks */

static void leaks_head(struct document *d, const struct leaks *l)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    uint64_t count;
    uint64_t bytes;
    leaks_total(l, &count, &bytes);
    if (count == 0) {
        buf_puts(&d->buf, "Every block was freed.\n");
    } else {
        buf_printf(&d->buf, "%s, %s; ", format_counted(a, count, "block"), format_bytes(b, bytes));
        buf_printf(&d->buf, "growing: %s, ", format_counted(a, l->count[LEAK_GROWING], "block"));
        buf_printf(&d->buf, "%s.\n", format_bytes(b, l->bytes[LEAK_GROWING]));
    }
    if (l->suppressed_count)
        buf_printf(&d->buf, "Suppressed: %s, %s.\n",
                   format_counted(a, l->suppressed_count, "block"),
                   format_bytes(b, l->suppressed_bytes));
    buf_puts(&d->buf, "\n");
}

static void leak(struct document *d, const struct leak_row *r, const struct selection *s)
{
    char share[FORMAT_SIZE];
    const char *confidence = leak_confidence_name(r->confidence);
    markdown_text(d, leak_kind_name(r->kind));
    markdown_text(d, confidence ? confidence : "");
    markdown_site(d, &r->frame, r->no_callstack);
    markdown_code(d, pool_name(s, r->pool));
    markdown_count(d, r->count);
    markdown_text(d, format_percent(share, r->count, r->allocations));
    markdown_bytes(d, r->bytes);
    markdown_duration(d, r->first);
    markdown_duration(d, r->last);
    if (r->kind == LEAK_GROWING)
        signed_bytes(d, r->rate, "/s");
    else
        markdown_text(d, "");
    markdown_row_end(d);
}

static void suppressed(struct document *d, const struct suppressions *s)
{
    bool any = false;
    for (size_t i = 0; s && i < s->list.len; i++) {
        const struct suppression *one = &s->list.at[i];
        if (one->count == 0)
            continue;
        if (!any)
            buf_puts(&d->buf, "\n");
        if (!any)
            markdown_columns(d, "Suppression|>Blocks|>Size");
        any = true;
        markdown_code(d, view_of(one->pattern));
        markdown_count(d, one->count);
        markdown_bytes(d, one->bytes);
        markdown_row_end(d);
    }
}

int markdown_leaks(const struct leaks *l, const struct selection *s,
                   const struct suppressions *suppress, const struct leak_report_options *options,
                   FILE *out, struct err *e)
{
    struct document d = document_begin(out);
    size_t n = rows_shown(l->rows.len, options->limit);
    markdown_title(&d, "What is never freed in", s->trace, &s->options);
    leaks_head(&d, l);
    if (n)
        markdown_columns(
            &d, "Kind|Confidence|Where|Pool|>Blocks|>Never freed|>Size|>First|>Last|>Growth");
    for (size_t i = 0; i < n; i++)
        leak(&d, &l->rows.at[i], s);
    markdown_rest(&d, n, l->rows.len, "more site");
    suppressed(&d, suppress);
    for (size_t i = 0; i < n && options->stack_traces; i++)
        markdown_stack(&d, s->trace, &l->rows.at[i].frame, l->rows.at[i].callstack);
    return document_end(&d, e);
}

/* ---- growth */

static void growth_head(struct document *d, const struct growth *g)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    struct buf *out = &d->buf;
    buf_printf(out, "From %s to ", g->from < 0 ? "the beginning" : format_duration(a, g->from));
    buf_printf(out, "%s: %s ", format_duration(a, g->to), format_bytes(b, g->bytes_before));
    buf_printf(out, "in %s ", format_counted(a, g->count_before, "block"));
    buf_printf(out, "became %s ", format_bytes(b, g->bytes_after));
    buf_printf(out, "in %s.\n\n", format_count(a, g->count_after));
}

static void grown(struct document *d, const struct growth_row *r, const struct selection *s)
{
    markdown_site(d, &r->frame, r->no_callstack);
    markdown_code(d, pool_name(s, r->pool));
    signed_bytes(d, (double)growth_of(r->bytes_before, r->bytes_after), "");
    markdown_bytes(d, r->bytes_before);
    markdown_bytes(d, r->bytes_after);
    change(d, r->count_before, r->count_after);
    markdown_count(d, r->allocations);
    markdown_count(d, r->frees);
    markdown_row_end(d);
}

int markdown_growth(const struct growth *g, const struct selection *s,
                    const struct leak_report_options *options, FILE *out, struct err *e)
{
    struct document d = document_begin(out);
    size_t n = rows_shown(g->rows.len, options->limit);
    markdown_title(&d, "What grew in", s->trace, &s->options);
    growth_head(&d, g);
    if (n)
        markdown_columns(&d, "Where|Pool|>Growth|>Before|>After|>Blocks|>Allocated|>Freed");
    for (size_t i = 0; i < n; i++)
        grown(&d, &g->rows.at[i], s);
    markdown_rest(&d, n, g->rows.len, "more site");
    for (size_t i = 0; i < n && options->stack_traces; i++)
        markdown_stack(&d, s->trace, &g->rows.at[i].frame, g->rows.at[i].callstack);
    return document_end(&d, e);
}

/* ---- histograms */

static void line(struct document *d, const char *what, const struct life_class *c,
                 const struct life_class *all)
{
    char count[FORMAT_SIZE];
    char bytes[FORMAT_SIZE];
    char share[FORMAT_SIZE];
    buf_printf(&d->buf, "- %s: %s (%s), %s\n", what, format_count(count, c->count),
               format_percent(share, c->count, all->count), format_bytes(bytes, c->bytes));
}

static void sizes(struct document *d, const struct histograms *h)
{
    markdown_columns(d, ">Size from|>Count|>Size|>Live|>Temporary|>glibc adds");
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        const struct size_class *c = &h->sizes[i];
        if (c->count == 0)
            continue;
        markdown_bytes(d, size_class_begin(i));
        markdown_count(d, c->count);
        markdown_bytes(d, c->bytes);
        markdown_count(d, c->live_count);
        markdown_count(d, c->temporary);
        markdown_bytes(d, c->waste);
        markdown_row_end(d);
    }
}

static void lives(struct document *d, const struct histograms *h)
{
    markdown_columns(d, ">Lived below|>Count|>Size");
    for (unsigned i = 0; i < LIFE_CLASSES; i++) {
        const struct life_class *c = &h->lives[i];
        if (c->count == 0)
            continue;
        if (i + 1 < LIFE_LIVE)
            markdown_duration(d, life_class_end(i));
        else
            markdown_text(d, i == LIFE_LIVE ? "(live)" : "(longer)");
        markdown_count(d, c->count);
        markdown_bytes(d, c->bytes);
        markdown_row_end(d);
    }
}

int markdown_histograms(const struct histograms *h, const struct selection *s, FILE *out,
                        struct err *e)
{
    struct document d = document_begin(out);
    char text[FORMAT_SIZE];
    markdown_title(&d, "Sizes and lifetimes of blocks in", s->trace, &s->options);
    if (h->total.count == 0) {
        buf_puts(&d.buf, "No allocations.\n");
        return document_end(&d, e);
    }
    line(&d, "Live at the end", &h->lives[LIFE_LIVE], &h->total);
    line(&d, "Freed by another thread", &h->elsewhere, &h->total);
    line(&d, "Freed right after a larger one came", &h->regrown, &h->total);
    buf_printf(&d.buf, "- glibc's malloc would add to what is live: at most %s\n\n",
               format_bytes(text, h->peak_waste));
    sizes(&d, h);
    buf_puts(&d.buf, "\n");
    lives(&d, h);
    return document_end(&d, e);
}

/* ---- patterns */

static bool has_loops(const struct pattern_row *r)
{
    return r->longest_run > 1;
}

static bool has_waste(const struct pattern_row *r)
{
    return r->peak_waste != 0;
}

static void cells_grown(struct document *d, const struct pattern_row *r)
{
    markdown_bytes(d, r->copied);
    markdown_count(d, r->grown);
    markdown_count(d, r->chains);
    markdown_count(d, r->longest);
    markdown_bytes(d, r->largest);
    markdown_bytes(d, r->given_back);
}

static void cells_temporary(struct document *d, const struct pattern_row *r)
{
    char text[FORMAT_SIZE];
    markdown_count(d, r->temporary);
    markdown_text(d, format_percent(text, r->temporary, r->count));
    markdown_count(d, r->longest_run);
    markdown_bytes(d, r->temporary_bytes);
}

static void cells_fixed(struct document *d, const struct pattern_row *r)
{
    markdown_bytes(d, r->only_size);
    markdown_count(d, r->count);
    markdown_bytes(d, r->peak_bytes);
    markdown_bytes(d, r->live_bytes);
}

static void cells_waste(struct document *d, const struct pattern_row *r)
{
    markdown_bytes(d, r->peak_waste);
    markdown_count(d, r->count);
    markdown_bytes(d, r->count ? r->bytes / r->count : 0);
}

static const struct pattern_table {
    const char *title;
    enum pattern_order order;
    bool (*wants)(const struct pattern_row *r);
    const char *columns;
    void (*cells)(struct document *d, const struct pattern_row *r);
} pattern_tables[] = {
    {"Grow by copying", PATTERN_BY_COPIED, pattern_grows,
     "Where|Pool|>Copied|>Steps|>Chains|>Longest|>Largest|>Given back", cells_grown},
    {"Temporary blocks one after the other", PATTERN_BY_TEMPORARY, has_loops,
     "Where|Pool|>Temporary|>Of all|>In a row|>Size", cells_temporary},
    {"Large, of one size, and never grown", PATTERN_BY_PEAK, pattern_never_grew,
     "Where|Pool|>Size each|>Count|>Peak|>Live", cells_fixed},
    {"Room that glibc's malloc would add", PATTERN_BY_WASTE, has_waste,
     "Where|Pool|>At most|>Count|>Mean size", cells_waste},
};

static void pattern_table(struct document *d, struct patterns *p, const struct selection *s,
                          const struct pattern_table *t, uint64_t limit)
{
    size_t all = 0;
    size_t shown = 0;
    patterns_sort(p, t->order);
    for (size_t i = 0; i < p->rows.len; i++) {
        const struct pattern_row *r = &p->rows.at[i];
        if (!t->wants(r) || (all++, limit && shown == limit))
            continue;
        if (shown++ == 0) {
            buf_printf(&d->buf, "\n**%s**\n\n", t->title);
            markdown_columns(d, t->columns);
        }
        markdown_site(d, &r->frame, r->no_callstack);
        markdown_code(d, pool_name(s, r->pool));
        t->cells(d, r);
        markdown_row_end(d);
    }
    markdown_rest(d, shown, all, "more site");
}

int markdown_patterns(struct patterns *p, const struct selection *s,
                      const struct leak_report_options *options, FILE *out, struct err *e)
{
    struct document d = document_begin(out);
    markdown_title(&d, "What sites do with their blocks in", s->trace, &s->options);
    if (p->rows.len == 0)
        buf_puts(&d.buf, "No allocations.\n");
    for (size_t i = 0; i < sizeof pattern_tables / sizeof *pattern_tables; i++)
        pattern_table(&d, p, s, &pattern_tables[i], options->limit);
    return document_end(&d, e);
}

/* ---- related plots and messages */

static void decimal(struct document *d, int digits, double x)
{
    char text[400];
    snprintf(text, sizeof text, "%.*f", digits, x);
    markdown_text(d, text);
}

static void probability(struct document *d, double p)
{
    char text[32];
    snprintf(text, sizeof text, "%.1e", p);
    markdown_text(d, text);
}

static void plots(struct document *d, const struct related *r, const struct selection *s,
                  uint64_t limit)
{
    size_t all = 0;
    while (all < r->plots.len && related_is_one(r->plots.at[all].adjusted))
        all++;
    size_t n = rows_shown(all, limit);
    if (n == 0)
        buf_puts(&d->buf, "No plot moved with memory.\n");
    else
        markdown_columns(d, "Plot|Pool|>Rho|>r|>Steps|>p");
    for (size_t i = 0; i < n; i++) {
        const struct related_plot *p = &r->plots.at[i];
        markdown_code(d, p->name);
        markdown_code(d, pool_name(s, p->pool));
        decimal(d, 2, p->spearman);
        decimal(d, 2, p->pearson);
        markdown_count(d, p->n);
        probability(d, p->adjusted);
        markdown_row_end(d);
    }
    markdown_rest(d, n, all, "more row");
}

static void messages(struct document *d, const struct related *r, const struct selection *s,
                     uint64_t limit)
{
    size_t all = 0;
    while (all < r->messages.len && related_is_one(r->messages.at[all].adjusted))
        all++;
    size_t n = rows_shown(all, limit);
    buf_puts(&d->buf, "\n");
    if (n == 0)
        buf_puts(&d->buf, "No message came before rises of memory.\n");
    else
        markdown_columns(d, "Message|Pool|>Count|>Steep|>Expected|>Rise|>Usual|>p");
    for (size_t i = 0; i < n; i++) {
        const struct related_message *m = &r->messages.at[i];
        markdown_code(d, m->text);
        markdown_code(d, pool_name(s, m->pool));
        markdown_count(d, m->count);
        markdown_count(d, m->steep);
        decimal(d, 1, m->expected);
        signed_bytes(d, m->rise, "");
        signed_bytes(d, m->usual, "");
        probability(d, m->adjusted);
        markdown_row_end(d);
    }
    markdown_rest(d, n, all, "more row");
}

int markdown_related(const struct related *r, const struct selection *s, uint64_t limit, FILE *out,
                     struct err *e)
{
    struct document d = document_begin(out);
    markdown_title(&d, "What moved with memory in", s->trace, &s->options);
    plots(&d, r, s, limit);
    messages(&d, r, s, limit);
    return document_end(&d, e);
}
