#include "trace/filter/rewrite.h"

#include <string.h>

#include "trace/filter/image_dict.h"
#include "trace/filter/rekey.h"
#include "trace/filter/strip.h"

/* The filters in use; NULL for the others. */
struct chain {
    const struct rewrite_source *source;
    const struct rewrite_options *options;
    struct rewrite_outcome *outcome;
    unsigned pass;
    struct strip strip;
    struct pools *pools;
    struct range *range;
    struct symbolize *symbols;
    struct reframe *reframe;
    struct source_cache *sources;
    struct image_dict *dict;
    struct rekey rekey;
    struct convert *convert;
};

/* The purpose of a pass. */
enum stage { STAGE_POOLS, STAGE_RANGE, STAGE_NAMES, STAGE_WRITE };

static bool wants_symbols(const struct rewrite_options *o)
{
    return o->symbols.reset || o->symbols.resolve;
}

static bool wants_names(const struct rewrite_options *o)
{
    return wants_symbols(o) || o->rename || o->cache_sources || o->image_dict;
}

unsigned rewrite_passes(const struct rewrite_options *options)
{
    return 1u + (options->pools.n > 0) + options->has_range + wants_names(options);
}

static int open_filters(struct chain *c, struct err *e)
{
    const struct rewrite_options *o = c->options;
    if (o->pools.n > 0 && pools_open(&c->pools, &o->pools, e) != 0)
        return -1;
    if (o->has_range && range_open(&c->range, &o->range, e) != 0)
        return -1;
    if (wants_symbols(o) && symbolize_open(&c->symbols, &o->symbols, e) != 0)
        return -1;
    if (o->rename && reframe_open(&c->reframe, e) != 0)
        return -1;
    if (o->cache_sources && source_cache_open(&c->sources, e) != 0)
        return -1;
    return o->image_dict ? image_dict_open(&c->dict, e) : 0;
}

static void free_filters(struct chain *c)
{
    pools_free(c->pools);
    range_free(c->range);
    symbolize_free(c->symbols);
    reframe_free(c->reframe);
    source_cache_free(c->sources);
    image_dict_free(c->dict);
    rekey_release(&c->rekey);
    convert_free(c->convert);
}

/*
 * Reads into `sink` through the filters that precede a stage. Names do not depend on pools and
 * times, so the pass for names skips those filters.
 */
static int run(struct chain *c, enum stage stage, struct record_sink sink, bool *wanted,
               struct err *e)
{
    if (stage == STAGE_WRITE) {
        if (c->dict)
            sink = image_dict_sink(c->dict, &sink);
        if (c->sources)
            sink = source_cache_sink(c->sources, &sink);
        if (c->reframe)
            sink = reframe_sink(c->reframe, &sink);
        if (c->symbols)
            sink = symbolize_sink(c->symbols, &sink);
        if (c->range)
            sink = range_sink(c->range, &sink);
    }
    if ((stage == STAGE_WRITE || stage == STAGE_RANGE) && c->pools)
        sink = pools_sink(c->pools, &sink);
    strip_init(&c->strip, &sink);
    if (c->options->strip && strip_add(&c->strip, c->options->strip, e) != 0)
        return -1;
    strip_unwanted(&c->strip, wanted);
    sink = strip_sink(&c->strip);
    return c->source->read(c->source->ctx, c->pass++, &sink, wanted, &c->outcome->info, e);
}

static int choose_pools(struct chain *c, struct err *e)
{
    bool wanted[REC_TYPE_COUNT];
    memset(wanted, true, sizeof wanted);
    pools_choose_wanted(wanted);
    int status = run(c, STAGE_POOLS, pools_choose_sink(c->pools), wanted, e);
    if (status != 0 && !pools_chosen(c->pools))
        return -1;
    return pools_check(c->pools, e);
}

static int count_range(struct chain *c, struct err *e)
{
    bool wanted[REC_TYPE_COUNT];
    memset(wanted, true, sizeof wanted);
    range_count_wanted(wanted);
    /* The preceding filters compute pools from these records. */
    wanted[REC_POOLS] = wanted[REC_POOL_END] = true;
    if (run(c, STAGE_RANGE, range_count_sink(c->range), wanted, e) != 0)
        return -1;
    return range_counted(c->range, e);
}

/* Passes the records to each of the last four filters. */
static int look_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct chain *c = ctx;
    const struct record_sink sinks[] = {
        c->symbols ? symbolize_collect_sink(c->symbols) : (struct record_sink){0},
        c->reframe ? reframe_collect_sink(c->reframe) : (struct record_sink){0},
        c->sources ? source_cache_collect_sink(c->sources) : (struct record_sink){0},
        c->dict ? image_dict_sample_sink(c->dict) : (struct record_sink){0},
    };
    for (size_t i = 0; i < sizeof sinks / sizeof sinks[0]; i++) {
        if (sinks[i].put && record_put(&sinks[i], type, recs, n, e) != 0)
            return -1;
    }
    return 0;
}

static int look_for_names(struct chain *c, struct err *e)
{
    bool wanted[REC_TYPE_COUNT] = {false};
    const struct rewrite_options *o = c->options;
    if (c->symbols)
        symbolize_wanted(wanted);
    if (c->reframe)
        reframe_wanted(wanted);
    if (c->sources)
        source_cache_wanted(wanted);
    if (c->dict)
        image_dict_wanted(wanted);
    if (run(c, STAGE_NAMES, (struct record_sink){c, look_put}, wanted, e) != 0)
        return -1;
    if (c->symbols)
        c->outcome->frames = symbolize_frames(c->symbols);
    if (o->symbols.resolve && o->resolve && o->resolve(o->resolve_ctx, c->symbols, e) != 0)
        return -1;
    if (c->reframe && o->rename(o->rename_ctx, c->reframe, e) != 0)
        return -1;
    if (c->sources && source_cache_scan(c->sources, &c->outcome->sources, e) != 0)
        return -1;
    if (c->dict && image_dict_train(c->dict, e) != 0)
        return -1;
    if (c->dict)
        c->outcome->dict_size = image_dict_size(c->dict);
    return 0;
}

static int write_all(struct chain *c, struct trace_writer *writer, struct err *e)
{
    bool wanted[REC_TYPE_COUNT];
    memset(wanted, true, sizeof wanted);
    struct record_sink to_writer = trace_writer_sink(writer);
    trace_writer_keep_compression(writer, &c->outcome->info.container);
    if (convert_open(&c->convert, &to_writer, &c->options->convert, e) != 0)
        return -1;
    struct record_sink sink = convert_sink(c->convert);
    if (c->options->strip) {
        rekey_init(&c->rekey, &sink);
        sink = rekey_sink(&c->rekey);
    }
    int status = run(c, STAGE_WRITE, sink, wanted, e);
    c->outcome->stripped = c->strip.events;
    convert_losses(c->convert, &c->outcome->losses);
    if (status == 0 && c->outcome->losses.failed)
        status = err_no_memory(e, "what the version cannot hold");
    return status;
}

int rewrite_trace(const struct rewrite_source *source, const struct rewrite_options *options,
                  struct trace_writer *writer, struct rewrite_outcome *outcome, struct err *e)
{
    struct chain c = {.source = source, .options = options, .outcome = outcome};
    *outcome = (struct rewrite_outcome){0};
    int status = open_filters(&c, e);
    if (status == 0 && c.pools)
        status = choose_pools(&c, e);
    if (status == 0 && c.range)
        status = count_range(&c, e);
    if (status == 0 && wants_names(options))
        status = look_for_names(&c, e);
    if (status == 0)
        status = write_all(&c, writer, e);
    free_filters(&c);
    return status;
}
