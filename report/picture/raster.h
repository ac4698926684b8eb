#ifndef TIDEMARK_REPORT_PICTURE_RASTER_H
#define TIDEMARK_REPORT_PICTURE_RASTER_H

/*
 * A picture of pixels: filled polygons, strokes with round ends, and lettering in an alphabet of
 * strokes (stroke_font.h), all with smooth edges. So pictures look the same on every machine,
 * whatever fonts it has. Coordinates are pixels from the upper left corner, y downwards.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct point {
    double x, y;
};

struct raster {
    unsigned width, height;
    uint8_t *rgb;   /* width * height * 3 */
    uint8_t *cover; /* of what is being drawn, width * height; 0 between drawings */
    /* The part of `cover` that is not 0: columns and rows [x0, x1), [y0, y1). */
    unsigned x0, y0, x1, y1;
};

/* All of it in colour `rgb`, 0xRRGGBB. `r` need not be initialised. False when memory is short. */
bool raster_init(struct raster *r, unsigned width, unsigned height, uint32_t rgb);
void raster_release(struct raster *r);

/*
 * Drawing is two steps: shapes are added to the cover, then it is painted once, so that overlaps of
 * what belongs together are not seen.
 */
void raster_stroke(struct raster *r, struct point from, struct point to, double width);

/* The inside of a closed polygon, by the even-odd rule. False when memory is short. */
bool raster_fill(struct raster *r, const struct point *points, size_t n);

/* Paints what is covered and clears the cover. `opacity` from 0 to 1. */
void raster_paint(struct raster *r, uint32_t rgb, double opacity);

#endif
