"""Metrics, and what there is of them and of traces."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from ccl_sql import _host
from ccl_sql._bar import Bar
from ccl_sql._table import Table, answer
from ccl_sql._trace import Selector, folder, selected, selector
from ccl_sql._words import Option, Value, text, words


def metric(
    names: str | Iterable[str],
    trace: Selector | Iterable[Selector] | None = None,
    *,
    data: str | os.PathLike[str] | None = None,
    options: Mapping[str, Option] | None = None,
    progress: bool | None = None,
    **params: Value,
) -> Table:
    """Computes metrics of traces.

    Args:
        names: A metric, as `metrics()` lists them, or several, also with commas; `NAME@VERSION`
            for an earlier version, and `'*'` for all.
        trace: A trace, or several: names, beginnings of names, patterns (`'run_*'`), paths, or
            what `ingest` returned. All traces where it is None.
        data: The data directory; that of the trace where it is None, else `CCL_SQL_DATA` of the
            environment, else `ccl-data`.
        options: Further options of the command `ccl-sql metric`: `{'profile_mode': 'torch'}`.
        progress: False to show none, where traces are ingested first.
        **params: Parameters of the metrics: `n_chips=8`.

    Returns:
        A row for each trace and metric: `trace`, `metric`, `version`, `value` in `unit`, `reason`
        where there is no value, `answer` (words beside the value), `warnings`, `details` and
        `params` (JSON, in Python dictionaries), `sql_sha256` and `fingerprint` of what was
        computed from what. Of one metric and one trace `.value` is the number.

    Raises:
        Error: `metric-unknown`, `trace-unknown`, `param-invalid`, `usage`.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    traces = selected(trace)
    arguments = [f"--trace={selector(t)}" for t in traces] + words(options or {})
    arguments += [f"--param={text(key)}={text(value)}" for key, value in params.items()]
    return _table(
        "ccl_metric",
        [[text(name) for name in wanted]],
        {"data": folder(data, traces), "options": arguments},
        ["trace", "metric", "value", "unit", "answer", "reason"],
        Bar(progress),
    )


def diagnose(
    trace: Selector | Iterable[Selector] | None = None,
    *,
    data: str | os.PathLike[str] | None = None,
    options: Mapping[str, Option] | None = None,
    progress: bool | None = None,
    **params: Value,
) -> Table:
    """Says what is wrong with traces, and what to fix first.

    Args:
        trace: As `metric` takes it.
        data: As `metric` takes it.
        options: Further options of the command `ccl-sql diagnose`: `{'least': 0}` for the findings
            that gain less of a step than one percent too.
        progress: False to show none, where traces are ingested first.
        **params: Parameters of the diagnoses.

    Returns:
        A row for each finding, of each trace the largest gain first: `trace`, `diagnosis`,
        `version`, `finding` (a sentence), `where` (a dictionary), `time_per_step_ms`, `gain_ms`
        and `gain_pct` (the most that a step could lose), `confidence`, `limits`, `advice`,
        `evidence` (a query) and `shown` (the metric or view that shows it).

    Raises:
        Error: `trace-unknown`, `param-invalid`, `usage`.
    """
    traces = selected(trace) or ["*"]
    arguments = words(options or {})
    arguments += [f"--param={text(key)}={text(value)}" for key, value in params.items()]
    return _table(
        "ccl_diagnose",
        [[selector(t) for t in traces]],
        {"data": folder(data, traces), "options": arguments},
        ["trace", "finding", "gain_ms", "gain_pct", "confidence", "advice"],
        Bar(progress),
    )


def metrics() -> Table:
    """The metrics that there are, a row each: `metric`, `area`, `unit`, `summary` and more."""
    return _table("ccl_metrics", [], {}, ["metric", "area", "unit", "summary"])


def traces(data: str | os.PathLike[str] | None = None) -> Table:
    """The traces of a data directory, a row each: `trace`, `source`, `ranks`, `events` and more.

    Args:
        data: The data directory; `CCL_SQL_DATA` of the environment where it is None, else
            `ccl-data`. One that is not there has no traces.
    """
    shown = ["trace", "source", "ranks", "events", "findings", "path"]
    return _table("ccl_traces", [], {"data": _host.folder(data)}, shown)


def _table(
    function: str,
    arguments: Sequence[object],
    named: Mapping[str, object],
    shown: Sequence[str],
    bar: Bar | None = None,
) -> Table:
    __tracebackhide__ = True
    with bar or Bar(False) as progress:
        return _host.call(
            lambda cursor: answer(cursor, function, arguments, named, shown), progress.look
        )
