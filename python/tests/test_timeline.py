"""Timelines of Perfetto against the tables, which are read from their Parquet files."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import LLAMA, ROOT, Run
from pftrace import Slice, read

import ccl_sql

NSYS = ROOT / "trace_collection" / "ulysses-tiny-nsys-2"
GLOO = ROOT / "trace_collection" / "gloo-ddp-2rank"
XLA = ROOT / "trace_collection" / "jax-cpu-8dev"
TRACES = [LLAMA, NSYS, GLOO, XLA]


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with traces of each profiler."""
    place = tmp_path_factory.mktemp("several") / "ccl-data"
    ccl_sql.ingest(TRACES, place, no_sync=True)
    return place


class Tables:
    """The tables of a trace, from its files."""

    def __init__(self, data: Path, trace: str) -> None:
        self.folder = data / f"trace={trace}"
        self.connection = duckdb.connect()

    def rows(self, table: str, sql: str) -> list[Any]:
        """Rows of a query on a table that it calls `t`; none where there is no such file."""
        files = sorted(str(file) for file in (self.folder / table).rglob("*.parquet"))
        if not files:
            return []
        view = f"WITH t AS (SELECT * FROM read_parquet({files!r}, union_by_name = true)) {sql}"
        return self.connection.execute(view).fetchall()


def by_event(events: list[Slice]) -> dict[int, Slice]:
    """What was recorded, by the number of the event: each once."""
    of = [e for e in events if "event_id" in e.args and "kind" not in e.args]
    out = {e.args["event_id"]: e for e in of}
    assert len(out) == len(of)
    return out


@pytest.mark.parametrize("trace", [t.name for t in TRACES])
def test_every_event_is_on_the_timeline(
    tmp_path: Path, run: Run, several: Path, trace: str
) -> None:
    run("export", trace, "-p", "align=false", "-o", "t.pftrace.gz", "--data", several, check=True)
    timeline = read(tmp_path / "t.pftrace.gz")
    base = timeline.attributes["base_ns"]
    tables = Tables(several, trace)
    found = by_event(timeline.slices) | by_event(timeline.instants)
    count = 0
    for table in ("device_events", "host_events"):
        sql = "SELECT event_id, rank, name, category, ts_ns, dur_ns FROM t"
        for event_id, rank, name, category, ts, dur in tables.rows(table, sql):
            event = found[event_id]
            assert (event.ts + base, event.dur) == (ts, dur)
            assert (event.name, event.category) == (name, category)
            process = timeline.process(event.track)
            assert process == ("all ranks" if rank is None else f"rank {rank}")
            count += 1
    assert count == len(found) > 0
    samples = sum(len(of) for of in timeline.samples.values())
    counted = tables.rows("counters", "SELECT count(*) FROM t WHERE isfinite(value)")
    assert samples == (counted[0][0] if counted else 0)


@pytest.mark.parametrize("trace", [t.name for t in TRACES])
def test_arrows_lead_from_the_last_rank_and_from_launches(
    tmp_path: Path, run: Run, several: Path, trace: str
) -> None:
    run("export", trace, "-p", "align=false", "-o", "t.pftrace.gz", "--data", several, check=True)
    timeline = read(tmp_path / "t.pftrace.gz")
    tables = Tables(several, trace)
    sql = "SELECT source, collective_id, rank, ts_ns, dur_ns, event_id FROM t \
           WHERE collective_id IS NOT NULL AND dur_ns IS NOT NULL"
    calls: dict[Any, list[Any]] = {}
    for source, call, *share in tables.rows("collectives", sql):
        calls.setdefault((source, call), []).append(share)
    wanted = set()
    for shares in calls.values():
        # The last to start, of equals the lowest rank; those that had left wait for nobody.
        last = min(shares, key=lambda share: (-share[1], share[0]))
        for share in shares:
            if share is not last and share[1] + share[2] > last[1]:
                wanted.add((last[3], share[3]))
    sql = "SELECT runtime_event_id, event_id FROM t WHERE runtime_event_id IS NOT NULL"
    launched = set(tables.rows("launches", sql))
    found = Counter(
        (start.args["event_id"], end.args["event_id"]) for start, end in timeline.arrows.values()
    )
    assert set(found) == wanted | launched
    assert set(found.values()) <= {1}
    if trace in (LLAMA.name, NSYS.name):
        assert wanted
        assert launched


def test_calls_say_what_they_wait_for(tmp_path: Path, run: Run, several: Path) -> None:
    run("export", LLAMA.name, "-o", "t.pftrace", "--data", several, check=True)
    timeline = read(tmp_path / "t.pftrace")
    found = by_event(timeline.slices)
    sql = "SELECT event_id, collective, message_bytes, group_size FROM t"
    for event_id, kind, size, group in Tables(several, LLAMA.name).rows("collectives", sql):
        args = found[event_id].args
        assert (args["collective"], args.get("message_bytes")) == (kind, size)
        assert args.get("group_size") == group
    waited = [s for s in found.values() if "transfer_ns" in s.args]
    assert waited
    assert all((s.dur or 0) >= s.args["transfer_ns"] for s in waited)


def test_clocks_are_aligned_and_say_so(tmp_path: Path, run: Run, several: Path) -> None:
    run("export", LLAMA.name, "-o", "t.pftrace", "--data", several, check=True)
    timeline = read(tmp_path / "t.pftrace")
    at = timeline.attributes
    base = at["base_ns"]
    assert timeline.realtime_ns in (None, base)
    found = by_event(timeline.slices) | by_event(timeline.instants)
    sql = "SELECT event_id, rank, ts_ns FROM t"
    for event_id, rank, ts in Tables(several, LLAMA.name).rows("device_events", sql):
        assert found[event_id].ts + base == ts - at.get(f"clock_offset_ns.{rank}", 0)


def test_the_account_of_a_step_is_its_spans(tmp_path: Path, run: Run, several: Path) -> None:
    for trace in (LLAMA.name, NSYS.name, GLOO.name):
        run("export", trace, "-o", "t.pftrace", "--force", "--data", several, check=True)
        timeline = read(tmp_path / "t.pftrace")
        sql = (
            "SELECT 'rank ' || rank, coalesce('device ' || device, ''), step, part, sum(time_ns) "
            f"FROM step_account WHERE trace = '{trace}' AND time_ns > 0 GROUP BY ALL"
        )
        answer = run("sql", sql, "--format", "json", "--data", several, check=True)
        wanted = {
            tuple(list(row.values())[:4]): list(row.values())[4]
            for row in json.loads(answer.stdout)
        }
        found, spans = {}, Counter[tuple[Any, ...]]()
        for step in timeline.on("account"):
            device = timeline.name(step.track).removeprefix("account").removeprefix(" · ")
            process = timeline.process(step.track)
            times = {k[:-3]: v for k, v in step.args.items() if k.endswith("_ns") and v}
            assert sum(times.values()) == step.dur
            for part, time in times.items():
                found[(process, device, step.args.get("step"), part)] = time
            for of in timeline.on("busy") + timeline.on("idle"):
                same = timeline.name(of.track).endswith(device)
                if timeline.process(of.track) == process and same and of.name != "other":
                    end = min(of.ts + (of.dur or 0), step.ts + (step.dur or 0))
                    inside = max(0, end - max(of.ts, step.ts))
                    spans[(process, device, step.args.get("step"), of.name)] += inside
        assert found == wanted
        assert wanted, trace
        assert +spans == Counter({k: v for k, v in found.items() if k[3] != "other"})


def test_the_path_is_without_gap(tmp_path: Path, run: Run, several: Path) -> None:
    run("export", LLAMA.name, "-o", "t.pftrace", "--data", several, check=True)
    path = sorted(read(tmp_path / "t.pftrace").on("critical path"), key=lambda s: s.ts)
    answer = run(
        "metric",
        "critical_path",
        "--trace",
        LLAMA.name,
        "-p",
        "align=true",
        "--format",
        "json",
        "--data",
        several,
        check=True,
    )
    details = json.loads(answer.stdout)["details"]
    segments = details["segments"]
    assert [s.dur for s in path] == [s["dur_ns"] for s in segments]
    assert [s.args["kind"] for s in path] == [s["kind"] for s in segments]
    assert all(a.ts + (a.dur or 0) == b.ts for a, b in pairwise(path))


def test_steps_phases_and_idle_time_are_those_of_the_tables(
    tmp_path: Path, run: Run, several: Path
) -> None:
    run("export", LLAMA.name, "-p", "align=false", "-o", "t.pftrace", "--data", several, check=True)
    timeline = read(tmp_path / "t.pftrace")
    base, tables = timeline.attributes["base_ns"], Tables(several, LLAMA.name)

    def spans(track: str) -> Counter[Any]:
        return Counter(
            (timeline.process(s.track), s.name, s.ts + base, s.dur) for s in timeline.on(track)
        )

    steps = "SELECT 'rank ' || rank, 'step ' || step, ts_ns, dur_ns FROM t"
    assert spans("steps") == Counter(tables.rows("steps", steps))
    phases = "SELECT 'rank ' || rank, phase, ts_ns, dur_ns FROM t"
    assert spans("phases") == Counter(tables.rows("phases", phases))


def test_selections_bound_what_is_written(tmp_path: Path, run: Run, several: Path) -> None:
    def events(*words: str) -> dict[int, Slice]:
        run(
            "export",
            LLAMA.name,
            "-o",
            "t.pftrace",
            "--force",
            "--data",
            several,
            *words,
            "-p",
            "align=false",
            check=True,
        )
        timeline = read(tmp_path / "t.pftrace")
        return by_event(timeline.slices) | by_event(timeline.instants)

    tables = Tables(several, LLAMA.name)

    def wanted(condition: str, *of: str) -> set[int]:
        tables_of = of or ("device_events", "host_events")
        sql = f"SELECT event_id FROM t WHERE {condition}"
        return {row[0] for table in tables_of for row in tables.rows(table, sql)}

    assert set(events("--ranks", "0-1,3")) == wanted("rank IN (0, 1, 3)")
    assert set(events("--min-dur", "10us")) == wanted("dur_ns >= 10000")
    assert set(events("--only", "host")) == wanted("class <> 'device_annotation'", "host_events")
    assert set(events("--only", "device")) == wanted("TRUE", "device_events") | wanted(
        "class = 'device_annotation'", "host_events"
    )
    first = min(
        tables.rows(table, "SELECT min(ts_ns) FROM t")[0][0]
        for table in ("device_events", "host_events", "counters")
        if tables.rows(table, "SELECT min(ts_ns) FROM t")
        and tables.rows(table, "SELECT min(ts_ns) FROM t")[0][0] is not None
    )
    begin, end = first + 2_000_000, first + 6_000_000
    inside = f"ts_ns < {end} AND (ts_ns >= {begin} OR ts_ns + coalesce(dur_ns, 0) > {begin})"
    assert wanted(inside)
    assert set(events("--from", "2ms", "--to", "6ms")) == wanted(inside)
    steps = tables.rows(
        "steps",
        "SELECT rank, min(ts_ns), max(coalesce(n, ts_ns + dur_ns)) FROM (SELECT *, lead(ts_ns) \
         OVER (PARTITION BY rank ORDER BY ts_ns) AS n FROM t) WHERE step IN (11, 12) GROUP BY rank",
    )
    of_steps = set()
    for rank, begin, end in steps:
        of_steps |= wanted(
            f"rank = {rank} AND ts_ns < {end} AND (ts_ns >= {begin} OR "
            f"ts_ns + coalesce(dur_ns, 0) > {begin})"
        )
    assert of_steps
    assert set(events("--steps", "11..12")) == of_steps


def test_rows_of_a_query_are_a_timeline(tmp_path: Path, run: Run, several: Path) -> None:
    sql = (
        "SELECT ts_ns, dur_ns, name, 'stream ' || stream AS track, rank, bytes FROM device_events "
        f"WHERE trace = '{LLAMA.name}'"
    )
    run("sql", sql, "-o", "slices.pftrace", "--data", several, check=True)
    timeline = read(tmp_path / "slices.pftrace")
    base = timeline.attributes["base_ns"]
    found = Counter(
        (timeline.process(s.track), timeline.name(s.track), s.ts + base, s.dur, s.name)
        for s in timeline.slices
    )
    sql = "SELECT 'rank ' || rank, 'stream ' || stream, ts_ns, dur_ns, name FROM t"
    assert found == Counter(Tables(several, LLAMA.name).rows("device_events", sql))


def test_overlapping_slices_get_lanes(tmp_path: Path, run: Run, several: Path) -> None:
    sql = "SELECT i AS ts_ns, 10 AS dur_ns, 'e' || i AS name, 't' AS track FROM range(50) AS r(i)"
    run("sql", sql, "-o", "slices.pftrace", "--data", several, check=True)
    timeline = read(tmp_path / "slices.pftrace")
    assert sorted((s.ts, s.dur, s.name) for s in timeline.slices) == [
        (i, 10, f"e{i}") for i in range(50)
    ]
    # Ten at a time, of which those that end together nest.
    assert len({s.track for s in timeline.slices}) == 10
    assert {timeline.name(s.track) for s in timeline.slices} == {"t"}


def test_hostile_texts_and_numbers_are_whole(tmp_path: Path, run: Run, several: Path) -> None:
    sql = (
        "SELECT 1 AS ts_ns, 2 AS dur_ns, chr(1) || chr(27) || '\"\\' || chr(8238) || "
        "repeat('x', 1000000) AS name, chr(10) AS track, 'nan'::DOUBLE AS a, '-inf'::DOUBLE AS b, "
        "NULL AS c, 170141183460469231731687303715884105727::HUGEINT AS d, [1, NULL] AS e, "
        "MAP {'k': 1} AS f, chr(0) AS g"
    )
    for words in (["-o", "a.pftrace"], ["-o", "a.json", "--format", "chrome"]):
        run("sql", sql, *words, "--data", several, check=True)
    slices = read(tmp_path / "a.pftrace").slices
    name = '\x01\x1b"\\\u202e' + "x" * 1_000_000
    assert [(s.name, s.ts, s.dur) for s in slices] == [(name, 0, 2)]
    args = slices[0].args
    assert str(args["a"]) == "nan"
    assert args["b"] == float("-inf")
    assert args["d"] == str(2**127 - 1)
    assert (args["e"], args["f.k"], args["g"]) == ("[1,null]", 1, "\0")
    events = json.loads((tmp_path / "a.json").read_text(), parse_constant=None)["traceEvents"]
    [event] = [e for e in events if e["ph"] == "X"]
    assert event["name"] == name
    assert event["args"]["a"] == "NaN"
