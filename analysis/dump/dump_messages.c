/*
 * Messages of a dump. A message has no thread: each thread has a list of the keys of its messages,
 * much later in the file. Both are sorted by key and joined.
 */

#include <string.h>

#include "analysis/dump/dump_lines.h"

/* The sorted data: key and part, then the payload. */
#define JOIN_KEY_SIZE 9u

enum join_part { JOIN_CLAIM, JOIN_MESSAGE, JOIN_OWN };

static void join_add(struct dump *d, uint64_t key, enum join_part part, struct view payload)
{
    uint8_t bytes[JOIN_KEY_SIZE];
    store_u64(bytes, __builtin_bswap64(key));
    bytes[8] = (uint8_t)part;
    d->status = line_sort_add(&d->messages, (struct view){(const char *)bytes, sizeof bytes},
                              payload, d->e);
}

void dump_thread_message(struct dump *d, const void *rec)
{
    const struct rec_id *r = rec;
    struct view owner = {(const char *)&d->owner, sizeof d->owner};
    join_add(d, r->id, JOIN_CLAIM, owner);
}

/* The messages that a capture adds for memory faults (trace/ingest/ingest.c). */
static bool is_own_message(const struct dump *d, const struct rec_message *r)
{
    static const char *const beginnings[] = {"tidemark: free of unknown address 0x",
                                             "tidemark: allocation at live address 0x"};
    if (r->text.flags != STRING_REF_INDEX)
        return false;
    struct view text = strings_get(&d->t.strings, dump_string_of(&d->t, &r->text));
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        size_t len = strlen(beginnings[i]);
        if (text.len >= len && memcmp(text.p, beginnings[i], len) == 0)
            return true;
    }
    return false;
}

/* The payload of a message: its time and the fields after the thread. */
static void message_payload(struct dump *d, const struct rec_message *r)
{
    buf_clear(&d->line);
    buf_i64(&d->line, r->time);
    dump_field_ref(&d->t, &d->line, "text", &r->text);
    if (r->color != 0)
        dump_address(d, "color", r->color);
    if (d->t.layout->message_meta) {
        dump_number(d, "source", r->source);
        dump_number(d, "severity", r->severity);
    }
    dump_callstack_field(d, "callstack", r->callstack);
}

void dump_message(struct dump *d, const void *rec)
{
    const struct rec_message *r = rec;
    message_payload(d, r);
    bool own = !d->o->own && is_own_message(d, r);
    if (d->line.failed)
        dump_no_room(d);
    else
        join_add(d, r->key, own ? JOIN_OWN : JOIN_MESSAGE, buf_view(&d->line));
}

/* ---- joining */

struct join {
    struct dump *d;
    bool begun;
    uint64_t key;
    bool claimed, found; /* by a thread; a message of that key */
    uint64_t thread;
};

/* A thread's list has a key without a message, or one that an earlier thread's list has. */
static void put_stray(const struct join *j, uint64_t thread)
{
    dump_begin(j->d, DUMP_MESSAGES, 1, thread, 0);
    dump_number(j->d, "thread", thread);
    dump_number(j->d, "stray", 1);
}

static void finish_key(const struct join *j)
{
    if (j->claimed && !j->found)
        put_stray(j, j->thread);
}

static void put_message(const struct join *j, struct view payload)
{
    int64_t time = load_i64(payload.p);
    dump_begin(j->d, DUMP_MESSAGES, 0, 0, dump_signed(time));
    dump_integer(j->d, "time", time);
    if (j->claimed)
        dump_number(j->d, "thread", j->thread);
    buf_put(&j->d->line, payload.p + sizeof time, payload.len - sizeof time);
}

static int join_put(void *ctx, struct view line, struct err *e)
{
    struct join *j = ctx;
    uint64_t key = load_u64(line.p);
    enum join_part part = (enum join_part)line.p[8];
    struct view payload = {line.p + JOIN_KEY_SIZE, line.len - JOIN_KEY_SIZE};
    (void)e; /* dump_join_messages */
    if (!j->begun || key != j->key) {
        finish_key(j);
        *j = (struct join){.d = j->d, .begun = true, .key = key};
    }
    if (part == JOIN_CLAIM && j->claimed) {
        put_stray(j, load_u64(payload.p));
    } else if (part == JOIN_CLAIM) {
        j->claimed = true;
        j->thread = load_u64(payload.p);
    } else {
        j->found = true;
        if (part == JOIN_MESSAGE)
            put_message(j, payload);
    }
    return dump_end(j->d);
}

int dump_join_messages(struct dump *d, struct err *e)
{
    struct join j = {.d = d};
    d->e = e;
    if (line_sort_drain(&d->messages, join_put, &j, e) != 0)
        return -1;
    finish_key(&j);
    return dump_end(d);
}
