#!/usr/bin/env python3
"""Measures how time, memory and files grow with each thing that a job has more of.

    benches/growth.py [--dir DIR] [--binary PATH] [--only WORD,WORD] [--quick]

Ranks, traces of a data directory, events, steps, groups, names of kernels, findings, stacks of
Python, and calls of each of 64 ranks are doubled, each alone. Every command may have 256 open files (`ulimit -n 256`). The time of
a command is that of its CPU. An exponent is the slope of the last three points on logarithms: 1 is
linear; a cost that does not depend on the size makes it smaller.
"""

import argparse
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from run import parse

#: Open files that a command may have.
FILES = 256
#: What grows, with its sizes, and those with `--quick`.
GROWTHS = {
    "ranks": ([64, 128, 256, 512, 1024, 2048, 4096], [64, 128, 256]),
    "traces": ([16, 32, 64, 128, 256, 512, 1024], [8, 16, 32]),
    "events": ([20_000 * 2**n for n in range(7)], [20_000, 40_000, 80_000]),
    "steps": ([64 * 2**n for n in range(7)], [64, 128, 256]),
    "groups": ([16 * 2**n for n in range(7)], [16, 32, 64]),
    "names": ([1000 * 2**n for n in range(7)], [1000, 2000, 4000]),
    "findings": ([1000 * 2**n for n in range(7)], [1000, 2000, 4000]),
    "stacks": ([1000 * 2**n for n in range(7)], [1000, 2000, 4000]),
    "calls": ([1000 * 2**n for n in range(5)], [250, 500, 1000]),
}
#: Ranks that make the same calls.
CALLERS = 64


class Rank:
    """The events of a rank in the form of Kineto, one after the other."""

    def __init__(self, rank=0, ranks=1, groups=1):
        self.rank, self.ranks = rank, ranks
        self.groups = [{"pg_name": f"{n}", "pg_desc": f"dp{n}", "pg_size": ranks,
                        "ranks": list(range(ranks)) if ranks <= 64 else []} for n in range(groups)]
        self.events, self.now, self.links = [], 1000.0, 0

    def slice(self, category, name, start, dur, tid, **args):
        pid = 0 if category in ("kernel", "gpu_memcpy") else 100 + self.rank
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid,
                            "ts": round(start, 3), "dur": round(dur, 3), "args": args})

    def kernel(self, name, dur=20.0, **args):
        """An operator, what it launches, and the kernel."""
        self.links += 1
        self.slice("cpu_op", "aten::op", self.now, 4.0, 1, **{"External id": self.links})
        self.slice("cuda_runtime", "cudaLaunchKernel", self.now + 1, 2.0, 1,
                   correlation=self.links, **{"External id": self.links})
        self.slice("kernel", name, self.now + 5, dur, 7, device=0, stream=7,
                   correlation=self.links, **{"External id": self.links}, **args)
        self.now += dur + 10

    def call(self, group=0):
        late = (self.rank * 7 + self.links * 13) % 20
        self.now += late
        self.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 60.0 - late, **{
            "Process Group Name": f"{group}", "Process Group Description": f"dp{group}",
            "Group size": self.ranks, "dtype": "BFloat16", "Collective name": "allreduce",
            "In msg nelems": 4096, "Out msg nelems": 4096})

    def step(self, number, kernels=8):
        start = self.now
        for n in range(kernels):
            self.kernel(f"gemm_{n % 8}")
        self.call(number % len(self.groups))
        self.slice("user_annotation", f"ProfilerStep#{number}", start - 1, self.now - start, 1)
        self.now += 5

    def write(self, path):
        about = {"backend": "nccl", "rank": self.rank, "world_size": self.ranks,
                 "pg_count": len(self.groups), "pg_config": self.groups}
        path.write_text(json.dumps({
            "schemaVersion": 1, "baseTimeNanoseconds": 1_700_000_000_000_000_000,
            "distributedInfo": about, "traceEvents": self.events}))


def make(what, size, job):
    """Writes the files of a job that has so much of something."""
    job.mkdir(parents=True)
    ranks = {"ranks": size, "calls": CALLERS}.get(what, 1)
    for number in range(ranks):
        rank = Rank(number, ranks, size if what == "groups" else 1)
        steps = {"steps": size, "groups": size, "events": size // 28}.get(what, 4)
        for step in range(steps):
            rank.step(step, kernels=2 if what in ("ranks", "steps", "groups") else 8)
        for n in range(size if what == "names" else 0):
            rank.kernel(f"void kernel_{n}<float, {n % 7}>(float*, int)")
        for n in range(size if what == "findings" else 0):
            rank.events.append({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7,
                                "ts": "soon", "dur": n})
        for n in range(size if what == "stacks" else 0):
            depth = 1 + n % 12
            for frame in range(depth):
                rank.slice("python_function", f"model.py({n % 500}): layer_{frame}",
                           rank.now + frame, 40.0 - 2 * frame, 1)
            rank.now += 50
        for n in range(size if what == "calls" else 0):
            rank.call()
        rank.write(job / f"rank{number}.json")


def measure(command):
    """CPU seconds, peak MB and open files of a command."""
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))

    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said,
                                   preexec_fn=limit)
        most, done = [0], threading.Event()

        def watch():
            while not done.wait(0.01):
                try:
                    most[0] = max(most[0], len(os.listdir(f"/proc/{process.pid}/fd")))
                except OSError:
                    return

        watcher = threading.Thread(target=watch)
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        done.set()
        watcher.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        # Where some metrics have no value, the answer is 1.
        if process.returncode not in ((0, 1) if "metric" in command else (0,)):
            said.seek(0)
            sys.exit(f"{command} failed:\n{said.read().decode(errors='replace')}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000, most[0]


def exponent(points):
    """The slope of the last three points on logarithms."""
    last = [(math.log(x), math.log(max(y, 1e-3))) for x, y in points[-3:]]
    x, y = (sum(column) / len(last) for column in zip(*last))
    return (sum((a - x) * (b - y) for a, b in last)
            / sum((a - x) ** 2 for a, _ in last))


def commands(binary, what, size, folder):
    """What is measured, by name: the ingest, and questions about what it made."""
    data, job = folder / "data", folder / "job"
    ccl = [binary, "--data", data, "-q"]
    if what == "traces":
        make("steps", 4, folder / "one")
        for number in range(size):
            subprocess.run([*ccl, "ingest", folder / "one", "--name", f"run{number:04}",
                            "--no-sync"], check=True, stdout=subprocess.DEVNULL)
        yield "list traces", [*ccl, "list", "traces"]
        yield "one metric of all", [*ccl, "metric", "coll_call_num", "--no-cache"]
        yield "a count over all", [*ccl, "sql", "SELECT count(*) FROM device_events"]
        return
    make(what, size, job)
    yield "ingest", [*ccl, "ingest", job, "--name", "job", "--no-sync"]
    yield "metric --all", [*ccl, "metric", "--all", "--no-cache"]
    if what == "stacks":
        yield "folded stacks", [*ccl, "sql", "SELECT count(*) FROM folded_stacks"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", help="some of: " + ", ".join(GROWTHS))
    options = parse(parser, runs=1)
    rows, slopes = [], []
    for what, (sizes, few) in GROWTHS.items():
        if options.only and what not in options.only.split(","):
            continue
        found = {}
        for size in few if options.quick else sizes:
            folder = options.dir / "growth" / what
            shutil.rmtree(folder, ignore_errors=True)
            for name, command in commands(options.binary, what, size, folder):
                cpu, peak, files = measure(command)
                disk = sum(1 for file in (folder / "data").rglob("*") if file.is_file())
                found.setdefault(name, []).append((size, cpu, peak, files, disk))
                rows.append(f"| {what} | {size:,} | {name} | {cpu:.2f} s | {peak:.0f} MB | {files} "
                            f"| {disk:,} |")
                print(rows[-1], flush=True)
            shutil.rmtree(folder)
        for name, points in found.items():
            slope = [exponent([(point[0], point[column]) for point in points])
                     for column in (1, 2, 4)]
            slopes.append(f"| {what} | {name} | " + " | ".join(f"{s:.2f}" for s in slope) + " |")
            print(slopes[-1], flush=True)
    text = "\n".join([
        "### Growth", "",
        f"Each command with at most {FILES} open files; exponents of the last three sizes.", "",
        "| what grows | command | CPU | memory | files on disk |",
        "| --- | --- | --- | --- | --- |", *slopes, "",
        "| what grows | size | command | CPU | peak memory | open files | files on disk |",
        "| --- | --- | --- | --- | --- | --- | --- |", *rows, ""])
    if options.page:
        with open(options.page, "a") as page:
            page.write(text + "\n")


if __name__ == "__main__":
    main()
