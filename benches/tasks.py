#!/usr/bin/env python3
"""Measures the steps of an ingest in tasks: CPU and memory of each, all of its tasks one after the
other.

    benches/tasks.py JOB [JOB...] [--dir DIR] [--binary PATH] [--page FILE]

Says which share of the CPU is work of one machine: that of steps with one task for all files, or
one for a trace. The start of a process counts, as it does for whoever runs the tasks.
"""

import argparse
import shutil
import subprocess
from pathlib import Path

from run import Bench, measure, parse

STEPS = ("read", "layout", "join", "derive", "groups", "place", "match", "collect", "finish")
#: Steps that one machine does for all.
OF_ONE = ("layout", "groups", "match", "finish")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("jobs", type=Path, nargs="+")
    options = parse(parser, runs=1)
    data = options.dir / "tasks-data"
    for job in options.jobs:
        shutil.rmtree(data, ignore_errors=True)
        planned = subprocess.run([options.binary, "plan", job.resolve(), "--data", data],
                                 check=True, stdout=subprocess.PIPE, text=True)
        plan = planned.stdout.strip()
        bench = Bench(options.binary, options.dir)
        bench.run([(f"task {step}", lambda step=step: measure([options.binary, "task", step, plan]))
                   for step in STEPS], 1)
        cpu = {step: bench.results[f"task {step}"][1] for step in STEPS}
        share = 100 * sum(cpu[step] for step in OF_ONE) / sum(cpu.values())
        bench.fact("work of one machine, of the CPU", f"{share:.1f} %")
        bench.page(options, f"An ingest in tasks: `{job.name}`", "One run.")
    shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main()
