"""What the driver reports of GPU memory beside what `tidemark run --gpu` attributes to call stacks,
with a driver and a management library that are none."""

import json
import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

from test_client import DRIVER, RUNTIME
from test_run import CC, RunCase, wait_until
from test_run_memory import MIB, plots
from test_run_python import NO_PYTHON, PYTHONS
from tools import LIMIT, TIDEMARK, report, run

ABSENT = 2**31 - 1  # no process has this number
NOT_AVAILABLE = 2**64 - 1

# Reads the state at each call from the file that FAKE_NVML names: of each device a line "device
# SIZE USED", then "PID BYTES" of each process. With MIG there is one GPU, and they are its instances.
NVML = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct memory { unsigned long long total, free, used; };
struct process {
    unsigned pid;
    unsigned long long used;
#ifndef FIRST_FORM
    unsigned instance, compute;
#endif
};
static char line[256];
static FILE *state(void)
{
    FILE *f = fopen(getenv("FAKE_NVML"), "r");
    if (!f)
        abort();
    return f;
}
static FILE *device_lines(unsigned long device)
{
    FILE *f = state();
    for (unsigned long at = 0; fgets(line, sizeof line, f);)
        if (!strncmp(line, "device", 6) && at++ == device)
            return f;
    abort();
}
int nvmlInit_v2(void) { FILE *f = fopen(getenv("FAKE_NVML_LOADED"), "w"); return f ? fclose(f) : 1; }
int nvmlDeviceGetCount_v2(unsigned *n)
{
    FILE *f = state();
    for (*n = 0; fgets(line, sizeof line, f);)
        *n += !strncmp(line, "device", 6);
#ifdef MIG
    *n = 1;
#endif
    return fclose(f);
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(i + 1ul); return 0; }
#ifdef MIG
int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *after) { return *now = *after = 1, 0; }
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n) { *n = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **m)
{
    *m = (void *)(unsigned long)i; /* of the instances, the first one is not visible */
    return i == 0 || i > 3 ? 6 : 0;
}
#else
int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *after) { return 3; }
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n) { abort(); }
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **m) { abort(); }
#endif
int nvmlDeviceGetMemoryInfo(void *d, struct memory *m)
{
    const char *hangs = getenv("FAKE_NVML_HANGS");
    while (!access(hangs, F_OK)) {
#ifdef ENDS
        _exit(7);
#endif
        usleep(1000);
    }
    fclose(device_lines((unsigned long)d - 1));
    sscanf(line, "device %llu %llu", &m->total, &m->used);
    m->free = m->total - m->used;
    return 0;
}
#ifdef FIRST_FORM
int nvmlDeviceGetComputeRunningProcesses
#elif !defined(LACKS)
int nvmlDeviceGetComputeRunningProcesses_v2
#else
int other
#endif
(void *d, unsigned *n, struct process *all)
{
    unsigned room = *n;
    FILE *f = device_lines((unsigned long)d - 1);
    for (*n = 0; fgets(line, sizeof line, f) && strncmp(line, "device", 6); ++*n) {
        if (*n == room)
            return 7;
        memset(&all[*n], 0xff, sizeof *all);
        sscanf(line, "%u %llu", &all[*n].pid, &all[*n].used);
    }
    return fclose(f);
}
"""

# 8 MiB in all: at the end less, so that the highest reading is one of its time.
PROGRAM = r"""
#include <stdio.h>
#include <unistd.h>
typedef unsigned long long address;
int fake_device(int n);
int cudaMalloc(address *p, size_t n);
int cudaFree(address p);
int main(int count, char **argv)
{
    address a, b, c;
    char in;
    if (count == 1) {
        cudaMalloc(&c, 100 << 20);
        cudaFree(c);
        cudaMalloc(&a, 3 << 20);
        fake_device(1);
        cudaMalloc(&b, 5 << 20);
    }
    printf("%d\n", getpid());
    fflush(stdout);
    return read(0, &in, 1) != 0;
}
"""


# The driver reserves addresses of device memory in the process.
RESERVED = r"""
#include <stddef.h>
#include <sys/mman.h>
int cuMemMap(unsigned long long, size_t, size_t, unsigned long long, unsigned long long);
int main(void)
{
    size_t n = 64 << 20;
    void *p = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return cuMemMap((unsigned long long)p, n, 0, 0, 0);
}
"""


# Calls the driver through ctypes, as several packages do.
CTYPES = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
def take(n):
    p = ctypes.c_ulonglong()
    assert cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(n)) == 0
def work():
    for i in range(3):
        take(1 << 20)
work()
"""


def asking(pid):
    """The child of `run` that asks the driver."""
    found, = (int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
              if "libnvidia-ml" in Path(f"/proc/{n}/maps").read_text())
    return found


def grow(notes):
    size = notes.stat().st_size
    wait_until(lambda: notes.stat().st_size > size + 1000)


class Gpu(RunCase):
    def setUp(self):
        super().setUp()
        self.state, self.loaded = self.dir / "state", self.dir / "loaded"
        self.hangs = self.dir / "hangs"
        self.build("libcuda.so.1", DRIVER, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1",
                   "-Wl,-Bsymbolic")
        self.build("libcudart.so", RUNTIME, "-shared", "-fPIC", self.dir / "libcuda.so.1")
        self.program = self.build("gpu", PROGRAM, self.dir / "libcudart.so",
                                  self.dir / "libcuda.so.1", f"-Wl,-rpath,{self.dir}")
        self.build_nvml()

    def build(self, name, text, *flags):
        source = self.dir / f"{name}.c"
        source.write_text(text)
        subprocess.run([CC, "-w", "-g", "-O1", "-o", self.dir / name, source, *flags], check=True)
        return self.dir / name

    def build_nvml(self, *flags):
        self.build("libnvidia-ml.so.1", NVML, "-shared", "-fPIC", *flags)

    def write(self, *devices):
        """Devices as (size, used, {pid: bytes}). The file is exchanged at once."""
        new = self.dir / "new"
        new.write_text("".join(f"device {size} {used}\n" +
                               "".join(f"{pid} {n}\n" for pid, n in processes.items())
                               for size, used, processes in devices),
                   *[(80 * MIB, 0, {})] * (3 - len(devices)))
        new.rename(self.state)

    def start(self, *arguments, gpu=("--gpu",)):
        self.write(*[(80 * MIB, 0, {})] * 3)  # their number is asked for once
        process = subprocess.Popen([TIDEMARK, "run", "-o", self.trace, "-f", "--no-debuginfod",
                                    *gpu, "--", self.program, *arguments], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**os.environ, "LD_LIBRARY_PATH": str(self.dir),
                                        "FAKE_NVML": str(self.state),
                                        "FAKE_NVML_HANGS": str(self.hangs),
                                        "FAKE_NVML_LOADED": str(self.loaded)})
        self.addCleanup(process.kill)
        return process, int(process.stdout.readline())

    def finish(self, process):
        _, said = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, said)
        return said

    def record(self, *devices):
        """With devices that have the program by the key None; the others are idle."""
        process, pid = self.start()
        self.write(*((size, used, {pid if k is None else k: n for k, n in processes.items()})
                     for size, used, processes in devices),
                   *[(80 * MIB, 0, {})] * (3 - len(devices)))
        return self.finish(process)

    def gpu(self):
        return report(self.trace).get("gpu")

    def unknown(self, said, why):
        self.assertRegex(said, "tidemark: the driver's count of GPU memory is not known for process "
                               rf"\d+: {why}\n")
        self.assertEqual(set(self.gpu().values()), {None})
        self.assertIn("\ngpu: what the driver reports of the process is not known\n",
                      run("report", self.trace).stdout)
        self.assertNotIn("GPU memory", plots(self.trace)[0])

    def test_reported_attributed_and_the_rest(self):
        for flags in [], ["-DFIRST_FORM"]:
            self.build_nvml(*flags)
            said = self.record((80 * MIB, 30 * MIB, {os.getpid(): 7 * MIB, None: 12 * MIB}),
                               (40 * MIB, 39 * MIB, {os.getpid(): 38 * MIB}),
                               (80 * MIB, 2 * MIB, {None: 1 * MIB}))
            self.assertNotIn("not known", said)
            points, formats = plots(self.trace)
            self.assertEqual({v for _, v in points["GPU memory"]}, {13 * MIB})
            self.assertEqual({v for _, v in points["GPU memory of all processes"]}, {32 * MIB})
            self.assertEqual({v for _, v in points["GPU memory size"]}, {160 * MIB})
            self.assertEqual([points[f"GPU memory on GPU {i}"][-1][1] for i in range(3)],
                             [12 * MIB, 0, MIB])
            self.assertNotIn("GPU memory on GPU 3", points)
            self.assertEqual(formats["GPU memory"], 1)
            found = self.gpu()
            self.assertEqual(found.pop("time_ns"), points["GPU memory"][-1][0])
            self.assertEqual(found, {
                "reported_bytes": 13 * MIB, "attributed_bytes": 8 * MIB,
                "not_attributed_bytes": 5 * MIB, "all_processes_bytes": 32 * MIB,
                "size_bytes": 160 * MIB})
            self.assertRegex(run("report", self.trace).stdout,
                             r"\ngpu 13\.0 MiB at .* as the driver reports: attributed 8\.00 MiB, not "
                             r"attributed 5\.00 MiB; all processes 32\.0 MiB of 160 MiB\n")

    def test_an_instance_of_a_gpu(self):
        self.build_nvml("-DMIG")
        said = self.record((80 * MIB, 30 * MIB, {os.getpid(): 7 * MIB}),
                           (40 * MIB, 39 * MIB, {os.getpid(): 20 * MIB, None: 12 * MIB}),
                           (20 * MIB, 2 * MIB, {}))
        self.assertNotIn("not known", said)
        found = self.gpu()
        self.assertNotIn("GPU memory on GPU 0", plots(self.trace)[0])
        self.assertEqual((found["reported_bytes"], found["all_processes_bytes"], found["size_bytes"]),
                         (12 * MIB, 39 * MIB, 40 * MIB))
        self.unknown(self.record((80 * MIB, 30 * MIB, {os.getpid(): 7 * MIB})),
                     "the driver does not list the process")

    def test_figures_have_the_plots_alone(self):
        """What was attributed at the time of a reading is not kept."""
        process, pid = self.start(gpu=("--gpu", "--figures"))
        self.write((80 * MIB, 30 * MIB, {pid: 12 * MIB}), *[(80 * MIB, 0, {})] * 2)
        wait_until(self.loaded.exists)
        grow(next(self.dir.glob("tidemark-run.*/*.kernel")))
        self.finish(process)
        self.assertEqual(plots(self.trace)[0]["GPU memory"][-1][1], 12 * MIB)
        self.assertIsNone(self.gpu())
        self.assertNotIn("\ngpu", run("report", self.trace).stdout)

    def test_more_is_attributed_than_reported(self):
        self.record((80 * MIB, 30 * MIB, {None: 7 * MIB}))
        self.assertEqual(self.gpu()["not_attributed_bytes"], None)
        self.assertRegex(run("report", self.trace).stdout,
                         r"\ngpu 7\.00 MiB at .*: attributed 8\.00 MiB, 1\.00 MiB more than that;")

    def test_another_pid_namespace(self):
        said = self.record((80 * MIB, 30 * MIB, {None: 12 * MIB, ABSENT: MIB}))
        self.unknown(said, "the driver lists processes that are not in this PID namespace")

    def test_a_driver_that_does_not_say(self):
        said = self.record((80 * MIB, 30 * MIB, {None: NOT_AVAILABLE}))
        self.unknown(said, "the driver does not report it by process")
        self.unknown(self.record((80 * MIB, 30 * MIB, {os.getpid(): MIB})),
                     "the driver does not list the process")

    def test_a_library_without_the_function(self):
        self.build_nvml("-DLACKS")
        self.unknown(self.record((80 * MIB, 30 * MIB, {None: MIB})), "libnvidia-ml.so.1 lacks a function")

    def test_a_driver_that_hangs(self):
        self.hangs.touch()
        self.unknown(self.record((80 * MIB, 30 * MIB, {None: 12 * MIB})),
                     "the driver did not answer within a second")

    def test_a_driver_that_hangs_later(self):
        process, pid = self.start()
        self.write((80 * MIB, 30 * MIB, {pid: 12 * MIB}), *[(80 * MIB, 0, {})] * 2)
        wait_until(lambda: list(self.dir.glob("tidemark-run.*/*.kernel")))
        notes, = self.dir.glob("tidemark-run.*/*.kernel")
        grow(notes)
        self.hangs.touch()
        helper = asking(process.pid)
        time.sleep(1.5)  # past the second, whether or not a reading was in the call
        grow(notes)      # other readings go on
        said = self.finish(process)
        self.assertIn(f"the plots of GPU memory of process {pid} may have gaps: the driver answered "
                      "late\n", said)
        self.assertEqual(self.gpu()["reported_bytes"], 12 * MIB)
        points = plots(self.trace)[0]
        rss = next(points[name] for name in points if "RSS" in name)
        self.assertGreater(rss[-1][0], points["GPU memory"][-1][0] + 10**9)
        wait_until(lambda: not Path(f"/proc/{helper}/exe").exists())

    def test_a_library_that_crashes(self):
        process, pid = self.start()
        wait_until(self.loaded.exists)
        helper = asking(process.pid)
        os.kill(helper, signal.SIGABRT)  # a sanitizer keeps SIGSEGV from it
        grow(next(self.dir.glob("tidemark-run.*/*.kernel")))
        self.unknown(self.finish(process), r"signal 6 \(Aborted\) ended the process that asks "
                                           "the driver")

    def test_a_library_that_crashes_later(self):
        """The process that asks the driver ends after its first values: `run` says so once, and the trace
        has those values."""
        for why, flags, end in (("signal 9 (Killed) ended the process that asks the driver", [],
                                 lambda helper: os.kill(helper, signal.SIGKILL)),
                                ("the process that asks the driver ended with status 7", ["-DENDS"],
                                 lambda _: self.hangs.touch())):
            self.build_nvml(*flags)
            process, pid = self.start()
            self.write((80 * MIB, 30 * MIB, {pid: 12 * MIB}), *[(80 * MIB, 0, {})] * 2)
            wait_until(lambda: list(self.dir.glob("tidemark-run.*/*.kernel")))
            notes, = self.dir.glob("tidemark-run.*/*.kernel")
            grow(notes)
            end(asking(process.pid))
            grow(notes)
            said = self.finish(process)
            self.assertEqual(said.count("GPU memory"), 1, said)
            self.assertIn(f"tidemark: the plots of GPU memory of process {pid} end before the process did: "
                          f"{why}\n", said)
            self.assertEqual(self.gpu()["reported_bytes"], 12 * MIB)

    def test_not_loaded_if_no_gpu_is_used_or_asked_for(self):
        for arguments, options in (["none"], ["--gpu"]), ([], []), ([], ["--gpu", "--memory-plots", "0"]):
            process, _ = self.start(*arguments, gpu=options)
            self.assertNotIn("GPU", self.finish(process))
            self.assertFalse(self.loaded.exists())
            self.assertEqual(self.gpu() and set(self.gpu().values()),
                             {None} if "0" in options else None)

    def test_device_memory_is_no_memory_of_the_process(self):
        program = self.build("reserved", RESERVED, self.dir / "libcuda.so.1", f"-Wl,-rpath,{self.dir}")
        result = run("run", "-o", self.trace, "--no-debuginfod", "--gpu", "--", program)
        self.assertEqual(result.returncode, 0, result.stderr)
        look = json.loads(run("report", "--resident", "--format", "json", self.trace).stdout)
        self.assertEqual([f for f in look["findings"] if f["kind"] == "not_resident"], [])
        row, = (s for s in look["sites"] if s["pool"] == "CUDA device 0")
        self.assertEqual((row["bytes"], row["outside_bytes"], row["not_resident_bytes"]),
                         (64 * MIB, 64 * MIB, 0))

    @unittest.skipUnless(PYTHONS, NO_PYTHON)
    def test_python_that_calls_the_driver(self):
        script = self.dir / "script.py"
        script.write_text(CTYPES)
        for python in PYTHONS:
            with self.subTest(python):
                result = run("run", "-o", self.trace, "-f", "--no-debuginfod", "--gpu", "--report", "none",
                             "--", python, script, self.dir / "libcuda.so.1")
                self.assertEqual(result.returncode, 0, result.stderr)
                shown = run("report", "--stack-traces", "--pool", "CUDA device 0", self.trace).stdout
                frames = shown.split("\n    3 allocations, 3.00 MiB\n")[1]
                self.assertNotIn("tidemark-gpu", frames)  # which called dlopen, with the same walk
                site, = report(self.trace, "--pool", "CUDA device 0")["sites"]
                self.assertEqual((site["function"], site["line"]), ("take", 6))
                why = run("report", "--why-site", "--pool", "CUDA device 0", self.trace).stdout
                self.assertRegex(why, r"\n      (near )?ffi_\w+(\+0x\w+)?: libffi\n")
                self.assertIn("\n      take: site: the program's innermost function\n", why)
                everything = report(self.trace, "--pool", "CUDA device 0", "--no-skip", "ffi|ctypes")
                if "\n      ffi_" in why:  # else these frames have no names, and are passed over
                    self.assertNotIn("take", [s["function"] for s in everything["sites"]])

    def test_recovered(self):
        process, pid = self.start()
        self.write((80 * MIB, 30 * MIB, {pid: 12 * MIB}), *[(80 * MIB, 0, {})] * 2)
        wait_until(lambda: list(self.dir.glob("tidemark-run.*/*.kernel")))
        notes, = self.dir.glob("tidemark-run.*/*.kernel")
        grow(notes)
        os.kill(pid, signal.SIGKILL)
        process.kill()
        process.communicate()
        result = run("run", "--recover", notes.with_suffix(""), "-o", self.trace, "-f",
                     "--no-debuginfod", "--report", "none")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = self.gpu()
        self.assertEqual((found["reported_bytes"], found["attributed_bytes"]), (12 * MIB, 8 * MIB))


if __name__ == "__main__":
    unittest.main()
