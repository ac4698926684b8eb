#include "base/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/outfile.h"
#include "base/prefault.h"

/* Elements whose overwrites share one log. */
#define STRETCH ((uint64_t)COLUMN_LOG_CHUNKS * COLUMN_CHUNK)

static int no_room(struct err *e)
{
    return err_no_memory(e, "event columns");
}

/* ---- the spool and its file */

/*
 * This share of raw chunks spares most frees, which soon follow their allocation, an entry in a
 * log.
 */
static void spool_divide(struct spool *s, size_t budget)
{
    s->raw_budget = budget / 5;
    s->packed_budget = budget - s->raw_budget;
}

int spool_init(struct spool *s, const char *dir, size_t budget, struct err *e)
{
    *s = (struct spool){.fd = -1, .old_fd = -1};
    spool_divide(s, budget);
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
    spool_forget_old(s);
    vec_release(&s->raw.list);
    vec_release(&s->packed.list);
    slab_release(&s->buffers);
    free(s->scratch);
    free(s->dir);
    *s = (struct spool){.fd = -1, .old_fd = -1};
}

int spool_set_dir(struct spool *s, const char *dir, struct err *e)
{
    char *copy = strdup(dir);
    if (!copy)
        return no_room(e);
    free(s->dir);
    s->dir = copy;
    return 0;
}

void spool_renew(struct spool *s)
{
    if (s->fd < 0)
        return;
    spool_forget_old(s);
    s->old_fd = s->fd;
    s->old_base = s->base;
    s->fd = -1;
    s->base = s->end;
}

void spool_forget_old(struct spool *s)
{
    if (s->old_fd >= 0)
        close(s->old_fd);
    s->old_fd = -1;
}

int spool_temporary(const struct spool *s, struct err *e)
{
    static const char name[] = "/" OUTFILE_HIDDEN OUTFILE_HIDDEN_END;
    int fd = open(s->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    /* Not every file system supports O_TMPFILE. */
    size_t len = strlen(s->dir);
    char *path = malloc(len + sizeof name);
    if (!path)
        return no_room(e);
    memcpy(path, s->dir, len);
    memcpy(path + len, name, sizeof name);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        err_errno(e, ERR_OUTPUT, "cannot create a spool file in %s", s->dir);
    else
        unlink(path);
    free(path);
    return fd;
}

static int spool_write(struct spool *s, const uint8_t *p, size_t n, uint64_t at, struct err *e)
{
    if (s->fd < 0 && (s->fd = spool_temporary(s, e)) < 0)
        return -1;
    while (n) {
        ssize_t done = pwrite(s->fd, p, n, (off_t)(at - s->base));
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
    bool old = at < s->base;
    int fd = old ? s->old_fd : s->fd;
    at -= old ? s->old_base : s->base;
    while (n) {
        ssize_t done = pread(fd, p, n, (off_t)at);
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

int spool_store(struct spool *s, const void *bytes, size_t n, uint64_t *place, struct err *e)
{
    if (spool_write(s, bytes, n, s->end, e) != 0)
        return -1;
    *place = s->end;
    s->end += n;
    return 0;
}

int spool_load(struct spool *s, void *bytes, size_t n, uint64_t place, struct err *e)
{
    return spool_read(s, bytes, n, place, e);
}

static uint8_t *spool_scratch(struct spool *s, size_t n)
{
    if (s->scratch_size < n) {
        free(s->scratch);
        s->scratch = malloc(n);
        s->scratch_size = s->scratch ? n : 0;
    }
    return s->scratch;
}

/* ---- from state to state */

static size_t raw_bytes(const struct column *c)
{
    return (size_t)c->layout->element * COLUMN_CHUNK;
}

static int queue_push(struct chunk_queue *q, struct column_chunk *k, size_t bytes, struct err *e)
{
    if (q->head > 1024 && q->head * 2 > q->list.len) {
        q->list.len -= q->head;
        memmove(q->list.at, q->list.at + q->head, q->list.len * sizeof q->list.at[0]);
        q->head = 0;
    }
    if (!vec_push(&q->list, k))
        return no_room(e);
    q->bytes += bytes;
    return 0;
}

static void queue_forget(struct chunk_queue *q, const struct column *c)
{
    for (size_t i = q->head; i < q->list.len; i++) {
        if (q->list.at[i] && q->list.at[i]->owner == c)
            q->list.at[i] = NULL;
    }
}

/* Only a column's first chunk, which grows, has a buffer outside the slab. */
static void chunk_drop_raw(struct column *c, struct column_chunk *k)
{
    if (k == c->chunks.at[0])
        free(k->raw);
    else if (k->raw)
        slab_give(&c->spool->buffers, k->raw, raw_bytes(c));
    k->raw = NULL;
}

static int chunk_pack(struct spool *s, struct column_chunk *k, struct err *e)
{
    struct column *c = k->owner;
    uint8_t *room = spool_scratch(s, pack_bound(c->layout, COLUMN_CHUNK));
    if (!room)
        return no_room(e);
    size_t len = pack_elements(c->layout, k->raw, COLUMN_CHUNK, room);
    uint8_t *packed = malloc(len);
    if (!packed || queue_push(&s->packed, k, len, e) != 0) {
        free(packed);
        return no_room(e);
    }
    prefault(packed, len);
    memcpy(packed, room, len);
    chunk_drop_raw(c, k);
    k->packed = packed;
    k->packed_len = len;
    return 0;
}

static int chunk_to_disk(struct spool *s, struct column_chunk *k, struct err *e)
{
    if (spool_write(s, k->packed, k->packed_len, s->end, e) != 0)
        return -1;
    k->place = s->end;
    s->end += k->packed_len;
    s->packed.bytes -= k->packed_len;
    free(k->packed);
    k->packed = NULL;
    return 0;
}

/* Enforces the budgets, oldest chunks first. */
static int spool_settle(struct spool *s, struct err *e)
{
    struct chunk_queue *q = &s->raw;
    for (; q->bytes > s->raw_budget && q->head < q->list.len; q->head++) {
        struct column_chunk *k = q->list.at[q->head];
        if (!k)
            continue;
        if (chunk_pack(s, k, e) != 0)
            return -1;
        q->bytes -= raw_bytes(k->owner);
    }
    q = &s->packed;
    for (; q->bytes > s->packed_budget && q->head < q->list.len; q->head++) {
        struct column_chunk *k = q->list.at[q->head];
        if (k && chunk_to_disk(s, k, e) != 0)
            return -1;
    }
    return 0;
}

int spool_set_budget(struct spool *s, size_t budget, struct err *e)
{
    spool_divide(s, budget);
    int status = spool_settle(s, e);
    slab_trim(&s->buffers);
    return status;
}

/* ---- columns */

void column_init(struct column *c, struct spool *s, const struct pack_layout *layout,
                 bool patchable)
{
    *c = (struct column){.spool = s, .layout = layout, .patchable = patchable};
    if (!patchable)
        return;
    /* A log entry is the element's index within the range of its log, and the element. */
    c->log_layout.element = (uint8_t)(layout->element + 4);
    c->log_layout.count = (uint8_t)(layout->count + 1);
    c->log_layout.fields[0] = (struct pack_field){0, 4, PACK_OFFSET};
    for (unsigned i = 0; i < layout->count; i++) {
        c->log_layout.fields[i + 1] = layout->fields[i];
        c->log_layout.fields[i + 1].offset = (uint8_t)(layout->fields[i].offset + 4);
    }
}

void column_clear(struct column *c)
{
    struct spool *s = c->spool;
    queue_forget(&s->raw, c);
    queue_forget(&s->packed, c);
    for (size_t i = 0; i < c->chunks.len; i++) {
        struct column_chunk *k = c->chunks.at[i];
        /* The newest raw chunk is not in the queue and so not in its sum. */
        if (k->raw && i + 1 < c->chunks.len)
            s->raw.bytes -= raw_bytes(c);
        if (k->packed)
            s->packed.bytes -= k->packed_len;
        chunk_drop_raw(c, k);
        free(k->packed);
    }
    for (size_t i = 0; i < c->chunks.len; i++)
        free(c->chunks.at[i]);
    for (size_t i = 0; i < c->logs.len; i++) {
        if (c->logs.at[i])
            column_release(c->logs.at[i]);
        free(c->logs.at[i]);
    }
    c->logs.len = 0;
    c->chunks.len = 0;
    c->len = 0;
    c->tail = c->limit = NULL;
}

void column_release(struct column *c)
{
    if (c->spool)
        column_clear(c);
    vec_release(&c->chunks);
    vec_release(&c->logs);
    *c = (struct column){0};
}

static void own_chunks(struct column *c)
{
    for (size_t i = 0; i < c->chunks.len; i++)
        c->chunks.at[i]->owner = c;
}

void column_swap(struct column *a, struct column *b)
{
    struct column other = *a;
    *a = *b;
    *b = other;
    own_chunks(a);
    own_chunks(b);
}

/* Grows the first chunk until it has COLUMN_CHUNK elements. */
static int column_grow_first(struct column *c, struct err *e)
{
    size_t size = c->layout->element;
    size_t room = c->chunks.len ? (size_t)(c->limit - c->chunks.at[0]->raw) * 4 : 0;
    size_t most = raw_bytes(c);
    if (room < COLUMN_FIRST * size)
        room = COLUMN_FIRST * size;
    if (room > most)
        room = most;
    if (room == 0)
        return err_set(e, ERR_INPUT, "a column of elements without bytes");
    if (c->chunks.len == 0) {
        struct column_chunk *k = calloc(1, sizeof *k);
        if (!k || !vec_push(&c->chunks, k)) {
            free(k);
            return no_room(e);
        }
        k->owner = c;
    }
    struct column_chunk *k = c->chunks.at[0];
    uint8_t *raw = realloc(k->raw, room);
    if (!raw)
        return no_room(e);
    k->raw = raw;
    c->tail = raw + c->len * size;
    c->limit = raw + room;
    return 0;
}

/* Appends when the newest chunk is full or there is none. */
int column_append_slow(struct column *c, struct err *e)
{
    struct spool *s = c->spool;
    if (c->len < COLUMN_CHUNK)
        return column_grow_first(c, e);
    struct column_chunk *full = c->chunks.at[c->chunks.len - 1];
    /* The next chunk reuses its buffer, which is still in the processor's cache. */
    if (!c->patchable && full->raw && chunk_pack(s, full, e) != 0)
        return -1;
    struct column_chunk *k = calloc(1, sizeof *k);
    uint8_t *raw = slab_take(&s->buffers, raw_bytes(c));
    /* Queue last: a retried append must not queue a chunk twice. */
    if (!k || !raw || !vec_reserve(&c->chunks, c->chunks.len + 1) ||
        (c->patchable && queue_push(&s->raw, full, raw_bytes(c), e) != 0)) {
        free(k);
        if (raw)
            slab_give(&s->buffers, raw, raw_bytes(c));
        return no_room(e);
    }
    *k = (struct column_chunk){.raw = raw, .owner = c};
    c->chunks.at[c->chunks.len++] = k;
    c->tail = k->raw;
    c->limit = k->raw + raw_bytes(c);
    return spool_settle(s, e);
}

int column_patch_slow(struct column *c, uint64_t index, const void *element, struct err *e)
{
    size_t which = (size_t)(index / STRETCH);
    while (c->logs.len <= which) {
        if (!vec_push(&c->logs, NULL))
            return no_room(e);
    }
    if (!c->logs.at[which]) {
        struct column *log = malloc(sizeof *log);
        if (!log)
            return no_room(e);
        column_init(log, c->spool, &c->log_layout, false);
        c->logs.at[which] = log;
    }
    uint8_t *entry = column_append(c->logs.at[which], e);
    if (!entry)
        return -1;
    store_u32(entry, (uint32_t)(index % STRETCH));
    memcpy(entry + 4, element, c->layout->element);
    return 0;
}

/* ---- reading */

struct column_log {
    uint64_t which;
    size_t first[COLUMN_LOG_CHUNKS + 1]; /* entries of chunk i: [first[i], first[i + 1]) */
    uint8_t *entries;
};

static void log_free(struct column_log *l)
{
    if (l)
        free(l->entries);
    free(l);
}

/* One pass over a log: counts the entries per chunk, or distributes them to their chunks. */
static int log_pass(struct column *log, size_t *place, uint8_t *entries, struct err *e)
{
    struct column_reader r;
    size_t size = log->layout->element;
    struct err failed = {0};
    size_t n;
    column_reader_init(&r, log);
    for (const uint8_t *p; (p = column_reader_next(&r, &n, &failed));) {
        for (size_t i = 0; i < n; i++, p += size) {
            size_t at = place[load_u32(p) / COLUMN_CHUNK]++;
            if (entries)
                memcpy(entries + at * size, p, size);
        }
    }
    column_reader_release(&r);
    if (failed.code == ERR_NONE)
        return 0;
    if (e)
        *e = failed;
    return -1;
}

static struct column_log *log_load(struct column *c, uint64_t which, struct err *e)
{
    struct column *log = c->logs.at[which];
    struct column_log *l = calloc(1, sizeof *l);
    uint8_t *entries = malloc((size_t)log->len * log->layout->element + 1);
    size_t place[COLUMN_LOG_CHUNKS] = {0};
    if (!l || !entries) {
        no_room(e);
        goto fail;
    }
    l->which = which;
    l->entries = entries;
    entries = NULL;
    if (log_pass(log, place, NULL, e) != 0)
        goto fail;
    for (size_t i = 0; i < COLUMN_LOG_CHUNKS; i++) {
        l->first[i + 1] = l->first[i] + place[i];
        place[i] = l->first[i];
    }
    /* Entries keep their order within a chunk, so that the last overwrite wins. */
    if (log_pass(log, place, l->entries, e) != 0)
        goto fail;
    return l;
fail:
    free(entries);
    log_free(l);
    return NULL;
}

/* Applies the overwrites made since the chunk was packed. */
static int reader_apply_log(struct column_reader *r, size_t chunk, struct err *e)
{
    struct column *c = r->column;
    uint64_t which = chunk / COLUMN_LOG_CHUNKS;
    if (which >= c->logs.len || !c->logs.at[which])
        return 0;
    if (!r->log || r->log->which != which) {
        log_free(r->log);
        r->log = log_load(c, which, e);
        if (!r->log)
            return -1;
    }
    size_t size = c->layout->element, within = chunk % COLUMN_LOG_CHUNKS;
    const struct column_log *l = r->log;
    for (size_t i = l->first[within]; i < l->first[within + 1]; i++) {
        const uint8_t *entry = l->entries + i * (size + 4);
        memcpy(r->buffer + (load_u32(entry) & (COLUMN_CHUNK - 1)) * size, entry + 4, size);
    }
    return 0;
}

static int reader_unpack(struct column_reader *r, size_t chunk, struct err *e)
{
    struct column *c = r->column;
    const struct column_chunk *k = c->chunks.at[chunk];
    const uint8_t *packed = k->packed;
    if (!r->buffer && !(r->buffer = malloc(raw_bytes(c))))
        return no_room(e);
    if (!packed) {
        uint8_t *room = spool_scratch(c->spool, k->packed_len);
        if (!room)
            return no_room(e);
        if (spool_read(c->spool, room, k->packed_len, k->place, e) != 0)
            return -1;
        packed = room;
    }
    unpack_elements(c->layout, packed, COLUMN_CHUNK, r->buffer);
    return reader_apply_log(r, chunk, e);
}

void column_reader_init(struct column_reader *r, struct column *c)
{
    *r = (struct column_reader){.column = c};
}

void column_reader_release(struct column_reader *r)
{
    free(r->buffer);
    log_free(r->log);
    *r = (struct column_reader){0};
}

const void *column_reader_next(struct column_reader *r, size_t *n, struct err *e)
{
    struct column *c = r->column;
    *n = 0;
    if (r->next >= c->len)
        return NULL;
    size_t chunk = (size_t)(r->next / COLUMN_CHUNK);
    size_t within = (size_t)(r->next & (COLUMN_CHUNK - 1));
    const uint8_t *data = c->chunks.at[chunk]->raw;
    if (!data) {
        if (reader_unpack(r, chunk, e) != 0)
            return NULL;
        data = r->buffer;
    }
    size_t run = COLUMN_CHUNK - within;
    if (run > c->len - r->next)
        run = (size_t)(c->len - r->next);
    r->next += run;
    *n = run;
    if (c->spool->reading)
        c->spool->reading(c->spool->reading_ctx, run);
    return data + within * c->layout->element;
}

struct column_walk column_walk_part(struct column *c, uint64_t first, uint64_t n)
{
    struct column_walk w = {.size = c->layout ? c->layout->element : 0, .rest = n};
    column_reader_init(&w.reader, c);
    w.reader.next = first;
    return w;
}

void column_walk_end(struct column_walk *w)
{
    column_reader_release(&w->reader);
    w->left = 0;
    w->rest = 0;
}

const void *column_walk_on(struct column_walk *w, int *status, struct err *e)
{
    struct err failed = {0};
    if (*status == 0 && w->rest)
        w->at = column_reader_next(&w->reader, &w->left, &failed);
    if (failed.code != ERR_NONE) {
        *status = -1;
        if (e)
            *e = failed;
    }
    if (*status != 0 || !w->rest || !w->left) {
        column_walk_end(w);
        return NULL;
    }
    if (w->left > w->rest)
        w->left = (size_t)w->rest;
    w->rest -= w->left;
    return column_walk_next(w, status, e);
}

struct column_two column_walk_two(struct column_walk *first, struct column_walk *second,
                                  int *status, struct err *e)
{
    struct column_two both;
    both.first = column_walk_next(first, status, e);
    both.second = column_walk_next(second, status, e);
    if (both.first && both.second)
        return both;
    if ((both.first || both.second) && *status == 0)
        *status = err_set(e, ERR_INPUT, "a list ends early");
    column_walk_end(first);
    column_walk_end(second);
    return (struct column_two){NULL, NULL};
}
