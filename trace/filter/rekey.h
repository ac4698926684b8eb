#ifndef TIDEMARK_TRACE_FILTER_REKEY_H
#define TIDEMARK_TRACE_FILTER_REKEY_H

/*
 * Gives strings and messages new keys: addresses as an official tool has them that loads the trace,
 * where one follows the other. Keys of a live capture are addresses too, but with everything else
 * between them, and compress less. What official tools write anew is therefore smaller by up to a
 * twentieth. Tables with more than REKEY_MAX elements keep their keys.
 */

#include "base/map.h"
#include "trace/file/record.h"

/* A new key takes 46 bytes at most: 136 MiB for each of the two tables. */
#define REKEY_MAX ((uint64_t)1 << 22)

/* Where the strings begin, and, beyond the most that they can take, the messages. */
#define STRING_KEYS_BEGIN UINT64_C(0x7f0000000000)
#define MESSAGE_KEYS_BEGIN UINT64_C(0x7f8000000000)

/* sizeof(MessageData). Source: server/TracyEvent.hpp @ v0.14.0. */
#define MESSAGE_KEY_STEP 28u

/* Addresses in one of the two tables. */
struct rekey_table {
    struct map to; /* new keys by old ones */
    uint64_t begin, next;
    bool kept; /* the keys stay */
};

struct rekey {
    struct record_sink next;
    struct rekey_table strings, messages;
};

void rekey_init(struct rekey *r, const struct record_sink *next);
void rekey_release(struct rekey *r);
struct record_sink rekey_sink(struct rekey *r);

#endif
