#include "trace/filter/name_table.h"

#include "base/tempfile.h"
#include "trace/file/record_takers.h"

void name_table_init(struct name_table *t)
{
    *t = (struct name_table){0};
    strings_init(&t->strings);
    pageable_init(&t->pageable, tempfile_dir(NULL), STRINGS_IN_MEMORY);
    strings_use(&t->strings, &t->pageable);
    t->keys.pageable = &t->pageable;
}

void name_table_release(struct name_table *t)
{
    strings_release(&t->strings);
    map_release(&t->keys);
    pageable_release(&t->pageable);
}

/* Of several strings with one key the first counts, as in official readers. */
TAKE_EACH(keep_string, struct name_table *t, string, s)
{
    bool fresh;
    uint32_t number = strings_append(&t->strings, s->text, e);
    if (!number)
        return -1;
    uint64_t *value = map_add(&t->keys, s->key, &fresh);
    if (!value)
        return err_no_memory(e, "the strings of a trace");
    if (fresh)
        *value = number;
    if (s->key > t->greatest)
        t->greatest = s->key;
    return 0;
}

TAKE_EACH(keep_pointer, struct name_table *t, pair, pair)
{
    const uint64_t *number = map_find(&t->keys, pair->value);
    return number ? strings_bind(&t->strings, pair->key, (uint32_t)*number, e) : 0;
}

static const record_takers takers = {
    [REC_STRING] = keep_string,
    [REC_STRING_POINTER] = keep_pointer,
};

void name_table_wanted(bool *wanted)
{
    records_wanted(takers, wanted);
}

int name_table_put(struct name_table *t, enum record_type type, const void *recs, size_t n,
                   struct err *e)
{
    int status = records_take(takers, t, type, recs, n, e);
    if (status != 0)
        pageable_explain(&t->pageable, e);
    return status;
}

struct view name_table_text(const struct name_table *t, const struct rec_string_ref *ref)
{
    uint32_t number = 0;
    if (ref->flags == STRING_REF_INDEX && ref->value < STRINGS_MAX)
        number = (uint32_t)ref->value + 1;
    else if (ref->flags == STRING_REF_POINTER)
        number = strings_at_pointer(&t->strings, ref->value);
    return strings_get(&t->strings, number);
}

/* Keys are addresses or small numbers: few files have a key above the first new one. */
uint64_t name_table_new_key(struct name_table *t, struct err *e)
{
    bool fresh = false;
    uint64_t key = (UINT64_C(1) << 62) + t->keys.count;
    if (t->greatest < UINT64_C(1) << 62)
        return key + ++t->new_keys;
    while (!fresh) {
        if (!map_add(&t->keys, ++key, &fresh)) {
            err_no_memory(e, "the strings of a trace");
            return 0;
        }
    }
    return key;
}
