"""`tidemark push`: rows of traces as Parquet files by day, and in ClickHouse: a stand-in that notes
what comes, and Debian's own server where it is installed (`make deps-test-full`)."""

import base64
import contextlib
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.parse
import urllib.request

from exported import export, unescape
from parquetfile import ParquetFile
from test_export_consumers import CONSUMERS, needs
from tools import LIMIT, ROOT, TIDEMARK, TRACES, Case, free_port, report, run, wait_until

MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
ALLSCEN = TRACES / "v0.11.1" / "allscen.tracy"
FLEET = ROOT / "examples" / "fleet"
USUAL = {"traces", "labels", "site_totals", "facts", "threads", "pools", "pool_usage", "allocations",
         "callstack_totals", "sites", "callstacks", "callstack_frames", "frames", "frame_functions"}
CLICKHOUSE = shutil.which("clickhouse-server", path=os.environ["PATH"] + ":/usr/sbin")


def manual_query(first):
    """A query of the manual, by how it begins."""
    page = (ROOT / "man" / "tidemark-push.1").read_text()
    return next(q for q in re.findall(r"^\.Bd.*?\n(.*?)^\.Ed", page, re.M | re.S)
                if q.startswith(first))


def make_fleet(sink, traces):
    subprocess.run([sys.executable, FLEET / "make_fleet.py", TIDEMARK, sink, str(traces)],
                   check=True, timeout=LIMIT)


def check_answers(case, highest, leaks):
    """What make_fleet.py planted, in the answers of two of its questions."""
    case.assertEqual({row[0] for row in highest[:7]}, {f"build-{n}" for n in range(13, 20)})
    case.assertEqual({int(row[3]) for row in highest}, {3})
    case.assertEqual(leaks[0][:2], ["build_mesh (mesh.cpp:77)", "l40"])
    case.assertGreater(int(leaks[0][2]), 4 * int(leaks[0][3]))


def rows_of(folder, table):
    found = []
    for path in sorted((folder / table).glob("day=*/*.parquet")):
        found += ParquetFile(path).table()
    return found


class Files(Case):
    def push(self, *args):
        return run("push", "--sink", f"files={self.dir / 'fleet'}", *args)

    def test_rows_are_those_of_export(self):
        result = self.push("--label", "build=7", "--label", "host=a b", MEMSCEN, ALLSCEN)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        ids = dict(re.findall(r"(\w+)\.tracy: [\d,]+ rows as (\w{32})\n", result.stdout))
        self.assertEqual(set(ids), {"memscen", "allscen"})
        fleet = self.dir / "fleet"
        self.assertEqual({p.name for p in fleet.iterdir()}, USUAL)
        for trace in (MEMSCEN, ALLSCEN):
            single = export(trace, "parquet", self.dir / trace.stem)
            for table in USUAL - {"traces", "labels", "site_totals"}:
                wanted = ParquetFile(single / f"{table}.parquet").table()
                got = [r for r in rows_of(fleet, table) if r["trace"] == ids[trace.stem]]
                self.assertEqual([r.pop("row") for r in got], list(range(1, len(got) + 1)))
                for row in got:
                    del row["trace"]
                self.assertEqual(got, wanted, table)
        labels = [(r["trace"], r["name"], r["value"]) for r in rows_of(fleet, "labels")]
        self.assertCountEqual(labels, [(i, *label) for i in ids.values()
                                       for label in (("build", "7"), ("host", "a b"))])

    def test_sites(self):
        """Their figures are those of the report, site by site."""
        self.assertEqual(self.push(MEMSCEN).returncode, 0)
        got = {(r["pool"], r["function"], r["file"], r["line"], r["image"]):
               [r[k] for k in ("allocations", "total_bytes", "live_allocations", "live_bytes",
                               "at_peak_bytes", "temporary_allocations")]
               for r in rows_of(self.dir / "fleet", "site_totals")}
        wanted = {(s["pool"], s["function"], s["file"], s["line"], s["image"]):
                  [s[k] for k in ("count", "bytes", "live_count", "live_bytes", "at_peak_bytes",
                                  "temporary")] for s in report(MEMSCEN)["sites"]}
        self.assertEqual(got, wanted)

    def test_traces(self):
        said = report(MEMSCEN)["trace"]
        self.assertEqual(self.push(MEMSCEN).returncode, 0)
        row, = rows_of(self.dir / "fleet", "traces")
        self.assertEqual((row["schema"], row["file"], row["file_bytes"], row["file_version"],
                          row["program"], row["duration_ns"], bool(row["complete"])),
                         ("tidemark.fleet/1", "memscen.tracy", MEMSCEN.stat().st_size,
                          said["file_version"], said["program"], said["duration_ns"],
                          said["complete"]))
        day, = (self.dir / "fleet" / "traces").iterdir()
        self.assertEqual(day.name, "day=" + said["captured_at"][:10])

    def test_what_is_there_is_passed_over(self):
        copy = self.dir / "copy.tracy"
        copy.write_bytes(MEMSCEN.read_bytes())
        self.assertIn(" rows as ", self.push(MEMSCEN).stdout)
        before = {p: p.stat().st_mtime_ns for p in self.dir.rglob("*.parquet")}
        self.assertIn("there already", self.push(copy).stdout)
        self.assertEqual(before, {p: p.stat().st_mtime_ns for p in self.dir.rglob("*.parquet")})
        told = json.loads(self.push("--again", "--format", "json", copy).stdout)
        self.assertEqual((told["schema"], told["traces"][0]["was_there"]), ("tidemark.push/1", False))
        self.assertGreater(told["traces"][0]["rows"], 1000)
        self.assertEqual(set(before), set(self.dir.rglob("*.parquet")))
        # Without its row in `traces` it is not whole.
        for path in (self.dir / "fleet" / "traces").rglob("*.parquet"):
            path.unlink()
        self.assertIn(" rows as ", self.push(copy).stdout)
        self.assertEqual(set(before), set(self.dir.rglob("*.parquet")))

    def test_selection_and_tables(self):
        self.assertEqual(self.push("--pool", "arena", "--table", "allocations", "--points", "0",
                                   MEMSCEN).returncode, 0)
        fleet = self.dir / "fleet"
        self.assertEqual({p.name for p in fleet.iterdir()}, {"traces", "allocations"})
        pools = {p["name"]: p["allocations"] for p in report(MEMSCEN)["pools"]}
        self.assertEqual(len(rows_of(fleet, "allocations")), pools["arena"])

    def test_a_bad_trace_does_not_keep_others_back(self):
        bad = self.dir / "bad.tracy"
        bad.write_bytes(MEMSCEN.read_bytes()[:20000])
        result = self.push(bad, ALLSCEN, self.dir / "none.tracy")
        self.assertEqual(result.returncode, 3)
        self.assertEqual(len(result.stderr.splitlines()), 2, result.stderr)
        self.assertIn("allscen.tracy: ", result.stdout)
        self.assertNotIn("bad.tracy", result.stdout)
        self.assertEqual(len(rows_of(self.dir / "fleet", "traces")), 1)
        self.assertEqual({r["trace"] for r in rows_of(self.dir / "fleet", "allocations")},
                         {r["trace"] for r in rows_of(self.dir / "fleet", "traces")})

    def test_a_folder_that_cannot_be_made(self):
        """Nothing of the trace appears when a table has no place."""
        (self.dir / "fleet").mkdir()
        (self.dir / "fleet" / "traces").write_text("mine")
        result = self.push(MEMSCEN)
        self.assertEqual(result.returncode, 4)
        self.assertIn("fleet/traces/day=", result.stderr)
        self.assertEqual(list(self.dir.rglob("*.parquet")), [])
        self.assertEqual(result.stdout, "")

    def test_a_place_that_is_no_folder(self):
        result = run("push", "--sink", "files=/dev/null/x", MEMSCEN)
        self.assertEqual(result.returncode, 4)
        self.assertIn("/dev/null/x", result.stderr)

    def test_usage(self):
        for args, words in (((), "which --sink"), (("--sink", "files="), "--sink is"),
                            (("--sink", "ftp=x", "a"), "--sink is"),
                            (("--sink", "files=a", "--sink", "files=b", "c"), "once"),
                            (("--sink", "files=a"), "which trace"),
                            (("--sink", "files=a", "--table", "x", "b"), "site_totals"),
                            (("--sink", "files=a", "--label", "=x", "b"), "NAME=VALUE"),
                            (("--sink", "clickhouse=nothing", "a"), "no address"),
                            (("--sink", "clickhouse=file://localhost/etc", "a"), "no address"),
                            (("--sink", "clickhouse=http://127.0.0.1:1/a;b", "a"), "no name"),
                            (("--definitions", "x"), "no trace")):
            result = run("push", *args, cwd=self.dir)
            self.assertEqual(result.returncode, 2, (args, result.stderr))
            self.assertIn(words, result.stderr)
        self.assert_clean()

    @needs("@duckdb/node-api")
    def test_duckdb_tells_the_build(self):
        make_fleet(f"files={self.dir / 'fleet'}", 60)
        queries = [(FLEET / f"{name}.duckdb.sql").read_text()
                   for name in ("which_build", "highest_peaks", "leaks_of_hosts")]
        queries.append(manual_query("SELECT l.value"))
        result = subprocess.run(["node", CONSUMERS / "duckdb.mjs"], input=json.dumps(queries),
                                stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT,
                                cwd=self.dir / "fleet")
        raised, highest, leaks, peaks = json.loads(result.stdout)
        check_answers(self, highest, leaks)
        self.assertEqual(raised[0][:2], ["build-13", "decode_texture (texture.cpp:120)"])
        self.assertEqual({row[0] for row in peaks[:7]}, {f"build-{n}" for n in range(13, 20)})


class StandIn(http.server.BaseHTTPRequestHandler):
    """Notes each statement with its rows; refuses what `refuses` matches."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).get("query", [""])[0]
        server = self.server
        server.said.append((query, body, self.headers.get("Authorization")))
        refused = server.refuses and re.search(server.refuses, query + body)
        answer = b"Code: 60, e.displayText() = DB::Exception: \x1b[31mno\nmore" if refused else b""
        if "count()" in body and not refused:
            answer = server.count + b"\n"
        self.send_response(500 if refused else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def stand_in(case, handler=StandIn):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.said, server.refuses, server.count = [], None, b"0"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    case.addCleanup(thread.join)
    case.addCleanup(server.server_close)
    case.addCleanup(server.shutdown)
    return server


class Statements(Case):
    def setUp(self):
        super().setUp()
        self.server = stand_in(self)

    def push(self, *args, **kwargs):
        return run("push", "--sink", f"clickhouse=http://127.0.0.1:{self.server.server_port}/fleet",
                   *args, **kwargs)

    def inserts(self):
        return [(re.match(r"INSERT INTO fleet\.(\w+) \(day, trace, row, ", query)[1], body)
                for query, body, _ in self.server.said if query]

    def test_statements(self):
        result = self.push("--label", "odd=a\tb\\c\nd", MEMSCEN, ALLSCEN)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        made = [body for query, body, _ in self.server.said if not query]
        self.assertEqual(made[0], "CREATE DATABASE IF NOT EXISTS fleet")
        tables = USUAL | {"callstack_resident"} # without rows: the traces have no look
        self.assertEqual({re.match(r"CREATE TABLE IF NOT EXISTS fleet\.(\w+)", m)[1]
                          for m in made[1:1 + len(tables)]}, tables)
        inserts = self.inserts()
        self.assertEqual(inserts[-1][0], "traces")
        self.assertEqual(len(inserts), len(USUAL))  # both traces at once
        rows = dict(inserts)
        self.assertEqual(len(rows["traces"].splitlines()), 2)
        cells = rows["labels"].split("\n")[0].split("\t")
        self.assertEqual([unescape(c) for c in cells[3:]], ["odd", "a\tb\\c\nd"])

    def test_definitions_are_those_that_are_sent(self):
        shown = run("push", "--definitions").stdout
        self.assertEqual(self.push(MEMSCEN).returncode, 0)
        sent = [body for query, body, _ in self.server.said if body.startswith("CREATE")]
        self.assertEqual(shown.replace("tidemark.", "fleet.").replace("EXISTS tidemark", "EXISTS fleet"),
                         "".join(s + ";\n" for s in sent))
        self.server.said.clear()
        self.assertEqual(self.push("--no-create", MEMSCEN).returncode, 0)
        self.assertFalse([body for _, body, _ in self.server.said if body.startswith("CREATE")])

    def test_what_is_there_is_passed_over(self):
        self.server.count = b"1"
        self.assertIn("there already", self.push(MEMSCEN).stdout)
        self.assertEqual(self.inserts(), [])

    def test_who_asks(self):
        self.push(MEMSCEN, env={**os.environ, "CLICKHOUSE_USER": "me", "CLICKHOUSE_PASSWORD": "p:w"})
        self.assertEqual({told for _, _, told in self.server.said},
                         {"Basic " + base64.b64encode(b"me:p:w").decode()})

    def test_a_refusal(self):
        """Its first line is told, with nothing that a terminal would obey."""
        for refuses in ("CREATE DATABASE", "INSERT INTO fleet.sites", "count"):
            self.server.refuses = refuses
            self.server.said.clear()
            result = self.push(MEMSCEN)
            self.assertEqual(result.returncode, 4)
            self.assertIn("(500): Code: 60", result.stderr)
            self.assertNotIn("\x1b", result.stderr)
            self.assertNotIn("more", result.stderr)
            self.assertEqual(result.stdout, "")
            self.assertNotIn("traces", [table for table, _ in self.inserts()])

    def test_a_bad_trace(self):
        """None of its rows goes along with the others'."""
        bad = self.dir / "bad.tracy"
        bad.write_bytes(MEMSCEN.read_bytes()[:20000])
        result = self.push(ALLSCEN, bad, MEMSCEN)
        self.assertEqual(result.returncode, 3)
        rows = dict(self.inserts())
        ids = {line.split("\t")[1] for line in rows["traces"].splitlines()}
        self.assertEqual(len(ids), 2)
        for table, body in rows.items():
            self.assertEqual({line.split("\t")[1] for line in body.splitlines()} - ids, set(), table)

    def test_nobody_there(self):
        result = run("push", "--sink", f"clickhouse=http://127.0.0.1:{free_port()}", MEMSCEN)
        self.assertEqual(result.returncode, 5)


class Cutting(http.server.BaseHTTPRequestHandler):
    """Passes statements on to a server. At one of the INSERTs it kills the client, and passes on as
    much of the rows as had come until then."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        server.inserts += "query=INSERT" in self.path
        cut = server.cut is not None and server.inserts == server.at
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.onward,
                                                           timeout=LIMIT)) as onward:
            onward.putrequest("POST", self.path)
            onward.putheader("Content-Length", str(len(body)))
            onward.endheaders(body[:server.cut(len(body))] if cut else body)
            if cut:
                server.client.kill()
                onward.sock.shutdown(socket.SHUT_WR)
                with contextlib.suppress(OSError, http.client.HTTPException):
                    onward.getresponse().read()
                return
            answer = onward.getresponse()
            text = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@unittest.skipUnless(CLICKHOUSE, "no clickhouse-server: make deps-test-full")
class ClickHouse(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        case = Case()
        case.setUp()
        stack.callback(case.doCleanups)
        cls.dir = case.dir
        cls.url = f"http://127.0.0.1:{cls.start(stack)}"

    @classmethod
    def start(cls, stack):
        port, native = free_port(), free_port()
        (cls.dir / "config.xml").write_text(f"""<yandex>
            <logger><level>warning</level><console>1</console></logger>
            <http_port>{port}</http_port><tcp_port>{native}</tcp_port>
            <listen_host>127.0.0.1</listen_host><path>{cls.dir}/data/</path>
            <tmp_path>{cls.dir}/data/tmp/</tmp_path><users_config>users.xml</users_config>
            <default_profile>default</default_profile><default_database>default</default_database>
            <mark_cache_size>5368709</mark_cache_size></yandex>""")
        (cls.dir / "users.xml").write_text("""<yandex><profiles><default/></profiles>
            <users><default><password/><networks><ip>127.0.0.1</ip></networks>
            <profile>default</profile><quota>default</quota></default></users>
            <quotas><default/></quotas></yandex>""")
        log = stack.enter_context(open(cls.dir / "log", "w+"))
        server = cls.server = subprocess.Popen([CLICKHOUSE, f"--config-file={cls.dir}/config.xml"], stdout=log,
                                  stderr=log, cwd=cls.dir)
        stack.callback(server.wait)
        stack.callback(server.kill)

        def answers():
            if server.poll() is not None:
                raise AssertionError((cls.dir / "log").read_text())
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=LIMIT) as answer:
                    return answer.read() == b"Ok.\n"
            return False

        wait_until(answers, "the server does not answer")
        return port

    def ask(self, query, database="tidemark"):
        request = urllib.request.Request(f"{self.url}/?database={database}", query.encode())
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as answer:
                return [line.split("\t") for line in answer.read().decode().splitlines()]
        except urllib.error.HTTPError as refused:
            raise AssertionError(refused.read().decode()) from None

    def push(self, *args, database="tidemark"):
        result = run("push", "--sink", f"clickhouse={self.url}/{database}", *args)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_totals(self):
        traces = [TRACES / release / "memscen.tracy" for release in ("v0.9.1", "v0.12.2", "v0.14.0")]
        self.push(*traces)
        self.push("--again", *traces)  # the same rows: they are there once
        wanted = sorted([p["name"], *(str(p[k]) for k in ("allocations", "total_bytes",
                                                          "live_bytes", "peak_bytes"))]
                        for trace in traces for p in report(trace)["pools"])
        self.assertEqual(sorted(self.ask("SELECT name, allocations, total_bytes, live_bytes, "
                                         "peak_bytes FROM pools FINAL")), wanted)
        sums = sorted(self.ask("""
            SELECT name, toString(count()), toString(sum(size)) FROM
            (SELECT trace, pool AS id, size FROM allocations FINAL)
            ANY INNER JOIN (SELECT trace, id, name FROM pools FINAL) USING trace, id
            GROUP BY trace, name"""))
        self.assertEqual(sums, sorted(w[:3] for w in wanted))

    def test_kills(self):
        """Killed at each insertion, before, within and after its rows: the next push completes the
        tables, and each row is there once."""
        tables = ("labels", "pools", "sites", "traces")
        words = ["--table", "pools", "--table", "sites", "--label", "a=b", ALLSCEN, MEMSCEN]
        self.push(*words, database="once")

        def contents(database):
            return {table: self.ask(f"SELECT * FROM {table} FINAL ORDER BY trace, row", database)
                    for table in tables}

        once = contents("once")
        self.assertTrue(all(once.values()))
        server = stand_in(self, Cutting)
        server.onward = int(self.url.rpartition(":")[2])
        cuts = (lambda n: 0, lambda n: n // 2, lambda n: n - 2, lambda n: n)
        for at in range(1, len(tables) + 1):
            for number, server.cut in enumerate(cuts):
                server.at, server.inserts, database = at, 0, f"killed_{at}_{number}"
                sink = f"clickhouse=http://127.0.0.1:{server.server_port}/{database}"
                server.client = subprocess.Popen([TIDEMARK, "push", "--sink", sink, *words],
                                                 stdout=subprocess.DEVNULL)
                self.assertEqual(server.client.wait(LIMIT), -signal.SIGKILL)
                self.push(*words, database=database)
                self.assertEqual(contents(database), once, (tables[at - 1], number))

    def test_every_table(self):
        """All columns of all tables have names and values that the engine takes."""
        shown = run("push", "--definitions", *(f"--table={t}" for t in self.all_tables())).stdout
        tables = re.findall(r"EXISTS tidemark\.(\w+)", shown)
        trace = TRACES / "v0.14.0" / "allscen.tracy"
        self.push(*(f"--table={t}" for t in tables), trace, database="every")
        folder = export(trace, "tsv", self.dir / "every")
        for table in set(tables) - {"traces", "labels", "site_totals"}:
            lines = len((folder / f"{table}.tsv").read_text().split("\n")) - 2
            self.assertEqual(self.ask(f"SELECT count() FROM {table} FINAL", "every"), [[str(lines)]])

    def all_tables(self):
        names = run("push", "--sink", "files=x", "--table", "?", "y").stderr
        return re.search(r"--table is ([\w, ]+), not", names)[1].split(", ")

    def test_texts(self):
        """Whatever a program calls things comes back as it was."""
        odd = self.dir / "odd.json"
        names = ["a\tb", "c\\d", "e\nf", "g\x01h", "<script>'\"", "\u00e4\u20ac", "\\N"]
        odd.write_text(json.dumps([{"ph": "i", "ts": i, "tid": 1, "name": name}
                                   for i, name in enumerate(names)]))
        run("import", "-f", odd, self.dir / "odd.tracy")
        self.push("--table", "messages", self.dir / "odd.tracy", database="odd")
        got = self.ask("SELECT text FROM messages FINAL ORDER BY id", "odd")
        self.assertEqual([unescape(row[0].replace("\\'", "'")) for row in got],
                         [json.loads(json.dumps(n)) for n in names])

    def test_the_build_that_raised_the_peak(self):
        make_fleet(f"clickhouse={self.url}/fleet", 60)
        answer = self.ask((FLEET / "which_build.clickhouse.sql").read_text(), "fleet")
        self.assertEqual(answer[0][:2], ["build-13", "decode_texture (texture.cpp:120)"])
        check_answers(self, *(self.ask((FLEET / f"{name}.clickhouse.sql").read_text(), "fleet")
                              for name in ("highest_peaks", "leaks_of_hosts")))
        peaks = self.ask(manual_query("SELECT build").replace("tidemark.", "fleet."), "fleet")
        self.assertEqual({row[0] for row in peaks[:7]}, {f"build-{n}" for n in range(13, 20)})

    def test_retention(self):
        """The statements of docs/fleet.md drop what they say, with the labels last."""
        old, kept = (TRACES / release / "memscen.tracy" for release in ("v0.9.1", "v0.14.0"))
        self.push("--label", "branch=try", old, database="keep")
        self.push("--label", "branch=main", kept, database="keep")
        guide = (ROOT / "docs" / "fleet.md").read_text()
        statement = re.search(r"^ALTER TABLE tidemark\.pools DELETE.*?;", guide, re.M | re.S)[0]
        statement = statement.replace("tidemark.", "keep.").replace("today() - 30", "today() + 1")
        for table in ("pools", "labels"):
            self.ask(statement.rstrip(";").replace("keep.pools", f"keep.{table}"), "keep")
            wait_until(lambda: self.ask("SELECT count() FROM system.mutations WHERE NOT is_done "
                                        "AND database = 'keep'", "keep") == [["0"]],
                       "it goes on")
        self.assertEqual(self.ask("SELECT value FROM labels FINAL", "keep"), [["main"]])
        self.assertEqual(len(self.ask("SELECT DISTINCT trace FROM pools", "keep")), 1)
