"""The C library: its structs, as include/tidetrace.h has them, and calls that raise its errors."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, Type


class TraceError(Exception):
    """What the library says is wrong. `code` is one of enum tidetrace_code: USAGE, INPUT, …"""

    USAGE, INPUT, SYSTEM, MEMORY = -1, -2, -3, -4

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("text", ctypes.c_char * 512)]


class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    def __str__(self) -> str:
        return ctypes.string_at(self.data, self.size).decode(errors="replace")


TYPES: Dict[str, Any] = {
    "size": ctypes.c_size_t, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64, "i64": ctypes.c_int64,
    "f64": ctypes.c_double, "chars": ctypes.c_char_p, "text": Text, "pointer": ctypes.c_void_p,
    "texts": ctypes.POINTER(ctypes.c_char_p),
}

# Members by type, in order; each struct begins with struct_size.
STRUCTS = {
    "open_options": "u32 flags reserved, u64 memory, chars temporary_folder",
    "info": "u32 flags file_version, text version protocol program capture_name host, "
            "u64 pid captured_at, i64 duration, u64 pools allocations callstacks frames threads "
            "zones messages plots locks samples context_switches",
    "pool": "text name, u64 key allocations frees live_count live_bytes total_bytes low_address "
            "high_address",
    "thread": "u64 id, text name, u32 is_fiber reserved",
    "frame": "text function file image, u64 address, u32 line flags number inlined",
    "selection": "u32 flags reserved, chars pool thread match zone, i64 begin end at, "
                 "u64 size_min size_max frame",
    "allocation": "u64 address size, i64 time free_time, u32 pool callstack free_callstack thread "
                  "free_thread reserved, text zone",
    "report_options": "pointer selection, u32 by sort, u64 min_bytes min_count, texts skip, "
                      "size skip_count, texts no_skip, size no_skip_count",
    "peak": "i64 time, u64 bytes rise",
    "leak_options": "pointer selection, chars suppressions, texts skip, size skip_count, "
                    "texts no_skip, size no_skip_count",
    "site_options": "pointer selection, texts skip, size skip_count, "
                    "texts no_skip, size no_skip_count",
    "growth_options": "pointer selection, i64 from to, texts skip, size skip_count, "
                      "texts no_skip, size no_skip_count",
    "resident_options": "pointer selection, u64 look, texts skip, size skip_count, "
                        "texts no_skip, size no_skip_count",
    "related_options": "pointer selection, i64 window",
    "timeline_options": "pointer selection, u32 flags buckets, i64 begin end",
    "map_options": "pointer selection, u32 columns lines samples reserved",
    "tree_options": "pointer selection, u32 by metric flags depth, f64 min_share, texts skip, "
                    "size skip_count, texts no_skip, size no_skip_count",
    "find_options": "pointer selection, u64 low high, i64 time, u64 limit, u32 flags reserved",
    "diff_options": "pointer selection, u32 by metric, texts skip, size skip_count, texts fail_if, "
                    "size fail_if_count, texts no_skip, size no_skip_count",
    "verify_options": "u32 flags reserved, chars pool, u64 allocations, f64 within "
                      "callstacks_percent symbols_percent, texts expect, size expect_count, "
                      "pointer selection",
}


def _define(name: str, members: str) -> Type[ctypes.Structure]:
    fields = [("struct_size", ctypes.c_size_t)]
    for group in members.split(", "):
        kind, *names = group.split()
        fields += [(member, TYPES[kind]) for member in names]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


_types = {name: _define(name, members) for name, members in STRUCTS.items()}


def struct(name: str, **members: Any) -> Any:
    """A struct of that name with its size; members that are not named are 0."""
    kind = _types[name]
    return kind(struct_size=ctypes.sizeof(kind), **members)


def size_of(name: str) -> int:
    return ctypes.sizeof(_types[name])


class Library:
    """The loaded library. Functions that may fail are called by name."""

    def __init__(self, path: str = "") -> None:
        self.c = ctypes.CDLL(path or os.environ.get("TIDETRACE", "libtidetrace.so.1"))
        for name in ("close", "allocations_close", "result_free", "free"):
            getattr(self.c, "tidetrace_" + name).restype = None
        for name in ("pool_count", "thread_count", "callstack_count"):
            getattr(self.c, "tidetrace_" + name).restype = ctypes.c_uint32
        self.c.tidetrace_release.restype = ctypes.c_char_p

    def call(self, name: str, *args: Any) -> None:
        error = Error()
        if getattr(self.c, "tidetrace_" + name)(*args, ctypes.byref(error)) != 0:
            raise TraceError(error.code, error.text.decode(errors="replace"))
