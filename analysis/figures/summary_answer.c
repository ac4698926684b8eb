/*
 * The owners of the highest peak: size, pool, time, and the sites with most bytes then, as in
 * "peak 8.00 MiB at 215.94 ms: 41.2 % at load (a.c:5), …, 7.1 % at 4 other sites".
 */

#include "analysis/figures/answer_site.h"
#include "analysis/figures/summary_parts.h"
#include "base/format.h"
#include "base/saturate.h"

#define ANSWER_SITES 3u

static void put_site(struct buf *out, const struct summary_row *row)
{
    struct buf name = {0};
    if (row->name.len == 0 && !row->no_callstack)
        frame_short_name(&name, &row->frame);
    else
        summary_row_name(&name, row);
    answer_put_site(out, buf_view(&name), &row->frame);
    buf_end(&name, &out->failed);
}

/* The sites of a pool with most bytes at its peak, most first; the number of those with any. */
static size_t find_owners(const struct summary *s, uint32_t pool,
                          const struct summary_row *owners[ANSWER_SITES])
{
    size_t n = 0;
    for (size_t i = 0; i < s->sites.len; i++) {
        const struct summary_row *row = &s->sites.at[i];
        if (row->pool != pool || row->figures.at_peak_bytes == 0)
            continue;
        size_t at = n < ANSWER_SITES ? n : ANSWER_SITES;
        while (at && owners[at - 1]->figures.at_peak_bytes < row->figures.at_peak_bytes) {
            if (at < ANSWER_SITES)
                owners[at] = owners[at - 1];
            at--;
        }
        if (at < ANSWER_SITES)
            owners[at] = row;
        n++;
    }
    return n;
}

int summary_answer(struct summary *s, struct err *e)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE];
    struct buf *v = &s->answer;
    const struct summary_row *owners[ANSWER_SITES];
    const struct summary_pool *high = s->pools.len ? summary_highest_pool(s) : NULL;
    uint64_t peak = high ? high->figures.peak_bytes : 0;
    if (peak == 0)
        return 0;
    buf_printf(v, "peak %s", format_bytes(a, peak));
    if (s->pools.len > 1) {
        buf_puts(v, " in pool ");
        format_terminal(v, high->name);
    }
    buf_printf(v, " at %s", format_duration(a, high->figures.peak_time));
    size_t n = find_owners(s, (uint32_t)(high - s->pools.at), owners);
    uint64_t rest = peak;
    for (size_t i = 0; i < n && i < ANSWER_SITES; i++) {
        buf_printf(v, "%s %s at ", i ? "," : ":",
                   format_percent(a, owners[i]->figures.at_peak_bytes, peak));
        put_site(v, owners[i]);
        rest = saturating_sub(rest, owners[i]->figures.at_peak_bytes);
    }
    if (n > ANSWER_SITES)
        buf_printf(v, ", %s at %s", format_percent(a, rest, peak),
                   format_counted(b, n - ANSWER_SITES, "other site"));
    return v->failed ? err_no_memory(e, "the summary") : 0;
}
