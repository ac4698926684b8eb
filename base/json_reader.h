#pragma once

/*
 * Parses JSON texts (RFC 8259) to jansson values. jansson's own parser is not used: if an
 * allocation fails, it drops bytes of strings, or crashes.
 */

#include <stdbool.h>

#include <jansson.h>

#include "base/view.h"

#define JSON_DEPTH_MAX 100u /* nesting depth of values */

enum json_outcome {
    JSON_READ,
    JSON_BROKEN, /* invalid JSON, numbers beyond 64 bits, duplicate keys, … */
    JSON_NO_MEMORY,
};

/*
 * Parses a text that is one value. `nul_allowed`: strings may contain \u0000. *value is a new
 * reference, NULL unless JSON_READ is returned.
 */
enum json_outcome json_read(struct view text, bool nul_allowed, json_t **value);
