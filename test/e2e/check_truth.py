#!/usr/bin/env python3
"""Compares `tidemark report` of a memscen trace with the ground truth that the program printed.

    check_truth.py TIDEMARK TRACE TRUTH_JSON

Checked exactly: per pool allocations, frees, live blocks and bytes, total bytes, peak, blocks freed
by the allocating thread's next event; per allocating function count, bytes, live blocks and bytes,
and its own highest use. Exit status 0 when everything agrees, 1 with the differences, 2 on usage.
"""

import json
import re
import subprocess
import sys

NO_CALLSTACK = "(no callstack)"


def strip_brackets(text, opening, closing):
    """Drops bracketed parts, nested ones included."""
    out, depth = [], 0
    for char in text:
        if char == opening:
            depth += 1
        elif char == closing and depth:
            depth -= 1
        elif depth == 0:
            out.append(char)
    return "".join(out)


def components(name):
    """The parts of a qualified name, whoever wrote it: a trace or the truth.

    Traces have signatures, return types and template arguments where the truth has none; a lambda
    is `f(A)::{lambda()#1}::operator()() const` in a trace and `f (lambda)` in the truth.
    """
    is_lambda = "{lambda" in name or "(lambda)" in name
    name = name.split("{lambda")[0].replace("operator()", "")
    name = strip_brackets(strip_brackets(name, "(", ")"), "<", ">")
    name = re.sub(r"\b(const|static)\b", "", name).strip().rstrip(":").split(" ")[-1]
    parts = [part for part in name.lstrip("*&").split("::") if part]
    return tuple(parts + (["{lambda}"] if is_lambda else []))


def same_function(a, b):
    """File-local functions come without their namespace: the shorter name ends the longer one."""
    n = min(len(a), len(b))
    return n > 0 and a[-n:] == b[-n:]


def report(tidemark, trace):
    command = [tidemark, "report", trace, "--format", "json", "--by", "function"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}")
    return json.loads(done.stdout)


class Comparison:
    """Collects differences."""

    def __init__(self):
        self.differences = []
        self.compared = 0

    def same(self, what, got, want):
        self.compared += 1
        if got != want:
            self.differences.append(f"{what}: tidemark says {got}, the truth is {want}")


def compare_pool(check, name, got, want):
    pairs = {
        "allocations": "allocs",
        "frees": "frees",
        "live_allocations": "live",
        "live_bytes": "live_bytes",
        "total_bytes": "total_bytes",
        "peak_bytes": "peak_bytes",
        "temporary_allocations": "temporary_same_thread",
    }
    for ours, theirs in pairs.items():
        check.same(f"pool {name}: {ours}", got[ours], want[theirs])


def rows_of(rows, pool, site):
    """The rows that a site of the truth corresponds to."""
    rows = [row for row in rows if row["pool"] == pool]
    if NO_CALLSTACK in site["function"]:
        return [row for row in rows if not row["callstack"]]
    want = components(site["function"])
    return [row for row in rows if row["function"] and same_function(components(row["function"]), want)]


def compare_site(check, doc, pool, site, one_thread):
    where = f"pool {pool}: {site['function']}"
    pairs = {"count": "allocs", "bytes": "bytes", "live_count": "live", "live_bytes": "live_bytes"}
    if one_thread:
        pairs["temporary"] = "temporary"
    for kind in ("sites", "groups"):
        rows = rows_of(doc[kind], pool, site)
        for ours, theirs in pairs.items():
            check.same(f"{where}: {kind}: {ours}", sum(row[ours] for row in rows), site[theirs])
        if kind == "groups":
            check.same(f"{where}: groups", len(rows), 1)
            check.same(f"{where}: peak_bytes", sum(row["peak_bytes"] for row in rows),
                       site["max_live_bytes"])
    if NO_CALLSTACK not in site["function"]:
        files = {row["file"].split("/")[-1] for row in rows_of(doc["sites"], pool, site)}
        check.same(f"{where}: files", files, {site["file"]})


def compare(doc, truth):
    check = Comparison()
    pools = {pool["name"]: pool for pool in doc["pools"]}
    wanted = {pool["name"] or "default": pool for pool in truth["pools"] if pool["allocs"]}
    check.same("schema", doc["schema"], "tidemark.report/1")
    check.same("pools", sorted(pools), sorted(wanted))
    for name, want in wanted.items():
        if name not in pools:
            continue
        compare_pool(check, name, pools[name], want)
        for site in want["sites"]:
            compare_site(check, doc, name, site, truth["threads"] == 1)
        for kind in ("sites", "groups"):
            rows = [row for row in doc[kind] if row["pool"] == name]
            check.same(f"pool {name}: bytes of all {kind}", sum(row["bytes"] for row in rows),
                       want["total_bytes"])
            check.same(f"pool {name}: at-peak bytes of all {kind}",
                       sum(row["at_peak_bytes"] for row in rows), want["peak_bytes"])
    return check


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[3], encoding="utf-8") as file:
        truth = json.load(file)
    check = compare(report(sys.argv[1], sys.argv[2]), truth)
    for line in check.differences:
        print(f"{sys.argv[2]}: {line}")
    if check.differences:
        print(f"{sys.argv[2]}: {len(check.differences)} of {check.compared} figures differ")
        return 1
    print(f"{sys.argv[2]}: {check.compared} figures agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
