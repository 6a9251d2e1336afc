#!/usr/bin/env python3
"""Measures what a question costs, where the trace is small and the answer is nearly all planning.

    benches/questions.py [--source PATH] [--dir DIR] [--runs 5] [--binary PATH] [--traces 200]

Ingests SOURCE (the default is an example of this repository) once, and as many times as TRACES says
into a second data directory. Then asks in turn: `sql`, one metric, the whole catalogue, a report,
the catalogue again where its answers are kept, the catalogue of all the traces, and a board of
them. Beside them stands the start of Python, which takes about as long everywhere.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from run import EXAMPLE, Bench, measure, parse


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--source", type=Path, default=EXAMPLE)
    parser.add_argument("--traces", type=int, default=200)
    options = parse(parser, runs=5)
    folder = options.dir / "questions"
    shutil.rmtree(folder, ignore_errors=True)
    one, many, out = folder / "one", folder / "many", folder / "out"
    out.mkdir(parents=True)
    source = options.source.resolve()

    def ingest(data, name):
        subprocess.run([options.binary, "--data", data, "ingest", source, "--name", name, "-q"],
                       check=True)

    ingest(one, "job")
    for i in range(options.traces):
        ingest(many, f"job{i:03}")
    bench = Bench(options.binary, folder)
    ccl = [options.binary, "--data", one, "--force"]
    every = [*ccl, "metric", "--all", "--format", "json", "-o", out / "all.json"]
    subprocess.run([*every, "-q"], check=True)
    several = [options.binary, "--data", many, "--force", "metric", "--all", "--no-cache",
               "--format", "json", "-o", out / "several.json"]
    board = [options.binary, "--data", many, "--force", "board", "--no-cache",
             "-o", out / "board"]
    cases = {
        "`sql \"SELECT 1\"`": [*ccl, "sql", "SELECT 1"],
        "`metric coll_call_num`": [*ccl, "metric", "coll_call_num", "--no-cache"],
        "`metric --all`": [*every, "--no-cache"],
        "`metric --all`, kept": every,
        "`report`": [*ccl, "report", "--no-cache", "-o", out / "report.html"],
        f"`metric --all` of {options.traces} traces": several,
        f"`board` of {options.traces} traces": board,
        "python3 -c pass": [sys.executable, "-c", "pass"],
    }
    bench.run([(name, lambda command=command: measure(command))
               for name, command in cases.items()], options.runs)
    bench.page(options, f"Questions about a small trace: `{options.source.name}`",
               "Nothing is kept from run to run, unless the row says so.")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
