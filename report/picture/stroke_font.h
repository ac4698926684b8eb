#pragma once

/*
 * A stroke font for pixel pictures: ASCII, the letters of Latin-1, the micro sign and the ellipsis.
 * A box replaces every other character.
 */

#include "base/view.h"
#include "report/picture/raster.h"

/* The width of a text at a size (em, in pixels). The text must be well-formed UTF-8. */
double font_width(struct view text, double size);

/* Adds the strokes of a text to the cover, starting at `at`, on the base line. */
void font_draw(struct raster *r, struct view text, struct point at, double size, bool bold);
