#!/usr/bin/env python3
"""Measures ingest of a large Nsight Systems export against Python's sqlite3 with the same tables.

    benches/nsys.py SOURCE [--megabytes 1000] [--dir DIR] [--runs 5] [--binary PATH]

SOURCE is an SQLite export. Its events are repeated, later each time and with other correlations,
until the file has the size asked for; strings and target information stay. Then runs in turn,
several times: `ccl-sql ingest`, and Python reading every table of events and writing it as CSV.
Prints medians of wall time, CPU time and peak memory, and megabytes of the file per second and per
CPU second. The events of every ingest are compared with the rows of the file.
"""

import argparse
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

from run import Bench, measure, parse

EXPORT = """
import csv, sqlite3, sys
source, out, tables = sys.argv[1], sys.argv[2], sys.argv[3:]
connection = sqlite3.connect(f"file:{source}?immutable=1", uri=True)
connection.text_factory = bytes
for table in tables:
    with open(f"{out}/{table}.csv", "w", newline="") as file:
        csv.writer(file).writerows(connection.execute(f'SELECT * FROM "{table}"'))
"""


def tables_of(connection):
    """The tables of events, with their columns."""
    found = {}
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')]
        timed = {"start", "timestamp"} & set(columns)
        placed = {"globalTid", "globalPid", "deviceId"} & set(columns)
        if name.isupper() and timed and placed and name != "DIAGNOSTIC_EVENT":
            found[name] = columns
    return found


def make(source, out, megabytes):
    """The source with its events again and again."""
    part = out.with_suffix(".part")
    part.unlink(missing_ok=True)
    shutil.copyfile(source, part)
    part.chmod(0o644)
    connection = sqlite3.connect(part)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.text_factory = bytes
    indexes = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    for (name,) in connection.execute(indexes).fetchall():
        connection.execute(f'DROP INDEX "{name.decode()}"')
    connection.text_factory = str
    tables = tables_of(connection)
    times = {"start", "end", "timestamp"}
    span, correlations = 0, 0
    for name, columns in tables.items():
        for column in times & set(columns):
            span = max(span, connection.execute(
                f'SELECT coalesce(max("{column}"), 0) FROM "{name}"').fetchone()[0])
        if "correlationId" in columns:
            correlations = max(correlations, connection.execute(
                f'SELECT coalesce(max("correlationId"), 0) FROM "{name}"').fetchone()[0])
        connection.execute(f'CREATE TEMP TABLE "copy_{name}" AS SELECT * FROM "{name}"')
    copies = 0
    while part.stat().st_size < megabytes * 1_000_000:
        copies += 1
        for name, columns in tables.items():
            def value(column):
                if column in times:
                    return f'"{column}" + {copies * (span + 1000)}'
                if column == "correlationId":
                    return f'"{column}" + {copies * (correlations + 1)}'
                return f'"{column}"'
            keep = [c for c in columns if c != "id"]
            connection.execute(
                f'INSERT INTO "{name}" ({", ".join(chr(34) + c + chr(34) for c in keep)}) '
                f'SELECT {", ".join(map(value, keep))} FROM temp."copy_{name}"')
        connection.commit()
    connection.close()
    part.rename(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("--megabytes", type=int, default=1000)
    options = parse(parser, runs=5)
    folder = options.dir / f"nsys-{options.source.stem}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{options.megabytes}.sqlite"
    if not file.exists():
        make(options.source, file, options.megabytes)
    connection = sqlite3.connect(f"file:{file}?immutable=1", uri=True)
    tables = tables_of(connection)
    rows = sum(connection.execute(f'SELECT count(*) FROM "{t}"').fetchone()[0] for t in tables)
    size = file.stat().st_size
    print(f"{size / 1e6:.0f} MB, {rows} events; medians of {options.runs} runs")
    bench = Bench(options.binary, folder)
    out = folder / "csv"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    command = [sys.executable, "-c", EXPORT, file, out, *tables]
    ours, theirs = "ccl-sql ingest", "Python sqlite3 to CSV"
    bench.run([bench.ingest(ours, file, rows), (theirs, lambda: measure(command))], options.runs)
    # Of ours at least 100 MB per CPU second.
    bench.speed(ours, size)
    bench.speed(theirs, size)
    bench.ratio("ingest / Python sqlite3, wall", ours, theirs, 0)
    bench.page(options, f"Nsight Systems: `{options.source.name}`, made larger",
               f"{size / 1e6:.0f} MB, {rows / 1e6:.2f} million events.")
    for data in ("data", "csv"):
        shutil.rmtree(folder / data, ignore_errors=True)


if __name__ == "__main__":
    main()
