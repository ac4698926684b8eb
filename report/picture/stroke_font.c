#include "report/picture/stroke_font.h"

#include <stdint.h>

/*
 * Strokes are separated by spaces. Each is a line through points of two characters: x from "0" on;
 * y from "a" (descender) over "e" (base line) and "m" (x-height) to "q" (cap height).
 */
static const char *const glyphs[] = {
    [' '] = "",
    ['!'] = "1q1i 1f1e",
    ['"'] = "0q0n 4q4n",
    ['#'] = "2e3q 5e6q 0i8i 0m8m",
    ['$'] = "8n6o2o0n0l2k6k8j8h6g2g0h 4q4e",
    ['%'] = "1e8q 1q3p3n1m0n0p1q 7i9h9f7e6f6h7i",
    ['&'] = "8e1m1o3q5o5n0i0g2e5e8i",
    ['\''] = "0q0n",
    ['('] = "3q1o0l0h1e3c",
    [')'] = "0q2o3l3h2e0c",
    ['*'] = "3q3k 0o6l 6o0l",
    ['+'] = "3g3m 0j6j",
    [','] = "1f1e0c",
    ['-'] = "0j5j",
    ['.'] = "0f0e",
    ['/'] = "0d5q",
    ['0'] = "2e0g0o2q6q8o8g6e2e",
    ['1'] = "1n4q4e 1e7e",
    ['2'] = "0o2q6q8o8m0e8e",
    ['3'] = "0o2q6q8o8m6k3k 6k8i8g6e2e0g",
    ['4'] = "6e6q0h8h",
    ['5'] = "7q1q0k2l6l8j8g6e2e0g",
    ['6'] = "7q4q1n0k0g2e6e8g8i6k2k0i",
    ['7'] = "0q8q3e",
    ['8'] = "2k0m0o2q6q8o8m6k2k0i0g2e6e8g8i6k",
    ['9'] = "1e4e7h8k8o6q2q0o0m2k6k8m",
    [':'] = "0l0k 0f0e",
    [';'] = "1l1k 1f1e0c",
    ['<'] = "6m0i6e",
    ['='] = "0l6l 0h6h",
    ['>'] = "0m6i0e",
    ['?'] = "0o2q5q7o7m4j4i 4f4e",
    ['@'] = "6i4g3h3k4l6k6h7g8i8l6o3o0l0h2e6e",
    ['A'] = "0e4q8e 1i7i",
    ['B'] = "0e0q5q7o7m5k0k 5k8i8g6e0e",
    ['C'] = "8o6q2q0o0g2e6e8g",
    ['D'] = "0e0q5q8n8h5e0e",
    ['E'] = "7e0e0q7q 0k6k",
    ['F'] = "0e0q7q 0k6k",
    ['G'] = "8o6q2q0o0g2e6e8g8k5k",
    ['H'] = "0e0q 8e8q 0k8k",
    ['I'] = "0e0q",
    ['J'] = "5q5g3e2e0g",
    ['K'] = "0e0q 8q0i 2k8e",
    ['L'] = "0q0e7e",
    ['M'] = "0e0q5i:q:e",
    ['N'] = "0e0q8e8q",
    ['O'] = "3e0h0n3q6q9n9h6e3e",
    ['P'] = "0e0q6q8o8l6j0j",
    ['Q'] = "3e0h0n3q6q9n9h6e3e 6h9d",
    ['R'] = "0e0q6q8o8l6j0j 4j8e",
    ['S'] = "8o6q2q0o0m2k6k8i8g6e2e0g",
    ['T'] = "0q8q 4q4e",
    ['U'] = "0q0g2e6e8g8q",
    ['V'] = "0q4e8q",
    ['W'] = "0q2e5m8e:q",
    ['X'] = "0e8q 0q8e",
    ['Y'] = "0q4k8q 4k4e",
    ['Z'] = "0q8q0e8e",
    ['['] = "3q0q0c3c",
    ['\\'] = "0q5d",
    [']'] = "0q3q3c0c",
    ['^'] = "0m3q6m",
    ['_'] = "0d8d",
    ['`'] = "0q2n",
    ['a'] = "1m5m7k7e 7i2i0h0g2e4e7g",
    ['b'] = "0q0e 0k2m5m7k7g5e2e0g",
    ['c'] = "7l5m2m0k0g2e5e7f",
    ['d'] = "7q7e 7k5m2m0k0g2e5e7g",
    ['e'] = "0i7i7k5m2m0k0g2e5e7f",
    ['f'] = "5q4q2o2e 0m5m",
    ['g'] = "7m7c5a2a0b 7k5m2m0k0g2e5e7g",
    ['h'] = "0q0e 0k2m5m7k7e",
    ['i'] = "0m0e 0p0q",
    ['j'] = "2m2c1a0a 2p2q",
    ['k'] = "0q0e 6m0h 2j6e",
    ['l'] = "0q0f1e2e",
    ['m'] = "0m0e 0k2m4m5k5e 5k7m9m:k:e",
    ['n'] = "0m0e 0k2m5m7k7e",
    ['o'] = "2e0g0k2m5m7k7g5e2e",
    ['p'] = "0m0a 0k2m5m7k7g5e2e0g",
    ['q'] = "7m7a 7k5m2m0k0g2e5e7g",
    ['r'] = "0m0e 0j2m4m",
    ['s'] = "6l5m2m0l0k1j5i6h6f5e1e0f",
    ['t'] = "2p2g3e5e 0m5m",
    ['u'] = "0m0g2e5e7g 7m7e",
    ['v'] = "0m3e6m",
    ['w'] = "0m2e5k8e:m",
    ['x'] = "0m6e 0e6m",
    ['y'] = "0m3e 6m3e2b0a",
    ['z'] = "0m6m0e6e",
    ['{'] = "4q3q2o2l0j2h2e3c4c",
    ['|'] = "0q0c",
    ['}'] = "0q1q2o2l4j2h2e1c0c",
    ['~'] = "0i2k5i7k",
};

static const char box[] = "0e0q7q7e0e";
static const char micro[] = "0m0a 0g2e5e7g 7m7e";
static const char ellipsis[] = "0f0e 4f4e 8f8e";
static const char dotless[] = "0m0e";

/* U+00C0 to U+00FF: the base letter, or "?" for one of `others`, and its diacritic. */
static const char bases[] = "AAAAAA?CEEEEIIII?NOOOOO??UUUUY??aaaaaa?ceeeeiiii?nooooo??uuuuy?y";
static const char marks[] = "`'^~:o ,`'^:`'^: ~`'^~:  `'^:'  `'^~:o ,`'^:`'^: ~`'^~:  `'^:' :";
static const struct {
    const char *text, *strokes;
} others[] = {
    {"µ", micro},
    {"μ", micro},
    {"…", ellipsis},
    {"ß", "0e0o2q5q6o6n3l6j6g5e3e"},
    {"×", "0m6g 0g6m"},
    {"÷", "0j6j 3n3m 3h3g"},
    {"Æ", "0e5q9q 5q5e9e 5k8k 1i5i"},
    {"æ", "1m3m4k4e 4i1i0h0g1e3e4g 4i9i9k7m5m4k 4g6e8e9f"},
    {"Ø", "2e0g0o2q6q8o8g6e2e 0d8r"},
    {"ø", "2e0g0k2m5m7k7g5e2e 0d7n"},
    {"Ð", "0e0q5q8n8h5e0e 0k4k"},
    {"ð", "2e0g0k2m5m7k7g5e2e 7k3q 2o6q"},
    {"Þ", "0e0q 0n5n7l7j5h0h"},
    {"þ", "0q0a 0k2m5m7k7g5e2e0g"},
};

struct glyph {
    const char *strokes;
    char mark; /* ' ': none */
    bool capital;
};

/* A line of a diacritic in half steps: x from the letter's middle, y from the diacritic's base. */
static const struct {
    char mark;
    int8_t x0, y0, x1, y1;
} mark_lines[] = {
    {'`', -3, 6, 2, 0},  {'\'', -2, 0, 3, 6}, {'^', -4, 0, 0, 5},   {'^', 0, 5, 4, 0},
    {'~', -5, 1, -2, 4}, {'~', -2, 4, 2, 1},  {'~', 2, 1, 5, 4},    {':', -4, 3, -4, 2},
    {':', 4, 3, 4, 2},   {'o', -2, 0, -2, 4}, {'o', -2, 4, 2, 4},   {'o', 2, 4, 2, 0},
    {'o', 2, 0, -2, 0},  {',', 0, 0, 0, -3},  {',', 0, -3, -3, -6},
};

/* Heights of diacritics above the base line, in steps. */
#define MARK_ON_SMALL 10.0
#define MARK_ON_CAPITAL 13.2

/* In em: one step of y, one of x, and a letter's spacing. */
#define STEP_Y 0.0600
#define STEP_X 0.0545
#define BESIDE 3.2
#define SPACE 5.0

/* A letter with a diacritic, from the two UTF-8 bytes of U+00C0 to U+00FF. */
static bool marked_glyph(struct view one, struct glyph *g)
{
    if (one.len != 2 || (uint8_t)one.p[0] != 0xc3)
        return false;
    size_t at = (uint8_t)one.p[1] & 0x3f;
    char base = bases[at];
    if (base == '?')
        return false;
    *g = (struct glyph){glyphs[(uint8_t)base], marks[at], base < 'a'};
    if (base == 'i')
        g->strokes = dotless;
    return true;
}

/* Takes the first character off the text and returns its glyph. */
static struct glyph next_glyph(struct view *text)
{
    uint8_t c = (uint8_t)text->p[0];
    size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    struct view one = {text->p, n < text->len ? n : text->len};
    struct glyph g = {.strokes = box, .mark = ' '};
    text->p += one.len;
    text->len -= one.len;
    if (c < sizeof glyphs / sizeof *glyphs && glyphs[c]) {
        g.strokes = glyphs[c];
        return g;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (view_equal(one, view_of(others[i].text)))
            g.strokes = others[i].strokes;
    }
    (void)marked_glyph(one, &g);
    return g;
}

static double glyph_width(const char *glyph)
{
    char most = '0';
    if (!*glyph)
        return SPACE * STEP_X;
    for (const char *p = glyph; *p; p += *p == ' ' ? 1 : 2)
        most = *p != ' ' && *p > most ? *p : most;
    /* All digits are equally wide, so that they align in columns. */
    if (glyph == glyphs['1'])
        most = '8';
    return (most - '0' + BESIDE) * STEP_X;
}

double font_width(struct view text, double size)
{
    double width = 0;
    while (text.len)
        width += glyph_width(next_glyph(&text).strokes) * size;
    return width;
}

/* `middle`: centre of the letter, on the base line. */
static void draw_mark(struct raster *r, const struct glyph *g, struct point middle, double size,
                      double width)
{
    double up = g->mark == ',' ? 0 : g->capital ? MARK_ON_CAPITAL : MARK_ON_SMALL;
    for (size_t i = 0; i < sizeof mark_lines / sizeof *mark_lines; i++) {
        if (mark_lines[i].mark != g->mark)
            continue;
        struct point from = {middle.x + mark_lines[i].x0 / 2.0 * STEP_X * size,
                             middle.y - (up + mark_lines[i].y0 / 2.0) * STEP_Y * size};
        struct point to = {middle.x + mark_lines[i].x1 / 2.0 * STEP_X * size,
                           middle.y - (up + mark_lines[i].y1 / 2.0) * STEP_Y * size};
        raster_stroke(r, from, to, width);
    }
}

static void draw_strokes(struct raster *r, const char *glyph, struct point at, double size,
                         double width)
{
    struct point last = at;
    bool has_last = false;
    for (const char *p = glyph; *p;) {
        if (*p == ' ') {
            has_last = false;
            p++;
            continue;
        }
        struct point now = {at.x + (p[0] - '0' + BESIDE / 2) * STEP_X * size,
                            at.y - (p[1] - 'e') * STEP_Y * size};
        if (has_last)
            raster_stroke(r, last, now, width);
        last = now;
        has_last = true;
        p += 2;
    }
}

void font_draw(struct raster *r, struct view text, struct point at, double size, bool bold)
{
    double width = size * (bold ? 0.125 : 0.085);
    while (text.len) {
        struct glyph g = next_glyph(&text);
        double advance = glyph_width(g.strokes) * size;
        draw_strokes(r, g.strokes, at, size, width);
        draw_mark(r, &g, (struct point){at.x + advance / 2, at.y}, size, width);
        at.x += advance;
    }
}
