"""The module: ingests, metrics, reports, comparisons, connections."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest
from conftest import BALANCED, LLAMA

import ccl_sql
from ccl_sql import _bar, _host

NAME = LLAMA.name


def test_an_ingest_says_what_it_made(tmp_path: Path) -> None:
    [trace] = ccl_sql.ingest(LLAMA, tmp_path)
    assert (trace.name, trace.data, trace.sources) == (NAME, tmp_path, ("kineto",))
    assert (trace.ranks, trace.ranks_read, trace.events) == (4, 4, 1340)
    assert trace.bytes > 300_000
    assert not trace.unchanged
    assert str(trace) == NAME
    assert repr(trace) == f"<Trace {NAME}: kineto, 4 ranks, 1340 events, 388 kB, no findings>"
    [again] = ccl_sql.ingest(str(LLAMA), str(tmp_path))
    assert (again.unchanged, again.ranks_read) == (True, 0)
    [forced] = ccl_sql.ingest([LLAMA], tmp_path, force=True)
    assert (forced.unchanged, forced.ranks_read) == (False, 4)


def test_findings_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(LLAMA, folder)
    file = max(folder.rglob("*.json*"), key=lambda path: path.stat().st_size)
    with open(file, "r+b") as opened:
        opened.truncate(file.stat().st_size // 2)
    with pytest.raises(ccl_sql.Error) as raised:
        ccl_sql.ingest(folder, tmp_path / "data")
    assert file.name in str(raised.value.place)
    [trace] = ccl_sql.ingest(folder, tmp_path / "data", keep_partial=True)
    assert file.name in [Path(finding.file).name for finding in trace.findings]
    assert all(finding.count > 0 and finding.message for finding in trace.findings)


def test_what_was_made_beside_an_error_is_told(tmp_path: Path) -> None:
    for name in ("good", "bad"):
        shutil.copytree(LLAMA, tmp_path / "jobs" / name)
    for file in (tmp_path / "jobs" / "bad").rglob("*.json*"):
        file.write_bytes(b'{"traceEvents": [')
    with pytest.raises(ccl_sql.Error) as raised:
        ccl_sql.ingest([tmp_path / "jobs" / "good", tmp_path / "jobs" / "bad"], tmp_path / "data")
    assert [trace.name for trace in raised.value.made] == ["good"]
    assert raised.value.code in ("trace-truncated", "not-a-trace", "json-invalid")
    assert len(ccl_sql.traces(tmp_path / "data")) == 1


def test_nothing_found_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ccl_sql.Error) as raised:
        ccl_sql.ingest(tmp_path / "nowhere", tmp_path / "data")
    assert raised.value.code in ("nothing-found", "io", "file-unreadable")
    assert "nowhere" in str(raised.value)
    for wrong in ({"nope": 1}, {"source": "nope"}, {"rank": {"x": "y"}}):
        with pytest.raises(ccl_sql.Error) as raised:
            ccl_sql.ingest(LLAMA, tmp_path / "data", **wrong)
        assert raised.value.code == "usage"
    with pytest.raises(ccl_sql.Error):
        ccl_sql.ingest([], tmp_path / "data")


def test_a_metric_is_a_value_and_a_table(data: Path) -> None:
    table = ccl_sql.metric("coll_call_num", NAME, data=data)
    assert len(table) == 1
    assert table.value == 112
    assert table.reason is None
    assert table.details["calls_by_type"] == {
        "all_gather": 32,
        "all_reduce": 48,
        "reduce_scatter": 32,
    }
    [row] = table
    assert (row["trace"], row["metric"], row["unit"]) == (NAME, "coll_call_num", "calls")
    assert table[0] == table[-1] == row
    assert "112" in repr(table)
    assert "<bdi>112</bdi>" in table._repr_html_()


def test_metrics_of_several_traces_have_a_row_each(data: Path) -> None:
    names = ["avg_step_time", "coll_call_num"]
    table = ccl_sql.metric(names, data=data)
    assert [(row["trace"], row["metric"]) for row in table] == [
        (trace, name) for trace in (NAME, BALANCED.name) for name in names
    ]
    assert list(ccl_sql.metric(",".join(names), [NAME, BALANCED.name], data=data)) == list(table)
    with pytest.raises(ccl_sql.Error, match="`value` is of one row, and there are 4"):
        _ = table.value


def test_traces_are_said_in_several_ways(tmp_path: Path) -> None:
    shutil.copytree(LLAMA, tmp_path / "a, b")
    traces = ccl_sql.ingest([tmp_path / "a, b", BALANCED], tmp_path / "data")
    # The data directory comes with the trace.
    assert len(ccl_sql.metric("coll_call_num", traces)) == 2
    for trace in traces:
        assert ccl_sql.metric("coll_call_num", trace)[0]["trace"] == trace.name
    table = ccl_sql.metric("coll_call_num", BALANCED, data=tmp_path / "data")
    assert table[0]["trace"] == BALANCED.name
    with pytest.raises(ccl_sql.Error) as raised:
        ccl_sql.metric("coll_call_num", "nope", data=tmp_path / "data")
    assert raised.value.code == "trace-unknown"


def test_no_value_has_a_reason(data: Path) -> None:
    table = ccl_sql.metric("ttft", NAME, data=data)
    assert table.value is None
    assert table.reason
    assert table.reason in repr(table)
    table = ccl_sql.metric(["ttft", "coll_call_num"], NAME, data=data)
    assert [row["value"] for row in table] == [None, 112]


def test_every_metric_answers(data: Path) -> None:
    table = ccl_sql.metric("*", NAME, data=data)
    assert len(table) == len({row["metric"] for row in table})
    assert {row["metric"] for row in table} <= {row["metric"] for row in ccl_sql.metrics()}
    silent = [
        row["metric"]
        for row in table
        if row["value"] is None and row["reason"] is None and row["text"] is None
    ]
    assert silent == []
    assert f"({len(table) - 50} more rows)" in repr(table)


def test_params_and_options_are_checked(data: Path) -> None:
    whole = ccl_sql.metric("mfu", NAME, data=data).value
    table = ccl_sql.metric("mfu", NAME, data=data, peak_tflops=1e6)
    assert float(table[0]["params"]["peak_tflops"]) == 1e6
    assert table.value < whole
    with pytest.raises(ccl_sql.Error) as raised:
        ccl_sql.metric("mfu", NAME, data=data, peak_tflop=8)
    assert raised.value.code == "param-invalid"
    with pytest.raises(ccl_sql.Error) as raised:
        ccl_sql.metric("mfu", NAME, data=data, options={"profile_mode": "nope"})
    assert raised.value.code == "usage"
    with pytest.raises(ccl_sql.Error) as raised:
        ccl_sql.metric("coll_cal_num", NAME, data=data)
    assert raised.value.code == "metric-unknown"
    assert "coll_call_num" in str(raised.value.hint)


def test_tables_become_those_of_others(data: Path) -> None:
    table = ccl_sql.metric(["mfu", "avg_step_time"], data=data)
    pyarrow, pandas, polars = map(pytest.importorskip, ("pyarrow", "pandas", "polars"))
    arrow, frame, lazy = table.arrow(), table.df(), table.pl()
    assert isinstance(arrow, pyarrow.Table)
    assert isinstance(frame, pandas.DataFrame)
    assert isinstance(lazy, polars.DataFrame)
    for names in (arrow.column_names, list(frame.columns), lazy.columns):
        assert list(names) == table.columns
    values = [row["value"] for row in table]
    for column in (arrow["value"].to_pylist(), list(frame["value"]), lazy["value"].to_list()):
        assert column == values
    assert polars.DataFrame(table).equals(lazy)
    assert pyarrow.table(table).equals(arrow)
    # Many times, in any order, and when the table itself is gone.
    del table
    assert ccl_sql.metric("mfu", NAME, data=data).pl().height == 1
    assert arrow.num_rows == 4


def test_tables_are_let_go(data: Path) -> None:
    for _ in range(5):
        ccl_sql.traces(data)
    table = ccl_sql.traces(data)
    with _host.own.cursor() as cursor:
        found = cursor.execute(
            "SELECT count(*) FROM duckdb_tables() WHERE schema_name = 'answers' "
            "AND table_name >= ?",
            ["t"],
        ).fetchone()
    assert found is not None
    assert found[0] < 10
    assert len(table) == 2


def test_what_to_fix_first_is_a_table(data: Path) -> None:
    found = ccl_sql.diagnose("llama-tiny-fsdp2-tp2-4", data=data)
    first = found[0]
    assert (first["diagnosis"], first["where"]["rank"]) == ("slow_rank", 2)
    assert 0.19 < first["gain_ms"] < 0.27
    assert first["limits"] == ["2 steps count"]
    gains = [row["gain_ms"] for row in found if row["gain_ms"] is not None]
    assert gains == sorted(gains, reverse=True)
    assert len(ccl_sql.diagnose(data=data, options={"least": 0})) > len(found)


def test_lists_are_tables(data: Path) -> None:
    metrics = ccl_sql.metrics()
    assert len(metrics) > 100
    assert {"metric", "area", "unit", "summary"} <= set(metrics.columns)
    assert [row["trace"] for row in ccl_sql.traces(data)] == [NAME, BALANCED.name]
    assert len(ccl_sql.traces("nowhere")) == 0
    assert repr(ccl_sql.traces("nowhere")).startswith("no rows (trace, source")


def test_a_connection_has_tables_views_and_functions(data: Path) -> None:
    with ccl_sql.connect(data) as con:
        calls = con.execute("SELECT count(*) FROM collective_calls").fetchone()
        assert calls == (104,)
        assert con.execute("SELECT count(*) FROM time_per_step").fetchone() is not None
        sql = "SELECT value FROM ccl_metric(['coll_call_num'], trace := ?, data := ?)"
        assert con.execute(sql, [NAME, str(data)]).fetchone() == (112.0,)
        sql = "SELECT hockney_fit([{bytes: 1, seconds: 1}, {bytes: 2, seconds: 2}]).samples"
        assert con.execute(sql).fetchone() == (2,)
    with pytest.raises(ccl_sql.Error) as raised:
        ccl_sql.connect(data / "nowhere")
    assert raised.value.code == "io"


def test_a_report_is_a_page_and_files(data: Path, tmp_path: Path) -> None:
    report = ccl_sql.report(NAME, data=data)
    assert report.json()["trace"]
    page = report._repr_html_()
    assert page.startswith('<iframe sandbox="allow-scripts" srcdoc="&lt;!doctype html&gt;')
    assert page.count("<") == page.count(">") == 2
    assert "allow-same-origin" not in page
    assert report.html().startswith("<!doctype html>")
    for ending in ("html", "json", "xlsx"):
        place = report.save(tmp_path / f"report.{ending}")
        assert place.stat().st_size > 1000
    assert zipfile.is_zipfile(tmp_path / "report.xlsx")
    assert json.loads((tmp_path / "report.json").read_bytes()) == report.json()
    assert (tmp_path / "report.html").read_text() == report.html()
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [
        ".html",
        ".json",
        ".xlsx",
    ]


def test_files_are_not_written_over(data: Path, tmp_path: Path) -> None:
    report = ccl_sql.report(NAME, data=data)
    saved = report.save(tmp_path / "b.json")
    (tmp_path / "c").touch()
    # It has the bits of any file.
    assert saved.stat().st_mode == (tmp_path / "c").stat().st_mode
    place = tmp_path / "a.json"
    place.write_text("mine")
    with pytest.raises(ccl_sql.Error) as raised:
        report.save(place)
    assert raised.value.code == "output-exists"
    assert place.read_text() == "mine"
    report.save(place, force=True)
    assert json.loads(place.read_bytes())["trace"]
    for wrong, code in (("a.doc", "usage"), ("a", "usage"), ("no/where.json", "io")):
        with pytest.raises(ccl_sql.Error) as raised:
            report.save(tmp_path / wrong)
        assert raised.value.code == code
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json", "c"]


def test_runs_are_compared(data: Path, tmp_path: Path) -> None:
    comparison = ccl_sql.compare(
        BALANCED.name, NAME, data=data, threshold=2, fail_on=["avg_step_time > +0.1%"]
    )
    assert comparison.json()
    assert [error.code for error in comparison.errors] == ["change-too-large"]
    assert comparison.save(tmp_path / "a.csv").stat().st_size > 100
    with pytest.raises(ccl_sql.Error, match="no run to compare"):
        ccl_sql.compare(NAME, data=data)
    with pytest.raises(ccl_sql.Error) as raised:
        ccl_sql.compare(NAME, "nope", data=data)
    assert raised.value.code in ("trace-unknown", "nothing-found")


HOSTILE = 'it\'s "x"<script>alert(1), [*] DROP'


def test_a_hostile_name_is_a_name(tmp_path: Path) -> None:
    shutil.copytree(LLAMA, tmp_path / HOSTILE)
    [trace] = ccl_sql.ingest(tmp_path / HOSTILE, tmp_path / "it's")
    for said in (trace, tmp_path / HOSTILE):
        table = ccl_sql.metric("coll_call_num", said, data=tmp_path / "it's")
        assert (table[0]["trace"], table.value) == (trace.name, 112)
        assert "<script>" not in table._repr_html_()
    # The path of the trace is in this one.
    assert "<script>" not in ccl_sql.traces(tmp_path / "it's")._repr_html_()
    assert "&lt;script&gt;" in ccl_sql.traces(tmp_path / "it's")._repr_html_()
    with ccl_sql.connect(tmp_path / "it's") as con:
        found = con.execute("SELECT DISTINCT trace FROM collectives").fetchall()
    assert found == [(trace.name,)]
    with pytest.raises(ccl_sql.Error) as raised:
        ccl_sql.ingest(LLAMA, tmp_path / "it's", name=HOSTILE)
    assert raised.value.code == "usage"
    for name in ("'; DROP TABLE x; --", "x' OR '1'='1", "\x1b[31m", "a\nb"):
        with pytest.raises(ccl_sql.Error) as raised:
            ccl_sql.metric("coll_call_num", name, data=tmp_path / "it's")
        assert raised.value.code == "trace-unknown"
        assert "\x1b" not in str(raised.value)


def test_a_hostile_data_directory_is_an_error(tmp_path: Path) -> None:
    [trace] = ccl_sql.ingest(LLAMA, tmp_path / "data")
    manifests = [p for p in (tmp_path / "data").rglob("*") if p.is_file() and p.suffix == ".json"]
    for path in manifests:
        path.write_text('{"trace": "\'; DROP", "path": "/etc/passwd"}')
    for path in (tmp_path / "data").rglob("*.parquet"):
        path.write_bytes(b"PAR1 no parquet PAR1")
    with pytest.raises(ccl_sql.Error):
        ccl_sql.metric("coll_call_num", trace)
    try:
        with ccl_sql.connect(tmp_path / "data") as con:
            con.execute("SELECT count(*) FROM collectives")
    except (ccl_sql.Error, duckdb.Error):
        pass


def test_threads_call_at_once(data: Path) -> None:
    def work(turn: int) -> float:
        trace = [NAME, BALANCED.name][turn % 2]
        with ccl_sql.connect(data) as con:
            con.execute("SELECT count(*) FROM collectives").fetchall()
        return float(ccl_sql.metric("coll_call_num", trace, data=data).value)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [112.0] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_has_a_database_of_its_own(data: Path) -> None:
    assert len(ccl_sql.traces(data)) == 2
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os._exit(40 + len(ccl_sql.traces(data)))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42


def test_errors_have_no_causes(data: Path) -> None:
    with pytest.raises(ccl_sql.Error) as raised:
        ccl_sql.metric("nope", NAME, data=data)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_nothing_is_printed(data: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ccl_sql.ingest(LLAMA, tmp_path)
    ccl_sql.metric("mfu", NAME, data=data)
    ccl_sql.report(NAME, data=data)
    ccl_sql.connect(data).close()
    with pytest.raises(ccl_sql.Error):
        ccl_sql.metric("nope", NAME, data=data)
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(os.name != "posix", reason="the signal is that of POSIX")
def test_ctrl_c_stops_a_call() -> None:
    begin = time.monotonic()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    sql = "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range <> b.range"
    with pytest.raises(KeyboardInterrupt):
        _host.call(lambda cursor: cursor.execute(sql).fetchall())
    assert time.monotonic() - begin < 20
    assert len(ccl_sql.metrics()) > 100


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace that takes a while: the events of the example, again and again."""
    folder = tmp_path_factory.mktemp("large") / "large"
    folder.mkdir()
    file = next(LLAMA.rglob("*.json*"))
    data = json.loads(
        subprocess.run(["gzip", "-dcf", file], capture_output=True, check=True).stdout
    )
    events = [event for event in data["traceEvents"] if event.get("ph") == "X"]
    with open(folder / "rank0.json", "w") as out:
        head = {key: value for key, value in data.items() if key != "traceEvents"}
        out.write(json.dumps(head)[:-1] + ', "traceEvents": [')
        separator = ""
        for turn in range(700):
            for event in events:
                event["ts"] = float(event["ts"]) + 1e6 * (turn > 0)
            out.write(separator + json.dumps(events)[1:-1])
            separator = ","
        out.write("]}")
    return folder


@pytest.mark.skipif(os.name != "posix", reason="the signal is that of POSIX")
def test_ctrl_c_stops_an_ingest(large: Path, tmp_path: Path) -> None:
    def press() -> None:
        while not _bar.Bar.jobs():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        ccl_sql.ingest(large, tmp_path)
    thread.join()
    assert _bar.Bar.jobs() == []
    assert len(ccl_sql.traces(tmp_path)) == 0
    assert len(ccl_sql.ingest(large, tmp_path)) == 1


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_line(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_bar, "PATIENCE", 0.0)
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    ccl_sql.ingest(large, tmp_path / "a")
    lines = screen.getvalue().split("\r\x1b[K")
    assert any(line.startswith("large [") for line in lines), lines
    assert lines[-1] == ""
    screen.truncate(0)
    ccl_sql.ingest(large, tmp_path / "b", progress=False)
    assert screen.getvalue() == ""


def test_bars_are_escaped() -> None:
    job = _bar.Job("<b>\x1b", "", 500, 2000)
    assert _bar.Notebook.bar(job) == (
        '<div><progress max="1" value="0.2500"></progress> '
        "<bdi>&lt;b&gt;\\x1b</bdi>: 500 B of 2 kB</div>"
    )
    assert _bar.Job("a", "", 3, 0).share == 0.0


def test_names_are_imported_when_they_are_asked_for() -> None:
    code = "import sys, ccl_sql; print([m for m in ('duckdb', 'typing', 're') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
    assert set(ccl_sql.__all__) < set(dir(ccl_sql))
    assert all(getattr(ccl_sql, name).__doc__ for name in ccl_sql.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        getattr(ccl_sql, "nope")  # noqa: B009
