#pragma once

/* Reads a JSON text into packed values. */

#include "import/source.h"
#include "import/value_arena.h"

struct json_values {
    uint64_t root;
    uint64_t bytes;    /* of the whole text */
    uint64_t trailing; /* bytes after the value, white space left out */
};

/* Reads all of `s`. ERR_INPUT with the offset when the text is no JSON. */
int json_values_read(struct import_source *s, struct value_arena *a, struct json_values *j,
                     struct err *e);
