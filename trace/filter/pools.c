#include "trace/filter/pools.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/format.h"
#include "base/map.h"
#include "base/vec.h"
#include "trace/filter/name_table.h"

#define DEFAULT_NAME "default"

struct wanted_name {
    struct view text;
    bool is_key; /* the name parses as a number */
    uint64_t key;
    bool found;
};

struct pools {
    struct record_sink next;
    bool drop;
    VEC(struct wanted_name) names;
    /* first pass */
    struct name_table table;
    struct map kept;  /* keys of the kept pools */
    struct buf known; /* names of all pools, for a message */
    uint64_t left;    /* pools still to come */
    bool chosen;
    struct rec_pools totals; /* of the kept pools */
    /* second pass */
    bool keeping; /* for the current pool */
};

static int add_name(struct pools *p, struct view text, struct err *e)
{
    char *end;
    struct wanted_name name = {.text = text};
    struct buf copy = {0};
    if (text.len > 2 && text.p[0] == '0' && text.p[1] == 'x') {
        buf_put(&copy, text.p, text.len);
        errno = 0;
        name.key = strtoull(buf_str(&copy), &end, 16);
        name.is_key = errno == 0 && *end == 0;
        buf_release(&copy);
    }
    if (vec_push(&p->names, name))
        return 0;
    return err_no_memory(e, "names of pools");
}

static int add_names(struct pools *p, const char *list, struct err *e)
{
    for (;;) {
        size_t len = strcspn(list, ",");
        if (len == 0)
            return err_set(e, ERR_USAGE, "an empty name of a pool");
        if (add_name(p, (struct view){list, len}, e) != 0)
            return -1;
        if (list[len] == 0)
            return 0;
        list += len + 1;
    }
}

int pools_open(struct pools **out, const struct pools_options *options, struct err *e)
{
    struct pools *p = calloc(1, sizeof *p);
    *out = p;
    if (!p)
        return err_no_memory(e, "a choice of pools");
    p->drop = options->drop;
    name_table_init(&p->table);
    for (size_t i = 0; i < options->n; i++) {
        if (add_names(p, options->names[i], e) != 0) {
            pools_free(p);
            *out = NULL;
            return -1;
        }
    }
    return 0;
}

void pools_free(struct pools *p)
{
    if (!p)
        return;
    vec_release(&p->names);
    name_table_release(&p->table);
    map_release(&p->kept);
    buf_release(&p->known);
    free(p);
}

/* ---- first pass */

/* A pool's name; empty for a pool without one. */
static struct view pool_name(const struct pools *p, uint64_t key)
{
    if (key == 0)
        return view_of(DEFAULT_NAME);
    return strings_get(&p->table.strings, strings_at_pointer(&p->table.strings, key));
}

static void remember_pool(struct pools *p, uint64_t key)
{
    struct view name = pool_name(p, key);
    if (p->known.len > 400)
        return;
    buf_printf(&p->known, "%s", p->known.len ? ", " : "");
    if (name.len > 0)
        format_terminal(&p->known, (struct view){name.p, name.len < 60 ? name.len : 60});
    else
        buf_printf(&p->known, "0x%llx", (unsigned long long)key);
}

static int choose_pool(struct pools *p, const struct rec_pool *pool, struct err *e)
{
    struct view name = pool_name(p, pool->key);
    bool named = false;
    remember_pool(p, pool->key);
    for (size_t i = 0; i < p->names.len; i++) {
        struct wanted_name *w = &p->names.at[i];
        bool fits =
            (name.len > 0 && view_equal(w->text, name)) || (w->is_key && w->key == pool->key);
        w->found |= fits;
        named |= fits;
    }
    if (named != p->drop) {
        if (!map_add(&p->kept, pool->key, NULL))
            return err_no_memory(e, "a choice of pools");
        p->totals.n++;
        p->totals.events += pool->events;
    }
    return 0;
}

static int choose_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct pools *p = ctx;
    if (p->chosen)
        return -1;
    if (type == REC_POOL)
        return choose_pool(p, recs, e);
    if (type == REC_POOLS) {
        p->left = ((const struct rec_pools *)recs)->n;
        p->chosen = p->left == 0;
    } else if (type == REC_POOL_END) {
        p->chosen = --p->left == 0;
    } else {
        return name_table_put(&p->table, type, recs, n, e);
    }
    return p->chosen ? -1 : 0;
}

struct record_sink pools_choose_sink(struct pools *p)
{
    return (struct record_sink){.ctx = p, .put = choose_put};
}

void pools_choose_wanted(bool *wanted)
{
    bool needed[REC_TYPE_COUNT] = {[REC_POOLS] = true, [REC_POOL] = true, [REC_POOL_END] = true};
    name_table_wanted(needed);
    for (unsigned i = 0; i < REC_TYPE_COUNT; i++)
        wanted[i] &= needed[i];
}

bool pools_chosen(const struct pools *p)
{
    return p->chosen;
}

int pools_check(struct pools *p, struct err *e)
{
    for (size_t i = 0; i < p->names.len; i++) {
        const struct wanted_name *w = &p->names.at[i];
        if (!w->found)
            return err_set(e, ERR_USAGE, "no pool is named \"%.*s\"; there is: %.300s",
                           (int)(w->text.len < 60 ? w->text.len : 60), w->text.p,
                           p->known.len ? buf_str(&p->known) : "none");
    }
    return 0;
}

/* ---- second pass */

static int put_pools(struct pools *p, struct err *e)
{
    struct rec_pools totals = p->totals;
    struct rec_pool empty = {0};
    struct rec_pool_end end = {.low = UINT64_MAX};
    bool has_default = map_find(&p->kept, 0) != NULL;
    totals.n += !has_default;
    if (record_put(&p->next, REC_POOLS, &totals, 1, e) != 0)
        return -1;
    if (has_default)
        return 0;
    if (record_put(&p->next, REC_POOL, &empty, 1, e) != 0)
        return -1;
    return record_put(&p->next, REC_POOL_END, &end, 1, e);
}

static int pools_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct pools *p = ctx;
    if (type == REC_POOLS)
        return put_pools(p, e);
    if (type == REC_POOL)
        p->keeping = map_find(&p->kept, ((const struct rec_pool *)recs)->key) != NULL;
    if ((type == REC_POOL || type == REC_POOL_END || type == REC_MEMORY_EVENT) && !p->keeping)
        return 0;
    return record_put(&p->next, type, recs, n, e);
}

struct record_sink pools_sink(struct pools *p, const struct record_sink *next)
{
    p->next = *next;
    return (struct record_sink){.ctx = p, .put = pools_put};
}
