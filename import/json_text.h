#pragma once

/*
 * Collects one JSON value from pieces and keeps its members, each with its text. The text is
 * compact. Members of objects are sorted by name, and the last of equal names counts. Numbers have
 * the shortest form that gives the same number. Texts match the official importer's
 * (nlohmann::json::dump of import/src/import-chrome.cpp @ v0.14.0).
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"

/* Whether `c` is white space between JSON values. */
static inline bool json_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

enum json_kind {
    JSON_NOTHING, /* null */
    JSON_BOOLEAN,
    JSON_NUMBER,
    JSON_STRING,
    JSON_CONTAINER,
};

/* Offsets into json_text.bytes. */
struct json_member {
    size_t key, key_len;
    size_t value, value_len;
    size_t order; /* position in the input */
    enum json_kind kind;
};

struct json_level {
    size_t first; /* first of its members */
    size_t start; /* start of its members' bytes */
    size_t key, key_len;
    bool is_object;
};

struct json_text {
    struct buf bytes;
    struct buf scratch;
    VEC(struct json_member) members; /* at the end: the members of the value itself */
    VEC(struct json_level) levels;
    size_t key, key_len; /* of the next value */
    size_t order;
};

void json_text_release(struct json_text *j);
void json_text_clear(struct json_text *j);

/* Add the pieces in order. The first is the beginning of an object or array, or a scalar value. */
int json_text_open(struct json_text *j, bool is_object, struct err *e);
int json_text_close(struct json_text *j, struct err *e);
int json_text_key(struct json_text *j, struct view key, struct err *e);
int json_text_string(struct json_text *j, struct view text, struct err *e);
int json_text_number(struct json_text *j, struct view digits, struct err *e);
int json_text_word(struct json_text *j, const char *word, enum json_kind kind, struct err *e);

static inline struct view json_text_view(const struct json_text *j, size_t start, size_t len)
{
    return len ? (struct view){(const char *)j->bytes.data + start, len} : (struct view){"", 0};
}

/*
 * Key and text of a member of the finished value: strings without quotation marks, other values as
 * JSON.
 */
static inline struct view json_text_key_of(const struct json_text *j, const struct json_member *m)
{
    return json_text_view(j, m->key, m->key_len);
}

static inline struct view json_text_value_of(const struct json_text *j, const struct json_member *m)
{
    return json_text_view(j, m->value, m->value_len);
}

/* The finished value's member of that name, or NULL. */
const struct json_member *json_text_find(const struct json_text *j, const char *key);

/* Appends a number: an integer if it is one and fits 64 bits, else the shortest decimal. */
void json_number_text(struct buf *to, struct view digits);
