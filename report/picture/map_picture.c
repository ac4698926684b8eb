#include "report/picture/map_picture.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/format.h"

#define WIDTH 960.0
#define LEFT 158.0
#define RIGHT 34.0
#define CELLS_WIDTH (WIDTH - LEFT - RIGHT)
#define TOP 98.0
#define POOL_HEAD 46.0 /* above a pool's lines */
#define POOL_GAP 26.0  /* below them */
#define LEAP 10.0      /* height of a gap in the addresses without live blocks */
#define CELL_MOST 12.0
#define CELL_LEAST 4.0
#define LABEL_HEIGHT 13.0
#define BOTTOM 20.0
#define NAME_CHARS 54u

/* From young to old: ever darker, so that they differ without colour, too. */
static const uint32_t ages[] = {0xf0b429, 0xee943a, 0xe8743b, 0xdd624b, 0xd1495b,
                                0xb64672, 0x9b3f86, 0x7d459f, 0x5f4bb6};
#define AGES (sizeof ages / sizeof *ages)

static const double fills[] = {0.5, 0.67, 0.84, 1};
#define FILLS (sizeof fills / sizeof *fills)

struct drawing {
    struct canvas canvas;
    const struct memory_map *m;
    uint64_t oldest; /* of all cells; ns */
    double cell_width, cell_height;
    bool failed;
};

static const struct canvas_text small = {.size = 12, .colour = CANVAS_MUTED};
static const struct canvas_text small_right = {
    .size = 12, .colour = CANVAS_MUTED, .anchor = CANVAS_END};

/* ---- cells */

static uint64_t oldest_cell(const struct memory_map *m)
{
    uint64_t oldest = 0;
    for (size_t i = 0; i < m->pools.len; i++) {
        for (size_t k = 0; k < m->pools.at[i].lines.len; k++) {
            for (unsigned c = 0; c < m->columns; c++) {
                const struct map_cell *cell = &m->pools.at[i].lines.at[k].cells[c];
                oldest = cell->used && cell->age > oldest ? cell->age : oldest;
            }
        }
    }
    return oldest;
}

static void draw_cell(struct drawing *d, const struct map_cell *c, uint64_t size, unsigned column,
                      double y)
{
    char used[FORMAT_SIZE];
    char of[FORMAT_SIZE];
    char age[FORMAT_SIZE];
    char title[4 * FORMAT_SIZE];
    char attributes[80];
    if (c->used == 0)
        return;
    size_t fill =
        c->used >= size ? FILLS - 1 : (size_t)((unsigned __int128)c->used * (FILLS - 1) / size);
    size_t shade = d->oldest ? (size_t)((unsigned __int128)c->age * (AGES - 1) / d->oldest) : 0;
    snprintf(title, sizeof title, "%s of %s, %s old", format_bytes(used, c->used),
             format_bytes(of, size), format_duration(age, (int64_t)c->age));
    snprintf(attributes, sizeof attributes, "data-used=\"%" PRIu64 "\" data-age=\"%" PRIu64 "\"",
             c->used, c->age);
    canvas_group(&d->canvas, "cell", view_of(title), attributes);
    canvas_rect(&d->canvas, LEFT + column * d->cell_width, y, d->cell_width * 0.94,
                d->cell_height * 0.94, ages[shade], fills[fill]);
    canvas_group_end(&d->canvas);
}

static void draw_line(struct drawing *d, const struct map_pool *p, const struct map_line *line,
                      double y, bool labelled)
{
    char address[40];
    char attributes[80];
    const struct canvas_text how = {.size = 11, .anchor = CANVAS_END, .colour = CANVAS_MUTED};
    snprintf(address, sizeof address, "%" PRIx64, line->address);
    snprintf(attributes, sizeof attributes, "data-address=\"0x%" PRIx64 "\"", line->address);
    canvas_group(&d->canvas, "line", view_of(""), attributes);
    canvas_rect(&d->canvas, LEFT, y, CELLS_WIDTH, d->cell_height, CANVAS_PANEL,
                d->canvas.format == PICTURE_SVG ? 0.5 : 1);
    if (labelled)
        canvas_text(&d->canvas, LEFT - 8, y + d->cell_height / 2 + 4, &how, view_of(address));
    for (unsigned c = 0; c < d->m->columns; c++)
        draw_cell(d, &line->cells[c], p->cell, c, y);
    canvas_group_end(&d->canvas);
}

/* ---- pools */

static bool leaps(const struct drawing *d, const struct map_pool *p, size_t i)
{
    uint64_t step = p->cell * d->m->columns;
    return i && p->lines.at[i].address - p->lines.at[i - 1].address != step;
}

static double pool_height(const struct drawing *d, const struct map_pool *p)
{
    double height = POOL_HEAD + POOL_GAP;
    for (size_t i = 0; i < p->lines.len; i++)
        height += d->cell_height + (leaps(d, p, i) ? LEAP : 0);
    return height;
}

/* "182 live blocks, 218 KiB, in 67 pages of 4 KiB that are 81 % full; 67 holes" */
static void put_figures(struct buf *out, const struct map_pool *p)
{
    const struct map_sample *s = &p->samples.at[p->samples.len - 1];
    char text[FORMAT_SIZE];
    buf_puts(out, format_counted(text, s->blocks, "live block"));
    buf_printf(out, ", %s", format_bytes(text, s->bytes));
    if (s->blocks == 0)
        return;
    buf_printf(out, ", in %s of 4 KiB", format_counted(text, s->pages, "page"));
    buf_printf(out, " that %s %s full", s->pages == 1 ? "is" : "are",
               format_percent(text, s->covered, s->pages * MAP_PAGE));
    buf_printf(out, "; %s between blocks", format_counted(text, s->holes, "hole"));
}

static void pool_head(struct drawing *d, const struct map_pool *p, double y)
{
    const struct canvas_text name_how = {.size = 14, .bold = true, .colour = CANVAS_INK};
    struct buf name = {0};
    struct buf figures = {0};
    char cell[FORMAT_SIZE];
    char line[FORMAT_SIZE];
    char scale[3 * FORMAT_SIZE];
    canvas_shorten(&name, p->name, NAME_CHARS);
    put_figures(&figures, p);
    if (p->lines.len) {
        snprintf(scale, sizeof scale, "a cell is %s, a line %s", format_bytes(cell, p->cell),
                 format_bytes(line, p->cell * d->m->columns));
        canvas_text(&d->canvas, WIDTH - RIGHT, y + 16, &small_right, view_of(scale));
    }
    canvas_text(&d->canvas, LEFT, y + 16, &name_how, buf_view(&name));
    canvas_text(&d->canvas, LEFT, y + 35, &small, buf_view(&figures));
    d->failed |= name.failed || figures.failed;
    buf_release(&name);
    buf_release(&figures);
}

static void draw_leap(struct drawing *d, double y)
{
    const struct point line[] = {{LEFT, y + LEAP / 2}, {WIDTH - RIGHT, y + LEAP / 2}};
    canvas_line(&d->canvas, line, 2, &(struct canvas_line){CANVAS_GRID, 1, 4});
}

static void draw_pool(struct drawing *d, const struct map_pool *p, double y)
{
    char attributes[64];
    double labelled_from = 0;
    snprintf(attributes, sizeof attributes, "data-cell-bytes=\"%" PRIu64 "\"", p->cell);
    canvas_group(&d->canvas, "pool", p->name, attributes);
    pool_head(d, p, y);
    y += POOL_HEAD;
    for (size_t i = 0; i < p->lines.len; i++) {
        if (leaps(d, p, i)) {
            draw_leap(d, y);
            y += LEAP;
        }
        bool labelled = y >= labelled_from;
        draw_line(d, p, &p->lines.at[i], y, labelled);
        labelled_from = labelled ? y + LABEL_HEIGHT : labelled_from;
        y += d->cell_height;
    }
    canvas_group_end(&d->canvas);
}

/* ---- head */

static void draw_legend(struct drawing *d)
{
    char oldest[FORMAT_SIZE];
    double x = LEFT;
    double y = 70;
    canvas_group(&d->canvas, "legend", view_of(""), NULL);
    canvas_text(&d->canvas, x, y, &small, view_of("age: 0"));
    x += 44;
    for (size_t i = 0; i < AGES; i++, x += 18)
        canvas_rect(&d->canvas, x, y - 10, 18, 12, ages[i], 1);
    canvas_text(&d->canvas, x + 6, y, &small, view_of(format_duration(oldest, (int64_t)d->oldest)));
    x = LEFT + 330;
    canvas_text(&d->canvas, x, y, &small, view_of("how full: a little"));
    x += 104;
    for (size_t i = 0; i < FILLS; i++, x += 18)
        canvas_rect(&d->canvas, x, y - 10, 16, 12, ages[AGES / 2], fills[i]);
    canvas_text(&d->canvas, x + 6, y, &small, view_of("all of it"));
    canvas_group_end(&d->canvas);
}

static void put_heading(struct buf *title, const struct memory_map *m, const struct trace *trace)
{
    struct view program = strings_get(&trace->strings, trace->facts.program);
    char time[FORMAT_SIZE];
    buf_puts(title, "Where live blocks");
    if (program.len) {
        buf_puts(title, " of ");
        canvas_shorten(title, program, NAME_CHARS);
    }
    buf_printf(title, " lie at %s", format_duration(time, m->time));
}

static void put_description(struct buf *out, const struct memory_map *m)
{
    if (m->pools.len == 0)
        buf_puts(out, "There is no memory data.");
    for (size_t i = 0; i < m->pools.len; i++) {
        buf_puts(out, i ? ". Pool " : "Pool ");
        buf_put(out, m->pools.at[i].name.p, m->pools.at[i].name.len);
        buf_puts(out, ": ");
        put_figures(out, &m->pools.at[i]);
    }
}

/* ---- entry point */

static void draw(struct drawing *d, const struct buf *heading)
{
    double y = TOP;
    canvas_text(&d->canvas, LEFT, 34,
                &(struct canvas_text){.size = 18, .bold = true, .colour = CANVAS_INK},
                buf_view(heading));
    if (d->m->pools.len == 0)
        canvas_text(&d->canvas, LEFT, 70, &small, view_of("no memory data"));
    else
        draw_legend(d);
    for (size_t i = 0; i < d->m->pools.len; i++) {
        draw_pool(d, &d->m->pools.at[i], y);
        y += pool_height(d, &d->m->pools.at[i]);
    }
}

int memory_map_draw(const struct memory_map *m, const struct trace *trace,
                    enum picture_format format, FILE *out, struct err *e)
{
    struct drawing d = {.m = m, .oldest = oldest_cell(m)};
    struct buf heading = {0};
    struct buf description = {0};
    double height = TOP + BOTTOM;
    d.cell_width = CELLS_WIDTH / (m->columns ? m->columns : 1);
    d.cell_height = d.cell_width > CELL_MOST    ? CELL_MOST
                    : d.cell_width < CELL_LEAST ? CELL_LEAST
                                                : d.cell_width;
    for (size_t i = 0; i < m->pools.len; i++)
        height += pool_height(&d, &m->pools.at[i]);
    put_heading(&heading, m, trace);
    put_description(&description, m);
    const struct canvas_begin begin = {.format = format,
                                       .width = WIDTH,
                                       .height = height,
                                       .title = &heading,
                                       .description = &description};
    int status = canvas_begin(&d.canvas, &begin, "take fewer --rows, or one --pool", out, e);
    if (status == 0) {
        draw(&d, &heading);
        d.canvas.doc.failed |= d.failed || heading.failed || description.failed;
        status = canvas_end(&d.canvas, e);
    }
    buf_release(&heading);
    buf_release(&description);
    return status;
}
