#!/usr/bin/env python3
"""Measures the whole catalogue against one `json.load` of the same job, in one run.

    benches/metrics.py [JOB...] [--source PATH] [--dir DIR] [--runs 3] [--binary PATH]

For each JOB (a folder or file), and for a job of 8 ranks and 1 GB made of SOURCE as in
benches/run.py: `ccl-sql metric --all` and `ccl-sql report` on the ingested trace, and `json.load`
of its files in Python, in turn. The next question has no answers, and finds what is kept of each
rank. Prints medians of wall time, CPU time and peak memory, their ratio,
the slowest metrics by themselves, and how many answer. What views in parts take counts for the
first metric that reads one. JOB files that are no JSON are measured without the peer.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from run import EXAMPLE, Bench, make, measure, parse

LOAD = """
import gzip, json, sys
for name in sys.argv[1:]:
    with (gzip.open if name.endswith('.gz') else open)(name, 'rb') as file:
        json.load(file)
"""


def bench(job, options):
    data = options.dir / "metrics-data"
    shutil.rmtree(data, ignore_errors=True)
    ccl = [options.binary, "--data", data]
    subprocess.run([*ccl, "ingest", job, "--name", "job", "-q"], check=True)
    out = data / "all.json"
    every = [*ccl, "metric", "--all", "--no-cache", "--format", "json", "-o", out, "--force"]
    files = sorted(job.iterdir()) if job.is_dir() else [job]
    files = [file for file in files if re.search(r"\.json(\.gz)?$", file.name)]
    size = sum(file.stat().st_size for file in files)
    print(f"\n{job.name}: {len(files)} files, {size / 1e6:.0f} MB")
    found = Bench(options.binary, options.dir)
    report = [*ccl, "report", "job", "--no-cache", "--format", "json", "-o", data / "report.json",
              "--force", "-q"]
    answers = data / "trace=job" / ".answers"

    def with_partials(command):
        answers.unlink(missing_ok=True)
        return measure([word for word in command if word != "--no-cache"])

    # What is of each rank is kept from here on.
    for command in ([*every, "-q"], report):
        with_partials(command)
    cases = [("ccl-sql metric --all", lambda: measure([*every, "-q"])),
             ("ccl-sql metric --all, next question", lambda: with_partials([*every, "-q"])),
             ("ccl-sql report", lambda: measure(report)),
             ("ccl-sql report, next question", lambda: with_partials(report))]
    if files:
        load = [sys.executable, "-c", LOAD, *files]
        cases.append(("json.load of the files", lambda: measure(load)))
    found.run(cases, options.runs)
    found.ratio("metric --all / json.load, CPU (at most 1)", cases[0][0], cases[-1][0], 1)
    results = json.loads(out.read_text())
    values = sum(result["value"] is not None for result in results)
    print(f"{values} of {len(results)} metrics answer")
    text = subprocess.run([*every, "-v"], check=True, capture_output=True, text=True).stderr
    times = [(int(ms), name) for name, ms in re.findall(r"^(\S+) of job: (\d+) ms$", text, re.M)]
    if len(times) != len(results):
        sys.exit(f"{len(times)} times of {len(results)} metrics")
    slowest = sorted(times, reverse=True)[:8]
    for ms, name in slowest:
        print(f"    {name:40} {ms:5} ms")
    found.fact("slowest metric", f"`{slowest[0][1]}`, {slowest[0][0]} ms")
    found.page(options, f"The whole catalogue: `{options.source.name}`",
               f"{len(results)} metrics of {size / 1e6:.0f} MB of JSON; {values} answer.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("jobs", type=Path, nargs="*")
    parser.add_argument("--source", type=Path, default=EXAMPLE)
    options = parse(parser, runs=3)
    made = options.dir / options.source.name.split(".")[0]
    made.mkdir(parents=True, exist_ok=True)
    make(options.source, made / "plain", 8, 128)
    for job in [*options.jobs, made / "plain"]:
        bench(job.resolve(), options)


if __name__ == "__main__":
    main()
