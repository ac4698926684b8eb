#include "trace/file/writer.h"

#include <stdlib.h>
#include <string.h>

#include "trace/file/block_thread.h"
#include "trace/file/check.h"
#include "trace/file/codec.h"
#include "trace/file/grammar.h"
#include "trace/file/reader.h"

struct trace_writer {
    int fd; /* -1: inner stream only */
    struct trace_writer_options options;
    const struct container_info *like; /* source of open options, or NULL */
    struct container_writer *container;
    struct block_thread *thread; /* precedes the container; NULL: single-threaded */
    struct out_stream out;
    struct codec codec;
    struct grammar grammar;
    struct checks checks;
    bool unchecked; /* also write references that are out of bounds */
    bool started;
};

struct trace_writer_options trace_writer_options_default(void)
{
    return (struct trace_writer_options){.container = container_options_default()};
}

int trace_writer_open(struct trace_writer **out, int fd, const struct trace_writer_options *options,
                      struct err *e)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return err_no_memory(e, "the writer of a trace");
    (*out)->fd = fd;
    (*out)->options = options ? *options : trace_writer_options_default();
    return 0;
}

int trace_writer_open_inner(struct trace_writer **out, const struct file_layout *layout,
                            struct block_sink blocks, struct err *e)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return err_no_memory(e, "the writer of a trace");
    (*out)->fd = -1;
    (*out)->options.layout = layout;
    (*out)->unchecked = true;
    if (out_stream_init(&(*out)->out, blocks, e) == 0)
        return 0;
    trace_writer_free(*out);
    *out = NULL;
    return -1;
}

void trace_writer_free(struct trace_writer *w)
{
    if (!w)
        return;
    block_thread_free(w->thread);
    container_writer_free(w->container);
    out_stream_release(&w->out);
    codec_release(&w->codec);
    grammar_release(&w->grammar);
    free(w);
}

void trace_writer_keep_compression(struct trace_writer *w, const struct container_info *like)
{
    w->like = like;
}

static void keep_compression(struct container_options *o, const struct container_info *like)
{
    if (o->method == METHOD_DEFAULT && like->codec == CODEC_ZSTD)
        o->method = METHOD_ZSTD;
    if (o->streams == 0 && like->streams < CONTAINER_STREAMS_OFFICIAL)
        o->streams = like->streams;
}

static int open_container(struct trace_writer *w, struct err *e)
{
    if (w->like)
        keep_compression(&w->options.container, w->like);
    w->options.container.old_magic |= !w->options.layout->multi_stream;
    if (container_writer_open(&w->container, w->fd, &w->options.container, e) != 0)
        return -1;
    struct block_sink sink = container_writer_sink(w->container);
    if (w->options.threaded) {
        if (block_thread_open(&w->thread, container_writer_work(w->container), e) != 0)
            return -1;
        sink = block_thread_sink(w->thread);
    }
    return out_stream_init(&w->out, sink, e);
}

/* The header determines the layout, and so the kind of container. */
static int start(struct trace_writer *w, const struct rec_header *header, struct err *e)
{
    if (!w->options.layout)
        w->options.layout = file_layout_find(header->version);
    if (!w->options.layout)
        return err_set(e, ERR_OUTPUT, "internal error: unknown file version %#x to write",
                       header->version);
    w->started = true;
    w->checks.layout = w->options.layout;
    if (codec_init(&w->codec, w->options.layout, e) != 0 ||
        grammar_start(&w->grammar, w->options.layout, e) != 0)
        return -1;
    if (w->fd >= 0 && open_container(w, e) != 0)
        return -1;
    uint8_t magic[INNER_MAGIC_SIZE];
    codec_write_magic(w->options.layout->version, magic);
    out_stream_put(&w->out, magic, sizeof magic);
    return 0;
}

static int out_of_order(const struct grammar_slot *slot, enum record_type type, size_t n,
                        struct err *e)
{
    if (!slot)
        return err_set(e, ERR_OUTPUT, "internal error: %s after the end of the trace",
                       record_name(type));
    return err_set(e, ERR_OUTPUT, "internal error: %zu × %s where %llu × %s should come", n,
                   record_name(type), (unsigned long long)slot->left, record_name(slot->type));
}

static int check_limits(const struct trace_writer *w, enum record_type type, const void *rec,
                        struct err *e)
{
    if (type == REC_HEADER) {
        /* Official readers have 1024 bytes for each of these texts ([R] @ v0.9.1 … v0.14.0). */
        const struct rec_header *h = rec;
        if (h->capture_name.len > 1023 || h->capture_program.len > 1023 || h->host_info.len > 1023)
            return err_set(e, ERR_OUTPUT,
                           "internal error: a text of the header has more than "
                           "1023 bytes");
    }
    if (type == REC_SOURCE_LOCATIONS || type == REC_SOURCE_LOCATION_PAYLOADS) {
        const struct rec_count *c = rec;
        char text[FILE_VERSION_TEXT_SIZE];
        uint32_t max = w->options.layout->locations_max;
        if (c->n > max)
            return err_set(
                e, ERR_OUTPUT, "%llu source locations: a file of version %s holds at most %u",
                (unsigned long long)c->n, file_version_text(w->options.layout->version, text), max);
    }
    return 0;
}

/*
 * Makes the reader's checks, so that no trace is written that the reader would reject. A failure is
 * an error of the caller, whose data is kept.
 */
static int check(struct trace_writer *w, const struct grammar_slot *slot, const void *recs,
                 size_t n, struct err *e)
{
    const struct record_place place = {.type = slot->type,
                                       .number = slot->total - slot->left + 1,
                                       .total = slot->total,
                                       .offset = out_stream_offset(&w->out)};
    if (!check_wanted(slot->type) || check_records(&w->checks, &place, recs, n, e) == 0)
        return 0;
    if (e)
        e->code = ERR_OUTPUT;
    return err_prefix(e, "nothing could read it");
}

static int put_branch(struct trace_writer *w, enum record_type type, const void *rec, struct err *e)
{
    codec_write(&w->codec, type, rec, 1, &w->out);
    return grammar_enter(&w->grammar, type, rec, e);
}

static int writer_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct trace_writer *w = ctx;
    if (!w->started && type == REC_HEADER && start(w, recs, e) != 0)
        return -1;
    struct grammar_slot *slot = grammar_next(&w->grammar);
    if (!slot || slot->type != type || slot->left < n)
        return out_of_order(slot, type, n, e);
    if (check_limits(w, type, recs, e) != 0 || (!w->unchecked && check(w, slot, recs, n, e) != 0))
        return -1;
    slot->left -= n;
    uint64_t begin = out_stream_offset(&w->out);
    if (grammar_is_leaf(type)) {
        codec_write(&w->codec, type, recs, n, &w->out);
    } else {
        /* The followers of one such record must come before the next one. */
        if (n != 1)
            return out_of_order(slot, type, n, e);
        if (put_branch(w, type, recs, e) != 0)
            return -1;
    }
    if (n == 1 && out_stream_offset(&w->out) - begin > TRACE_RECORD_MAX)
        return err_set(e, ERR_OUTPUT, "a %s is longer than any reader takes", record_name(type));
    if (w->codec.out_of_range)
        return err_set(e, ERR_OUTPUT, "a %s has a value that the file format cannot hold",
                       record_name(type));
    if (w->out.failed) {
        *e = w->out.err;
        return -1;
    }
    return 0;
}

struct record_sink trace_writer_sink(struct trace_writer *w)
{
    return (struct record_sink){.ctx = w, .put = writer_put};
}

int trace_writer_finish(struct trace_writer *w, struct trace_write_stats *stats, struct err *e)
{
    struct grammar_slot *slot = grammar_next(&w->grammar);
    if (!w->started || slot)
        return err_set(e, ERR_OUTPUT, "internal error: the trace ends where %s should come",
                       record_name(slot ? slot->type : REC_HEADER));
    if (out_stream_finish(&w->out, e) != 0)
        return -1;
    if (w->thread && block_thread_finish(w->thread, e) != 0)
        return -1;
    if (w->container && container_writer_finish(w->container, e) != 0)
        return -1;
    if (stats) {
        *stats = (struct trace_write_stats){.inner_bytes = w->out.total};
        if (w->container) {
            stats->file_bytes = container_writer_bytes(w->container);
            stats->compress_ns = container_writer_time(w->container);
            stats->container = *container_writer_options(w->container);
        }
    }
    return 0;
}
