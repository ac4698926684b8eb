#pragma once

/*
 * An anti-aliased picture of pixels: filled polygons, strokes with round ends, and text in a stroke
 * font (stroke_font.h). Pictures therefore look the same on every machine, whatever fonts it has.
 * Coordinates are pixels from the upper left corner, y downwards.
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
    uint8_t *cover; /* coverage of the current drawing, width * height; 0 between drawings */
    /* The non-zero part of `cover`: columns and rows [x0, x1), [y0, y1). */
    unsigned x0, y0, x1, y1;
};

/*
 * Fills the picture with colour `rgb`, 0xRRGGBB. `r` need not be initialised. False if memory is
 * short.
 */
bool raster_init(struct raster *r, unsigned width, unsigned height, uint32_t rgb);
void raster_release(struct raster *r);

/*
 * Drawing has two steps: shapes are added to the cover, then the cover is painted once, so that
 * overlaps of the same drawing are invisible.
 */
void raster_stroke(struct raster *r, struct point from, struct point to, double width);

/* Adds the inside of a closed polygon, by the even-odd rule. False if memory is short. */
bool raster_fill(struct raster *r, const struct point *points, size_t n);

/* Paints the covered pixels and clears the cover. `opacity` from 0 to 1. */
void raster_paint(struct raster *r, uint32_t rgb, double opacity);
