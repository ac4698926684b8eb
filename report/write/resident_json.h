#pragma once

#include <jansson.h>

#include "analysis/figures/resident_fact.h"

/* The shares as an object; NULL if memory is short. */
json_t *resident_json(const struct resident_shares *s);
