#!/usr/bin/env python3
"""Makes a job of any size: the events of a real or made trace, again and again, later each time.

    make.py SOURCE OUT --ranks 8 --megabytes 128 [--gzip] [--files-of-one]

SOURCE is one Kineto file, or a folder whose files are taken in turn, one for each rank. The text is
laid out as Kineto lays it out: one member of the arguments per line, `baseTimeNanoseconds` last.
Times, correlations and the ids of operators and arrows move from copy to copy, so that no two
events are the same. Prints the events of each file, for the checks of the benchmark.
"""

import argparse
import gzip
import json
import sys
from pathlib import Path

# Ids that must differ between copies.
IDS = {"correlation", "External id", "external id", "Record function id", "Ev Idx", "Python id",
       "Python parent id"}


def load(path):
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return json.loads(data, parse_float=str, strict=False)


def scalar(value):
    """JSON text; floats were read as text, so that their digits stay."""
    return json.dumps(value, ensure_ascii=False)


def nanos(text):
    """Whole nanoseconds of a decimal number of microseconds."""
    whole, _, fraction = str(text).partition(".")
    return int(whole) * 1000 + int((fraction + "000")[:3])


class Template:
    """The text of one event with places for its time and its ids."""

    def __init__(self, event):
        self.slots = []
        parts = []

        def put(text):
            parts.append(text.replace("%", "%%"))

        def slot(kind, value):
            self.slots.append((kind, value))
            parts.append("%s")

        put('  {\n    "ph": %s' % scalar(event["ph"]))
        for key in ("cat", "name", "pid", "tid"):
            if key in event:
                put(', "%s": %s' % (key, scalar(event[key])))
        if "id" in event:
            put(', "id": ')
            if isinstance(event["id"], int):
                slot("id", event["id"])
            else:
                put(scalar(event["id"]))
        if "ts" in event:
            put(',\n    "ts": ')
            slot("ts", nanos(event["ts"]))
        if "dur" in event:
            dur = nanos(event["dur"])
            put(', "dur": %d.%03d' % divmod(dur, 1000))
        for key in event:
            if key not in {"ph", "cat", "name", "pid", "tid", "id", "ts", "dur", "args"}:
                put(', "%s": %s' % (key, scalar(event[key])))
        if "args" in event:
            put(',\n    "args": {')
            args = event["args"] if isinstance(event["args"], dict) else {}
            for i, (key, value) in enumerate(args.items()):
                put("%s\n      %s: " % ("," if i else "", scalar(key)))
                if key in IDS and isinstance(value, int) and value > 0:
                    slot("id", value)
                else:
                    put(scalar(value))
            put("\n    }")
        put("\n  }")
        self.text = "".join(parts)

    def fill(self, shift, ids):
        values = []
        for kind, value in self.slots:
            if kind == "ts":
                values.append("%d.%03d" % divmod(value + shift, 1000))
            else:
                values.append(value + ids)
        return self.text % tuple(values)


def make(source, target, rank, world, size, compress):
    trace = load(source)
    if isinstance(trace, list):
        trace = {"traceEvents": trace}
    events = [e for e in trace["traceEvents"] if isinstance(e, dict) and "ph" in e]
    once = [Template(e) for e in events if e["ph"] == "M"]
    again = [(e["ph"], Template(e)) for e in events if e["ph"] != "M"]
    times = [nanos(e["ts"]) for e in events if "ts" in e and e["ph"] != "M"]
    span = max(times) - min(times) + 1_000_000
    base = 0
    if min(times) < 10**18:
        base = int(trace.get("baseTimeNanoseconds", 1_712_000_000_000_000_000))
    header = {k: v for k, v in trace.items() if k not in {"traceEvents", "baseTimeNanoseconds"}}
    info = dict(header.get("distributedInfo") or {"backend": "nccl"})
    info.update(rank=rank, world_size=world)
    header["distributedInfo"] = info
    opened = gzip.open(target, "wb", 6) if compress else open(target, "wb")
    written = rows = 0
    with opened as out:
        text = "{\n"
        for key, value in header.items():
            text += '  %s: %s,\n' % (scalar(key), json.dumps(value))
        text += '  "traceEvents": [\n' + ",\n".join(t.fill(0, 0) for t in once)
        first = not once
        copy = 0
        while written < size:
            chunk = []
            for phase, template in again:
                chunk.append(template.fill(copy * span, copy * 10_000_000))
                rows += phase in "XiIRB"
            block = (text + ("" if first else ",\n") + ",\n".join(chunk)).encode()
            text, first = "", False
            out.write(block)
            written += len(block)
            copy += 1
        end = '\n  ],\n  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": %d\n}\n' % base
        out.write(end.encode())
    print("%s\t%d\t%d" % (target, written, rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--megabytes", type=float, default=128)
    parser.add_argument("--gzip", action="store_true")
    options = parser.parse_args()
    sources = [options.source]
    if options.source.is_dir():
        sources = sorted(p for p in options.source.iterdir() if ".json" in p.name)
    if not sources:
        sys.exit(f"no Kineto file in {options.source}")
    options.out.mkdir(parents=True, exist_ok=True)
    for rank in range(options.ranks):
        name = f"rank{rank}_trace.json" + (".gz" if options.gzip else "")
        make(sources[rank % len(sources)], options.out / name, rank, options.ranks,
             options.megabytes * 1e6, options.gzip)


if __name__ == "__main__":
    main()
