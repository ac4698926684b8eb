"""Makes a program with more than 100 MB of debug information: templates in bulk. A few sources are
compiled; of each object there are many copies whose symbols have another prefix, for the compiler's
time. The result is to be looked at, not to be run."""

import pathlib
import shutil
import subprocess
import sys

SOURCE = r"""
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

template <int N> struct tag {
    int value = N;
    std::string name = "x";
    bool operator<(const tag &o) const { return value < o.value; }
};

template <int N> int use(int x)
{
    std::vector<tag<N>> all;
    std::map<tag<N>, std::unique_ptr<tag<N>>> by;
    std::function<int(const tag<N> &)> f = [x](const tag<N> &t) { return t.value + x; };
    for (int i = 0; i < x; i++) {
        all.push_back(tag<N>{i, std::to_string(i)});
        by[all.back()] = std::make_unique<tag<N>>();
    }
    std::sort(all.begin(), all.end());
    int sum = 0;
    for (const auto &t : all)
        sum += f(t) + (int)by.count(t);
    return sum;
}

template <int... Ns> int all(int x, std::integer_sequence<int, Ns...>)
{
    return (use<BASE + Ns>(x) + ...);
}

int entry(int x) { return all(x, std::make_integer_sequence<int, COUNT>()); }
"""


def make(folder, sources=2, copies=16, count=40):
    """Returns the path of the program. Sizes grow with copies and sources in proportion."""
    folder = pathlib.Path(folder)
    compiler = "g++" if shutil.which("g++") else "clang++"
    (folder / "bulk.cc").write_text(SOURCE)
    objects = []
    for i in range(sources):
        subprocess.run([compiler, "-std=c++17", "-O1", "-g", f"-DBASE={i * 1000}", f"-DCOUNT={count}",
                        "-c", "bulk.cc", "-o", f"bulk{i}.o"], cwd=folder, check=True)
        for copy in range(copies):
            name = f"bulk{i}-{copy}.o"
            subprocess.run(["objcopy", f"--prefix-symbols=p{copy}_{i}_", f"bulk{i}.o", name],
                           cwd=folder, check=True)
            objects.append(name)
    program = folder / "bulk"
    subprocess.run(["ld", "-e", "0", "--unresolved-symbols=ignore-all", "--noinhibit-exec",
                    *objects, "-o", str(program)], cwd=folder, check=True,
                   stderr=subprocess.DEVNULL)
    for name in objects:
        (folder / name).unlink()
    return program


if __name__ == "__main__":
    print(make(sys.argv[1]))
