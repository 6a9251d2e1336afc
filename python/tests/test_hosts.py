"""Hosts that load the extension, and those that cannot."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from conftest import LLAMA

import ccl_sql

SOURCE = Path(ccl_sql.__file__).resolve().parent
UNSIGNED: dict[str, str | bool | int | float | list[str]] = {"allow_unsigned_extensions": True}

Script = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Runs Python with words and folders of modules before all others."""

    def runs(*words: str, paths: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        return subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return runs


@pytest.fixture(scope="session")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the last DuckDB before 2.0."""
    place = tmp_path_factory.mktemp("older")
    words = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run(
        [*words, "--target", place, "duckdb==1.5.6"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:]
        pytest.skip(f"duckdb 1.5.6 cannot be installed here: {''.join(reason)}")
    return place


def test_an_older_duckdb_is_told_so(script: Script, older: Path) -> None:
    done = script("-m", "ccl_sql", "list", paths=(older, SOURCE.parent))
    assert done.returncode == 1
    said = "error[host]: ccl-sql needs DuckDB 2.0 or newer, and this is 1.5.6"
    assert done.stderr.startswith(said)
    assert "pip install -U" in done.stderr
    module = "import ccl_sql; ccl_sql.metrics()"
    done = script("-c", module, paths=(older, SOURCE.parent))
    assert said in done.stderr


def test_an_older_duckdb_is_told_so_by_the_extension(script: Script, older: Path) -> None:
    load = (
        "import duckdb, sys\n"
        "con = duckdb.connect(config={'allow_unsigned_extensions': 'true'})\n"
        "print(duckdb.__version__)\n"
        "con.execute(f\"LOAD '{sys.argv[1]}'\")\n"
    )
    done = script("-c", load, str(ccl_sql.extension()), paths=(older,))
    assert done.stdout == "1.5.6\n"
    assert done.returncode == 1
    assert "2.0 or newer" in done.stderr.splitlines()[-2] + done.stderr.splitlines()[-1]


def test_no_duckdb_is_told_so(script: Script, tmp_path: Path) -> None:
    (tmp_path / "_duckdb.py").write_text("raise ModuleNotFoundError('no', name='_duckdb')")
    (tmp_path / "duckdb.py").write_text("raise ModuleNotFoundError('no', name='duckdb')")
    done = script("-m", "ccl_sql", "list", paths=(tmp_path, SOURCE.parent))
    assert done.returncode == 1
    assert done.stderr.startswith("error[host]: ccl-sql needs the Python package duckdb, and")


def test_a_duckdb_of_long_ago_is_told_so(script: Script, tmp_path: Path) -> None:
    (tmp_path / "_duckdb.py").write_text("raise ModuleNotFoundError('no', name='_duckdb')")
    (tmp_path / "duckdb.py").write_text("__version__ = '0.9.2'")
    done = script("-m", "ccl_sql", "list", paths=(tmp_path, SOURCE.parent))
    assert done.returncode == 1
    assert "this is 0.9.2" in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "the extension is missing"),
        (b"", "is not a DuckDB extension"),
        (b"x" * 4096, "is not a DuckDB extension"),
        ("half", "is not a DuckDB extension"),
        ("other", "cannot load the extension"),
    ],
)
def test_a_broken_extension_is_told_so(
    script: Script, tmp_path: Path, content: bytes | str | None, said: str
) -> None:
    package = tmp_path / "it's" / "ccl_sql"
    whole = ccl_sql.extension().read_bytes()
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("*.duckdb_extension"))
    if content == "half":
        content = whole[: len(whole) // 2]
    elif content == "other":
        content = b"no library" * 100 + whole[-512:]
    if isinstance(content, bytes):
        (package / "ccl_sql.duckdb_extension").write_bytes(content)
    done = script("-m", "ccl_sql", "list", paths=(package.parent,))
    assert done.returncode == 1
    assert done.stderr.startswith("error[host]: ")
    assert said in done.stderr
    assert "hint: " in done.stderr
    done = script("-c", "import ccl_sql; ccl_sql.metrics()", paths=(package.parent,))
    assert "ccl_sql._errors.Error: error[host]: " in done.stderr


def test_a_folder_with_a_quote_is_a_folder(script: Script, tmp_path: Path) -> None:
    package = tmp_path / "it's; DROP" / "ccl_sql"
    shutil.copytree(SOURCE, package)
    done = script("-m", "ccl_sql", "--version", paths=(package.parent,))
    assert done.returncode == 0, done.stderr
    done = script("-c", "import ccl_sql; print(len(ccl_sql.metrics()))", paths=(package.parent,))
    assert int(done.stdout) > 100, done.stderr


def test_a_host_that_wants_signatures_is_told_so() -> None:
    with duckdb.connect() as con, pytest.raises(ccl_sql.Error) as raised:
        ccl_sql.load(con)
    assert raised.value.code == "host"
    assert "allow_unsigned_extensions" in str(raised.value.hint)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_functions_answer_in_a_host_of_ones_own(data: Path) -> None:
    with duckdb.connect(config=UNSIGNED) as con:
        ccl_sql.load(con)
        ccl_sql.load(con)
        spans = "[{'start_ns': 0, 'end_ns': 10}, {'start_ns': 5, 'end_ns': 12}]"
        assert con.execute(f"SELECT interval_union_ns({spans})").fetchall() == [(12,)]
        found = con.execute("SELECT trace FROM ccl_traces(data := ?)", [str(data)]).fetchall()
        assert len(found) == 2
        names = con.execute("CALL ccl_open(?)", [str(data)]).fetchall()
        assert ("collective_calls", "table") in [(name, kind) for name, kind, *_ in names]
        count = con.execute("SELECT count(*) FROM collectives").fetchall()
        # Those of another connection to the same database are the same.
        with con.cursor() as other:
            assert other.execute("SELECT count(*) FROM collectives").fetchall() == count


def test_metrics_are_tables_of_a_host(data: Path) -> None:
    with duckdb.connect(config=UNSIGNED) as con:
        ccl_sql.load(con)
        con.execute("CALL ccl_open(?)", [str(data)])
        traces = con.execute("SELECT trace FROM ccl_traces(data := ?)", [str(data)]).fetchall()
        rows = con.execute(
            "SELECT trace, c.total_calls, l.last_rank_counts"
            " FROM Coll_Call_Num c JOIN straggler_lag l USING (trace)"
        ).fetchall()
        assert sorted(row[:1] for row in rows) == sorted(traces)
        said = {
            trace: (value, json.loads(details))
            for trace, value, details in con.execute(
                "SELECT trace, value, details FROM ccl_metric('coll_call_num', data := ?)",
                [str(data)],
            ).fetchall()
        }
        for trace, calls, *_ in rows:
            assert calls == said[trace][0]
        one = traces[0][0]
        called = "SELECT trace FROM metric('straggler_lag', align := false, trace := ?)"
        assert con.execute(called, [one]).fetchall() == [(one,)]
        # A table of the host's own comes first, and another word is no metric.
        con.execute("CREATE TABLE mfu AS SELECT 7 AS x")
        assert con.execute("FROM mfu").fetchall() == [(7,)]
        with pytest.raises(duckdb.CatalogException):
            con.execute("FROM no_such_metric")
        for call, text in [
            ("metric('mfuu')", "did you mean"),
            ("metric('mfu', top := 1)", "has no parameter"),
            ("metric('mfu', nonsense := 1)", "nonsense"),
            ("metric(NULL)", "one name"),
        ]:
            with pytest.raises(duckdb.Error, match=text):
                con.execute(f"FROM {call}")
        reason = "SELECT null_reason FROM metric('mfu') WHERE mfu_pct IS NULL"
        assert all(text for (text,) in con.execute(reason).fetchall())
        # All that the host locks away is locked away from them.
        con.execute("SET enable_external_access = false")
        with pytest.raises(duckdb.Error, match="enable_external_access"):
            con.execute("FROM straggler_lag")


def test_two_databases_have_it_at_once(data: Path) -> None:
    one, two = (duckdb.connect(config=UNSIGNED) for _ in range(2))
    for con in (one, two):
        ccl_sql.load(con)
    sql, path = "SELECT value FROM ccl_metric('coll_call_num', trace := ?, data := ?)", str(data)
    for con in (one, two):
        assert con.execute(sql, [LLAMA.name, path]).fetchall() == [(112.0,)]
    one.close()
    assert two.execute(sql, [LLAMA.name, path]).fetchall() == [(112.0,)]
    two.close()


def opened_elsewhere(database: Path) -> subprocess.CompletedProcess[str]:
    code = "import duckdb, sys; print(duckdb.connect(sys.argv[1]).sql('FROM t').fetchall())"
    return subprocess.run(
        [sys.executable, "-c", code, str(database)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_file_is_let_go_when_its_host_closes_it(tmp_path: Path) -> None:
    database = tmp_path / "a.duckdb"
    for turn in range(3):
        con = duckdb.connect(database, config=UNSIGNED)
        ccl_sql.load(con)
        con.execute("CREATE OR REPLACE TABLE t AS SELECT ? AS turn", [turn])
        con.close()
        # In this process it can be opened at once.
        with duckdb.connect(database, config=UNSIGNED) as again:
            assert again.execute("FROM t").fetchall() == [(turn,)]
            ccl_sql.load(again)
            assert len(again.execute("FROM ccl_metrics()").fetchall()) > 100
    begin = time.monotonic()
    while (done := opened_elsewhere(database)).returncode and time.monotonic() - begin < 10:
        time.sleep(0.1)
    assert done.stdout == "[(2,)]\n", done.stderr


def test_views_stay_in_a_file(tmp_path: Path, data: Path) -> None:
    database = tmp_path / "a.duckdb"
    with ccl_sql.connect(data, database=database, schema="it's") as con:
        found = con.execute('SELECT count(*) FROM "it\'s".collectives').fetchall()
    with duckdb.connect(database, config=UNSIGNED) as con:
        ccl_sql.load(con)
        assert con.execute('SELECT count(*) FROM "it\'s".collectives').fetchall() == found
