#ifndef TIDEMARK_REPORT_PICTURE_STROKE_FONT_H
#define TIDEMARK_REPORT_PICTURE_STROKE_FONT_H

/*
 * An alphabet of strokes for lettering in pictures of pixels: ASCII, the letters of Latin-1, the
 * micro sign and the ellipsis; a box stands for every other character.
 */

#include "base/view.h"
#include "report/picture/raster.h"

/* How long a text is at a size (of the em, pixels). Well-formed UTF-8. */
double font_width(struct view text, double size);

/* Adds the strokes of a text to the cover; it begins at `at`, on the base line. */
void font_draw(struct raster *r, struct view text, struct point at, double size, bool bold);

#endif
