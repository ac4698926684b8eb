#include "analysis/csvexport/hash_order.h"

#include <stdlib.h>

#define FIRST_SIZE ((size_t)8)
#define FIRST_STEP 32u /* a mark has five bits of the hash below the distance */
#define FIRST_MULTIPLIER UINT64_C(0xc4ceb9fe1a85ec53)
#define ATTEMPTS 256
#define SIZE_MAX_MODELLED ((size_t)1 << 26) /* far more keys than any trace has */

struct spot {
    size_t at;
    unsigned mark;
};

static size_t allowed(size_t homes)
{
    return homes * 80 / 100;
}

static int lay_out(struct hash_order *h, size_t homes, struct err *e)
{
    size_t beyond = allowed(homes) < 255 ? allowed(homes) : 255;
    h->keys = NULL;
    h->marks = NULL;
    h->slots = 0;
    if (homes > SIZE_MAX_MODELLED)
        return err_set(e, ERR_INPUT, "numbers of threads or source locations that all collide");
    h->homes = homes;
    h->slots = homes + beyond;
    h->count = 0;
    h->count_max = allowed(homes);
    h->step = FIRST_STEP;
    h->shift = 0;
    h->keys = malloc(h->slots * sizeof *h->keys);
    h->marks = calloc(h->slots + 1, 1);
    return h->keys && h->marks ? 0 : err_no_memory(e, "an order of rows");
}

int hash_order_init(struct hash_order *h, size_t reserved, struct err *e)
{
    *h = (struct hash_order){.multiplier = FIRST_MULTIPLIER};
    size_t homes = FIRST_SIZE;
    if (reserved == 0)
        return 0;
    while (allowed(homes) < reserved)
        homes *= 2;
    return lay_out(h, homes, e);
}

void hash_order_release(struct hash_order *h)
{
    free(h->keys);
    free(h->marks);
    *h = (struct hash_order){0};
}

static struct spot home_of(const struct hash_order *h, uint64_t key)
{
    uint64_t x = key;
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= h->multiplier;
    x ^= x >> 33;
    return (struct spot){(size_t)(x >> 5) & (h->homes - 1),
                         h->step + ((unsigned)(x & (FIRST_STEP - 1)) >> h->shift)};
}

static void step_on(const struct hash_order *h, struct spot *s)
{
    s->at++;
    s->mark += h->step;
}

/* Inserts a new key before the slot `s`. False if the table has no room for it. */
static bool place(struct hash_order *h, struct spot s, uint64_t key)
{
    size_t end = s.at;
    while (end < h->slots && h->marks[end] != 0)
        end++;
    if (end >= h->slots || s.mark > 255)
        return false;
    if (s.mark + h->step > 255)
        h->count_max = 0; /* the next key enlarges the marks */
    for (size_t i = end; i > s.at; i--) {
        h->keys[i] = h->keys[i - 1];
        h->marks[i] = (uint8_t)(h->marks[i - 1] + h->step);
        if (h->marks[i] + h->step > 255)
            h->count_max = 0;
    }
    h->keys[s.at] = key;
    h->marks[s.at] = (uint8_t)s.mark;
    h->count++;
    return true;
}

/* Gives the distance in the marks one more bit, and the hash one less. */
static bool widen_marks(struct hash_order *h)
{
    if (h->step <= 2)
        return false;
    h->step >>= 1;
    h->shift++;
    for (size_t i = 0; i < h->slots; i++)
        h->marks[i] >>= 1;
    h->count_max = allowed(h->homes);
    return true;
}

static bool move_key(struct hash_order *h, uint64_t key)
{
    if (h->count_max == 0 && !widen_marks(h))
        return false;
    struct spot s = home_of(h, key);
    while (s.at < h->slots && s.mark <= h->marks[s.at])
        step_on(h, &s);
    return s.at < h->slots && place(h, s, key);
}

static int rebuild(struct hash_order *h, size_t homes, struct err *e)
{
    struct hash_order old = *h;
    int status = lay_out(h, homes, e);
    for (size_t i = 0; status == 0 && i < old.slots; i++) {
        if (old.marks[i] != 0 && !move_key(h, old.keys[i]))
            status = err_set(e, ERR_INPUT, "numbers of threads that all collide");
    }
    free(old.keys);
    free(old.marks);
    return status;
}

static int grow(struct hash_order *h, struct err *e)
{
    if (h->homes == 0)
        return lay_out(h, FIRST_SIZE, e);
    if (h->count < allowed(h->homes) && widen_marks(h))
        return 0;
    if (h->count * 2 < allowed(h->homes)) {
        h->multiplier += UINT64_C(0xc4ceb9fe1a85ec54);
        return rebuild(h, h->homes, e);
    }
    return rebuild(h, h->homes * 2, e);
}

int hash_order_add(struct hash_order *h, uint64_t key, bool *fresh, struct err *e)
{
    if (fresh)
        *fresh = false;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (h->homes > 0) {
            struct spot s = home_of(h, key);
            while (s.mark < h->marks[s.at])
                step_on(h, &s);
            for (; s.at < h->slots && s.mark == h->marks[s.at]; step_on(h, &s)) {
                if (h->keys[s.at] == key)
                    return 0;
            }
            if (h->count < h->count_max && place(h, s, key)) {
                if (fresh)
                    *fresh = true;
                return 0;
            }
        }
        if (grow(h, e) != 0)
            return -1;
    }
    return err_set(e, ERR_INPUT, "numbers of threads or source locations that all collide");
}

bool hash_order_next(const struct hash_order *h, size_t *iter, uint64_t *key)
{
    while (*iter < h->slots && h->marks[*iter] == 0)
        (*iter)++;
    if (*iter >= h->slots)
        return false;
    *key = h->keys[(*iter)++];
    return true;
}
