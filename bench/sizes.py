"""Sizes that all parts of the benchmark share, from the environment.

BENCH_SCALE   what every size is multiplied by; 0.03 takes seconds and only shows that all of it runs
BENCH_ROUNDS  how often each figure is taken; the least counts"""

import os

SCALE = float(os.environ.get("BENCH_SCALE", "1"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))


def scaled(size):
    return max(1, round(size * SCALE))
