"""Reading what `tidemark export` writes, each format by its own rules."""

import gzip
import json
import re
import sqlite3

from parquetfile import ParquetFile
from tools import run

TABLES = ("facts", "threads", "source_locations", "zones", "messages", "plots", "plot_points",
          "frame_sets", "frame_marks", "gpu_contexts", "gpu_zones", "locks", "lock_events",
          "samples", "pools", "pool_usage", "allocations", "callstack_totals", "callstack_resident",
          "sites", "callstacks", "callstack_frames", "frames", "frame_functions")
ADDRESSES = {"address", "low_address", "high_address"}
ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "\\": "\\"}


def export(trace, form, output, *args):
    result = run("export", trace, "--format", form, "-o", output, *args)
    if result.returncode != 0:
        raise AssertionError(f"export {trace} {form} {args}: {result.stderr}")
    return output


def unescape(text):
    def character(m):
        if m[1][0] == "x" and len(m[1]) >= 3:
            return bytes.fromhex(m[1].replace("\\x", "")[1:]).decode()
        return ESCAPES[m[1]]
    return re.sub(r"\\(xc2\\x[0-9a-f]{2}|x[0-9a-f]{2}|.)", character, text)


def read_tsv(path):
    """Rows of texts and None."""
    head, *lines = path.read_bytes().decode("utf-8").split("\n")[:-1]
    names = head.split("\t")
    rows = []
    for line in lines:
        cells = [None if c == "\\N" else unescape(c) for c in line.split("\t")]
        if len(cells) != len(names):
            raise ValueError(f"{path.name}: {line!r}")
        rows.append(dict(zip(names, cells)))
    return names, rows


def read_ndjson(path):
    return [json.loads(line) for line in path.read_bytes().decode("utf-8").split("\n")[:-1]]


def database(path):
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    if db.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
        raise ValueError("a broken database")
    return db


def as_text(name, value):
    """A value of any format as TSV shows it."""
    if value is None:
        return None
    if name in ADDRESSES:
        return value if isinstance(value, str) else hex(value & 2**64 - 1)
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float):
        return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    return str(value)


def texts(rows):
    return [{name: as_text(name, value) for name, value in dict(row).items()} for row in rows]


def same_numbers(a, b):
    """Equal, or both the same float in different clothes."""
    if a == b:
        return True
    try:
        return float(a) == float(b)
    except (TypeError, ValueError):
        return False


def read_parquet(path):
    return ParquetFile(path).table()


# ---- pprof

def fields(data):
    """(number, value) of a protocol buffer."""
    pos = 0

    def varint():
        nonlocal pos
        value = shift = 0
        while True:
            value |= (data[pos] & 127) << shift
            shift += 7
            pos += 1
            if data[pos - 1] < 128:
                return value

    while pos < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 2:
            size = varint()
            if pos + size > len(data):
                raise ValueError("past the end")
            pos += size
            yield tag >> 3, data[pos - size : pos]
        else:
            raise ValueError(f"wire type {tag & 7}")


def varints(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


class Pprof:
    def __init__(self, path):
        messages = list(fields(gzip.decompress(path.read_bytes())))
        self.strings = [v.decode("utf-8") for n, v in messages if n == 6]
        if self.strings[0] != "":
            raise ValueError("the first string")
        self.types = [self.strings[dict(fields(v))[1]] for n, v in messages if n == 1]
        functions = [dict(fields(v)) for n, v in messages if n == 5]
        self.functions = {f[1]: self.strings[f[2]] for f in functions}
        self.mappings = [dict(fields(v)) for n, v in messages if n == 3]
        known = {m[1] for m in self.mappings}
        self.locations = {}
        for n, v in messages:
            if n == 4:
                location = list(fields(v))
                if dict(location).get(2) not in known | {None}:
                    raise ValueError("a location without a mapping")
                lines = [dict(fields(line)) for k, line in location if k == 4]
                self.locations[dict(location)[1]] = [self.functions[line[1]] for line in lines]
        self.samples = [self.sample(v) for n, v in messages if n == 2]

    def sample(self, data):
        """(pool, functions from the innermost on, {type: value})"""
        parts = dict(fields(data))
        label = dict(fields(parts[3]))
        if self.strings[label[1]] != "pool":
            raise ValueError("a label")
        stack = [f for location in varints(parts[1]) for f in self.locations[location]]
        values = dict(zip(self.types, varints(parts[2]), strict=True))
        return self.strings[label[2]], stack, values


# ---- folded

def read_folded(path):
    """[(functions from the outermost on, value)]"""
    out = []
    for line in path.read_bytes().decode("utf-8").split("\n")[:-1]:
        stack, value = line.rsplit(" ", 1)
        out.append((stack.split(";"), int(value)))
    return out
