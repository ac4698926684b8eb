/* The call tree, as a list of nodes. */

#include "report/tree_report.h"

#include <string.h>

#include "lib/tidetrace_internal.h"

struct tree_result {
    struct tidetrace_result base;
    struct tree tree;
    struct tree_nodes nodes; /* in row order */
};

static int write_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                      struct err *e)
{
    static const uint32_t none;
    struct tree_result *t = (struct tree_result *)r;
    const struct tree_report_options options = {.format = REPORT_JSON,
                                                .nodes = count ? t->nodes.list.at + first : &none,
                                                .node_count = (size_t)count};
    return tree_write(&t->tree, &options, out, e);
}

static void release(struct tidetrace_result *r)
{
    struct tree_result *t = (struct tree_result *)r;
    vec_release(&t->nodes.list);
    tree_release(&t->tree);
}

static const enum tree_by groupings[] = {
    [TIDETRACE_TREE_FUNCTION] = TREE_FUNCTION, [TIDETRACE_TREE_LINE] = TREE_LINE,
    [TIDETRACE_TREE_FILE] = TREE_FILE,         [TIDETRACE_TREE_IMAGE] = TREE_IMAGE,
    [TIDETRACE_TREE_MODULE] = TREE_MODULE,     [TIDETRACE_TREE_THREAD] = TREE_THREAD,
    [TIDETRACE_TREE_TYPE] = TREE_TYPE,
};

static const enum tree_metric metrics[] = {
    [TIDETRACE_METRIC_BYTES] = TREE_BYTES,
    [TIDETRACE_METRIC_COUNT] = TREE_COUNT,
    [TIDETRACE_METRIC_LIVE_BYTES] = TREE_LIVE_BYTES,
    [TIDETRACE_METRIC_LIVE_COUNT] = TREE_LIVE_COUNT,
    [TIDETRACE_METRIC_AT_PEAK_BYTES] = TREE_PEAK_BYTES,
    [TIDETRACE_METRIC_AT_PEAK_COUNT] = TREE_PEAK_COUNT,
    [TIDETRACE_METRIC_TEMPORARY] = TREE_TEMPORARY,
    [TIDETRACE_METRIC_RESIDENT] = TREE_RESIDENT,
};

static int check_options(const struct tidetrace_tree_options *o, struct err *e)
{
    const uint32_t all =
        TIDETRACE_TREE_BOTTOM_UP | TIDETRACE_TREE_NO_INLINES | TIDETRACE_TREE_ALL_FRAMES;
    if (o->by >= sizeof groupings / sizeof *groupings ||
        o->metric >= sizeof metrics / sizeof *metrics || o->flags & ~all ||
        !(o->min_share >= 0 && o->min_share <= 1))
        return err_set(e, ERR_USAGE, "unknown nodes, metric, flags or share for a tree");
    return 0;
}

static int build_selected(struct tree_result *r, const struct tidetrace_tree_options *o,
                          struct err *e)
{
    const struct tree_options options = {.by = groupings[o->by],
                                         .bottom_up = o->flags & TIDETRACE_TREE_BOTTOM_UP,
                                         .no_inlines = o->flags & TIDETRACE_TREE_NO_INLINES,
                                         .all_frames = o->flags & TIDETRACE_TREE_ALL_FRAMES,
                                         .sort = metrics[o->metric],
                                         .skip = &r->base.question.skip};
    const struct tree_report_options shown = {
        .format = REPORT_JSON, .depth = o->depth, .min_share = o->min_share};
    if (tree_build(&r->tree, &r->base.selection, &options, e) != 0)
        return -1;
    int status = tree_shown(&r->nodes, &r->tree, &shown, e);
    if (status != 0)
        tree_release(&r->tree);
    return status;
}

static int build(struct tidetrace_result *base, const void *theirs, struct err *e)
{
    struct tree_result *r = (struct tree_result *)base;
    struct tidetrace_tree_options o;
    if (lib_take(&o, sizeof o, theirs, e) != 0 || check_options(&o, e) != 0 ||
        result_select(base, o.selection, SITE_RULES(o), e) != 0)
        return -1;
    if (build_selected(r, &o, e) != 0)
        return -1;
    r->base.rows = r->nodes.list.len;
    return 0;
}

struct named_label {
    const struct tree *tree;
    const struct tree_label *label;
};

static void put_name(struct buf *out, const void *of)
{
    const struct named_label *n = of;
    tree_label_name(out, n->tree, n->label);
}

static int give_row(struct tidetrace_result *r, uint64_t row, void *to, struct err *e)
{
    const struct tree_result *t = (const struct tree_result *)r;
    uint32_t id = t->nodes.list.at[row];
    const struct tree_node *n = &t->tree.nodes.at[id];
    const struct named_label label = {&t->tree, &t->tree.labels.at[n->label]};
    const struct frame_view *f = &label.label->frame;
    struct tidetrace_tree_row out = {.id = id,
                                     .parent = n->parent,
                                     .depth = n->depth,
                                     .line = f->line,
                                     .function = lib_text(f->function),
                                     .file = lib_text(f->file),
                                     .image = lib_text(f->image)};
    for (size_t i = 0; i < TIDETRACE_METRICS; i++) {
        out.inclusive[i] = n->inclusive.at[metrics[i]];
        out.exclusive[i] = n->exclusive.at[metrics[i]];
    }
    return result_name(r, row, put_name, &label, &out.name, e) != 0
               ? -1
               : lib_give(to, &out, sizeof out, e);
}

LIB_QUESTION(tree, tidetrace_tree_options, tree_row)
