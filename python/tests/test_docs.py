"""The examples of the page run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import ROOT

PAGE = ROOT / "docs" / "python.md"


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trace_collection").symlink_to(ROOT / "trace_collection")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CCL_SQL_DATA", raising=False)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)  # noqa: S102
