/*
 * States of checkpoints: what is taken is good for going on and for a trace that can be saved; and
 * written again, right behind another turn, it is taken again.
 */

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint_state.h"
#include "trace/file/writer.h"
#include "trace/save/save.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A store and an intake, of which only one is alive at a time. */
struct side {
    struct trace trace;
    struct intake r;
};

static void must(int status, const struct err *e)
{
    if (status == 0)
        return;
    fprintf(stderr, "%s\n", e->text);
    abort();
}

static int drop_part(void *ctx, struct err *e)
{
    (void)ctx;
    (void)e;
    return 0;
}

static int drop_block(void *ctx, const uint8_t *bytes, size_t n, struct err *e)
{
    (void)ctx;
    (void)bytes;
    (void)n;
    (void)e;
    return 0;
}

static void side_open(struct side *s)
{
    const struct trace_options store = {.resident_budget = 1 << 20};
    const struct intake_start start = checkpoint_start();
    struct err e = {0};
    must(trace_init(&s->trace, &store, &e), &e);
    must(intake_open(&s->r, &s->trace, &start, &e), &e);
    s->r.ingest.part_full = drop_part;
    s->r.ingest.compact_least = 1;
}

static void side_release(struct side *s)
{
    intake_release(&s->r);
    trace_release(&s->trace);
}

static int load(struct side *s, int fd, uint64_t len)
{
    struct snapshot in;
    struct err e = {0};
    must(snapshot_read(&in, fd, 0, len, &e), &e);
    intake_snapshot(&in, &s->r);
    int status = snapshot_end(&in);
    snapshot_release(&in);
    if (status != 0 && e.code != ERR_INPUT && e.code != ERR_MEMORY)
        must(status, &e);
    return status;
}

/* Some bytes of a stream: a frame of zone ends, call stacks and the like is soon there. */
static void go_on(struct side *s, const uint8_t *data, size_t size)
{
    struct err e = {0};
    while (size > 0 && intake_take(&s->r, &data, &size, &e) == 1)
        ;
}

static void save(struct side *s)
{
    const struct err none = {0};
    const struct block_sink blocks = {.put = drop_block};
    struct trace_writer *w;
    struct trace_write_stats stats;
    struct err e = {0};
    must(intake_finish(&s->r, SESSION_VANISHED, &none, &e), &e);
    must(trace_writer_open_inner(&w, NULL, blocks, &e), &e);
    struct record_sink sink = trace_writer_sink(w);
    must(trace_save(&s->trace, &sink, &e), &e);
    must(trace_writer_finish(w, &stats, &e), &e);
    trace_writer_free(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("checkpoint", MFD_CLOEXEC);
    struct snapshot out;
    struct side s;
    struct err e = {0};
    must(snapshot_write(&out, fd, 0, &e), &e);
    snapshot_bytes(&out, (void *)(uintptr_t)data, size);
    must(snapshot_end(&out), &e);
    uint64_t len = out.at;
    snapshot_release(&out);
    side_open(&s);
    if (load(&s, fd, len) == 0) {
        s.r.turned = UINT64_MAX; /* there may have been no frame since */
        must(intake_turn(&s.r, &e) == 1 ? 0 : -1, &e);
        must(snapshot_write(&out, fd, 0, &e), &e);
        intake_snapshot(&out, &s.r);
        must(snapshot_end(&out), &e);
        len = out.at;
        snapshot_release(&out);
        side_release(&s);
        side_open(&s);
        must(load(&s, fd, len), &e);
        go_on(&s, data, size < 4096 ? size : 4096);
        save(&s);
    }
    side_release(&s);
    close(fd);
    return 0;
}
