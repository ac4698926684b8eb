#include "report/html/html_diff_write.h"

#include <inttypes.h>

#include "analysis/diff/diff_answer.h"
#include "analysis/html/html_pack.h"
#include "base/format.h"
#include "report/html/html_json.h"

struct diff_page {
    const struct page_diff *p;
    const struct summary_check *checks;
    size_t check_count;
    struct html_json json;
};

/* ---- tables */

static void put_side(struct buf *out, const struct diff_side *s)
{
    const struct counter *c = &s->figures;
    if (s->there)
        buf_printf(out, "[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "],", c->bytes,
                   c->count, c->live_bytes, c->live_count, c->peak_bytes);
    else
        buf_puts(out, "null,");
}

static void put_row(struct diff_page *d, const struct diff_row *r)
{
    struct buf *out = &d->json.out;
    bool moved = r->side[0].there && r->side[1].there && r->before.line != r->frame.line;
    buf_printf(out, "{\"kind\":\"%s\",\"pool\":%u,\"type\":%u,\"moreTypes\":%u,\"unsure\":%d,",
               diff_kind_name(r->kind), html_string_number(&d->json, r->pool),
               html_string_number(&d->json, r->type), r->more_types, r->unsure);
    buf_printf(out, "\"before\":%u,\"site\":", moved ? r->before.line : 0);
    if (r->no_callstack)
        buf_puts(out, "2,");
    else
        html_put_frame(&d->json, &r->frame);
    buf_puts(out, "\"sides\":[");
    put_side(out, &r->side[0]);
    put_side(out, &r->side[1]);
    html_end_list(out, "]},");
}

static void put_rows(struct diff_page *d)
{
    const struct diff *diff = d->p->diff;
    size_t n = diff->rows.len < PAGE_DIFF_ROWS ? diff->rows.len : PAGE_DIFF_ROWS;
    buf_puts(&d->json.out, "\"rows\":[");
    for (size_t i = 0; i < n; i++)
        put_row(d, &diff->rows.at[i]);
    html_end_list(&d->json.out, "],");
    buf_printf(&d->json.out, "\"rowsLeftOut\":%zu,", diff->rows.len - n);
}

static void put_frames(struct diff_page *d)
{
    buf_puts(&d->json.out, "\"frames\":[");
    for (size_t i = 0; i < d->p->frames.len; i++)
        html_put_frame(&d->json, &d->p->frames.at[i]);
    html_end_list(&d->json.out, "],");
}

/* ---- the rest */

static void put_trace(struct diff_page *d, const struct trace *t)
{
    char date[FORMAT_SIZE];
    buf_puts(&d->json.out, "{");
    html_put_member(&d->json, "program", strings_get(&t->strings, t->facts.program));
    html_put_member(&d->json, "name", strings_get(&t->strings, t->facts.capture_name));
    html_put_member(&d->json, "captured", view_of(format_date(date, t->facts.capture_time)));
    buf_printf(&d->json.out, "\"duration\":%" PRId64 "},", t->facts.last_time);
}

static void put_pools(struct diff_page *d)
{
    const struct diff *diff = d->p->diff;
    struct buf *out = &d->json.out;
    buf_puts(out, "\"poolFigures\":[");
    for (size_t i = 0; i < DIFF_POOL_FIGURES; i++)
        buf_printf(out, "{\"name\":\"%s\",\"bytes\":%s},", diff_pool_figures[i].title,
                   diff_pool_figures[i].is_bytes ? "true" : "false");
    html_end_list(out, "],\"pools\":[");
    for (size_t i = 0; i < diff->pools.len; i++) {
        const struct diff_pool *pool = &diff->pools.at[i];
        buf_puts(out, "{");
        html_put_member(&d->json, "name", pool->name);
        buf_puts(out, "\"figures\":[");
        for (size_t k = 0; k < DIFF_POOL_FIGURES; k++)
            buf_printf(out, "[%" PRIu64 ",%" PRIu64 "],", diff_pool_figure(&pool->figures[0], k),
                       diff_pool_figure(&pool->figures[1], k));
        html_end_list(out, "]},");
    }
    html_end_list(out, "],");
}

static void put_checks(struct diff_page *d)
{
    struct buf *out = &d->json.out;
    buf_puts(out, "\"checks\":[");
    for (size_t i = 0; i < d->check_count; i++) {
        buf_puts(out, "{");
        html_put_member(&d->json, "name", view_of(d->checks[i].name));
        html_put_member(&d->json, "detail", view_of(d->checks[i].detail));
        buf_printf(out, "\"holds\":%s},", d->checks[i].holds ? "true" : "false");
    }
    html_end_list(out, "],");
}

/* Parents, frames, and the own figures of both sides, one kind after the other. */
static int put_tree(struct diff_page *d, struct err *e)
{
    const struct page_diff *p = d->p;
    struct buf raw = {0};
    for (size_t i = 1; i < p->nodes.len; i++)
        pack_unsigned(&raw, i - p->nodes.at[i].parent);
    for (size_t i = 1; i < p->nodes.len; i++)
        pack_unsigned(&raw, p->nodes.at[i].frame);
    for (size_t m = 0; m < PAGE_DIFF_METRICS; m++) {
        for (int side = 0; side < 2; side++) {
            for (size_t i = 0; i < p->nodes.len; i++)
                pack_unsigned(&raw, p->nodes.at[i].own[side][m]);
        }
    }
    buf_printf(&d->json.out, "\"nodeCount\":%zu,\"leftOut\":%" PRIu64 ",\"tree\":\"", p->nodes.len,
               p->left_out);
    int status = pack_text(&raw, &d->json.out, e);
    buf_puts(&d->json.out, "\",");
    buf_release(&raw);
    return status;
}

/* The highest use of each bucket, as differences. */
static int put_curve(struct diff_page *d, const struct timeline *t, struct err *e)
{
    struct buf raw = {0};
    uint64_t last = 0;
    for (size_t i = 0; i < t->count && t->series.len; i++) {
        uint64_t high = t->series.at[0].buckets[i].high;
        pack_signed(&raw, (int64_t)(high - last));
        last = high;
    }
    buf_printf(&d->json.out, "{\"end\":%" PRId64 ",\"count\":%zu,\"high\":\"", t->end,
               t->series.len ? t->count : 0);
    int status = pack_text(&raw, &d->json.out, e);
    buf_puts(&d->json.out, "\"},");
    buf_release(&raw);
    return status;
}

static int put_data(struct diff_page *d, struct err *e)
{
    const struct diff *diff = d->p->diff;
    struct buf *out = &d->json.out;
    buf_puts(out, "{");
    put_rows(d);
    put_frames(d);
    if (html_put_tables(&d->json, "tidemark.diffpage/1", e) != 0)
        return -1;
    struct buf text = {0};
    diff_answer(&text, diff);
    html_put_member(&d->json, "answer", text.len ? buf_view(&text) : view_of(""));
    buf_clear(&text);
    selection_describe(&text, &d->p->now->options);
    html_put_member(&d->json, "selection", text.len ? buf_view(&text) : view_of(""));
    buf_end(&text, &out->failed);
    buf_printf(out, "\"metric\":\"%s\",\"same\":%" PRIu64 ",\"unsure\":%" PRIu64 ",\"traces\":[",
               diff_metric_name(diff->options.metric), diff->same, diff->unsure);
    put_trace(d, diff->trace[0]);
    put_trace(d, diff->trace[1]);
    html_end_list(out, "],");
    put_pools(d);
    put_checks(d);
    if (put_tree(d, e) != 0)
        return -1;
    buf_puts(out, "\"curves\":[");
    if (put_curve(d, &d->p->timelines[0], e) != 0 || put_curve(d, &d->p->timelines[1], e) != 0)
        return -1;
    html_end_list(out, "]}\n");
    return out->failed ? err_no_memory(e, "the page") : 0;
}

int html_diff_write(const struct page_diff *p, const struct summary_check *checks, size_t n,
                    FILE *out, struct err *e)
{
    struct diff_page d = {.p = p, .checks = checks, .check_count = n};
    size_t written;
    int status = put_data(&d, e);
    if (status == 0)
        status = html_json_write(&d.json, out, &written, e);
    html_json_release(&d.json);
    return status;
}

int html_runs_write(struct view json, FILE *out, struct err *e)
{
    struct html_json page = {0};
    struct buf raw = {0};
    size_t written;
    buf_put(&raw, json.p, json.len);
    buf_puts(&page.out, "{\"schema\":\"tidemark.runspage/1\",\"runs\":\"");
    int status = pack_text(&raw, &page.out, e);
    buf_puts(&page.out, "\"}\n");
    if (status == 0)
        status = page.out.failed ? err_no_memory(e, "the page")
                                 : html_json_write(&page, out, &written, e);
    buf_release(&raw);
    html_json_release(&page);
    return status;
}
