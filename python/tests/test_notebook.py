"""Notebooks: the one of the docs, bars, frames, and the button that stops a cell."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import BALANCED, LLAMA, ROOT

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def client(notebook: Any, folder: Path) -> Any:
    """A client that runs a notebook in a folder, with this Python."""
    resources = {"metadata": {"path": str(folder)}}
    return nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources=resources
    )


def run_cells(folder: Path, *sources: str) -> list[Any]:
    """The outputs of cells."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client(notebook, folder).execute()
    return [cell.outputs for cell in notebook.cells]


def plain(outputs: list[Any]) -> str:
    """What a cell says, with numbers rounded: sums depend on the order of threads."""
    text = "\n".join(str(output.get("data", {}).get("text/plain", "")) for output in outputs)
    return re.sub(r"\d+\.\d+", lambda number: f"{float(number.group()):.6g}", text).strip()


def test_the_notebook_of_the_docs_runs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    stored = [cell.outputs for cell in cells]
    assert len(cells) <= 10
    assert NOTEBOOK.stat().st_size < 40_000
    client(notebook, NOTEBOOK.parent).execute()
    for cell, before in zip(cells, stored, strict=True):
        # Nothing is printed, and what is kept in the file is what comes out.
        assert {output.output_type for output in cell.outputs} <= {"execute_result", "display_data"}
        if before:
            now = [o for o in cell.outputs if o.output_type == "execute_result"]
            assert plain(before) == plain(now), cell.source
    pages = [o.data["text/html"] for cell in cells[-2:] for o in cell.outputs if "data" in o]
    assert sum(page.startswith('<iframe sandbox="allow-scripts"') for page in pages) == 2


def test_a_bar_comes_and_goes(tmp_path: Path) -> None:
    outputs = run_cells(
        tmp_path,
        "from ccl_sql import _bar\n_bar.PATIENCE = 0\nimport ccl_sql",
        "shown = []\nupdate = _bar.Notebook.update\n"
        "_bar.Notebook.update = lambda self, page: (shown.append(page), update(self, page))\n"
        f"traces = ccl_sql.ingest({str(LLAMA)!r}, 'a')",
        f"len(shown), shown[-1:], ccl_sql.ingest({str(BALANCED)!r}, 'b', progress=False)",
    )
    for output in outputs[1]:
        assert output.output_type == "display_data"
        assert output.data["text/html"] == ""
    assert len(outputs[2]) == 1
    said = outputs[2][0].data["text/plain"]
    # The ingest of a small trace may end before anybody looks.
    assert said.startswith("(0, [], [<Trace") or ", [''], [<Trace" in said.replace("\n", "")


def test_errors_are_short(tmp_path: Path) -> None:
    code = "import ccl_sql\nccl_sql.metric('nope', data='no')"
    with pytest.raises(nbclient.exceptions.CellExecutionError) as raised:
        run_cells(tmp_path, code)
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(raised.value))
    assert "error[metric-unknown]: there is no metric `nope`" in text
    assert "duckdb" not in text.lower()
    assert "During handling" not in text


@pytest.mark.skipif(os.name != "posix", reason="the kernel is stopped by a signal")
def test_the_button_of_the_notebook_stops_a_call(tmp_path: Path) -> None:
    endless = (
        "from ccl_sql import _host\n"
        "sql = 'SELECT count(*) FROM range(100000000) a, range(100000000) b "
        "WHERE a.range <> b.range'\n"
        "try:\n    _host.call(lambda cursor: cursor.execute(sql).fetchall())\n"
        "except KeyboardInterrupt:\n    print('stopped')\n"
        "len(__import__('ccl_sql').metrics()) > 100"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(endless)])
    runner = client(notebook, tmp_path)

    def press() -> None:
        asyncio.run(runner.km.interrupt_kernel())

    def begun(**_: object) -> None:
        threading.Timer(2, press).start()

    runner.on_cell_execute = begun
    runner.execute()
    outputs = notebook.cells[0].outputs
    assert [output.get("text") for output in outputs][:1] == ["stopped\n"]
    assert outputs[-1].data["text/plain"] == "True"
