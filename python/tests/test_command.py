"""The command: it is the program, whoever started it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import COMMAND, LLAMA, Run

posix = pytest.mark.skipif(
    os.name != "posix", reason="signals and names of files are those of POSIX"
)

#: A query that does not end in the time of a test.
ENDLESS = "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range <> b.range"


def ended_in_time(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What a process has said that was told to end; one that goes on is killed, and fails."""
    try:
        return process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def test_a_metric_of_a_path_is_answered(run: Run) -> None:
    done = run("metric", "coll_call_num", "--trace", LLAMA, "--format", "value", check=True)
    assert done.stdout == b"112\n"
    assert done.stderr.startswith(b"llama-tiny-fsdp2-tp2-4: kineto, 4 ranks, 1340 events")


def test_exit_codes_are_those_of_the_program(run: Run, data: Path) -> None:
    assert run("--version").returncode == 0
    assert run("--help").stdout.startswith(b"Embedded SQL analytics")
    done = run("metric", "nope", "--data", data)
    assert done.returncode == 1
    assert done.stderr.startswith(b"error[metric-unknown]: there is no metric `nope`\n")
    done = run("metrik")
    assert done.returncode == 2
    assert b"ccl-sql [OPTIONS] <COMMAND>" in done.stderr
    assert run().returncode == 2
    done = run("--errors", "json", "metric", "nope", "--data", data)
    assert json.loads(done.stderr)["code"] == "metric-unknown"
    done = run("metrik", "--errors=json")
    assert json.loads(done.stderr)["code"] == "usage"


def test_words_reach_the_program_as_they_are(run: Run) -> None:
    sql = "SELECT 'größe 数  \"x\" $HOME *' AS a"
    done = run("sql", sql, "--format", "csv", check=True)
    assert done.stdout.decode() == 'a\n"größe 数  ""x"" $HOME *"\n'
    done = run("sql", "")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        b"error[usage]: there is no statement",
    )


@posix
def test_a_name_that_is_no_utf8_is_a_name(run: Run, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/tr\xffce"
    try:
        shutil.copytree(LLAMA, os.fsdecode(name))
    except OSError:
        pytest.skip("this file system has no names that are no UTF-8")
    done = run("ingest", name, check=True)
    assert b"4 ranks, 1340 events" in done.stderr
    for locale in ("C", "C.UTF-8", "POSIX"):
        done = run("ingest", name, env={"LC_ALL": locale}, check=True)
        assert b"unchanged, 4 ranks, 1340 events" in done.stderr
    assert b": 112 calls" in run("metric", "coll_call_num", check=True).stdout


@posix
def test_ctrl_c_ends_it_as_it_ends_any_program(tmp_path: Path) -> None:
    began = time.monotonic()
    with subprocess.Popen(
        [*COMMAND, "sql", ENDLESS], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        out, err = ended_in_time(process)
    assert process.returncode == -signal.SIGINT
    assert out == b""
    assert b"Traceback" not in err
    assert b"KeyboardInterrupt" not in err
    assert time.monotonic() - began < 20


@posix
@pytest.mark.parametrize("pause", [0.0, 0.02, 0.05, 0.1, 0.2])
def test_ctrl_c_at_the_start_ends_it(tmp_path: Path, pause: float) -> None:
    # Python ends in its own way while it starts itself, or loses the first one: who presses again
    # then ends it.
    with subprocess.Popen(
        [*COMMAND, "sql", ENDLESS], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=10)
            lost = False
        except subprocess.TimeoutExpired:
            lost = True
            process.send_signal(signal.SIGINT)
        _, err = ended_in_time(process)
    assert process.returncode != 0
    # Nobody but Python loses one, and it says so.
    assert not lost or b"Traceback" in err


@posix
def test_who_ignores_ctrl_c_is_not_ended(tmp_path: Path) -> None:
    script = 'trap "" INT; echo ignored; exec "$@"'
    with subprocess.Popen(
        ["sh", "-c", script, "sh", *COMMAND, "sql", "SELECT count(*) FROM range(5000000000)"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ignored\n"
        # While Python starts, and when the program listens.
        for pause in (0.1, 0.4, 1.0):
            time.sleep(pause)
            process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert b"5000000000" in out


@posix
def test_a_closed_pipe_is_nobodys_fault(tmp_path: Path, data: Path) -> None:
    sql = "SELECT range AS a, repeat('x', 100) AS b FROM range(100000)"
    with subprocess.Popen(
        [*COMMAND, "sql", sql, "--format", "csv", "--data", data],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"a,b\n"
        process.stdout.close()
        err = process.stderr.read()
        process.wait(timeout=60)
    assert (process.returncode, err) == (0, b"")


@posix
def test_closed_streams_are_no_files(tmp_path: Path) -> None:
    script = 'exec "$@" <&- >&- 2>&-'
    words = ["sh", "-c", script, "sh", *COMMAND, "ingest", str(LLAMA)]
    done = subprocess.run(words, cwd=tmp_path, check=False, timeout=60)
    assert done.returncode == 0
    words = [*COMMAND, "metric", "coll_call_num", "--format", "value"]
    done = subprocess.run(words, cwd=tmp_path, check=True, timeout=60, stdout=subprocess.PIPE)
    assert done.stdout == b"112\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_a_full_device_is_an_error(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "list", "metrics"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"error[io]:")


def test_standard_input_is_read(run: Run, data: Path) -> None:
    done = run("shell", "--data", data, stdin=b"SELECT 40 + 2 AS answer;\n")
    assert done.returncode == 0
    assert b"42" in done.stdout


def test_completions_name_the_command(run: Run) -> None:
    done = run("completions", "bash", check=True)
    assert b"ccl-sql" in done.stdout
    assert b"python" not in done.stdout
    done = run(
        "--",
        "ccl-sql",
        "metr",
        env={"CCL_SQL_COMPLETE": "bash", "_CLAP_COMPLETE_INDEX": "1", "_CLAP_IFS": "\n"},
    )
    assert (done.returncode, done.stdout) == (0, b"metric")


def test_a_folder_with_modules_changes_nothing(run: Run, tmp_path: Path) -> None:
    if COMMAND[0] == sys.executable:
        pytest.skip("`python -m` itself looks into the folder; the script `ccl-sql` does not")
    (tmp_path / "_duckdb.py").write_text("raise SystemExit(9)")
    assert run("--version").returncode == 0
