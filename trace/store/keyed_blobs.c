#include "trace/store/keyed_blobs.h"

#include <stdlib.h>

void keyed_blobs_init(struct keyed_blobs *b, struct spool *spool)
{
    *b = (struct keyed_blobs){0};
    blobs_init(&b->blobs, spool);
}

void keyed_blobs_release(struct keyed_blobs *b)
{
    blobs_release(&b->blobs);
    vec_release(&b->list);
    map_release(&b->numbers);
}

int keyed_blobs_add(struct keyed_blobs *b, uint64_t key, struct view bytes, struct err *e)
{
    struct keyed_blob one = {.key = key};
    if (map_find(&b->numbers, key))
        return 0;
    if (bytes.len > UINT32_MAX)
        return err_set(e, ERR_INPUT, "code or source text of %zu bytes", bytes.len);
    if (blobs_add(&b->blobs, bytes.p, (uint32_t)bytes.len, &one.blob, e) != 0)
        return -1;
    uint64_t *number = map_add(&b->numbers, key, NULL);
    if (!number || !vec_push(&b->list, one))
        return err_no_memory(e, "code and source texts");
    *number = b->list.len - 1;
    return 0;
}

void keyed_blobs_reader_init(struct keyed_blobs_reader *r, struct keyed_blobs *b)
{
    *r = (struct keyed_blobs_reader){.blobs = b};
}

void keyed_blobs_reader_release(struct keyed_blobs_reader *r)
{
    free(r->buf);
    *r = (struct keyed_blobs_reader){0};
}

int keyed_blobs_next(struct keyed_blobs_reader *r, uint64_t *key, struct view *bytes, struct err *e)
{
    if (r->next == r->blobs->list.len)
        return 0;
    const struct keyed_blob *one = &r->blobs->list.at[r->next++];
    if (!r->buf || one->blob.size > r->cap) {
        free(r->buf);
        r->cap = (size_t)one->blob.size + 1;
        r->buf = malloc(r->cap);
        if (!r->buf)
            return err_no_memory(e, "code and source texts");
    }
    if (blobs_get(&r->blobs->blobs, &one->blob, r->buf, e) != 0)
        return -1;
    *key = one->key;
    *bytes = (struct view){r->buf, one->blob.size};
    return 1;
}
