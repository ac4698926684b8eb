#include "trace/filter/rekey.h"

#include <stddef.h>
#include <string.h>

#include "base/tempfile.h"

#define BATCH 64u

void rekey_init(struct rekey *r, const struct record_sink *next)
{
    *r = (struct rekey){.next = *next,
                        .strings = {.begin = STRING_KEYS_BEGIN, .next = STRING_KEYS_BEGIN},
                        .messages = {.begin = MESSAGE_KEYS_BEGIN, .next = MESSAGE_KEYS_BEGIN}};
    pageable_init(&r->pageable, tempfile_dir(NULL), REKEY_IN_MEMORY);
    r->strings.to.pageable = r->messages.to.pageable = &r->pageable;
}

void rekey_release(struct rekey *r)
{
    map_release(&r->strings.to);
    map_release(&r->messages.to);
    pageable_release(&r->pageable);
}

/* Assigns a new key to an element of `size` bytes. A repeated old key gets the same new key. */
static int put_new(struct rekey_table *t, uint64_t *key, uint64_t size, struct err *e)
{
    bool fresh;
    uint64_t *to = map_add(&t->to, *key, &fresh);
    if (!to)
        return err_no_memory(e, "the keys of a trace");
    if (fresh) {
        *to = t->next;
        t->next += size;
    }
    *key = *to;
    return 0;
}

/* A key that belongs to no element must not become the key of one. */
static void follow(const struct rekey_table *t, uint64_t *key)
{
    const uint64_t *to = map_find(&t->to, *key);
    if (to)
        *key = *to;
    else if (*key >= t->begin && *key < t->next)
        *key = 0;
}

static int rekey_one(struct rekey *r, enum record_type type, void *rec, struct err *e)
{
    struct rec_string *string = rec;
    struct rec_external_name *name = rec;
    switch (type) {
    case REC_STRING:
        return put_new(&r->strings, &string->key, string->text.len + 1, e);
    case REC_STRING_POINTER:
    case REC_THREAD_NAME:
        follow(&r->strings, &((struct rec_pair *)rec)->value);
        return 0;
    case REC_EXTERNAL_NAME:
        follow(&r->strings, &name->program_key);
        follow(&r->strings, &name->thread_key);
        return 0;
    case REC_MESSAGE:
        return put_new(&r->messages, &((struct rec_message *)rec)->key, MESSAGE_KEY_STEP, e);
    default: /* REC_THREAD_MESSAGE */
        follow(&r->messages, &((struct rec_id *)rec)->id);
        return 0;
    }
}

/* The bytes of a record of a type with keys; 0 for other types. */
static size_t keyed_size(enum record_type type)
{
    switch (type) {
    case REC_STRING:
        return sizeof(struct rec_string);
    case REC_STRING_POINTER:
    case REC_THREAD_NAME:
        return sizeof(struct rec_pair);
    case REC_EXTERNAL_NAME:
        return sizeof(struct rec_external_name);
    case REC_MESSAGE:
        return sizeof(struct rec_message);
    case REC_THREAD_MESSAGE:
        return sizeof(struct rec_id);
    default:
        return 0;
    }
}

static int rekey_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct rekey *r = ctx;
    size_t size = keyed_size(type);
    if (size == 0)
        return record_put(&r->next, type, recs, n, e);
    for (size_t done = 0; done < n;) {
        _Alignas(max_align_t) uint8_t batch[BATCH * sizeof(struct rec_message)];
        size_t part = n - done < BATCH ? n - done : BATCH;
        memcpy(batch, (const uint8_t *)recs + done * size, part * size);
        for (size_t i = 0; i < part; i++) {
            if (rekey_one(r, type, batch + i * size, e) == 0)
                continue;
            pageable_explain(&r->pageable, e);
            return -1;
        }
        if (record_put(&r->next, type, batch, part, e) != 0)
            return -1;
        done += part;
    }
    return 0;
}

struct record_sink rekey_sink(struct rekey *r)
{
    return (struct record_sink){.ctx = r, .put = rekey_put};
}
