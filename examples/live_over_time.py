#!/usr/bin/env python3
"""Live bytes of a trace at twenty times, from its allocations, and the checks of a budget.

    LD_LIBRARY_PATH=... examples/live_over_time.py run.tracy ['peak<512M' ...]

Exits with 1 when a budget does not hold, with 2 for a wrong command line or expression, with 3 when
the trace cannot be read. Uses libtidetrace through ctypes alone; $TIDETRACE names
the library where it is not installed."""

import ctypes
import json
import os
import sys

BATCH = 1024
STEPS = 20
USAGE = -1  # enum tidetrace_code


class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.POINTER(ctypes.c_char)), ("size", ctypes.c_size_t)]

    def __str__(self):
        return ctypes.string_at(self.data, self.size).decode(errors="replace")


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("text", ctypes.c_char * 512)]


class Allocation(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("address", ctypes.c_uint64),
                ("size", ctypes.c_uint64), ("time", ctypes.c_int64),
                ("free_time", ctypes.c_int64), ("pool", ctypes.c_uint32),
                ("callstack", ctypes.c_uint32), ("free_callstack", ctypes.c_uint32),
                ("thread", ctypes.c_uint32), ("free_thread", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("zone", Text)]


class VerifyOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("flags", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("pool", ctypes.c_char_p),
                ("allocations", ctypes.c_uint64), ("within", ctypes.c_double),
                ("callstacks_percent", ctypes.c_double), ("symbols_percent", ctypes.c_double),
                ("expect", ctypes.POINTER(ctypes.c_char_p)), ("expect_count", ctypes.c_size_t)]


class TraceError(RuntimeError):
    """What the library says is wrong; `code` is one of enum tidetrace_code."""

    def __init__(self, error):
        super().__init__(error.text.decode(errors="replace"))
        self.code = error.code


class Trace:
    """A trace. Use it in a `with` statement, or call close()."""

    def __init__(self, path, library=os.environ.get("TIDETRACE", "libtidetrace.so.1")):
        self.library = ctypes.CDLL(library)
        for name in ("close", "allocations_close", "result_free", "free"):
            getattr(self.library, "tidetrace_" + name).restype = None
        self.handle = ctypes.c_void_p()
        self.call("open", os.fsencode(path), None, ctypes.byref(self.handle))

    def call(self, name, *args):
        error = Error()
        if getattr(self.library, "tidetrace_" + name)(*args, ctypes.byref(error)) != 0:
            raise TraceError(error)

    def close(self):
        self.library.tidetrace_close(self.handle)
        self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def allocations(self):
        """Each as a struct that holds until the next one is asked for."""
        iterator, count = ctypes.c_void_p(), ctypes.c_size_t()
        batch = (Allocation * BATCH)()
        self.call("allocations_open", self.handle, None, ctypes.byref(iterator))
        try:
            while True:
                self.call("allocations_next", iterator, batch,
                          ctypes.c_size_t(ctypes.sizeof(Allocation)), ctypes.c_size_t(BATCH),
                          ctypes.byref(count))
                if not count.value:
                    return
                yield from batch[:count.value]
        finally:
            self.library.tidetrace_allocations_close(iterator)

    def json(self, result):
        """A result as a Python object; frees it."""
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        try:
            self.call("result_json", result, ctypes.c_uint64(0), ctypes.c_uint64(2**64 - 1),
                      ctypes.byref(text), ctypes.byref(size))
            return json.loads(ctypes.string_at(text, size.value))
        finally:
            self.library.tidetrace_free(text)
            self.library.tidetrace_result_free(result)

    def overview(self):
        result = ctypes.c_void_p()
        self.call("overview", self.handle, ctypes.byref(result))
        return self.json(result)

    def verify(self, budgets):
        texts = (ctypes.c_char_p * len(budgets))(*(b.encode() for b in budgets))
        options = VerifyOptions(struct_size=ctypes.sizeof(VerifyOptions), expect=texts,
                                expect_count=len(budgets))
        result = ctypes.c_void_p()
        self.call("verify", self.handle, ctypes.byref(options), ctypes.byref(result))
        return self.json(result)


def live_at(trace, times):
    """Bytes live at the end of each of these nanoseconds."""
    live = [0] * len(times)
    for block in trace.allocations():
        for i, time in enumerate(times):
            if block.time <= time and (block.free_time == -1 or block.free_time > time):
                live[i] += block.size
    return live


def show(path, budgets):
    with Trace(path) as trace:
        duration = trace.overview()["trace"]["duration_ns"]
        times = [duration * (i + 1) // STEPS for i in range(STEPS)]
        for time, live in zip(times, live_at(trace, times)):
            print(f"{time:>15} ns {live:>15} bytes")
        checks = trace.verify(budgets)
    for check in checks["checks"]:
        print("ok    " if check["holds"] else "FAILED", check["name"], check["detail"])
    return 0 if checks["holds"] else 1


def main():
    if len(sys.argv) < 2:
        print("usage: live_over_time.py TRACE [EXPRESSION...]", file=sys.stderr)
        return 2
    try:
        return show(sys.argv[1], sys.argv[2:])
    except (OSError, TraceError) as error:  # no such library, no such trace
        print(f"live_over_time: {error}", file=sys.stderr)
        return 2 if getattr(error, "code", None) == USAGE else 3


if __name__ == "__main__":
    sys.exit(main())
