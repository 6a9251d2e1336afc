#!/usr/bin/env python3
"""Measures how an ingest grows with the ranks of a job, and with the size of its process groups.

    benches/ranks.py [--dir DIR] [--runs 3] [--binary PATH] [--calls 200]

Makes jobs of 16 to 1,024 ranks whose ranks all call the same all-reduces: each job once with groups
of 8 ranks, and once with one group of all. Every rank lists its groups whole, as the header of
Kineto does. What an ingest takes is divided by the calls: a line that does not rise is linear.
"""

import argparse
import json
import shutil

from run import Bench, parse

#: Ranks of the jobs, and those with `--quick`.
RANKS, QUICK = (16, 64, 256, 1024), (16, 64, 256)


def rank_file(rank, ranks, size, calls):
    """The trace of a rank: a kernel of NCCL for each call, late by a little that differs."""
    first = rank // size * size
    members = list(range(first, first + size))
    group = {"Process Group Name": f"{first}", "Process Group Description": "dp",
             "Group size": size, "dtype": "BFloat16", "Collective name": "allreduce"}
    events = [{
        "ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
        "pid": rank % 8, "tid": 20, "ts": 1000 * call + (rank * 7 + call * 13) % 50,
        "dur": 400, "args": {**group, "stream": 20, "device": rank % 8, "correlation": call + 1,
                             "In msg nelems": 4096, "Out msg nelems": 4096},
    } for call in range(calls)]
    config = {"pg_name": f"{first}", "pg_desc": "dp", "pg_size": size, "ranks": members}
    return {"schemaVersion": 1, "baseTimeNanoseconds": 1700000000000000000,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks,
                                "pg_count": 1, "pg_config": [config]},
            "traceEvents": events}


def make(folder, ranks, size, calls):
    """A job, unless it is there."""
    done = folder / "done"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "job").mkdir(parents=True)
        for rank in range(ranks):
            trace = rank_file(rank, ranks, size, calls)
            (folder / "job" / f"rank{rank}.json").write_text(json.dumps(trace))
        done.touch()
    return folder / "job"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=200)
    options = parse(parser, runs=3)
    folder = options.dir / "ranks"
    bench = Bench(options.binary, folder)
    cases = []
    for ranks in QUICK if options.quick else RANKS:
        for size in (8, ranks):
            job = make(folder / f"{ranks}x{options.calls}-{size}", ranks, size, options.calls)
            name = f"{ranks} ranks, groups of {size}"
            cases.append(bench.ingest(name, job, ranks * options.calls))
    bench.run(cases, options.runs)
    bench.page(options, "Growth with ranks",
               f"{options.calls} all-reduces a rank; a call is one event of each of its ranks.")
    shutil.rmtree(folder / "data", ignore_errors=True)


if __name__ == "__main__":
    main()
