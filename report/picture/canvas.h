#ifndef TIDEMARK_REPORT_PICTURE_CANVAS_H
#define TIDEMARK_REPORT_PICTURE_CANVAS_H

/*
 * What a picture is drawn on: SVG, or pixels that become a PNG. Drawings are made once for both.
 *
 * SVG is written as it is drawn. It has a title and a description, text that is text, colours that
 * can be seen on light and dark pages, and follows the reader's choice between these two where the
 * viewer knows it. Pixels are twice as fine as the coordinates, on a light ground.
 *
 * Coordinates are those of SVG: y downwards. Text of a trace is made harmless here.
 */

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/view.h"
#include "report/picture/raster.h"
#include "report/write/document.h"

enum picture_format { PICTURE_NONE, PICTURE_SVG, PICTURE_PNG };

/* "svg" or "png"; PICTURE_NONE for other texts. */
enum picture_format picture_format_parse(const char *text);

/* Colours that are not the same on light and dark, and then any other: 0xRRGGBB. */
#define CANVAS_INK 0x1000000u   /* of what is read first */
#define CANVAS_MUTED 0x1000001u /* of what stands beside it */
#define CANVAS_GRID 0x1000002u
#define CANVAS_PANEL 0x1000003u /* behind a drawing */

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
    const struct buf *title, *description; /* bytes of a trace may be in them */
};

/* ERR_USAGE when the picture would be too large; the text tells `smaller`, what to do about it. */
int canvas_begin(struct canvas *c, const struct canvas_begin *b, const char *smaller, FILE *out,
                 struct err *e);

/* Writes what is left. ERR_OUTPUT when `out` cannot be written. Also releases `c`. */
int canvas_end(struct canvas *c, struct err *e);

void canvas_rect(struct canvas *c, double x, double y, double width, double height, uint32_t colour,
                 double opacity);

struct canvas_line {
    uint32_t colour;
    double width;
    double dash; /* length of dashes and gaps, 0: none */
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
/* `x`, `y`: of the anchor, on the base line. */
void canvas_text(struct canvas *c, double x, double y, const struct canvas_text *how,
                 struct view text);

/* Appends at most so many characters of a text of the trace, harmless, with "…" for the rest. */
void canvas_shorten(struct buf *out, struct view text, size_t chars);

/*
 * What belongs together: SVG gives it a class, what it is for who points at it or does not see it
 * (bytes of a trace; empty: nothing), and attributes, as text: `data-bytes="5"`.
 */
void canvas_group(struct canvas *c, const char *class_name, struct view title,
                  const char *attributes);
void canvas_group_end(struct canvas *c);

#endif
