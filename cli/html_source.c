#include "cli/html_source.h"

#include "analysis/html/html_data.h"
#include "analysis/html/html_lanes.h"
#include "cli/trace_code.h"
#include "report/html/html.h"
#include "trace/load/load.h"
#include "trace/load/load_beside.h"

bool page_source_available(struct err *e)
{
    if (!html_available())
        err_set(e, ERR_USAGE,
                "this program was built without the page that --format html needs; "
                "`make web` builds it when node and npm are there");
    return html_available();
}

void page_source_init(struct page_source *p, struct trace *t)
{
    *p = (struct page_source){.trace = t, .size = PAGE_SIZE};
    page_texts_init(&p->texts, t);
}

void page_source_release(struct page_source *p)
{
    if (p->counting)
        stream_figures_release(&p->figures);
    page_texts_release(&p->texts);
    related_input_release(&p->input);
}

static int take(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct page_source *p = ctx;
    switch (type) {
    case REC_POOL:
    case REC_MEMORY_EVENT:
    case REC_POOL_END:
        p->counting = p->counting && stream_figures_try(&p->figures, type, recs, n);
        return 0;
    case REC_PLOT:
    case REC_PLOT_POINT:
    case REC_MESSAGE:
        return related_input_put(&p->input, type, recs, n, e);
    default:
        return page_texts_put(&p->texts, type, recs, n, e);
    }
}

int page_source_load(struct page_source *p, const char *path, const struct selection_options *only,
                     bool resolves, struct err *e)
{
    const struct record_sink sink = {p, take};
    bool wanted[REC_TYPE_COUNT] = {false};
    page_texts_wanted(wanted);
    related_input_wanted(wanted);
    if (related_input_init(&p->input, p->trace, NULL, RELATED_INPUT_BUDGET, e) != 0)
        return -1;
    p->counting = !selection_is_narrow(only) && !resolves;
    if (p->counting && stream_figures_beside(&p->figures, p->trace, wanted, e) != 0)
        return -1;
    p->figures.by_thread = p->counting;
    const struct trace_load_options options = {.zones = true,
                                               .frames = only->has_frame,
                                               .kernel = true,
                                               .beside = &sink,
                                               .beside_wanted = wanted};
    if (trace_load_with(p->trace, path, &options, NULL, NULL, e) != 0 ||
        (p->counting && stream_figures_loaded(&p->figures, e) != 0))
        return -1;
    return trace_load_looks(p->trace, path, e);
}

struct stream_figures *page_source_figures(struct page_source *p)
{
    return p->counting && p->figures.counted ? &p->figures : NULL;
}

int page_source_write(struct page_source *p, const struct summary *s, const struct skiplist *skip,
                      FILE *out, struct err *e)
{
    struct page_data d;
    struct page_lanes lanes = {0};
    size_t written;
    if (page_data_build(&d, p->trace, s, skip, p->size, e) != 0)
        return -1;
    struct disassembler disassembler = {0};
    bool has_code =
        p->trace->symbol_codes.list.len && trace_code_disassembler(&disassembler, p->trace);
    int status = page_texts_build(&p->texts, &d, skip, has_code ? &disassembler : NULL, e);
    if (status == 0)
        status = page_lanes_build(&lanes, &d, p->trace, &p->input, e);
    if (status == 0)
        status = html_write(&d, &p->texts, &lanes, out, &written, e);
    if (status == 0 && written > p->size)
        fprintf(stderr,
                "tidemark: the page has %zu bytes: its tables leave less than --page-size\n",
                written);
    trace_code_release(&disassembler);
    page_lanes_release(&lanes);
    page_data_release(&d);
    return status;
}
