#!/usr/bin/env python3
"""Measures ingest of a large XPlane file against xprof's own converter, in one run.

    benches/xplane.py SOURCE [--megabytes 1000] [--python PATH] [--dir DIR] [--runs 5]
                      [--binary PATH]

SOURCE is a `.xplane.pb` file. The events of its lines are repeated, later each time, until the file
has the size asked for; names and programs stay. Then runs in turn, several times: `ccl-sql ingest`,
and, where the Python at PATH has the package `xprof`, its converters into the tables
`overview_page` and `trace_viewer`. Prints medians of wall time, CPU time and peak memory, and
megabytes of the file per second and per CPU second. The events of every ingest are compared with
those written (the two halves of an asynchronous operation are one).
"""

import argparse
import subprocess
import sys
from pathlib import Path

from run import Bench, parse

CONVERT = """
import sys
from xprof.convert import raw_to_tool_data
data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], sys.argv[2], {})
assert data
"""


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, wire type, value, the whole field) of a message."""
    at = 0
    while at < len(data):
        start = at
        key, at = read(data, at)
        if key & 7 == 0:
            value, at = read(data, at)
        else:
            length = {1: 8, 5: 4}.get(key & 7)
            if length is None:
                length, at = read(data, at)
            value, at = data[at:at + length], at + length
        yield key >> 3, key & 7, value, data[start:at]


def bytes_field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


class Line:
    """A line, its events ready to be written at other times."""

    def __init__(self, data, clocks):
        self.head, self.events, self.end = b"", [], 0
        for number, _, value, whole in fields(data):
            if number != 4:
                self.head += whole
                continue
            offset, before, after, clock = 0, b"", b"", None
            for inner, _, it, text in fields(value):
                if inner == 2:
                    offset = it
                elif inner == 1:
                    before += text
                elif inner == 4 and any(n == 1 and v in clocks for n, _, v, _ in fields(it)):
                    clock = it
                else:
                    after += text
                    self.end = max(self.end, offset + it if inner == 3 else 0)
            self.events.append((offset, before, after, clock))

    def repeat(self, copies, span):
        out = [self.head]
        for copy in range(copies):
            for offset, before, after, clock in self.events:
                event = before + b"\x10" + varint(offset + copy * span) + after
                if clock is not None:
                    parts = [(n, w, v, t) for n, w, v, t in fields(clock)]
                    event += bytes_field(4, b"".join(
                        t if w != 0 or n == 1 else varint(n << 3) + varint(v + copy * span)
                        for n, w, v, t in parts))
                out.append(bytes_field(4, event))
        return b"".join(out)


def make(source, out, megabytes):
    """The source with its events again and again; how many there are."""
    counted = out.with_suffix(".rows")
    if counted.exists():
        return int(counted.read_text())
    data = source.read_bytes()
    planes, rest, size, span, events = [], [], 0, 0, 0
    for number, _, value, whole in fields(data):
        if number != 1:
            rest.append(whole)
            continue
        head, lines, clocks, tail = b"", [], set(), b""
        for inner, _, it, text in fields(value):
            if inner == 5:
                entry = {n: v for n, _, v, _ in fields(it)}
                name = {n: v for n, _, v, _ in fields(entry.get(2, b""))}.get(2)
                if name == b"device_offset_ps":
                    clocks.add(entry.get(1, 0))
        for inner, _, it, text in fields(value):
            if inner == 3:
                lines.append(Line(it, clocks))
            elif inner < 3:
                head += text
            else:
                tail += text
        span = max([span, *(line.end for line in lines)])
        events += sum(len(line.events) for line in lines)
        size += sum(len(line.repeat(1, 0)) for line in lines)
        planes.append((head, lines, tail))
    copies = max(1, megabytes * 1_000_000 // max(size, 1))
    part = out.with_suffix(".part")
    with open(part, "wb") as file:
        for head, lines, tail in planes:
            body = [bytes_field(3, line.repeat(copies, span + 1000)) for line in lines]
            file.write(bytes_field(1, b"".join([head, *body, tail])))
        file.write(b"".join(rest))
    part.rename(out)
    counted.write_text(str(events * copies))
    return events * copies


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--python", default=sys.executable)
    options = parse(parser, runs=5)
    folder = options.dir / f"xplane-{options.source.name.split('.')[0]}-{options.megabytes}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "job.xplane.pb"
    rows = make(options.source, file, options.megabytes)
    bench = Bench(options.binary, folder)
    events = "count(*) + count(*) FILTER (args LIKE '%\"$done\":%')"
    cases = [bench.ingest("ccl-sql ingest", file, rows, events)]
    asks = [options.python, "-c", "import xprof.convert.raw_to_tool_data"]
    if options.quick:
        print("left out: xprof (it takes minutes)")
    elif subprocess.run(asks, capture_output=True).returncode == 0:
        for tool in ("overview_page", "trace_viewer"):
            command = f"'{options.python}' -c '{CONVERT}' '{file}' {tool}"
            cases.append(bench.shell(f"xprof {tool}", command))
    else:
        print(f"left out: xprof ({options.python} has no such package)")
    bench.run(cases, options.runs)
    for name in bench.results:
        bench.speed(name, file.stat().st_size)
    bench.page(options, f"XLA: `{options.source.name}`, made larger",
               f"{file.stat().st_size / 1e6:.0f} MB, {rows / 1e6:.2f} million events.")


if __name__ == "__main__":
    main()
