#include "report/picture/raster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

/* Samples per pixel, vertically. Horizontally, coverage is exact. */
#define SAMPLES 4

bool raster_init(struct raster *r, unsigned width, unsigned height, uint32_t rgb)
{
    size_t n = (size_t)width * height;
    *r = (struct raster){.width = width, .height = height};
    r->rgb = malloc(n * 3);
    r->cover = calloc(n, 1);
    if (!r->rgb || !r->cover) {
        raster_release(r);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        r->rgb[3 * i] = (uint8_t)(rgb >> 16);
        r->rgb[3 * i + 1] = (uint8_t)(rgb >> 8);
        r->rgb[3 * i + 2] = (uint8_t)rgb;
    }
    return true;
}

void raster_release(struct raster *r)
{
    free(r->rgb);
    free(r->cover);
    *r = (struct raster){0};
}

/* Converts a coordinate to a pixel number from 0 to `most`. */
static unsigned pixel(double at, unsigned most)
{
    return at <= 0 ? 0 : at >= (double)most ? most : (unsigned)at;
}

static void cover_grow(struct raster *r, unsigned x0, unsigned y0, unsigned x1, unsigned y1)
{
    if (x0 >= x1 || y0 >= y1)
        return;
    bool none = r->x0 >= r->x1;
    r->x0 = none || x0 < r->x0 ? x0 : r->x0;
    r->y0 = none || y0 < r->y0 ? y0 : r->y0;
    r->x1 = none || x1 > r->x1 ? x1 : r->x1;
    r->y1 = none || y1 > r->y1 ? y1 : r->y1;
}

/* Overlapping shapes cover a pixel as much as the larger of them. */
static void cover_pixel(struct raster *r, unsigned x, unsigned y, double part)
{
    uint8_t *c = &r->cover[(size_t)y * r->width + x];
    uint8_t now = part >= 1 ? 255 : part <= 0 ? 0 : (uint8_t)lround(part * 255);
    *c = now > *c ? now : *c;
}

static double distance(struct point p, struct point a, struct point b)
{
    double dx = b.x - a.x;
    double dy = b.y - a.y;
    double length = dx * dx + dy * dy;
    double t = length > 0 ? ((p.x - a.x) * dx + (p.y - a.y) * dy) / length : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

void raster_stroke(struct raster *r, struct point from, struct point to, double width)
{
    double reach = width / 2 + 1;
    unsigned x0 = pixel(fmin(from.x, to.x) - reach, r->width);
    unsigned y0 = pixel(fmin(from.y, to.y) - reach, r->height);
    unsigned x1 = pixel(fmax(from.x, to.x) + reach + 1, r->width);
    unsigned y1 = pixel(fmax(from.y, to.y) + reach + 1, r->height);
    for (unsigned y = y0; y < y1; y++) {
        for (unsigned x = x0; x < x1; x++) {
            struct point p = {x + 0.5, y + 0.5};
            cover_pixel(r, x, y, width / 2 + 0.5 - distance(p, from, to));
        }
    }
    cover_grow(r, x0, y0, x1, y1);
}

/* ---- polygons */

struct crossings {
    VEC(double) x;
};

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The crossings of the outline with a line of constant y, from left to right. */
static bool find_crossings(struct crossings *c, const struct point *points, size_t n, double y)
{
    c->x.len = 0;
    for (size_t i = 0; i < n; i++) {
        struct point a = points[i];
        struct point b = points[i + 1 < n ? i + 1 : 0];
        if ((a.y <= y) == (b.y <= y))
            continue;
        if (!vec_push(&c->x, a.x + (y - a.y) / (b.y - a.y) * (b.x - a.x)))
            return false;
    }
    if (c->x.len)
        qsort(c->x.at, c->x.len, sizeof *c->x.at, compare_doubles);
    return true;
}

/* Adds the coverage of each pixel between two positions of a row. */
static void add_span(float *row, unsigned width, double from, double to)
{
    from = fmax(from, 0);
    to = fmin(to, width);
    for (unsigned x = pixel(from, width); x < width && (double)x < to; x++)
        row[x] += (float)((fmin(to, x + 1.0) - fmax(from, x)) / SAMPLES);
}

/* Computes the coverage of each pixel of a row; `row` has room for the picture's width. */
static bool fill_row(struct raster *r, struct crossings *c, float *row, const struct point *points,
                     size_t n, unsigned y)
{
    memset(row, 0, r->width * sizeof *row);
    for (int s = 0; s < SAMPLES; s++) {
        if (!find_crossings(c, points, n, y + (s + 0.5) / SAMPLES))
            return false;
        for (size_t i = 0; i + 1 < c->x.len; i += 2)
            add_span(row, r->width, c->x.at[i], c->x.at[i + 1]);
    }
    return true;
}

bool raster_fill(struct raster *r, const struct point *points, size_t n)
{
    struct crossings c = {0};
    struct point low = {INFINITY, INFINITY};
    struct point high = {-INFINITY, -INFINITY};
    for (size_t i = 0; i < n; i++) {
        low = (struct point){fmin(low.x, points[i].x), fmin(low.y, points[i].y)};
        high = (struct point){fmax(high.x, points[i].x), fmax(high.y, points[i].y)};
    }
    if (n == 0)
        return true;
    unsigned x0 = pixel(low.x, r->width);
    unsigned x1 = pixel(high.x + 1, r->width);
    unsigned y0 = pixel(low.y, r->height);
    unsigned y1 = pixel(high.y + 1, r->height);
    float *row = malloc(((size_t)r->width + 1) * sizeof *row);
    bool ok = row != NULL;
    for (unsigned y = y0; y < y1 && ok; y++) {
        ok = fill_row(r, &c, row, points, n, y);
        for (unsigned x = x0; x < x1 && ok; x++) {
            if (row[x] > 0)
                cover_pixel(r, x, y, row[x]);
        }
    }
    cover_grow(r, x0, y0, x1, y1);
    vec_release(&c.x);
    free(row);
    return ok;
}

void raster_paint(struct raster *r, uint32_t rgb, double opacity)
{
    const uint8_t colour[3] = {(uint8_t)(rgb >> 16), (uint8_t)(rgb >> 8), (uint8_t)rgb};
    for (unsigned y = r->y0; y < r->y1; y++) {
        for (unsigned x = r->x0; x < r->x1; x++) {
            size_t at = (size_t)y * r->width + x;
            double part = r->cover[at] / 255.0 * opacity;
            for (int i = 0; i < 3 && part > 0; i++) {
                double mixed = r->rgb[3 * at + i] * (1 - part) + colour[i] * part;
                r->rgb[3 * at + i] = (uint8_t)lround(mixed);
            }
            r->cover[at] = 0;
        }
    }
    r->x0 = r->y0 = r->x1 = r->y1 = 0;
}
