#include "run/recording/recording_chunks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void chunks_init(struct chunks *c, int fd)
{
    *c = (struct chunks){.fd = fd, .looked = 1};
}

void chunks_release(struct chunks *c)
{
    vec_release(&c->gaps);
}

static size_t read_at(int fd, void *bytes, size_t n, uint64_t at)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(fd, (char *)bytes + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

int chunks_header(const struct chunks *c, struct rec_header *h, struct err *e)
{
    if (read_at(c->fd, h, sizeof *h, 0) != sizeof *h || memcmp(h->magic, REC_MAGIC, 8) != 0)
        return err_set(e, ERR_INPUT, "no recording: its header is missing");
    if (h->version != REC_VERSION || h->unit != REC_UNIT)
        return err_set(e, ERR_INPUT, "a recording of version %u; version %u is known", h->version,
                       REC_VERSION);
    h->exe[sizeof h->exe - 1] = 0;
    h->only_threads[sizeof h->only_threads - 1] = 0;
    return 0;
}

size_t chunks_read(const struct chunks *c, const struct chunk *chunk, uint32_t from, void *bytes,
                   size_t n)
{
    uint64_t at = (uint64_t)chunk->unit * REC_UNIT + sizeof(struct rec_chunk) + from;
    return read_at(c->fd, bytes, n, at);
}

/*
 * Reads the chunk at chunk->unit; false when there is none. The committed length is read last, so
 * that all earlier changes are visible.
 */
static bool read_chunk(const struct chunks *c, struct chunk *chunk)
{
    uint64_t at = (uint64_t)chunk->unit * REC_UNIT;
    struct rec_chunk h;
    uint32_t committed;
    if (read_at(c->fd, &h, sizeof h, at) != sizeof h ||
        read_at(c->fd, &committed, sizeof committed, at + offsetof(struct rec_chunk, committed)) !=
            sizeof committed ||
        h.magic != REC_CHUNK_MAGIC || h.units == 0 || h.units > REC_CHUNK_UNITS ||
        (h.kind != REC_CHUNK_EVENTS && h.kind != REC_CHUNK_NODES))
        return false;
    *chunk = (struct chunk){.unit = chunk->unit,
                            .units = h.units,
                            .kind = h.kind,
                            .capacity = h.units * REC_UNIT - (uint32_t)sizeof h,
                            .committed = committed,
                            .first_node = h.first_node,
                            .level = h.level,
                            .tid = (uint32_t)h.tid,
                            .base_stamp = h.base_stamp,
                            .base_ns = h.base_ns,
                            .pending = h.pending,
                            .closed = h.state == REC_CHUNK_CLOSED};
    return chunk->committed <= chunk->capacity;
}

bool chunks_look(const struct chunks *c, struct chunk *chunk)
{
    struct chunk now = {.unit = chunk->unit};
    if (!read_chunk(c, &now) || now.units != chunk->units || now.kind != chunk->kind ||
        now.committed < chunk->committed)
        return false;
    chunk->committed = now.committed;
    chunk->pending = now.pending;
    chunk->closed = now.closed;
    return true;
}

/*
 * Wakes threads that wait for space. The mapping only passes the futex's address to the kernel: its
 * memory is never accessed, so that a truncated file causes no fault.
 */
static void wake(int fd)
{
    const size_t at = offsetof(struct rec_header, released);
    char *page = mmap(NULL, sizeof(struct rec_header), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return;
    (void)syscall(SYS_futex, page + at, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    (void)munmap(page, sizeof(struct rec_header));
}

void chunks_give_back(const struct chunks *c, const struct chunk *chunk)
{
    const off_t at = offsetof(struct rec_header, released);
    uint32_t released;
    (void)fallocate(c->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)chunk->unit * REC_UNIT, (off_t)chunk->units * REC_UNIT);
    if (read_at(c->fd, &released, sizeof released, (uint64_t)at) != sizeof released)
        return;
    released += chunk->units;
    (void)!pwrite(c->fd, &released, sizeof released, at);
    wake(c->fd);
}

/* Units inside a chunk that appeared later are not gaps. */
static void drop_gaps(struct chunks *c, size_t from, uint32_t end)
{
    size_t kept = from;
    for (size_t i = from; i < c->gaps.len; i++) {
        if (c->gaps.at[i] >= end)
            c->gaps.at[kept++] = c->gaps.at[i];
    }
    c->gaps.len = kept;
}

static int scan_gaps(struct chunks *c, chunks_put *put, void *ctx, struct err *e)
{
    for (size_t i = 0; i < c->gaps.len;) {
        struct chunk chunk = {.unit = c->gaps.at[i]};
        if (!read_chunk(c, &chunk)) {
            i++;
            continue;
        }
        drop_gaps(c, i, chunk.unit + chunk.units);
        if (c->looked < chunk.unit + chunk.units)
            c->looked = chunk.unit + chunk.units;
        if (put(ctx, &chunk, e) != 0)
            return -1;
    }
    return 0;
}

int chunks_scan(struct chunks *c, uint32_t units_taken, chunks_put *put, void *ctx, struct err *e)
{
    off_t end = lseek(c->fd, 0, SEEK_END);
    uint64_t units = end > 0 ? ((uint64_t)end + REC_UNIT - 1) / REC_UNIT : 0;
    if (units > units_taken)
        units = units_taken;
    if (scan_gaps(c, put, ctx, e) != 0)
        return -1;
    while (c->looked < units) {
        struct chunk chunk = {.unit = c->looked};
        if (!read_chunk(c, &chunk)) {
            if (!vec_push(&c->gaps, c->looked))
                return err_no_memory(e, "a recording");
            c->looked++;
            continue;
        }
        c->looked += chunk.units;
        if (put(ctx, &chunk, e) != 0)
            return -1;
    }
    return 0;
}
