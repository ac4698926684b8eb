#pragma once

/*
 * Extra columns of rows by zone and by frame: allocations per call of a zone, and how far a frame
 * deviates from the others. Empty for other rows. For report/ only.
 */

#include "report/sink.h"
#include "report/write/json_value.h"

/*
 * Text: further columns, their width without the two blanks before the first (0: there are none),
 * and the lines below the rows by frame.
 */
unsigned text_cost_width(const struct report *r);
void text_cost_titles(struct report *r);
void text_cost(struct report *r, const struct summary_row *row);
void text_frames(struct report *r);

/* Adds the members to a row's object, which is freed if memory is short. */
json_t *json_cost(const struct summary *s, const struct summary_row *row, json_t *object);
json_t *json_frames(const struct summary *s, const struct summary_frames *f);

/* CSV: further columns. */
void csv_cost_titles(struct report *r);
void csv_cost(struct report *r, const struct summary_row *row);
