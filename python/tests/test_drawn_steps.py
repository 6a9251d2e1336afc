"""What is drawn of a step that has too much to draw: views over more rows than a fixture holds."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from typing import Any

import duckdb
import pytest
from conftest import ROOT

import ccl_sql

#: Rank, device and lane.
Lane = tuple[int, int | None, str]
Span = tuple[int, int]


@pytest.fixture
def base() -> duckdb.DuckDBPyConnection:
    """A database with the functions of the views, and clocks that agree."""
    base = duckdb.connect(config={"allow_unsigned_extensions": True})
    base.execute(f"LOAD '{ccl_sql.extension()}'")
    base.execute("""
        CREATE TABLE _clock_shifts AS
            SELECT 't' AS trace, 0 AS rank, aligned, FALSE AS by_itself, 0 AS shift_ns
            FROM (VALUES (FALSE), (TRUE)) AS said (aligned);
        CREATE TABLE _drawn_windows AS
            SELECT 't' AS trace, NULL::BIGINT AS step, 0 AS start_ns, 1000000000000 AS end_ns""")
    return base


def view(name: str) -> str:
    """The query of a view."""
    return (ROOT / f"sql/views/time/{name}.sql").read_text()


@pytest.mark.parametrize(("events", "spans"), [(50_000, 50_000), (50_001, 49_999)])
def test_the_longest_of_many_events_are_spans(
    base: duckdb.DuckDBPyConnection, events: int, spans: int
) -> None:
    base.execute(f"""
        CREATE TABLE device_events AS
            SELECT
                't' AS trace, 0 AS rank, 0 AS device, i AS event_id, 'gemm' AS name,
                'compute' AS class, i AS ts_ns, i AS dur_ns
            FROM range(1, {events + 1}) AS numbers (i);
        CREATE TABLE collectives (
            trace VARCHAR, event_id BIGINT, collective VARCHAR, message_bytes BIGINT)""")
    base.execute(f"CREATE TABLE _drawn_events AS {view('_drawn_events')}")
    drawn = base.execute(f"SELECT count(*), min(dur_us) FROM ({view('step_timeline')})").fetchone()
    # Of more than 50,000 those as long as the shortest of the 50,000 longest are none.
    assert drawn == (spans, (events - spans + 1) / 1e3)


def joined(spans: list[Span]) -> list[Span]:
    """Spans that do not overlap."""
    out: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def without(spans: list[Span], others: list[Span]) -> list[Span]:
    """What lies in spans, and in none of others."""
    out = []
    for first, end in joined(spans):
        start = first
        for begun, ended in joined(others):
            if start < ended and begun < end:
                if start < begun:
                    out.append((start, begun))
                start = max(start, ended)
        if start < end:
            out.append((start, end))
    return out


def short_events(
    base: duckdb.DuckDBPyConnection, shorts: dict[Lane, list[Span]], spans: dict[Lane, list[Span]]
) -> list[tuple[Any, ...]]:
    """What step_short_events says of events that are short, and of spans."""
    rows = [
        (*where, start, end - start, is_span)
        for is_span, of in ((False, shorts), (True, spans))
        for where, lane_spans in of.items()
        for start, end in lane_spans
    ]
    base.execute(
        "CREATE TABLE given (rank INT, device INT, lane TEXT, ts_ns BIGINT, dur_ns BIGINT,"
        " is_span BOOL)"
    )
    text = ", ".join(str(row).replace("None", "NULL") for row in rows)
    base.execute(f"INSERT INTO given VALUES {text}")
    base.execute(
        "CREATE TABLE _drawn_events AS SELECT 't' AS trace, 500 AS window_ns, * FROM given"
    )
    return base.execute(view("step_short_events")).fetchall()


def test_slices_are_filled_to_the_nanosecond(base: duckdb.DuckDBPyConnection) -> None:
    # In slices of 10 ns: up to one before a bound, one beyond it, and up to it.
    ends = [(500, 501), (600, 609), (700, 711), (800, 810), (40_499, 40_500)]
    [said] = short_events(base, {(0, 0, "comm"): ends}, {})
    assert said[:8] == ("t", 0, 0, "comm", 5, 0.032, 0.0, 0.01)
    filled = {place: percent for place, percent in enumerate(said[8]) if percent}
    assert filled == {0: 10, 10: 90, 20: 100, 21: 10, 30: 100, 3999: 10}


def test_what_spans_hide_fills_no_slice(base: duckdb.DuckDBPyConnection) -> None:
    hidden: dict[Lane, list[Span]] = {(0, 0, "comm"): [(600, 609), (700, 700)]}
    spans: dict[Lane, list[Span]] = {(0, 0, "comm"): [(500, 700)]}
    assert short_events(base, hidden, spans) == []
    base.execute("DROP TABLE given; DROP TABLE _drawn_events")
    said, beside = short_events(base, {**hidden, (0, 0, "copy"): [(500, 40_500)]}, spans)
    assert said == ("t", 0, 0, "comm", 2, 0.0, 0.0, 0.01, [0] * 4000)
    assert beside == ("t", 0, 0, "copy", 1, 40.0, 0.0, 0.01, [100] * 4000)


# 400,000 slices of all lanes, but no more than 4,000 and no fewer than 250 of each.
@pytest.mark.parametrize(("lanes", "slices"), [(17, 4000), (569, 702), (1999, 250)])
def test_slices_say_how_much_of_them_short_events_fill(
    base: duckdb.DuckDBPyConnection, lanes: int, slices: int
) -> None:
    chosen = random.Random(7)  # noqa: S311
    shorts: defaultdict[Lane, list[Span]] = defaultdict(list)
    spans: defaultdict[Lane, list[Span]] = defaultdict(list)
    # The last lane has no event that is short, and the first has one.
    for place in range(lanes + 1):
        lane = ("copy", "comm", "compute")[place % 3]
        where = (place // 9, (0, 1, None)[place // 3 % 3], lane)
        for _ in range(12 if place else 1):
            start = chosen.randrange(1000, 20_000_000)
            length = chosen.choice([0, 1, 3, 500, 2000, 70_000])
            if place < lanes:
                shorts[where].append((start, start + length))
            if lane != "comm" and chosen.random() < 0.3:
                spans[where].append((start + 100, start + 900_000))
    said = short_events(base, shorts, spans)

    left = {where: without(of, spans[where]) for where, of in shorts.items()}
    first = min(start for of in left.values() for start, _ in of)
    last = max(end for of in left.values() for _, end in of)
    length = math.ceil((last - first) / slices)
    known = []
    for where in sorted(shorts, key=lambda of: (of[0], of[1] is None, of[1], of[2])):
        filled = [0] * slices
        for start, end in left[where]:
            for n in range((start - first) // length, (end - 1 - first) // length + 1):
                inside = min(end, first + (n + 1) * length) - max(start, first + n * length)
                filled[n] += inside
        percent = [max(100 * time // length, 1) if time else 0 for time in filled]
        busy = sum(filled) / 1e3
        axis = ((first - 500) / 1e3, length / 1e3)
        known.append(("t", *where, len(shorts[where]), busy, *axis, percent))
    assert len(said) == lanes
    assert said == known


@pytest.mark.parametrize(
    ("launchers", "of_ns", "kept"),
    [
        # Of 2,600 that launch the 2,500 that launch most, and of all the 2,500 that last longest.
        (2600, "i", [*range(101, 2601), *range(2701, 5201)]),
        (50, "1", [*range(1, 51), *range(2701, 5201)]),
    ],
)
def test_of_many_stacks_the_longest_and_those_that_launch_most_are_drawn(
    base: duckdb.DuckDBPyConnection, launchers: int, of_ns: str, kept: list[int]
) -> None:
    # One after the other, each a nanosecond longer than the one before.
    base.execute(f"""
        CREATE TABLE host_events AS
            SELECT
                't' AS trace, 'kineto' AS source, 0 AS rank, 1 AS pid, 1 AS tid, 'python' AS class,
                CAST(i AS VARCHAR) AS name, i AS event_id, i * i AS ts_ns, i AS dur_ns
            FROM range(1, 5201) AS numbers (i);
        CREATE TABLE _launched_times AS
            SELECT 't' AS trace, i AS event_id, {of_ns} AS device_ns
            FROM range(1, {launchers + 1}) AS numbers (i);
        CREATE TABLE steps (trace TEXT, rank INT, step BIGINT, ts_ns BIGINT, dur_ns BIGINT);
        CREATE TABLE _phase_windows (
            trace TEXT, source TEXT, rank INT, phase TEXT, start_ns BIGINT, end_ns BIGINT)""")
    drawn = base.execute(f"SELECT CAST(frame AS INT) FROM ({view('step_stacks')}) ORDER BY 1")
    assert [frame for (frame,) in drawn.fetchall()] == kept
