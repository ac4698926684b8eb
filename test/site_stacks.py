#!/usr/bin/env python3
"""Call stacks of recorded programs and their allocation sites.

    site_stacks.py stacks TRACE       the ten heaviest call stacks, as fixtures/sites has them
    site_stacks.py share TRACE...     the share of bytes in report rows that name a caller

`share` counts a row when its site is a named function that is neither an allocation wrapper, nor
`main`, nor a thread's start. The wrappers are those of PROGRAMS below: they were listed by reading
the programs' sources, before the rules in the product were written.

TIDEMARK is the program to ask (build/tidemark).
"""

import json
import os
import re
import subprocess
import sys

FRAMES = 16
STARTS = {"main", "_start", "__libc_start_main", "__libc_start_call_main", "start_thread",
          "__clone3", "__GI___clone3", "clone", "clone3", "call_init", "_dl_init"}

# Allocation functions of each program, read from its sources: a report that names them as a site
# does not say whose memory it is.
PROGRAMS = {
    "redis": "z(m|c|re)alloc(_usable)?|ztry(m|c|re)alloc(_usable)?|zstrdup",
    "nginx": "ngx_(c?alloc|memalign|palloc|pcalloc|pnalloc|pmemalign|create_pool)",
    "node": r".*::(Allocate|AllocateUninitialized|AllocForZlib|AllocForBrotli|Reallocate)"
            r"|v8::internal::(AllocAtLeastWithRetry|AllocWithRetry|AlignedAllocWithRetry|Malloced)"
            r"|.*Malloced::operator new|uv__(m|c|re)alloc|CRYPTO_(m|z|re)alloc|node::Realloc",
    "java": "os::(m|re)alloc|AllocateHeap|Arena::(grow|Amalloc)|.*CHeapObj.*operator new|Chunk::.*",
    "imagemagick": "(Acquire|Resize|Relinquish)(Aligned|Magick|Quantum|Virtual|Critical)Memory",
    "postgres": "palloc.*|repalloc.*|MemoryContext.*|pstrdup|pg_malloc.*|AllocSet.*"
                "|Generation.*|Slab.*|CRYPTO_(m|z|re)alloc",
    "gcc": "x(m|c|re)alloc|xrecalloc|xstrdup|ggc_.*alloc.*|_obstack_.*|alloc_(page|anon)|va_(heap|gc)::.*|vec<.*"
           "|hash_(table|map)<.*|htab_.*|mem_alloc_.*|_cpp_.*alloc.*|bitmap_.*alloc.*",
    "rust": r"<?(alloc|hashbrown|core|std)::.*|__r(ust|dl|g)_.*|.*RawVec.*",
    "sqlite": "sqlite3(Db)?(Malloc|Realloc)(Zero|Raw|OrFree|RawNN)?|sqlite3_(m|re)alloc(64)?",
}
LIBRARY = re.compile("(m|c|re|x)alloc|operator new.*|std::.*|(__)?strn?dup")
WRAPPER = re.compile("|".join(PROGRAMS.values()))


def report(trace, *options):
    tool = os.environ.get("TIDEMARK", "build/tidemark")
    out = subprocess.run([tool, "report", trace, "--format", "json", *options], check=True,
                         stdout=subprocess.PIPE)
    return json.loads(out.stdout)


def bare(function):
    """The function without its parameters."""
    return re.sub(r"(?<!operator)\((?!anonymous).*$", "", function or "").strip()


def image_name(frame):
    return os.path.basename(frame["image"] or "")


def is_unnamed(function):
    return not function or re.search(r"\+0x[0-9a-f]+$|^\[", function) is not None


def names_caller(row):
    function = row["function"]
    if is_unnamed(function) or bare(function) in STARTS:
        return False
    name = bare(function)
    return not WRAPPER.fullmatch(name) and not LIBRARY.fullmatch(name)


def stacks(trace):
    document = report(trace, "--by", "callstack", "--limit", "10")
    for row in document["groups"][:10]:
        print(f"stack {row['bytes']}")
        for frame in row["callstack"][:FRAMES]:
            print(f"  {frame['function'] or '-'}\t{image_name(frame)}")


def share(trace):
    rows = report(trace, "--limit", "0")["sites"]
    total = sum(row["bytes"] for row in rows)
    named = sum(row["bytes"] for row in rows if names_caller(row))
    print(f"{os.path.basename(trace)}: {100 * named / max(total, 1):.1f} % of {total:,} bytes")
    for row in sorted(rows, key=lambda r: -r["bytes"])[:6]:
        print(f"    {'+' if names_caller(row) else '-'} {row['bytes']:>12,} {row['function']}")


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("stacks", "share"):
        sys.exit(__doc__)
    for trace in sys.argv[2:]:
        (stacks if sys.argv[1] == "stacks" else share)(trace)


if __name__ == "__main__":
    main()
