#include "trace/save/save_file.h"

#include <sys/stat.h>
#include <time.h>

#include "base/outfile.h"
#include "trace/filter/convert.h"
#include "trace/save/save.h"

#define ASK_EVERY_NS 20000000

/*
 * From this many memory events on, saving is optimised for speed: one stream, and zstd's fast
 * search for everything but memory events. The rest then takes at least as many bytes as an
 * official tool's four streams at level 3, so the trace still shrinks when such a tool strips it.
 */
#define EVENTS_FOR_SPEED ((uint64_t)1 << 18)

/* From this many on, two streams, each compressed by a thread, halve the time. */
#define EVENTS_FOR_TWO_STREAMS ((uint64_t)1 << 23)

/* Between conversion and writer: asks whether to continue, rarely enough to cost nothing. */
struct watch {
    const struct save_options *options;
    struct record_sink to;
    struct timespec asked;
};

static int watch_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct watch *w = ctx;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (now.tv_sec != w->asked.tv_sec || now.tv_nsec - w->asked.tv_nsec >= ASK_EVERY_NS) {
        w->asked = now;
        if (w->options->going(w->options->going_ctx, e) != 0)
            return -1;
    }
    return record_put(&w->to, type, recs, n, e);
}

/* Before conversion: records also go to save_options.beside. */
struct tee {
    const struct record_sink *beside;
    struct record_sink to;
};

static int tee_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    const struct tee *t = ctx;
    return record_put(t->beside, type, recs, n, e) != 0 ? -1 : record_put(&t->to, type, recs, n, e);
}

/* Chooses the compression options that the caller left open. */
static struct container_options compression_for(const struct trace *t,
                                                const struct save_options *options)
{
    struct container_options c = options->container;
    uint64_t events = 0;
    for (size_t i = 0; i < t->memory.pools.len; i++) {
        const struct pool *p = t->memory.pools.at[i];
        events += p->totals.allocations + p->totals.frees;
    }
    if (events < EVENTS_FOR_SPEED || c.streams != 0 || c.level != CONTAINER_LEVEL_OWN)
        return c;
    c.level = CONTAINER_LEVEL_OWN_FAST;
    c.streams = options->threaded && events >= EVENTS_FOR_TWO_STREAMS ? 2 : 1;
    return c;
}

static int save_to_fd(struct trace *t, int fd, const struct save_options *options,
                      struct trace_write_stats *stats, struct buf *losses, struct err *e)
{
    struct trace_writer_options to = {.layout = options->layout,
                                      .container = compression_for(t, options),
                                      .threaded = options->threaded};
    struct convert_options conversion = {.target = options->layout, .spill_dir = t->spool.dir};
    struct trace_writer *writer = NULL;
    struct convert *convert = NULL;
    struct watch watch = {.options = options};
    int status = trace_writer_open(&writer, fd, &to, e);
    if (status == 0) {
        watch.to = trace_writer_sink(writer);
        struct record_sink sink =
            options->going ? (struct record_sink){.ctx = &watch, .put = watch_put} : watch.to;
        status = convert_open(&convert, &sink, &conversion, e);
    }
    if (status == 0) {
        struct tee tee = {options->beside, convert_sink(convert)};
        struct record_sink sink =
            options->beside ? (struct record_sink){.ctx = &tee, .put = tee_put} : tee.to;
        status = trace_save(t, &sink, e);
    }
    if (status == 0)
        status = trace_writer_finish(writer, stats, e);
    if (status == 0)
        convert_losses(convert, losses);
    if (status == 0 && losses->failed)
        status = err_no_memory(e, "what the version cannot hold");
    convert_free(convert);
    trace_writer_free(writer);
    return status;
}

bool save_may_append(uint32_t version, const struct container_options *container)
{
    bool zstd = container->method == METHOD_ZSTD || container->method == METHOD_DEFAULT;
    return version >= FILE_VERSION(0, 11, 0) && zstd;
}

int save_check_figures(uint32_t version, const struct container_options *container, struct err *e)
{
    if (save_may_append(version, container))
        return 0;
    return err_set(
        e, ERR_USAGE,
        "--figures are stored behind a trace of version 0.11.0 or later, compressed with "
        "zstd: see --trace-version and --compression");
}

/* The figures are the trace's only memory data. */
static int append_figures(const struct memory_only *only, const struct outfile *out,
                          const struct save_options *options, struct err *e)
{
    if (out->direct)
        return err_set(e, ERR_OUTPUT, "figures are stored behind a trace in a regular file");
    if (save_check_figures(options->layout->version, &options->container, e) != 0)
        return -1;
    return only->append(only->figures, out->fd, e);
}

static int append_to(struct trace *t, const struct outfile *out, const struct save_options *options,
                     struct trace_write_stats *stats, struct err *e)
{
    struct stat st;
    const struct memory_only *only = &t->memory.only;
    if (only->append && append_figures(only, out, options, e) != 0)
        return -1;
    if (out->direct)
        return 0;
    if (!only->append && options->append(options->append_ctx, out->fd, e) != 0)
        return -1;
    if (fstat(out->fd, &st) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot look at what was written");
    stats->file_bytes = (uint64_t)st.st_size;
    return 0;
}

int trace_save_file(struct trace *t, const char *path, const struct save_options *options,
                    struct trace_write_stats *stats, struct buf *losses, struct err *e)
{
    struct outfile out;
    if (outfile_open(&out, path, options->replace, e) != 0)
        return -1;
    if (save_to_fd(t, out.fd, options, stats, losses, e) != 0 ||
        ((options->append || t->memory.only.append) &&
         append_to(t, &out, options, stats, e) != 0)) {
        outfile_abort(&out);
        return err_prefix(e, "cannot write %s", path);
    }
    return outfile_commit(&out, e);
}
