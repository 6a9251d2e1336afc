"""The second program, `tests/verify`: it agrees, and it sees what does not."""

from __future__ import annotations

import gzip
import json
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import LLAMA, ROOT, Run

VERIFY = ROOT / "tests" / "verify"
sys.path.insert(0, str(VERIFY))

import figures  # noqa: E402
import kineto  # noqa: E402
import memory  # noqa: E402
import nsys  # noqa: E402
import raw  # noqa: E402
import verify  # noqa: E402
import xla  # noqa: E402

TRACES = sorted(p.name for p in (ROOT / "trace_collection").iterdir() if (p / "README.md").exists())


@pytest.mark.parametrize("trace", TRACES)
def test_both_programs_agree(run: Run, trace: str) -> None:
    path = ROOT / "trace_collection" / trace
    done = run("verify", "--trace", path, "--format", "json", check=True)
    rows = json.loads(done.stdout)
    assert {row["verdict"] for row in rows} <= {"equal", "not recomputed"}
    equal = [row for row in rows if row["verdict"] == "equal"]
    assert len(equal) >= 50
    assert max(row["difference"] for row in equal) < 1e-12
    assert {row["reason"] is None for row in equal} == {True}


def test_a_broken_number_is_seen(run: Run, tmp_path: Path) -> None:
    # The union of the spans becomes their number, in a tree of SQL of its own.
    tree = tmp_path / "sql"
    subprocess.run(["cp", "-r", ROOT / "sql", tree], check=True)
    file = next(tree.glob("metrics/*/wall_time_s.v1.sql"))
    text = file.read_text()
    assert "/ 1e9" in text
    file.write_text(text.replace("/ 1e9", "/ 1.001e9"))
    env = {"CCL_SQL_TREE": str(tree)}
    done = run("verify", "--trace", LLAMA, "--format", "json", env=env)
    assert done.returncode == 1
    assert b"error[figures-differ]" in done.stderr
    off = {row["figure"] for row in json.loads(done.stdout) if row["verdict"] == "differs"}
    assert off == {"window"}
    lines = run("verify", "--trace", LLAMA, env=env).stdout.decode().splitlines()
    assert [line for line in lines if line.split()[1:3] == ["window", "wall_time_s.per_rank"]]
    assert [line.split()[1] for line in lines if " differs" in line] == ["window"]


def test_a_file_that_changed_is_not_compared(run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "job" / "rank0_trace.json"
    copy.parent.mkdir()
    copy.write_bytes((LLAMA / "rank0_trace.json").read_bytes())
    run("ingest", copy.parent, check=True)
    copy.write_bytes(copy.read_bytes().replace(b'"dur":12.611', b'"dur":12.612'))
    done = run("verify", "--trace", "job", "--format", "json")
    assert done.returncode == 1
    (row,) = json.loads(done.stdout)
    assert row["reason"].endswith("has changed since it was ingested")
    copy.unlink()
    (row,) = json.loads(run("verify", "--trace", "job", "--format", "json").stdout)
    assert row["reason"].endswith("is no file, or not there any more")


def test_modules_beside_a_trace_are_not_run(run: Run, tmp_path: Path) -> None:
    for name in ("json", "raw", "sqlite3"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken in')\n")
    done = run("verify", "--trace", LLAMA, "--format", "csv", check=True)
    assert b"taken in" not in done.stdout + done.stderr


def test_answers_that_are_tampered_with_differ() -> None:
    trace = raw.Trace("kineto", 10**9, {0: raw.Rank(host_span=(0, 2_000_000_000))})
    window = next(f for f in figures.FIGURES if f.name == "window")
    theirs = window.compute(trace)
    assert theirs == {"0": 2.0}
    for ours, verdict in (
        ({"0": 2.0}, "equal"),
        ({"0": 2.0000001}, "equal"),
        ({"0": 2.00001}, "differs"),
        ({}, "differs"),
        ({"0": 2.0, "1": 2.0}, "differs"),
    ):
        rows = verify.compare(window, ours, theirs, 1e-6)
        assert rows[-1]["verdict"] == verdict, ours


# A job of two ranks that can be done by head. In us; rank 1 is 10 later.
#
#   stream 7   gemm [0, 100)                copy [200, 250)
#   stream 9        AllReduce [50, 150)
#
# 1,000,000 floats: S = 4 MB in the 90 us of rank 1, so 44.4 GB/s, and with two ranks the bus factor
# is 1.


def event(name: str, category: str, start: float, dur: float, **args: Any) -> dict[str, Any]:
    more = {"pid": 0, "tid": args.get("stream", 1), "args": args}
    return {"ph": "X", "name": name, "cat": category, "ts": start, "dur": dur, **more}


def job(rank: int) -> dict[str, Any]:
    late = 10.0 * rank
    call = {
        "Collective name": "allreduce",
        "In msg nelems": 1_000_000,
        "Out msg nelems": 1_000_000,
        "dtype": "Float",
        "Group size": 2,
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]",
    }
    return {
        "distributedInfo": {"rank": rank, "world_size": 2},
        "traceEvents": [
            event("ProfilerStep#3", "user_annotation", 0, 300),
            event("cudaLaunchKernel", "cuda_runtime", 1, 2, correlation=5),
            event("gemm", "kernel", 10, 100, device=0, stream=7),
            event("ncclDevKernel_AllReduce", "kernel", 60 + late, 100 - late, device=0, stream=9,
                  correlation=5, **call),
            event("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 210, 50, device=0, stream=7,
                  bytes=1000),
        ],
    }  # fmt: skip


@pytest.fixture
def small(tmp_path: Path) -> raw.Trace:
    trace = raw.Trace("kineto", 10**9, world=2)
    for n in (0, 1):
        file = tmp_path / f"{n}.json"
        file.write_text(json.dumps(job(n)))
        trace.ranks[n] = kineto.Reader(kineto.load(str(file))).read()
    return trace


def test_figures_of_a_small_job(small: raw.Trace) -> None:
    expected = {
        "events on devices": {
            f"rank {n} {kind}": 1 for n in (0, 1) for kind in ("compute", "comm", "copy")
        },
        "window": {"0": 250e-6, "1": 250e-6},
        "kernel time": {"0": 200e-6, "1": 190e-6},
        "communication": {"0": 100e-6, "1": 90e-6},
        "overlap": {"0": 0.05, "1": 0.04},
        "exposed communication": {"0": 0.05, "1": 0.05},
        "idle time": {"0": 50e-6, "1": 50e-6},
        "message bytes of a rank": {"rank 0 all_reduce": 4e6, "rank 1 all_reduce": 4e6},
        "wire bytes": {"all_reduce": 8e6},
        "calls over ranks": {"all_reduce": 1},
        "transfer time": {"all_reduce": 90e-6},
        "bus bandwidth of all_reduce": {"value": 4e6 / 90e-6 / 1e9},
        "lag of the last rank": {
            **dict.fromkeys(("mean_lag_us", "p50_lag_us", "p95_lag_us"), 10.0),
            "max_lag_us": 10.0, "min_lag_us": 10.0, "num_collectives": 1,
        },
        "last rank of calls": {"1": 1},
        "communication per step": {"0": 100e-6, "1": 90e-6},
        "bytes copied": {"rank 0 h2d": 1000, "rank 1 h2d": 1000},
        "launches": {"launches_count": 2, "launch_delay_us": (59 + 69) / 2},
    }  # fmt: skip
    by_name = {figure.name: figure for figure in figures.FIGURES}
    for name, values in expected.items():
        assert by_name[name].compute(small) == pytest.approx(values), name


def test_calls_of_a_rank_that_misses_the_first_are_shifted() -> None:
    # The second rank has no call that ends at 100: its calls end 3 after those of the others.
    ends = {0: [100, 200, 350], 1: [203, 353]}
    ranks = {
        n: raw.Rank(calls=[raw.Call("all_reduce", end - 10, end) for end in each])
        for n, each in ends.items()
    }
    found = figures.matched(raw.Trace("kineto", 10**9, ranks))
    assert [[c.end for c in match.calls.values()] for match in found] == [[200, 203], [350, 353]]


def test_intervals() -> None:
    assert raw.union([(5, 7), (0, 2), (2, 3), (6, 6), (6, 9)]) == [(0, 3), (5, 9)]
    assert raw.common([(0, 10), (5, 20)], [(8, 12), (19, 30)]) == 5
    around = raw.Ranges([(0, 10, "a"), (2, 4, "b"), (5, 9, "c")]).around(3)
    assert [one[2] for one in around] == ["b", "a"]


def test_groups_of_xla() -> None:
    # 0..7 as two rows of four, transposed, cut into four groups of two.
    assert xla.regular(4, 2, [2, 4], [1, 0]) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert xla.text_groups("replica_groups=[1,4]<=[4], x") == [[0, 1, 2, 3]]
    assert xla.text_groups("replica_groups={{0,1},{2,3}}, x") == [[0, 1], [2, 3]]
    assert xla.rings([(0, 1), (1, 0), (2, 3)]) == [[0, 1], [2, 3]]
    assert xla.text_bytes("(bf16[8,128]{1,0:T(8,128)}, pred[3])") == 2048 + 3


class Runs:
    """What a hostile pickle would run."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return (exec, ("raise SystemExit('it ran')",))


@pytest.mark.parametrize(
    "text",
    [
        pickle.dumps({"segments": [Runs()]}),
        b"\x80\x04\x96" + (1 << 40).to_bytes(8, "little") + b".",
        b"\x80\x04r\xff\xff\xff\x7f.",
        b"\x80\x04]q\x00",
        b"",
    ],
    ids=["code", "size of a bytearray", "place in the memo", "no end", "empty"],
)
def test_a_pickle_is_data_or_nothing(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(text)
    with pytest.raises(raw.UnreadableError):
        memory.figures(str(file))


def test_the_peak_of_a_snapshot(tmp_path: Path) -> None:
    # At the end 1,024 bytes are in use, of which 1,000 were asked for. Before, 600 more were.
    block = {"size": 1024, "requested_size": 1000, "state": "active_allocated", "address": 1}
    events = [("alloc", 1, 1000), ("alloc", 9, 600), ("free_requested", 9, 600)]
    names = ("action", "addr", "size")
    snapshot = {
        "segments": [{"total_size": 4096, "allocated_size": 1024, "device": 0, "blocks": [block]}],
        "device_traces": [[dict(zip(names, each, strict=True)) for each in events]],
    }
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps(snapshot, protocol=4))
    held = {key: value * memory.GIB for key, value in memory.figures(str(file)).items()}
    assert held == {
        "reserved": 4096, "allocated": 1024, "requested": 1000,
        "requested peak": 1600, "peak": 2048,
    }  # fmt: skip


def test_a_file_that_unpacks_without_end_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "LIMIT", 1 << 20)
    file = tmp_path / "bomb.json.gz"
    file.write_bytes(gzip.compress(b" " * (8 << 20)))
    with pytest.raises(raw.UnreadableError, match="1 GiB"):
        raw.data(str(file))


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b"{}", b'{"traceEvents": 3}', b"\xff\x00", b"1e9999"]
)
def test_what_is_no_trace_is_an_error_that_is_known(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "trace.json"
    file.write_bytes(text)
    for read in (kineto.load, xla.Reader):
        with pytest.raises(verify.BROKEN):
            read(str(file))


def test_an_export_cut_short_is_an_error_that_is_known(tmp_path: Path) -> None:
    whole = (ROOT / "trace_collection" / "ulysses-tiny-nsys-2" / "report.sqlite").read_bytes()
    file = tmp_path / "report.sqlite"
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(sqlite3.Error):
        nsys.Reader(str(file)).read()


def test_the_card_is_read_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "card.yaml"
    file.write_text("a:\n  b: 'x'  # y\n  c:\n    d: 3\ne: 4\nf: [1, 2]\n")
    assert verify.card(str(file)) == {"a.b": "x", "a.c.d": "3", "e": "4", "f": "[1, 2]"}
