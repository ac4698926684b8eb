#!/usr/bin/env python3
"""terminal_pictures.py TIDEMARK TRACE FOLDER: pictures of views on a terminal, FOLDER/report.svg and
FOLDER/top.svg, as they stand on a screen of 100 columns."""

import pathlib
import sys
from xml.sax.saxutils import escape

sys.path.insert(0, str(pathlib.Path(__file__).parent / "e2e"))
from screen import Screen, Terminal  # noqa: E402

WIDTH, HEIGHT = 100, 27
CELL, LINE, MARGIN = 8.43, 18, 12
PAPER, INK = "#16181d", "#d8dee9"
COLOURS = {30: "#16181d", 31: "#e0707a", 32: "#a3be8c", 33: "#ebcb8b", 34: "#81a1c1", 35: "#b48ead",
           36: "#8fbcbb", 37: "#e5e9f0"}


class Painted(str):
    """A character and how it is drawn: (colour, bold, reversed)."""

    def __new__(cls, char, style):
        self = super().__new__(cls, char)
        self.style = style
        return self


class Picture(Screen):
    style = (INK, False, False)

    def put(self, char):
        super().put(Painted(char, self.style))

    def sequence(self, private, numbers, final):
        if final != "m" or private:
            super().sequence(private, numbers, final)
            return
        for n in (int(n or 0) for n in numbers.split(";")):
            colour, bold, turned = self.style
            if n == 0:
                self.style = Picture.style
            elif n in (1, 22):
                self.style = (colour, n == 1, turned)
            elif n in (7, 27):
                self.style = (colour, bold, n == 7)
            elif n in COLOURS or n == 39:
                self.style = (COLOURS.get(n, INK), bold, turned)


def runs(row):
    """(column, text, style) of neighbours that are drawn alike; blanks at the end are none."""
    found = []
    for x, cell in enumerate(row):
        style = getattr(cell, "style", Picture.style)
        if found and found[-1][2] == style:
            found[-1][1] += cell
        else:
            found.append([x, str(cell), style])
    return [(x, text, style) for x, text, style in found if text.strip() or style[2]]


def draw(screen, label):
    rows = list(screen.cells)
    while rows and not "".join(rows[-1]).strip():
        rows.pop()
    width, height = round(WIDTH * CELL + 2 * MARGIN), len(rows) * LINE + 2 * MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">',
           f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>',
           f'<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="{INK}">']
    for y, row in enumerate(rows):
        for x, text, (colour, bold, turned) in runs(row):
            left, top, length = MARGIN + x * CELL, MARGIN + y * LINE, len(text) * CELL
            if turned:
                out.append(f'<rect x="{left:.1f}" y="{top}" width="{length:.1f}" height="{LINE}" '
                           f'fill="{colour}"/>')
                colour = PAPER
            out.append(f'<text x="{left:.1f}" y="{top + 14}" textLength="{length:.1f}" '
                       f'lengthAdjust="spacingAndGlyphs"'
                       + (f' fill="{colour}"' if colour != INK else "")
                       + (' font-weight="bold"' if bold else "")
                       + f'>{escape(text).replace(" ", "&#160;")}</text>')
    return "\n".join(out + ["</g>", "</svg>", ""])


VIEWS = (("report", ["--limit", "6"], "", "tidemark report on a terminal"),
         ("top", [], "1*", "tidemark top: the call-stack tree of a trace"))


def settle(terminal):
    terminal.read(10)
    while terminal.read(1):
        pass


def main():
    tidemark, trace, folder = sys.argv[1:]
    for name, options, keys, label in VIEWS:
        with Terminal([tidemark, name, trace, *options], WIDTH, HEIGHT) as terminal:
            terminal.screen = Picture(WIDTH, HEIGHT)
            settle(terminal)
            for key in keys:
                terminal.keys(key)
                settle(terminal)
            pathlib.Path(folder, f"{name}.svg").write_text(draw(terminal.screen, label))


main()
