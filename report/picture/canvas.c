#include "report/picture/canvas.h"

#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "report/picture/stroke_font.h"
#include "report/write/markup.h"

/* Pixels per unit of length. */
#define SCALE 2
#define PIXELS_MAX (UINT32_C(1) << 26)
#define SIDE_MAX 32767

enum picture_format picture_format_parse(const char *text)
{
    return strcmp(text, "svg") == 0   ? PICTURE_SVG
           : strcmp(text, "png") == 0 ? PICTURE_PNG
                                      : PICTURE_NONE;
}

/* ---- colours */

#define THEMED 4

static const struct {
    const char *class_name;
    uint32_t neutral; /* for viewers without style sheets */
    uint32_t light, dark;
} themed[THEMED] = {
    {"ink", 0x768390, 0x1f2328, 0xe6edf3},
    {"muted", 0x768390, 0x59636e, 0x9198a1},
    {"grid", 0x8b949e, 0xd1d9e0, 0x3d444d},
    {"panel", 0x8b949e, 0xf6f8fa, 0x151b23},
};

static uint32_t on_light(uint32_t colour)
{
    return colour < CANVAS_INK ? colour : themed[colour - CANVAS_INK].light;
}

static void put_style(struct buf *b)
{
    buf_puts(b, "<style>text{font-family:system-ui,\"DejaVu Sans\",\"Liberation Sans\",Arial,"
                "sans-serif}");
    for (int dark = 0; dark < 2; dark++) {
        if (dark)
            buf_puts(b, "@media(prefers-color-scheme:dark){");
        for (int i = 0; i < THEMED; i++) {
            uint32_t rgb = dark ? themed[i].dark : themed[i].light;
            buf_printf(b, ".%s{fill:#%06x}.%s-line{stroke:#%06x}", themed[i].class_name, rgb,
                       themed[i].class_name, rgb);
        }
    }
    buf_puts(b, "}</style>\n");
}

/* Writes ` fill="#…"`, with a class if the colour depends on the page's theme. */
static void put_colour(struct buf *b, const char *attribute, uint32_t colour)
{
    bool line = attribute[0] == 's';
    if (colour < CANVAS_INK) {
        buf_printf(b, " %s=\"#%06x\"", attribute, colour);
        return;
    }
    buf_printf(b, " class=\"%s%s\" %s=\"#%06x\"", themed[colour - CANVAS_INK].class_name,
               line ? "-line" : "", attribute, themed[colour - CANVAS_INK].neutral);
}

/* ---- begin */

static void svg_begin(struct canvas *c, const struct canvas_begin *b)
{
    struct buf *out = &c->doc.buf;
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" "
               "viewBox=\"0 0 %g %g\" role=\"img\" aria-labelledby=\"title description\">\n"
               "<title id=\"title\">",
               b->width, b->height, b->width, b->height);
    markup_xml(out, (struct view){(const char *)b->title->data, b->title->len});
    buf_puts(out, "</title>\n<desc id=\"description\">");
    markup_xml(out, (struct view){(const char *)b->description->data, b->description->len});
    buf_puts(out, "</desc>\n");
    put_style(out);
}

int canvas_begin(struct canvas *c, const struct canvas_begin *b, const char *smaller, FILE *out,
                 struct err *e)
{
    *c = (struct canvas){
        .format = b->format, .doc = document_begin(out), .width = b->width, .height = b->height};
    if (b->format == PICTURE_SVG) {
        svg_begin(c, b);
        return 0;
    }
    double width = ceil(b->width) * SCALE;
    double height = ceil(b->height) * SCALE;
    if (width > SIDE_MAX || height > SIDE_MAX || width * height > PIXELS_MAX)
        return err_set(e, ERR_USAGE, "the picture would be of %.0f × %.0f pixels: %s", width,
                       height, smaller);
    if (!raster_init(&c->pixels, (unsigned)width, (unsigned)height, 0xffffff))
        return err_no_memory(e, "the picture");
    return 0;
}

/* ---- shapes */

static struct point scaled(double x, double y)
{
    return (struct point){x * SCALE, y * SCALE};
}

void canvas_area(struct canvas *c, const struct point *points, size_t n, uint32_t colour,
                 double opacity)
{
    if (c->format == PICTURE_PNG) {
        struct point *copy = malloc((n + 1) * sizeof *copy);
        for (size_t i = 0; copy && i < n; i++)
            copy[i] = scaled(points[i].x, points[i].y);
        c->doc.failed |= !copy || !raster_fill(&c->pixels, copy, n);
        raster_paint(&c->pixels, on_light(colour), opacity);
        free(copy);
        return;
    }
    struct buf *b = &c->doc.buf;
    buf_puts(b, "<path d=\"");
    for (size_t i = 0; i < n; i++)
        buf_printf(b, "%s%.2f %.2f", i ? "L" : "M", points[i].x, points[i].y);
    buf_puts(b, "Z\"");
    put_colour(b, "fill", colour);
    if (opacity < 1)
        buf_printf(b, " fill-opacity=\"%g\"", opacity);
    buf_puts(b, "/>\n");
    document_flush(&c->doc);
}

void canvas_rect(struct canvas *c, double x, double y, double width, double height, uint32_t colour,
                 double opacity)
{
    if (c->format == PICTURE_PNG) {
        const struct point corners[] = {
            {x, y}, {x + width, y}, {x + width, y + height}, {x, y + height}};
        canvas_area(c, corners, 4, colour, opacity);
        return;
    }
    struct buf *b = &c->doc.buf;
    buf_printf(b, "<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\"", x, y, width, height);
    put_colour(b, "fill", colour);
    if (opacity < 1)
        buf_printf(b, " fill-opacity=\"%g\"", opacity);
    buf_puts(b, "/>\n");
    document_flush(&c->doc);
}

/* Strokes a line. With dashes, strokes every second piece of that length. */
static void stroke_dashes(struct canvas *c, const struct point *points, size_t n,
                          const struct canvas_line *how)
{
    double dash = how->dash * SCALE;
    double gone = 0; /* length of the line so far, in dashes and gaps */
    for (size_t i = 0; i + 1 < n; i++) {
        struct point a = scaled(points[i].x, points[i].y);
        struct point b = scaled(points[i + 1].x, points[i + 1].y);
        double length = hypot(b.x - a.x, b.y - a.y);
        for (double at = 0; at < length;) {
            double left = dash - fmod(gone, dash);
            double end = fmin(at + left, length);
            struct point from = {a.x + (b.x - a.x) * at / length, a.y + (b.y - a.y) * at / length};
            struct point to = {a.x + (b.x - a.x) * end / length, a.y + (b.y - a.y) * end / length};
            if (fmod(gone, 2 * dash) < dash)
                raster_stroke(&c->pixels, from, to, how->width * SCALE);
            /* Ensures progress despite rounding. */
            gone += fmax(end - at, 1e-6);
            at = fmax(end, at + 1e-6);
        }
    }
}

void canvas_line(struct canvas *c, const struct point *points, size_t n,
                 const struct canvas_line *how)
{
    if (c->format == PICTURE_PNG) {
        for (size_t i = 0; i + 1 < n && how->dash <= 0; i++)
            raster_stroke(&c->pixels, scaled(points[i].x, points[i].y),
                          scaled(points[i + 1].x, points[i + 1].y), how->width * SCALE);
        if (how->dash > 0)
            stroke_dashes(c, points, n, how);
        raster_paint(&c->pixels, on_light(how->colour), 1);
        return;
    }
    struct buf *b = &c->doc.buf;
    buf_puts(b, "<path fill=\"none\" d=\"");
    for (size_t i = 0; i < n; i++)
        buf_printf(b, "%s%.2f %.2f", i ? "L" : "M", points[i].x, points[i].y);
    buf_puts(b, "\"");
    put_colour(b, "stroke", how->colour);
    buf_printf(b, " stroke-width=\"%g\" stroke-linejoin=\"round\"", how->width);
    if (how->dash > 0)
        buf_printf(b, " stroke-dasharray=\"%g\"", how->dash);
    buf_puts(b, "/>\n");
    document_flush(&c->doc);
}

/* ---- text, groups */

static void pixel_text(struct canvas *c, double x, double y, const struct canvas_text *how,
                       struct view text)
{
    struct buf plain = {0};
    format_terminal(&plain, text);
    struct view shown = {(const char *)plain.data, plain.len};
    double width = font_width(shown, how->size * SCALE);
    struct point at = scaled(x, y);
    at.x -= how->anchor == CANVAS_MIDDLE ? width / 2 : how->anchor == CANVAS_END ? width : 0;
    font_draw(&c->pixels, shown, at, how->size * SCALE, how->bold);
    raster_paint(&c->pixels, on_light(how->colour), 1);
    buf_end(&plain, &c->doc.failed);
}

void canvas_text(struct canvas *c, double x, double y, const struct canvas_text *how,
                 struct view text)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    if (c->format == PICTURE_PNG) {
        pixel_text(c, x, y, how, text);
        return;
    }
    struct buf *b = &c->doc.buf;
    buf_printf(b, "<text x=\"%g\" y=\"%g\" font-size=\"%g\"", x, y, how->size);
    if (how->anchor != CANVAS_START)
        buf_printf(b, " text-anchor=\"%s\"", anchors[how->anchor]);
    if (how->bold)
        buf_puts(b, " font-weight=\"bold\"");
    put_colour(b, "fill", how->colour);
    buf_puts(b, ">");
    markup_xml(b, text);
    buf_puts(b, "</text>\n");
}

void canvas_shorten(struct buf *out, struct view text, size_t chars)
{
    struct buf plain = {0};
    size_t n = 0;
    format_terminal(&plain, text);
    for (size_t i = 0; i < chars && n < plain.len; i++) {
        for (n++; n < plain.len && (plain.data[n] & 0xc0) == 0x80;)
            n++;
    }
    buf_put(out, plain.data, n);
    buf_puts(out, n < plain.len ? "…" : "");
    buf_end(&plain, &out->failed);
}

void canvas_group(struct canvas *c, const char *class_name, struct view title,
                  const char *attributes)
{
    struct buf *b = &c->doc.buf;
    if (c->format == PICTURE_PNG)
        return;
    buf_printf(b, "<g class=\"%s\"", class_name);
    if (attributes && *attributes)
        buf_printf(b, " %s", attributes);
    buf_puts(b, ">\n");
    if (title.len) {
        buf_puts(b, "<title>");
        markup_xml(b, title);
        buf_puts(b, "</title>\n");
    }
}

void canvas_group_end(struct canvas *c)
{
    if (c->format == PICTURE_SVG)
        buf_puts(&c->doc.buf, "</g>\n");
}

/* ---- end */

static int write_png(struct canvas *c, struct err *e)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = c->pixels.width,
                       .height = c->pixels.height,
                       .format = PNG_FORMAT_RGB,
                       .flags = PNG_IMAGE_FLAG_FAST}; /* no filters: flat colours need none */
    int ok = png_image_write_to_stdio(&image, c->doc.out, 0, c->pixels.rgb, 0, NULL);
    if (!ok && !ferror(c->doc.out))
        err_set(e, ERR_OUTPUT, "cannot write the picture: %s", image.message);
    png_image_free(&image);
    return ok || ferror(c->doc.out) ? 0 : -1;
}

int canvas_end(struct canvas *c, struct err *e)
{
    int status = 0;
    if (c->format == PICTURE_SVG)
        buf_puts(&c->doc.buf, "</svg>\n");
    else if (!c->doc.failed)
        status = write_png(c, e);
    raster_release(&c->pixels);
    if (status == 0)
        return document_end(&c->doc, e);
    buf_release(&c->doc.buf);
    return -1;
}
