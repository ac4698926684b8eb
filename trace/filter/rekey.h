#pragma once

/*
 * Gives strings and messages new keys: the consecutive addresses that they have when an official
 * tool loads the trace. Keys of a live capture are addresses, too, but are spread out and compress
 * less. Files rewritten by official tools are therefore smaller by up to a twentieth.
 */

#include "base/map.h"
#include "base/pageable.h"
#include "trace/file/record.h"

/* Heap bytes of the key tables; beyond that they go to a temporary file. */
#define REKEY_IN_MEMORY ((size_t)128 << 20)

/* First keys of strings, and of messages, above all possible string keys. */
#define STRING_KEYS_BEGIN UINT64_C(0x7f0000000000)
#define MESSAGE_KEYS_BEGIN UINT64_C(0x7f8000000000)

/* sizeof(MessageData). Source: server/TracyEvent.hpp @ v0.14.0. */
#define MESSAGE_KEY_STEP 28u

/* The keys in one of the two tables. */
struct rekey_table {
    struct map to; /* old key → new key */
    uint64_t begin, next;
};

struct rekey {
    struct record_sink next;
    struct pageable pageable; /* allocator of the tables */
    struct rekey_table strings, messages;
};

/* `r` must not move. */
void rekey_init(struct rekey *r, const struct record_sink *next);
void rekey_release(struct rekey *r);
struct record_sink rekey_sink(struct rekey *r);
