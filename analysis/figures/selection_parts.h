#pragma once

/* Steps of selection_init in separate files. For selection*.c only. */

#include "analysis/figures/selection.h"

/* selection_stacks.c: fills s->callstacks from options.match. */
int selection_match_callstacks(struct selection *s, struct err *e);

/* selection_zones.c: fills s->zones from options.zone. */
int selection_find_zones(struct selection *s, struct err *e);
