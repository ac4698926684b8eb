#include "report/html/html.h"

#include <inttypes.h>
#include <string.h>

#include "analysis/figures/summary_facts.h"
#include "analysis/html/html_arrange.h"
#include "analysis/html/html_pack.h"
#include "analysis/names/zone_names.h"
#include "base/format.h"
#include "report/html/html_json.h"
#include "report/html/html_template.h"

#define FAULTS_MAX 200u

/* Bytes of what follows the history, at most. */
#define END_SIZE 600u

struct page {
    struct page_data *d;
    const struct page_texts *texts;
    const struct page_lanes *lanes;
    struct html_json json;
};

bool html_available(void)
{
    return page_template.head_len != 0;
}

static void put_trace(struct page *p)
{
    const struct summary *s = p->d->summary;
    const struct trace *t = s->trace;
    char date[FORMAT_SIZE];
    buf_puts(&p->json.out, "\"trace\":{");
    html_put_member(&p->json, "program", strings_get(&t->strings, t->facts.program));
    html_put_member(&p->json, "name", strings_get(&t->strings, t->facts.capture_name));
    html_put_lines(&p->json, "host", strings_get(&t->strings, t->facts.host_info));
    html_put_member(&p->json, "version", view_of(s->file_version));
    html_put_member(&p->json, "captured", view_of(format_date(date, t->facts.capture_time)));
    buf_printf(&p->json.out, "\"duration\":%" PRId64 ",\"complete\":%s},", t->facts.last_time,
               s->complete ? "true" : "false");
    html_put_member(&p->json, "verdict",
                    (struct view){(const char *)s->verdict.data, s->verdict.len});
    html_put_member(&p->json, "answer", (struct view){(const char *)s->answer.data, s->answer.len});
    struct buf lines = {0};
    if (!s->empty && !selection_is_narrow(&s->selection.options))
        summary_lines(&lines, t);
    html_put_lines(&p->json, "lines", buf_view(&lines));
    buf_end(&lines, &p->json.out.failed);
    struct buf head = {0};
    leaks_put_head(&p->d->leaks, &head);
    html_put_member(&p->json, "leakHead", (struct view){(const char *)head.data, head.len});
    buf_end(&head, &p->json.out.failed);
    struct buf only = {0};
    selection_describe(&only, &s->selection.options);
    html_put_member(&p->json, "selection",
                    (struct view){only.len ? (const char *)only.data : "", only.len});
    buf_end(&only, &p->json.out.failed);
    buf_puts(&p->json.out, "\"checks\":[");
    for (size_t i = 0; i < s->checks.len; i++) {
        buf_puts(&p->json.out, "{");
        html_put_member(&p->json, "name", view_of(s->checks.at[i].name));
        html_put_member(&p->json, "detail", view_of(s->checks.at[i].detail));
        html_put_member(&p->json, "remedy",
                        view_of(s->checks.at[i].remedy ? s->checks.at[i].remedy : ""));
        buf_printf(&p->json.out, "\"holds\":%s},", s->checks.at[i].holds ? "true" : "false");
    }
    html_end_list(&p->json.out, "],");
}

static void put_pools(struct page *p)
{
    const struct page_data *d = p->d;
    buf_puts(&p->json.out, "\"pools\":[");
    for (size_t i = 0; i < d->pools.len; i++) {
        const struct page_pool *pool = &d->pools.at[i];
        buf_puts(&p->json.out, "{");
        html_put_member(&p->json, "name", pool->name);
        if (pool->only >= 0) {
            const struct summary_pool *in = &d->summary->pools.at[pool->only];
            buf_printf(&p->json.out,
                       "\"low\":\"%" PRIx64 "\",\"high\":\"%" PRIx64 "\",\"peakTime\":%" PRId64 ",",
                       in->low_address, in->high_address, in->figures.peak_time);
            if (in->sum != POOL_COUNTS)
                buf_puts(&p->json.out, "\"beside\":true,");
        }
        buf_printf(&p->json.out, "\"count\":%u},", pool->count);
    }
    html_end_list(&p->json.out, "],\"threads\":[");
    for (size_t i = 0; i < d->threads.len; i++) {
        const struct page_thread *thread = &d->threads.at[i];
        buf_puts(&p->json.out, "{");
        html_put_member(&p->json, "name", thread->name);
        buf_printf(&p->json.out, "\"id\":\"%" PRIu64 "\",\"rest\":%d},", thread->id, thread->rest);
    }
    html_end_list(&p->json.out, "],");
}

static void put_stacks(struct page *p)
{
    const struct page_data *d = p->d;
    struct buf *out = &p->json.out;
    buf_puts(out, "\"sites\":[");
    for (size_t i = 0; i < d->sites.len; i++) {
        const struct page_site *site = &d->sites.at[i];
        if (site->rest || site->no_callstack)
            buf_printf(out, "%d,", site->rest ? 1 : 2);
        else
            html_put_frame(&p->json, &site->frame);
    }
    html_end_list(out, "],\"siteTypes\":[");
    for (size_t i = 0; i < d->sites.len; i++)
        buf_printf(out, "%u,%d,", html_string_number(&p->json, d->sites.at[i].type),
                   d->sites.at[i].more_types);
    html_end_list(out, "],\"frames\":[");
    for (size_t i = 0; i < d->frames.len; i++)
        html_put_frame(&p->json, &d->frames.at[i]);
    html_end_list(out, "],");
}

/* Ends a member whose text was begun; `raw`, which it releases, is that text. */
static int end_packed(struct page *p, struct buf *raw, struct err *e)
{
    int status = pack_text(raw, &p->json.out, e);
    buf_puts(&p->json.out, "\",");
    buf_release(raw);
    return status;
}

static void put_faults(struct page *p)
{
    const struct summary *s = p->d->summary;
    struct buf *out = &p->json.out;
    size_t n = s->faults.len < FAULTS_MAX ? s->faults.len : FAULTS_MAX;
    buf_puts(out, "\"faults\":[");
    for (size_t i = 0; i < n; i++) {
        const struct summary_fault *f = &s->faults.at[i];
        buf_puts(out, "{");
        html_put_member(&p->json, "pool", f->pool);
        html_put_member(&p->json, "kind", view_of(fault_kind_name(f->kind)));
        buf_printf(out,
                   "\"count\":%" PRIu64 ",\"least\":%" PRIu64 ",\"time\":%" PRId64
                   ",\"address\":\"%" PRIx64 "\",\"site\":",
                   f->count, f->least, f->sample_count ? f->samples[0].time : -1,
                   f->sample_count ? f->samples[0].ptr : 0);
        html_put_frame(&p->json, &f->site);
        html_end_list(out, "},");
    }
    html_end_list(out, "],");
    buf_printf(out, "\"faultsLeftOut\":%" PRIu64 ",", s->faults.len - n + s->faults_left_out);
}

static void put_texts(struct page *p)
{
    const struct page_texts *texts = p->texts;
    struct buf *out = &p->json.out;
    buf_puts(out, "\"texts\":[");
    for (size_t i = 0; i < texts->list.len; i++) {
        const struct page_text *text = &texts->list.at[i];
        buf_printf(out, "{\"site\":%u,\"code\":%s,", text->site, text->is_code ? "true" : "false");
        html_put_member(&p->json, "of", text->file);
        buf_puts(out, "\"lines\":[");
        for (size_t k = text->first_line; k < text->first_line + text->line_count; k++) {
            const struct page_line *line = &texts->lines.at[k];
            buf_printf(out, text->is_code ? "[\"%" PRIx64 "\"," : "[\"%" PRIu64 "\",",
                       line->number);
            html_put_text(&p->json, out,
                          (struct view){(const char *)texts->bytes.data + line->text, line->len});
            buf_printf(out, ",%d],", line->here);
        }
        html_end_list(out, "]},");
    }
    html_end_list(out, "],");
}

/* ---- lanes */

/* Runs of slots with the same zone, each a number of slots and a name; the empty name is none. */
static void put_zone_row(struct page *p, const int32_t *open)
{
    const struct trace *t = p->d->summary->trace;
    buf_puts(&p->json.out, "[");
    for (size_t i = 0, end; i < PAGE_SLOTS; i = end) {
        for (end = i + 1; end < PAGE_SLOTS && open[end] == open[i];)
            end++;
        struct view name = open[i] == PAGE_LANE_NONE ? view_of("") : zone_name(t, (int16_t)open[i]);
        if (open[i] != PAGE_LANE_NONE && name.len == 0)
            name = view_of("(zone without a name)");
        buf_printf(&p->json.out, "%zu,%u,", end - i, html_string_number(&p->json, name));
    }
    html_end_list(&p->json.out, "],");
}

static void put_zones(struct page *p)
{
    const struct trace *t = p->d->summary->trace;
    buf_puts(&p->json.out, "\"zones\":[");
    for (size_t i = 0; i < p->lanes->zones.len; i++) {
        const struct page_zone_lane *lane = &p->lanes->zones.at[i];
        const struct trace_thread *thread = &t->threads.list.at[lane->thread];
        buf_printf(&p->json.out, "{\"name\":%u,\"id\":\"%" PRIu64 "\",\"rows\":[",
                   html_string_number(&p->json, strings_get(&t->strings, thread->name)),
                   thread->id);
        for (unsigned k = 0; k < PAGE_LANE_DEPTHS; k++)
            put_zone_row(p, lane->open[k]);
        html_end_list(&p->json.out, "]},");
    }
    html_end_list(&p->json.out, "],");
}

/* Of each slot with messages: its number, theirs, and the text of the first. */
static void put_messages(struct page *p)
{
    const struct page_message *m = p->lanes->messages;
    buf_puts(&p->json.out, "\"messages\":[");
    for (size_t i = 0; m && i < PAGE_SLOTS; i++) {
        if (m[i].count) {
            struct view text = strings_get(&p->d->summary->trace->strings, (uint32_t)m[i].text);
            buf_printf(&p->json.out, "%zu,%" PRIu64 ",%u,", i, m[i].count,
                       html_string_number(&p->json, text));
        }
    }
    html_end_list(&p->json.out, "],");
}

static void put_lanes(struct page *p)
{
    buf_puts(&p->json.out, "\"lanes\":{");
    put_zones(p);
    put_messages(p);
    buf_puts(&p->json.out, "\"plots\":[");
    for (size_t i = 0; i < p->lanes->plots.len; i++) {
        const struct page_plot *plot = &p->lanes->plots.at[i];
        buf_printf(&p->json.out, "{\"name\":%u,\"values\":[",
                   html_string_number(&p->json, plot->name));
        for (size_t k = 0; k < PAGE_SLOTS; k++) {
            if (plot->known[k])
                buf_printf(&p->json.out, "%.17g,", plot->high[k]);
            else
                buf_puts(&p->json.out, "null,");
        }
        html_end_list(&p->json.out, "]},");
    }
    html_end_list(&p->json.out, "],");
    buf_printf(&p->json.out, "\"threadsLeftOut\":%" PRIu64 ",\"plotsLeftOut\":%" PRIu64 "},",
               p->lanes->threads_left_out, p->lanes->plots_left_out);
}

/* ---- history */

static int pack_history(const struct page_data *d, struct buf *out, struct err *e)
{
    static const char *const names[] = {"tree", "cells", "histogram", "blocks"};
    struct buf raw = {0};
    int status = 0;
    buf_clear(out);
    buf_printf(out, "\"nodeCount\":%zu,\"stackCount\":%zu,\"keyCount\":%zu,", d->nodes.len,
               d->stacks.len, d->series.keys.len);
    for (size_t i = 0; i < 4 && status == 0; i++) {
        buf_clear(&raw);
        if (i == 0)
            pack_tree(d, &raw);
        else if (i == 1)
            pack_figures(d, &raw);
        else
            pack_cells(i == 2 ? &d->series.histogram : &d->series.blocks, &raw);
        buf_printf(out, "\"%s\":\"", names[i]);
        status = pack_text(&raw, out, e);
        buf_puts(out, "\",");
    }
    buf_release(&raw);
    return status;
}

/*
 * Makes the history smaller: with longer steps, or, if these are few, with fewer call stacks
 * distinguished. Nine tenths of what is too much go at once, so that little room is left in the
 * end; at least a part that doubles with each attempt. 1: that is not possible.
 */
static int shrink(struct page_data *d, size_t len, size_t room, double *least, struct err *e)
{
    struct page_cells *all[] = {&d->series.cells, &d->series.histogram, &d->series.blocks};
    uint32_t steps = page_cells_steps(all[0]);
    if (steps <= PAGE_STEPS_MIN && d->ranked > PAGE_PLACES_MIN) {
        double part = 0.9 * (1 - (double)room / (double)len);
        part = part > *least ? part : *least;
        *least *= 2;
        double whole = (1 - part) * d->ranked;
        return page_data_arrange(d, whole > PAGE_PLACES_MIN ? (uint32_t)whole : PAGE_PLACES_MIN, e);
    }
    if (steps <= 1)
        return 1;
    for (size_t i = 0; i < 3; i++) {
        if (page_cells_halve(all[i], e) != 0)
            return -1;
    }
    return 0;
}

/* Comes last: it gets what the other parts leave, at least a quarter of the page. */
static int put_history(struct page *p, struct err *e)
{
    struct buf packed = {0};
    size_t size = p->d->size;
    size_t taken = page_template.head_len + page_template.tail_len + p->json.out.len + END_SIZE;
    size_t room = taken + size / 4 < size ? size - taken : size / 4;
    double least = 0.01;
    int status;
    while ((status = pack_history(p->d, &packed, e)) == 0 && packed.len > room) {
        status = shrink(p->d, packed.len, room, &least, e);
        if (status != 0)
            break;
    }
    buf_put(&p->json.out, packed.data, packed.len);
    buf_end(&packed, &p->json.out.failed);
    return status < 0 ? -1 : 0;
}

/* Four numbers per slot, as differences, since most slots equal their predecessors. */
static int put_timeline(struct page *p, struct err *e)
{
    const struct page_data *d = p->d;
    struct buf raw = {0};
    for (uint32_t pool = 0; pool < d->pools.len; pool++) {
        const struct page_point *points = page_series_points(&d->series, pool);
        struct page_point last = {0};
        for (size_t i = 0; i < PAGE_SLOTS; i++) {
            pack_signed(&raw, (int64_t)(points[i].max - last.end));
            pack_signed(&raw, (int64_t)(points[i].end - last.end));
            pack_signed(&raw, (int64_t)(points[i].blocks - last.blocks));
            pack_unsigned(&raw, points[i].allocs);
            last = points[i];
        }
    }
    buf_puts(&p->json.out, "\"points\":\"");
    return end_packed(p, &raw, e);
}

/* Two numbers per slot, the RSS and what is swapped; both 0 where they are not known. */
static int put_resident(struct page *p, struct err *e)
{
    const struct kernel_curve *k = &p->d->kernel;
    struct kernel_reading last = {0};
    struct buf raw = {0};
    if (!k->buckets)
        return 0;
    for (size_t i = 0; i < k->count; i++) {
        const struct kernel_reading *r = &k->buckets[i].high;
        pack_signed(&raw, (int64_t)(r->resident - last.resident));
        pack_signed(&raw, (int64_t)(r->swapped - last.swapped));
        last = *r;
    }
    buf_puts(&p->json.out, "\"resident\":\"");
    return end_packed(p, &raw, e);
}

/* Two numbers per piece: the thread and the site that allocated most there. */
static int put_owners(struct page *p, struct err *e)
{
    const struct page_map *m = &p->d->map;
    size_t n = m->pieces.len;
    uint8_t *most = malloc(PAGE_MAP_KINDS * n + 1);
    struct buf raw = {0};
    if (!most)
        return err_no_memory(e, "the page");
    for (unsigned k = 0; k < PAGE_MAP_KINDS; k++)
        page_map_owners(m, (enum page_map_kind)k, most + k * n);
    for (size_t i = 0; i < n; i++) {
        for (unsigned k = 0; k < PAGE_MAP_KINDS; k++)
            pack_unsigned(&raw, most[k * n + i]);
    }
    buf_printf(&p->json.out, "\"ownerCount\":%u,\"owners\":\"", PAGE_MAP_OWNERS);
    free(most);
    return end_packed(p, &raw, e);
}

static int put_map(struct page *p, struct err *e)
{
    const struct page_map *m = &p->d->map;
    struct buf raw = {0};
    uint64_t last = 0;
    for (size_t i = 0; i < m->pieces.len; i++) {
        uint64_t piece = m->pieces.at[i].start >> m->shift;
        if (i == 0 || m->pieces.at[i].pool != m->pieces.at[i - 1].pool)
            last = 0;
        pack_unsigned(&raw, m->pieces.at[i].pool);
        pack_unsigned(&raw, piece - last);
        last = piece;
    }
    buf_printf(&p->json.out, "\"pieceShift\":%u,\"pieceCount\":%zu,\"pieces\":\"", m->shift,
               m->pieces.len);
    return end_packed(p, &raw, e);
}

static int put_lives(struct page *p, struct err *e)
{
    const struct page_lives *l = &p->d->series.lives;
    struct buf raw = {0};
    pack_lives(l, &raw);
    buf_printf(&p->json.out, "\"lifeParts\":%u,\"lifeCount\":%zu,\"lives\":\"", l->parts,
               l->list.len);
    return end_packed(p, &raw, e);
}

static int put_blocks(struct page *p, struct err *e)
{
    struct buf raw = {0};
    size_t n;
    pack_blocks(p->d, &raw, &n);
    buf_printf(&p->json.out, "\"allBlocks\":%" PRIu64 ",\"listedBlocks\":%zu,\"singles\":\"",
               p->d->blocks.count, n);
    return end_packed(p, &raw, e);
}

static void put_site(struct page *p, const struct frame_view *frame, bool no_callstack)
{
    buf_puts(&p->json.out, "\"site\":");
    if (no_callstack)
        buf_puts(&p->json.out, "2,");
    else
        html_put_frame(&p->json, frame);
}

/* The verdicts of `report --leaks`, in the same order. */
static void put_leaks(struct page *p)
{
    const struct leaks *l = &p->d->leaks;
    const struct selection *s = &p->d->summary->selection;
    size_t n = l->rows.len < PAGE_LEAKS_MAX ? l->rows.len : PAGE_LEAKS_MAX;
    uint64_t count, bytes;
    leaks_total(l, &count, &bytes);
    buf_puts(&p->json.out, "\"leaks\":{");
    buf_printf(&p->json.out,
               "\"count\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"growing\":%" PRIu64
               ",\"more\":%zu,\"rows\":[",
               count, bytes, l->bytes[LEAK_GROWING], l->rows.len - n);
    for (size_t i = 0; i < n; i++) {
        const struct leak_row *r = &l->rows.at[i];
        const char *confidence = leak_confidence_name(r->confidence);
        buf_puts(&p->json.out, "{");
        html_put_member(&p->json, "pool", s->pools.at[r->pool].name);
        html_put_member(&p->json, "kind", view_of(leak_kind_name(r->kind)));
        html_put_member(&p->json, "confidence", view_of(confidence ? confidence : ""));
        put_site(p, &r->frame, r->no_callstack);
        buf_printf(&p->json.out,
                   "\"count\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"allocations\":%" PRIu64
                   ",\"first\":%" PRId64 ",\"last\":%" PRId64,
                   r->count, r->bytes, r->allocations, r->first, r->last);
        if (r->spread >= 3)
            buf_printf(&p->json.out, ",\"rate\":%.6g,\"z\":%.4f", r->rate, r->z);
        buf_puts(&p->json.out, "},");
    }
    html_end_list(&p->json.out, "]},");
}

static void put_findings(struct page *p)
{
    const struct resident_findings *f = &p->d->findings;
    buf_puts(&p->json.out, "\"findings\":[");
    for (size_t i = 0; i < f->list.len; i++) {
        const struct resident_finding *one = &f->list.at[i];
        struct buf words = {0};
        finding_words(&words, one);
        buf_puts(&p->json.out, "{");
        html_put_member(&p->json, "words", buf_view(&words));
        html_put_member(&p->json, "remedy", view_of(finding_remedy(one->kind)));
        buf_end(&words, &p->json.out.failed);
        if (one->row)
            put_site(p, &one->row->frame, one->row->no_callstack);
        html_end_list(&p->json.out, "},");
    }
    html_end_list(&p->json.out, "],");
}

/* The rows of `report --resident`, in the same order. */
static void put_look(struct page *p)
{
    const struct resident *r = &p->d->resident;
    size_t n = r->rows.len < PAGE_LEAKS_MAX ? r->rows.len : PAGE_LEAKS_MAX;
    struct buf words = {0};
    if (!p->d->looked)
        return;
    if (!selection_is_narrow(&p->d->summary->selection.options))
        resident_words(&words, &r->shares);
    buf_puts(&p->json.out, "\"look\":{");
    html_put_member(&p->json, "words", buf_view(&words));
    html_put_member(&p->json, "reason", view_of(look_reason_name(r->look->reason)));
    buf_end(&words, &p->json.out.failed);
    put_findings(p);
    buf_printf(&p->json.out, "\"time\":%" PRId64 ",\"more\":%zu,\"rows\":[", r->look->begin,
               r->rows.len - n);
    for (size_t i = 0; i < n; i++) {
        const struct resident_row *row = &r->rows.at[i];
        buf_puts(&p->json.out, "{");
        html_put_member(&p->json, "pool", p->d->summary->selection.pools.at[row->pool].name);
        put_site(p, &row->frame, row->no_callstack);
        buf_printf(&p->json.out,
                   "\"resident\":%" PRIu64 ",\"pins\":%" PRIu64 ",\"swapped\":%" PRIu64
                   ",\"absent\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"count\":%" PRIu64 "},",
                   row->of.present, row->pinned, row->of.swapped, row->of.absent, row->bytes,
                   row->count);
    }
    html_end_list(&p->json.out, "]},");
}

static void put_bounds(struct page *p)
{
    const struct page_data *d = p->d;
    buf_printf(&p->json.out,
               "\"other\":{\"threads\":%" PRIu64 ",\"sites\":%" PRIu64 ",\"stacks\":%" PRIu64
               ",\"allocations\":%" PRIu64 "},\"allThreads\":%s,\"figureStep\":%" PRId64
               ",\"textsLeftOut\":%" PRIu64 ",",
               d->other_threads, d->other_sites, d->other_stacks, d->series.folded,
               d->series.options.all_threads ? "true" : "false", d->figure_step,
               p->texts->left_out);
}

/* The tables that refer to the list of texts, and this list: JSON, which compresses well. */
static int put_tables(struct page *p, struct err *e)
{
    buf_puts(&p->json.out, "{");
    put_stacks(p);
    put_faults(p);
    put_leaks(p);
    put_look(p);
    put_texts(p);
    put_lanes(p);
    return html_put_tables(&p->json, "tidemark.page/4", e);
}

static int put_data(struct page *p, struct err *e)
{
    const struct page_data *d = p->d;
    if (put_tables(p, e) != 0)
        return -1;
    put_trace(p);
    put_pools(p);
    if (put_timeline(p, e) != 0 || put_resident(p, e) != 0 || put_map(p, e) != 0 ||
        put_owners(p, e) != 0 || put_lives(p, e) != 0 || put_blocks(p, e) != 0 ||
        put_history(p, e) != 0)
        return -1;
    put_bounds(p);
    buf_printf(&p->json.out,
               "\"time\":{\"from\":%" PRId64 ",\"to\":%" PRId64 ",\"slots\":%u,\"slot\":%" PRIu64
               ",\"steps\":%u}}\n",
               d->from, d->to, PAGE_SLOTS, d->series.slot_ns, page_cells_steps(&d->series.cells));
    return p->json.out.failed ? err_no_memory(e, "the page") : 0;
}

int html_write(struct page_data *d, const struct page_texts *texts, const struct page_lanes *lanes,
               FILE *out, size_t *written, struct err *e)
{
    struct page p = {.d = d, .texts = texts, .lanes = lanes};
    int status = put_data(&p, e);
    if (status == 0)
        status = html_json_write(&p.json, out, written, e);
    html_json_release(&p.json);
    return status;
}

int html_write_data(struct page_data *d, const struct page_texts *texts,
                    const struct page_lanes *lanes, FILE *out, struct err *e)
{
    struct page p = {.d = d, .texts = texts, .lanes = lanes};
    int status = put_data(&p, e);
    if (status == 0 &&
        (fwrite(p.json.out.data, 1, p.json.out.len, out) != p.json.out.len || fflush(out) != 0))
        status = err_errno(e, ERR_OUTPUT, "cannot write the report");
    html_json_release(&p.json);
    return status;
}
