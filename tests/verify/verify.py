"""Recomputes the main figures of a trace from its raw files, beside what `ccl-sql` says.

    python3 verify.py PROGRAM DATA TRACE [--tolerance T] [OPTION ...]

DATA is the data directory; options behind are those of the program. It prints a list of rows as
JSON, and ends with 1 where a figure differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable
from typing import Any

import kineto
import memory
import nsys
import xla
from figures import FIGURES, Figure, Values
from raw import Rank, Trace, UnreadableError, integer

BROKEN = (
    OSError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    ArithmeticError,
    EOFError,
    RecursionError,
    MemoryError,
    zlib.error,
    sqlite3.Error,
    UnreadableError,
)
"""What reading a file that is not as it must be may end with."""

Row = dict[str, Any]
Ask = Callable[[list[str]], Any]


def asker(program: str, options: list[str]) -> Ask:
    """Asks the program, and reads what it says as JSON."""

    def ask(words: list[str]) -> Any:
        done = subprocess.run(
            [program, *words, *options, "--format", "json", "--quiet"],
            capture_output=True,
            text=True,
            check=False,
        )
        if not done.stdout.strip():
            raise SystemExit(f"{' '.join([program, *words[:2]])}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    return ask


def raw_trace(sources: list[Row], ranks: list[Row], cards: list[Row]) -> Trace:
    """Reads the raw files of a trace, by what they are."""
    kinds = {s["source"] for s in sources} & {"kineto", "nsys", "xla"}
    if len(kinds) > 1:
        raise UnreadableError("files of two profilers, of which a metric takes one")
    if not kinds and not any(s["source"] == "memory" for s in sources):
        raise UnreadableError(
            f"no reader here for {', '.join(sorted({s['source'] for s in sources}))}"
        )
    profiler = kinds.pop() if kinds else "memory"
    trace = Trace(profiler, 10**12 if profiler == "xla" else 10**9)
    # What a file holds of no rank is listed beside what it holds of one.
    once = {s["source_id"]: s for s in sources}
    # A snapshot joins the rank of a trace.
    for source in sorted(once.values(), key=lambda s: (s["source"] == "memory", s["source_id"])):
        if source["source"] not in (profiler, "memory"):
            continue
        of = [r for r in ranks if r["source_id"] == source["source_id"]]
        path = source["absolute"]
        if not os.path.isfile(path):
            raise UnreadableError(f"{source['path']} is no file, or not there any more")
        with open(path, "rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != source["sha256"]:
                raise UnreadableError(f"{source['path']} has changed since it was ingested")
        {"kineto": add_kineto, "nsys": add_nsys, "xla": add_xla, "memory": add_memory}[
            source["source"]
        ](trace, path, of)
    trace.on_host = profiler == "kineto" and not any(r.events for r in trace.ranks.values())
    if cards:
        trace.card = card(cards[0]["path"])
    return trace


def add_kineto(trace: Trace, path: str, ranks: list[Row]) -> None:
    """A rank, of the number that the file says, else of the one that was given to it."""
    file = kineto.load(path)
    number = kineto.rank_of(file)
    given = [r for r in ranks if r["rank_source"] != "trace"]
    if number is None or given:
        number = ranks[0]["rank"] if ranks else 0
    if number in trace.ranks:
        raise UnreadableError("several files of one rank")
    trace.ranks[number] = kineto.Reader(file).read()
    info = file.get("distributedInfo")
    trace.world = integer(info.get("world_size")) if isinstance(info, dict) else None
    if any(e.get("ph") == "B" for e in file["traceEvents"] if isinstance(e, dict)):
        trace.gaps["slices of the host"] = "begins and ends apart are not joined here"


def add_nsys(trace: Trace, path: str, ranks: list[Row]) -> None:
    """The ranks of an export: each process and device, by the order of devices."""
    if not path.endswith((".sqlite", ".sqlite.gz")):
        raise UnreadableError("only SQLite exports of Nsight Systems are read here")
    reader = nsys.Reader(path)
    found = reader.read()
    given = {(r["pid"], r["device"]): r["rank"] for r in ranks}
    for place, key in enumerate(sorted(found, key=lambda k: (k[1], k[0]))):
        trace.ranks[given.get(key, place)] = found[key]
    if trace.ranks:
        next(iter(trace.ranks.values())).host.update(+reader.host)


def add_xla(trace: Trace, path: str, ranks: list[Row]) -> None:
    """The devices of a host."""
    reader = xla.Reader(path)
    found = reader.read()
    first = min((r["rank"] for r in ranks), default=0)
    moved = first - min(found, default=0) if first not in found else 0
    trace.ranks.update({number + moved: rank for number, rank in found.items()})
    trace.gaps["slices of the host"] = "lines that repeat others are told apart by the reader"
    trace.gaps["communication per step"] = "nothing records what launched an operation"


def add_memory(trace: Trace, path: str, ranks: list[Row]) -> None:
    """What a snapshot holds."""
    number = ranks[0]["rank"] if ranks else 0
    trace.ranks.setdefault(number, Rank())
    if number in trace.snapshots:
        raise UnreadableError("several snapshots of one rank")
    trace.snapshots[number] = memory.figures(path)


def card(path: str) -> dict[str, str]:
    """The plain values of a workload card: mappings by their indent, and nothing else of YAML."""
    out: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file.read(1 << 20).splitlines():
            found = re.match(r"( *)([\w.-]+):(?: +([^#]*?))? *(?:#.*)?$", line)
            if not found:
                continue
            indent, key, value = len(found[1]), found[2], found[3]
            above = [a for a in above if a[0] < indent]
            if value:
                out[".".join([*(a[1] for a in above), key])] = value.strip("'\"")
            else:
                above.append((indent, key))
    return out


def said(figure: Figure, answers: dict[str, Row]) -> tuple[Values, str | None]:
    """What the program says of a figure, and why it says nothing."""
    metric, _, path = figure.ours.partition(".")
    answer = answers[metric]
    if answer["value"] is None:
        return {}, answer["reason"]
    if path == "value":
        return {"value": answer["value"]}, None
    details = answer["details"]
    if not path:
        return {k: v for k, v in details.items() if number(v) is not None}, None
    path, _, inner = path.partition("/")
    found = details.get(path)
    if inner:
        key, _, value = inner.partition(".")
        return {str(row[key]): row[value] for row in found or [] if row[value] is not None}, None
    if isinstance(found, dict):
        return {k: v for k, v in found.items() if v is not None}, None
    return ({} if found is None else {"value": found}), None


def number(value: Any) -> float | None:
    """A number that is no truth value."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def compare(figure: Figure, ours: Values, theirs: Values, tolerance: float) -> list[Row]:
    """A row of each key that either names."""
    keys = (
        [k for k in ours if k in theirs]
        if "." not in figure.ours and not figure.sql
        else sorted({*ours, *theirs})
    )
    rows = []
    for key in keys:
        mine, other = ours.get(key), theirs.get(key)
        if figure.exact or figure.sql:
            # What is not there was not counted, or adds up to nothing.
            mine, other = mine or 0.0, other or 0.0
        off = None if mine is None or other is None else apart(mine, other)
        allowed = 0.0 if figure.exact else tolerance
        rows.append(
            {
                "figure": figure.name,
                "of": figure.ours,
                "key": "" if key == "value" else key,
                "ccl_sql": mine,
                "independent": other,
                "difference": off,
                "verdict": "equal" if off is not None and off <= allowed else "differs",
                "reason": None,
            }
        )
    return rows


def apart(mine: float, other: float) -> float:
    """How far two numbers are from each other, as a share of the larger."""
    if mine == other:
        return 0.0
    off = abs(mine - other) / max(abs(mine), abs(other))
    return off if math.isfinite(off) else 1.0


def verify(ask: Ask, data: str, trace: str, tolerance: float) -> list[Row]:
    """All figures of a trace, by both."""
    with open(os.path.join(data, f"trace={trace}", "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    about = {table: ask(["sql", f"FROM {table}", "--trace", trace]) for table in ("ranks", "cards")}
    try:
        found = raw_trace(manifest["sources"], about["ranks"], about["cards"])
    except UnreadableError as error:
        return [not_done("all", "", {}, str(error))]
    except BROKEN as error:
        return [not_done("all", "", {}, f"a file cannot be read: {error!r:.200}")]
    metrics = sorted({f.ours.partition(".")[0] for f in FIGURES if not f.sql})
    raw = ["straggler_lag"]
    answers = {
        answer["metric"]: answer
        for names, more in (
            ([m for m in metrics if m not in raw], []),
            (raw, ["-p", "align=false"]),
        )
        for answer in as_list(ask(["metric", *names, "--trace", trace, *more]))
    }
    tables: dict[str, Values] = {}
    parts = [
        f"SELECT {n} AS n, key, value::DOUBLE AS value FROM ({f.sql})"
        for n, f in enumerate(FIGURES)
        if f.sql
    ]
    for row in ask(["sql", " UNION ALL ".join(parts), "--trace", trace]):
        if row["value"] is not None:
            tables.setdefault(FIGURES[row["n"]].name, {})[row["key"]] = row["value"]
    rows = []
    for figure in FIGURES:
        ours, reason = (tables.get(figure.name, {}), None) if figure.sql else said(figure, answers)
        gap = found.gaps.get(figure.name)
        if gap:
            rows.append(not_done(figure.name, figure.ours, ours, gap))
            continue
        theirs = figure.compute(found)
        if not theirs and not ours:
            continue
        rows += compare(figure, ours, theirs, tolerance)
        if reason and rows[-1]["verdict"] == "differs":
            rows[-1]["reason"] = reason
    return rows


def not_done(figure: str, of: str, ours: Values, why: str) -> Row:
    """A figure that this program does not recompute."""
    return {
        "figure": figure,
        "of": of,
        "key": "",
        "ccl_sql": ours.get("value"),
        "independent": None,
        "difference": None,
        "verdict": "not recomputed",
        "reason": why,
    }


def as_list(answers: Any) -> list[Row]:
    """Of one metric the program says one object, of several a list."""
    return answers if isinstance(answers, list) else [answers]


def main(arguments: list[str]) -> int:
    """Prints the rows; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("trace")
    parser.add_argument("--tolerance", type=float, default=1e-6)
    options, rest = parser.parse_known_args(arguments)
    ask = asker(options.program, ["--data", options.data, *rest])
    rows = verify(ask, options.data, options.trace, options.tolerance)
    json.dump(rows, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return int(any(row["verdict"] == "differs" for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
