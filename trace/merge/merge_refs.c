/* New numbers for threads, pointers and strings of the inputs. */

#include <string.h>

#include "base/buf.h"
#include "trace/merge/merge_internal.h"

/* Generated numbers begin where no program has memory and no system has threads. */
#define MADE_UP (UINT64_C(1) << 62)

/* Thread ids of today's systems have 32 bits, those of fibers one more. */
#define THREAD_TAG_SHIFT 40

/* Tries a few tags, which keep the rest of a number readable. */
#define TAGS_TRIED 64u

/* The next candidate for a number that is taken. */
static uint64_t next_choice(struct merge_ids *ids, uint64_t key, unsigned shift, uint64_t tries)
{
    return tries <= TAGS_TRIED ? key ^ tries << shift : MADE_UP + ++ids->made_up;
}

int merge_unused(struct map *map, struct merge_ids *ids, uint64_t key, unsigned shift,
                 uint64_t *out, struct err *e)
{
    bool fresh;
    uint64_t *value = map_add(map, key, &fresh);
    if (!value)
        return err_no_memory(e, "numbers of the inputs");
    *out = *value;
    if (!fresh)
        return 0;
    uint64_t choice = key;
    for (uint64_t tries = 1;; tries++) {
        if (!map_add(&ids->used, choice, &fresh))
            return err_no_memory(e, "numbers of the inputs");
        if (fresh)
            break;
        choice = next_choice(ids, key, shift, tries);
    }
    *value = *out = choice;
    return 0;
}

/* 0 means no thread in every input. */
int merge_thread(struct merge_input *in, uint64_t *id, struct err *e)
{
    if (*id == 0 || in->m->n == 1)
        return 0;
    return merge_unused(&in->threads, &in->m->thread_ids, *id, THREAD_TAG_SHIFT, id, e);
}

int merge_pointer(struct merge_input *in, uint64_t *pointer, struct err *e)
{
    if (*pointer == 0 || in->m->n == 1)
        return 0;
    return merge_unused(&in->pointer_map, &in->m->pointer_ids, *pointer, 48, pointer, e);
}

int merge_ref(struct merge_input *in, struct rec_string_ref *ref, struct err *e)
{
    if (ref->flags == STRING_REF_POINTER)
        return merge_pointer(in, &ref->value, e);
    if (ref->flags == STRING_REF_INDEX && ref->value < in->strings.len)
        ref->value = in->strings.at[ref->value] - UINT64_C(1);
    return 0;
}

uint32_t merge_labelled(struct merge *m, const struct merge_input *in, struct view text,
                        struct err *e)
{
    struct buf b = {0};
    struct view label = strings_get(&m->aside, in->label);
    buf_put(&b, text.p, text.len);
    buf_puts(&b, " (");
    buf_put(&b, label.p, label.len);
    buf_puts(&b, ")");
    uint32_t number = 0;
    if (b.failed)
        err_no_memory(e, "names");
    else
        number = strings_intern(&m->strings, (struct view){(const char *)b.data, b.len}, e);
    buf_release(&b);
    return number;
}

uint64_t merge_new_pointer(struct merge *m, uint32_t text, struct err *e)
{
    bool fresh = false;
    uint64_t pointer = 0;
    while (!fresh) {
        pointer = MADE_UP + ++m->pointer_ids.made_up;
        if (!map_add(&m->pointer_ids.used, pointer, &fresh))
            goto no_memory;
    }
    if (pageable_push(&m->pageable, &m->pointers, (struct merge_pointer){pointer, text}))
        return pointer;
no_memory:
    err_no_memory(e, "names");
    return 0;
}
