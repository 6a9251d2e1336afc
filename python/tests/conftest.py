"""What the tests share: the module must be installed, with its extension.

`CCL_SQL_PROGRAM` names another program to test as the command.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

import ccl_sql

ROOT = Path(__file__).resolve().parent.parent.parent
LLAMA = ROOT / "trace_collection" / "llama-tiny-fsdp2-tp2-4"
BALANCED = ROOT / "trace_collection" / "llama-tiny-fsdp2-tp2-4-balanced"

# What is started in the background ignores Ctrl-C, and so would all that it starts.
if os.name == "posix" and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: The command: words of a command line.


def command() -> list[str]:
    """The words that start the command: the script that was installed, or the module."""
    if named := os.environ.get("CCL_SQL_PROGRAM"):
        return shlex.split(named)
    script = shutil.which("ccl-sql", path=os.path.dirname(sys.executable))
    return [script] if script else [sys.executable, "-m", "ccl_sql"]


COMMAND = command()


class Run(Protocol):
    """Runs the command in a folder of its own."""

    def __call__(
        self,
        *words: str | bytes | os.PathLike[str],
        check: bool = False,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs it with words; with `check` it must succeed."""


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with two traces, which no test changes."""
    place = tmp_path_factory.mktemp("data") / "ccl-data"
    ccl_sql.ingest([LLAMA, BALANCED], place, no_sync=True)
    return place


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The command, in a folder of its own."""

    def runs(
        *words: str | bytes | os.PathLike[str],
        check: bool = False,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            input=stdin,
            capture_output=True,
            check=False,
            timeout=120,
        )
        if check:
            assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done

    return runs
