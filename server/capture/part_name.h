#pragma once

#include <stdbool.h>

/* Names beside an output: of further parts, and of recovered traces. The caller frees them. */

/* "x.tracy" → "x.WORD.tracy". NULL when memory is short. */
char *name_with(const char *output, const char *word);

/* The n-th of several: "x.tracy", "x.2.tracy", … NULL when memory is short. */
char *part_name(const char *output, unsigned n);

/* Whether `path` is one of those. */
bool part_name_is(const char *output, const char *path);

#define PART_NAMES_MAX 100000u

/*
 * The first free name of the parts of "FOLDER/NAME"; if all PART_NAMES_MAX are taken, the last one.
 * NULL when memory is short.
 */
char *part_name_unused(const char *folder, const char *name);
