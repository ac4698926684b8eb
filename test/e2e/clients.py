"""Items and files that tests make by hand. Layouts of protocol 74; what nobody asked for is told in
advance, as recordings do, so that no capture waits for answers."""

import contextlib
import struct

import zstandard

from test_capture import TERMINATE, FakeClient, alloc, callstack, frame
from tools import LIMIT, run

BLOCK = 65536


def text_item(item, text):
    return struct.pack("<BH", item, len(text)) + text


def keyed_text(item, key, text):
    return struct.pack("<BQH", item, key, len(text)) + text


def string(key, text):
    return keyed_text(102, key, text)


def thread_name(thread, text):
    return keyed_text(103, thread, text)


def frame_name(address, name, file, line=0, image=b"prog", symbol=0):
    """What a client answers to a CallstackFrame query."""
    return (text_item(98, image) + struct.pack("<BQB", 52, address, 1) + text_item(98, name) +
            text_item(99, file) + struct.pack("<BIQI", 82, line, symbol, 0))


def alloc_plain(time, thread, ptr, size, pool=None):
    """An allocation without a call stack."""
    named = b"" if pool is None else struct.pack("<BQ", 100, pool)
    return named + struct.pack("<BqIQIH", 25 if pool is None else 26, time, thread, ptr,
                               size & 0xffffffff, size >> 32)


def capture_items(output, items, *args):
    """Captures a client that sends `items`, then ends. Gives the finished capture."""
    client = FakeClient(frame(items + TERMINATE))
    with contextlib.closing(client.socket):
        result = run("capture", "-o", output, "-p", client.port, "--connect-timeout", LIMIT, *args)
    client.thread.join(timeout=10)
    return result


def unnamed_frames(output):
    """A trace whose allocations have call stacks, and whose frames have no names."""
    items = thread_name(7, b"main")
    for i in range(10):
        address = 0x401000 + 16 * i
        items += frame_name(address, b"[unknown]", b"[unknown]", image=b"[unknown]")
        items += callstack(address) + alloc(10, 7, 0x1000 + 64 * i, 64)
    return capture_items(output, items)


def no_callstacks(output):
    items = thread_name(7, b"main")
    items += b"".join(alloc_plain(10, 7, 0x1000 + 64 * i, 64) for i in range(10))
    return capture_items(output, items)


def pack(inner):
    """The file around an inner stream, as `tZst`: its blocks stay whole when the stream is not."""
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    out = [b"tZst"]
    for i in range(0, len(inner), BLOCK):
        block = compressor.compress(inner[i : i + BLOCK])
        block += compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        out += [struct.pack("<I", len(block)), block]
    return b"".join(out)
