#include "report/tree_report.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "report/write/csv_field.h"
#include "report/write/document.h"
#include "report/write/markdown_table.h"
#include "report/write/markup.h"
#include "report/write/text_cells.h"

/* ---- the walk: depth first, with an explicit stack, since call stacks can be very deep */

struct step {
    uint32_t node;
    uint32_t at;    /* its next child */
    uint32_t shown; /* shown children */
    size_t prefix;  /* text: bytes of the prefix of its children */
};

/* Columns before the name in text, from left to right. */
enum tree_column { TREE_METRIC, TREE_SHARE, TREE_BAR, TREE_OWN, TREE_BESIDE, TREE_COLUMNS };

struct writer {
    const struct tree *t;
    const struct tree_report_options *options;
    struct document doc;
    struct buf prefix, name;
    VEC(struct step) way;
    bool columns[TREE_COLUMNS]; /* text: shown */
    size_t figures_width;       /* of these columns */
    struct tree_nodes *collect; /* NULL, or collects the nodes instead of writing them */
};

static bool is_shown(const struct writer *w, uint32_t node)
{
    const struct tree_node *n = &w->t->nodes.at[node];
    enum tree_metric m = w->t->options.sort;
    uint64_t all = w->t->nodes.at[TREE_ROOT].inclusive.at[m];
    uint64_t own = n->inclusive.at[m];
    if (w->options->depth && n->depth > w->options->depth)
        return false;
    return w->options->min_share <= 0 || (double)own >= w->options->min_share * (double)all;
}

/* Children are sorted by the metric, so the shown ones come first. */
static uint32_t count_shown(const struct writer *w, uint32_t node)
{
    const struct tree_node *n = &w->t->nodes.at[node];
    uint32_t shown = 0;
    while (shown < n->count && is_shown(w, w->t->children.at[n->first + shown]))
        shown++;
    return shown;
}

static uint32_t count_hidden(const struct writer *w, const struct step *s)
{
    const struct tree_node *n = &w->t->nodes.at[s->node];
    return w->options->depth && n->depth >= w->options->depth ? 0 : n->count - s->shown;
}

/* The names are valid until the next call. */
static struct view short_name(struct writer *w, const struct tree_label *l)
{
    buf_clear(&w->name);
    tree_label_short(&w->name, w->t, l);
    if (w->t->options.by == TREE_LINE)
        frame_source(&w->name, &l->frame);
    return buf_view(&w->name);
}

static struct view full_name(struct writer *w, const struct tree_label *l)
{
    buf_clear(&w->name);
    tree_label_name(&w->name, w->t, l);
    return buf_view(&w->name);
}

static const char *share(const struct writer *w, const struct tree_node *n, char out[FORMAT_SIZE])
{
    enum tree_metric m = w->t->options.sort;
    return format_percent(out, n->inclusive.at[m], w->t->nodes.at[TREE_ROOT].inclusive.at[m]);
}

/* ---- text */

static enum tree_metric beside(enum tree_metric m)
{
    static const enum tree_metric other[] = {
        [TREE_BYTES] = TREE_COUNT,           [TREE_COUNT] = TREE_BYTES,
        [TREE_LIVE_BYTES] = TREE_LIVE_COUNT, [TREE_LIVE_COUNT] = TREE_LIVE_BYTES,
        [TREE_PEAK_BYTES] = TREE_PEAK_COUNT, [TREE_PEAK_COUNT] = TREE_PEAK_BYTES,
        [TREE_TEMPORARY] = TREE_COUNT,       [TREE_RESIDENT] = TREE_LIVE_BYTES,
    };
    return other[m];
}

static int metric_width(enum tree_metric m)
{
    return tree_metric_is_bytes(m) ? 9 : 11;
}

static void put_metric(struct buf *b, const struct tree_figures *f, enum tree_metric m)
{
    if (tree_metric_is_bytes(m))
        cell_bytes(b, f->at[m], 9);
    else
        cell_count(b, f->at[m], 11);
}

static void put_title(struct buf *b, enum tree_metric m, const char *text)
{
    cell(b, text, (size_t)metric_width(m));
}

/* Without a terminal, all but the bar. */
static void choose_columns(struct writer *w)
{
    enum tree_metric m = w->t->options.sort;
    unsigned width = w->doc.form.width;
    struct fitted_column fit[TREE_COLUMNS] = {
        [TREE_METRIC] = {.width = (unsigned)metric_width(m) + 2},
        [TREE_SHARE] = {.width = (width ? SHARE_WIDTH : 7) + 2},
        [TREE_BAR] = {.width = BAR_WIDTH + 2},
        [TREE_OWN] = {.width = (unsigned)metric_width(m) + 2},
        [TREE_BESIDE] = {.width = (unsigned)metric_width(beside(m)) + 2}};
    unsigned names = names_least(width);
    fit_columns(fit, TREE_COLUMNS, width ? (width > names ? width - names : 0) : UINT_MAX);
    fit[TREE_BAR].shown &= width != 0;
    for (int i = 0; i < TREE_COLUMNS; i++) {
        w->columns[i] = fit[i].shown;
        w->figures_width += fit[i].shown ? fit[i].width : 0;
    }
}

static void text_head(struct writer *w)
{
    static const char *const titles[] = {
        [TREE_BYTES] = "Size",           [TREE_COUNT] = "Count",
        [TREE_LIVE_BYTES] = "Live size", [TREE_LIVE_COUNT] = "Live",
        [TREE_PEAK_BYTES] = "At peak",   [TREE_PEAK_COUNT] = "At peak",
        [TREE_TEMPORARY] = "Temporary",  [TREE_RESIDENT] = "Resident"};
    static const char *const groups[] = {
        [TREE_FUNCTION] = "Function", [TREE_LINE] = "Source location", [TREE_FILE] = "File",
        [TREE_IMAGE] = "Image",       [TREE_MODULE] = "Module",        [TREE_THREAD] = "Thread",
        [TREE_TYPE] = "Type"};
    enum tree_metric m = w->t->options.sort;
    struct buf *b = &w->doc.buf;
    document_fit(&w->doc);
    choose_columns(w);
    tint(b, w->doc.form, TINT_TITLE);
    if (w->columns[TREE_METRIC])
        put_title(b, m, titles[m]);
    if (w->columns[TREE_SHARE])
        cell(b, "Share", w->doc.form.width ? SHARE_WIDTH : 7);
    if (w->columns[TREE_BAR])
        cell(b, "", BAR_WIDTH);
    if (w->columns[TREE_OWN])
        put_title(b, m, "Own");
    if (w->columns[TREE_BESIDE])
        put_title(b, beside(m), titles[beside(m)]);
    buf_printf(b, "  %s", groups[w->t->options.by]);
    tint_end(b, w->doc.form, TINT_TITLE);
    buf_puts(b, "\n");
}

/* On a terminal, a deep prefix loses its begin, and a long name its middle. */
static void put_name(struct writer *w, const char *branch, struct view name)
{
    struct buf *b = &w->doc.buf;
    struct view prefix = buf_view(&w->prefix);
    if (w->doc.form.width == 0) {
        buf_put(b, prefix.p, prefix.len);
        buf_puts(b, branch);
        format_terminal(b, name);
        return;
    }
    size_t room = w->doc.form.width - w->figures_width - 2;
    size_t lines = format_width(prefix) + format_width(view_of(branch));
    size_t most = room / 2;
    tint(b, w->doc.form, TINT_FAINT);
    if (lines > most) {
        for (size_t cut = lines - most + 1; prefix.len && cut; prefix.p++, prefix.len--)
            cut -= prefix.len == 1 || ((uint8_t)prefix.p[1] & 0xc0) != 0x80;
        buf_puts(b, "…");
        lines = most;
    }
    buf_put(b, prefix.p, prefix.len);
    buf_puts(b, branch);
    tint_end(b, w->doc.form, TINT_FAINT);
    put_shortened(b, name, room > lines ? room - lines : 1);
}

static void text_node(struct writer *w, uint32_t node, const char *branch)
{
    const struct tree_node *n = &w->t->nodes.at[node];
    const struct tree_node *root = &w->t->nodes.at[TREE_ROOT];
    enum tree_metric m = w->t->options.sort;
    struct buf *b = &w->doc.buf;
    char text[FORMAT_SIZE];
    if (w->columns[TREE_METRIC])
        put_metric(b, &n->inclusive, m);
    uint64_t part = n->inclusive.at[m], whole = root->inclusive.at[m];
    if (w->columns[TREE_SHARE] && w->doc.form.width)
        cell_share(b, w->doc.form, share_tint(part, whole), part, whole);
    else if (w->columns[TREE_SHARE])
        cell(b, share(w, n, text), 7);
    if (w->columns[TREE_BAR])
        cell_bar(b, w->doc.form, share_tint(part, whole), part, whole);
    if (w->columns[TREE_OWN])
        put_metric(b, &n->exclusive, m);
    if (w->columns[TREE_BESIDE])
        put_metric(b, &n->inclusive, beside(m));
    buf_puts(b, "  ");
    put_name(w, branch,
             node == TREE_ROOT ? view_of("all") : short_name(w, &w->t->labels.at[n->label]));
    buf_puts(b, "\n");
}

static void text_rest(struct writer *w, const struct step *s)
{
    char text[FORMAT_SIZE];
    uint32_t hidden = count_hidden(w, s);
    if (hidden == 0)
        return;
    buf_printf(&w->doc.buf, "%*s", (int)w->figures_width + 2, "");
    put_name(w, s->shown ? "└ " : "", view_of(format_counted(text, hidden, "smaller one")));
    buf_puts(&w->doc.buf, "\n");
}

/* A single child continues below its parent; several children are drawn as branches. */
static void text_enter(struct writer *w, const struct step *parent, struct step *s)
{
    bool branches = parent && w->t->nodes.at[parent->node].count > 1;
    bool last = parent && parent->at >= w->t->nodes.at[parent->node].count;
    text_node(w, s->node, branches ? (last ? "└ " : "├ ") : "");
    if (branches)
        buf_puts(&w->prefix, last ? "  " : "│ ");
    s->prefix = w->prefix.len;
    document_flush(&w->doc);
}

/* ---- Markdown: nested lists */

static void put_figure(struct buf *b, const struct tree_figures *f, enum tree_metric m)
{
    char text[FORMAT_SIZE];
    buf_puts(b,
             tree_metric_is_bytes(m) ? format_bytes(text, f->at[m]) : format_count(text, f->at[m]));
}

static void markdown_head(struct writer *w)
{
    static const struct selection_options all;
    const struct tree *t = w->t;
    const struct selection_options *only = w->options->only;
    struct buf *b = &w->doc.buf;
    markdown_title(&w->doc, "Call-stack tree of", t->trace, only ? only : &all);
    buf_printf(b, "%s by %s, %s: ", t->options.bottom_up ? "Bottom-up" : "Top-down",
               tree_by_name(t->options.by), tree_metric_name(t->options.sort));
    put_figure(b, &t->nodes.at[TREE_ROOT].inclusive, t->options.sort);
    buf_puts(b, ".\n\n");
}

static void markdown_node(struct writer *w, uint32_t node)
{
    const struct tree_node *n = &w->t->nodes.at[node];
    enum tree_metric m = w->t->options.sort;
    struct buf *b = &w->doc.buf;
    char text[FORMAT_SIZE];
    buf_put(b, w->prefix.data, w->prefix.len);
    buf_puts(b, "- ");
    markup_code(b, short_name(w, &w->t->labels.at[n->label]));
    buf_puts(b, " ");
    put_figure(b, &n->inclusive, m);
    buf_printf(b, " (%s), own ", share(w, n, text));
    put_figure(b, &n->exclusive, m);
    buf_printf(b, ", %s ", tree_metric_name(beside(m)));
    put_figure(b, &n->inclusive, beside(m));
    buf_puts(b, "\n");
}

static void markdown_enter(struct writer *w, const struct step *parent, struct step *s)
{
    if (parent && parent->node != TREE_ROOT)
        buf_puts(&w->prefix, "  ");
    s->prefix = w->prefix.len;
    if (s->node != TREE_ROOT)
        markdown_node(w, s->node);
    document_flush(&w->doc);
}

static void markdown_hidden(struct writer *w, const struct step *s)
{
    char text[FORMAT_SIZE];
    uint32_t hidden = count_hidden(w, s);
    if (hidden == 0)
        return;
    buf_put(&w->doc.buf, w->prefix.data, w->prefix.len);
    buf_printf(&w->doc.buf, "%s- %s\n", s->node != TREE_ROOT ? "  " : "",
               format_counted(text, hidden, "smaller one"));
}

/* ---- JSON and CSV: a flat list of nodes, each with its parent's number */

static const char *const keys[TREE_METRICS] = {[TREE_BYTES] = "bytes",
                                               [TREE_COUNT] = "count",
                                               [TREE_LIVE_BYTES] = "live_bytes",
                                               [TREE_LIVE_COUNT] = "live_count",
                                               [TREE_PEAK_BYTES] = "at_peak_bytes",
                                               [TREE_PEAK_COUNT] = "at_peak_count",
                                               [TREE_TEMPORARY] = "temporary",
                                               [TREE_RESIDENT] = "resident_bytes"};

static json_t *make_figures(const struct tree *t, const struct tree_figures *f)
{
    json_t *figures = json_object();
    for (size_t i = 0; i < tree_metric_count(t); i++)
        figures = json_with(figures, keys[i], json_count(f->at[i]));
    return figures;
}

static void json_node(struct writer *w, uint32_t node)
{
    const struct tree_node *n = &w->t->nodes.at[node];
    const struct tree_label *l = &w->t->labels.at[n->label];
    json_t *v = json_pack("{s:I, s:o, s:I, s:o}", "id", (json_int_t)node, "parent",
                          n->parent ? json_integer(n->parent) : json_null(), "depth",
                          (json_int_t)n->depth, "name", json_text(full_name(w, l)));
    v = json_with(json_place(v, &l->frame), "inclusive", make_figures(w->t, &n->inclusive));
    document_element(&w->doc, json_with(v, "exclusive", make_figures(w->t, &n->exclusive)));
}

static void json_head(struct writer *w)
{
    const struct tree *t = w->t;
    document_begin_json(&w->doc, "tidemark.tree/1", t->trace);
    document_member(&w->doc, "direction",
                    json_string(t->options.bottom_up ? "bottom-up" : "top-down"));
    document_member(&w->doc, "by", json_string(tree_by_name(t->options.by)));
    document_member(&w->doc, "metric", json_string(tree_metric_name(t->options.sort)));
    document_member(&w->doc, "peak_time_ns",
                    t->peak_time == -1 ? json_null() : json_integer(t->peak_time));
    document_member(&w->doc, "total", make_figures(t, &t->nodes.at[TREE_ROOT].inclusive));
    document_list(&w->doc, "nodes");
}

static void csv_head(struct writer *w)
{
    struct buf *b = &w->doc.buf;
    buf_puts(b, "id,parent,depth,name,function,file,line,image");
    for (int own = 0; own < 2; own++) {
        for (size_t i = 0; i < tree_metric_count(w->t); i++)
            buf_printf(b, ",%s%s", own ? "own_" : "", keys[i]);
    }
    buf_puts(b, "\n");
}

static void csv_node(struct writer *w, uint32_t node)
{
    const struct tree_node *n = &w->t->nodes.at[node];
    const struct tree_label *l = &w->t->labels.at[n->label];
    struct buf *b = &w->doc.buf;
    buf_printf(b, "%" PRIu32 ",", node);
    if (n->parent)
        buf_printf(b, "%" PRIu32, n->parent);
    buf_printf(b, ",%" PRIu32 ",", n->depth);
    csv_field(b, full_name(w, l));
    buf_puts(b, ",");
    csv_site(b, &l->frame, false);
    for (size_t i = 0; i < tree_metric_count(w->t); i++)
        buf_printf(b, ",%" PRIu64, n->inclusive.at[i]);
    for (size_t i = 0; i < tree_metric_count(w->t); i++)
        buf_printf(b, ",%" PRIu64, n->exclusive.at[i]);
    buf_puts(b, "\n");
    document_flush(&w->doc);
}

/* ---- entry points */

static void put_row(struct writer *w, uint32_t node)
{
    if (w->options->format == REPORT_JSON)
        json_node(w, node);
    else
        csv_node(w, node);
}

static void enter(struct writer *w, const struct step *parent, struct step *s)
{
    s->shown = count_shown(w, s->node);
    if (w->collect)
        w->doc.failed |= s->node != TREE_ROOT && !vec_push(&w->collect->list, s->node);
    else if (w->options->markdown)
        markdown_enter(w, parent, s);
    else if (w->options->format == REPORT_TEXT)
        text_enter(w, parent, s);
    else if (s->node != TREE_ROOT)
        put_row(w, s->node);
}

static void walk(struct writer *w)
{
    struct step root = {.node = TREE_ROOT};
    enter(w, NULL, &root);
    w->doc.failed |= !vec_push(&w->way, root);
    while (w->way.len && !w->doc.failed) {
        struct step *s = &w->way.at[w->way.len - 1];
        w->prefix.len = s->prefix;
        if (s->at == s->shown) {
            if (w->options->markdown && !w->collect)
                markdown_hidden(w, s);
            else if (w->options->format == REPORT_TEXT && !w->collect)
                text_rest(w, s);
            w->way.len--;
            continue;
        }
        struct step child = {.node = w->t->children.at[w->t->nodes.at[s->node].first + s->at++]};
        enter(w, s, &child);
        w->doc.failed |= !vec_push(&w->way, child);
    }
}

int tree_shown(struct tree_nodes *out, const struct tree *t,
               const struct tree_report_options *options, struct err *e)
{
    struct writer w = {.t = t, .options = options, .collect = out};
    *out = (struct tree_nodes){0};
    walk(&w);
    vec_release(&w.way);
    if (!w.doc.failed)
        return 0;
    vec_release(&out->list);
    return err_no_memory(e, "the tree");
}

int tree_write(const struct tree *t, const struct tree_report_options *options, FILE *out,
               struct err *e)
{
    struct writer w = {.t = t, .options = options, .doc = document_begin(out)};
    if (options->markdown)
        markdown_head(&w);
    else if (options->format == REPORT_TEXT)
        text_head(&w);
    else if (options->format == REPORT_JSON)
        json_head(&w);
    else
        csv_head(&w);
    if (options->nodes) {
        for (size_t i = 0; i < options->node_count; i++)
            put_row(&w, options->nodes[i]);
    } else {
        walk(&w);
    }
    if (options->format == REPORT_JSON) {
        document_list_end(&w.doc);
        document_close(&w.doc);
    }
    w.doc.failed |= w.prefix.failed | w.name.failed;
    buf_release(&w.prefix);
    buf_release(&w.name);
    vec_release(&w.way);
    return document_end(&w.doc, e);
}
