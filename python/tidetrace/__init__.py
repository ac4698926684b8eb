"""Reads .tracy traces of every version since 0.9.0, and asks Tidemark's questions of them.

    import tidetrace

    with tidetrace.open("run.tracy") as trace:
        for site in trace.report(sort="peak")["sites"][:10]:
            print(site["peak_bytes"], site["function"], site["file"], site["line"])
        blocks = trace.allocations()               # a numpy array, a column each: blocks["size"]
        print(blocks["size"][blocks["free_time"] < 0].sum())

Times are nanoseconds since the trace began, sizes are bytes. A question's answer is the JSON document
of the command that asks the same: tidemark-json(5). A trace may be used by one thread at a time."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
from typing import (TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple,
                    Union)

from ._library import Library, TraceError, size_of, struct

if TYPE_CHECKING:
    import numpy

    Columns = numpy.ndarray[Any, Any]

__all__ = ["Frame", "Info", "Peak", "Pool", "Selection", "Thread", "Trace", "TraceError", "diff",
           "open"]

Document = Dict[str, Any]
Path = Union[str, bytes, "os.PathLike[str]"]

_BY = ("site", "function", "callstack", "pool", "thread", "zone", "frame", "type")
_SORT = ("size", "count", "live", "peak", "at-peak", "temporary", "name", "resident")
_TREE_BY = ("function", "line", "file", "image", "module", "thread", "type")
_TREE_METRIC = ("bytes", "count", "live", "live-count", "at-peak", "at-peak-count", "temporary",
                "resident")
_DIFF_BY = ("site", "callstack", "type")
_DIFF_METRIC = ("bytes", "count", "live", "peak")
_COLUMNS = (("struct_size", "u8"), ("address", "u8"), ("size", "u8"), ("time", "i8"),
            ("free_time", "i8"), ("pool", "u4"), ("callstack", "u4"), ("free_callstack", "u4"),
            ("thread", "u4"), ("free_thread", "u4"), ("reserved", "u4"))


class Info(NamedTuple):
    """What is in the trace: texts, and how many there are of each kind."""

    file_version: str
    protocol: str
    program: str
    capture_name: str
    host: str
    pid: int
    captured_at: int  # seconds since 1970
    duration: int
    complete: bool
    on_demand: bool
    pools: int
    allocations: int
    callstacks: int
    frames: int
    threads: int
    zones: int
    messages: int
    plots: int
    locks: int
    samples: int
    context_switches: int


class Pool(NamedTuple):
    name: str  # "default" for the unnamed pool; pools may share a name
    key: int
    allocations: int
    frees: int
    live_count: int
    live_bytes: int
    total_bytes: int
    low_address: int
    high_address: int


class Thread(NamedTuple):
    id: int  # of the operating system; fibers have synthetic ids
    name: str
    is_fiber: bool


class Frame(NamedTuple):
    """A function of a call stack; an address with inlined calls has several."""

    function: str
    file: str
    line: int  # 0: unknown
    image: str
    address: int
    inline: bool  # inlined into the next function
    named: bool  # `function` is a name, not a location such as "a.so+0x12"


class Peak(NamedTuple):
    time: int
    bytes: int
    rise: int  # how far use falls on both sides before it is as high again


@dataclasses.dataclass(frozen=True)
class Selection:
    """Which allocations: all conditions that are given must hold."""

    pool: Optional[str] = None
    thread: Optional[str] = None  # name or id
    match: Optional[str] = None  # a regular expression: function, file or image of the call stack
    zone: Optional[str] = None
    begin: Optional[int] = None  # made in [begin, end)
    end: Optional[int] = None
    at: Optional[int] = None  # live at this time
    size_min: Optional[int] = None
    size_max: Optional[int] = None
    frame: Optional[int] = None  # of the program, as numbered in the profiler

    def _as_c(self) -> Any:
        flags = 1 * (self.begin is not None or self.end is not None) | 2 * (self.at is not None) | \
            4 * (self.size_min is not None or self.size_max is not None) | \
            8 * (self.frame is not None)
        return struct("selection", flags=flags, pool=_text(self.pool), thread=_text(self.thread),
                      match=_text(self.match), zone=_text(self.zone),
                      begin=_or(self.begin, -2**63), end=_or(self.end, 2**63 - 1),
                      at=_or(self.at, 0), size_min=_or(self.size_min, 0),
                      size_max=_or(self.size_max, 2**64 - 1), frame=_or(self.frame, 0))


def _or(value: Optional[int], otherwise: int) -> int:
    return otherwise if value is None else value


def _text(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text.encode()


def _number(choices: Sequence[str], name: str, what: str) -> int:
    if name not in choices:
        raise TraceError(TraceError.USAGE, f"{what} is one of {', '.join(choices)}, not {name!r}")
    return choices.index(name)


def _texts(texts: Sequence[str]) -> Any:
    if isinstance(texts, str):
        raise TraceError(TraceError.USAGE, "a list of texts is needed, not a text")
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))


class _Asked:
    """The options of a question, which live until it is answered."""

    def __init__(self, name: str, only: Optional[Selection], lists: Dict[str, Sequence[str]],
                 **members: Any) -> None:
        self.only = only._as_c() if only else None
        for key, texts in lists.items():
            members[key], members[key + "_count"] = _texts(texts), len(texts)
        self.options = struct(name, selection=self.selection(), **members)

    def selection(self) -> Optional[int]:
        return ctypes.addressof(self.only) if self.only else None


class Trace:
    """An open trace. Use it in a `with` statement, or call close()."""

    def __init__(self, path: Path, zones: bool = False, plots: bool = False, memory: int = 0,
                 library: str = "") -> None:
        self._library = Library(library)
        self._handle = ctypes.c_void_p()
        options = struct("open_options", flags=1 * zones | 2 * plots, memory=memory)
        self._library.call("open", os.fsencode(path), ctypes.byref(options),
                           ctypes.byref(self._handle))

    def close(self) -> None:
        """Arrays and answers that were obtained stay valid."""
        if self._handle:
            self._library.c.tidetrace_close(self._handle)
        self._handle = ctypes.c_void_p()

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def _open_handle(self) -> ctypes.c_void_p:
        if not self._handle:
            raise TraceError(TraceError.USAGE, "the trace is closed")
        return self._handle

    # ---- contents

    @property
    def info(self) -> Info:
        i = struct("info")
        self._library.call("get_info", self._open_handle(), ctypes.byref(i))
        return Info(str(i.version), str(i.protocol), str(i.program), str(i.capture_name),
                    str(i.host), i.pid, i.captured_at, i.duration, bool(i.flags & 1),
                    bool(i.flags & 2), i.pools, i.allocations, i.callstacks, i.frames, i.threads,
                    i.zones, i.messages, i.plots, i.locks, i.samples, i.context_switches)

    @property
    def pools(self) -> List[Pool]:
        """As `pool` of an allocation numbers them."""
        found = []
        for number in range(self._library.c.tidetrace_pool_count(self._open_handle())):
            p = struct("pool")
            self._library.call("get_pool", self._handle, ctypes.c_uint32(number), ctypes.byref(p))
            found.append(Pool(str(p.name), p.key, p.allocations, p.frees, p.live_count,
                              p.live_bytes, p.total_bytes, p.low_address, p.high_address))
        return found

    @property
    def threads(self) -> List[Thread]:
        """As `thread` of an allocation numbers them."""
        found = []
        for number in range(self._library.c.tidetrace_thread_count(self._open_handle())):
            t = struct("thread")
            self._library.call("get_thread", self._handle, ctypes.c_uint32(number),
                               ctypes.byref(t))
            found.append(Thread(t.id, str(t.name), bool(t.is_fiber)))
        return found

    def callstack(self, number: int) -> List[Frame]:
        """The functions of a call stack, innermost first; call stack 0 has none."""
        size, count = size_of("frame"), ctypes.c_size_t()
        args = (self._open_handle(), ctypes.c_uint32(number))
        self._library.call("get_callstack", *args, None, ctypes.c_size_t(size), ctypes.c_size_t(0),
                           ctypes.byref(count))
        frames = (type(struct("frame")) * count.value)()
        self._library.call("get_callstack", *args, frames, ctypes.c_size_t(size),
                           ctypes.c_size_t(count.value), ctypes.byref(count))
        return [Frame(str(f.function), str(f.file), f.line, str(f.image), f.address,
                      bool(f.flags & 1), bool(f.flags & 2)) for f in frames]

    # ---- allocations as columns

    def batches(self, only: Optional[Selection] = None,
                rows: int = 65536) -> Iterator[Columns]:
        """The selected allocations pool by pool, in time order, at most `rows` at a time. The library
        writes into the array; a column of it is a view. The next batch does not change it."""
        import numpy
        with _Reader(self, only) as reader:
            while True:
                batch = numpy.empty(rows, dtype=list(_COLUMNS))
                count = reader.fill(batch, 0)
                if not count:
                    return
                yield batch[:count]

    def allocations(self, only: Optional[Selection] = None) -> Columns:
        """All selected allocations as one array, with the columns address, size, time, free_time (-1:
        not freed), pool, callstack, free_callstack, thread and free_thread."""
        import numpy
        blocks = numpy.empty(self.info.allocations, dtype=list(_COLUMNS))
        count = 0
        with _Reader(self, only) as reader:
            while count < len(blocks):
                more = reader.fill(blocks, count)
                if not more:
                    break
                count += more
        return blocks[:count]

    # ---- questions

    def _answer(self, question: str, *args: Any) -> Document:
        result = ctypes.c_void_p()
        self._library.call(question, self._open_handle(), *args, ctypes.byref(result))
        return _document(self._library, result)

    def _ask(self, question: str, asked: _Asked) -> Document:
        return self._answer(question, ctypes.byref(asked.options))

    def overview(self) -> Document:
        return self._answer("overview")

    def report(self, by: str = "site", sort: str = "size", min_bytes: int = 0, min_count: int = 0,
               skip: Sequence[str] = (), only: Optional[Selection] = None,
               no_skip: Sequence[str] = ()) -> Document:
        return self._ask("report", _Asked(
            "report_options", only, {"skip": skip, "no_skip": no_skip},
            by=_number(_BY, by, "by"), sort=_number(_SORT, sort, "sort"), min_bytes=min_bytes,
            min_count=min_count))

    def peaks(self, only: Optional[Selection] = None, most: int = 4096) -> List[Peak]:
        """The highest first; for what was live then: report(only=Selection(at=peak.time))."""
        selection = only._as_c() if only else None
        peaks, count = (type(struct("peak")) * most)(), ctypes.c_size_t()
        self._library.call("peaks", self._open_handle(),
                           ctypes.byref(selection) if selection else None, peaks,
                           ctypes.c_size_t(size_of("peak")), ctypes.c_size_t(most),
                           ctypes.byref(count))
        return [Peak(p.time, p.bytes, p.rise) for p in peaks[:min(most, count.value)]]

    def leaks(self, suppressions: Optional[str] = None, skip: Sequence[str] = (),
              only: Optional[Selection] = None, no_skip: Sequence[str] = ()) -> Document:
        return self._ask("leaks", _Asked("leak_options", only, {"skip": skip, "no_skip": no_skip},
                                         suppressions=_text(suppressions)))

    def growth(self, begin: int = -1, end: int = 2**63 - 1, skip: Sequence[str] = (),
               only: Optional[Selection] = None, no_skip: Sequence[str] = ()) -> Document:
        """Which sites hold more at the time `end` than at `begin`."""
        return self._ask("growth", _Asked("growth_options", only,
                                          {"skip": skip, "no_skip": no_skip},
                                          **{"from": begin, "to": end}))

    def patterns(self, skip: Sequence[str] = (), only: Optional[Selection] = None,
                 no_skip: Sequence[str] = ()) -> Document:
        return self._ask("patterns",
                         _Asked("site_options", only, {"skip": skip, "no_skip": no_skip}))

    def faults(self, skip: Sequence[str] = (), only: Optional[Selection] = None,
               no_skip: Sequence[str] = ()) -> Document:
        return self._ask("faults",
                         _Asked("site_options", only, {"skip": skip, "no_skip": no_skip}))

    def resident(self, look: int = 0, skip: Sequence[str] = (), only: Optional[Selection] = None,
                 no_skip: Sequence[str] = ()) -> Document:
        """What the live blocks had in memory, in a look at the pages; 0: that with most bytes."""
        return self._ask("resident", _Asked("resident_options", only,
                                            {"skip": skip, "no_skip": no_skip}, look=look))

    def histograms(self, only: Optional[Selection] = None) -> Document:
        selection = only._as_c() if only else None
        return self._answer("histograms", ctypes.byref(selection) if selection else None)

    def related(self, window: int = 0, only: Optional[Selection] = None) -> Document:
        """The trace must be opened with plots=True."""
        return self._ask("related", _Asked("related_options", only, {}, window=window))

    def timeline(self, buckets: int = 200, together: bool = False,
                 window: Optional[Tuple[int, int]] = None,
                 only: Optional[Selection] = None) -> Document:
        begin, end = window or (0, 0)
        return self._ask("timeline", _Asked(
            "timeline_options", only, {}, flags=1 * (window is not None) | 2 * together,
            buckets=buckets, begin=begin, end=end))

    def map(self, columns: int = 0, lines: int = 0, samples: int = 8,
            only: Optional[Selection] = None) -> Document:
        return self._ask("map", _Asked("map_options", only, {}, columns=columns, lines=lines,
                                       samples=samples))

    def tree(self, by: str = "function", metric: str = "bytes", bottom_up: bool = False,
             inlines: bool = True, all_frames: bool = False, depth: int = 0, min_share: float = 0.0,
             skip: Sequence[str] = (), only: Optional[Selection] = None,
             no_skip: Sequence[str] = ()) -> Document:
        return self._ask("tree", _Asked(
            "tree_options", only, {"skip": skip, "no_skip": no_skip},
            by=_number(_TREE_BY, by, "by"), metric=_number(_TREE_METRIC, metric, "metric"),
            flags=1 * bottom_up | 2 * (not inlines) | 4 * all_frames, depth=depth,
            min_share=min_share))

    def find(self, address: int, length: int = 1, at: Optional[int] = None, limit: int = 0,
             only: Optional[Selection] = None) -> Document:
        return self._ask("find", _Asked(
            "find_options", only, {}, low=address, high=address + length - 1, time=_or(at, 0),
            limit=limit, flags=1 * (at is not None)))

    def verify(self, allocations: Optional[int] = None, within: float = 0,
               callstacks_percent: Optional[float] = None,
               symbols_percent: Optional[float] = None, samples: bool = False,
               context_switches: bool = False, expect: Sequence[str] = (),
               only: Optional[Selection] = None) -> Document:
        flags = 1 * (allocations is not None) | 2 * (callstacks_percent is not None) | \
            4 * (symbols_percent is not None) | 8 * samples | 16 * context_switches
        return self._ask("verify", _Asked(
            "verify_options", only, {"expect": expect}, flags=flags,
            allocations=_or(allocations, 0), within=within,
            callstacks_percent=callstacks_percent or 0, symbols_percent=symbols_percent or 0))


class _Reader:
    """An iterator of the library over allocations."""

    def __init__(self, trace: Trace, only: Optional[Selection]) -> None:
        self._library = trace._library
        self._iterator = ctypes.c_void_p()
        selection = only._as_c() if only else None
        self._library.call("allocations_open", trace._open_handle(),
                           ctypes.byref(selection) if selection else None,
                           ctypes.byref(self._iterator))

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.c.tidetrace_allocations_close(self._iterator)

    def fill(self, blocks: Columns, first: int) -> int:
        """Writes the next allocations from row `first` on; the number of them, 0 at the end."""
        count = ctypes.c_size_t()
        size = blocks.dtype.itemsize
        self._library.call("allocations_next", self._iterator,
                           ctypes.c_void_p(blocks.ctypes.data + first * size),
                           ctypes.c_size_t(size), ctypes.c_size_t(len(blocks) - first),
                           ctypes.byref(count))
        return count.value


def _document(library: Library, result: ctypes.c_void_p) -> Document:
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    try:
        library.call("result_json", result, ctypes.c_uint64(0), ctypes.c_uint64(2**64 - 1),
                     ctypes.byref(text), ctypes.byref(size))
        document: Document = json.loads(ctypes.string_at(text, size.value))
        return document
    finally:
        library.c.tidetrace_free(text)
        library.c.tidetrace_result_free(result)


def open(path: Path, zones: bool = False, plots: bool = False, memory: int = 0) -> Trace:
    """Opens a trace: also its zones (for questions by zone or frame), its plots and messages (for
    related). `memory` bounds what is kept; 0: 80 MiB of events, 64 MiB of names and call stacks."""
    return Trace(path, zones, plots, memory)


def diff(base: Trace, now: Trace, by: str = "site", metric: str = "bytes",
         skip: Sequence[str] = (), fail_if: Sequence[str] = (),
         only: Optional[Selection] = None, no_skip: Sequence[str] = ()) -> Document:
    """What changed from one trace to another."""
    asked = _Asked("diff_options", only, {"skip": skip, "no_skip": no_skip, "fail_if": fail_if},
                   by=_number(_DIFF_BY, by, "by"), metric=_number(_DIFF_METRIC, metric, "metric"))
    return base._answer("diff", now._open_handle(), ctypes.byref(asked.options))
