#pragma once

/*
 * A drawing surface with two formats: SVG, and pixels that become a PNG. Drawing code is the same
 * for both.
 *
 * SVG is written while drawing. It has a title, a description and real text. Its colours work on
 * light and dark pages and follow the reader's theme if the viewer supports that. Pixels have twice
 * the resolution of the coordinates, on a light background.
 *
 * Coordinates are those of SVG: y downwards. The canvas escapes text of the trace.
 */

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/view.h"
#include "report/picture/raster.h"
#include "report/write/document.h"

enum picture_format { PICTURE_NONE, PICTURE_SVG, PICTURE_PNG };

/* Parses "svg" or "png"; PICTURE_NONE for other texts. */
enum picture_format picture_format_parse(const char *text);

/* Colours that differ between light and dark themes. Any other colour is 0xRRGGBB. */
#define CANVAS_INK 0x1000000u   /* primary text */
#define CANVAS_MUTED 0x1000001u /* secondary text */
#define CANVAS_GRID 0x1000002u
#define CANVAS_PANEL 0x1000003u /* background of a drawing */

enum canvas_anchor { CANVAS_START, CANVAS_MIDDLE, CANVAS_END };

struct canvas {
    enum picture_format format;
    struct document doc;  /* SVG */
    struct raster pixels; /* PNG */
    double width, height;
};

struct canvas_begin {
    enum picture_format format;
    double width, height;
    const struct buf *title, *description; /* may contain bytes of a trace */
};

/*
 * Fails with ERR_USAGE if the picture would be too large; the text contains `smaller`, the remedy.
 */
int canvas_begin(struct canvas *c, const struct canvas_begin *b, const char *smaller, FILE *out,
                 struct err *e);

/* Writes the rest and releases `c`. ERR_OUTPUT if `out` cannot be written. */
int canvas_end(struct canvas *c, struct err *e);

void canvas_rect(struct canvas *c, double x, double y, double width, double height, uint32_t colour,
                 double opacity);

struct canvas_line {
    uint32_t colour;
    double width;
    double dash; /* length of dashes and gaps; 0: none */
};
void canvas_line(struct canvas *c, const struct point *points, size_t n,
                 const struct canvas_line *how);
void canvas_area(struct canvas *c, const struct point *points, size_t n, uint32_t colour,
                 double opacity);

struct canvas_text {
    double size;
    enum canvas_anchor anchor;
    bool bold;
    uint32_t colour;
};
/* `x`, `y`: the anchor, on the base line. */
void canvas_text(struct canvas *c, double x, double y, const struct canvas_text *how,
                 struct view text);

/* Appends at most `chars` characters of a text of the trace, escaped, with "…" for the rest. */
void canvas_shorten(struct buf *out, struct view text, size_t chars);

/*
 * Groups shapes. In SVG the group has a class, a title for tooltips and screen readers (bytes of a
 * trace; empty: none), and attributes, as text: `data-bytes="5"`.
 */
void canvas_group(struct canvas *c, const char *class_name, struct view title,
                  const char *attributes);
void canvas_group_end(struct canvas *c);
