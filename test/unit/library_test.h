#ifndef TIDEMARK_TEST_LIBRARY_TEST_H
#define TIDEMARK_TEST_LIBRARY_TEST_H

/* What tests of libtidetrace share: traces, and results as JSON. Include after cmocka.h. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "include/tidetrace.h"

#define SAMPLE "fixtures/traces/v0.14.0/memscen_mt.tracy"
#define WITH_ZONES "fixtures/traces/v0.14.0/allscen.tracy"
#define OLDER "fixtures/traces/v0.9.1/memscen.tracy"

static struct tidetrace_error error;

static inline struct tidetrace *open_trace(const char *path, uint32_t flags)
{
    struct tidetrace_open_options o = {.struct_size = sizeof o, .flags = flags};
    struct tidetrace *t;
    if (tidetrace_open(path, &o, &t, &error) != TIDETRACE_OK)
        fail_msg("%s", error.text);
    assert_non_null(t);
    return t;
}

static inline json_t *json_of(struct tidetrace_result *r, uint64_t first, uint64_t count)
{
    char *text;
    size_t size;
    assert_int_equal(tidetrace_result_json(r, first, count, &text, &size, &error), TIDETRACE_OK);
    assert_int_equal(strlen(text), size);
    json_t *doc = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(doc);
    tidetrace_free(text);
    return doc;
}

static inline bool is_text(struct tidetrace_text text, const json_t *value)
{
    if (json_is_null(value))
        return text.size == 0;
    return text.size == json_string_length(value) &&
           memcmp(text.data, json_string_value(value), text.size) == 0;
}

static inline uint64_t number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

#endif
