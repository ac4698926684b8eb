#pragma once

/* The memory map as a picture: a cell's opacity is its fill level, its colour its age. */

#include <stdio.h>

#include "analysis/questions/memory_map.h"
#include "base/err.h"
#include "report/picture/canvas.h"

/* ERR_OUTPUT if `out` cannot be written. */
int memory_map_draw(const struct memory_map *m, const struct trace *trace,
                    enum picture_format format, FILE *out, struct err *e);
