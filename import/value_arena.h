#pragma once

/*
 * Plain values of a file, packed: numbers, texts, lists and dictionaries. A value is a number of 64
 * bits: its kind in the lowest 3, above them an integer or an offset in the arena. A container is
 * complete when it is added and never changes, so values that are equal share their bytes if the
 * second follows within some RECENT_MOST others. All memory is released at once.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cursor.h"
#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"

enum value_kind {
    VALUE_OTHER, /* None, fractions, integers beyond 64 bits: nothing that an importer needs */
    VALUE_INT,   /* integers of 60 bits, booleans */
    VALUE_WIDE,  /* other integers of 64 bits */
    VALUE_TEXT,  /* texts and bytes */
    VALUE_LIST,  /* lists, tuples, sets */
    VALUE_DICT,
};

#define VALUE_NONE ((uint64_t)VALUE_OTHER)

struct value_arena {
    struct buf bytes;
    struct buf node;  /* the one being added */
    uint64_t *recent; /* offsets by hash; a later one replaces an earlier one */
    size_t recent_len;
    uint64_t added; /* nodes */
};

void value_arena_release(struct value_arena *a);

static inline enum value_kind value_kind(uint64_t value)
{
    return (enum value_kind)(value & 7);
}

/* A value on a reader's stack. The other fields are the reader's. */
struct value_slot {
    uint64_t value;
    uint32_t memo;
    bool building;
};

/* Add a value. */
int value_integer(struct value_arena *a, int64_t number, uint64_t *value, struct err *e);
int value_text(struct value_arena *a, struct view text, uint64_t *value, struct err *e);

/*
 * Add a list of `n` items, or a dictionary of `n` pairs of a key and a value. `before`: the
 * container that they continue, or VALUE_LIST or VALUE_DICT, which are empty ones.
 */
int value_list(struct value_arena *a, uint64_t before, const struct value_slot *items, size_t n,
               uint64_t *value, struct err *e);
int value_dict(struct value_arena *a, uint64_t before, const struct value_slot *pairs, size_t n,
               uint64_t *value, struct err *e);

/* False when the value is no integer, or negative. */
bool value_number(const struct value_arena *a, uint64_t value, uint64_t *number);
/* False when the value is no integer. */
bool value_signed(const struct value_arena *a, uint64_t value, int64_t *number);

/* The text, or an empty view of a value of another kind. Valid until a value is added. */
struct view value_view(const struct value_arena *a, uint64_t value);

/* Walks over the items of a list in order. */
struct value_walk {
    const struct value_arena *arena;
    VEC(uint64_t) pieces; /* of the list, last first, but for the first piece */
    struct cursor items;
    uint64_t left; /* items of this piece */
};

/* Zero-initialise the walk before its first use. A value of another kind has no items. */
int value_walk_begin(struct value_walk *w, const struct value_arena *a, uint64_t list,
                     struct err *e);
bool value_walk_next(struct value_walk *w, uint64_t *item);
void value_walk_release(struct value_walk *w);

/* A piece of a dictionary; `before` is the one that it continues, VALUE_DICT if none. */
struct value_pairs {
    uint64_t before;
    uint64_t keys; /* a list */
    uint64_t n;
    struct cursor values;
};

/* False when the value is an empty dictionary, or none. */
bool value_pairs_of(const struct value_arena *a, uint64_t dict, struct value_pairs *pairs);
uint64_t value_pairs_next(struct value_pairs *pairs);
