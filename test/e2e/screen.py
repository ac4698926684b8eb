"""A program on a terminal of its own, and what stands on that terminal: a small interpreter of the
sequences that terminfo has for xterm and vt100."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unicodedata

LIMIT = 60
SEQUENCE = re.compile(rb"\x1b\[([?>!]?)([0-9;]*)([@-~])")
IGNORED = set("mhlrtnc")


class Screen:
    """Lines of characters, and whatever came that is not known."""

    def __init__(self, width, height):
        self.unknown = []
        self.pending = b""
        self.resize(width, height)

    def resize(self, width, height):
        self.width, self.height = width, height
        self.cells = [[" "] * width for _ in range(height)]
        self.x = self.y = 0
        self.top, self.bottom = 0, height - 1
        self.last = " "

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def feed(self, data):
        data = self.pending + data
        self.pending = b""
        while data:
            n = self.step(data)
            if n == 0:
                self.pending = data
                return
            data = data[n:]

    def step(self, data):
        """Takes one thing off; 0 when it is not there in full."""
        if data[0] == 0x1b:
            return self.escape(data)
        if data[0] < 0x20 or data[0] == 0x7f:
            self.control(data[0])
            return 1
        n = 1 if data[0] < 0x80 else 2 if data[0] < 0xe0 else 3 if data[0] < 0xf0 else 4
        if len(data) < n:
            return 0
        for char in data[:n].decode("utf-8", "replace"):
            self.put(char)
        return n

    def put(self, char):
        if unicodedata.combining(char):
            return
        if self.x >= self.width:
            self.x = 0
            self.down()
        self.cells[self.y][self.x] = char
        self.last = char
        self.x += 1
        if unicodedata.east_asian_width(char) in "WF" and self.x < self.width:
            self.cells[self.y][self.x] = ""
            self.x += 1

    def control(self, code):
        if code == 0x0d:
            self.x = 0
        elif code == 0x0a:
            self.down()
        elif code == 0x08:
            self.x = max(0, min(self.x, self.width) - 1)
        elif code == 0x09:
            self.x = min(self.width - 1, self.x // 8 * 8 + 8)
        elif code not in (0x0e, 0x0f, 0x00, 0x07):
            self.unknown.append(bytes([code]))

    def down(self):
        if self.y == self.bottom:
            self.scroll(self.top, 1)
        else:
            self.y = min(self.height - 1, self.y + 1)

    def scroll(self, at, by):
        """Lines from `at` to the end of the region move up (or down)."""
        for _ in range(min(abs(by), self.height)):
            blank = [" "] * self.width
            if by > 0:
                del self.cells[at]
                self.cells.insert(self.bottom, blank)
            else:
                del self.cells[self.bottom]
                self.cells.insert(at, blank)

    def escape(self, data):
        if len(data) < 2:
            return 0
        kind = data[1:2]
        if kind == b"[":
            match = SEQUENCE.match(data)
            if not match:
                if len(data) > 40:
                    self.unknown.append(data[:40])
                    return 2
                return 0
            self.sequence(*(group.decode() for group in match.groups()))
            return match.end()
        if kind in b"()":
            return 3 if len(data) >= 3 else 0
        if kind == b"M":
            if self.y == self.top:
                self.scroll(self.top, -1)
            else:
                self.y -= 1
        elif kind not in b"=>78":
            self.unknown.append(data[:2])
        return 2

    def sequence(self, private, numbers, final):
        values = [int(n) if n else 0 for n in numbers.split(";")]
        n = max(1, values[0])
        row = self.cells[self.y]
        if private:
            if final not in IGNORED:
                self.unknown.append((private, numbers, final))
        elif final in "Hf":
            self.y = min(self.height, n) - 1
            self.x = min(self.width, max(1, values[1]) if len(values) > 1 else 1) - 1
        elif final == "d":
            self.y = min(self.height, n) - 1
        elif final in "G`":
            self.x = min(self.width, n) - 1
        elif final in "ABCD":
            self.x = min(self.width - 1, max(0, self.x + n * {"C": 1, "D": -1}.get(final, 0)))
            self.y = min(self.height - 1, max(0, self.y + n * {"A": -1, "B": 1}.get(final, 0)))
        elif final == "J":
            self.erase_display(values[0])
        elif final == "K":
            begin, end = ((self.x, self.width), (0, self.x + 1), (0, self.width))[values[0]]
            row[begin:end] = [" "] * len(row[begin:end])
        elif final == "X":
            row[self.x:self.x + n] = [" "] * len(row[self.x:self.x + n])
        elif final == "P":
            self.cells[self.y] = (row[:self.x] + row[self.x + n:] + [" "] * n)[:self.width]
        elif final == "@":
            self.cells[self.y] = (row[:self.x] + [" "] * n + row[self.x:])[:self.width]
        elif final in "LM":
            self.scroll(self.y, n if final == "M" else -n)
        elif final in "ST":
            self.scroll(self.top, n if final == "S" else -n)
        elif final == "b":
            for _ in range(n):
                self.put(self.last)
        elif final == "r":
            self.top = n - 1
            self.bottom = (values[1] if len(values) > 1 and values[1] else self.height) - 1
            self.x = self.y = 0
        elif final not in IGNORED:
            self.unknown.append((private, numbers, final))

    def erase_display(self, which):
        if which == 0:
            self.cells[self.y][self.x:] = [" "] * (self.width - self.x)
        for y in range(self.height):
            if which == 2 or (which == 0 and y > self.y) or (which == 1 and y < self.y):
                self.cells[y] = [" "] * self.width


class Terminal:
    """A running program; a context manager that ends it."""

    def __init__(self, args, width=100, height=30, stdin=None, **env):
        self.screen = Screen(width, height)
        self.raw = b""
        self.ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(theirs)
        self.set_size(theirs)
        settings = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "NO_COLOR": "", **env}

        def own_terminal():
            fcntl.ioctl(1, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            list(map(str, args)), stdin=stdin if stdin is not None else theirs, stdout=theirs,
            stderr=theirs, env=settings, start_new_session=True, preexec_fn=own_terminal)
        self.theirs = theirs

    def set_size(self, fd):
        fcntl.ioctl(fd, termios.TIOCSWINSZ,
                    struct.pack("HHHH", self.screen.height, self.screen.width, 0, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)

    def read(self, seconds):
        """What comes within so long. False when nothing did."""
        if not select.select([self.ours], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.ours, 65536)
        except OSError:
            return False
        self.raw += data
        self.screen.feed(data)
        return bool(data)

    def wait(self, what):
        """Until a function of the lines is true. Gives its value."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            found = what(self.screen.lines())
            if found:
                return found
            self.read(0.1)
        raise AssertionError("\n".join(["the terminal shows:"] + self.screen.lines()))

    def wait_for(self, text):
        return self.wait(lambda lines: next((line for line in lines if text in line), None))

    def keys(self, text):
        os.write(self.ours, text.encode() if isinstance(text, str) else text)

    def resize(self, width, height):
        self.read(0.2)
        self.screen.resize(width, height)
        self.set_size(self.theirs)
        self.process.send_signal(signal.SIGWINCH)

    def end(self):
        """Waits for the program's end. Gives its exit status."""
        end = time.monotonic() + LIMIT
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.1)
        while self.read(0.1):
            pass
        return self.process.poll()

    def settings_are_back(self):
        return termios.tcgetattr(self.theirs) == self.before
