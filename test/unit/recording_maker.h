#ifndef TEST_RECORDING_MAKER_H
#define TEST_RECORDING_MAKER_H

/* Makes recordings as the preload library writes them, in memory or in a file. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "client/recording_format.h"

/* A chunk that is being filled. */
struct made_chunk {
    uint8_t *at; /* the whole of it */
    uint32_t units, unit;
    uint32_t used; /* bytes behind the header */
    uint64_t stamp, address;
};

struct maker {
    struct rec_header *header;
    uint8_t *bytes;
    uint32_t units, room;
};

static inline void maker_init(struct maker *m, uint32_t room_units)
{
    m->room = room_units;
    m->units = 1;
    m->bytes = calloc(room_units, REC_UNIT);
    m->header = (struct rec_header *)m->bytes;
    memcpy(m->header->magic, REC_MAGIC, 8);
    m->header->version = REC_VERSION;
    m->header->unit = REC_UNIT;
    m->header->arch = REC_ARCH_X86_64;
    m->header->clock = REC_CLOCK_COUNTER;
    m->header->pid = 4711;
    m->header->first = (struct rec_pair){.stamp = 0, .ns = 1000};
    m->header->last = (struct rec_pair){.stamp = 1000000, .ns = 1001000};
    m->header->state = REC_STATE_EXITING;
    snprintf(m->header->exe, sizeof m->header->exe, "/usr/bin/made");
}

static inline void maker_release(struct maker *m)
{
    free(m->bytes);
}

static inline struct made_chunk maker_chunk(struct maker *m, uint16_t kind, uint16_t units,
                                            int32_t tid, uint64_t base_stamp)
{
    struct made_chunk c = {
        .at = m->bytes + (size_t)m->units * REC_UNIT, .units = units, .unit = m->units};
    struct rec_chunk *h = (struct rec_chunk *)c.at;
    if (m->units + units > m->room)
        abort();
    m->units += units;
    m->header->units_taken = m->units;
    h->kind = kind;
    h->units = units;
    h->tid = tid;
    h->base_stamp = base_stamp;
    h->base_ns = 1000 + base_stamp;
    h->state = REC_CHUNK_CLOSED;
    h->pending = REC_IDLE;
    h->magic = REC_CHUNK_MAGIC;
    c.stamp = base_stamp;
    return c;
}

static inline struct rec_chunk *made_header(const struct made_chunk *c)
{
    return (struct rec_chunk *)c->at;
}

static inline void made_byte(struct made_chunk *c, uint8_t byte)
{
    if (c->used + sizeof(struct rec_chunk) >= (size_t)c->units * REC_UNIT)
        abort();
    c->at[sizeof(struct rec_chunk) + c->used++] = byte;
}

static inline void made_varint(struct made_chunk *c, uint64_t n)
{
    for (; n >= 0x80; n >>= 7)
        made_byte(c, (uint8_t)(n | 0x80));
    made_byte(c, (uint8_t)n);
}

static inline void made_commit(struct made_chunk *c)
{
    made_header(c)->committed = c->used;
}

static inline void made_head(struct made_chunk *c, uint8_t kind, uint64_t stamp)
{
    made_byte(c, kind);
    made_varint(c, stamp - c->stamp);
    c->stamp = stamp;
}

static inline void made_address(struct made_chunk *c, uint64_t address)
{
    int64_t step = (int64_t)(address - c->address);
    made_varint(c, (uint64_t)step << 1 ^ (uint64_t)(step >> 63));
    c->address = address;
}

static inline void made_alloc(struct made_chunk *c, uint64_t stamp, uint64_t address, uint64_t size,
                              uint64_t stack)
{
    made_head(c, REC_ALLOC, stamp);
    made_address(c, address);
    made_varint(c, size);
    made_varint(c, stack);
    made_commit(c);
}

static inline void made_free(struct made_chunk *c, uint64_t stamp, uint64_t address)
{
    made_head(c, REC_FREE, stamp);
    made_address(c, address);
    made_commit(c);
}

/* The second half of a realloc. */
static inline void made_realloc_done(struct made_chunk *c, uint64_t stamp, uint64_t address,
                                     uint64_t size, uint64_t stack)
{
    made_head(c, REC_ALLOC | REC_FLAG_HOW, stamp);
    made_byte(c, REC_HOW_REALLOC);
    made_address(c, address);
    made_varint(c, size);
    made_varint(c, stack);
    made_commit(c);
}

/* The first half of a realloc, and the word that it failed. */
static inline void made_realloc(struct made_chunk *c, uint64_t stamp, uint64_t address)
{
    made_head(c, REC_FREE | REC_FLAG_HOW, stamp);
    made_byte(c, REC_HOW_REALLOC);
    made_address(c, address);
    made_commit(c);
}

static inline void made_put_back(struct made_chunk *c, uint64_t stamp, uint64_t address)
{
    made_head(c, REC_PUT_BACK | REC_FLAG_HOW, stamp);
    made_byte(c, REC_HOW_REALLOC);
    made_address(c, address);
    made_commit(c);
}

/* A record that says its length; `body` is what follows the stamp. */
static inline void made_sized(struct made_chunk *c, uint8_t kind, uint64_t stamp,
                              const struct made_chunk *body)
{
    uint64_t delta = stamp - c->stamp, n = delta;
    uint32_t len = 1;
    while (n >= 0x80) {
        n >>= 7;
        len++;
    }
    made_byte(c, kind);
    made_varint(c, len + body->used);
    made_varint(c, delta);
    for (uint32_t i = 0; i < body->used; i++)
        made_byte(c, body->at[sizeof(struct rec_chunk) + i]);
    c->stamp = stamp;
    made_commit(c);
}

/* Room for such a body: free(at) when done. */
static inline struct made_chunk made_body(void)
{
    return (struct made_chunk){.at = calloc(1, REC_UNIT), .units = 1};
}

static inline void made_text(struct made_chunk *c, const char *text)
{
    made_varint(c, strlen(text));
    while (*text)
        made_byte(c, (uint8_t)*text++);
}

static inline void made_thread_name(struct made_chunk *c, uint64_t stamp, const char *name)
{
    struct made_chunk body = made_body();
    made_text(&body, name);
    made_sized(c, REC_THREAD_NAME, stamp, &body);
    free(body.at);
}

static inline void made_pause(struct made_chunk *c, uint64_t stamp, uint64_t paused)
{
    struct made_chunk body = made_body();
    made_varint(&body, paused);
    made_sized(c, REC_PAUSE, stamp, &body);
    free(body.at);
}

static inline void made_loss(struct made_chunk *c, uint64_t stamp, uint64_t why, uint64_t count,
                             uint64_t bytes)
{
    struct made_chunk body = made_body();
    made_varint(&body, why);
    made_varint(&body, count);
    made_varint(&body, bytes);
    made_sized(c, REC_LOSS, stamp, &body);
    free(body.at);
}

static inline void made_owner(struct made_chunk *c, uint64_t stamp, uint32_t tid)
{
    struct made_chunk body = made_body();
    made_varint(&body, 1);
    made_varint(&body, tid);
    made_sized(c, REC_OWNER, stamp, &body);
    c->address = 0;
    free(body.at);
}

/* An image of one executable segment of `bytes` bytes. */
static inline void made_module(struct made_chunk *c, uint64_t stamp, uint32_t number,
                               uint32_t epoch, uint64_t start, uint64_t bytes, const char *path)
{
    struct made_chunk body = made_body();
    made_varint(&body, number);
    made_varint(&body, epoch);
    made_varint(&body, start);
    made_text(&body, path);
    made_text(&body, "\x12\xab");
    made_varint(&body, 1);
    made_varint(&body, 0);
    made_varint(&body, bytes);
    made_varint(&body, 0);
    made_varint(&body, 5);
    made_varint(&body, bytes);
    made_sized(c, REC_MODULE_LOAD, stamp, &body);
    free(body.at);
}

static inline void made_module_gone(struct made_chunk *c, uint64_t stamp, uint32_t number,
                                    uint32_t epoch)
{
    struct made_chunk body = made_body();
    made_varint(&body, number);
    made_varint(&body, epoch);
    made_sized(c, REC_MODULE_UNLOAD, stamp, &body);
    free(body.at);
}

static inline void made_clock(struct made_chunk *c, uint64_t stamp, uint64_t ns)
{
    struct made_chunk body = made_body();
    made_varint(&body, ns);
    made_sized(c, REC_CLOCK, stamp, &body);
    free(body.at);
}

static inline void made_source(struct made_chunk *c, uint64_t stamp, uint64_t number, uint64_t line,
                               const char *function, const char *file)
{
    struct made_chunk body = made_body();
    made_varint(&body, number);
    made_varint(&body, line);
    made_text(&body, function);
    made_text(&body, file);
    made_sized(c, REC_SOURCE, stamp, &body);
    free(body.at);
}

/* Node `index` of a chunk of them. */
static inline void made_node(struct made_chunk *c, uint32_t index, uint64_t pc, uint32_t parent)
{
    struct rec_node node = {.pc = pc, .parent = parent};
    memcpy(c->at + sizeof(struct rec_chunk) + index * sizeof node, &node, sizeof node);
}

/* The file so far, in `fd`. */
static inline void maker_write(const struct maker *m, int fd)
{
    size_t n = (size_t)m->units * REC_UNIT;
    if (pwrite(fd, m->bytes, n, 0) != (ssize_t)n)
        abort();
}

#endif
