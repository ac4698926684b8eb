/* Threads and all named things: their new numbers and names, which distinguish programs. */

#include <inttypes.h>
#include <stdio.h>

#include "trace/merge/merge_internal.h"

/* The name of another program's base frame set. */
#define BASE_FRAMES "Frame"

/* The section category of an input that gave it no name. */
#define NO_CATEGORY "sections"

/* ---- names that occur in more than one input */

enum { SEVERAL = UINT32_MAX };

/* name → 1 + the input that has it, or SEVERAL. */
static int find_clashes(const struct merge *m, enum merge_kind kind, struct map *owners,
                        struct err *e)
{
    for (size_t i = 0; i < m->n; i++) {
        const merge_named_list *list = &m->order[i]->named[kind];
        for (size_t k = 0; k < list->len; k++) {
            bool fresh;
            if (list->at[k].name == 0)
                continue;
            uint64_t *owner = map_add(owners, list->at[k].name, &fresh);
            if (!owner)
                return err_no_memory(e, "names");
            *owner = fresh || *owner == i + 1 ? i + 1 : SEVERAL;
        }
    }
    return 0;
}

static int name_things(struct merge *m, enum merge_kind kind, struct err *e)
{
    struct map owners = {.pageable = &m->pageable};
    int status = find_clashes(m, kind, &owners, e);
    for (size_t i = 0; i < m->n && status == 0; i++) {
        struct merge_input *in = m->order[i];
        merge_named_list *list = &in->named[kind];
        for (size_t k = 0; k < list->len && status == 0; k++) {
            struct merge_named *named = &list->at[k];
            const uint64_t *owner = map_find(&owners, named->name);
            named->new_name = named->name;
            if (!owner || *owner != SEVERAL)
                continue;
            named->new_name = merge_labelled(m, in, strings_get(&m->strings, named->name), e);
            status = named->new_name ? 0 : -1;
        }
    }
    map_release(&owners);
    return status;
}

/* ---- keys: pointers to names, numbers */

/* A renamed thing gets a new pointer, to which no text of an input is bound. */
static int key_by_pointer(struct merge *m, struct merge_input *in, struct merge_named *named,
                          struct err *e)
{
    if (named->new_name == named->name) {
        named->new_key = named->key;
        return merge_pointer(in, &named->new_key, e);
    }
    named->new_key = merge_new_pointer(m, named->new_name, e);
    return named->new_key ? 0 : -1;
}

/* The base set of one input stays the base set; those of the others become named sets. */
static int key_frame_set(struct merge *m, struct merge_input *in, struct merge_named *named,
                         struct err *e)
{
    if (named->key != 0)
        return key_by_pointer(m, in, named, e);
    named->new_key = 0;
    if (in == m->base)
        return 0;
    named->new_name = merge_labelled(m, in, view_of(BASE_FRAMES), e);
    if (!named->new_name)
        return -1;
    named->new_key = merge_new_pointer(m, named->new_name, e);
    return named->new_key ? 0 : -1;
}

/* CPU usage plots have no name, and their key is no pointer. */
static int key_plot(struct merge *m, struct merge_input *in, struct merge_named *named,
                    struct err *e)
{
    return named->key == 0 ? 0 : key_by_pointer(m, in, named, e);
}

static int key_things(struct merge *m, enum merge_kind kind,
                      int (*key)(struct merge *, struct merge_input *, struct merge_named *,
                                 struct err *),
                      struct err *e)
{
    for (size_t i = 0; i < m->n; i++) {
        merge_named_list *list = &m->order[i]->named[kind];
        for (size_t k = 0; k < list->len; k++) {
            if (key(m, m->order[i], &list->at[k], e) != 0)
                return -1;
        }
    }
    return 0;
}

/* ---- pools */

/*
 * The input whose default pool stays the default: the first that used it, else the first that has
 * it.
 */
static const struct merge_input *default_pool_owner(const struct merge *m)
{
    const struct merge_input *owner = NULL;
    for (size_t i = 0; i < m->n; i++) {
        const merge_named_list *list = &m->order[i]->named[KIND_POOL];
        for (size_t k = 0; k < list->len; k++) {
            if (list->at[k].key != 0)
                continue;
            if (list->at[k].n > 0)
                return m->order[i];
            if (!owner)
                owner = m->order[i];
        }
    }
    return owner;
}

/* Another input's default pool is dropped if empty, and otherwise gets a name. */
static int key_default_pool(struct merge *m, struct merge_input *in, struct merge_named *pool,
                            const struct merge_input *owner, struct err *e)
{
    pool->new_key = 0;
    if (in == owner)
        return 0;
    pool->dropped = pool->n == 0;
    if (pool->dropped)
        return 0;
    pool->new_name = merge_labelled(m, in, view_of("default"), e);
    if (!pool->new_name)
        return -1;
    pool->new_key = merge_new_pointer(m, pool->new_name, e);
    return pool->new_key ? 0 : -1;
}

static int plan_pools(struct merge *m, struct err *e)
{
    const struct merge_input *owner = default_pool_owner(m);
    if (name_things(m, KIND_POOL, e) != 0)
        return -1;
    for (size_t i = 0; i < m->n; i++) {
        struct merge_input *in = m->order[i];
        merge_named_list *list = &in->named[KIND_POOL];
        for (size_t k = 0; k < list->len; k++) {
            struct merge_named *pool = &list->at[k];
            int status = pool->key == 0 ? key_default_pool(m, in, pool, owner, e)
                                        : key_by_pointer(m, in, pool, e);
            if (status != 0)
                return -1;
            m->pools.n += !pool->dropped;
            m->pools.events += pool->n;
        }
    }
    return 0;
}

/* ---- locks and section categories: numbers of 32 and 16 bits */

static int plan_numbers(struct merge *m, enum merge_kind kind, uint64_t max, const char *what,
                        struct err *e)
{
    struct map used = {.pageable = &m->pageable};
    uint64_t next = 1;
    int status = 0;
    for (size_t i = 0; i < m->n && status == 0; i++) {
        merge_named_list *list = &m->order[i]->named[kind];
        for (size_t k = 0; k < list->len && status == 0; k++) {
            struct merge_named *named = &list->at[k];
            bool fresh = false;
            /* Duplicates within an input are its reader's concern and stay unchanged. */
            for (named->new_key = named->key; m->n > 1 && !fresh && status == 0;) {
                if (used.count > max)
                    status = err_set(e, ERR_INPUT, "more %s than a trace can hold", what);
                else if (!map_add(&used, named->new_key, &fresh))
                    status = err_no_memory(e, "names");
                else if (!fresh)
                    named->new_key = next++ & max;
            }
        }
    }
    map_release(&used);
    return status;
}

/* Sections without a category must not end up in another program's category. */
static int name_categories(struct merge *m, struct err *e)
{
    for (size_t i = 1; i < m->n; i++) {
        merge_named_list *list = &m->order[i]->named[KIND_CATEGORY];
        for (size_t k = 0; k < list->len; k++) {
            struct merge_named *named = &list->at[k];
            if (named->name != 0)
                continue;
            named->new_name = merge_labelled(m, m->order[i], view_of(NO_CATEGORY), e);
            if (!named->new_name)
                return -1;
        }
    }
    return 0;
}

/* ---- threads */

static int number_threads(struct merge_input *in, struct err *e)
{
    for (size_t i = 0; i < in->local_threads.len; i++) {
        uint64_t id = in->local_threads.at[i];
        if (merge_thread(in, &id, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < in->external_threads.len; i++) {
        uint64_t id = in->external_threads.at[i];
        if (merge_thread(in, &id, e) != 0)
            return -1;
    }
    return 0;
}

static int add_thread_name(struct merge *m, struct merge_input *in, uint64_t id, struct view text,
                           struct err *e)
{
    uint32_t number =
        m->n > 1 ? merge_labelled(m, in, text, e) : strings_intern(&m->strings, text, e);
    if (!number || merge_thread(in, &id, e) != 0)
        return -1;
    return pageable_push(&m->pageable, &m->thread_names, (struct rec_pair){id, number})
               ? 0
               : err_no_memory(e, "names");
}

/* A thread without a name is displayed by its number, which does not identify its program. */
static int name_threads(struct merge *m, struct merge_input *in, struct err *e)
{
    char text[24];
    for (size_t i = 0; i < in->thread_names.len; i++) {
        const struct rec_pair *r = &in->thread_names.at[i];
        if (add_thread_name(m, in, r->key, strings_get(&m->strings, (uint32_t)r->value), e) != 0)
            return -1;
    }
    for (size_t i = 0; i < in->local_threads.len && m->n > 1; i++) {
        uint64_t id = in->local_threads.at[i];
        if (id == 0 || map_find(&in->named_threads, id))
            continue;
        snprintf(text, sizeof text, "%" PRIu64, id);
        if (add_thread_name(m, in, id, view_of(text), e) != 0)
            return -1;
    }
    for (size_t i = 0; i < in->external_names.len; i++) {
        struct rec_external_name r = in->external_names.at[i];
        if (merge_thread(in, &r.id, e) != 0)
            return -1;
        if (!pageable_push(&m->pageable, &m->external_names, r))
            return err_no_memory(e, "names");
    }
    return 0;
}

/* The 16-bit thread numbers used by events. */
static int plan_table(struct merge_input *in, const merge_id_list *ids, struct map *numbers,
                      merge_id_list *table, merge_number_list *out, struct err *e)
{
    for (size_t i = 0; i < ids->len; i++) {
        uint64_t id = ids->at[i];
        bool fresh;
        if (merge_thread(in, &id, e) != 0)
            return -1;
        uint64_t *number = map_add(numbers, id, &fresh);
        if (!number)
            return err_no_memory(e, "names");
        if (fresh) {
            *number = table->len;
            if (!pageable_push(&in->m->pageable, table, id))
                return err_no_memory(e, "names");
        }
        if (*number > UINT16_MAX)
            return err_set(e, ERR_INPUT,
                           "the inputs have more than 65536 threads in all; a trace cannot");
        if (!pageable_push(&in->m->pageable, out, (uint16_t)*number))
            return err_no_memory(e, "names");
    }
    return 0;
}

static int plan_threads(struct merge *m, struct err *e)
{
    struct map local = {0}, external = {0};
    int status = 0;
    for (size_t i = 0; i < m->n && status == 0; i++) {
        struct merge_input *in = m->order[i];
        status = number_threads(in, e);
        if (status == 0)
            status = name_threads(m, in, e);
        if (status == 0)
            status =
                plan_table(in, &in->local_threads, &local, &m->local_threads, &in->local_map, e);
        if (status == 0)
            status = plan_table(in, &in->external_threads, &external, &m->external_threads,
                                &in->external_map, e);
    }
    map_release(&local);
    map_release(&external);
    return status;
}

/* ---- source files */

/* Only an artificial trace has that many files of one path. */
#define PATHS_TRIED 8u

/* The number of "PATH (PROGRAM)" for a path's number; 0 with `e` on an error. */
static uint32_t labelled_path(struct merge *m, const struct merge_input *in, uint32_t number,
                              struct err *e)
{
    struct buf path = {0};
    struct view old = strings_get(&m->aside, number), label = strings_get(&m->aside, in->label);
    buf_put(&path, old.p, old.len);
    buf_puts(&path, " (");
    buf_put(&path, label.p, label.len);
    buf_puts(&path, ")");
    uint32_t made = 0;
    if (path.failed)
        err_no_memory(e, "names");
    else
        made = strings_intern(&m->aside, (struct view){(const char *)path.data, path.len}, e);
    buf_release(&path);
    return made;
}

/*
 * Equal files are kept once. A file of equal path and other content gets another path, which may
 * also be taken.
 */
static int plan_file(struct merge *m, const struct merge_input *in, struct merge_file *f,
                     struct map *contents, struct err *e)
{
    uint32_t path = f->path;
    for (unsigned tries = 0;; tries++) {
        bool fresh;
        uint64_t *content = map_add(contents, path, &fresh);
        if (!content)
            return err_no_memory(e, "names");
        if (fresh)
            *content = f->content;
        if (fresh || m->n == 1 || tries == PATHS_TRIED) {
            f->new_path = path;
            m->files++;
            return 0;
        }
        if (*content == f->content)
            return 0;
        path = labelled_path(m, in, path, e);
        if (!path)
            return -1;
    }
}

static int plan_files(struct merge *m, struct err *e)
{
    struct map contents = {.pageable = &m->pageable};
    int status = 0;
    for (size_t i = 0; i < m->n && status == 0; i++) {
        struct merge_input *in = m->order[i];
        for (size_t k = 0; k < in->files.len && status == 0; k++)
            status = plan_file(m, in, &in->files.at[k], &contents, e);
    }
    map_release(&contents);
    return status;
}

int merge_plan_names(struct merge *m, struct err *e)
{
    if (name_things(m, KIND_FRAME_SET, e) != 0 ||
        key_things(m, KIND_FRAME_SET, key_frame_set, e) != 0 || name_things(m, KIND_PLOT, e) != 0 ||
        key_things(m, KIND_PLOT, key_plot, e) != 0 || plan_pools(m, e) != 0)
        return -1;
    if (name_things(m, KIND_LOCK, e) != 0 ||
        plan_numbers(m, KIND_LOCK, UINT32_MAX, "locks", e) != 0 ||
        name_things(m, KIND_CATEGORY, e) != 0 || name_categories(m, e) != 0 ||
        plan_numbers(m, KIND_CATEGORY, UINT16_MAX, "section categories", e) != 0)
        return -1;
    if (name_things(m, KIND_CONTEXT, e) != 0)
        return -1;
    return plan_threads(m, e) != 0 ? -1 : plan_files(m, e);
}
