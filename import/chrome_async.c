#include "import/chrome_async.h"

#include <stdio.h>
#include <xxhash.h>

void chrome_async_release(struct chrome_async *a)
{
    vec_release(&a->processes);
    vec_release(&a->tracks);
    map_release(&a->process_numbers);
    map_release(&a->tracks_of);
    map_release(&a->free);
    map_release(&a->active);
}

static int number_process(struct chrome_async *a, const struct chrome_id *id, uint32_t *number,
                          struct err *e)
{
    const uint64_t words[] = {id->number, id->text, id->there};
    bool fresh;
    uint64_t *known = map_add(&a->process_numbers, XXH3_64bits(words, sizeof words), &fresh);
    if (!known || (fresh && !vec_push(&a->processes, *id)))
        return err_no_memory(e, "asynchronous zones");
    if (fresh)
        *known = a->processes.len - 1;
    *number = (uint32_t)*known;
    return 0;
}

/* An id is scoped by its category and scope, an id2.local also by its process. */
int chrome_async_key(struct chrome_async *a, struct chrome_ids *ids, const struct chrome_event *ev,
                     uint64_t *key, uint32_t *process, struct err *e)
{
    static const enum chrome_field fields[] = {FIELD_LOCAL_ID, FIELD_GLOBAL_ID, FIELD_ID};
    struct view id = {"", 0};
    struct chrome_id pid;
    size_t which = 0;
    *key = 0;
    *process = 0;
    for (; which < 3 && id.len == 0; which++)
        id = chrome_field_text(ev, fields[which]);
    if (id.len == 0)
        return 0;
    if (chrome_id_of(ids, ev, FIELD_PROCESS, &pid, e) != 0 ||
        number_process(a, &pid, process, e) != 0)
        return -1;
    bool local = fields[which - 1] == FIELD_LOCAL_ID;
    struct view category = chrome_field_text(ev, FIELD_CATEGORY);
    struct view scope = chrome_field_text(ev, FIELD_SCOPE);
    const uint64_t words[] = {local ? *process + 1ull : 0, XXH3_64bits(id.p, id.len),
                              XXH3_64bits(category.p, category.len),
                              XXH3_64bits(scope.p, scope.len)};
    *key = XXH3_64bits(words, sizeof words) | 1;
    return 0;
}

static int new_track(struct chrome_async *a, struct chrome_ids *ids, uint32_t process,
                     struct err *e)
{
    char name[64];
    uint64_t *n = map_add(&a->tracks_of, process, NULL);
    if (!n)
        return err_no_memory(e, "asynchronous zones");
    snprintf(name, sizeof name, "async track %llu", (unsigned long long)++*n);
    struct chrome_track t = {.process = process};
    if (chrome_track_thread(ids, &a->processes.at[process], name, &t.thread, e) != 0)
        return -1;
    return vec_push(&a->tracks, t) ? 0 : err_no_memory(e, "asynchronous zones");
}

int chrome_async_begin(struct chrome_async *a, struct chrome_ids *ids, uint64_t key,
                       uint32_t process, uint64_t *thread, struct err *e)
{
    bool fresh = false;
    uint64_t *track = map_add(&a->active, key, &fresh);
    uint64_t *unused = fresh ? map_add(&a->free, process, NULL) : NULL;
    if (!track || (fresh && !unused))
        return err_no_memory(e, "asynchronous zones");
    if (fresh && *unused) {
        *track = *unused - 1;
        *unused = a->tracks.at[*track].next_free;
    } else if (fresh) {
        if (new_track(a, ids, process, e) != 0)
            return -1;
        *track = a->tracks.len - 1;
    }
    a->tracks.at[*track].open++;
    *thread = a->tracks.at[*track].thread;
    return 0;
}

bool chrome_async_end(struct chrome_async *a, uint64_t key, uint64_t *thread)
{
    const uint64_t *active = map_find(&a->active, key);
    if (!active)
        return false;
    uint64_t index = *active;
    struct chrome_track *t = &a->tracks.at[index];
    *thread = t->thread;
    if (--t->open == 0) {
        uint64_t *unused = map_find(&a->free, t->process);
        map_remove(&a->active, key);
        t->next_free = unused ? *unused : 0;
        if (unused)
            *unused = index + 1;
    }
    return true;
}
