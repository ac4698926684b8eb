#include <stdlib.h>

#include "trace/save/save_internal.h"

static uint64_t scattered(uint64_t key)
{
    key *= 0x9e3779b97f4a7c15u;
    return (key ^ key >> 32) * 0xd6e8feb86659fd93u;
}

static int compare_scattered(const void *a, const void *b)
{
    uint64_t x = scattered(((const struct rec_pair *)a)->key);
    uint64_t y = scattered(((const struct rec_pair *)b)->key);
    return x < y ? -1 : x > y;
}

/*
 * The order of lists that are maps in official tools, which write them in the order of their hash
 * tables. That takes up to twice as many bytes as the order of the keys. In the latter order, a
 * trace would grow when an official tool strips it.
 */
static void scatter(struct rec_pair *pairs, size_t n)
{
    qsort(pairs, n, sizeof *pairs, compare_scattered);
}

int save_map(struct saver *s, enum record_type list, enum record_type one, const struct map *m)
{
    if (put_count(s, list, m->count) != 0)
        return -1;
    if (m->count == 0)
        return 0;
    struct rec_pair *pairs = malloc(m->count * sizeof *pairs);
    if (!pairs)
        return err_no_memory(s->e, "saving");
    size_t n = 0, iter = 0;
    for (const struct map_slot *slot; (slot = map_next(m, &iter));)
        pairs[n++] = (struct rec_pair){slot->key, slot->value};
    scatter(pairs, n);
    int status = record_put(s->sink, one, pairs, n, s->e);
    free(pairs);
    return status;
}

int save_scattered(struct saver *s, struct rec_pair *pairs, size_t n,
                   int (*put_one)(struct saver *s, size_t number))
{
    int status = 0;
    scatter(pairs, n);
    for (size_t i = 0; i < n && status == 0; i++)
        status = put_one(s, (size_t)pairs[i].value);
    free(pairs);
    return status;
}
