#pragma once

/*
 * The strings of a trace. A string's number ("sidx") is 1 + its position; 0 is none, as in the
 * file. Texts are copied, do not move until release, and carry a terminating NUL beyond len.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/pageable.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/file/limits.h"

/*
 * Most bytes of a text: with a record's head it stays below the reader's limit (TRACE_RECORD_MAX).
 */
#define STRING_TEXT_MAX (((size_t)64 << 20) - 64)

/* Heap bytes of texts in filters and exports; beyond that they go to a temporary file. */
#define STRINGS_IN_MEMORY ((size_t)64 << 20)

/* Part of the hash is stored here: a search compares few other texts, and growing compares none. */
struct string_slot {
    uint32_t number; /* 0: empty */
    uint32_t hash;
};

struct string_block {
    char *at;
    size_t size;
};

struct strings {
    struct pageable *pageable; /* NULL: the heap */
    VEC(struct view) list;
    struct string_slot *table; /* by content hash, open addressing */
    size_t table_mask;
    size_t table_count;
    VEC(struct string_block) blocks;
    char *room; /* free part of the newest shared block */
    size_t room_left;
    uint32_t limit;        /* STRINGS_MAX, or less in tests */
    uint32_t other;        /* number of the stand-in for strings beyond the limit, or 0 */
    uint64_t overflow;     /* how often it was used */
    struct map by_pointer; /* client pointer → number */
};

void strings_init(struct strings *s);

/* Makes an empty `s` allocate from `p`. */
void strings_use(struct strings *s, struct pageable *p);
void strings_release(struct strings *s);

/*
 * The number of `text`, added if new. Beyond 99 % of the limit, new texts become "(other)" and are
 * counted. 0 with `e` when memory is short.
 */
uint32_t strings_intern(struct strings *s, struct view text, struct err *e);

/*
 * Appends without searching for an equal text, so that numbers equal a file's positions. 0 on an
 * error.
 */
uint32_t strings_append(struct strings *s, struct view text, struct err *e);

/* Drops all texts and the pointers bound to them. */
void strings_clear(struct strings *s);

/*
 * Appends likewise, but strings_intern will find the text, unless an equal one came before. So the
 * same texts in order rebuild the same table. 0 on an error.
 */
uint32_t strings_restore(struct strings *s, struct view text, struct err *e);

/* The text of a number; the empty view for 0 and unknown numbers. */
static inline struct view strings_get(const struct strings *s, uint32_t number)
{
    if (number == 0 || number > s->list.len)
        return (struct view){"", 0};
    return s->list.at[number - 1];
}

/* Binds a client pointer to a string. The first answer counts. */
int strings_bind(struct strings *s, uint64_t pointer, uint32_t number, struct err *e);

/* The number bound to a client pointer, or 0. */
uint32_t strings_at_pointer(const struct strings *s, uint64_t pointer);
