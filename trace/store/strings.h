#ifndef TIDEMARK_TRACE_STORE_STRINGS_H
#define TIDEMARK_TRACE_STORE_STRINGS_H

/*
 * The strings of a trace. A string's number ("sidx") is 1 + its position, 0 is none, as in the
 * file. Texts are copied, stay where they are until release, and carry a terminating NUL beyond
 * len.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/pageable.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/file/limits.h"

/* Bytes of a text: with a record's head it stays below what the reader takes (TRACE_RECORD_MAX). */
#define STRING_TEXT_MAX (((size_t)64 << 20) - 64)

/* Bytes of texts that filters and exports keep on the heap, and beyond in a temporary file. */
#define STRINGS_IN_MEMORY ((size_t)64 << 20)

/* With a part of the hash beside it few other texts are looked at, and none when it grows. */
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
    uint32_t limit;    /* STRINGS_MAX, or less in tests */
    uint32_t other;    /* number of the string that stands in for those beyond the limit, or 0 */
    uint64_t overflow; /* how many times it did */
    struct map by_pointer; /* client pointer → number */
};

void strings_init(struct strings *s);

/* Has all of an empty `s` take its memory from `p`. */
void strings_use(struct strings *s, struct pageable *p);
void strings_release(struct strings *s);

/*
 * The number of `text`, added when new. Beyond 99 % of the limit new texts become "(other)" and are
 * counted. 0 with `e` filled when memory is short.
 */
uint32_t strings_intern(struct strings *s, struct view text, struct err *e);

/* Appends without looking for an equal one, so that numbers equal a file's positions. 0 on error.
 */
uint32_t strings_append(struct strings *s, struct view text, struct err *e);

/* Drops all texts, and what is bound to them. */
void strings_clear(struct strings *s);

/*
 * Appends as above, but strings_intern will find the text, unless an equal one came before: so
 * that texts in their order make the same table again. 0 on error.
 */
uint32_t strings_restore(struct strings *s, struct view text, struct err *e);

/* The text of a number; the empty view for 0 and unknown numbers. */
static inline struct view strings_get(const struct strings *s, uint32_t number)
{
    if (number == 0 || number > s->list.len)
        return (struct view){"", 0};
    return s->list.at[number - 1];
}

/* Remembers what a client pointer points to. The first answer stands. */
int strings_bind(struct strings *s, uint64_t pointer, uint32_t number, struct err *e);

/* The number bound to a client pointer, or 0. */
uint32_t strings_at_pointer(const struct strings *s, uint64_t pointer);

#endif
