#!/usr/bin/env python3
"""How much of real programs' memory is under a name that its owner would recognise.

    /usr/bin/python3 bench/names.py [--old BUILD] [PROGRAM...]

Of the bytes that are live at the peak, the share in rows of the default report whose site is such a
name: that of a function which is no allocation wrapper, nor `main`, nor a thread's start (the lists are
in test/site_stacks.py; they come from the programs' sources). For Python it is a line of a .py file.
`old`: an older build of Tidemark, in that folder. `heaptrack`: the innermost functions of heaptrack's
flame graph of the peak, where it is installed.

The programs should be stripped and without debug symbols, as Debian installs them (the server is compiled here and
keeps its symbols); node and java run with the options that
`tidemark run` suggests. Those that are not here are left out."""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test"))

import site_stacks  # noqa: E402

BUILD = ROOT / os.environ.get("BUILD", "build")
POSTGRES = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"))[-1:]
WAIT = 30  # seconds

ROWS = ("create table t(a integer primary key, b text);"
        "with recursive c(x) as (select 1 union all select x+1 from c where x<50000)"
        " insert into t select x, hex(randomblob(40)) from c; create index i on t(b);"
        "select count(distinct b) from t;")
TABLES = "\n".join(
    f"create table t{i} (a int primary key, b text);"
    f" insert into t{i} select x, md5(x::text) from generate_series(1, 20000) x;"
    f" select count(*), max(b) from (select b from t{i} group by b order by b desc) g;"
    for i in range(4)) + "\n"
NUMPY = """
import collections, json, numpy
table = {}
def fill(n):
    for i in range(n):
        table[i] = [numpy.arange(200) * i, {"number": i, "text": "x" * 600}]
def solve(n):
    a = numpy.random.default_rng(1).random((n, n))
    return numpy.linalg.solve(a @ a.T + numpy.eye(n), a)
fill(20000)
print(solve(300).sum(), len(json.dumps([v[1] for v in table.values()])))
"""
CXX = """
#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <vector>
int main() {
    std::map<std::string, std::vector<int>> m;
    std::regex r("a(b+)c");
    std::string s;
    while (std::cin >> s) if (std::regex_match(s, r)) m[s].push_back((int)s.size());
    for (auto &[k, v] : m) { std::sort(v.begin(), v.end()); std::cout << k << v.size(); }
}
"""
NGINX = """
daemon off; master_process off; pid {0}/nginx.pid; error_log {0}/error.log;
events {{ worker_connections 256; }}
http {{ access_log off; client_body_temp_path {0}/body; proxy_temp_path {0}/proxy;
  fastcgi_temp_path {0}/fastcgi; uwsgi_temp_path {0}/uwsgi; scgi_temp_path {0}/scgi;
  gzip on; gzip_min_length 1; gzip_types *;
  server {{ listen unix:{0}/nginx.sock; root {0}/www; }} }}
"""


SERVER = r"""
use std::{collections::HashMap, io::*, net::*, sync::*, thread};
type Store = Mutex<HashMap<String, Vec<u8>>>;
#[inline(never)]
fn put(store: &Store, key: &str, body: Vec<u8>) { store.lock().unwrap().insert(key.to_string(), body); }
#[inline(never)]
fn read_body(from: &mut BufReader<TcpStream>, size: usize) -> Vec<u8> {
    let mut body = vec![0; size];
    from.read_exact(&mut body).unwrap();
    body
}
fn serve(store: Arc<Store>, mut to: TcpStream) {
    let mut from = BufReader::new(to.try_clone().unwrap());
    loop {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if words.len() < 2 { std::process::exit(0) }
        let body = read_body(&mut from, words[1].parse().unwrap());
        put(&store, &words[0], body);
        to.write_all(b"stored\n").unwrap();
    }
}
fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, store) = (listener.local_addr().unwrap(), Arc::new(Store::default()));
    thread::spawn(move || {
        let (mut to, mut answer) = (TcpStream::connect(address).unwrap(), [0; 7]);
        for i in 0..5000 {
            let size = 200 + i % 300;
            to.write_all(format!("key{i} {size}\n{}", "x".repeat(size)).as_bytes()).unwrap();
            to.read_exact(&mut answer).unwrap();
        }
        to.write_all(b"\n").unwrap();
    });
    for client in listener.incoming() {
        let store = store.clone();
        thread::spawn(move || serve(store, client.unwrap()));
    }
}
"""


class Program:
    """`command` to record; `up`: a file that shows that it is ready, then `load` runs and ends it."""

    def __init__(self, name, command, up=None, load=None, stdin=None, user=None, python=False):
        self.name, self.command, self.up, self.load = name, [str(a) for a in command], up, load
        self.stdin, self.user, self.python = stdin, user, python


def load_redis(folder):
    socket = folder / "redis.sock"
    commands = "".join(f"SET key:{i} {'v' * 200}\nHSET h:{i % 500} f{i} {i}\nZADD z {i} m{i}\n"
                       f"RPUSH l:{i % 100} {i}\n" for i in range(20000))
    subprocess.run(["redis-cli", "-s", socket, "--pipe"], input=commands, text=True, check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["redis-cli", "-s", socket, "shutdown", "nosave"], check=True)


def load_nginx(folder):
    url = ["curl", "-s", "--compressed", "--unix-socket", folder / "nginx.sock", "-o", "/dev/null"]
    for _ in range(30):
        clients = [subprocess.Popen(url + [f"http://x/page{i}.html"]) for i in range(8)]
        for client in clients:
            client.wait()
    subprocess.run(["kill", "-QUIT", (folder / "nginx.pid").read_text().strip()], check=True)


def prepared_nginx(folder):
    (folder / "www").mkdir()
    for i in range(8):
        (folder / "www" / f"page{i}.html").write_text("".join(f"<p>{n * i}</p>\n" for n in range(40000)))
    (folder / "nginx.conf").write_text(NGINX.format(folder))
    return Program("nginx", ["nginx", "-c", folder / "nginx.conf", "-e", folder / "error.log"],
                   folder / "nginx.sock", load_nginx)


def prepared_postgres(folder):
    data = folder / "data"
    for path in (folder, *folder.parents):
        if path.name.startswith("tidemark-"):
            shutil.chown(path, "postgres")
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    subprocess.run([*as_user, POSTGRES[0].parent / "initdb", "-D", data], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return Program("postgres", [POSTGRES[0], "--single", "-D", data, "-c", "work_mem=64MB", "postgres"],
                   stdin=TABLES, user=as_user)


def prepared_node(folder):
    """rollup, on modules that import each other."""
    for i in range(400):
        body = "".join(f"export function f{i}_{k}(a) {{ return a.map(x => x * {k} + {i}); }}\n"
                       for k in range(20))
        more = f"import * as next from './m{i + 1}.mjs';\nexport {{ next }};\n" if i < 399 else ""
        (folder / f"m{i}.mjs").write_text(more + body)
    return Program("node (rollup)",
                   ["node", "--perf-prof", "--interpreted-frames-native-stack",
                    os.path.realpath(shutil.which("rollup")), folder / "m0.mjs", "--file",
                    folder / "bundle.js", "--format", "cjs"])


def prepared_java(folder):
    """javac, on classes with a few methods each."""
    sources = []
    for i in range(150):
        sources.append(folder / f"C{i}.java")
        sources[-1].write_text(f"import java.util.*; class C{i} {{ " + "".join(
            f"Map<String, List<Integer>> m{k}(int a) {{ Map<String, List<Integer>> m = new TreeMap<>();"
            f" m.computeIfAbsent(\"k\" + a, x -> new ArrayList<>()).add(a + {k}); return m; }} "
            for k in range(20)) + "}")
    return Program("Java (javac)",
                   ["java", "-XX:+PreserveFramePointer", "-XX:+UnlockDiagnosticVMOptions",
                    "-XX:+DumpPerfMapAtExit", "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d",
                    folder / "classes", *sources])


def prepared_cxx(folder):
    source, flat = folder / "a.cpp", folder / "a.ii"
    source.write_text(CXX)
    subprocess.run(["g++", "-E", source, "-o", flat], check=True)
    compiler = subprocess.run(["g++", "-print-prog-name=cc1plus"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.strip()
    return Program("g++ (cc1plus)", [compiler, "-fpreprocessed", "-quiet", "-O1", flat, "-o",
                                     folder / "a.s"])


def prepared_server(folder):
    """As `cargo build --release` leaves a program: with symbols, without lines."""
    (folder / "server.rs").write_text(SERVER)
    subprocess.run(["rustc", "-O", "-o", folder / "server", folder / "server.rs"], check=True)
    return Program("Rust (a server)", [folder / "server"])


def prepared_python(folder):
    (folder / "solve.py").write_text(NUMPY)
    return Program("python3, numpy", ["/usr/bin/python3", folder / "solve.py"], python=True)


PREPARED = {
    "redis": lambda f: Program("redis", ["redis-server", "--save", "", "--port", "0", "--unixsocket",
                                         f / "redis.sock"], f / "redis.sock", load_redis),
    "nginx": prepared_nginx,
    "postgres": prepared_postgres,
    "sqlite3": lambda f: Program("sqlite3", ["sqlite3", ":memory:", ROWS]),
    "node": prepared_node,
    "java": prepared_java,
    "python": prepared_python,
    "rust": lambda f: Program("Rust (ripgrep)", ["rg", "-j2", "-c", r"\b\w+_(open|close)\b",
                                                 "/usr/include"]),
    "server": prepared_server,
    "imagemagick": lambda f: Program("ImageMagick", ["convert-im6.q16", "-size", "800x600",
                                                     "plasma:red-blue", "-blur", "0x3", "-resize",
                                                     "1200x900", f / "out.png"]),
    "g++": prepared_cxx,
}
NEEDED = {"node": "rollup", "python": "/usr/bin/python3", "rust": "rg", "server": "rustc",
          "imagemagick": "convert-im6.q16", "redis": "redis-server"}


def wait_for(path):
    for _ in range(WAIT * 20):
        if path.exists():
            return
        time.sleep(0.05)
    sys.exit(f"{path} did not come")


def record(program, tool, folder):
    """Runs the program under the tool. Runtimes leave files in the working directory."""
    process = subprocess.Popen([*(program.user or []), *[str(a) for a in tool], *program.command],
                               stdin=subprocess.PIPE if program.stdin else subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, cwd=folder, text=True)
    if program.up:
        wait_for(program.up)
        program.load(folder)
    process.communicate(program.stdin, timeout=600)
    # The status of heaptrack's script is another one.
    if process.returncode != 0 and tool[0] != "heaptrack":
        sys.exit(f"{program.name} under {tool[0]}: status {process.returncode}")
    if program.up and program.up.exists():
        program.up.unlink()


def is_name(function, file, python):
    if python:
        return (file or "").endswith(".py")
    return site_stacks.names_caller({"function": function})


def share(rows, python):
    """`rows`: (bytes, function, file) of sites."""
    total = sum(row[0] for row in rows)
    return 100 * sum(row[0] for row in rows if is_name(*row[1:], python)) / max(total, 1)


def by_tidemark(build, program, folder):
    trace = folder / "out.tracy"
    record(program, [build / "tidemark", "run", "-f", "-o", trace, "--depth", "64", "--report", "none",
                     "--no-debuginfod", "--"], folder)
    out = subprocess.run([build / "tidemark", "report", trace, "--format", "json", "--limit", "0"],
                         check=True, stdout=subprocess.PIPE)
    return [(s["at_peak_bytes"], s["function"], s["file"]) for s in json.loads(out.stdout)["sites"]]


def by_heaptrack(program, folder):
    data, stacks = folder / "heap", folder / "stacks"
    record(program, ["heaptrack", "-o", data], folder)
    found = sorted(folder.glob("heap.*"), key=lambda p: p.stat().st_mtime)[-1]
    subprocess.run(["heaptrack_print", "-f", found, "-p", "0", "-a", "0", "-T", "0",
                    "--flamegraph-cost-type", "peak", "-F", stacks], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = []
    for line in stacks.read_text(errors="replace").splitlines():
        frames, cost = line.rsplit(" ", 1)
        innermost = frames.rstrip("; ").rsplit(";", 1)[-1]
        place = re.search(r"^(.*) \(([^()]*)\)$", innermost)
        function, file = place.groups() if place else (innermost, None)
        rows.append((int(cost), "" if function.startswith("0x") else function, file))
    return rows


def is_here(name):
    if name == "postgres":
        return bool(POSTGRES)
    return shutil.which(NEEDED.get(name, name)) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--old", type=pathlib.Path)
    parser.add_argument("--rows", action="store_true", help="print the six largest rows, too")
    parser.add_argument("programs", nargs="*", default=list(PREPARED))
    options = parser.parse_args()
    ways = {"now": lambda p, f: by_tidemark(BUILD, p, f)}
    if options.old:
        ways = {"old": lambda p, f: by_tidemark(options.old.resolve(), p, f), **ways}
    if shutil.which("heaptrack"):
        ways["heaptrack"] = by_heaptrack
    shares = {}
    for name in options.programs:
        if not is_here(name):
            continue
        with tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
            program = PREPARED[name](pathlib.Path(folder))
            found = {way: measure(program, pathlib.Path(folder)) for way, measure in ways.items()}
        shares[program.name] = {way: share(rows, program.python) for way, rows in found.items()}
        print(program.name, *(f"{way} {part:.1f} %" for way, part in shares[program.name].items()),
              sep=", ", flush=True)
        for way, rows in found.items() if options.rows else ():
            for size, function, file in sorted(rows, key=lambda r: -r[0])[:6]:
                named = "+" if is_name(function, file, program.python) else "-"
                print(f"    {way:10}{named} {size:>12,} {function} {file or ''}")
    print("\n| percent | " + " | ".join(shares) + " |\n|---|" + "--:|" * len(shares))
    for way in ways:
        print(f"| {way} | " + " | ".join(f"{parts[way]:.1f}" for parts in shares.values()) + " |")


if __name__ == "__main__":
    main()
