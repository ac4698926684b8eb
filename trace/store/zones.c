#include "trace/store/zones.h"

#include <stdlib.h>
#include <string.h>

#define NOTES_TEXT_KEPT 4096u /* most bytes of room kept in spare notes */
#define STRING_NEEDS 64u      /* bytes of a string besides its text: list and table while growing */

static const struct pack_layout begin_layout = {
    .element = sizeof(struct zone_begin),
    .count = 2,
    .fields = {{0, 8, PACK_STEP},    /* start */
               {8, 2, PACK_OFFSET}}, /* source location */
};

static const struct pack_layout end_layout = {
    .element = sizeof(struct zone_end),
    .count = 3,
    .fields = {{0, 8, PACK_OFFSET},   /* length */
               {8, 4, PACK_OFFSET},   /* children */
               {12, 4, PACK_OFFSET}}, /* extra */
};

static const struct pack_layout extra_layout = {
    .element = sizeof(struct zone_extra),
    .count = 4,
    .fields = {{0, 4, PACK_OFFSET},   /* call stack */
               {4, 4, PACK_OFFSET},   /* text */
               {8, 4, PACK_OFFSET},   /* name */
               {12, 4, PACK_OFFSET}}, /* colour */
};

static int append_extra(struct zones *z, struct err *e)
{
    struct zone_extra *extra = column_append(&z->extras, e);
    if (!extra)
        return -1;
    *extra = (struct zone_extra){0};
    return 0;
}

int zones_init(struct zones *z, struct spool *spool, struct strings *strings, struct err *e)
{
    *z = (struct zones){.spool = spool, .strings = strings, .depth_limit = ZONE_DEPTH_MAX};
    column_init(&z->extras, spool, &extra_layout, true);
    return append_extra(z, e);
}

static void notes_free(struct zone_notes *n)
{
    if (n)
        buf_release(&n->text);
    free(n);
}

static void thread_free(struct zones *z, struct zone_thread *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->open.len; i++)
        notes_free(t->open.at[i].notes);
    pageable_vec_release(z->pageable, &t->open);
    column_release(&t->begins);
    column_release(&t->ends);
    free(t);
}

void zones_release(struct zones *z)
{
    if (!z->spool)
        return;
    for (size_t i = 0; i < z->threads.len; i++)
        thread_free(z, z->threads.at[i]);
    vec_release(&z->threads);
    for (size_t i = 0; i < z->spare.len; i++)
        notes_free(z->spare.at[i]);
    vec_release(&z->spare);
    vec_release(&z->ended);
    column_release(&z->extras);
    *z = (struct zones){0};
}

/* The zones of a thread, created if it has none; NULL when memory is short. */
static struct zone_thread *thread_of(struct zones *z, uint16_t thread, struct err *e)
{
    if (thread < z->threads.len && z->threads.at[thread])
        return z->threads.at[thread];
    if (!vec_reserve(&z->threads, thread + (size_t)1)) {
        err_no_memory(e, "zones");
        return NULL;
    }
    while (z->threads.len <= thread)
        z->threads.at[z->threads.len++] = NULL;
    struct zone_thread *t = calloc(1, sizeof *t);
    if (!t) {
        err_no_memory(e, "zones");
        return NULL;
    }
    column_init(&t->begins, z->spool, &begin_layout, false);
    column_init(&t->ends, z->spool, &end_layout, true);
    return z->threads.at[thread] = t;
}

struct zone_thread *zones_thread(struct zones *z, uint16_t thread, struct err *e)
{
    return thread_of(z, thread, e);
}

/* ---- zones ended, by source location */

/* Maps both directions to numbers from 0. */
static size_t ended_key(int16_t srcloc)
{
    return srcloc < 0 ? (size_t)(-1 - srcloc) * 2 + 1 : (size_t)srcloc * 2;
}

uint64_t zones_ended(const struct zones *z, int16_t srcloc)
{
    size_t key = ended_key(srcloc);
    return key < z->ended.len ? z->ended.at[key] : 0;
}

static int count_ended(struct zones *z, int16_t srcloc, struct err *e)
{
    size_t key = ended_key(srcloc);
    if (key >= z->ended.len) {
        if (!vec_reserve(&z->ended, key + 1))
            return err_no_memory(e, "zones");
        memset(z->ended.at + z->ended.len, 0, (key + 1 - z->ended.len) * sizeof z->ended.at[0]);
        z->ended.len = key + 1;
    }
    z->ended.at[key]++;
    return 0;
}

/* ---- notes */

/* Assigns the notes of a zone their index among the extras. */
static int place_notes(struct zones *z, struct zone_notes *n, struct err *e)
{
    if (z->extras.len >= UINT32_MAX) {
        z->faults.extras++;
        n->index = 0;
        return 0;
    }
    n->index = (uint32_t)z->extras.len;
    return append_extra(z, e);
}

/*
 * The notes of an open zone, created at the first use: the official server numbers its extras in
 * the order of first uses. NULL when memory is short.
 */
static struct zone_notes *notes_of(struct zones *z, struct live_zone *zone, struct err *e)
{
    if (zone->notes)
        return zone->notes;
    struct zone_notes *n =
        z->spare.len ? z->spare.at[--z->spare.len] : calloc(1, sizeof(struct zone_notes));
    if (!n) {
        err_no_memory(e, "zones");
        return NULL;
    }
    if (place_notes(z, n, e) != 0) {
        notes_free(n);
        return NULL;
    }
    return zone->notes = n;
}

/* Writes the notes to their entry. */
static int settle_notes(struct zones *z, struct zone_notes *n, struct err *e)
{
    if (n->has_text) {
        struct view text = {buf_str(&n->text), n->text.len};
        if (n->text.failed)
            return err_no_memory(e, "zones");
        if (!(n->values.text = strings_intern(z->strings, text, e)))
            return -1;
    }
    return n->index ? column_patch(&z->extras, n->index, &n->values, e) : 0;
}

static void recycle_notes(struct zones *z, struct zone_notes *n)
{
    if (n->text.cap > NOTES_TEXT_KEPT || !vec_reserve(&z->spare, z->spare.len + 1)) {
        notes_free(n);
        return;
    }
    buf_clear(&n->text);
    *n = (struct zone_notes){.text = n->text};
    z->spare.at[z->spare.len++] = n;
}

/* The zone that a note applies to. NULL, counted, when there is none. */
static struct live_zone *noted_zone(struct zones *z, uint16_t thread)
{
    struct zone_thread *t = zones_of(z, thread);
    struct live_zone *top = t && t->open.len ? &t->open.at[t->open.len - 1] : NULL;
    if (top && top->validation != t->next_validation)
        top = NULL;
    if (t)
        t->next_validation = 0;
    z->faults.notes += !top;
    return top;
}

int zones_add_text(struct zones *z, uint16_t thread, struct view text, struct err *e)
{
    struct live_zone *zone = noted_zone(z, thread);
    if (!zone)
        return 0;
    struct zone_notes *n = notes_of(z, zone, e);
    if (!n)
        return -1;
    const size_t before = n->text.len;
    if (n->text.len + 1 + text.len > CLIENT_TEXT_MAX) {
        z->faults.texts++;
        return 0;
    }
    if (n->has_text)
        buf_u8(&n->text, '\n');
    buf_put(&n->text, text.p, text.len);
    z->open.texts += !n->has_text;
    z->open.bytes += n->text.len - before;
    n->has_text = true;
    return n->text.failed ? err_no_memory(e, "zones") : 0;
}

int zones_set_name(struct zones *z, uint16_t thread, struct view name, struct err *e)
{
    struct live_zone *zone = noted_zone(z, thread);
    if (!zone)
        return 0;
    uint32_t number = strings_intern(z->strings, name, e);
    struct zone_notes *n = number ? notes_of(z, zone, e) : NULL;
    if (!n)
        return -1;
    n->values.name = number;
    return 0;
}

int zones_set_color(struct zones *z, uint16_t thread, uint32_t color, struct err *e)
{
    struct live_zone *zone = noted_zone(z, thread);
    if (!zone)
        return 0;
    struct zone_notes *n = notes_of(z, zone, e);
    if (!n)
        return -1;
    n->values.color = color;
    return 0;
}

/* ---- begin and end */

/* Appends a zone to both columns. */
static int put_zone(struct zones *z, struct zone_thread *t, const struct zone_begin *b,
                    uint32_t children, struct err *e)
{
    struct zone_begin *begin = column_append(&t->begins, e);
    if (!begin)
        return -1;
    *begin = *b;
    struct zone_end *end = column_append(&t->ends, e);
    if (!end) {
        column_drop_last(&t->begins); /* keep the two columns in step */
        return -1;
    }
    *end = (struct zone_end){.children = children};
    z->count++;
    return 0;
}

static int append_zone(struct zones *z, struct zone_thread *t, int64_t start, int16_t srcloc,
                       struct err *e)
{
    const struct zone_begin begin = {.start = start, .srcloc = srcloc};
    if (t->begins.len >= UINT32_MAX)
        return err_set(e, ERR_INPUT, "more than 2^32 zones of one thread");
    return put_zone(z, t, &begin, 0, e);
}

/* Counts a zone that begins inside the `depth` outermost open ones. */
static void count_child(struct zones *z, struct zone_thread *t, size_t depth)
{
    if (depth >= z->depth_limit) {
        z->faults.depth++;
        depth = z->depth_limit - 1;
    }
    if (depth == 0)
        t->roots++;
    else
        z->parents += t->open.at[depth - 1].children++ == 0;
}

int zones_begin(struct zones *z, uint16_t thread, int64_t time, int16_t srcloc, uint32_t callstack,
                struct err *e)
{
    struct zone_thread *t = thread_of(z, thread, e);
    if (!t)
        return -1;
    if (!pageable_reserve(z->pageable, &t->open, t->open.len + 1))
        return err_no_memory(e, "zones");
    if (append_zone(z, t, time, srcloc, e) != 0)
        return -1;
    count_child(z, t, t->open.len);
    struct live_zone *zone = &t->open.at[t->open.len++];
    *zone = (struct live_zone){.index = t->begins.len - 1,
                               .start = time,
                               .validation = t->next_validation,
                               .srcloc = srcloc};
    t->next_validation = 0;
    z->open.zones++;
    if (callstack) {
        struct zone_notes *n = notes_of(z, zone, e);
        if (!n)
            return -1;
        n->values.callstack = callstack;
    }
    return 0;
}

static int put_end(struct zones *z, struct zone_thread *t, const struct live_zone *zone,
                   uint64_t length, struct err *e)
{
    struct zone_end end = {length, zone->children, zone->notes ? zone->notes->index : 0};
    struct zone_end *stored = column_raw(&t->ends, zone->index, sizeof end);
    if (stored)
        *stored = end;
    else if (column_patch_slow(&t->ends, zone->index, &end, e) != 0)
        return -1;
    return zone->notes ? settle_notes(z, zone->notes, e) : 0;
}

/* A zone may end before its begin: the clocks of two CPUs may differ. */
static uint64_t zone_length(int64_t start, int64_t end)
{
    int64_t span = end - start; /* both have 48 bits */
    return 1 + ((uint64_t)span << 1 ^ (uint64_t)(span >> 63));
}

int zones_end(struct zones *z, uint16_t thread, int64_t time, bool *found, struct err *e)
{
    struct zone_thread *t = zones_of(z, thread);
    *found = t && t->open.len;
    if (!*found) {
        if (t)
            t->next_validation = 0;
        z->faults.ends++;
        return 0;
    }
    struct live_zone *zone = &t->open.at[t->open.len - 1];
    z->faults.validations += zone->validation != t->next_validation;
    t->next_validation = 0;
    if (put_end(z, t, zone, zone_length(zone->start, time), e) != 0 ||
        count_ended(z, zone->srcloc, e) != 0)
        return -1;
    if (zone->notes) {
        z->open.texts -= zone->notes->has_text;
        z->open.bytes -= zone->notes->text.len;
        recycle_notes(z, zone->notes);
    }
    z->open.zones--;
    t->open.len--;
    return 0;
}

int zones_validate(struct zones *z, uint16_t thread, uint32_t id, struct err *e)
{
    struct zone_thread *t = thread_of(z, thread, e);
    if (!t)
        return -1;
    t->next_validation = id;
    return 0;
}

/* ---- the end of a capture or of a part */

int zones_settle(struct zones *z, struct err *e)
{
    for (size_t i = 0; i < z->threads.len; i++) {
        struct zone_thread *t = z->threads.at[i];
        for (size_t k = 0; t && k < t->open.len; k++) {
            if (put_end(z, t, &t->open.at[k], 0, e) != 0)
                return -1;
        }
    }
    return 0;
}

/*
 * A text becomes a string and is kept twice, as its zone stays open. An end whose chunk is packed
 * becomes an overwrite; column readers load the overwrites of one range.
 */
uint64_t zones_settle_needs(const struct zones *z)
{
    const uint64_t range = (uint64_t)COLUMN_LOG_CHUNKS * COLUMN_CHUNK;
    uint64_t overwrites = z->open.zones < range ? z->open.zones : range;
    return overwrites * (sizeof(struct zone_end) + 4) + z->open.texts * STRING_NEEDS +
           z->open.bytes;
}

static int carry_thread(struct zones *z, struct zone_thread *t, struct err *e)
{
    column_clear(&t->begins);
    column_clear(&t->ends);
    t->roots = 0;
    for (size_t i = 0; i < t->open.len; i++) {
        struct live_zone *zone = &t->open.at[i];
        if (append_zone(z, t, 0, zone->srcloc, e) != 0)
            return -1;
        count_child(z, t, i);
        zone->index = i;
        zone->start = 0;
        zone->children = 0;
        z->open.zones++;
        if (!zone->notes)
            continue;
        z->open.texts += zone->notes->has_text;
        z->open.bytes += zone->notes->text.len;
        if (place_notes(z, zone->notes, e) != 0)
            return -1;
    }
    return 0;
}

int zones_carry(struct zones *z, struct err *e)
{
    column_clear(&z->extras);
    z->ended.len = 0;
    z->count = z->parents = 0;
    z->faults = (struct zone_faults){0};
    z->open = (struct zones_open){0};
    if (append_extra(z, e) != 0)
        return -1;
    for (size_t i = 0; i < z->threads.len; i++) {
        if (z->threads.at[i] && carry_thread(z, z->threads.at[i], e) != 0)
            return -1;
    }
    return 0;
}

/* ---- loading a saved trace */

int zones_put(struct zones *z, uint16_t thread, const struct zone_begin *b, uint32_t children,
              uint64_t *index, struct err *e)
{
    struct zone_thread *t = thread_of(z, thread, e);
    if (!t)
        return -1;
    *index = t->begins.len;
    return put_zone(z, t, b, children, e);
}

int zones_put_end(struct zones *z, uint16_t thread, uint64_t index, int64_t start, int64_t end,
                  uint32_t children, struct err *e)
{
    struct zone_end value = {.length = zone_length(start, end), .children = children};
    return column_patch(&z->threads.at[thread]->ends, index, &value, e);
}
