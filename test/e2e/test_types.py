"""What blocks are made of: programs that know it say what they allocate, as the compilers at hand
built them, and `report` must say the same of each."""

import collections
import contextlib
import json
import struct
import subprocess

from clients import text_item, thread_name
from pagedata import Page
from symbol_images import Absent, sh, tool
from test_capture import TERMINATE, FakeClient, alloc, callstack, frame
from tools import LIMIT, Case, report, run

CPP = r"""
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <execinfo.h>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

static const char *expected;

/* TYPE SIZE ADDRESS...: addresses of the calls, innermost first. */
static void tell(size_t n)
{
    const char *type = expected;
    void *way[64];
    if (!type)
        return;
    expected = nullptr;
    int depth = backtrace(way, 64);
    printf("%s\t%zu", type, n);
    for (int i = 0; i < depth; i++)
        printf("\t%p", static_cast<void *>(static_cast<char *>(way[i]) - 1));
    printf("\n");
    expected = type;
}

__attribute__((noinline)) void *operator new(size_t n)
{
    tell(n);
    return malloc(n);
}
void operator delete(void *p) noexcept { free(p); }
void operator delete(void *p, size_t) noexcept { free(p); }

namespace game {
struct Item {
    long at[5];
    Item(long x = 0) { at[0] = x; }
    bool operator<(const Item &o) const { return at[0] < o.at[0]; }
};
template <class A, class B> struct Both { A a; B b; };
template <bool Larger, int N> struct Sized { int x[N]; };
struct Owner {
    char *bytes;
    explicit Owner(int n)
    {
        const char *outer = expected;
        expected = "-";
        bytes = new char[static_cast<size_t>(n)];
        expected = outer;
    }
    ~Owner() { delete[] bytes; }
};
namespace { struct Hidden { long x; }; }
}

using namespace game;
volatile int k = 3;
void *volatile sink;

#define OF(type, ...) do { expected = type; __VA_ARGS__; expected = nullptr; } while (0)
/* Where it inlines, g++ names functions of such a type without their class. */
#if defined(__clang__) || !defined(__OPTIMIZE__)
#define HIDDEN "game::(anonymous namespace)::Hidden"
#else
#define HIDDEN "-"
#endif

#define PART(name) __attribute__((noinline)) void name()

PART(vectors)
{
    std::vector<Item> items;
    OF("game::Item", for (int i = 0; i < 20; i++) items.push_back(Item(i)));
    std::vector<std::string> names;
    OF("std::string", names.reserve(10));
    OF("char", names.push_back(std::string(100, 'x')));
    std::vector<Both<int, std::string>> both;
    OF("game::Both<int, std::string>", both.resize(4));
    std::vector<Item *> pointers;
    OF("game::Item*", pointers.push_back(nullptr));
    std::vector<Hidden> hidden;
    OF(HIDDEN, hidden.resize(static_cast<size_t>(k)));
    std::vector<void (*)(int, char)> calls;
    OF("void (*)(int, char)", calls.push_back(nullptr));
    std::vector<std::vector<float>> nested;
    OF("std::vector<float>", nested.resize(static_cast<size_t>(k)));
    std::vector<double> copied(5);
    OF("double", std::vector<double> other(copied); sink = other.data());
    sink = items.data();
}

PART(nodes)
{
    std::map<std::string, Item> map;
    OF("std::pair<std::string const, game::Item>", map["a"] = Item(1));
    std::set<int> set;
    OF("int", set.insert(int(k)));
    std::list<Item> list;
    OF("game::Item", list.push_back(Item(2)));
    std::unordered_map<int, float> hashed;
    hashed.reserve(100);
    OF("std::pair<int const, float>", hashed.emplace(int(k), 1.5f));
    OF("std::__detail::_Hash_node_base*", hashed.reserve(1000));
    sink = &map;
}

PART(pointers)
{
    OF("game::Item", auto p = std::make_shared<Item>(int(k)); sink = p.get());
    OF("game::Item", auto p = std::make_unique<Item>(int(k)); sink = p.get());
    OF("int", auto p = std::make_unique<int[]>(static_cast<size_t>(k)); sink = p.get());
    OF("game::Owner", auto p = std::make_unique<Owner>(int(k)); sink = p.get());
    OF("game::Owner", auto p = std::make_shared<Owner>(int(k)); sink = p.get());
    OF("-", auto p = new Item(1); sink = p; delete p);
    OF("-", auto p = std::unique_ptr<Item>(new Item(1)); sink = p.get());
}

PART(texts)
{
    std::string s;
    OF("char", s.assign(200, 'y'));
    OF("char", s += std::string(300, 'z'));
    std::wstring w;
    OF("wchar_t", w.resize(static_cast<size_t>(k) * 100));
    sink = &s;
}

int main()
{
    void *way[2];
    backtrace(way, 2);
    vectors();
    nodes();
    pointers();
    texts();
}
"""

RUST = r"""
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::{BinaryHeap, HashMap, LinkedList, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

extern "C" {
    fn backtrace(way: *mut *mut u8, n: i32) -> i32;
    fn printf(form: *const u8, ...) -> i32;
}

static mut EXPECTED: *const u8 = std::ptr::null();

struct Recorder;

impl Recorder {
    #[inline(never)]
    unsafe fn tell(&self, n: usize) {
        let text = EXPECTED;
        if text.is_null() {
            return;
        }
        EXPECTED = std::ptr::null();
        let mut way = [std::ptr::null_mut::<u8>(); 64];
        let depth = backtrace(way.as_mut_ptr(), 64);
        printf(b"%s\t%zu\0".as_ptr(), text, n);
        for i in 0..depth as usize {
            printf(b"\t%p\0".as_ptr(), way[i].wrapping_sub(1));
        }
        printf(b"\n\0".as_ptr());
        EXPECTED = text;
    }
}

unsafe impl GlobalAlloc for Recorder {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 {
        self.tell(l.size());
        System.alloc(l)
    }
    unsafe fn dealloc(&self, p: *mut u8, l: Layout) {
        System.dealloc(p, l)
    }
    unsafe fn realloc(&self, p: *mut u8, l: Layout, n: usize) -> *mut u8 {
        self.tell(n);
        System.realloc(p, l, n)
    }
}

#[global_allocator]
static ALLOCATOR: Recorder = Recorder;

pub mod game {
    #[derive(Clone, Default)]
    pub struct Item {
        pub at: [u64; 5],
    }
    pub struct Wrap<T> {
        pub inner: T,
    }
}
use game::{Item, Wrap};

macro_rules! of {
    ($text:expr, $what:expr) => {{
        unsafe { EXPECTED = concat!($text, "\0").as_ptr(); }
        let made = $what;
        unsafe { EXPECTED = std::ptr::null(); }
        std::hint::black_box(made)
    }};
}

#[inline(never)]
fn boxes(k: usize) {
    of!("elements::game::Item", Box::new(Item::default()));
    of!("[u8; 100]", Box::new([k as u8; 100]));
    of!("(u32, u8)", Box::new((k as u32, 1u8)));
    of!("elements::game::Wrap<f64>", Box::new(Wrap { inner: k as f64 }));
}

#[inline(never)]
fn vectors(k: usize) {
    let mut items: Vec<Item> = Vec::new();
    of!("elements::game::Item", for _ in 0..20 { items.push(Item::default()); });
    of!("u16", Vec::<u16>::with_capacity(k));
    of!("core::option::Option<alloc::boxed::Box<i32>>",
        Vec::<Option<Box<i32>>>::with_capacity(k));
    of!("u8", String::with_capacity(k));
    let mut queue = VecDeque::new();
    of!("(usize, f64)", queue.push_back((k, 1.0f64)));
    let mut heap = BinaryHeap::new();
    of!("i64", heap.push(k as i64));
    std::hint::black_box((items, queue, heap));
}

#[inline(never)]
fn shared(k: usize) {
    of!("elements::game::Item", Rc::new(Item::default()));
    of!("elements::game::Item", Arc::new(Item::default()));
    let mut list = LinkedList::new();
    of!("u32", list.push_back(k as u32));
    let mut map: HashMap<u32, u64> = HashMap::new();
    of!("(u32, u64)", map.reserve(k));
    std::hint::black_box((list, map));
}

fn main() {
    let mut way = [std::ptr::null_mut::<u8>(); 2];
    unsafe { backtrace(way.as_mut_ptr(), 2); }
    boxes(7);
    vectors(7);
    shared(7);
}
"""

FRAME_MAX = 200 << 10


D = r"""
module e;
import std.experimental.allocator, std.experimental.allocator.mallocator;
struct Item { long[5] at; this(long x) { at[0] = x; } }
__gshared Item*[30] items_kept;
__gshared double[][4] numbers_kept;
pragma(inline, false) void items() { foreach (i, ref k; items_kept) k = Mallocator.instance.make!Item(i); }
pragma(inline, false) void numbers() { foreach (ref k; numbers_kept) k = Mallocator.instance.makeArray!double(7); }
void main() { items(); numbers(); }
"""


def is_recorder(name):
    """What stands between the allocation and the list of it."""
    return name.startswith("tell") or "Recorder" in name


def frame_items(address, functions):
    """What a client answers of a frame: its functions, innermost first."""
    items = text_item(98, b"program") + struct.pack("<BQB", 52, address, len(functions))
    for function in functions:
        items += text_item(98, (function["function"] or "[unknown]").encode()[:60000])
        items += text_item(99, (function["file"] or "[unknown]").encode())
        items += struct.pack("<BIQI", 82, function["line"] or 0, 0, 0)
    return items


class Types(Case):
    maxDiff = None

    def record(self, program):
        """(type, size, way of frames' addresses) of each allocation; functions by address."""
        listed = subprocess.run([str(program)], stdout=subprocess.PIPE, check=True, timeout=LIMIT,
                                cwd=self.dir).stdout.decode()
        blocks = [line.split("\t") for line in listed.splitlines()]
        places = sorted({int(a, 16) for block in blocks for a in block[2:]})
        places = [a for a in places if a < 0x10000000]  # of the program, which is not moved
        asked = run("symbolize", program, "--no-debuginfod", "--no-symbol-cache", "--format",
                    "json", *map(hex, places))
        self.assertEqual(asked.returncode, 0, asked.stderr)
        functions = {int(a["address"], 16): a["frames"]
                     for a in json.loads(asked.stdout)["addresses"]}
        out = []
        for kind, size, *way in blocks:
            way = [int(a, 16) for a in way if functions.get(int(a, 16))]
            last = max((i for i, a in enumerate(way)
                        if any(is_recorder(f["function"] or "") for f in functions[a])), default=-1)
            # The recorder may be inlined into what called it: that frame stays, without it.
            if last >= 0:
                rest = list(functions[way[last]])
                while rest and any(is_recorder(f["function"] or "") for f in rest):
                    rest.pop(0)
                if rest:
                    functions[way[last] + (1 << 40)] = rest
                    way = [way[last] + (1 << 40)] + way[last + 1 :]
                else:
                    way = way[last + 1 :]
            out.append((kind, int(size), way))
        return out, functions

    def trace_of(self, program):
        """A trace of these allocations; type -> [count, bytes], None where nobody can tell."""
        blocks, functions = self.record(program)
        parts, told, at = [thread_name(7, b"main")], set(), 0x100000
        for _, size, way in blocks:
            items = b""
            for address in way:
                if address not in told:
                    items += frame_items(address, functions[address])
                    told.add(address)
            at += 1 << 20
            parts.append(items + callstack(*way) + alloc(10, 7, at, size))
        client = FakeClient(self.frames([*parts, TERMINATE]))
        trace = self.dir / "elements.tracy"
        with contextlib.closing(client.socket):
            done = run("capture", "-f", "-o", trace, "-p", client.port, "--connect-timeout", LIMIT)
        client.thread.join(timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        wanted = collections.defaultdict(lambda: [0, 0])
        for kind, size, _ in blocks:
            wanted[None if kind == "-" else kind][0] += 1
            wanted[None if kind == "-" else kind][1] += size
        self.assertGreater(len(wanted), 8)
        return trace, dict(wanted)

    def check(self, program):
        trace, wanted = self.trace_of(program)
        doc = report(trace, "--by", "type")
        got = {row["type"]: [row["count"], row["bytes"]] for row in doc["groups"]}
        self.assertEqual(got, wanted)
        self.check_sites(doc, wanted)
        tree = json.loads(run("tree", trace, "--by", "type", "--format", "json").stdout)
        roots = {node["name"]: node["inclusive"]["bytes"] for node in tree["nodes"]
                 if node["depth"] == 1}
        self.assertEqual(roots, {kind or "[no type]": sums[1] for kind, sums in wanted.items()})
        self.check_export(trace, wanted)
        self.check_page(trace, doc)

    @staticmethod
    def frames(parts):
        out, items = b"", b""
        for part in parts:
            if items and len(items) + len(part) > FRAME_MAX:
                out += frame(items)
                items = b""
            items += part
        return out + frame(items)

    def check_sites(self, doc, wanted):
        """A site with one type says so; one with several lists them all."""
        sums = collections.defaultdict(lambda: [0, 0])
        for site in doc["sites"]:
            types = site.get("types", [{"type": site["type"], "count": site["count"],
                                        "bytes": site["bytes"]}])
            if "types" in site:
                self.assertIsNone(site["type"])
                self.assertGreater(len(types), 1)
            for entry in types:
                sums[entry["type"]][0] += entry["count"]
                sums[entry["type"]][1] += entry["bytes"]
        self.assertEqual(dict(sums), wanted)

    def check_export(self, trace, wanted):
        out = self.dir / "tables"
        done = run("export", trace, "--format", "ndjson", "-o", out, "-f", "--table", "callstacks",
                   "--table", "callstack_totals")
        self.assertEqual(done.returncode, 0, done.stderr)
        types = {row["id"]: row["type"] for row in self.lines(out / "callstacks.ndjson")}
        sums = collections.Counter()
        for row in self.lines(out / "callstack_totals.ndjson"):
            sums[types[row["callstack"]]] += row["total_bytes"]
        self.assertEqual(dict(sums), {kind: sums[1] for kind, sums in wanted.items()})

    def check_page(self, trace, doc):
        """The page's sites have the same types, where the page is built."""
        done = run("report", trace, "--format", "html", "-o", self.dir / "page.html", "-f")
        if "without the page" in done.stderr:
            return
        self.assertEqual(done.returncode, 0, done.stderr)
        data = Page(self.dir / "page.html").data
        strings, numbers = data["strings"], data["siteTypes"]
        got = collections.Counter()
        for site, number, more in zip(data["sites"], numbers[::2], numbers[1::2]):
            if not isinstance(site, int):
                got[strings[number], bool(more)] += 1
        want = collections.Counter()
        for site in doc["sites"]:
            types = [t["type"] for t in site.get("types", [site]) if t["type"]]
            want[types[0] if types else "", bool(types and "types" in site)] += 1
        self.assertEqual(got, want)

    @staticmethod
    def lines(path):
        return [json.loads(line) for line in path.read_text().splitlines()]

    def compile(self, name, source, *command):
        (self.dir / name).write_text(source)
        try:
            program = tool(command[0])
        except Absent as absent:
            self.skipTest(str(absent))
        sh(self.dir, program, *command[1:], name, "-o", "elements")
        return self.dir / "elements"

    def cpp(self, compiler, *flags):
        return self.compile("e.cpp", CPP, compiler, "-std=c++17", "-no-pie", "-static-libstdc++",
                            *flags)

    def test_gcc(self):
        self.check(self.cpp("g++", "-g", "-O2"))

    def test_gcc_without_optimisation(self):
        self.check(self.cpp("g++", "-g", "-O0"))

    def test_clang(self):
        self.check(self.cpp("clang++", "-g", "-O2"))

    def test_rust(self):
        self.check(self.compile("e.rs", RUST, "rustc", "-A", "warnings", "-g", "-O",
                                "--crate-name", "elements", "-C", "relocation-model=static", "-C",
                                "symbol-mangling-version=v0"))

    def test_d(self):
        """Recorded as it runs, since it has allocators of its own beside the collector's."""
        try:
            compiler = tool("gdc", "gdc-12")
        except Absent as why:
            self.skipTest(str(why))
        (self.dir / "e.d").write_text(D)
        sh(self.dir, compiler, "-g", "-O0", "-o", "e", "e.d")
        result = run("run", "-o", self.dir / "e.tracy", "--", self.dir / "e")
        self.assertEqual(result.returncode, 0, result.stderr)
        told = {row["type"]: (row["count"], row["bytes"])
                for row in report(self.dir / "e.tracy", "--by", "type")["groups"]}
        self.assertEqual(told["e.Item"], (30, 30 * 40))
        self.assertEqual(told["double"], (4, 4 * 56))
        sites = {row["type"]: row["function"] for row in report(self.dir / "e.tracy")["sites"]
                 if row["type"]}
        self.assertEqual((sites["e.Item"], sites["double"]), ("e.items()", "e.numbers()"))

    def test_without_debug_information(self):
        """What was inlined does not show: fewer types are told, and no wrong ones."""
        trace, wanted = self.trace_of(self.cpp("g++", "-O2"))
        for row in report(trace, "--by", "type")["groups"]:
            if row["type"] is not None:
                self.assertLessEqual(row["count"], wanted[row["type"]][0])
                self.assertLessEqual(row["bytes"], wanted[row["type"]][1])
