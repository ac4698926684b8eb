#include "import/chrome_ids.h"

#include <errno.h>
#include <inttypes.h>
#include <xxhash.h>

/* Ids beyond these limits stay distinct by their numbers, but have no names. */
#define THREADS_KEPT 65536u
#define PROCESSES_KEPT 4096u

/* Only artificial files need more attempts to find a free number. */
#define TRIES_MAX 256u

/* Text ids get numbers from here on, above all process ids of Linux. */
#define TEXT_IDS 0xc0000000u

void chrome_ids_release(struct chrome_ids *ids)
{
    vec_release(&ids->threads);
    vec_release(&ids->processes);
    map_release(&ids->by_pair);
    map_release(&ids->by_process);
    map_release(&ids->by_id);
}

/* Parses whole numbers, as JSON numbers or texts; truncates fractions. */
static bool whole_number(struct view text, uint64_t *number)
{
    char room[32], *end;
    double value;
    if (text.len == 0)
        return false;
    if (text.len < sizeof room && (text.p[0] == '-' || (text.p[0] >= '0' && text.p[0] <= '9'))) {
        memcpy(room, text.p, text.len);
        room[text.len] = 0;
        errno = 0;
        *number = room[0] == '-' ? (uint64_t)strtoll(room, &end, 10) : strtoull(room, &end, 10);
        if (*end == 0 && errno == 0)
            return true;
    }
    if (!chrome_text_number(text, &value) || !(value > -9e18 && value < 9e18))
        return false;
    *number = (uint64_t)(int64_t)value;
    return true;
}

int chrome_id_of(struct chrome_ids *ids, const struct chrome_event *ev, enum chrome_field field,
                 struct chrome_id *id, struct err *e)
{
    struct view text = chrome_field_text(ev, field);
    *id = (struct chrome_id){.there = text.len > 0};
    if (text.len == 0 || whole_number(text, &id->number))
        return 0;
    id->text = strings_intern(&ids->trace->strings, text, e);
    id->number = TEXT_IDS + id->text;
    return id->text ? 0 : -1;
}

/* ---- threads */

static uint64_t pair_hash(const struct chrome_id *process, const struct chrome_id *thread)
{
    const uint64_t words[] = {process->number, process->text, process->there,
                              thread->number,  thread->text,  thread->there};
    return XXH3_64bits(words, sizeof words);
}

/*
 * Thread ids of more than 32 bits (pointers on some systems) are truncated. Two ids that become
 * equal must stay distinct threads.
 */
static uint64_t id_in_trace(const struct chrome_ids *ids, const struct chrome_id *process,
                            const struct chrome_id *thread)
{
    if (!process->there)
        return thread->number;
    uint64_t upper = process->number << 32, lower = thread->number & UINT32_MAX;
    uint64_t next = XXH3_64bits(&thread->number, sizeof thread->number);
    const uint64_t *at;
    for (unsigned tries = 0; tries < TRIES_MAX && (at = map_find(&ids->by_id, upper | lower));
         lower = next++ & UINT32_MAX, tries++) {
        const struct chrome_thread *other = &ids->threads.at[*at];
        if (other->thread.number <= UINT32_MAX && thread->number <= UINT32_MAX &&
            !other->thread.text && !thread->text)
            break; /* process ids of more than 32 bits: as in the official importer */
    }
    return upper | lower;
}

static int find_thread(struct chrome_ids *ids, const struct chrome_id *process,
                       const struct chrome_id *thread, uint64_t *id, size_t *index, struct err *e)
{
    uint64_t hash = pair_hash(process, thread);
    const uint64_t *known = map_find(&ids->by_pair, hash);
    if (known) {
        *index = *known;
        *id = ids->threads.at[*known].id;
        return 0;
    }
    *id = id_in_trace(ids, process, thread);
    *index = SIZE_MAX;
    if (ids->threads.len == THREADS_KEPT)
        return 0;
    const struct chrome_thread fresh = {.process = *process, .thread = *thread, .id = *id};
    uint64_t *by_pair = map_add(&ids->by_pair, hash, NULL);
    uint64_t *by_id = map_add(&ids->by_id, *id, NULL);
    if (!by_pair || !by_id || !vec_push(&ids->threads, fresh))
        return err_no_memory(e, "threads");
    *index = *by_pair = *by_id = ids->threads.len - 1;
    return 0;
}

static int thread_index(struct chrome_ids *ids, const struct chrome_event *ev, uint64_t *id,
                        size_t *index, struct err *e)
{
    struct chrome_id process, thread;
    if (chrome_id_of(ids, ev, FIELD_PROCESS, &process, e) != 0 ||
        chrome_id_of(ids, ev, FIELD_THREAD, &thread, e) != 0)
        return -1;
    return find_thread(ids, &process, &thread, id, index, e);
}

int chrome_thread_of(struct chrome_ids *ids, const struct chrome_event *ev, uint64_t *thread,
                     struct err *e)
{
    size_t index;
    return thread_index(ids, ev, thread, &index, e);
}

int chrome_track_thread(struct chrome_ids *ids, const struct chrome_id *process, const char *name,
                        uint64_t *thread, struct err *e)
{
    size_t index;
    uint32_t text = strings_intern(&ids->trace->strings, view_of(name), e);
    const struct chrome_id track = {.number = TEXT_IDS + text, .text = text, .there = true};
    return text ? find_thread(ids, process, &track, thread, &index, e) : -1;
}

/* ---- metadata */

static int name_process(struct chrome_ids *ids, const struct chrome_event *ev, uint32_t name,
                        struct import_counts *counts, struct err *e)
{
    struct chrome_id id;
    if (chrome_id_of(ids, ev, FIELD_PROCESS, &id, e) != 0)
        return -1;
    uint64_t hash = pair_hash(&id, &id);
    uint64_t *known = map_find(&ids->by_process, hash);
    if (known) {
        ids->processes.at[*known].name = name;
        return 0;
    }
    if (ids->processes.len == PROCESSES_KEPT) {
        counts->notes[NOTE_TOO_MANY_PROCESSES]++;
        return 0;
    }
    known = map_add(&ids->by_process, hash, NULL);
    if (!known || !vec_push(&ids->processes, (struct chrome_process){id, name}))
        return err_no_memory(e, "threads");
    *known = ids->processes.len - 1;
    return 0;
}

static int name_thread(struct chrome_ids *ids, const struct chrome_event *ev, uint32_t name,
                       struct err *e)
{
    uint64_t id;
    size_t index;
    if (thread_index(ids, ev, &id, &index, e) != 0)
        return -1;
    if (index != SIZE_MAX)
        ids->threads.at[index].name = name;
    return 0;
}

static int sort_thread(struct chrome_ids *ids, const struct chrome_event *ev, struct err *e)
{
    const struct json_member *m = json_text_find(&ev->args, "sort_index");
    double value;
    uint64_t id;
    size_t index;
    if (!m || !chrome_text_number(json_text_value_of(&ev->args, m), &value) ||
        !(value >= INT32_MIN && value <= INT32_MAX))
        return 0;
    if (thread_index(ids, ev, &id, &index, e) != 0)
        return -1;
    if (index != SIZE_MAX) {
        ids->threads.at[index].sort_index = (int32_t)value;
        ids->threads.at[index].sorted = true;
    }
    return 0;
}

int chrome_metadata(struct chrome_ids *ids, const struct chrome_event *ev,
                    struct import_counts *counts, struct err *e)
{
    struct view what = chrome_field_text(ev, FIELD_NAME);
    bool of_thread = view_equal(what, view_of("thread_name"));
    if (view_equal(what, view_of("thread_sort_index")))
        return sort_thread(ids, ev, e);
    const struct json_member *m = json_text_find(&ev->args, "name");
    if ((!of_thread && !view_equal(what, view_of("process_name"))) || !m || m->kind != JSON_STRING)
        return 0;
    uint32_t name = strings_intern(&ids->trace->strings, json_text_value_of(&ev->args, m), e);
    if (!name)
        return -1;
    return of_thread ? name_thread(ids, ev, name, e) : name_process(ids, ev, name, counts, e);
}

/* ---- the end */

void chrome_id_put(const struct chrome_ids *ids, struct buf *to, struct chrome_id id)
{
    struct view text = strings_get(&ids->trace->strings, id.text);
    if (id.text)
        buf_put(to, text.p, text.len);
    else
        buf_printf(to, "%" PRIu64, id.number);
}

/* "(PID 1 TID 2) name", "(2) name", or only the parentheses' content when there is no name. */
static void put_thread_name(const struct chrome_ids *ids, struct buf *to, uint64_t id,
                            const struct chrome_thread *known)
{
    const struct chrome_thread plain = {.process = {.number = id >> 32},
                                        .thread = {.number = id & UINT32_MAX}};
    const struct chrome_thread *t = known ? known : &plain;
    buf_puts(to, t->name ? "(" : "");
    if (id > UINT32_MAX) {
        struct chrome_thread shown = *t;
        if (!t->process.there)
            shown = plain;
        buf_puts(to, "PID ");
        chrome_id_put(ids, to, shown.process);
        buf_puts(to, " TID ");
        chrome_id_put(ids, to, shown.thread);
    } else {
        chrome_id_put(ids, to, t->thread);
    }
    if (t->name) {
        struct view name = strings_get(&ids->trace->strings, t->name);
        buf_puts(to, ") ");
        buf_put(to, name.p, name.len);
    }
}

static int name_listed(const struct chrome_ids *ids, struct ingest *in, uint64_t id, struct buf *b,
                       struct err *e)
{
    const uint64_t *at = map_find(&ids->by_id, id);
    const struct chrome_thread *known = at ? &ids->threads.at[*at] : NULL;
    buf_clear(b);
    put_thread_name(ids, b, id, known);
    if (b->failed)
        return err_no_memory(e, "threads");
    struct event ev = {.kind = EVENT_THREAD_NAME,
                       .name = {.key = id, .text = {(const char *)b->data, b->len}}};
    if (in->sink.event(in->sink.ctx, &ev, e) != 0)
        return -1;
    if (!known || !known->sorted)
        return 0;
    ev = (struct event){
        .kind = EVENT_THREAD_GROUP_HINT, .thread = id, .fiber = {.group_hint = known->sort_index}};
    return in->sink.event(in->sink.ctx, &ev, e);
}

int chrome_ids_finish(const struct chrome_ids *ids, struct ingest *in, struct err *e)
{
    struct trace *t = ids->trace;
    struct buf b = {0};
    int status = -1;
    for (size_t i = 0; i < t->threads.order.len; i++) {
        if (name_listed(ids, in, t->threads.list.at[t->threads.order.at[i]].id, &b, e) != 0)
            goto out;
    }
    for (size_t i = 0; i < ids->processes.len; i++) {
        const struct chrome_process *p = &ids->processes.at[i];
        struct view name = strings_get(&t->strings, p->name);
        buf_clear(&b);
        chrome_id_put(ids, &b, p->id);
        if (trace_add_fact(t, e, "process", "%s %.*s", buf_str(&b), (int)name.len, name.p) != 0)
            goto out;
    }
    status = 0;
out:
    buf_release(&b);
    return status;
}
