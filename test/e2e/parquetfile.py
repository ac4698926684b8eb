"""A second reader of Parquet files, written apart from the C writer. Slow and plain; flat tables only.
Format: github.com/apache/parquet-format @ 2.10.0."""

import struct

import zstandard

STOP, TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)
BOOLEAN, INT64, REAL, BYTES = 0, 2, 5, 6
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8
ZSTD = 6
DATA_PAGE, DICTIONARY_PAGE = 0, 2
UNSIGNED = 14


class Thrift:
    """Structs of the compact protocol as {field number: value}."""

    def __init__(self, data, pos=0):
        self.data, self.pos = data, pos

    def byte(self):
        self.pos += 1
        return self.data[self.pos - 1]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def zigzag(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def bytes(self, n):
        if self.pos + n > len(self.data):
            raise ValueError("past the end")
        self.pos += n
        return self.data[self.pos - n : self.pos]

    def value(self, kind):
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == I8:
            return struct.unpack("b", self.bytes(1))[0]
        if kind in (I16, I32, I64):
            return self.zigzag()
        if kind == BINARY:
            return self.bytes(self.varint())
        if kind == LIST:
            head = self.byte()
            n = head >> 4
            if n == 15:
                n = self.varint()
            return [self.value(head & 15) for _ in range(n)]
        if kind == STRUCT:
            return self.struct()
        raise ValueError(f"type {kind}")

    def struct(self):
        fields, number = {}, 0
        while (head := self.byte()) != STOP:
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            fields[number] = self.value(head & 15)
        return fields


def hybrid(data, n, width):
    """`n` values of runs and packed bits."""
    out, at = [], Thrift(data)
    while len(out) < n:
        head = at.varint()
        if head & 1:
            packed = int.from_bytes(at.bytes((head >> 1) * width), "little")
            for i in range(8 * (head >> 1)):
                out.append(packed >> i * width & (1 << width) - 1)
        else:
            value = int.from_bytes(at.bytes((width + 7) // 8), "little")
            out += [value] * (head >> 1)
    if len(out) - n >= 8:
        raise ValueError("more values than were promised")
    return out[:n], at.pos


def plain(data, n, kind):
    if kind == BOOLEAN:
        return [bool(data[i // 8] >> i % 8 & 1) for i in range(n)]
    if kind in (INT64, REAL):
        if len(data) != 8 * n:
            raise ValueError("a page of the wrong length")
        return list(struct.unpack(f"<{n}{'q' if kind == INT64 else 'd'}", data))
    out, pos = [], 0
    for _ in range(n):
        size = struct.unpack_from("<I", data, pos)[0]
        out.append(data[pos + 4 : pos + 4 + size].decode("utf-8"))
        pos += 4 + size
    if pos != len(data):
        raise ValueError("a page of the wrong length")
    return out


class ParquetFile:
    """columns: {name: list of values}; rows: how many; groups: row groups."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        if self.data[:4] != b"PAR1" or self.data[-4:] != b"PAR1":
            raise ValueError("no Parquet file")
        size = struct.unpack_from("<I", self.data, len(self.data) - 8)[0]
        self.footer = Thrift(self.data, len(self.data) - 8 - size).struct()
        root, *self.schema = self.footer[2]
        if root[5] != len(self.schema):
            raise ValueError("the schema's length")
        self.rows = self.footer[3]
        self.groups = self.footer.get(4, [])
        self.encodings = set()
        self.columns = {c[4].decode(): [] for c in self.schema}
        at = 4
        for group in self.groups:
            if len(group[1]) != len(self.schema):
                raise ValueError("a row group's columns")
            for column, chunk in zip(self.schema, group[1]):
                at = self.chunk(column, chunk[3], group[3], at)
        if at != len(self.data) - 8 - size:
            raise ValueError("bytes that belong to nothing")
        if sum(g[3] for g in self.groups) != self.rows:
            raise ValueError("the number of rows")

    def chunk(self, column, meta, rows, at):
        """Reads a column of a row group, which begins at `at`; gives where it ends."""
        begin, kind = meta.get(11, meta[9]), column[1]
        if begin != at or meta[4] != ZSTD or meta[1] != kind or meta[5] != rows:
            raise ValueError(f"the metadata of {column[4]}")
        dictionary, values, raw = None, [], 0
        pages = Thrift(self.data, begin)
        while pages.pos < begin + meta[7]:
            first = pages.pos
            head = pages.struct()
            raw += pages.pos - first + head[2]
            page = zstandard.ZstdDecompressor().decompress(pages.bytes(head[3]),
                                                           max_output_size=head[2] or 1)
            if len(page) != head[2]:
                raise ValueError("a page's length")
            if head[1] == DICTIONARY_PAGE:
                dictionary = plain(page, head[7][1], kind)
            else:
                values += self.page(column, page, head[5], dictionary)
        if raw != meta[6] or pages.pos != begin + meta[7]:
            raise ValueError("a column's length")
        if column.get(6) == UNSIGNED:
            values = [v if v is None else v & 2**64 - 1 for v in values]
        self.bounds(column, meta[12], values)
        self.columns[column[4].decode()] += values
        return pages.pos

    def page(self, column, page, head, dictionary):
        n = present = head[1]
        levels = [1] * n
        if column[3] == 1:
            size = struct.unpack_from("<I", page)[0]
            levels, used = hybrid(page[4 : 4 + size], n, 1)
            if used != size:
                raise ValueError("levels")
            page, present = page[4 + size :], sum(levels)
        self.encodings.add(head[2])
        if head[2] == RLE_DICTIONARY:
            indices, used = hybrid(page[1:], present, page[0])
            if used != len(page) - 1:
                raise ValueError("indices")
            found = iter([dictionary[i] for i in indices])
        else:
            found = iter(plain(page, present, column[1]))
        return [next(found) if level else None for level in levels]

    def bounds(self, column, statistics, values):
        present = [v for v in values if v is not None]
        if statistics[3] != len(values) - len(present):
            raise ValueError("the number of missing values")
        if column[1] == INT64 and present:
            form = "<Q" if column.get(6) == UNSIGNED else "<q"
            if (struct.unpack(form, statistics[6])[0], struct.unpack(form, statistics[5])[0]) != \
                    (min(present), max(present)):
                raise ValueError(f"the bounds of {column[4]}")

    def table(self):
        """Rows as dictionaries."""
        names = list(self.columns)
        return [dict(zip(names, row)) for row in zip(*self.columns.values())]
