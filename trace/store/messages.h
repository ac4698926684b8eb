#pragma once

/*
 * Messages in order of arrival, and for each thread the numbers of its messages. The columns are
 * file-backed. The file needs both lists in order of time; messages mostly arrive so, and are
 * otherwise sorted when they are saved.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/spool.h"
#include "base/vec.h"
#include "base/view.h"

struct message {
    int64_t time;  /* ns */
    uint64_t text; /* string number, or the client pointer of a literal */
    uint32_t color;
    uint32_t callstack;
    uint8_t kind; /* see message_kind */
} __attribute__((packed));

struct message_link {
    int64_t time;
    uint64_t number; /* index in messages.list */
} __attribute__((packed));

struct message_thread {
    struct column links; /* struct message_link */
    int64_t last_time;
    bool disorder; /* a message is not later than its predecessor */
};

struct messages {
    struct spool *spool;
    struct column list;                   /* struct message */
    VEC(struct message_thread *) threads; /* by thread number; NULL: no message */
    int64_t last_time;
    bool disorder;
};

/* The properties of a message. `color` is 0xAABBGGRR as in the file; 0xFFFFFFFF: none. */
struct message_in {
    int64_t time;
    uint64_t text;
    bool literal; /* `text` is a client pointer */
    uint8_t source, severity;
    uint32_t color;
    uint32_t callstack;
};

void messages_init(struct messages *m, struct spool *spool);
void messages_release(struct messages *m);

/* Drops all messages. */
void messages_clear(struct messages *m);

int messages_add(struct messages *m, uint16_t thread, const struct message_in *in, struct err *e);

/* The messages of a thread, or NULL when it has none. */
static inline struct message_thread *messages_of(const struct messages *m, uint16_t thread)
{
    return thread < m->threads.len ? m->threads.at[thread] : NULL;
}

typedef int message_put(void *ctx, const struct message *msg, uint64_t number, struct err *e);
typedef int message_link_put(void *ctx, uint64_t number, struct err *e);

/*
 * Delivers all messages, or the numbers of a thread's, in order of time. Of messages with equal
 * times the later one comes first, as in official traces (server/TracyWorker.cpp InsertMessageData
 * @ v0.9.1 … v0.14.0).
 */
int messages_walk(struct messages *m, message_put *put, void *ctx, struct err *e);
int messages_walk_thread(struct messages *m, struct message_thread *t, message_link_put *put,
                         void *ctx, struct err *e);

static inline uint8_t message_source(const struct message *m)
{
    return m->kind & 15;
}

static inline uint8_t message_severity(const struct message *m)
{
    return m->kind >> 4 & 7;
}

static inline bool message_is_literal(const struct message *m)
{
    return m->kind >> 7;
}
