#ifndef TIDEMARK_TRACE_FILTER_REKEY_H
#define TIDEMARK_TRACE_FILTER_REKEY_H

/*
 * Gives strings and messages new keys: addresses as an official tool has them that loads the trace,
 * where one follows the other. Keys of a live capture are addresses too, but with everything else
 * between them, and compress less. What official tools write anew is therefore smaller by up to a
 * twentieth.
 */

#include "base/map.h"
#include "base/pageable.h"
#include "trace/file/record.h"

/* Bytes of the tables of keys on the heap, and beyond in a temporary file. */
#define REKEY_IN_MEMORY ((size_t)128 << 20)

/* Where the strings begin, and, beyond the most that they can take, the messages. */
#define STRING_KEYS_BEGIN UINT64_C(0x7f0000000000)
#define MESSAGE_KEYS_BEGIN UINT64_C(0x7f8000000000)

/* sizeof(MessageData). Source: server/TracyEvent.hpp @ v0.14.0. */
#define MESSAGE_KEY_STEP 28u

/* Addresses in one of the two tables. */
struct rekey_table {
    struct map to; /* new keys by old ones */
    uint64_t begin, next;
};

struct rekey {
    struct record_sink next;
    struct pageable pageable; /* of the tables */
    struct rekey_table strings, messages;
};

/* `r` stays where it is. */
void rekey_init(struct rekey *r, const struct record_sink *next);
void rekey_release(struct rekey *r);
struct record_sink rekey_sink(struct rekey *r);

#endif
