#!/usr/bin/env python3
"""Measures ingest against other ways to read the same files, in one run.

    benches/run.py [--source PATH] [--dir DIR] [--runs 5] [--growth] [--quick] [--binary PATH]

Makes a job of 8 ranks with 1 GB of Kineto JSON out of SOURCE (a Kineto file or a folder of them;
the default is an example of this repository), plain and gzipped, and one file of the same size.
Then runs in turn, several times: `ccl-sql ingest`, `gzip -dc`, DuckDB's `read_json` to Parquet
(through `ccl-sql sql`), and where Python has them orjson and HolisticTraceAnalysis. Prints medians
of wall time, CPU time and peak memory, and the ratios that matter. `--growth` adds files of 100 MB,
1 GB and 4 GB; `--quick` leaves out what takes minutes. The rows of every ingest are compared with
what was written.
"""

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parent / "trace_collection/llama-tiny-fsdp2-tp2-4"


def target():
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return Path(os.environ.get("CARGO_TARGET_DIR", cache + "/ccl-sql/target"))


def parse(parser, runs):
    """The options that all benchmarks have, beside those of `parser`."""
    parser.add_argument("--dir", type=Path, default=target() / "bench")
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--binary", type=Path, default=target() / "release/ccl-sql")
    parser.add_argument("--page", type=Path, help="a Markdown file that the table is added to")
    parser.add_argument("--quick", action="store_true", help="without what takes minutes")
    return parser.parse_args()


def measure(command):
    """Wall seconds, CPU seconds and peak bytes of a command and its children."""
    run = subprocess.run([sys.executable, HERE / "measure.py", *command], capture_output=True)
    if run.returncode != 0:
        sys.exit(f"{command} failed:\n{run.stderr.decode(errors='replace')}")
    return json.loads(run.stdout)


def make(source, out, ranks, megabytes):
    """Makes a data set unless it is there; the rows of it."""
    counted = out.with_suffix(".rows")
    if not counted.exists():
        shutil.rmtree(out, ignore_errors=True)
        text = subprocess.run(
            [sys.executable, HERE / "make.py", source, out, "--ranks", str(ranks),
             "--megabytes", str(megabytes)],
            check=True, capture_output=True, text=True).stdout
        counted.write_text(str(sum(int(line.split("\t")[2]) for line in text.splitlines())))
    return int(counted.read_text())


def compress(plain, out):
    if out.exists():
        return
    part = out.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for file in sorted(plain.iterdir()):
        with open(part / (file.name + ".gz"), "wb") as packed:
            subprocess.run(["gzip", "-6", "-c", file], check=True, stdout=packed)
    part.rename(out)


class Bench:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.results = {}
        self.events = {}
        self.facts = []

    def ingest(self, name, job, rows, count="count(*)"):
        data = self.folder / "data"
        self.events[name] = rows

        def once():
            shutil.rmtree(data, ignore_errors=True)
            found = measure([self.binary, "--data", data, "ingest", job])
            text = subprocess.run(
                [self.binary, "--data", data, "--format", "csv", "sql",
                 f"SELECT {count} FROM events"],
                check=True, capture_output=True, text=True).stdout
            if int(text.split()[-1]) != rows:
                sys.exit(f"{name}: {text.split()[-1]} events, {rows} were written")
            return found

        return name, once

    def shell(self, name, command):
        return name, lambda: measure(["sh", "-c", command])

    def duckdb(self, name, job):
        """The least that DuckDB can do with such a file: each event stays JSON text."""
        out = self.folder / "duckdb"
        statements = "".join(
            f"COPY (SELECT unnest(traceEvents) AS event FROM read_json('{file}',"
            " maximum_object_size = 2147483647, columns = {traceEvents: 'JSON[]'})) TO"
            f" '{out}/{file.name}.parquet' (FORMAT parquet, COMPRESSION zstd);\n"
            for file in sorted(job.iterdir()))
        script = self.folder / "duckdb.sql"
        script.write_text(statements)

        def once():
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            return measure([self.binary, "--memory-limit", "12GB", "--data", self.folder / "data",
                            "sql", "--file", script])

        return name, once

    def python(self, name, code, module):
        if importlib.util.find_spec(module) is None:
            print(f"left out: {name} (Python has no {module})")
            return None
        return name, lambda: measure([sys.executable, "-c", code])

    def run(self, cases, runs):
        """Each case once, then again, so that a busy moment of the machine hits all alike."""
        cases = [case for case in cases if case]
        found = {name: [] for name, _ in cases}
        for _ in range(runs):
            for name, once in cases:
                found[name].append(once())
        for name, of in found.items():
            self.results[name] = [statistics.median(column) for column in zip(*of)]
            wall, cpu, peak = self.results[name]
            print(f"{name:44} {wall:8.2f} s wall {cpu:8.2f} s CPU {peak / 1e6:8.0f} MB", flush=True)

    def speed(self, name, size):
        """Megabytes of an input of `size` bytes by time."""
        wall, cpu, _ = self.results[name]
        rates = f"{size / 1e6 / wall:8.1f} MB/s {size / 1e6 / cpu:8.1f} MB per CPU second"
        print(f"{name:44} {rates}")

    def ratio(self, text, a, b, column):
        if a in self.results and b in self.results:
            value = self.results[a][column] / self.results[b][column]
            self.fact(text, f"{value:.2f}")

    def fact(self, text, value):
        self.facts.append(f"- {text}: {value}")
        print(f"{text:66} {value:>6}")

    def page(self, options, title, about):
        """Adds what was found to a page, as Markdown."""
        if not options.page:
            return
        said = subprocess.run(
            [self.binary, "--version"], check=True, capture_output=True, text=True).stdout
        commit = next(line.split()[1] for line in said.splitlines() if line.startswith("commit"))
        rows = []
        for name, (wall, cpu, peak) in self.results.items():
            events = self.events.get(name)
            each = f"{cpu / events * 1e6:.1f} us" if events else ""
            rows.append(f"| {name} | {wall:.2f} s | {cpu:.2f} s | {each} | {peak / 1e6:.0f} MB |")
        text = "\n".join([
            f"### {title}", "", about,
            f"Medians of {options.runs} runs in turn, at commit {commit[:9]}.", "",
            "| | wall | CPU | CPU per event | peak memory |", "| --- | --- | --- | --- | --- |",
            *rows, "", *self.facts, *([""] if self.facts else []), ""])
        with open(options.page, "a") as page:
            page.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--source", type=Path, default=EXAMPLE)
    parser.add_argument("--growth", action="store_true")
    options = parse(parser, runs=5)
    folder = options.dir / options.source.name.split(".")[0]
    folder.mkdir(parents=True, exist_ok=True)
    plain, packed, single = folder / "plain", folder / "gzip", folder / "single"
    rows = make(options.source, plain, 8, 128)
    compress(plain, packed)
    one = make(options.source, single, 1, 1024)
    size = sum(file.stat().st_size for file in plain.iterdir())
    about = f"{size / 1e6:.0f} MB in 8 files, {rows / 1e6:.2f} million events"
    print(f"{about}; medians of {options.runs} runs")
    bench = Bench(options.binary, folder)
    files = f"{plain}/*.json"
    read = "import glob, orjson\nfor f in sorted(glob.glob(%r)): orjson.loads(open(f, 'rb').read())"
    hta = ("from hta.trace_analysis import TraceAnalysis\n"
           "TraceAnalysis(trace_dir=%r).get_comm_comp_overlap(visualize=False)" % str(packed))
    bench.run([
        bench.ingest("ccl-sql ingest, 8 x .json.gz", packed, rows),
        bench.shell("gzip -dc, 8 x .json.gz", f"gzip -dc {packed}/*.gz > /dev/null"),
        bench.ingest("ccl-sql ingest, 8 x .json", plain, rows),
        bench.ingest("ccl-sql ingest, 1 x .json", single, one),
        None if options.quick else bench.duckdb("DuckDB read_json to Parquet, 8 x .json", plain),
        bench.python("orjson.loads, 8 x .json", read % files, "orjson"),
        None if options.quick else bench.python("HolisticTraceAnalysis, 8 x .json.gz", hta, "hta"),
    ], options.runs)
    stored = sum(f.stat().st_size for f in (folder / "data").rglob("*") if f.is_file())
    bench.ratio("ingest of .json.gz / gzip -dc, CPU (aim 0.6)",
                "ccl-sql ingest, 8 x .json.gz", "gzip -dc, 8 x .json.gz", 1)
    bench.ratio("ingest of .json / DuckDB read_json, CPU (at most 0.45, aim 0.3)",
                "ccl-sql ingest, 8 x .json", "DuckDB read_json to Parquet, 8 x .json", 1)
    bench.ratio("one file / eight files, wall (at most 1.1)",
                "ccl-sql ingest, 1 x .json", "ccl-sql ingest, 8 x .json", 0)
    share = stored / sum(f.stat().st_size for f in single.iterdir())
    bench.fact("the trace of one file on disk / its JSON", f"{share:.3f}")
    source = options.source.name.split(".")[0]
    bench.page(options, f"Kineto: a job made of `{source}`", f"{about}.")
    if options.growth:
        sizes = [100, 1000] if options.quick else [100, 1000, 4000]
        jobs = [(f"ccl-sql ingest, 1 file of {mb} MB", folder / f"grow{mb}", mb) for mb in sizes]
        bench.run([bench.ingest(name, job, make(options.source, job, 1, mb))
                   for name, job, mb in jobs], options.runs)
        for name, job, _ in jobs:
            bench.speed(name, sum(file.stat().st_size for file in job.iterdir()))
        bench.results = {name: bench.results[name] for name, _, _ in jobs}
        bench.facts = []
        bench.page(options, "Kineto: one file that grows", f"Made of `{source}`.")
    shutil.rmtree(folder / "data", ignore_errors=True)
    shutil.rmtree(folder / "duckdb", ignore_errors=True)


if __name__ == "__main__":
    main()
