#pragma once

#include "base/view.h"
#include "trace/store/store.h"

/*
 * The name of the zones of a source location: the location's own name, else its function. Empty for
 * none, and for a location that the trace does not describe.
 */
struct view zone_name(const struct trace *t, int16_t srcloc);
