"""Names after the capture: how each frame of a stripped program finds its image under address space
randomisation, and what is said when it does not; the commands around that."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import unittest

from clients import capture_items, frame_name, thread_name
from test_capture import alloc, callstack
from tools import BUILD, LIMIT, ROOT, SANITIZED, TIDEMARK, TRACES, Case, free_port, run

CLIENT = BUILD / "test" / "stack_client"
NAMED = BUILD / "test" / "stack_client_named"
SOURCE = (ROOT / "test" / "stack_client.c").read_text().splitlines()
STACK = ["shop_take", "shop_pack", "shop_order", "hidden_shelf", "shop_restock", "main"]


def line_of(mark):
    return next(n for n, text in enumerate(SOURCE, 1) if f"/* line: {mark} */" in text)


class Relay:
    """Between client and server: then the server's peer is this process, not the client, and the
    module table that the capture takes is that of another process."""

    def __init__(self, port):
        self.to = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.to))
            threads = [threading.Thread(target=self.pump, args=pair, daemon=True)
                       for pair in ((near, far), (far, near))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            near.close()
            far.close()

    @staticmethod
    def pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def close(self):
        self.listener.close()


class SymbolCase(Case):
    def setUp(self):
        super().setUp()
        os.environ["XDG_CACHE_HOME"] = str(self.dir / "cache")
        os.environ.pop("DEBUGINFOD_URLS", None)
        self.debug = self.dir / "debug"

    def client(self, program=CLIENT, strip=True):
        """A copy of the program without symbols; those go where --debug-dir finds them."""
        copy = self.dir / "shop"
        shutil.copy(program, copy)
        note = subprocess.run(["readelf", "-n", copy], capture_output=True, text=True).stdout
        self.build_id = re.search(r"Build ID: ([0-9a-f]+)", note)[1]
        if strip:
            place = self.debug / ".build-id" / self.build_id[:2]
            place.mkdir(parents=True, exist_ok=True)
            subprocess.run(["objcopy", "--only-keep-debug", copy,
                            place / f"{self.build_id[2:]}.debug"], check=True)
            subprocess.run(["strip", copy], check=True)
        return copy

    def record(self, *args, mode="names", relay=False, program=CLIENT, strip=True, between=None,
               name="t.tracy", wrapper=()):
        """Runs the program and captures it. Gives the finished capture and the trace."""
        copy = self.client(program, strip)
        process = subprocess.Popen([*wrapper, copy, mode], stdout=subprocess.PIPE, text=True)
        through = None
        try:
            port, self.pid = map(int, process.stdout.readline().split())
            if relay:
                through = Relay(port)
                port = through.port
            if between:
                between(self.pid)
            trace = self.dir / name
            result = run("capture", "-o", trace, "-p", port, "--connect-timeout", LIMIT, "-f", *args)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(process.wait(20), 0)
            return result, trace
        finally:
            process.kill()
            process.communicate()
            if through:
                through.close()

    def symbols(self, trace, *args, output=True):
        """`symbols` as an object; with the trace it wrote."""
        out = self.dir / "out.tracy"
        result = run("symbols", trace, *(["-o", out] if output else []), "--format", "json", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        doc = json.loads(result.stdout)
        self.assertEqual(doc["schema"], "tidemark.symbols/1")
        self.images = {image["image"]: image for image in doc["images"]}
        return doc, out

    def stacks(self, trace, *args):
        """Call stacks of a trace: lists of (function, file's name, line)."""
        result = run("report", trace, "--by", "callstack", "--format", "json", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [[(f["function"], os.path.basename(f["file"] or ""), f["line"])
                 for f in row["callstack"]] for row in json.loads(result.stdout)["groups"]]

    def assert_named(self, trace, *args):
        """Functions, files and lines as in the source, with what was inlined."""
        stacks = self.stacks(trace, *args)
        self.assertTrue(stacks)
        long = [s for s in stacks if any(f[0] == "hidden_shelf" for f in s)]
        self.assertTrue(long, stacks)
        names = [f[0] for f in long[0]]
        at = names.index("shop_take")
        self.assertEqual(names[at:at + 6], STACK)
        lines = {f[0]: (f[1], f[2]) for f in long[0]}
        for function, mark in (("shop_take", "take"), ("shop_pack", "pack"),
                               ("shop_order", "order"), ("hidden_shelf", "shelf"),
                               ("shop_restock", "restock")):
            self.assertEqual(lines[function], ("stack_client.c", line_of(mark)), function)

    def functions(self, trace):
        return {f[0] for s in self.stacks(trace) for f in s}

    def shop(self):
        return self.images[str(self.dir / "shop")]


class TestSteps(SymbolCase):
    """DESIGN: offsets, module table, --base, --modules, inference; each alone."""

    def test_module_table(self):
        _, trace = self.record("--symbols", "client")
        self.assertFalse(set(STACK[:5]) & self.functions(trace))
        doc, out = self.symbols(trace, "--debug-dir", self.debug)
        shop = self.shop()
        self.assertEqual(list(shop["located_by"]), ["module table of the capture"])
        self.assertEqual(shop["build_id"], self.build_id)
        self.assertEqual(shop["named"], shop["frames"])
        self.assertTrue(shop["debug_file"].startswith(str(self.debug)))
        self.assertGreater(shop["inlined"], 0)
        self.assertGreater(doc["named"], doc["named_before"])
        self.assert_named(out)

    def test_no_table(self):
        _, trace = self.record("--symbols", "client", relay=True)
        doc, out = self.symbols(trace, "--debug-dir", self.debug)
        shop = self.shop()
        self.assertFalse(shop["opened"])
        self.assertEqual(shop["base_unknown"], shop["frames"])
        self.assertEqual(shop["named"], shop["named_before"])
        names = run("dump", out, "--format", "jsonl").stdout
        self.assertIn("shop (base unknown)", names)
        text = run("symbols", trace)
        self.assertEqual(text.returncode, 0)
        self.assertIn("base unknown: no build id: give --modules or --base", text.stdout)
        self.assertIn("shop (base unknown) (0x", run("report", out, "--stack-traces").stdout)

    def test_frames_beyond_the_mappings(self):
        """The build id of the file is known: that is not why its frames have no names."""
        trace, table = self.dir / "x.tracy", self.dir / "table"
        items = thread_name(7, b"main")
        for address in (0x1000, 0x7f0000001010):  # nothing can be mapped at the first
            items += frame_name(address, b"[unknown]", b"[unknown]", image=b"/no/libshelf.so")
            items += callstack(address) + alloc(10, 7, address, 64)
        self.assertEqual(capture_items(trace, items).returncode, 0)
        table.write_text("7f0000001000-7f0000005000 0 aabb /no/libshelf.so\n")
        result = run("symbols", trace, "--modules", table)
        self.assertIn("1 frame outside of its mappings", result.stdout)
        self.assertNotIn("no build id", result.stdout)

    def test_modules_file(self):
        table, maps = self.dir / "table", self.dir / "maps"

        def between(pid):
            self.assertEqual(run("modules", pid, "-o", table).returncode, 0)
            shutil.copyfile(f"/proc/{pid}/maps", maps)

        _, trace = self.record("--symbols", "client", relay=True, between=between)
        self.assertIn(f" {self.build_id} {self.dir}/shop\n", table.read_text())
        for file, build_id in ((table, self.build_id), (maps, None)):
            with self.subTest(file=file.name):
                self.symbols(trace, "--debug-dir", self.debug, "--modules", file)
                self.assertEqual(list(self.shop()["located_by"]), ["--modules"])
                self.assertEqual(self.shop()["build_id"], build_id)
                self.assert_named(self.dir / "out.tracy")

    def test_base(self):
        found = []

        def between(pid):
            with open(f"/proc/{pid}/maps") as f:
                found.extend(line.split("-")[0] for line in f if line.rstrip().endswith("/shop"))

        _, trace = self.record("--symbols", "client", relay=True, between=between)
        _, out = self.symbols(trace, "--debug-dir", self.debug, "--base", f"shop={found[0]}")
        self.assertEqual(list(self.shop()["located_by"]), ["--base"])
        self.assert_named(out)

    def test_inferred(self):
        _, trace = self.record("--symbols", "client", relay=True, program=NAMED)
        functions = self.functions(trace)
        self.assertIn("shop_order", functions)
        self.assertNotIn("hidden_shelf", functions)
        # Without leave the image is not opened, so nothing can be told from its symbols.
        self.symbols(trace, "--debug-dir", self.debug)
        self.assertFalse(self.shop()["opened"])
        self.assertGreater(self.shop()["base_unknown"], 0)
        _, out = self.symbols(trace, "--debug-dir", self.debug, "--images-from-trace")
        shop = self.shop()
        self.assertEqual(list(shop["located_by"]),
                         ["base inferred from symbols that the client named"])
        self.assertRegex(shop["inferred_base"], r"^0x[0-9a-f]+000$")
        self.assert_named(out)
        # It is a conclusion: the trace says so.
        self.assertIn(f"base of {self.dir}/shop inferred: {shop['inferred_base']}",
                      run("info", out).stdout)

    def test_inference_needs_agreement(self):
        """Another program of that name: its symbols stand elsewhere."""
        _, trace = self.record("--symbols", "client", relay=True, program=NAMED)
        shutil.copy(TIDEMARK, self.dir / "shop")
        self.symbols(trace, "--images-from-trace")
        self.assertTrue(self.shop()["opened"])
        self.assertIsNone(self.shop()["inferred_base"])
        self.assertGreater(self.shop()["base_unknown"], 0)

    def test_offsets(self):
        _, trace = self.record("--symbols", "client", mode="offline", relay=True)
        self.assertIn("0 %", run("info", trace).stdout)
        self.symbols(trace, "--debug-dir", self.debug)
        self.assertFalse(self.shop()["opened"])
        self.assertIn("no build id", self.shop()["problem"])
        _, out = self.symbols(trace, "--debug-dir", self.debug, "--images-from-trace")
        self.assertEqual(list(self.shop()["located_by"]), ["offset sent by the client"])
        self.assert_named(out)
        # What was named is found again: offsets stay.
        again, _ = self.symbols(out, "--debug-dir", self.debug, "--images-from-trace", "--all",
                                output=False)
        self.assertEqual(list(self.shop()["located_by"]), ["offset sent by the client"])
        self.assertEqual(again["named"], again["named_before"])

    def test_offsets_and_table(self):
        """The table's build id is what the image is checked by."""
        _, trace = self.record("--symbols", "client", mode="offline")
        _, out = self.symbols(trace, "--debug-dir", self.debug)
        self.assertEqual(list(self.shop()["located_by"]), ["offset sent by the client"])
        self.assertEqual(self.shop()["build_id"], self.build_id)
        self.assert_named(out)


class TestImages(SymbolCase):
    """Which files are opened, and which are not."""

    def record_and_replace(self, replace):
        _, trace = self.record("--symbols", "client")
        (self.dir / "shop").unlink()
        replace(self.dir / "shop")
        return trace

    def test_another_build(self):
        trace = self.record_and_replace(lambda path: shutil.copy(TIDEMARK, path))
        self.symbols(trace, "--debug-dir", self.dir / "nowhere", "--images-from-trace")
        self.assertFalse(self.shop()["opened"])
        self.assertEqual(self.shop()["named"], self.shop()["named_before"])
        names = run("dump", self.dir / "out.tracy").stdout
        self.assertRegex(names, r"shop\+0x[0-9a-f]+")

    def test_no_regular_file(self):
        for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), os.mkdir):
            with self.subTest(make=make):
                if (self.dir / "shop").is_dir():
                    (self.dir / "shop").rmdir()
                trace = self.record_and_replace(make)
                self.symbols(trace, "--images-from-trace", "--debug-dir", self.dir / "nowhere")
                self.assertFalse(self.shop()["opened"])
                path = self.dir / "shop"
                path.rmdir() if path.is_dir() else path.unlink()

    def test_no_elf_file(self):
        trace = self.record_and_replace(lambda path: path.write_bytes(b"\x7fELF" + b"\xff" * 4000))
        self.symbols(trace, "--images-from-trace", "--debug-dir", self.dir / "nowhere")
        self.assertFalse(self.shop()["opened"])

    def test_sysroot_and_substitution(self):
        _, trace = self.record("--symbols", "client", mode="offline", relay=True)
        root = self.dir / "root"
        moved = root / str(self.dir).lstrip("/")
        moved.mkdir(parents=True)
        shutil.move(self.dir / "shop", moved / "shop")
        self.symbols(trace, "--images-from-trace", "--debug-dir", self.debug)
        self.assertFalse(self.shop()["opened"])
        _, out = self.symbols(trace, "--images-from-trace", "--debug-dir", self.debug, "--sysroot",
                              root)
        self.assertTrue(self.shop()["opened"])
        self.assert_named(out)
        _, out = self.symbols(trace, "--images-from-trace", "--debug-dir", self.debug,
                              "--substitute", f"^{self.dir}/;{moved}/")
        self.assert_named(out)

    def test_debug_file_beside_image(self):
        _, trace = self.record("--symbols", "client")
        beside = self.dir / ".debug"
        beside.mkdir()
        debug = next(self.debug.rglob("*.debug"))
        shutil.move(debug, beside / "shop.debug")
        subprocess.run(["objcopy", f"--add-gnu-debuglink={beside}/shop.debug", self.dir / "shop"],
                       check=True)
        _, out = self.symbols(trace)
        self.assertEqual(self.shop()["debug_file"], str(beside / "shop.debug"))
        self.assert_named(out)

    def test_symbol_table_alone(self):
        _, trace = self.record("--symbols", "client", program=NAMED)
        _, out = self.symbols(trace)
        self.assertFalse(self.shop()["debug_information"])
        functions = self.functions(out)
        self.assertIn("shop_order", functions)
        # A function that has no name is told by its place, never by "??".
        self.assertTrue(any(re.fullmatch(r"near shop_order\+0x[0-9a-f]+", f or "") for f in functions),
                        functions)

    def test_cache(self):
        _, trace = self.record("--symbols", "client")
        self.symbols(trace, "--debug-dir", self.debug)
        kept = list((self.dir / "cache").rglob("*"))
        files = [path for path in kept if path.is_file()]
        self.assertTrue(files)
        for damage in (None, b"", b"\xff" * 100, files[0].read_bytes()[:-50]):
            if damage is not None:
                for path in files:
                    path.write_bytes(damage)
            _, out = self.symbols(trace, "--debug-dir", self.debug)
            self.assert_named(out)
        # What was not used for longest goes, and only what is ours.
        old = files[0].parent / ("ab" * 48)
        foreign = [files[0].parent / name for name in ("notes.txt", "cd" * 48)]
        for path in (old, *foreign):
            path.write_bytes((b"tidemark" if path == old else b"") + b"x" * 100000)
            os.utime(path, (1, 1))
        for path in files:
            path.unlink()
        self.symbols(trace, "--debug-dir", self.debug, "--symbol-cache-size", "1G")
        self.assertTrue(old.exists())
        for path in files:
            path.unlink()
        self.symbols(trace, "--debug-dir", self.debug, "--symbol-cache-size", "90K")
        self.assertFalse(old.exists())
        self.assertTrue(all(path.exists() for path in foreign))
        shutil.rmtree(self.dir / "cache")
        self.symbols(trace, "--debug-dir", self.debug, "--no-symbol-cache")
        self.assertFalse((self.dir / "cache").exists())
        self.symbols(trace, "--debug-dir", self.debug, "--symbol-cache", self.dir / "own")
        self.assertTrue(list((self.dir / "own").iterdir()))


    def test_cache_knows_builds(self):
        """Two builds that differ in nothing but lines are two, also without a build id."""
        for link in ("-Wl,--build-id", "-Wl,--build-id=none"):
            lines, sizes = [], set()
            for first in (10, 20):
                source, program = self.dir / "a.c", self.dir / "a.out"
                source.write_text(f'#line {first} "a.c"\nint main(void) {{ return 0; }}\n')
                subprocess.run(["gcc", "-g", link, source, "-o", program], check=True)
                sizes.add(program.stat().st_size)
                listing = subprocess.run(["nm", program], capture_output=True, text=True).stdout
                address = re.search(r"^(\w+) T main$", listing, re.M)[1]
                for _ in range(2):
                    result = run("symbolize", program, address)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    lines.append(int(result.stdout.rsplit(":", 1)[1]))
            self.assertEqual(len(sizes), 1)
            self.assertEqual(lines, [10, 10, 20, 20])


class TestDebugDir(SymbolCase):
    """Files that a user put into a folder, by name; the build id tells whether they belong."""

    def setUp(self):
        super().setUp()
        _, self.trace = self.record("--symbols", "client")
        shutil.rmtree(self.debug)
        self.debug.mkdir()
        self.image = self.dir / "shop"

    def assert_found(self, path):
        _, out = self.symbols(self.trace, "--debug-dir", self.debug)
        self.assertEqual(self.shop()["debug_file"], str(path))
        self.assertIsNone(self.shop()["looked_for"])
        self.assert_named(out)

    def test_a_plain_debug_file(self):
        path = self.debug / "shop.debug"
        subprocess.run(["objcopy", "--only-keep-debug", CLIENT, path], check=True)
        self.assert_found(path)

    def test_the_unstripped_image(self):
        shutil.copy(CLIENT, self.debug / "shop")
        self.assert_found(self.debug / "shop")

    def test_the_unstripped_image_where_there_is_no_other(self):
        shutil.copy(CLIENT, self.debug / "shop")
        self.image.unlink()
        self.assert_found(self.debug / "shop")

    def test_what_was_looked_for_is_said(self):
        tree = f".build-id/{self.build_id[:2]}/{self.build_id[2:]}.debug"
        wanted = [self.debug / tree, self.dir / "shop.debug", self.dir / ".debug" / "shop.debug",
                  self.debug / "shop.debug", self.debug / "shop"]
        result = run("symbols", self.trace, "--debug-dir", self.debug)
        self.assertEqual(result.returncode, 0, result.stderr)
        line, = [s for s in result.stdout.splitlines() if "looked for" in s and "shop.debug" in s]
        for path in wanted:
            self.assertIn(path.as_posix() + ",", line + ",")
        self.symbols(self.trace, "--debug-dir", self.debug, output=False)
        self.assertIn(str(wanted[3]), self.shop()["looked_for"])

    def test_another_build_is_not_taken(self):
        subprocess.run(["objcopy", "--only-keep-debug", NAMED, self.debug / "shop.debug"],
                       check=True)
        self.symbols(self.trace, "--debug-dir", self.debug, output=False)
        self.assertFalse(self.shop()["debug_information"])
        self.assertIn(f"{self.debug}/shop.debug (exists, without matching debug information), ",
                      self.shop()["looked_for"])


@unittest.skipUnless(shutil.which("debuginfod"), "no debuginfod")
class TestDebuginfod(SymbolCase):
    """Debian's server on the loopback interface has what is not here."""

    def test_names_come_back(self):
        _, trace = self.record("--symbols", "client")
        served = self.dir / "served"
        served.mkdir()
        for path in self.debug.rglob("*.debug"):
            shutil.copy(path, served / "shop.debug")
        port = free_port()
        server = subprocess.Popen(["debuginfod", "-p", str(port), "-d", self.dir / "db", "-F",
                                   served], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{port}"
            os.environ["DEBUGINFOD_CACHE_PATH"] = str(self.dir / "fetched")
            self.addCleanup(os.environ.pop, "DEBUGINFOD_CACHE_PATH", None)
            for _ in range(100):
                _, out = self.symbols(trace, "--debuginfod", url)
                if self.shop()["debug_information"]:
                    break
                # It has not looked at its folder yet; that nobody has the file is cached.
                shutil.rmtree(self.dir / "fetched", ignore_errors=True)
                time.sleep(0.2)
            self.assertTrue(self.shop()["debug_information"])
            self.assert_named(out)
            shutil.rmtree(self.dir / "fetched")
            shutil.rmtree(self.dir / "cache")
            self.symbols(trace, "--debuginfod", url, "--no-debuginfod")
            self.assertFalse(self.shop()["debug_information"])
        finally:
            server.terminate()
            server.wait()


class TestDebuginfodErrors(SymbolCase):
    def test_they_are_among_the_places(self):
        _, trace = self.record("--symbols", "client")
        url = f"//localhost:{free_port()}"
        self.symbols(trace, "--debuginfod", f"http:{url}")
        self.assertIn("debuginfod: Connection refused", self.shop()["looked_for"])
        os.environ["SSL_CERT_FILE"] = str(self.dir / "none.pem")
        self.addCleanup(os.environ.pop, "SSL_CERT_FILE")
        self.symbols(trace, "--debuginfod", f"https:{url}")
        self.assertIn(f"debuginfod: SSL_CERT_FILE: {self.dir}/none.pem: No such file",
                      self.shop()["looked_for"])


class TestPolicy(SymbolCase):
    def test_all_and_unknown(self):
        _, trace = self.record("--symbols", "client", program=NAMED)
        before = self.functions(trace)
        self.assertIn("shop_order", before)
        better, _ = self.symbols(trace, "--debug-dir", self.debug, output=False)
        unknown, out = self.symbols(trace, "--debug-dir", self.debug, "--only-unknown")
        everything, _ = self.symbols(trace, "--debug-dir", self.debug, "--all", output=False)
        self.assertLess(unknown["changed"], better["changed"])
        self.assertLessEqual(better["changed"], everything["changed"])
        # shop_order had a name, so what was inlined there stays out.
        self.assertNotIn("shop_pack", self.functions(out))

    def test_twice(self):
        _, trace = self.record("--symbols", "client")
        _, out = self.symbols(trace, "--debug-dir", self.debug)
        shutil.copy(out, self.dir / "first.tracy")
        again, _ = self.symbols(self.dir / "first.tracy", "--debug-dir", self.debug)
        self.assertEqual(again["changed"], 0)
        self.assertEqual(run("dump", out).stdout, run("dump", self.dir / "first.tracy").stdout)

    def test_nothing_else_changes(self):
        """Traces of every release, whose images are not here: all but names stays."""
        for path in sorted(TRACES.glob("*/allscen_sys.tracy")):
            with self.subTest(path=path.parent.name):
                out = self.dir / "out.tracy"
                self.assertEqual(run("symbols", path, "-o", out).returncode, 0)
                args = ("--only", "memory,zones,messages,plots,locks")
                self.assertEqual(run("dump", path, *args).stdout, run("dump", out, *args).stdout)


class TestCapture(SymbolCase):
    def test_server(self):
        result, trace = self.record("--symbols", "server", "--debug-dir", self.debug)
        self.assertIn("0 by the client", result.stdout)
        self.assert_named(trace)

    def test_server_of_a_container(self):
        """What the client sees as its files is looked at, not what has these names here."""
        if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0:
            self.skipTest("no mount namespace can be made here")
        box = self.dir / "box"
        box.mkdir()
        script = ('mount -t tmpfs none "$1" && mkdir "$1/bin" && cp "$2" "$1/bin/shop" && '
                  'ln -s "$1/bin" "$1/run" && exec "$1/run/shop" "$3"')
        result, trace = self.record("--symbols", "server", strip=False,
                                    wrapper=["unshare", "-rm", "sh", "-c", script, "sh", box])
        self.assertEqual(list(box.iterdir()), [])
        self.assertIn("0 by the client", result.stdout)
        self.assert_named(trace)

    def test_server_elsewhere(self):
        """A client behind a tunnel is asked after all: the tunnel's modules are not its own."""
        result, trace = self.record("--symbols", "server", relay=True, program=NAMED)
        self.assertIn("asked for names after all", result.stderr)
        self.assertIn("shop_order", self.functions(trace))

    def test_both(self):
        result, trace = self.record("--symbols", "both", "--debug-dir", self.debug, program=NAMED)
        self.assertRegex(result.stdout, r"[1-9][0-9]* by the client")
        self.assert_named(trace)

    def test_client(self):
        result, trace = self.record("--symbols", "client", mode="offline")
        self.assertNotIn("Finding names", result.stdout)
        self.assertIn("(0 of ", run("info", trace).stdout)

    def test_offline_client_is_detected(self):
        result, trace = self.record("--debug-dir", self.debug, mode="offline")
        self.assertIn("built to resolve later", result.stdout)
        self.assert_named(trace)

    @unittest.skipIf(SANITIZED, "the client's site is the sanitizer's backtrace, which has lines")
    def test_how_a_server_is_asked(self):
        for mode in ("offline", "names"):
            result, trace = self.record(mode=mode)
            self.assertRegex(result.stdout, r"\nno source lines for .*, at functions of shop.*\n")
            advice = f"functions of shop (build id {self.build_id})\ndebug symbols from a debuginfod " \
                     f"server: tidemark symbols {trace} -o OUT --debuginfod URL\n"
            result = run("report", trace, "--resolve", "--debug-dir", self.debug)
            self.assertNotIn("debuginfod", result.stdout)
            (self.dir / "shop").unlink()
            result = run("report", trace)
            self.assertTrue(result.stdout.endswith(advice), result.stdout)
        result, trace = self.record("--debug-dir", self.debug, mode="offline")
        self.assertNotIn("debuginfod", result.stdout)
        result, trace = self.record(relay=True)
        self.assertNotIn("debuginfod", result.stdout)

    def test_bad_value(self):
        result = run("capture", "-o", self.dir / "x", "--symbols", "nobody")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--symbols is client, server or both", result.stderr)


class TestCommands(SymbolCase):
    def test_report_resolves(self):
        _, trace = self.record("--symbols", "client")
        before = trace.read_bytes()
        self.assertFalse(set(STACK[:5]) & self.functions(trace))
        self.assert_named(trace, "--resolve", "--debug-dir", self.debug)
        self.assertEqual(trace.read_bytes(), before)
        for command in (("tree",), ("timeline", "--match", "shop_take")):
            result = run(*command[:1], trace, *command[1:], "--resolve", "--debug-dir", self.debug)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stderr, r"[0-9]+ named of [0-9]+ frames")
        self.assertIn("hidden_shelf", run("tree", trace, "--resolve", "--debug-dir",
                                          self.debug, "--min-share", 0).stdout)

    def test_update_without_addr2line(self):
        _, trace = self.record("--symbols", "client", mode="offline", relay=True, strip=False)
        official, own = self.dir / "a.tracy", self.dir / "b.tracy"
        self.assertEqual(run("update", "-r", trace, official).returncode, 0)
        nothing = dict(os.environ, PATH=str(self.dir))
        result = run("update", "-r", trace, own, env=nothing)
        self.assertEqual(result.returncode, 0)
        self.assertIn("there is no addr2line here", result.stderr)
        theirs, ours = ({(f["address"], f["file"], f["line"]) for row in json.loads(
            run("report", path, "--by", "callstack", "--format", "json").stdout)["groups"]
            for f in row["callstack"] if f["image"] == str(self.dir / "shop")}
            for path in (official, own))
        self.assertTrue(theirs)
        self.assertEqual(ours, theirs)
        self.assertIn("hidden_shelf", self.functions(own))

    def test_output_rules(self):
        # Without what is behind a trace, half of the file is half of the trace.
        _, trace = self.record("--symbols", "client", "--no-resident")
        original = trace.read_bytes()
        self.assertEqual(run("symbols", trace, "--debug-dir", self.debug).returncode, 0)
        self.assertEqual(trace.read_bytes(), original)
        # In place, and through pipes: then the summary goes to standard error.
        piped = subprocess.run([TIDEMARK, "symbols", "-", "-o", "/dev/stdout", "--debug-dir",
                                self.debug], input=original, capture_output=True)
        self.assertEqual(piped.returncode, 0, piped.stderr)
        self.assertIn(b"named", piped.stderr)
        (self.dir / "piped.tracy").write_bytes(piped.stdout)
        self.assert_named(self.dir / "piped.tracy")
        self.assertEqual(run("symbols", trace, "-o", trace, "--debug-dir",
                             self.debug).returncode, 0)
        self.assert_named(trace)
        (self.dir / "bad.tracy").write_bytes(original[:len(original) // 2])
        result = run("symbols", self.dir / "bad.tracy", "-o", self.dir / "new.tracy")
        self.assertEqual(result.returncode, 3)
        self.assertFalse((self.dir / "new.tracy").exists())
        self.assertEqual(run("symbols", trace, "-o", self.dir / "no" / "x").returncode, 4)

    def test_bad_modules_file(self):
        (self.dir / "bad").write_text("7f00-7f10 zz - /x\n")
        result = run("symbols", next(TRACES.rglob("memscen.tracy")), "--modules", self.dir / "bad")
        self.assertEqual(result.returncode, 3)
        self.assertIn("bad: line 1: no mapping", result.stderr)

    def test_usage(self):
        for args in ([], ["a", "b"], ["x", "--base", "nonsense"], ["x", "--format", "xml"],
                     ["x", "--substitute", "no semicolon"]):
            result = run("symbols", *args)
            self.assertEqual(result.returncode, 2, args)
            self.assertTrue(result.stderr)

    def test_modules(self):
        result = run("modules", os.getpid())
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"(?m)^[0-9a-f]+-[0-9a-f]+ [0-9a-f]+ [0-9a-f-]+ /.*python")
        out = self.dir / "m"
        self.assertEqual(run("modules", os.getpid(), "-o", out).returncode, 0)
        self.assertEqual(run("modules", os.getpid(), "-o", out).returncode, 4)
        self.assertEqual(run("modules", os.getpid(), "-o", out, "-f").returncode, 0)
        self.assertEqual(run("modules", 2 ** 30).returncode, 3)
        self.assertEqual(run("modules").returncode, 2)
        self.assertEqual(run("modules", "x").returncode, 2)


class TestSymbolize(SymbolCase):
    def addresses(self, image, name):
        text = subprocess.run(["nm", "-S", image], capture_output=True, text=True).stdout
        start, size = re.search(rf"^(\w+) (\w+) . {name}$", text, re.M).groups()
        return [hex(int(start, 16) + i) for i in range(0, int(size, 16), 3)]

    def test_as_llvm_symbolizer(self):
        llvm = shutil.which("llvm-symbolizer")
        if not llvm:
            self.skipTest("no llvm-symbolizer")
        image = self.client(strip=False)
        asked = [a for f in ("shop_order", "hidden_shelf", "shop_restock", "main")
                 for a in self.addresses(image, f)]
        theirs = subprocess.run([llvm, "-e", image, *asked], capture_output=True, text=True).stdout
        ours = json.loads(run("symbolize", image, *asked, "--format", "json").stdout)
        self.assertEqual(ours["schema"], "tidemark.symbolize/1")
        text = "\n\n".join("\n".join(f"{f['function']}\n{f['file'] or '??'}:{f['line']}:"
                                      f"{f['column']}" for f in a["frames"])
                           for a in ours["addresses"])
        self.assertEqual(text.strip(), theirs.strip())

    def test_text(self):
        image = self.client(strip=False)
        calls = [a for a in self.addresses(image, "shop_order")]
        whole = run("symbolize", image, "-a", "-s", *calls)
        self.assertEqual(whole.returncode, 0)
        self.assertIn(f"shop_take\nstack_client.c:{line_of('take')}\nshop_pack\nstack_client.c:"
                      f"{line_of('pack')}\nshop_order\nstack_client.c:{line_of('order')}\n",
                      whole.stdout)
        pretty = run("symbolize", "-e", image, "-psi", *calls).stdout
        self.assertIn(f"shop_take at stack_client.c:{line_of('take')}\n (inlined by) shop_pack at "
                      f"stack_client.c:{line_of('pack')}\n", pretty)
        outer = run("symbolize", image, "--no-inlines", "-s", *calls).stdout
        self.assertIn(f"shop_order\nstack_client.c:{line_of('take')}\n", outer)
        self.assertNotIn("shop_pack", outer)
        piped = subprocess.run([TIDEMARK, "symbolize", image, "-as"], text=True,
                               input="\n".join(calls) + "\n\n", capture_output=True)
        self.assertEqual(piped.stdout, whole.stdout)
        based = run("symbolize", image, "-s", "--base", "7f0000000000",
                    *[hex(int(a, 16) + 0x7f0000000000) for a in calls])
        self.assertEqual(based.stdout, run("symbolize", image, "-s", *calls).stdout)

    def test_unknown(self):
        image = self.client()
        result = run("symbolize", image, "0xffffffff0000")
        self.assertEqual((result.returncode, result.stdout), (0, "??\n??:0\n"))
        inside = self.addresses(CLIENT, "hidden_shelf")[0]
        self.assertEqual(run("symbolize", image, inside).stdout, f"shop+{inside}\n??:0\n")
        found = run("symbolize", image, inside, "--debug-dir", self.debug)
        self.assertTrue(found.stdout.startswith("hidden_shelf\n"))

    def test_errors(self):
        self.assertEqual(run("symbolize").returncode, 2)
        self.assertEqual(run("symbolize", "x", "zz").returncode, 2)
        self.assertEqual(run("symbolize", self.dir / "none", "12").returncode, 3)
        (self.dir / "text").write_text("no image")
        self.assertEqual(run("symbolize", self.dir / "text", "12").returncode, 3)
        self.assertEqual(run("symbolize", self.dir, "12").returncode, 3)


if __name__ == "__main__":
    unittest.main()
