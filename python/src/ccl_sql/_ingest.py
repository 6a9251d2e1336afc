"""Ingests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

from ccl_sql import _host
from ccl_sql._bar import Bar
from ccl_sql._errors import parsed
from ccl_sql._trace import Finding, Trace
from ccl_sql._words import Option, path, words


def ingest(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    data: str | os.PathLike[str] | None = None,
    *,
    progress: bool | None = None,
    **options: Option,
) -> list[Trace]:
    """Reads traces into the data directory. What is there and unchanged is not read again.

    In a notebook a bar shows how far it is, in a terminal a line. Ctrl-C, or the button of the
    notebook, stops it; files that were read whole are kept for a day, and the same call goes on
    with them.

    Args:
        paths: A file or folder with traces, or several; all below a folder is looked at.
        data: The data directory, which is made where it is not there; `CCL_SQL_DATA` of the
            environment where it is None, else `ccl-data`.
        progress: False to show none.
        **options: Those of the command `ccl-sql ingest`: `name='run_a'`, `keep_partial=True`,
            `rank={6: 'rank5_retry.json.gz'}`, `memory=['a.pickle', 'b.pickle']`, `force=True`.

    Returns:
        The traces, each with what was found in its files.

    Raises:
        Error: `nothing-found`, `usage`, and what is wrong with a file. Its `others` are the errors
            of other files, and its `made` the traces that were made all the same.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    place = _host.folder(data)
    call = "ccl_ingest", [[path(p) for p in given]], {"data": place, "options": words(options)}
    sql, values = _host.called(*call)

    def work(cursor: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
        found = _host.execute(cursor, f"FROM {sql}", values)
        names = [column[0] for column in found.description or []]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    with Bar(progress) as bar:
        rows = _host.call(work, bar.look)
    made = [_trace(row, Path(place)) for row in rows if row["error"] is None]
    errors = [parsed(row["error"]) for row in rows if row["error"] is not None]
    if errors:
        first = errors[0]
        first.others = (*first.others, *errors[1:])
        first.made = tuple(made)
        raise first
    return made


def _trace(row: dict[str, Any], data: Path) -> Trace:
    findings = json.loads(row["findings"] or "[]")
    fields = ("code", "severity", "message", "file", "count", "offset")
    return Trace(
        name=row["trace"],
        data=data,
        sources=tuple(row["source"].split("+")) if row["source"] else (),
        findings=tuple(Finding(**{name: found[name] for name in fields}) for found in findings),
        **{name: row[name] for name in ("ranks", "ranks_read", "events", "bytes")},
        **{name: row[name] for name in ("seconds", "unchanged")},
    )
