"""A proxy between a client and a capture that keeps what it passed, and walks over it without any
code of the program: whole frames are counted by their lengths alone. Also journals, read here."""

import contextlib
import pathlib
import socket
import struct
import threading
import time

FRAME_MOST = 263188
PATIENCE = 900


def wait_for(condition, what):
    """Until `condition` holds; a quarter of an hour is beyond any machine's slowness."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.005)


def body_begins(stream, protocol):
    """Where the frames begin: behind status, welcome and what an on-demand client adds."""
    size, flags = (1178, 72) if protocol <= 74 else (1170, 64)
    return 1 + size + (16 if stream[1 + flags] & 1 else 0)


def frame_ends(stream, protocol):
    """The offsets at which whole frames end, behind that of the first one's beginning."""
    at = body_begins(stream, protocol)
    ends = [at]
    while at + 4 <= len(stream):
        size = struct.unpack_from("<I", stream, at)[0]
        assert 0 < size <= FRAME_MOST, size
        at += 4 + size
        if at > len(stream):
            break
        ends.append(at)
    return ends


def journal_segments(folder):
    """The segments of a journal in their order; what begins with a checkpoint has that beside it."""
    folder = pathlib.Path(folder)
    try:
        return sorted(f for f in folder.iterdir() if f.name.isdigit())
    except FileNotFoundError:
        return []


def journal_records(folder):
    """The (kind, payload) of a journal's whole records; none as long as there is no journal."""
    for segment in journal_segments(folder):
        try:
            data = segment.read_bytes()
        except FileNotFoundError:  # the capture is done with it
            return
        if len(data) < 48:  # it is being begun
            return
        assert data[:8] == b"TIDEJRN1"
        at = 48
        while at + 16 <= len(data):
            size, kind = struct.unpack_from("<II", data, at)
            if at + 16 + size > len(data):
                break
            yield kind, data[at + 16 : at + 16 + size]
            at += 16 + size


def journal_bytes(folder):
    """What a journal holds of the client: payloads of its records of kind 2."""
    return b"".join(payload for kind, payload in journal_records(folder) if kind == 2)


def journal_before(folder):
    """How many bytes of the client came before what a journal still holds: its header says it."""
    return struct.unpack_from("<Q", journal_segments(folder)[0].read_bytes(), 24)[0]


def journal_arrived(folder):
    """How many bytes of the client are, or were, in a journal; 0 while that changes hands."""
    try:
        return journal_before(folder) + len(journal_bytes(folder))
    except (FileNotFoundError, IndexError, struct.error):
        return 0


class Proxy:
    """Passes one connection on. `stop_at`: bytes of the client after which it passes no more, but
    keeps the connection, until `go_on` is called; None: all."""

    def __init__(self, port, stop_at=None):
        self.target, self.stop_at = port, stop_at
        self.gate = threading.Event()
        self.passed = bytearray()
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(8)
        self.port = self.socket.getsockname()[1]
        self.peers = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                server, _ = self.socket.accept()
                client = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            self.peers += [server, client]
            self.passed = bytearray()
            threading.Thread(target=self.pump_queries, args=(server, client), daemon=True).start()
            self.pump(client, server)

    def pump(self, client, server):
        try:
            while data := client.recv(65536):
                room = len(data) if self.stop_at is None else self.stop_at - len(self.passed)
                server.sendall(data[:room])
                self.passed += data[:room]
                if len(data) > room:
                    self.gate.wait()
                    server.sendall(data[room:])
                    self.passed += data[room:]
        except OSError:
            pass # a killed client resets its connection when queries were still unread
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def go_on(self):
        self.stop_at = None
        self.gate.set()

    def pump_queries(self, server, client):
        try:
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def hang_up(self):
        """Towards the capture: what was passed is all that it gets. Its queries are still taken, since
        else the system would reset the connection, with what is on its way."""
        for server in self.peers[::2]:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_WR)

    def close(self):
        for s in (self.socket, *self.peers):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
        self.gate.set()


class Player:
    """A client that plays `stream` to whoever speaks its protocol, then goes away."""

    def __init__(self, stream, protocol):
        self.stream, self.protocol = stream, protocol
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(8)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, _ = self.socket.accept()
                request = peer.recv(12)
                if len(request) == 12 and struct.unpack("<I", request[8:])[0] == self.protocol:
                    peer.sendall(self.stream)
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(65536):
                        pass
                else:
                    peer.sendall(b"\x02")
                peer.close()
            except OSError:
                return

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()
