/* Recordings of the preload library to a trace, read at once or while they are written. */

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analysis/figures/summary.h"
#include "run/recording/recording.h"
#include "test/recording_pack.h"

static void write_whole(int fd, const uint8_t *bytes)
{
    size_t n = (size_t)((const struct rec_header *)bytes)->units_taken * REC_UNIT;
    if (pwrite(fd, bytes, n, 0) != (ssize_t)n)
        abort();
}

/* Looking at a process that lives costs a quick barrier: that is done seldom. */
static void read_on(struct recording *r, bool alive)
{
    struct err e = {0};
    uint64_t taken = 1;
    for (unsigned i = 0; i < (alive ? 1u : 1000u) && taken; i++) {
        if (recording_advance(r, alive, 1000, &taken, &e) != 0 && e.code != ERR_MEMORY)
            abort();
    }
}

static void take(struct recording_target *target, int fd, struct cursor *c, uint8_t *bytes,
                 unsigned flags)
{
    struct recording *r;
    struct err e = {0};
    write_whole(fd, bytes);
    if (recording_open(&r, fd, target, &e) != 0)
        abort();
    while (pack_next(c, bytes)) {
        if (!(flags & PACK_LIVE))
            continue;
        write_whole(fd, bytes);
        read_on(r, true);
    }
    write_whole(fd, bytes);
    read_on(r, false);
    if (recording_finish(r, flags & PACK_PART, &e) != 0)
        abort();
    recording_free(r);
}

/* Every event is looked at once more, in order of time. */
static void sum_up(struct trace *t)
{
    const struct summary_options options = {.by = GROUP_CALLSTACK};
    struct summary s;
    struct err e = {0};
    if (summary_write_facts(t, &e) != 0 || summary_build(&s, t, &options, &e) != 0)
        abort();
    summary_release(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cursor c = cursor_over(data, size);
    unsigned flags = cursor_u8(&c);
    struct recording_target target;
    struct ingest in;
    struct trace t;
    struct err e = {0};
    uint8_t *bytes = calloc(PACK_UNITS, REC_UNIT);
    int fd = memfd_create("recording", MFD_CLOEXEC);
    if (!bytes || fd < 0 || trace_init(&t, NULL, &e) != 0 || ingest_init(&in, &t, &e) != 0)
        abort();
    recording_target_init(&target, &in);
    pack_header(bytes, flags);
    /* Nobody writes but us. The other barrier waits for each processor: 50 inputs a second. */
    ((struct rec_header *)bytes)->expedited = 1;
    take(&target, fd, &c, bytes, flags);
    if (ingest_finish(&in, &e) != 0)
        abort();
    sum_up(&t);
    recording_target_release(&target);
    ingest_release(&in);
    trace_release(&t);
    close(fd);
    free(bytes);
    return 0;
}
