#include "base/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPOOL_NOWHERE UINT64_MAX
#define CHUNK_ELEMENTS 65536u
#define PATCHES_MAX 65536u

/* An overwrite of an element whose chunk is on disk, waiting for its batch. */
struct column_patch {
    uint64_t index;
    uint32_t order; /* later patches of one element win */
    uint8_t element[20];
};

int spool_init(struct spool *s, const char *dir, size_t budget, struct err *e)
{
    *s = (struct spool){.fd = -1, .budget = budget};
    if (!dir)
        dir = getenv("TMPDIR");
    if (!dir || !*dir)
        dir = "/var/tmp";
    s->dir = strdup(dir);
    return s->dir ? 0 : err_no_memory(e, "the spool");
}

void spool_release(struct spool *s)
{
    if (s->fd >= 0)
        close(s->fd);
    for (size_t i = 0; i < s->spare.len; i++)
        free(s->spare.at[i]);
    vec_release(&s->spare);
    vec_release(&s->queue);
    free(s->dir);
    *s = (struct spool){.fd = -1};
}

static int spool_create_file(struct spool *s, struct err *e)
{
    s->fd = open(s->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (s->fd >= 0)
        return 0;
    /* Not every file system knows O_TMPFILE. */
    size_t len = strlen(s->dir) + sizeof "/.tidemark-XXXXXX";
    char *name = malloc(len);
    if (!name)
        return err_no_memory(e, "the spool");
    memcpy(name, s->dir, strlen(s->dir));
    memcpy(name + strlen(s->dir), "/.tidemark-XXXXXX", sizeof "/.tidemark-XXXXXX");
    s->fd = mkostemp(name, O_CLOEXEC);
    if (s->fd < 0)
        err_errno(e, ERR_OUTPUT, "cannot create a spool file in %s", s->dir);
    else
        unlink(name);
    free(name);
    return s->fd < 0 ? -1 : 0;
}

static int spool_write(struct spool *s, const uint8_t *p, size_t n, uint64_t at, struct err *e)
{
    while (n) {
        ssize_t done = pwrite(s->fd, p, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return err_errno(e, ERR_OUTPUT, "cannot write to the spool file in %s", s->dir);
        p += done;
        n -= (size_t)done;
        at += (uint64_t)done;
    }
    return 0;
}

static int spool_read(struct spool *s, uint8_t *p, size_t n, uint64_t at, struct err *e)
{
    while (n) {
        ssize_t done = pread(s->fd, p, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return err_errno(e, ERR_OUTPUT, "cannot read the spool file in %s", s->dir);
        p += done;
        n -= (size_t)done;
        at += (uint64_t)done;
    }
    return 0;
}

static size_t chunk_bytes(const struct column *c)
{
    return c->size * c->per_chunk;
}

/* Writes the oldest full chunks out until one more of `wanted` bytes fits into the budget. */
static int spool_make_room(struct spool *s, size_t wanted, struct err *e)
{
    while (s->resident + wanted > s->budget && s->queue_head < s->queue.len) {
        struct column_chunk *k = s->queue.at[s->queue_head];
        if (k) {
            size_t bytes = chunk_bytes(k->owner);
            if (s->fd < 0 && spool_create_file(s, e) != 0)
                return -1;
            if (spool_write(s, k->data, bytes, s->end, e) != 0)
                return -1;
            k->place = s->end;
            s->end += bytes;
            s->resident -= bytes;
            /* One spare buffer suffices in the steady state, where a chunk goes for each that
             * comes. */
            if (s->spare.len < 2 && (s->spare.len == 0 || s->spare_size == bytes) &&
                vec_push(&s->spare, k->data))
                s->spare_size = bytes;
            else
                free(k->data);
            k->data = NULL;
        }
        s->queue_head++;
    }
    if (s->queue_head > 1024 && s->queue_head * 2 > s->queue.len) {
        s->queue.len -= s->queue_head;
        memmove(s->queue.at, s->queue.at + s->queue_head, s->queue.len * sizeof s->queue.at[0]);
        s->queue_head = 0;
    }
    return 0;
}

static uint8_t *spool_chunk_buffer(struct spool *s, size_t bytes)
{
    if (s->spare.len && s->spare_size == bytes)
        return s->spare.at[--s->spare.len];
    return malloc(bytes);
}

void column_init(struct column *c, struct spool *s, size_t element_size, bool patchable)
{
    *c = (struct column){.spool = s,
                         .size = element_size,
                         .per_chunk = CHUNK_ELEMENTS,
                         .shift = (unsigned)__builtin_ctz(CHUNK_ELEMENTS),
                         .patchable = patchable};
}

void column_clear(struct column *c)
{
    struct spool *s = c->spool;
    for (size_t i = s->queue_head; i < s->queue.len; i++) {
        if (s->queue.at[i] && s->queue.at[i]->owner == c)
            s->queue.at[i] = NULL;
    }
    for (size_t i = 0; i < c->chunks.len; i++) {
        struct column_chunk *k = c->chunks.at[i];
        if (k->data) {
            s->resident -= chunk_bytes(c);
            free(k->data);
        }
        free(k);
    }
    c->chunks.len = 0;
    c->len = 0;
    c->patch_count = 0;
}

void column_release(struct column *c)
{
    if (c->spool)
        column_clear(c);
    vec_release(&c->chunks);
    free(c->patches);
    *c = (struct column){0};
}

/* The newest chunk is full (or there is none): queue it for eviction and begin another. */
int column_append_slow(struct column *c, struct err *e)
{
    struct spool *s = c->spool;
    size_t bytes = chunk_bytes(c);
    if (c->chunks.len && !vec_push(&s->queue, c->chunks.at[c->chunks.len - 1]))
        return err_no_memory(e, "an event column");
    if (spool_make_room(s, bytes, e) != 0)
        return -1;
    struct column_chunk *k = malloc(sizeof *k);
    if (!k || !vec_reserve(&c->chunks, c->chunks.len + 1)) {
        free(k);
        return err_no_memory(e, "an event column");
    }
    *k = (struct column_chunk){.data = spool_chunk_buffer(s, bytes),
                               .place = SPOOL_NOWHERE,
                               .owner = c,
                               .index = (uint32_t)c->chunks.len};
    if (!k->data) {
        free(k);
        return err_no_memory(e, "an event column");
    }
    c->chunks.at[c->chunks.len++] = k;
    s->resident += bytes;
    c->tail = k->data;
    return 0;
}

static int patch_compare(const void *a, const void *b)
{
    const struct column_patch *x = a;
    const struct column_patch *y = b;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Applies the patches [from, to) of one chunk: one by one when sparse, else through the whole
 * chunk. */
static int column_patch_chunk(struct column *c, size_t from, size_t to, uint8_t *buffer,
                              struct err *e)
{
    const struct column_chunk *k = c->chunks.at[c->patches[from].index >> c->shift];
    uint64_t mask = c->per_chunk - 1;
    if (to - from < 16) {
        for (size_t i = from; i < to; i++) {
            const struct column_patch *p = &c->patches[i];
            if (spool_write(c->spool, p->element, c->size, k->place + (p->index & mask) * c->size,
                            e) != 0)
                return -1;
        }
        return 0;
    }
    if (spool_read(c->spool, buffer, chunk_bytes(c), k->place, e) != 0)
        return -1;
    for (size_t i = from; i < to; i++)
        memcpy(buffer + (c->patches[i].index & mask) * c->size, c->patches[i].element, c->size);
    return spool_write(c->spool, buffer, chunk_bytes(c), k->place, e);
}

static int column_flush_patches(struct column *c, struct err *e)
{
    if (c->patch_count == 0)
        return 0;
    uint8_t *buffer = malloc(chunk_bytes(c));
    if (!buffer)
        return err_no_memory(e, "an event column");
    qsort(c->patches, c->patch_count, sizeof *c->patches, patch_compare);
    int status = 0;
    for (size_t from = 0, to; from < c->patch_count && status == 0; from = to) {
        uint64_t chunk = c->patches[from].index >> c->shift;
        for (to = from + 1; to < c->patch_count && c->patches[to].index >> c->shift == chunk; to++)
            ;
        status = column_patch_chunk(c, from, to, buffer, e);
    }
    free(buffer);
    if (status == 0)
        c->patch_count = 0;
    return status;
}

int column_patch_slow(struct column *c, uint64_t index, const void *element, struct err *e)
{
    if (!c->patches) {
        c->patches = malloc(PATCHES_MAX * sizeof *c->patches);
        if (!c->patches)
            return err_no_memory(e, "an event column");
    }
    if (c->patch_count == PATCHES_MAX && column_flush_patches(c, e) != 0)
        return -1;
    struct column_patch *p = &c->patches[c->patch_count];
    p->index = index;
    p->order = (uint32_t)c->patch_count++;
    memcpy(p->element, element, c->size);
    return 0;
}

void column_reader_init(struct column_reader *r, struct column *c)
{
    *r = (struct column_reader){.column = c};
}

void column_reader_release(struct column_reader *r)
{
    free(r->buffer);
    r->buffer = NULL;
}

const void *column_reader_next(struct column_reader *r, size_t *n, struct err *e)
{
    struct column *c = r->column;
    *n = 0;
    if (r->next >= c->len)
        return NULL;
    if (column_flush_patches(c, e) != 0)
        return NULL;
    const struct column_chunk *k = c->chunks.at[r->next >> c->shift];
    size_t within = (size_t)(r->next & (c->per_chunk - 1));
    size_t run = c->per_chunk - within;
    if (run > c->len - r->next)
        run = (size_t)(c->len - r->next);
    const uint8_t *data = k->data;
    if (!data) {
        if (!r->buffer && !(r->buffer = malloc(chunk_bytes(c)))) {
            err_no_memory(e, "an event column");
            return NULL;
        }
        if (spool_read(c->spool, r->buffer, chunk_bytes(c), k->place, e) != 0)
            return NULL;
        data = r->buffer;
    }
    r->next += run;
    *n = run;
    return data + within * c->size;
}

int column_get(struct column *c, uint64_t index, void *element, struct err *e)
{
    const struct column_chunk *k = c->chunks.at[index >> c->shift];
    uint64_t offset = (index & (c->per_chunk - 1)) * c->size;
    if (k->data) {
        memcpy(element, k->data + offset, c->size);
        return 0;
    }
    if (column_flush_patches(c, e) != 0)
        return -1;
    return spool_read(c->spool, element, c->size, k->place + offset, e);
}
