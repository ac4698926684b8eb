#pragma once

/*
 * Shortens an answer to what an agent can read: texts, call stacks and lists are cut, and what was
 * left out is counted in members that end in "_left_out".
 */

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

struct answer_limits {
    size_t bytes;  /* of the whole answer */
    size_t frames; /* of a call stack, beginning at the site */
};

/* The bytes of a value as it is sent. */
size_t answer_size(const json_t *value);

/*
 * Cuts all texts in a row, removes what is null in it, and makes a list of texts of each of its
 * call stacks: "FUNCTION (FILE:LINE)", or image and address. False if memory is short.
 */
bool answer_cut_row(const struct answer_limits *l, json_t *row);

/*
 * Does the same to all members of a document except `rows` (may be NULL), then halves the largest
 * of its lists until these members fit into `bytes`, or each list has one element. False if memory
 * is short.
 */
bool answer_cut_head(const struct answer_limits *l, json_t *document, const char *rows,
                     size_t bytes);
