"""`tidemark run` on programs as they are installed: the same output, and a trace without faults."""

import os
import re
import shutil
import subprocess
import time

from tools import LIMIT, ROOT, TIDEMARK, Case, report, run

TABLE = ("create table t(a, b); with recursive c(x) as (values(1) union all select x + 1 from c "
         "where x < 3000) insert into t select x, x * 7 || 'abc' from c; "
         "select count(distinct b), sum(a) from t;")
GO = 'package main\nimport "fmt"\nfunc main() { fmt.Println(len(fmt.Sprint(make([]int, 100)))) }\n'
RUST = """
use std::collections::HashMap;
fn main() {
    let threads: Vec<_> = (0..4u64).map(|i| std::thread::spawn(move || {
        let mut m: HashMap<String, Vec<u64>> = HashMap::new();
        for k in 0..2000u64 { m.entry(format!("k{}", (k * 7919 + i) % 300)).or_default().push(k); }
        m.values().map(|v| v.iter().sum::<u64>()).sum::<u64>()
    })).collect();
    for t in threads { println!("{}", t.join().unwrap()); }
}
"""


class RealPrograms(Case):
    def there(self, name):
        path = shutil.which(name)
        if not path:
            self.skipTest(f"{name} is not installed")
        return path

    def recorded(self, *command, options=(), **more):
        """Runs it with and without us; the trace's pool."""
        name, trace = self.there(command[0]), self.dir / "out.tracy"
        command = [name, *map(str, command[1:])]
        without = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, timeout=LIMIT, **more)
        result = run("run", "-f", "-o", trace, "--report", "none", "--no-symbols", *options, "--",
                     *command, **more)
        # Of several processes, the table of them ends what is printed.
        stderr = re.split(r"(?m)^\n +PID  Program ", result.stderr)[0]
        said = [line for line in stderr.splitlines() if not line.startswith("tidemark:")]
        self.assertEqual((result.returncode, result.stdout, said),
                         (without.returncode, without.stdout, without.stderr.splitlines()))
        return self.sound(trace)

    def sound(self, trace):
        result = report(trace)
        self.assertEqual(result.get("faults", []), [])
        return result["pools"][0]

    def test_ls(self):
        folder = self.dir / "folder"
        folder.mkdir()
        for i in range(200):
            (folder / f"file{i}").write_text("x" * i)
        self.assertGreater(self.recorded("ls", "-lA", folder)["allocations"], 100)

    def test_git(self):
        environment = dict(os.environ, HOME=str(self.dir), GIT_CONFIG_NOSYSTEM="1")
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", self.dir]
        self.there("git")
        (self.dir / "file").write_text("text\n")
        for rest in (["init", "-q"], ["add", "file"], ["commit", "-q", "-m", "first"]):
            subprocess.run([*git, *rest], check=True, env=environment, stdin=subprocess.DEVNULL)
        self.assertGreater(self.recorded(*git, "log", "--stat", env=environment)["allocations"],
                           100)

    def test_sqlite(self):
        self.assertGreater(self.recorded("sqlite3", ":memory:", TABLE)["allocations"], 1000)

    def test_node(self):
        pool = self.recorded("node", "-e", "console.log(new Map([[1, 'x'.repeat(1e5)]]).size)")
        self.assertGreater(pool["allocations"], 1000)

    def test_php(self):
        """Which binds its extensions to what they need themselves."""
        pool = self.recorded("php", "-r", "echo strlen(serialize(range(1, 3000))), phpversion();")
        self.assertGreater(pool["allocations"], 1000)

    def test_gcc(self):
        source = ROOT / "test" / "e2e" / "run_program.c"
        self.recorded("gcc", "-O1", "-S", "-o", "-", source, options=["--follow-fork"])
        traces = [t for t in self.dir.glob("out*.tracy") if t.name != "out.tracy"]
        self.assertTrue(traces)
        self.assertGreater(max(self.sound(t)["allocations"] for t in traces), 1000)

    def test_rust(self):
        program = self.dir / "program"
        (self.dir / "a.rs").write_text(RUST)
        result = subprocess.run([self.there("rustc"), "-g", "-o", program, self.dir / "a.rs"],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode != 0:
            self.skipTest(f"rustc does not work: {result.stdout}")
        self.assertGreater(self.recorded(program)["allocations"], 8000)

    def test_go(self):
        (self.dir / "a.go").write_text(GO)
        environment = dict(os.environ, HOME=str(self.dir), GOFLAGS="-mod=mod", GO111MODULE="off")
        result = subprocess.run([self.there("go"), "build", "-o", "program", "a.go"], cwd=self.dir,
                                env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)
        if result.returncode != 0:
            self.skipTest(f"go does not work: {result.stdout}")
        result = run("run", "--", self.dir / "program")
        self.assertEqual(result.returncode, 126)
        self.assertIn("Go program", result.stderr)

    def test_redis(self):
        self.there("redis-cli")
        server, trace = self.there("redis-server"), self.dir / "out.tracy"
        way = str(self.dir / "redis.sock")

        def ask(*words):
            return subprocess.run(["redis-cli", "-s", way, *words], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, timeout=LIMIT).stdout

        process = subprocess.Popen([TIDEMARK, "run", "-o", trace, "--report", "none",
                                    "--no-symbols", "--", server, "--port", "0", "--unixsocket",
                                    way, "--save", "", "--dir", str(self.dir)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        end = time.monotonic() + LIMIT
        while ask("ping") != "PONG\n" and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(ask("eval", "for i = 1, 3000 do redis.call('lpush', 'l' .. i % 50, i) end "
                             "return redis.call('llen', 'l7')", "0"), "60\n")
        self.assertIn("started", ask("bgsave"))
        ask("shutdown", "nosave")
        said = process.communicate(timeout=LIMIT)[1]
        self.assertEqual(process.returncode, 0, said)
        self.assertGreater(self.sound(trace)["allocations"], 1000)
